"""Neural Image Caption (Vinyals et al., CVPR 2015, arXiv:1411.4555): a picture's features begin an LSTM's sentence."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = tuple[Tensor, Tensor]  # hidden and cell, each (n, hidden)


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions, the stride in the middle one (v1.5). Names are torchvision's."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride > 1 or inputs != 4 * width:
            shortcut = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    """ResNet-50 without its classifier: (n, 3, h, w) normalised -> (n, 2048), the mean over places."""

    features = 2048

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        inputs = 64
        for number, (blocks, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True), start=1):
            layers = []
            for block in range(blocks):
                layers.append(Bottleneck(inputs, width, 2 if number > 1 and block == 0 else 1))
                inputs = 4 * width
            setattr(self, f"layer{number}", nn.Sequential(*layers))

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for number in (1, 2, 3, 4):
            x = getattr(self, f"layer{number}")(x)
        return x.mean(dim=(2, 3))


class SmallEncoder(nn.Module):
    """Three strided convolutions: (n, 3, side, side) -> (n, 16 * last width), a feature for each of 4x4 places."""

    def __init__(self, widths: Sequence[int], side: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in zip((3, *widths), widths, strict=False):
            layers += [nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.features = widths[-1] * (side >> len(widths)) ** 2

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).flatten(1)


class Captioner(nn.Module):
    """An encoder, and the LSTM that is shown its features first and then the words of a caption.

    frozen: the encoder's weights and its normalisation's averages stay as they are.
    """

    def __init__(
        self, encoder: nn.Module, features: int, words: int, embedding: int, hidden: int, frozen: bool, dropout: float
    ) -> None:
        super().__init__()
        self.encoder, self.frozen = encoder, frozen
        encoder.requires_grad_(not frozen)
        self.project, self.norm = nn.Linear(features, embedding), nn.BatchNorm1d(embedding, momentum=0.01)
        self.embed = nn.Embedding(words, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, words)

    def train(self, mode: bool = True) -> Captioner:
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self

    def seen(self, pictures: Tensor) -> Tensor:
        """(n, 3, h, w) -> (n, embedding), the LSTM's first input."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            features = self.encoder(pictures)
        return self.norm(self.project(features))

    def forward(self, seen: Tensor, tokens: Tensor) -> Tensor:
        """Logits (n, length, words) of the token after each of `tokens` (n, length) int64, for pictures `seen`.

        What the LSTM says to the picture itself is not asked for.
        """
        inputs = torch.cat([seen.unsqueeze(1), self.embed(tokens)], dim=1)
        out, _ = self.lstm(inputs)
        return self.output(self.dropout(out[:, 1:]))

    def begin(self, pictures: Tensor) -> State:
        """The state (hidden, cell), each (n, hidden), after the pictures were shown."""
        _, (hidden, cell) = self.lstm(self.seen(pictures).unsqueeze(1))
        return hidden[0], cell[0]

    def step(self, state: State, last: Tensor) -> tuple[Tensor, State]:
        """Log probabilities (n, words) of the next token, and the state, after the tokens `last` (n,)."""
        hidden, cell = (part.unsqueeze(0).contiguous() for part in state)
        out, (hidden, cell) = self.lstm(self.embed(last).unsqueeze(1), (hidden, cell))
        return F.log_softmax(self.output(out[:, 0]), dim=1), (hidden[0], cell[0])
