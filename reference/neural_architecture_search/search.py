"""The two steps of the search around the shared weights: rewarding drawn cells, and deriving one."""

from __future__ import annotations

import torch
from torch import Tensor

from . import data, metric
from .cell import Cell, random_cell
from .controller import Controller, Teacher
from .model import SharedModel


def entropy_weight(epoch: int, first: float, zero_epoch: int) -> float:
    """Of the controller's updates in this epoch, from 1: `first`, and if `zero_epoch` is not 0 a fall in a line, from
    there through 0 at that epoch down to minus `first`.

    Above 0 it keeps the controller open; below, the controller narrows down, however little the rewards differ.
    """
    return first * (max(-1.0, 1 - epoch / zero_epoch) if zero_epoch else 1.0)


def teach(
    teacher: Teacher,
    count: int,
    net: SharedModel,
    reader: data.Reader,
    lengths: Tensor,
    reward_scale: float,
    entropy_weight: float,
) -> float:
    """One update of the controller from `count` cells that it draws. Returns their decisions' mean entropy in nats.

    A cell's reward is reward_scale / its perplexity on the next piece of the reward text, the same for all of them,
    under the weights of `net`, which don't change.
    """
    cells, log_probabilities, entropies = teacher.controller(count)
    piece = list(reader.pieces(1))
    streams = piece[0][1].shape[1]
    values = [metric.evaluate(net, cell, piece, streams, lengths).perplexity for cell in cells]
    rewards = log_probabilities.new_tensor([reward_scale / value for value in values])
    teacher.learn(rewards, log_probabilities, entropies, entropy_weight)
    return float(entropies.detach().mean())


@torch.no_grad()
def derive(
    controller: Controller, count: int, net: SharedModel, pieces: list[tuple[Tensor, Tensor]], lengths: Tensor
) -> tuple[Cell, float]:
    """Of `count` cells that the controller draws, the one with the lowest perplexity on `pieces`, and that perplexity.

    `pieces` follow one another in the reward text; all cells are compared under the same weights.
    """
    cells, _, _ = controller(count)
    streams = pieces[0][1].shape[1]
    scored = [(metric.evaluate(net, cell, pieces, streams, lengths).perplexity, cell) for cell in dict.fromkeys(cells)]
    value, cell = min(scored, key=lambda pair: pair[0])
    return cell, value


def random_cells(count: int, nodes: int, seed: int) -> list[Cell]:
    """`count` cells drawn evenly from all, the same for the same seed, whatever else is random."""
    generator = torch.Generator().manual_seed(seed)
    return [random_cell(nodes, generator) for _ in range(count)]
