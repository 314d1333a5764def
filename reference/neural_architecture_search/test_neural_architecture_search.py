"""Neural architecture search: cells, metric, symbols and tables by hand, and the full model's size.

All text here is made up.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from . import baselines, cell, data, drawing, metric, search, train, units
from .cell import Cell
from .model import SharedModel, follow

TANH, RELU, SIGMOID, IDENTITY = range(4)


# ---- cells -----------------------------------------------------------------------------------------------------------


def plain_unroll(
    inputs: torch.Tensor, state: torch.Tensor, weights: list[torch.Tensor], chosen: Cell, max_norm: float
) -> torch.Tensor:
    """The formulas of cell.py step by step, for autograd to go through."""
    functions = (torch.tanh, torch.relu, torch.sigmoid, lambda values: values)
    states = []
    for given in inputs:
        outputs: list[torch.Tensor] = []
        for node, weight in enumerate(weights):
            before = state if node == 0 else outputs[chosen.reads[node - 1]]
            gate, candidate = (before @ weight + (given if node == 0 else 0)).chunk(2, dim=1)
            f = functions[chosen.functions[node]]
            outputs.append(before + torch.sigmoid(gate) * (f(candidate) - before))
        mean = sum(outputs[end] for end in chosen.ends) / len(chosen.ends)
        state = mean * (max_norm / mean.norm(dim=1, keepdim=True).detach()).clamp(max=1)
        states.append(state)
    return torch.stack(states)


@pytest.mark.parametrize(
    "chosen",
    [
        Cell((TANH,), ()),
        Cell((RELU, SIGMOID, IDENTITY, TANH), (0, 1, 2)),
        Cell((IDENTITY, TANH, RELU, SIGMOID), (0, 0, 0)),
        Cell((SIGMOID, IDENTITY, TANH, RELU), (0, 0, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("max_norm", [0.8, 100.0])
def test_the_unrolled_cell_equals_autograd(chosen: Cell, max_norm: float) -> None:
    """States and all gradients, once with most states shortened and once with none."""
    torch.manual_seed(0)
    inputs = torch.randn(6, 3, 10, dtype=torch.double, requires_grad=True)
    state = torch.randn(3, 5, dtype=torch.double)
    weights = [torch.randn(5, 10, dtype=torch.double, requires_grad=True) for _ in chosen.functions]
    expected = plain_unroll(inputs, state, weights, chosen, max_norm)
    got = cell.unroll(inputs, state, weights, chosen, max_norm)
    torch.testing.assert_close(got, expected)
    assert bool((expected.norm(dim=2) > 0.799).any()) if max_norm < 1 else bool((expected.norm(dim=2) < 99).all())
    towards = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, [inputs, *weights], towards)
    for mine, right in zip(torch.autograd.grad(got, [inputs, *weights], towards), wanted, strict=True):
        torch.testing.assert_close(mine, right)


def test_states_are_bounded() -> None:
    """A cell of identities that triples its state in every step would overflow after some eighty steps."""
    weight = torch.cat([torch.zeros(4, 4), 5 * torch.eye(4)], dim=1)  # half open, candidate = 5 h
    states = cell.unroll(torch.zeros(300, 2, 8), torch.ones(2, 4), [weight], Cell((IDENTITY,), ()), 25.0)
    assert states[0].tolist() == [[3.0] * 4] * 2
    torch.testing.assert_close(states[-1].norm(dim=1), torch.full((2,), 25.0))


def test_what_a_cell_is() -> None:
    chosen = Cell((TANH, RELU, TANH, IDENTITY), (0, 0, 2))
    assert chosen.ends == (1, 3)
    assert str(chosen) == "tanh, 0 relu, 0 tanh, 2 identity"
    assert cell.count(4) == 4**4 * 1 * 2 * 3
    assert cell.count(12) == 4**12 * math.factorial(11)
    for reads in ((0,), (0, 2), (1, 0), (0, -1)):
        with pytest.raises(ValueError, match="node"):
            Cell((TANH,) * 3, reads)


def test_random_cells_are_even() -> None:
    drawn = search.random_cells(3200, nodes=3, seed=5)
    counts = Counter(drawn)
    assert len(counts) == cell.count(3) == 128
    assert max(counts.values()) < 50  # 25 expected
    assert drawn == search.random_cells(3200, nodes=3, seed=5) != search.random_cells(3200, nodes=3, seed=6)


def test_the_drawing_shows_every_node_and_edge() -> None:
    chosen = Cell((TANH, RELU, SIGMOID), (0, 0))
    text = drawing.svg(chosen)
    assert all(f">{name}</text>" in text for name in ("tanh", "relu", "sigmoid", "0", "1", "2", "x, h", "mean"))
    assert text.count("<line") == 1 + 2 + 2  # into node 0, two reads, two ends
    assert text.count("<circle") == 5


def test_ends_are_drawn_in_one_column_and_rows_of_their_own() -> None:
    """Node 0 is read by 1 and 2, node 2 by 3: the ends are 1 and 3, and no line between nodes passes behind another."""
    chosen = Cell((TANH, RELU, SIGMOID, TANH), (0, 0, 2))
    root, one, two, three = drawing._places(chosen)
    assert one[0] == three[0] > two[0] > root[0]
    assert one[1] < root[1] < three[1] == two[1]


# ---- the shared model ------------------------------------------------------------------------------------------------


def test_parameter_count_of_the_full_model_and_one_step_of_it() -> None:
    """12 nodes of width 1000 over 10,000 words; the step moves what its cell uses, and no other matrix."""
    hp = train.PROFILES["full"]
    torch.manual_seed(0)
    net = SharedModel(10_000, hp.hidden_size, hp.nodes, hp.max_state_norm, 0.1, 0.65, 0.4)
    assert sum(p.numel() for p in net.parameters()) == 10_000 * 1001 + 1001 * 2000 + 67 * 1000 * 2000 == 146_012_000
    (chosen,) = search.random_cells(1, hp.nodes, seed=3)
    logits, _ = net(torch.randint(10_000, (2, 2)), net.start_state(2), chosen)
    F.cross_entropy(logits.flatten(0, 1), torch.randint(10_000, (4,))).backward()
    used = {id(weight) for weight in net.weights_of(chosen)}
    assert len(used) == 12
    assert all((weight.grad is not None) == (id(weight) in used) for weight in net.node_weights)
    before = {id(p): p.detach()[0].clone() for p in net.parameters() if p.grad is not None}
    optimizer = torch.optim.SGD(net.parameters(), lr=hp.opt_base_learning_rate, weight_decay=hp.opt_weight_decay)
    optimizer.step()
    for parameter in net.parameters():
        assert parameter.grad is None or not torch.equal(before[id(parameter)], parameter[0])


def test_each_pair_of_nodes_has_a_matrix_of_its_own() -> None:
    net = SharedModel(5, 2, 4, 25.0)
    numbers = {id(weight): number for number, weight in enumerate(net.node_weights)}
    assert len(numbers) == 1 + 6
    seen = set()
    for reads in ((0, 0, 0), (0, 1, 1), (0, 0, 2)):
        seen |= {numbers[id(weight)] for weight in net.weights_of(Cell((0,) * 4, reads))}
    assert seen == set(range(7))


def test_both_ways_to_the_input_agree_and_dropout_is_for_training() -> None:
    torch.manual_seed(0)
    net, text, chosen = SharedModel(7, 4, 2, 25.0), torch.randint(7, (5, 3)), Cell((TANH, RELU), (0,))
    folded, _ = net(text, net.start_state(3), chosen)
    net.dropouts = 0.0, 1e-9, 0.0
    torch.testing.assert_close(net(text, net.start_state(3), chosen)[0], folded)
    net.dropouts = 0.5, 0.5, 0.5
    assert not torch.allclose(net(text, net.start_state(3), chosen)[0], folded)
    net.eval()
    torch.testing.assert_close(net(text, net.start_state(3), chosen)[0], folded)


def test_a_text_in_pieces_is_the_text() -> None:
    torch.manual_seed(0)
    net, text, chosen = SharedModel(7, 4, 3, 25.0), torch.randint(7, (9, 3)), Cell((TANH, RELU, SIGMOID), (0, 1))
    whole, _ = net(text, net.start_state(3), chosen)
    state, parts = net.start_state(3), []
    for piece in text.split(4):
        logits, state = net(piece, state, chosen)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts), whole)


def test_the_average_follows() -> None:
    one, other = SharedModel(3, 2, 1, 25.0), SharedModel(3, 2, 1, 25.0)
    expected = 0.75 * one.embedding.detach() + 0.25 * other.embedding.detach()
    follow(one, other, 0.75)
    torch.testing.assert_close(one.embedding.detach(), expected)
    follow(one, other, 0.0)
    assert torch.equal(one.embedding, other.embedding)


# ---- metric ----------------------------------------------------------------------------------------------------------


def test_perplexity_by_hand_per_character() -> None:
    """Probabilities 1/2 and 1/8 for symbols of 1 and 3 characters, and a padded place: 4 bits over 4 characters."""
    logits = torch.log(torch.tensor([[0.5, 0.5], [0.875, 0.125], [0.9, 0.1]]))
    score = metric.Score()
    score.add(logits, torch.tensor([0, 1, metric.PADDING]), torch.tensor([1, 3]))
    assert (score.symbols, score.units) == (2, 4)
    assert score.perplexity == pytest.approx(2.0)


def test_a_known_model_has_its_known_perplexity() -> None:
    """With an embedding of zeros the output layer's bias alone predicts: the perplexity is the unigram's."""
    net = SharedModel(3, 4, 2, 25.0)
    with torch.no_grad():
        net.embedding.zero_()
        net.output_bias.copy_(torch.log(torch.tensor([0.5, 0.25, 0.25])))
    text = torch.tensor([2, 0, 0, 1, 2, 0, 1, 0])  # after the first: four 0, two 1, one 2
    for streams, steps in ((1, 7), (2, 3), (3, 1), (7, 5)):
        pieces = data.once(text, streams, steps)
        score = metric.evaluate(net, Cell((TANH, RELU), (0,)), pieces, streams, torch.ones(3, dtype=torch.long))
        assert score.symbols == 7
        assert score.perplexity == pytest.approx(2 ** ((4 * 1 + 3 * 2) / 7))


def test_nothing_and_nan_are_no_perplexity() -> None:
    with pytest.raises(ValueError, match="nothing"):
        _ = metric.Score().perplexity
    score = metric.Score()
    score.add(torch.full((1, 2), float("nan")), torch.tensor([0]), torch.ones(2, dtype=torch.long))
    with pytest.raises(data.runs.SetupError, match="diverged"):
        _ = score.perplexity


# ---- symbols ---------------------------------------------------------------------------------------------------------


def test_normal_text() -> None:
    assert units.normal("Ab\n c-1999,  \u00e9!") == "ab c#0000, ##"


def test_merges_by_hand() -> None:
    """ " ab" thrice, " abb" once: " a" comes first (smallest of the pairs seen four times), then " ab"."""
    merges = units.learn("ab ab ab abb", 34)
    spelled = units.spellings(merges)
    assert spelled[31:] == [" a", " ab", " abb"]
    assert [spelled[s] for s in units.encode(units.characters("ab abb"), merges)] == ["a", "b", " abb"]
    assert units.learn("a", 100) == [(0, 1)]  # no pair is left


def test_runs_of_one_symbol_are_merged_from_the_left() -> None:
    found, kept = units._merged(np.array([5, 5, 5, 1, 5, 5, 5, 5]), 5, 5, 9)
    assert found.tolist() == [9, 5, 1, 9, 9]
    assert kept.sum() == 5


def test_symbols_spell_the_text() -> None:
    text = units.normal("The cat sat on the mat, and the cat. " * 20)
    merges = units.learn(text, 60)
    numbers = units.encode(units.characters(text), merges)
    assert "".join(units.spellings(merges)[number] for number in numbers) == text
    assert len(numbers) < 0.6 * len(text)


def test_once_predicts_every_symbol_but_the_first() -> None:
    text = torch.arange(12)
    for streams, steps in ((1, 4), (3, 2), (4, 5), (11, 1), (20, 3)):
        pairs = [
            (a, b)
            for following, piece in data.once(text, streams, steps)
            for a, b in zip(piece.flatten().tolist(), following.tolist(), strict=True)
            if b != metric.PADDING
        ]
        assert sorted(pairs) == [(n, n + 1) for n in range(11)]


def test_the_reader_goes_on_and_starts_again() -> None:
    reader = data.Reader(torch.arange(11), streams=2, steps=3)
    first, second, third = reader.pieces(3)
    assert first[1].tolist() == [[0, 5], [1, 6], [2, 7]]
    assert first[0].tolist() == [1, 6, 2, 7, 3, 8]
    assert second[1].tolist() == [[3, 8], [4, 9]]
    assert torch.equal(third[1], first[1])
    with pytest.raises(data.runs.SetupError, match="cannot be cut"):
        data.Reader(torch.arange(5), streams=5, steps=3)


# ---- tables ----------------------------------------------------------------------------------------------------------


def distribution(train_line: list[int], context: list[int], name: str, symbols: int = 3) -> np.ndarray:
    """The probabilities of each symbol after `context`, from perplexities of one scored symbol."""
    found = []
    for symbol in range(symbols):
        line = np.array([*context, symbol])
        with_it = baselines.perplexities(np.array(train_line), line, symbols, len(line))[name]
        without = (
            baselines.perplexities(np.array(train_line), line[:-1], symbols, len(line))[name] if context[1:] else 1
        )
        found.append(without ** (len(line) - 2) / with_it ** (len(line) - 1))
    return np.array(found)


def test_tables_are_distributions() -> None:
    line = [0, 1, 0, 0, 2, 1, 0, 1, 1, 2, 0, 0, 1, 2, 2, 1]
    for name in ("witten_bell", "kneser_ney"):
        for context in ([0], [2], [0, 1], [2, 2], [1, 0]):
            for order in range(1, len(context) + 2):
                assert distribution(line, context, f"{name}_{order}").sum() == pytest.approx(1), (name, context, order)


def test_witten_bell_by_hand() -> None:
    """0 0 1: after 0 came 0 and 1 once each. Unigram of 0: (2 + 2/3) / 5; bigram: (1 + 2 * that) / 4."""
    unigram = (2 + 2 / 3) / 5
    got = distribution([0, 0, 1], [0], "witten_bell_2")
    assert got[0] == pytest.approx((1 + 2 * unigram) / 4)


def test_kneser_ney_by_hand() -> None:
    """Too few counts for an estimate: discounts of 0.5. 0 stands after one kind of symbol, 1 after two, of 3 in all."""
    line = [0, 1, 1, 0, 1]  # bigrams 01 (2), 11 (1), 10 (1)
    lower = (2 - 0.5) / 3 + 0.5 * 2 / 3 * (1 / 3)  # of symbol 1: after 0 and after 1
    got = distribution(line, [0], "kneser_ney_2")
    assert got[1] == pytest.approx((2 - 0.5) / 2 + 0.5 / 2 * lower)


def test_longer_tables_need_room() -> None:
    with pytest.raises(ValueError, match="int64"):
        baselines.perplexities(np.array([0, 1]), np.array([0, 1]), 10_000, 5)
