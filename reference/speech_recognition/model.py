"""DeepSpeech 2 (Amodei et al., ICML 2016): two convolutions over a spectrogram, bidirectional GRU layers, one output.

Only real frames count: what lies behind a shorter utterance in its batch is zero for the convolutions, and the GRU
layers, their normalisations and the output never see it. So an utterance's result does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


class DeepSpeech2(nn.Module):
    """Spectrograms to log-probabilities of labels.

    kernels and strides hold frequency, time of the first convolution and frequency, time of the second; kernels are
    odd. Both convolutions have `channels` channels, each of `layers` GRU layers `width` units a direction.
    """

    def __init__(
        self,
        bins: int,
        channels: int,
        kernels: Sequence[int],
        strides: Sequence[int],
        width: int,
        layers: int,
        labels: int,
    ) -> None:
        super().__init__()
        if len(kernels) != 4 or len(strides) != 4 or any(size % 2 == 0 for size in kernels) or min(strides) < 1:
            raise ValueError(f"two odd kernels and two strides of frequency and time, not {kernels} and {strides}")
        self.time_strides = strides[1], strides[3]
        self.convolutions = nn.ModuleList()
        inputs = 1
        for (high, long), stride in (((kernels[0], kernels[1]), strides[:2]), ((kernels[2], kernels[3]), strides[2:])):
            convolution = nn.Conv2d(inputs, channels, (high, long), tuple(stride), (high // 2, long // 2))
            self.convolutions.append(convolution)
            inputs, bins = channels, (bins - 1) // stride[0] + 1
        self.convolution_norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))
        sizes = [channels * bins] + [width] * (layers - 1)
        self.recurrent = nn.ModuleList(nn.GRU(size, width, bidirectional=True) for size in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))  # after each layer
        self.output = nn.Linear(width, labels, bias=False)

    def forward(self, features: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """features (n, 1, bins, longest), frames (n,) -> log-probabilities (longest, n, labels), their frames (n,)."""
        x, lengths = features, frames
        for convolution, norm, stride in zip(self.convolutions, self.convolution_norms, self.time_strides, strict=True):
            lengths = torch.div(lengths - 1, stride, rounding_mode="floor") + 1
            x = convolution(x)
            real = (torch.arange(x.shape[3], device=x.device) < lengths[:, None])[:, None, None, :]
            x = nn.functional.hardtanh(norm(x * real), 0.0, 20.0) * real
        x = x.flatten(1, 2).transpose(1, 2)  # (n, time, channels * bins)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        for recurrent, norm in zip(self.recurrent, self.norms, strict=True):
            out = recurrent(packed)[0]
            forwards, backwards = out.data.chunk(2, dim=1)
            packed = _with(packed, norm(forwards + backwards))
        packed = _with(packed, self.output(packed.data).log_softmax(dim=1))
        return pad_packed_sequence(packed)[0], lengths


def _with(packed: PackedSequence, data: Tensor) -> PackedSequence:
    """The same sequences with other values."""
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
