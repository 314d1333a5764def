"""BERT, Devlin et al., 2018 (arXiv:1810.04805), with both heads of its pre-training.

A bidirectional Transformer encoder reads [CLS] A [SEP] B [SEP]. The masked-word head says which words stood at given
positions; the next-sentence head says from [CLS] whether B is the text that follows A.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """Sizes and starting values of a network. The defaults are BERT-large's, uncased."""

    vocab_size: int = 30522
    hidden_size: int = 1024
    layers: int = 24
    heads: int = 16
    intermediate_size: int = 4096
    sequence_length: int = 512
    dropout: float = 0.1
    norm_first: bool = False  # normalise what enters a sublayer instead of its sum with the residual
    relative_window: int = 0  # words to each side that have an attention bias of their own; 0: no such bias
    norm_epsilon: float = 1e-12
    embedding_init: float = 0.02  # standard deviations of the first weights
    inner_init: float = 0.02  # of the layers that read the residual stream
    outer_init: float = 0.02  # of the layers that write to it


class Bert(nn.Module):
    """Logits of the masked words and of the next sentence.

    forward(ids, segments, lengths, positions): ids and segments (batch, length) int64, lengths (batch,) how many of the
    words are real, positions (batch, n) where the masked words stand. Returns (batch, n, vocabulary) and (batch, 2).
    Only the asked positions and [CLS] go through the last layer's queries and feed-forward part and the output: the
    others' results would be thrown away.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        size, length = shape.hidden_size, shape.sequence_length
        self.words = nn.Embedding(shape.vocab_size, size)
        self.places = nn.Embedding(length, size)
        self.segments = nn.Embedding(2, size)
        self.norm = nn.LayerNorm(size, eps=shape.norm_epsilon)
        self.dropout = nn.Dropout(shape.dropout)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.last_norm = nn.LayerNorm(size, eps=shape.norm_epsilon) if shape.norm_first else nn.Identity()
        self.pooler = nn.Linear(size, size)
        self.next_sentence = nn.Linear(size, 2)
        self.transform = nn.Linear(size, size)
        self.transform_norm = nn.LayerNorm(size, eps=shape.norm_epsilon)
        self.output_bias = nn.Parameter(torch.zeros(shape.vocab_size))  # the output's weights are those of `words`
        self.start(shape)

    def start(self, shape: Shape) -> None:
        """Draw all weights anew; biases start at 0, normalisations as the identity."""
        for module in (self.words, self.places, self.segments):
            nn.init.normal_(module.weight, std=shape.embedding_init)
        for module in (self.pooler, self.transform, self.next_sentence):
            nn.init.normal_(module.weight, std=shape.inner_init)
            nn.init.zeros_(module.bias)
        for layer in self.layers:
            layer.start(shape)

    def forward(self, ids: Tensor, segments: Tensor, lengths: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        length = ids.shape[1]
        hidden = self.words(ids) + self.places.weight[:length] + self.segments(segments)
        hidden = self.dropout(self.norm(hidden))
        real = (torch.arange(length, device=ids.device) < lengths[:, None])[:, None, None]  # (batch, 1, 1, length)
        asked = F.pad(positions, (1, 0))  # [CLS] stands at 0
        for layer in self.layers[:-1]:
            hidden = layer(hidden, real)
        hidden = self.last_norm(self.layers[-1](hidden, real, asked))
        first, masked = hidden[:, 0], hidden[:, 1:]
        masked = self.transform_norm(F.gelu(self.transform(masked)))
        words = F.linear(masked, self.words.weight, self.output_bias)
        return words, self.next_sentence(self.dropout(torch.tanh(self.pooler(first))))


class Layer(nn.Module):
    """Self-attention and a feed-forward network, each with a residual connection and a layer normalisation."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        size = shape.hidden_size
        self.heads, self.norm_first = shape.heads, shape.norm_first
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        self.attention_output = nn.Linear(size, size)
        self.attention_norm = nn.LayerNorm(size, eps=shape.norm_epsilon)
        self.intermediate = nn.Linear(size, shape.intermediate_size)
        self.output = nn.Linear(shape.intermediate_size, size)
        self.output_norm = nn.LayerNorm(size, eps=shape.norm_epsilon)
        self.dropout = nn.Dropout(shape.dropout)
        self.bias = RelativeBias(shape.heads, shape.relative_window) if shape.relative_window else None

    def start(self, shape: Shape) -> None:
        for module in (self.query, self.key, self.value, self.intermediate):
            nn.init.normal_(module.weight, std=shape.inner_init)
        for module in (self.attention_output, self.output):
            nn.init.normal_(module.weight, std=shape.outer_init)
        for module in (self.query, self.key, self.value, self.intermediate, self.attention_output, self.output):
            nn.init.zeros_(module.bias)

    def forward(self, hidden: Tensor, real: Tensor, asked: Tensor | None = None) -> Tensor:
        """(batch, length, size) to the same, or to (batch, n, size) for the `asked` positions (batch, n) alone.

        `real` (batch, 1, 1, length) is False where a word is padding, which nothing may look at.
        """
        seen = self.attention_norm(hidden) if self.norm_first else hidden
        looking = seen
        if asked is not None:
            index = asked[:, :, None].expand(-1, -1, hidden.shape[2])
            looking, hidden = seen.gather(1, index), hidden.gather(1, index)
        mixed = self.dropout(self.attention_output(self.attend(looking, seen, real, asked)))
        if self.norm_first:
            hidden = hidden + mixed
            return hidden + self.dropout(self.feed_forward(self.output_norm(hidden)))
        hidden = self.attention_norm(hidden + mixed)
        return self.output_norm(hidden + self.dropout(self.feed_forward(hidden)))

    def feed_forward(self, hidden: Tensor) -> Tensor:
        return self.output(F.gelu(self.intermediate(hidden)))

    def attend(self, looking: Tensor, seen: Tensor, real: Tensor, asked: Tensor | None) -> Tensor:
        """What the positions of `looking` (batch, n, size) gather from `seen` (batch, length, size)."""

        def by_head(values: Tensor) -> Tensor:
            return values.unflatten(2, (self.heads, -1)).transpose(1, 2)

        query, key, value = by_head(self.query(looking)), by_head(self.key(seen)), by_head(self.value(seen))
        mask = real
        if self.bias is not None:
            mask = self.bias(seen.shape[1], asked).masked_fill(~real, float("-inf"))
        dropout = self.dropout.p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return mixed.transpose(1, 2).flatten(2)


class RelativeBias(nn.Module):
    """A learned number for each head and distance, added to the attention's scores; far words share the last one.

    It starts as a look at the neighbours: even heads prefer the words to the left, odd ones those to the right, the
    first two the next word, the others a wider stretch.
    """

    def __init__(self, heads: int, window: int) -> None:
        super().__init__()
        self.window = window
        distance = torch.arange(-window, window + 1.0)[:, None]  # of what is looked at; negative: to the left
        head = torch.arange(heads)
        distance = torch.where(head % 2 == 0, distance, -distance)
        fall = (distance.abs() - 1).clamp(min=0) / 2 ** (head // 2)
        start = -fall - 4.0 * (distance >= 0)
        self.weight = nn.Parameter(start.clamp(min=-8.0))  # (distances, heads)

    def forward(self, length: int, asked: Tensor | None) -> Tensor:
        """(1, heads, length, length), or (batch, heads, n, length) for the `asked` positions (batch, n)."""
        place = torch.arange(length, device=self.weight.device)
        looking = place[None] if asked is None else asked
        distance = (place - looking[:, :, None]).clamp(-self.window, self.window) + self.window
        return F.embedding(distance, self.weight).permute(0, 3, 1, 2)


def parameter_count(net: nn.Module) -> int:
    """Number of trained values. A model built under `torch.device("meta")` is counted without its memory."""
    return sum(parameter.numel() for parameter in net.parameters())


@torch.no_grad()
def follow(average: nn.Module, net: nn.Module, decay: float) -> None:
    """Move the weights of `average` towards those of `net`, by 1 - `decay` of the way."""
    torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), 1 - decay)
