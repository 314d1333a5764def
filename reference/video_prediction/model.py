"""CDNA (Finn, Goodfellow and Levine, NIPS 2016, arXiv:1605.07157): the next frame as moved parts of the last one.

From a frame and an action, a convolutional LSTM network predicts a few kernels for the whole frame and, for every
pixel, how much of each of the moved frames it shows; beside them, the last frame itself and a frame painted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTION_GAIN = 10.0  # of the direct way from an action to the kernels: a few hundred steps must be enough to learn it
State = list[tuple[Tensor, Tensor] | None]


class ConvLSTM(nn.Module):
    """One step of a convolutional LSTM, `width` channels, its output normalised."""

    def __init__(self, channels: int, width: int, kernel: int) -> None:
        super().__init__()
        self.gates = nn.Conv2d(channels + width, 4 * width, kernel, padding=kernel // 2)
        self.norm = nn.GroupNorm(1, width)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x (n, channels, h, w); state (hidden, cell), or None before the first step."""
        width = self.gates.out_channels // 4
        hidden, cell = state or (x.new_zeros(len(x), width, *x.shape[2:]),) * 2
        i, f, o, new = self.gates(torch.cat([x, hidden], 1)).chunk(4, 1)
        cell = (f + 1).sigmoid() * cell + i.sigmoid() * new.tanh()
        hidden = o.sigmoid() * cell.tanh()
        return self.norm(hidden), (hidden, cell)


class CDNA(nn.Module):
    """Frames (n, 3, size, size), 0..1, actions (n, actions), states (n, states) -> the next frame and state.

    filters          channels of the strided convolutions, each of which halves the side
    lstms            how many LSTMs follow each of them
    lstm_filters     their channels
    decoder_lstms    channels of the LSTM after each transposed convolution but the last; 0 for none
    lstm_kernel      side of the LSTMs' kernels, odd
    kernels          how many kernels move the last frame
    kernel_size      their side, odd
    The defaults, with 4 actions and 3 states, have 8,488,823 parameters.
    """

    def __init__(
        self,
        size: int = 64,
        actions: int = 4,
        states: int = 3,
        filters: Sequence[int] = (32, 32, 64),
        lstms: Sequence[int] = (2, 2, 1),
        lstm_filters: Sequence[int] = (32, 64, 128),
        decoder_lstms: Sequence[int] = (64, 32),
        lstm_kernel: int = 5,
        kernels: int = 10,
        kernel_size: int = 5,
    ) -> None:
        super().__init__()
        scales = len(filters)
        if not len(lstms) == len(lstm_filters) == len(decoder_lstms) + 1 == scales or size % 2**scales:
            raise ValueError(f"{scales} convolutions need as many LSTM counts and widths, one decoder LSTM fewer, and")
        if min(lstms) < 0 or lstms[-1] < 1 or kernel_size % 2 == 0 or lstm_kernel % 2 == 0:
            raise ValueError("an LSTM at the last scale and kernels of odd sides are needed")
        self.kernels, self.kernel_size = kernels, kernel_size
        self.down, self.down_lstms = nn.ModuleList(), nn.ModuleList()
        before, skips = 3, []
        for scale in range(scales):
            width, side = filters[scale], 5 if scale == 0 else 3
            self.down.append(_normed(nn.Conv2d(before, width, side, 2, side // 2)))
            skips.append(width)
            before = width
            if scale == scales - 1:
                self.mix = nn.Sequential(nn.Conv2d(width + actions + states, width, 1), nn.ReLU(inplace=True))
            cells = nn.ModuleList()
            for _ in range(lstms[scale]):
                cells.append(ConvLSTM(before, lstm_filters[scale], lstm_kernel))
                before = lstm_filters[scale]
            self.down_lstms.append(cells)
        code = before * (size // 2**scales) ** 2

        self.up, self.up_lstms = nn.ModuleList(), nn.ModuleList()
        for scale in range(scales):
            last = scale == scales - 1
            width = before if not last else filters[0]
            self.up.append(_normed(nn.ConvTranspose2d(before, width, 4, 2, 1)))
            if not last:
                own = decoder_lstms[scale]
                self.up_lstms.append(ConvLSTM(width, own, lstm_kernel) if own else nn.Identity())
                before = (own or width) + skips[scales - 2 - scale]
            else:
                before = width
        self.paint = nn.Conv2d(before, 3, 1)
        self.masks = nn.Conv2d(before, kernels + 2, 1)
        self.kernels_by_frame = nn.Linear(code, kernels * kernel_size**2)
        self.kernels_by_action = nn.Linear(actions + states, kernels * kernel_size**2, bias=False)
        self.next_state = nn.Linear(actions + states, states)
        self._start()

    @torch.no_grad()
    def _start(self) -> None:
        """Begin with kernels that blur a little and masks that keep the last frame: near to the truth."""
        reach = torch.arange(self.kernel_size) - self.kernel_size // 2
        blur = -0.5 * (reach[:, None] ** 2 + reach**2).float().flatten()
        self.register_buffer("blur", blur.repeat(self.kernels), persistent=False)
        self.kernels_by_frame.weight.mul_(0.1)
        self.kernels_by_action.weight.mul_(1 / ACTION_GAIN)
        self.masks.bias.zero_()
        self.masks.bias[0], self.masks.bias[1] = 1.0, -2.0  # the last frame; the painted one

    def forward(
        self, frame: Tensor, action: Tensor, state: Tensor, memory: State | None
    ) -> tuple[Tensor, Tensor, State]:
        """One step. `memory` is what the last step returned, None at first. Returns frame, state and memory."""
        told = torch.cat([action, state], 1)
        old, new = iter(memory or [None] * self._cells()), []
        x, skips = frame, []
        for scale, (conv, cells) in enumerate(zip(self.down, self.down_lstms, strict=True)):
            x = conv(x)
            skips.append(x)
            if scale == len(self.down) - 1:
                x = self.mix(torch.cat([x, told[:, :, None, None].expand(-1, -1, *x.shape[2:])], 1))
            for cell in cells:
                x, kept = cell(x, next(old))
                new.append(kept)
        kernels = self.kernels_by_frame(x.flatten(1)) + ACTION_GAIN * self.kernels_by_action(told) + self.blur
        for scale, conv in enumerate(self.up):
            x = conv(x)
            if scale < len(self.up_lstms):
                if isinstance(self.up_lstms[scale], ConvLSTM):
                    x, kept = self.up_lstms[scale](x, next(old))
                    new.append(kept)
                x = torch.cat([x, skips[-2 - scale]], 1)
        moved = move(frame, kernels.view(len(frame), self.kernels, -1).softmax(2))
        layers = torch.cat([frame.unsqueeze(1), self.paint(x).sigmoid().unsqueeze(1), moved], 1)
        masks = self.masks(x).softmax(1)
        return (masks.unsqueeze(2) * layers).sum(1), self.next_state(told), new

    def _cells(self) -> int:
        return sum(isinstance(part, ConvLSTM) for part in self.modules())


def move(frames: Tensor, kernels: Tensor) -> Tensor:
    """Each frame convolved with each of its own kernels: (n, 3, h, w) and (n, k, side * side) -> (n, k, 3, h, w).

    A kernel whose weight lies right of its middle shows what is right of a pixel: the picture moves left. Outside the
    frame everything is 0.
    """
    count, channels, height, width = frames.shape
    side = round(kernels.shape[2] ** 0.5)
    patches = F.unfold(frames, side, padding=side // 2).view(count, channels, side * side, height * width)
    return torch.einsum("nkp,ncpx->nkcx", kernels, patches).view(count, -1, channels, height, width)


def rollout(
    net: Callable[[Tensor, Tensor, Tensor, State | None], tuple[Tensor, Tensor, State]],
    frames: Tensor,
    actions: Tensor,
    states: Tensor,
    context: int,
    horizon: int,
    true_share: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Predict `horizon` frames after `context` given ones, each from the one before it.

    frames (n, t, 3, h, w), actions (n, t, a), states (n, t, s). Seen are the first `context` frames, the first state
    and every action, but with `true_share` above 0 (scheduled sampling, in training) so many of the clips, drawn at
    each step, go on from the true frame. Returns the predicted frames (n, horizon, 3, h, w) and states.
    """
    memory, state, frame = None, states[:, 0], frames[:, 0]
    made, followed = [], []
    for step in range(context + horizon - 1):
        if step < context:
            frame = frames[:, step]
        elif true_share > 0:
            true = torch.rand(len(frames), device=frames.device) < true_share
            frame = torch.where(true.view(-1, 1, 1, 1), frames[:, step], frame)
        frame, state, memory = net(frame, actions[:, step], state, memory)
        if step >= context - 1:
            made.append(frame)
            followed.append(state)
    return torch.stack(made, 1), torch.stack(followed, 1)


def _normed(conv: nn.Module) -> nn.Sequential:
    return nn.Sequential(conv, nn.GroupNorm(1, conv.out_channels), nn.ReLU(inplace=True))
