"""Faces to train on and pairs of other people's faces to judge by: drawn by code, or VGGFace2 and LFW."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from reference.common import runs, seeds, sources

from . import faces, lfw, metric, vggface2

TRAIN_SEED, EVAL_SEED, VALIDATION_SEED, PAIRS_SEED = 1, 2, 3, 4
VALIDATION_EVERY = 20  # VGGFace2: every 20th person is taken out and evaluated instead


@dataclass(frozen=True)
class Size:
    """How much is drawn: people and pictures of each to train on, people of the evaluation, pairs of a kind a fold."""

    identities: int
    pictures: int
    eval_identities: int
    pairs_per_fold: int


SIZES = {"embedded": Size(400, 8, 100, 150), "smoke": Size(12, 4, 20, 10)}


class Pictures(Protocol):
    """Pictures by their rows: a list of rows -> (n, 3, side, side) float32, -1..1."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: Sequence[int]) -> Tensor: ...


class Drawn:
    """Pictures held in memory: (n, side, side, 3) uint8."""

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, rows: Sequence[int]) -> Tensor:
        return scaled(self.pixels[list(rows)])


class Files:
    """Pictures read from disk when they are asked for, squeezed to a square."""

    def __init__(self, paths: Sequence[Path], side: int) -> None:
        self.paths, self.side = list(paths), side

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: Sequence[int]) -> Tensor:
        with ThreadPoolExecutor(max_workers=4) as pool:  # Pillow decodes outside the interpreter's lock
            pixels = list(pool.map(lambda row: self._read(self.paths[row]), rows))
        return scaled(torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous())

    def _read(self, path: Path) -> np.ndarray:
        try:
            from PIL import Image
        except ImportError:
            raise runs.SetupError("pictures are read with Pillow, which is missing\n  pip install pillow") from None
        try:
            with Image.open(path) as image:
                return np.asarray(image.convert("RGB").resize((self.side, self.side), Image.Resampling.BILINEAR))
        except (OSError, SyntaxError, ValueError) as error:  # Pillow raises each of them for damaged files
            raise runs.SetupError(f"{path}: not a readable picture: {error}") from None


@dataclass(frozen=True)
class Faces:
    """Training pictures with the numbers of their people (n,), and the evaluation's pictures with their pairs."""

    train: Pictures
    labels: Tensor
    held_out: Pictures
    pairs: metric.Pairs


class Groups(Sampler[list[int]]):
    """Rows of batches of P people and K pictures of each, P * K = batch_size, in a new order each time.

    A pass shows each person `rounds` times, K pictures each time, none twice before all were shown. The people of a
    batch differ, and are fewer in the last batch of a round; one of a single person, which has nobody to be told from,
    is left out.
    """

    def __init__(self, labels: Tensor, batch_size: int, pictures: int, rounds: int) -> None:
        order = labels.argsort(stable=True)
        self.own = order.split(labels.bincount().tolist())
        self.people, self.pictures, self.rounds = batch_size // pictures, pictures, rounds

    def __len__(self) -> int:
        whole, rest = divmod(len(self.own), self.people)
        return self.rounds * (whole + (rest > 1))

    def __iter__(self) -> Iterator[list[int]]:
        shown = [self._shown(rows) for rows in self.own]
        for turn in range(self.rounds):
            part = slice(turn * self.pictures, (turn + 1) * self.pictures)
            for people in torch.randperm(len(self.own)).split(self.people):
                if len(people) > 1:
                    yield torch.cat([shown[person][part] for person in people.tolist()]).tolist()

    def _shown(self, rows: Tensor) -> Tensor:
        """As many rows as a pass shows of one person: a random order of all, and again where they are too few."""
        wanted = self.rounds * self.pictures
        orders = [rows[torch.randperm(len(rows))] for _ in range(-(-wanted // len(rows)))]
        return torch.cat(orders)[:wanted]


class _Labelled:
    """Item [rows] is (images, labels), the images mirrored half the time and moved by up to `shift` pixels."""

    def __init__(self, pictures: Pictures, labels: Tensor, shift: int) -> None:
        self.pictures, self.labels, self.shift = pictures, labels, shift

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        return augmented(self.pictures[rows], self.shift), self.labels[rows]


def augmented(images: Tensor, shift: int) -> Tensor:
    """Images (n, 3, side, side), mirrored half the time and moved; what moves in repeats the edge."""
    count, side = len(images), images.shape[-1]
    columns = torch.arange(side).expand(count, side)
    columns = torch.where(torch.rand(count, 1) < 0.5, columns.flip(1), columns)
    across, down = torch.randint(-shift, shift + 1, (2, count, 1))
    columns, lines = (columns + across).clamp(0, side - 1), (torch.arange(side) + down).clamp(0, side - 1)
    return images[torch.arange(count)[:, None, None], :, lines[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def scaled(pixels: Tensor) -> Tensor:
    """0..255 to -1..1."""
    return pixels.float() / 127.5 - 1


def batches(found: Faces, groups: Groups, shift: int, workers: int, device: torch.device) -> DataLoader:
    """One pass over the training pictures: (images, labels)."""
    return DataLoader(
        _Labelled(found.train, found.labels, shift),
        batch_size=None,
        sampler=groups,
        num_workers=workers,
        worker_init_fn=seeds.seed_worker,
        pin_memory=device.type == "cuda",
        persistent_workers=workers > 0,
    )


def in_turn(pictures: Pictures, batch_size: int, device: torch.device) -> Iterator[Tensor]:
    """All pictures in their order."""
    for start in range(0, len(pictures), batch_size):
        yield pictures[range(start, min(start + batch_size, len(pictures)))].to(device)


def shrunk(pictures: Pictures, count: int, side: int) -> tuple[Tensor, Tensor]:
    """At most `count` pictures, spread over all, (n, 3, side, side) or as small as they are, and their rows (n,)."""
    rows = torch.arange(0, len(pictures), -(-len(pictures) // count))
    parts = [pictures[part.tolist()] for part in rows.split(250)]
    return torch.cat([F.adaptive_avg_pool2d(part, side) if part.shape[-1] > side else part for part in parts]), rows


def load(run: runs.Run) -> Faces:
    """The data set of the run's profile. With --held-out validation, other people stand in for the evaluation's."""
    hp = run.settings
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    validation = hp.held_out == "validation"
    if run.profile.name == "full":
        found, used = _real(run.require_data_dir(vggface2.LAYOUT), hp.image_size, validation)
    else:
        found, used = _drawn(SIZES[run.profile.name], hp.image_size, VALIDATION_SEED if validation else EVAL_SEED)
    run.describe_data(len(found.train), len(found.pairs), used)
    return found


def _drawn(size: Size, side: int, held_out_seed: int) -> tuple[Faces, list[sources.Source]]:
    train, labels, who = faces.faces(size.identities, size.pictures, side, TRAIN_SEED)
    held_out, people, other = faces.faces(size.eval_identities, size.pictures, side, held_out_seed)
    check_disjoint({row.tobytes() for row in who}, {row.tobytes() for row in other})
    pairs = lfw.drawn(people, lfw.FOLDS, size.pairs_per_fold, PAIRS_SEED)
    used = sources.generated(faces.NAME, faces.VERSION, train, labels, held_out, pairs.rows.numpy())
    return Faces(Drawn(train), torch.from_numpy(labels), Drawn(held_out), pairs), [used]


def _real(data_dir: Path, side: int, validation: bool) -> tuple[Faces, list[sources.Source]]:
    """VGGFace2 without the people of LFW, and LFW's pairs, or pairs of every 20th person of VGGFace2."""
    eval_paths, pairs, people, used = lfw.listed(data_dir)
    paths, labels, names, more = vggface2.listed(data_dir, excluded=people)
    check_disjoint(set(names), people)
    if validation:
        taken = labels % VALIDATION_EVERY == 0
        pairs = lfw.drawn(labels[taken], lfw.FOLDS, lfw.PER_FOLD, PAIRS_SEED)
        eval_paths = [paths[row] for row in np.flatnonzero(taken)]
        paths = [paths[row] for row in np.flatnonzero(~taken)]
        labels = np.unique(labels[~taken], return_inverse=True)[1]
    return Faces(Files(paths, side), torch.from_numpy(labels), Files(eval_paths, side), pairs), [*more, *used]


def check_disjoint(train: set, held_out: set) -> None:
    """Raise ValueError when somebody is to be trained on and evaluated."""
    both = train & held_out
    if both:
        raise ValueError(f"{len(both)} people are in the training set and in the evaluation set")
