"""The Transformer (Vaswani et al., "Attention is all you need", NeurIPS 2017): encoder, decoder, and decoding step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PAD = 0  # token number that fills up a batch; attention and loss leave it out


class Attention(nn.Module):
    """Scaled dot-product attention with several heads. Queries, keys and values are projections of width `width`."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [rows, heads, length, width / heads] of x [rows, length, width]."""
        keys, values = self.key_value(x).chunk(2, dim=-1)
        return self._split(keys), self._split(values)

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """What each position of x [rows, length, width] gathers. `mask` is True where it may look."""
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(
            self._split(self.query(x)), keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        return self.out(y.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Sequential):
    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__(nn.Linear(width, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, width))


class Residual(nn.Module):
    """x + dropout(f(x)) with layer normalisation after the sum (as published) or, `pre_norm`, before f."""

    def __init__(self, width: int, dropout: float, pre_norm: bool) -> None:
        super().__init__()
        self.norm, self.dropout, self.pre_norm = nn.LayerNorm(width), nn.Dropout(dropout), pre_norm

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.pre_norm else x

    def after(self, x: Tensor, change: Tensor) -> Tensor:
        y = x + self.dropout(change)
        return y if self.pre_norm else self.norm(y)


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, dropout: float, pre_norm: bool) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, inner, dropout)
        self.first, self.second = (Residual(width, dropout, pre_norm) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.first.before(x)
        x = self.first.after(x, self.attention(y, *self.attention.keys_values(y), mask=mask))
        return self.second.after(x, self.feed_forward(self.second.before(x)))


class DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, dropout: float, pre_norm: bool) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.on_source = Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, inner, dropout)
        self.first, self.second, self.third = (Residual(width, dropout, pre_norm) for _ in range(3))

    def forward(
        self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The new x and the keys and values of the target so far.

        With `past` (keys and values of earlier positions) x is the one position after them, else it is the whole
        target and no position looks at later ones.
        """
        y = self.first.before(x)
        keys, values = self.attention.keys_values(y)
        if past is not None:
            keys, values = torch.cat([past[0], keys], dim=2), torch.cat([past[1], values], dim=2)
        x = self.first.after(x, self.attention(y, keys, values, causal=past is None))
        x = self.second.after(x, self.on_source(self.second.before(x), *memory, mask=mask))
        return self.third.after(x, self.feed_forward(self.third.before(x))), (keys, values)


@dataclass
class State:
    """Of a decoding: per layer keys and values of the source and of the target so far; the source's mask."""

    memories: list[tuple[Tensor, Tensor]]
    mask: Tensor
    pasts: list[tuple[Tensor, Tensor]]


class Transformer(nn.Module):
    """Predicts each target token from the source and the target tokens before it.

    Embeddings are scaled by the root of their width and get sinusoidal positions. The output layer is the target's
    embedding; with `shared` one table serves the source, the target and the output. With 6 layers, width 512, inner
    width 2,048, 8 heads, and a table of 37,000 words it has 44,138,496 + 18,944,000 parameters: the paper's base model.

    Args:
        source_words, target_words: sizes of the vocabularies, the same when `shared`.
        pre_norm: normalise before each sub-layer and once at the end of each stack, instead of after each sum.

    Raises:
        ValueError: heads that don't divide the width, an odd width, or shared vocabularies of different sizes.
    """

    def __init__(
        self,
        source_words: int,
        target_words: int,
        width: int,
        heads: int,
        inner: int,
        layers: int,
        dropout: float,
        pre_norm: bool,
        shared: bool,
    ) -> None:
        super().__init__()
        if width % heads or width % 2 or (shared and source_words != target_words):
            raise ValueError(f"no model of width {width}, {heads} heads, {source_words} and {target_words} words")
        self.width = width
        self.target = nn.Embedding(target_words, width, padding_idx=PAD)
        self.source = self.target if shared else nn.Embedding(source_words, width, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        shape = (width, heads, inner, dropout, pre_norm)
        self.encoder = nn.ModuleList(EncoderLayer(*shape) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(*shape) for _ in range(layers))
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(width) if pre_norm else nn.Identity() for _ in ("encoder", "decoder")
        )
        self.register_buffer("positions", sinusoids(64, width), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform projections, normal embeddings of deviation width^-0.5, zero biases."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.width**-0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits [rows, target length, target words] of the tokens that follow each of `target`.

        source int64 [rows, length] ends with the end token, target starts with the start token; both are filled up
        with PAD at the end.
        """
        memory, mask = self.encode(source)
        x = self._embedded(self.target, target)
        for layer in self.decoder:
            x, _ = layer(x, layer.on_source.keys_values(memory), mask)
        return F.linear(self.decoder_norm(x), self.target.weight)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The encoded source [rows, length, width] and the mask [rows, 1, 1, length] of its real tokens."""
        mask = (source != PAD)[:, None, None, :]
        x = self._embedded(self.source, source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x), mask

    def start(self, source: Tensor) -> State:
        """The state before the first token of a decoding."""
        memory, mask = self.encode(source)
        memories = [layer.on_source.keys_values(memory) for layer in self.decoder]
        return State(memories, mask, [(keys[:, :, :0], values[:, :, :0]) for keys, values in memories])

    def step(self, state: State, last: Tensor) -> tuple[Tensor, State]:
        """Log probabilities [rows, target words] of the token after `last` int64 [rows], and the state with it."""
        x = self._embedded(self.target, last[:, None], at=state.pasts[0][0].shape[2])
        pasts = []
        for layer, memory, past in zip(self.decoder, state.memories, state.pasts, strict=True):
            x, past = layer(x, memory, state.mask, past)
            pasts.append(past)
        logits = F.linear(self.decoder_norm(x[:, 0]), self.target.weight)
        return logits.log_softmax(-1), State(state.memories, state.mask, pasts)

    @staticmethod
    def reorder(state: State, rows: Tensor) -> State:
        """The state of these rows, in this order."""
        pick = [[(keys[rows], values[rows]) for keys, values in part] for part in (state.memories, state.pasts)]
        return State(pick[0], state.mask[rows], pick[1])

    def _embedded(self, table: nn.Embedding, tokens: Tensor, at: int = 0) -> Tensor:
        """Embeddings with positions `at`, `at` + 1, ..."""
        end = at + tokens.shape[1]
        if end > len(self.positions):
            self.positions = sinusoids(2 * end, self.width).to(self.positions.device)
        return self.dropout(table(tokens) * math.sqrt(self.width) + self.positions[at:end])


def sinusoids(length: int, width: int) -> Tensor:
    """Positions [length, width]: sines of wavelengths 2 pi ... 20,000 pi at even columns, their cosines at odd ones."""
    angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
