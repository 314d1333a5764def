"""The language model whose recurrent cell is searched: one set of weights that all cells share."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .cell import Cell, unroll


class SharedModel(nn.Module):
    """Embedding, a cell of `nodes` nodes, and an output layer tied to the embedding.

    Node j's matrix depends on the node that it reads: one (width, 2 * width) matrix for each of the
    nodes * (nodes - 1) / 2 pairs, and one for node 0's old state.

    Args:
        symbols: size of the vocabulary.
        width: of the embedding, of each node and of the state.
        max_norm: upper bound of a state's length.
        dropout_symbols, dropout_inputs, dropout_outputs: shares set to zero in training: whole symbols of the embedding
            (each symbol's row, for a whole piece of text); elements of the embedded text, and of the states before the
            output layer, both with one mask a stream for all its steps.
        gate_bias: of node 0's gate at the start; the lower, the longer a state is kept.
    """

    def __init__(
        self,
        symbols: int,
        width: int,
        nodes: int,
        max_norm: float,
        dropout_symbols: float = 0.0,
        dropout_inputs: float = 0.0,
        dropout_outputs: float = 0.0,
        gate_bias: float = -1.0,
    ) -> None:
        super().__init__()
        if min(symbols, width, nodes) < 1:
            raise ValueError("symbols, width and nodes must be at least 1")
        self.width, self.nodes, self.max_norm = width, nodes, max_norm
        self.dropouts = dropout_symbols, dropout_inputs, dropout_outputs
        self.embedding = nn.Parameter(torch.empty(symbols, width))
        self.output_bias = nn.Parameter(torch.zeros(symbols))
        self.input_weight = nn.Parameter(torch.empty(width, 2 * width))
        self.input_bias = nn.Parameter(torch.zeros(2 * width))
        pairs = nodes * (nodes - 1) // 2
        self.node_weights = nn.ParameterList(torch.empty(width, 2 * width) for _ in range(1 + pairs))
        scale = width**-0.5
        nn.init.normal_(self.embedding, std=scale)
        for weight in (self.input_weight, *self.node_weights):
            nn.init.uniform_(weight, -(3**0.5) * scale, 3**0.5 * scale)
        nn.init.constant_(self.input_bias[:width], gate_bias)

    def weights_of(self, cell: Cell) -> list[Tensor]:
        """Of each node the shared matrix that `cell` uses."""
        first = ((node - 1) * node // 2 for node in range(1, self.nodes))
        pairs = (1 + start + read for start, read in zip(first, cell.reads, strict=True))
        return [self.node_weights[0], *(self.node_weights[pair] for pair in pairs)]

    def start_state(self, streams: int) -> Tensor:
        return self.embedding.new_zeros(streams, self.width)

    def forward(self, text: Tensor, state: Tensor, cell: Cell) -> tuple[Tensor, Tensor]:
        """Logits for what follows each symbol.

        Args:
            text: int64 (steps, streams), symbols.
            state: (streams, width).

        Returns:
            logits (steps, streams, symbols) and the state after the last step, without its history.
        """
        symbols, inputs, outputs = self.dropouts if self.training else (0.0, 0.0, 0.0)
        table = self.embedding
        if symbols:
            table = F.dropout(table.new_ones(len(table), 1), symbols) * table
        if inputs:
            embedded = F.embedding(text, table)
            embedded = embedded * F.dropout(torch.ones_like(embedded[:1]), inputs)
            read = embedded @ self.input_weight + self.input_bias
        else:  # the same, cheaper: each symbol of the vocabulary goes through the matrix once
            read = F.embedding(text, torch.addmm(self.input_bias, table, self.input_weight))
        states = unroll(read, state, self.weights_of(cell), cell, self.max_norm)
        seen = states * F.dropout(torch.ones_like(states[:1]), outputs) if outputs else states
        return F.linear(seen, self.embedding, self.output_bias), states[-1].detach()


@torch.no_grad()
def follow(average: nn.Module, net: nn.Module, decay: float) -> None:
    """Move every parameter of `average` a step towards those of `net`; a decay of 0 copies them."""
    torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), 1 - decay)
