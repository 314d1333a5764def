"""Logs and submissions that the tests of scores are about, and how they call the command."""

import csv
import io
import json

from compliance import score_command
from compliance.systems import FIELDS

MINUTE = 60_000
BEGIN = 1_700_000_000_000


def mllog(key, value=None, **metadata):
    """A record of no particular time."""
    return ":::MLLOG " + json.dumps({"time_ms": 1, "event_type": "E", "key": key, "value": value, "metadata": metadata})


def record(time_ms, key, value=None, **metadata):
    members = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return ":::MLLOG " + json.dumps({**members, "metadata": {"file": "train.py", "lineno": 1, **metadata}})


def ssd(path, seed, minutes, *, status="success", accuracy=0.35, shift=0, batch=32, extra=()):
    """A log that round 3.1 accepts as ssd, closed division; `accuracy` at its one evaluation reaches 0.34 or not."""
    begin = BEGIN + seed * 10_000_000 + shift
    settings = {
        "submission_benchmark": "ssd",
        "submission_division": "closed",
        "submission_org": "somebody",
        "submission_platform": "a_system",
        "submission_status": "onprem",
        "cache_clear": True,
        "init_start": None,
        "seed": seed,
        "global_batch_size": batch,
        "gradient_accumulation_steps": 1,
        "opt_name": "adam",
        "opt_base_learning_rate": 0.0001,
        "opt_weight_decay": 0.0,
        "opt_learning_rate_warmup_epochs": 1,
        "opt_learning_rate_warmup_factor": 0.001,
        "train_samples": 117266,
        "eval_samples": 5000,
        **dict(extra),
        "init_stop": None,
    }
    lines = [record(begin, key, value) for key, value in settings.items()]
    stop = begin + int(minutes * MINUTE)
    lines += [record(begin, "run_start"), record(begin + 1, "epoch_start", epoch_num=1)]
    lines += [
        record(stop - 3 - seed, "block_stop", first_epoch_num=1),
        record(stop - 3 - seed, "epoch_stop", epoch_num=1),
    ]
    evaluated = stop - 2 - seed
    lines += [record(evaluated, "eval_start", epoch_num=1), record(evaluated, "eval_accuracy", accuracy, epoch_num=1)]
    lines += [record(stop - 1, "eval_stop", epoch_num=1), record(stop, "run_stop", status=status)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def description(root, system="a_system", **changes):
    said = dict.fromkeys(FIELDS, "N/A")
    said |= {"submitter": "Somebody", "division": "closed", "status": "Available on-premise", "system_name": "A System"}
    said |= {"number_of_nodes": "2", "host_processors_per_node": "2", "host_processor_model_name": "A Processor"}
    said |= {"accelerators_per_node": "8", "accelerator_model_name": "An Accelerator", "framework": "A Framework"}
    said |= {"hw_notes": "", "sw_notes": "a note", **changes}
    path = root / "systems" / f"{system}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({key: value for key, value in said.items() if value is not None}), encoding="utf-8")


TIMES = (10.0, 11.0, 12.0, 13.0, 20.0)
MEAN = 12.0


def submission(root, times=TIMES, **more):
    """<root>/results/a_system/ssd with one log for each of `times` (minutes)."""
    description(root)
    folder = root / "results" / "a_system" / "ssd"
    for number, minutes in enumerate(times):
        ssd(folder / f"result_{number}.txt", number + 1, minutes, **more)
    return folder


def score(capsys, *arguments):
    status = score_command.main([*map(str, arguments), "--jobs", "1"])
    return status, capsys.readouterr()


def cell(capsys, path, *arguments, name="ssd", ruleset="mlperf-3.1"):
    """Exit status, and the one system's result as JSON."""
    status, captured = score(capsys, path, "--ruleset", ruleset, "--format", "json", *arguments)
    (system,) = json.loads(captured.out)["systems"]
    return status, system["scores"][name]


def table(capsys, path, *arguments):
    _, captured = score(capsys, path, "--ruleset", "mlperf-3.1", "--format", "csv", *arguments)
    return list(csv.DictReader(io.StringIO(captured.out)))
