"""Beam search against every sequence there is, on made-up models small enough to list them."""

import itertools

import pytest
import torch

from reference.common import beam

START, END, VOCABULARY, LONGEST = 0, 1, 4, 4


class Model:
    """Log probabilities that depend on the input and on the whole history, which is the state."""

    def __init__(self, inputs, seed=0, sharpness=1.5):
        self.table = torch.Generator().manual_seed(seed)
        self.logits = {}
        self.inputs, self.sharpness = inputs, sharpness

    def after(self, number, history):
        key = number, tuple(history)
        if key not in self.logits:
            self.table.manual_seed(hash(key) % 2**31)
            self.logits[key] = (self.sharpness * torch.randn(VOCABULARY, generator=self.table)).log_softmax(0)
        return self.logits[key]

    def step(self, state, last):
        state = [(number, (*history, token)) for (number, history), token in zip(state, last.tolist(), strict=True)]
        return torch.stack([self.after(*row) for row in state]), state

    def search(self, width, **given):
        def reorder(state, rows):
            return [state[row] for row in rows.tolist()]

        state = [(number, ()) for number in range(self.inputs)]
        given = {"max_length": LONGEST, **given}
        return beam.search(self.step, state, reorder, self.inputs, start=START, end=END, width=width, **given)

    def score(self, number, tokens, power=0.0):
        history, total = (START,), 0.0
        for token in (*tokens, END):
            total += float(self.after(number, history)[token])
            history = (*history, token)
        return total / (len(tokens) + 1) ** power

    def best_of_all(self, number, shortest=0, power=0.0):
        words = [token for token in range(VOCABULARY) if token != END]
        every = (tokens for n in range(shortest, LONGEST + 1) for tokens in itertools.product(words, repeat=n))
        return max(every, key=lambda tokens: self.score(number, tokens, power))


@pytest.mark.parametrize(("power", "shortest"), [(0.0, 0), (1.0, 0), (0.6, 2), (2.0, 1)])
def test_a_wide_search_finds_the_best_of_all_sequences(power, shortest):
    model = Model(inputs=12)
    found = model.search(width=VOCABULARY**LONGEST, length_power=power, min_length=shortest)
    for number, hypothesis in enumerate(found):
        wanted = model.best_of_all(number, shortest, power)
        assert tuple(hypothesis.tokens) == wanted
        assert hypothesis.score == pytest.approx(model.score(number, wanted, power), abs=1e-5)


def test_a_narrow_search_returns_true_scores_and_gains_with_its_width():
    model = Model(inputs=40)
    totals = []
    for width in (1, 2, 5, 30):
        found = model.search(width)
        for number, hypothesis in enumerate(found):
            assert hypothesis.score == pytest.approx(model.score(number, hypothesis.tokens), abs=1e-5)
        totals.append(sum(hypothesis.score for hypothesis in found))
    best = sum(model.score(number, model.best_of_all(number)) for number in range(40))
    assert totals[0] < totals[1] < totals[3]
    assert totals[3] == pytest.approx(best, abs=1e-4)


def test_width_one_is_greedy():
    model = Model(inputs=30)
    for number, hypothesis in enumerate(model.search(width=1)):
        history = [START]
        while len(history) <= LONGEST and (token := int(model.after(number, history).argmax())) != END:
            history.append(token)
        assert hypothesis.tokens == history[1:]


def test_inputs_do_not_disturb_each_other():
    """Inputs end at different steps; each is found as when it is alone."""
    together = Model(inputs=15)
    found = together.search(width=3, length_power=0.7)
    assert len({len(hypothesis.tokens) for hypothesis in found}) > 2
    for number in range(15):
        alone = Model(inputs=1)
        alone.after = lambda _, history, number=number: together.after(number, history)
        (hypothesis,) = alone.search(width=3, length_power=0.7)
        assert hypothesis.tokens == found[number].tokens
        assert hypothesis.score == pytest.approx(found[number].score, abs=1e-5)


def test_a_model_that_never_ends_gives_its_best_words():
    model = Model(inputs=3)
    free = model.after

    def endless(number, history):
        log_probs = free(number, history).clone()
        log_probs[END] = float("-inf")
        return log_probs

    model.after = endless
    for hypothesis in model.search(width=2):
        assert len(hypothesis.tokens) == LONGEST
        assert hypothesis.score == float("-inf")


def test_a_model_without_any_word_gives_nothing():
    model = Model(inputs=2)
    model.after = lambda number, history: torch.full((VOCABULARY,), float("-inf"))
    assert model.search(width=2) == [beam.Hypothesis([], float("-inf"))] * 2


def test_no_input_gives_no_hypothesis():
    model = Model(inputs=0)
    assert model.search(width=2) == []


@pytest.mark.parametrize("given", [{"width": 0}, {"width": 2, "min_length": 5}, {"width": 2, "length_power": -1.0}])
def test_settings_without_sense_are_refused(given):
    with pytest.raises(ValueError, match="no search with width"):
        Model(inputs=1).search(**given)
