"""The data of a run, whichever it is: MovieLens-100K, the generator, or Criteo's logs (settings.dataset)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reference.common import runs, sources
from reference.common.errors import SetupError

from . import criteo, movielens, synthetic
from .samples import Batch, Samples, batches, join

DATASETS = ("movielens-100k", "criteo-synthetic", "criteo")
LAYOUT = "Criteo's day_0 ... day_23 (plain or .gz), the Kaggle train.txt, or train_data.bin and test_data.bin"


@dataclass(frozen=True)
class ClickData:
    """Training and held-out samples, as functions that start a pass over them: what fits memory comes in one piece."""

    train: Callable[[], Iterable[Samples]]
    held_out: Callable[[], Iterable[Samples]]
    click_probability: NDArray[np.float64] | None = None  # (held-out samples,), where a generator knows it


def shape(run: runs.Run) -> tuple[int, tuple[int, ...]]:
    """Numbers a sample, and rows of each table: what a model must know before the data is loaded."""
    kind = run.settings.dataset
    if kind == "criteo":
        return criteo.NUMBERS, criteo.find(run.require_data_dir(LAYOUT), run.settings.max_ind_range).table_rows
    if kind == "criteo-synthetic":
        return synthetic.NUMBERS, synthetic.TABLE_ROWS
    if kind == "movielens-100k":
        return len(movielens.NUMBERS), movielens.table_rows(movielens_folder(run)[0])
    raise SetupError(f"--dataset {kind}: unknown; known are {', '.join(DATASETS)}")


def load(run: runs.Run) -> ClickData:
    """Load the data (Criteo: open it), and tell the run how much there is and where it is from."""
    settings = run.settings
    if settings.held_out not in ("evaluation", "validation"):
        raise SetupError(f"--held-out {settings.held_out}: must be evaluation or validation")
    if settings.held_out == "validation" and settings.dataset != "movielens-100k":
        raise SetupError("--held-out validation: only movielens-100k has a validation part")
    if settings.dataset == "criteo":
        return load_criteo(run)
    probability = None
    if settings.dataset == "movielens-100k":
        folder, origin = movielens_folder(run)
        train, held_out = movielens.load(folder, settings.held_out)
    else:
        train, held_out, probability = synthetic.load(settings.generated_train_samples, settings.generated_eval_samples)
        arrays = [array for part in (train, held_out) for array in (part.labels, part.dense, part.categories)]
        origin = [sources.generated("criteo-synthetic", synthetic.VERSION, *arrays)]
    run.describe_data(len(train), len(held_out), origin)
    return ClickData(lambda: [train], lambda: [held_out], probability)


def movielens_folder(run: runs.Run) -> tuple[Path, list[sources.Source]]:
    """The folder of the three files and what the log says of them: --data-dir, or else the recbole wheel."""
    if run.data_dir is not None:
        layout = f"the files {', '.join(movielens.FILES)}"
        folder = run.require_data_dir(layout)
        absent = [name for name in movielens.FILES if not (folder / name).is_file()]
        if absent:
            raise SetupError(f"--data-dir {folder.name}: no {', '.join(absent)}; expected: {layout}")
        files = [folder / name for name in movielens.FILES]
        return folder, [sources.data_file(file, "movielens-100k", "given by --data-dir", folder) for file in files]
    inside = "dataset_example/ml-100k"
    found = [sources.package_file("recbole", "1.2.1", f"{inside}/{name}") for name in movielens.FILES]
    return found[0][0].parent, [source for _, source in found]


def load_criteo(run: runs.Run) -> ClickData:
    """Open a Criteo folder. Every load starts a new numbering of the codes, so that each run makes its own."""
    layout = criteo.find(run.require_data_dir(LAYOUT), run.settings.max_ind_range)
    train, held_out = criteo.parts(layout)
    count, held_count = (sum(part.stop - part.start for part in parts) for parts in (train, held_out))
    if not count or not held_count:
        raise SetupError(f"{layout.name}: {count} rows to train on and {held_count} to evaluate, both must be there")
    run.describe_data(count, held_count, [criteo_source(layout)])
    reader = criteo.Reader(layout, run.settings.max_ind_range)
    return ClickData(lambda: reader.pieces(train), lambda: reader.pieces(held_out))


def criteo_source(layout: criteo.Layout) -> sources.Source:
    """The folder's hash over each file's name, size and first MiB: a terabyte is not read twice for its name."""
    total = hashlib.sha256()
    for path in layout.files:
        with path.open("rb") as file:
            start = hashlib.sha256(file.read(1 << 20)).hexdigest()
        total.update(f"{path.name}\0{path.stat().st_size}\0{start}\n".encode())
    version = "sha256 of the names, sizes and first MiB of its files"
    return sources.Source(layout.name, version, layout.files[0].parent.name, total.hexdigest())


def stream(data: ClickData, run: runs.Run) -> Iterator[Batch]:
    """Training batches without end, of global_batch_size samples; only the last of a pass may be smaller.

    Samples are shuffled inside each piece: wholly where the data is one piece, within some hundred thousand neighbours
    where it streams from files.
    """
    size = run.settings.global_batch_size
    rng = np.random.default_rng(run.seed)
    while True:
        rest: Samples | None = None
        for piece in data.train():
            piece = piece.take(rng.permutation(len(piece)))
            rest = piece if rest is None else join(rest, piece)
            full = len(rest) - len(rest) % size
            yield from batches(rest.part(0, full), size, run.device)
            rest = rest.part(full, len(rest))
        if rest is not None and len(rest):
            yield from batches(rest, size, run.device)


def evaluation_batches(data: ClickData, run: runs.Run) -> Iterator[Batch]:
    """One pass over all held-out samples, in order."""
    for piece in data.held_out():
        yield from batches(piece, run.settings.eval_batch_size, run.device)
