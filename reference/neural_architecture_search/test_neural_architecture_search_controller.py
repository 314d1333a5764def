"""Neural architecture search: how the controller draws, how it is taught, and how a cell is derived."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from . import cell, data, metric, search, train
from .controller import Controller, Teacher
from .model import SharedModel

TANH = cell.FUNCTIONS.index("tanh")


def test_a_cell_is_drawn_as_often_as_its_probability_says() -> None:
    torch.manual_seed(0)
    controller = Controller(3, 8, temperature=1.0, tanh_constant=2.5)
    with torch.no_grad():
        controller.function_scores.weight.mul_(30)  # far from even
        controller.read_score.weight.mul_(30)
        cells, log_p, entropy = controller(20_000)
    said = dict(zip(cells, log_p.exp().tolist(), strict=True))
    counts = Counter(cells)
    assert len(counts) > 60
    assert sum(said.values()) == pytest.approx(1, abs=0.02)
    for chosen, count in counts.most_common(10):
        assert count / 20_000 == pytest.approx(said[chosen], rel=0.25)
    assert float(entropy.mean()) == pytest.approx(-float(log_p.mean()), abs=0.05)


def test_reinforce_finds_the_rewarded_cells() -> None:
    """Reward for a first node of tanh and a third that reads the second: both become likely, and the entropy falls."""
    torch.manual_seed(1)
    controller = Controller(3, 16, temperature=5.0, tanh_constant=2.5)
    teacher = Teacher(controller, rate=2e-2, baseline_decay=0.9)
    before = float(controller(100)[2].detach().mean())
    for _ in range(120):
        cells, log_p, entropy = controller(8)
        rewards = torch.tensor([float(c.functions[0] == TANH) + float(c.reads[1] == 1) for c in cells])
        teacher.learn(rewards, log_p, entropy, entropy_weight=1e-4)
    cells, _, after = controller(200)
    assert sum(c.functions[0] == TANH for c in cells) > 150
    assert sum(c.reads[1] == 1 for c in cells) > 170
    assert float(after.detach().mean()) < before - 1


def test_the_baseline_moves() -> None:
    teacher = Teacher(Controller(1, 4, 5.0, 2.5), rate=0.0, baseline_decay=0.9)
    for reward in (2.0, 4.0):
        _, log_p, entropy = teacher.controller(2)
        teacher.learn(torch.full((2,), reward), log_p, entropy, 0.0)
    assert teacher.baseline == pytest.approx(0.9 * 2 + 0.1 * 4)


def test_the_entropy_weight_decides_whether_the_controller_narrows_down() -> None:
    """Rewards that are all the same: above 0 an uneven controller opens, below 0 an even one settles on few cells."""

    def taught(weight: float, uneven: float) -> tuple[float, float]:
        torch.manual_seed(3)
        controller = Controller(3, 16, temperature=2.5, tanh_constant=5.0)
        with torch.no_grad():
            controller.function_scores.bias.mul_(uneven)
        teacher, entropies = Teacher(controller, rate=1e-2, baseline_decay=0.9), []
        for _ in range(150):
            _, log_p, entropy = controller(8)
            teacher.learn(torch.ones(8), log_p, entropy, weight)
            entropies.append(float(entropy.detach().mean()))
        return entropies[0], entropies[-1]

    before, after = taught(0.1, uneven=30)
    assert before < after - 0.5
    assert after == pytest.approx(math.log(cell.count(3)), abs=0.05)
    before, after = taught(-0.1, uneven=1)
    assert before > math.log(cell.count(3)) - 0.1
    assert after < 1


def test_the_entropy_weight_falls_through_zero_or_stays() -> None:
    assert [search.entropy_weight(epoch, 0.5, 4) for epoch in (1, 4, 6, 8, 50)] == [0.375, 0.0, -0.25, -0.5, -0.5]
    assert search.entropy_weight(9, 0.5, 0) == 0.5


def test_a_controller_that_is_not_taught_draws_evenly() -> None:
    """So that the control `uniform` is one: all cells of the small profile but for a tenth of a nat."""
    hp = train.PROFILES["embedded"]
    torch.manual_seed(4)
    controller = Controller(hp.nodes, hp.controller_size, hp.controller_temperature, hp.controller_tanh_constant)
    cells, _, entropy = controller(2000)
    assert float(entropy.detach().mean()) > math.log(cell.count(hp.nodes)) - 0.1
    counts = Counter(function for one in cells for function in one.functions)
    assert min(counts.values()) > 0.8 * 2000 * hp.nodes / 4


def test_the_derived_cell_is_the_best_of_those_drawn() -> None:
    torch.manual_seed(2)
    net, controller = SharedModel(6, 8, 3, 25.0), Controller(3, 8, 5.0, 2.5)
    with torch.no_grad():
        net.embedding.mul_(4)
    lengths = torch.ones(6, dtype=torch.long)
    pieces = list(data.once(torch.randint(6, (200,)), 4, 10))
    torch.manual_seed(7)
    chosen, value = search.derive(controller, 12, net, pieces, lengths)
    torch.manual_seed(7)
    cells = controller(12)[0]
    values = {c: metric.evaluate(net, c, pieces, 4, lengths).perplexity for c in cells}
    assert len(set(values.values())) > 6
    assert value == min(values.values()) == values[chosen]
