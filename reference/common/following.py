"""What a running run says, read from its growing log and from the small progress file beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runlog import keys

_TOKEN = b":::MLLOG "


@dataclass
class Following:
    """The state of one run. `update` reads what was added to the log since the last call; nothing here ever raises."""

    log: Path
    progress_file: Path
    target: float | None = None
    started: bool = False  # run_start was seen
    value: float | None = None  # the last eval_accuracy
    at: str = ""  # the progress it belongs to
    status: str | None = None  # of run_stop
    reason: str = ""
    time_ms: int | None = None
    _read: int = field(default=0, repr=False)

    def update(self) -> None:
        try:
            with self.log.open("rb") as file:
                file.seek(self._read)
                added = file.read()
        except OSError:
            return
        whole = added.rfind(b"\n") + 1  # the rest is read when its line is complete
        self._read += whole
        for line in added[:whole].splitlines():
            if line.startswith(_TOKEN):
                try:
                    self._take(json.loads(line[len(_TOKEN) :]))
                except (ValueError, KeyError, TypeError):
                    continue

    def _take(self, record: dict[str, Any]) -> None:
        key, value, metadata = record["key"], record["value"], record["metadata"]
        if key == keys.QUALITY_TARGET:
            self.target = value
        elif key == keys.RUN_START:
            self.started = True
        elif key == keys.EVAL_ACCURACY:
            self.value = float(value)
            epoch, samples = metadata.get(keys.EPOCH_NUM), metadata.get(keys.SAMPLES_COUNT)
            self.at = f"epoch {epoch}" if epoch is not None else f"{samples:,} samples"
        elif key == keys.RUN_STOP:
            self.status, self.reason = metadata[keys.STATUS], metadata.get(keys.REASON, "")
        elif key == keys.TIME_TO_TRAIN_MS:
            self.time_ms = int(value)

    def doing(self) -> str:
        """What the run does right now: "epoch 3, 41 %", or "starting"."""
        try:
            said = json.loads(self.progress_file.read_text())
            label, done, total = str(said["label"]), int(said["done"]), said["total"]
        except (OSError, ValueError, KeyError, TypeError):
            return "starting" if self.value is None else self.at
        return f"{label}, {100 * done // total} %" if total else f"{label}, {done:,}"

    def quality(self) -> str:
        """The last value beside the target: "0.713 of 0.780"."""
        value = "-" if self.value is None else f"{self.value:.4g}"
        return value if self.target is None else f"{value} / {self.target:g}"
