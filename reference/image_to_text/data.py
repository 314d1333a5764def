"""Pictures with their captions: shape scenes made by code, or COCO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from reference.common import runs, seeds, sources

from . import coco, scenes, words

SHIFT = 2  # pixels
TRAIN_SEED, EVAL_SEED, VALIDATION_SEED = 1, 2, 3  # of the scenes


class Pictures(Protocol):
    """picture(index, training) -> (3, h, w) float32, normalised; changed at random where `training` says so."""

    def __len__(self) -> int: ...
    def picture(self, index: int, training: bool) -> Tensor: ...


@dataclass(frozen=True)
class Scenes:
    """Pictures (n, 3, side, side) uint8 in memory, in training moved by up to `SHIFT` pixels, the edges repeated.

    A mirrored scene would be told otherwise; a moved one isn't.
    """

    pictures: Tensor

    def __len__(self) -> int:
        return len(self.pictures)

    def picture(self, index: int, training: bool) -> Tensor:
        picture = self.pictures[index].float() / 127.5 - 1
        if not training:
            return picture
        down, right = (torch.randint(2 * SHIFT + 1, (2,)) - SHIFT).tolist()
        places = torch.arange(picture.shape[-1])
        rows, columns = ((places + moved).clamp(0, len(places) - 1) for moved in (down, right))
        return picture[:, rows][:, :, columns]


@dataclass(frozen=True)
class Part:
    """Pictures, and of each one the captions as texts (words with spaces between) and as numbers."""

    pictures: Pictures
    texts: list[list[str]]
    numbers: list[list[list[int]]]

    def captions(self) -> list[list[int]]:
        return [caption for own in self.numbers for caption in own]


@dataclass(frozen=True)
class Found:
    train: Part
    held_out: Part
    vocabulary: words.Vocabulary

    def batches(self, size: int, workers: int, device: torch.device) -> DataLoader:
        """One pass over all pairs of a training picture and one of its captions: pictures, padded captions."""
        return _loader(Pairs(self.train), size, True, workers, device, _pairs)

    def evaluation(self, size: int, workers: int, device: torch.device, most: int | None = None) -> DataLoader:
        """Held-out pictures, all or the first `most`: pictures, their captions, the row of each caption's picture."""
        return _loader(Whole(self.held_out, most), size, False, workers, device, _whole)


@dataclass(frozen=True)
class Pairs(torch.utils.data.Dataset):
    """Item i is a picture and one caption's numbers."""

    part: Part

    def __post_init__(self) -> None:
        places = [(row, number) for row, own in enumerate(self.part.numbers) for number in range(len(own))]
        object.__setattr__(self, "places", places)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[Tensor, list[int]]:
        row, number = self.places[index]
        return self.part.pictures.picture(row, training=True), self.part.numbers[row][number]


@dataclass(frozen=True)
class Whole(torch.utils.data.Dataset):
    """Item i is a picture and all its captions' numbers."""

    part: Part
    most: int | None

    def __len__(self) -> int:
        return len(self.part.numbers) if self.most is None else min(self.most, len(self.part.numbers))

    def __getitem__(self, index: int) -> tuple[Tensor, list[list[int]]]:
        return self.part.pictures.picture(index, training=False), self.part.numbers[index]


def _pairs(items: Sequence[tuple[Tensor, list[int]]]) -> tuple[Tensor, Tensor]:
    pictures, captions = zip(*items, strict=True)
    return torch.stack(pictures), words.padded(captions)


def _whole(items: Sequence[tuple[Tensor, list[list[int]]]]) -> tuple[Tensor, Tensor, Tensor]:
    pictures, own = zip(*items, strict=True)
    owners = [row for row, captions in enumerate(own) for _ in captions]
    return torch.stack(pictures), words.padded([c for captions in own for c in captions]), torch.tensor(owners)


def _loader(
    items: Pairs | Whole, size: int, shuffle: bool, workers: int, device: torch.device, collate: Callable[[Any], Any]
) -> DataLoader:
    return DataLoader(
        items,
        batch_size=size,
        shuffle=shuffle,
        num_workers=workers,
        worker_init_fn=seeds.seed_worker,
        pin_memory=device.type == "cuda",
        collate_fn=collate,
    )


def load(run: runs.Run) -> Found:
    """The data set of the run's profile. With --held-out validation, other pictures stand in for the evaluation's."""
    hp, profile = run.settings, run.profile
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    validation = hp.held_out == "validation"
    if profile.name == "full":
        folder = run.require_data_dir(coco.LAYOUT)
        (own, own_texts), (other, other_texts), found = coco.load(folder, hp.image_size, validation)
    else:
        count, judged = (number // len(scenes.ONE) for number in (profile.train_samples, profile.eval_samples))
        images, own_texts = scenes.scenes(count, TRAIN_SEED)
        others, other_texts = scenes.scenes(judged, VALIDATION_SEED if validation else EVAL_SEED)
        if {image.tobytes() for image in images} & {image.tobytes() for image in others}:
            raise ValueError("a picture is in the training set and in the held-out set")
        own, other = (Scenes(torch.from_numpy(array).permute(0, 3, 1, 2).contiguous()) for array in (images, others))
        found = [sources.generated(scenes.NAME, scenes.VERSION, images, others)]
    own_words, other_words = (
        [[words.split(text) for text in texts] for texts in part] for part in (own_texts, other_texts)
    )
    vocabulary = words.Vocabulary((caption for part in own_words for caption in part), hp.min_word_count)
    parts = []
    for pictures, told in ((own, own_words), (other, other_words)):
        texts = [[" ".join(caption) for caption in captions] for captions in told]
        parts.append(Part(pictures, texts, [[vocabulary.numbers(c) for c in captions] for captions in told]))
    made = Found(*parts, vocabulary)
    run.describe_data(len(made.train.captions()), len(made.held_out.captions()), found)
    return made
