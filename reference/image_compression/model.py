"""The recurrent codec of Toderici et al. (CVPR 2017, arXiv:1608.05148): LSTMs that code what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = tuple[Tensor, Tensor] | None  # hidden and cell, each (n, channels, h, w); None before the first step


class ConvLSTM(nn.Module):
    """A convolutional LSTM without biases. With `shortcut`, a 1x1 convolution of the input is added to its output."""

    def __init__(self, inputs: int, outputs: int, stride: int, hidden_kernel: int, shortcut: bool) -> None:
        super().__init__()
        self.seen = nn.Conv2d(inputs, 4 * outputs, 3, stride, 1, bias=False)
        self.kept = nn.Conv2d(outputs, 4 * outputs, hidden_kernel, 1, hidden_kernel // 2, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, stride, stride, bias=False) if shortcut else None

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """(n, inputs, h, w) and the state -> (n, outputs, h / stride, w / stride) and the new state."""
        gates = self.seen(x) if state is None else self.seen(x) + self.kept(state[0])
        into, forget, out, value = gates.chunk(4, dim=1)
        cell = torch.sigmoid(into) * torch.tanh(value)
        if state is not None:
            cell = cell + torch.sigmoid(forget) * state[1]
        hidden = torch.sigmoid(out) * torch.tanh(cell)
        shown = hidden if self.shortcut is None else hidden + self.shortcut(x)
        return shown, (hidden, cell)


class Binariser(nn.Module):
    """Values to -1 or 1: tanh of a 1x1 convolution, then a sign, or in training a coin with that mean.

    The gradient passes as if the rounding were not there.
    """

    def __init__(self, inputs: int, bits: int, stochastic: bool) -> None:
        super().__init__()
        self.project = nn.Conv2d(inputs, bits, 1, bias=False)
        self.stochastic = stochastic

    def forward(self, x: Tensor) -> Tensor:
        means = torch.tanh(self.project(x))
        if self.training and self.stochastic:
            up = torch.rand_like(means) < (1 + means) / 2
        else:
            up = means >= 0
        return means + (torch.where(up, 1.0, -1.0) - means).detach()


class Codec(nn.Module):
    """Encoder, binariser and decoder. Each step codes the difference between the picture and what was decoded so far.

    A picture (n, channels, h, w) is -0.5..0.5, with h and w multiples of `cell`: each of the encoder's convolutions
    halves them. A step makes `bits` bits for each cell; the decoder adds up what it makes of each step's bits.
    """

    def __init__(
        self,
        channels: int,
        encoder_widths: Sequence[int],
        decoder_widths: Sequence[int],
        decoder_hidden_kernels: Sequence[int],
        bits: int,
        stochastic: bool = True,
        shortcut: bool = False,
    ) -> None:
        super().__init__()
        self.cell = 2 ** len(encoder_widths)  # pixels
        self.stem = nn.Conv2d(channels, encoder_widths[0], 3, 2, 1, bias=False)
        pairs = zip(encoder_widths, encoder_widths[1:], strict=False)
        self.encoder = nn.ModuleList(ConvLSTM(inputs, outputs, 2, 1, shortcut) for inputs, outputs in pairs)
        self.binariser = Binariser(encoder_widths[-1], bits, stochastic)
        self.unpack = nn.Conv2d(bits, decoder_widths[0], 1, bias=False)
        inputs = [decoder_widths[0], *(width // 4 for width in decoder_widths)]  # after each pixel shuffle
        self.decoder = nn.ModuleList(
            ConvLSTM(seen, width, 1, kernel, shortcut)
            for seen, width, kernel in zip(inputs, decoder_widths, decoder_hidden_kernels, strict=False)
        )
        self.picture = nn.Conv2d(decoder_widths[-1] // 4, channels, 1, bias=False)

    @torch.no_grad()
    def start_with(self, value_gain: float) -> None:
        """Draw every kernel anew with variance 1 / fan-in: signals neither fade nor grow through the layers at first.

        The kernels of the LSTMs' new values get `value_gain` times that, for the gates shut half of them out; the last
        kernel 0.3 times, so that the first pictures are near grey.
        """
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="linear")
        for module in self.modules():
            if isinstance(module, ConvLSTM):
                module.seen.weight[-module.kept.in_channels :] *= value_gain
        self.picture.weight *= 0.3

    def forward(self, pictures: Tensor, steps: int) -> list[Tensor]:
        """What is decoded after each step, a list of `steps` tensors like `pictures`."""
        return self._run(pictures, steps)[0]

    def encode(self, pictures: Tensor, steps: int) -> Tensor:
        """The bits as booleans, (n, steps, bits, h / cell, w / cell)."""
        return torch.stack([bits > 0 for bits in self._run(pictures, steps)[1]], dim=1)

    def decode(self, bits: Tensor) -> list[Tensor]:
        """What `encode`'s result decodes to after each step."""
        states: list[State] = [None] * len(self.decoder)
        decoded: list[Tensor] = []
        for step in bits.to(self.unpack.weight.dtype).mul(2).sub(1).unbind(dim=1):
            made = self._decoded(step, states)
            decoded.append(decoded[-1] + made if decoded else made)
        return decoded

    def _run(self, pictures: Tensor, steps: int) -> tuple[list[Tensor], list[Tensor]]:
        """Decoded pictures and bits (-1 or 1) of each step."""
        encoder_states: list[State] = [None] * len(self.encoder)
        decoder_states: list[State] = [None] * len(self.decoder)
        missing, decoded, bits = pictures, [], []
        for _ in range(steps):
            x = self.stem(missing)
            for number, layer in enumerate(self.encoder):
                x, encoder_states[number] = layer(x, encoder_states[number])
            bits.append(self.binariser(x))
            made = self._decoded(bits[-1], decoder_states)
            decoded.append(decoded[-1] + made if decoded else made)
            missing = pictures - decoded[-1]
        return decoded, bits

    def _decoded(self, bits: Tensor, states: list[State]) -> Tensor:
        """One step's share of the picture; `states` are replaced by the new ones."""
        x = self.unpack(bits)
        for number, layer in enumerate(self.decoder):
            x, states[number] = layer(x, states[number])
            x = F.pixel_shuffle(x, 2)
        return torch.tanh(self.picture(x)) / 2


@torch.no_grad()
def follow(average: nn.Module, net: nn.Module, decay: float) -> None:
    """Move the parameters of `average` to decay * average + (1 - decay) * net."""
    for mean, now in zip(average.parameters(), net.parameters(), strict=True):
        mean.lerp_(now, 1 - decay)
