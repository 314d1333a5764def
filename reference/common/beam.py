"""Beam search over any step function, for all inputs of a batch at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

State = TypeVar("State")
NEVER = float("-inf")


class Hypothesis(NamedTuple):
    """A found sequence without its start and end, and its score: log probability / length ** length_power."""

    tokens: list[int]
    score: float


@torch.no_grad()
def search(
    step: Callable[[State, Tensor], tuple[Tensor, State]],
    state: State,
    reorder: Callable[[State, Tensor], State],
    inputs: int,
    *,
    start: int,
    end: int,
    width: int,
    max_length: int,
    min_length: int = 0,
    length_power: float = 0.0,
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """The best hypothesis of each of `inputs` inputs, in their order.

    An input is done when `width` of its hypotheses have ended, or when none that goes on could still score better. The
    end counts as one token in the length. A hypothesis of `max_length` tokens can only end; where the model gives that
    no probability at all, the best of those that go on is returned as it stands, with a score of -inf.

    Args:
        step: (state, last tokens int64 [rows]) -> (log probabilities [rows, vocabulary], new state).
        state: of the first step, one row an input.
        reorder: (state, rows int64 [n]) -> the state whose row k is the given state's row rows[k]. Rows may repeat or
            be left out.
        start, end: the token that every hypothesis begins with and the one that ends it.
        width: hypotheses kept an input; 1 is greedy decoding.
        max_length, min_length: tokens of a hypothesis, start and end not counted.
        length_power: 0 compares sums of log probabilities, 1 their means a token. More favours longer hypotheses.

    Raises:
        ValueError: a width below 1, a negative length_power, or lengths that contradict each other.
    """
    if width < 1 or length_power < 0 or not 0 <= min_length <= max_length:
        raise ValueError(f"no search with width {width}, lengths {min_length}..{max_length}, power {length_power}")
    best = [Hypothesis([], NEVER)] * inputs
    live = _Live.begin(inputs, width, start, device)
    state = reorder(state, live.numbers.repeat_interleave(width))
    for length in range(1, max_length + 2):
        if not len(live.numbers):
            break
        log_probs, state = step(state, live.tokens[:, :, -1].flatten())
        log_probs = _allowed(log_probs, end, may_end=length > min_length, may_go_on=length <= max_length)
        candidates = live.candidates(log_probs, width)
        live.keep_ended(candidates, end, width, length**length_power, best)
        if length <= max_length:
            rows = live.go_on(candidates, end, width, (max_length + 1) ** length_power)
            state = reorder(state, rows)
    for row, score in enumerate(live.best_score.tolist()):
        if score == NEVER:
            best[int(live.numbers[row])] = Hypothesis(live.tokens[row, 0, 1:].tolist(), NEVER)
    return best


def _allowed(log_probs: Tensor, end: int, may_end: bool, may_go_on: bool) -> Tensor:
    """`log_probs` [rows, vocabulary] with -inf where the length forbids a token."""
    if may_end and may_go_on:
        return log_probs
    is_end = torch.arange(log_probs.shape[1], device=log_probs.device) == end
    return log_probs.masked_fill(~is_end if may_end else is_end, NEVER)


@dataclass
class _Live:
    """The hypotheses that go on, of the inputs that aren't done; the first of each input's `width` is its best.

    numbers int64 [rows], which inputs these are; tokens int64 [rows, width, length]; sums [rows, width], their log
    probabilities; ended int64 [rows], how many have ended, and best_score [rows], the best score among those.
    """

    numbers: Tensor
    tokens: Tensor
    sums: Tensor
    ended: Tensor
    best_score: Tensor

    @classmethod
    def begin(cls, inputs: int, width: int, start: int, device: torch.device | str) -> _Live:
        sums = torch.full((inputs, width), NEVER, device=device)
        sums[:, 0] = 0.0  # all beams are alike before the first step: only one of them counts
        return cls(
            torch.arange(inputs, device=device),
            torch.full((inputs, width, 1), start, device=device),
            sums,
            torch.zeros(inputs, dtype=torch.int64, device=device),
            torch.full((inputs,), NEVER, device=device),
        )

    def candidates(self, log_probs: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Sums, beams and next tokens of each input's best 2 x width continuations: enough for `width` that go on."""
        vocabulary = log_probs.shape[1]
        totals = self.sums[:, :, None] + log_probs.view(*self.sums.shape, vocabulary)
        sums, places = totals.flatten(1).topk(min(2 * width, width * vocabulary))
        return sums, places // vocabulary, places % vocabulary

    def keep_ended(
        self, candidates: tuple[Tensor, Tensor, Tensor], end: int, width: int, divisor: float, best: list[Hypothesis]
    ) -> None:
        """Put into `best` what ends now, is among the first `width` candidates, and scores better than before."""
        sums, beams, words = (part[:, :width] for part in candidates)
        ends = (words == end) & sums.isfinite()
        scores, column = torch.where(ends, sums / divisor, NEVER).max(dim=1)
        for row in (scores > self.best_score).nonzero().flatten().tolist():
            tokens = self.tokens[row, beams[row, column[row]], 1:].tolist()
            best[int(self.numbers[row])] = Hypothesis(tokens, float(scores[row]))
        self.best_score = torch.maximum(self.best_score, scores)
        self.ended = self.ended + ends.sum(dim=1)

    def go_on(self, candidates: tuple[Tensor, Tensor, Tensor], end: int, width: int, divisor: float) -> Tensor:
        """Replace the hypotheses by the best that don't end. Returns the row of the state that each continues.

        divisor: that of the longest hypothesis. Sums only fall and lengths only grow, so that no score is above the
        present best sum over it.
        """
        sums, beams, words = candidates
        self.sums, column = sums.masked_fill(words == end, NEVER).topk(width)
        beams, words = beams.gather(1, column), words.gather(1, column)
        before = self.tokens.gather(1, beams[:, :, None].expand(-1, -1, self.tokens.shape[2]))
        self.tokens = torch.cat([before, words[:, :, None]], dim=2)
        rows = ((self.ended < width) & (self.sums[:, 0] / divisor > self.best_score)).nonzero().flatten()
        self.numbers, self.tokens, self.sums = self.numbers[rows], self.tokens[rows], self.sums[rows]
        self.ended, self.best_score = self.ended[rows], self.best_score[rows]
        return (rows[:, None] * width + beams[rows]).flatten()
