"""A recurrent encoder and decoder with attention that can point at source words (Paulus, Xiong and Socher, ICLR 2018).

Words have one number each, known or not. The first four are special, then come the words that can be generated, then
those that only have an embedding, then all others: their embedding is that of the unknown word, but they keep their
number, and can be copied.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PAD, START, END, UNKNOWN = 0, 1, 2, 3
TINY = 1e-12  # the least probability that the loss takes the logarithm of


@dataclass
class State:
    """Of a decoding, one row a hypothesis; S source words, t words so far.

    memory [rows, S, 2 hidden] and projected, what attention compares with; mask [rows, S], True at real words;
    source int64 [rows, S], numbers of the words; places int64 [rows, S], where a copy of each goes in the extended
    vocabulary; extra int64 [rows, extended - output words], the numbers of what is there beyond the output words;
    hidden, cell [rows, hidden]; context [rows, 2 hidden], what was attended last; before [rows, S], the logarithm of
    the attention scores summed so far; past [rows, t, hidden] and past_projected, the decoder's earlier states.
    """

    memory: Tensor
    projected: Tensor
    mask: Tensor
    source: Tensor
    places: Tensor
    extra: Tensor
    hidden: Tensor
    cell: Tensor
    context: Tensor
    before: Tensor
    past: Tensor
    past_projected: Tensor


class Summarizer(nn.Module):
    """One bidirectional LSTM reads, one LSTM cell writes; each word is generated or copied, by a learned probability.

    Attention over the source is intra-temporal: what has been attended before counts less. A second attention looks at
    the decoder's own earlier states. With 50,000 words, embeddings of 256 and 512 hidden units: 48,234,833 parameters.

    Args:
        input_words: how many have an embedding; output_words: how many can be generated, the first of them.
        dropout: of embeddings, and of the output layer's input.
    """

    def __init__(self, input_words: int, output_words: int, embedding: int, hidden: int, dropout: float) -> None:
        super().__init__()
        if not UNKNOWN < output_words <= input_words:
            raise ValueError(f"no model that generates {output_words} of {input_words} words")
        self.input_words, self.output_words, self.width = input_words, output_words, hidden
        self.embedding, self.dropout = nn.Embedding(input_words, embedding), nn.Dropout(dropout)
        self.encoder = nn.LSTM(embedding, hidden, batch_first=True, bidirectional=True)
        self.first_hidden, self.first_cell = nn.Linear(2 * hidden, hidden), nn.Linear(2 * hidden, hidden)
        self.project_source = nn.Linear(2 * hidden, 2 * hidden, bias=False)
        self.project_state = nn.Linear(2 * hidden, 2 * hidden)
        self.score_source = nn.Linear(2 * hidden, 1, bias=False)
        self.project_past = nn.Linear(hidden, hidden, bias=False)
        self.project_hidden = nn.Linear(hidden, hidden)
        self.score_past = nn.Linear(hidden, 1, bias=False)
        self.input = nn.Linear(2 * hidden + embedding, embedding)
        self.cell = nn.LSTMCell(embedding, hidden)
        self.gate = nn.Linear(5 * hidden + embedding, 1)
        self.mix = nn.Linear(4 * hidden, hidden)
        self.out = nn.Linear(hidden, output_words)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Small uniform LSTM weights with an open forget gate; small normal embeddings and output layers."""
        for name, parameter in (*self.encoder.named_parameters(), *self.cell.named_parameters()):
            if name.startswith("weight"):
                nn.init.uniform_(parameter, -0.08, 0.08)
            else:
                nn.init.zeros_(parameter)
                if name.startswith("bias_ih"):
                    parameter.data[self.width : 2 * self.width] = 1.0
        nn.init.normal_(self.embedding.weight, std=0.1)
        nn.init.normal_(self.out.weight, std=0.02)

    def embedded(self, words: Tensor) -> Tensor:
        return self.dropout(self.embedding(torch.where(words < self.input_words, words, UNKNOWN)))

    def start(self, source: Tensor) -> State:
        """The state before the first word. source: int64 [rows, S], numbers filled up with PAD; no row is empty."""
        mask = source != PAD
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedded(source), mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False
        )
        memory, (hidden, cell) = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(memory, batch_first=True, total_length=source.shape[1])
        hidden, cell = (last.transpose(0, 1).flatten(1) for last in (hidden, cell))
        places, extra = extended(source, self.output_words)
        rows, empty = len(source), memory.new_zeros(len(source), 0, self.width)
        return State(
            memory,
            self.project_source(memory),
            mask,
            source,
            places,
            extra,
            F.relu(self.first_hidden(hidden)),
            F.relu(self.first_cell(cell)),
            memory.new_zeros(rows, 2 * self.width),
            memory.new_zeros(rows, 0),
            empty,
            empty,
        )

    def advance(self, state: State, last: Tensor) -> tuple[Tensor, Tensor, Tensor, State]:
        """One step after the words `last` int64 [rows].

        Returns the output layer's input [rows, hidden], the attention over the source [rows, S], the logit [rows] of
        generating instead of copying, and the new state.
        """
        x = self.input(torch.cat([self.embedded(last), state.context], dim=1))
        hidden, cell = self.cell(x, (state.hidden, state.cell))
        both = torch.cat([hidden, cell], dim=1)
        scores = self.score_source(torch.tanh(state.projected + self.project_state(both)[:, None])).squeeze(2)
        first = not state.before.shape[1]
        attention = (scores if first else scores - state.before).masked_fill(~state.mask, float("-inf")).softmax(dim=1)
        context = (attention[:, None] @ state.memory).squeeze(1)
        own = self._looked_back(state, hidden)
        gate = self.gate(torch.cat([context, own, both, x], dim=1)).squeeze(1)
        mixed = self.dropout(self.mix(torch.cat([hidden, context, own], dim=1)))
        new = State(
            *(getattr(state, name) for name in ("memory", "projected", "mask", "source", "places", "extra")),
            hidden,
            cell,
            context,
            scores if first else torch.logaddexp(state.before, scores),
            torch.cat([state.past, hidden[:, None]], dim=1),
            torch.cat([state.past_projected, self.project_past(hidden)[:, None]], dim=1),
        )
        return mixed, attention, gate, new

    def _looked_back(self, state: State, hidden: Tensor) -> Tensor:
        """What the decoder attends of its own earlier states [rows, hidden]; zeros at the first step."""
        if not state.past.shape[1]:
            return torch.zeros_like(hidden)
        scores = self.score_past(torch.tanh(state.past_projected + self.project_hidden(hidden)[:, None]))
        return (scores.softmax(dim=1) * state.past).sum(dim=1)

    def losses(self, source: Tensor, given: Tensor, wanted: Tensor) -> Tensor:
        """Negative log likelihood of each wanted word that isn't PAD, [words], under teacher forcing.

        A wanted word that can be neither generated nor copied counts as the unknown word.

        Args:
            source: int64 [rows, S]; given: int64 [rows, t], from START on; wanted: int64 [rows, t], to END.
        """
        state, steps = self.start(source), []
        for place in range(given.shape[1]):
            *step, state = self.advance(state, given[:, place])
            steps.append(step)
        mixed, attention, gate = (torch.stack(part, dim=1) for part in zip(*steps, strict=True))
        real = wanted != PAD
        copied = (attention * (source[:, None, :] == wanted[:, :, None])).sum(dim=2)[real]
        wanted = wanted[real]
        generated = self.out(mixed[real]).log_softmax(dim=1)
        in_source, can_be_said = copied > 0, wanted < self.output_words
        said = generated.gather(1, torch.where(can_be_said, wanted, UNKNOWN)[:, None]).squeeze(1).exp()
        said = torch.where(can_be_said | ~in_source, said, 0.0)
        gate = gate[real].sigmoid()
        return -(gate * said + (1 - gate) * copied).clamp(min=TINY).log()

    def step(self, state: State, last: Tensor) -> tuple[Tensor, State]:
        """Log probabilities [rows, extended vocabulary] of the word after `last`, and the state with it.

        `last` int64 [rows] are places in the extended vocabulary. What can't be said gets -inf: PAD, START, UNKNOWN.
        """
        beyond = (last - self.output_words).clamp(min=0)[:, None]
        numbers = last
        if state.extra.shape[1]:
            numbers = torch.where(last < self.output_words, last, state.extra.gather(1, beyond).squeeze(1))
        mixed, attention, gate, state = self.advance(state, numbers)
        gate = gate.sigmoid()[:, None]
        probabilities = F.pad(gate * self.out(mixed).softmax(dim=1), (0, state.extra.shape[1]))
        probabilities = probabilities.scatter_add(1, state.places, (1 - gate) * attention)
        probabilities[:, [PAD, START, UNKNOWN]] = 0.0
        return probabilities.log(), state

    @staticmethod
    def reorder(state: State, rows: Tensor) -> State:
        """The state of these rows, in this order."""
        return State(*(getattr(state, field.name)[rows] for field in fields(state)))


def extended(source: Tensor, output_words: int) -> tuple[Tensor, Tensor]:
    """Places int64 [rows, S] of the source's words in each row's extended vocabulary, and its extra words.

    A word that can be generated keeps its number. The others of a row, each once, follow after `output_words`; their
    numbers are in the second answer, int64 [rows, most of them in a row], filled up with PAD.
    """
    order = torch.where(source < output_words, -1, source).sort(dim=1)
    is_new = torch.ones_like(order.values, dtype=torch.bool)
    is_new[:, 1:] = order.values[:, 1:] != order.values[:, :-1]
    is_new &= order.values >= 0
    rank = is_new.cumsum(dim=1) - 1
    count = int(is_new.sum(dim=1).max()) if source.numel() else 0
    extra = source.new_full((len(source), count), PAD)
    rows, columns = is_new.nonzero(as_tuple=True)
    extra[rows, rank[rows, columns]] = order.values[rows, columns]
    ranks = torch.zeros_like(source).scatter(1, order.indices, rank)
    return torch.where(source < output_words, source, output_words + ranks), extra
