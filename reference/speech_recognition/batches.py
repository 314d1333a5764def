"""Batches of utterances of similar length, and spectrograms of sound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from . import decoding

READERS, AHEAD = 8, 64  # threads that make spectrograms, and how many utterances they may be ahead


class Batch(NamedTuple):
    """n utterances: features (n, 1, bins, longest) float32, zeros behind the shorter ones; frames (n,) int64 of each.

    labels (all their labels,) int64, one utterance's after the other's, and label_counts (n,) int64; texts, n of them.
    """

    features: Tensor
    frames: Tensor
    labels: Tensor
    label_counts: Tensor
    texts: list[str]


@dataclass(frozen=True)
class Utterances:
    """Utterances with their spectrograms, read when they are asked for.

    read(i) is the spectrogram (bins, frames) of utterance i; lengths (n,) orders them by time; texts are what is said.
    """

    read: Callable[[int], Tensor]
    lengths: np.ndarray
    texts: Sequence[str]
    threads: int = 0  # that read ahead; 0: none

    def __len__(self) -> int:
        return len(self.texts)

    def only(self, index: int) -> Utterances:
        """Just one of them."""
        return Utterances(lambda _: self.read(index), self.lengths[index : index + 1], [self.texts[index]])

    def in_order(self, size: int, device: torch.device) -> Iterator[Batch]:
        """All of them once, the shortest first."""
        return self._batches(self._split(self.lengths, size), device)

    def shuffled(self, size: int, mix: float, device: torch.device) -> Iterator[Batch]:
        """All of them once, in batches of neighbours by length; the batches come in random order, drawn by torch.

        `mix`: lengths are taken as up to this share longer, at random, when neighbours are found. With 0 the same
        utterances meet in every pass.
        """
        stretched = self.lengths * (1 + mix * torch.rand(len(self)).numpy())
        parts = self._split(stretched, size)
        return self._batches([parts[index] for index in torch.randperm(len(parts)).tolist()], device)

    def _split(self, lengths: np.ndarray, size: int) -> list[np.ndarray]:
        order = np.argsort(lengths, kind="stable")
        return [order[start : start + size] for start in range(0, len(order), size)]

    def _batches(self, parts: list[np.ndarray], device: torch.device) -> Iterator[Batch]:
        spectrograms = self._in_turn([int(index) for part in parts for index in part])
        for part in parts:
            yield collate([next(spectrograms) for _ in part], [self.texts[index] for index in part], device)

    def _in_turn(self, indices: list[int]) -> Iterator[Tensor]:
        """read(i) for each index, some of them ahead of time in threads."""
        if not self.threads:
            yield from map(self.read, indices)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            ahead: deque[Future[Tensor]] = deque()
            try:
                for index in indices:
                    ahead.append(pool.submit(self.read, index))
                    if len(ahead) > AHEAD:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:  # also when the pass is left early
                for waiting in ahead:
                    waiting.cancel()


def collate(spectrograms: Sequence[Tensor], texts: Sequence[str], device: torch.device) -> Batch:
    """One batch of spectrograms (bins, frames) and texts."""
    frames = [spectrogram.shape[1] for spectrogram in spectrograms]
    features = torch.zeros(len(frames), 1, spectrograms[0].shape[0], max(frames))
    for row, spectrogram in enumerate(spectrograms):
        features[row, 0, :, : spectrogram.shape[1]] = spectrogram
    labels = [decoding.encode(text) for text in texts]
    counts = [len(each) for each in labels]
    flat = torch.tensor([label for each in labels for label in each], dtype=torch.int64)
    tensors = (features, torch.tensor(frames), flat, torch.tensor(counts))
    return Batch(*(tensor.to(device) for tensor in tensors), list(texts))


def varied(features: Tensor, shift: int, masked: int) -> Tensor:
    """Features (n, 1, bins, frames) as other speakers might have sounded: each utterance's frequencies moved up or down
    by up to `shift` bins, the outermost one repeated, and up to `masked` neighbouring bins set to zero.
    """
    count, _, bins, _ = features.shape
    at = torch.arange(bins)
    if shift:
        moved = (at + torch.randint(-shift, shift + 1, (count, 1))).clamp(0, bins - 1).to(features.device)
        features = features[torch.arange(count, device=features.device)[:, None], :, moved].transpose(1, 2)
    if masked:
        width = torch.randint(masked + 1, (count, 1))
        start = (torch.rand(count, 1) * (bins - width + 1)).long()
        kept = (at < start) | (at >= start + width)
        features = features * kept[:, None, :, None].to(features.device)
    return features


# ---- spectrograms ----------------------------------------------------------------------------------------------------


class Spectrogram:
    """Log-magnitude spectrograms of sound, zero in the mean and of deviation one over each utterance.

    window and hop are samples; mel_bands 0 leaves the window // 2 + 1 frequencies as they are, else they are gathered
    in so many bands, equally wide in mel.
    """

    def __init__(self, sample_rate: int, window: int, hop: int, mel_bands: int) -> None:
        self.window, self.hop = torch.hamming_window(window), hop
        self.bands = mel_filters(sample_rate, window, mel_bands) if mel_bands else None
        self.bins = mel_bands or window // 2 + 1

    def __call__(self, sound: np.ndarray) -> Tensor:
        """(bins, 1 + samples // hop) of sound (samples,), int16 or float; its loudness doesn't matter."""
        wave = torch.from_numpy(np.ascontiguousarray(sound, np.float32))
        wave = wave / wave.square().mean().sqrt().clamp(min=1e-6)
        size = len(self.window)
        if len(wave) <= size // 2:  # too short to be reflected at its ends
            wave = torch.nn.functional.pad(wave, (0, size // 2 + 1 - len(wave)))
        power = torch.stft(wave, size, self.hop, window=self.window, return_complex=True).abs()
        found = torch.log1p(power if self.bands is None else self.bands @ power)
        return (found - found.mean()) / found.std().clamp(min=1e-6)


def mel_filters(sample_rate: int, window: int, bands: int) -> Tensor:
    """Triangular weights (bands, window // 2 + 1), each of sum 1, with their tips equally spaced in mel."""
    tips = np.linspace(0, 2595 * np.log10(1 + sample_rate / 2 / 700), bands + 2)
    tips = 700 * (10 ** (tips / 2595) - 1)
    left, middle, right = tips[:-2, None], tips[1:-1, None], tips[2:, None]
    frequencies = np.linspace(0, sample_rate / 2, window // 2 + 1)
    weights = np.minimum((frequencies - left) / (middle - left), (right - frequencies) / (right - middle)).clip(0)
    narrow = weights.sum(axis=1) == 0  # a band between two frequencies takes the nearest one
    weights[narrow, np.abs(frequencies - middle).argmin(axis=1)[narrow]] = 1
    return torch.from_numpy((weights / weights.sum(axis=1, keepdims=True)).astype(np.float32))
