"""The recurrent cells that are searched: what one is, how it is drawn at random, and how it runs over a text.

A cell has `nodes` nodes. Node 0 reads the input and the state of the step before; every later node reads one earlier
node. A node with input h (for node 0: the old state) computes

    c = sigmoid(gate)      gate, candidate = h @ weight (+ the input's part, in node 0)
    node = h + c * (f(candidate) - h)

with one of four functions f. The new state is the mean of the nodes that no other node reads, shortened where its
length in a stream exceeds `max_norm`: cells of identity and ReLU alone have no bound of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FUNCTIONS = ("tanh", "relu", "sigmoid", "identity")


@dataclass(frozen=True)
class Cell:
    """A cell: of each node the number of its function in FUNCTIONS, and of each but node 0 the node that it reads."""

    functions: tuple[int, ...]
    reads: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.reads) != len(self.functions) - 1:
            raise ValueError(f"a cell of {len(self.functions)} nodes has one fewer that read: {self.reads}")
        if any(not 0 <= read <= place for place, read in enumerate(self.reads)):
            raise ValueError(f"a node reads an earlier one: {self.reads}")

    @property
    def ends(self) -> tuple[int, ...]:
        """The nodes that no node reads; the last one is always among them."""
        return tuple(node for node in range(len(self.functions)) if node not in self.reads)

    def __str__(self) -> str:
        """As "tanh, 0 relu, 1 tanh": a node's input and its function."""
        read = ("", *(f"{number} " for number in self.reads))
        return ", ".join(before + FUNCTIONS[number] for before, number in zip(read, self.functions, strict=True))


def count(nodes: int) -> int:
    """How many different cells there are."""
    total = len(FUNCTIONS)
    for node in range(1, nodes):
        total *= node * len(FUNCTIONS)
    return total


def random_cell(nodes: int, generator: torch.Generator) -> Cell:
    """One of all cells, each as likely."""

    def draw(below: int) -> int:
        return int(torch.randint(below, (), generator=generator))

    return Cell(tuple(draw(len(FUNCTIONS)) for _ in range(nodes)), tuple(draw(node) for node in range(1, nodes)))


def unroll(inputs: Tensor, state: Tensor, weights: Sequence[Tensor], cell: Cell, max_norm: float) -> Tensor:
    """The states of a text under `cell`.

    Args:
        inputs: (steps, streams, 2 * width), what the input gives to the gate and the candidate of node 0.
        state: (streams, width), the state before the first step; no gradient flows to it.
        weights: one (width, 2 * width) a node, its gate in the first half.
        max_norm: upper bound of a state's length; its gradient takes the shortening for a constant factor.

    Returns:
        (steps, streams, width).
    """
    return _Unroll.apply(inputs, state, cell, max_norm, *weights)


class _Unroll(torch.autograd.Function):
    """`unroll` with its backward pass written out: the gradients of the weights are one product a node, not one a step,
    and no graph of some ten thousand small operations is built."""

    @staticmethod
    def forward(ctx, inputs: Tensor, state: Tensor, cell: Cell, max_norm: float, *weights: Tensor) -> Tensor:
        steps, streams, width = len(inputs), *state.shape
        nodes, ends = range(len(weights)), cell.ends
        both = [inputs.new_empty(steps, streams, 2 * width) for _ in nodes]  # gate | candidate
        out = [inputs.new_empty(steps, streams, width) for _ in nodes]
        states = inputs.new_empty(steps + 1, streams, width)
        factors = inputs.new_empty(steps, streams, 1)  # of the mean: 1 / ends, times the shortening
        states[0] = state
        for step in range(steps):
            for node in nodes:
                here = both[node][step]
                if node == 0:
                    before = states[step]
                    torch.addmm(inputs[step], before, weights[0], out=here)
                else:
                    before = out[cell.reads[node - 1]][step]
                    torch.mm(before, weights[node], out=here)
                gate, candidate = here[:, :width].sigmoid_(), _apply_(cell.functions[node], here[:, width:])
                torch.lerp(before, candidate, gate, out=out[node][step])
            total = out[ends[0]][step]
            for node in ends[1:]:
                total = total + out[node][step]
            length = torch.linalg.vector_norm(total, dim=1, keepdim=True) / len(ends)
            torch.clamp(max_norm / length.clamp_(min=1e-6), max=1.0, out=factors[step]).div_(len(ends))
            torch.mul(total, factors[step], out=states[step + 1])
        ctx.cell = cell
        ctx.save_for_backward(states, factors, *weights, *both, *out)
        return states[1:].clone()

    @staticmethod
    def backward(ctx, grad: Tensor):
        cell: Cell = ctx.cell
        nodes = range(len(cell.functions))
        states, factors, *kept = ctx.saved_tensors
        weights, both, out = (kept[part * len(nodes) : (part + 1) * len(nodes)] for part in range(3))
        steps, streams, width = grad.shape
        deltas = [torch.empty_like(values) for values in both]  # gradients before the functions
        turned = [weight.T for weight in weights]
        carry = torch.zeros_like(grad[0])
        for step in reversed(range(steps)):
            to_end = torch.add(grad[step], carry).mul_(factors[step])
            to: list[Tensor | None] = [to_end if node in cell.ends else None for node in nodes]
            for node in reversed(nodes):
                received = to[node]
                before = states[step] if node == 0 else out[cell.reads[node - 1]][step]
                here, delta = both[node][step], deltas[node][step]
                gate, candidate = here[:, :width], here[:, width:]
                through = received * gate
                torch.mul(candidate - before, received, out=delta[:, :width]).mul_(gate).mul_(1 - gate)
                delta[:, width:] = _slope(cell.functions[node], candidate, through)
                passed = torch.addmm(received - through, delta, turned[node])
                if node == 0:
                    carry = passed
                else:
                    read = cell.reads[node - 1]
                    to[read] = passed if to[read] is None else to[read] + passed
        grads = []
        for node in nodes:
            before = states[:-1] if node == 0 else out[cell.reads[node - 1]]
            grads.append(before.reshape(-1, width).T @ deltas[node].view(-1, 2 * width))
        return deltas[0], None, None, None, *grads


def _apply_(function: int, values: Tensor) -> Tensor:
    """FUNCTIONS[function] of `values`, in place. tanh goes by the sigmoid, which torch computes four times as fast."""
    name = FUNCTIONS[function]
    if name == "tanh":
        return values.mul_(2).sigmoid_().mul_(2).sub_(1)
    if name == "relu":
        return values.relu_()
    return values.sigmoid_() if name == "sigmoid" else values


def _slope(function: int, result: Tensor, grad: Tensor) -> Tensor:
    """The gradient before FUNCTIONS[function], from its `result` and the gradient after it."""
    name = FUNCTIONS[function]
    if name == "tanh":
        return torch.addcmul(grad, grad * result, result, value=-1)
    if name == "relu":
        return grad * (result > 0)
    if name == "sigmoid":
        return torch.addcmul(grad, grad, result, value=-1).mul_(result)
    return grad
