"""The controller that draws cells: an LSTM over their decisions, taught by REINFORCE."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .cell import FUNCTIONS, Cell

INIT = 0.1  # weights start uniform between -INIT and INIT: all cells nearly as likely


class Controller(nn.Module):
    """Decides, for each node, which earlier node it reads (but for node 0) and which function it applies.

    One LSTM step a decision. A function is drawn from a linear layer's scores; what to read by attention over the
    LSTM's outputs at the earlier nodes. Scores s become tanh_constant * tanh(s / temperature) before the softmax.
    """

    def __init__(self, nodes: int, width: int, temperature: float, tanh_constant: float) -> None:
        super().__init__()
        if min(nodes, width) < 1 or min(temperature, tanh_constant) <= 0:
            raise ValueError("nodes and the controller's width, temperature and tanh constant must be above 0")
        self.nodes, self.width = nodes, width
        self.temperature, self.tanh_constant = temperature, tanh_constant
        self.start = nn.Parameter(torch.empty(width))
        self.embedding = nn.Embedding(len(FUNCTIONS), width)
        self.lstm = nn.LSTMCell(width, width)
        self.function_scores = nn.Linear(width, len(FUNCTIONS))
        self.read_key = nn.Linear(width, width, bias=False)
        self.read_query = nn.Linear(width, width, bias=False)
        self.read_score = nn.Linear(width, 1, bias=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -INIT, INIT)

    def forward(self, count: int) -> tuple[list[Cell], Tensor, Tensor]:
        """Draw `count` cells: the cells, their log-probabilities and the entropy of their decisions, each (count,)."""
        hidden = memory = self.start.new_zeros(count, self.width)
        given = self.start.expand(count, -1)
        rows = torch.arange(count, device=given.device)
        earlier: list[Tensor] = []  # the LSTM's outputs at the nodes so far
        functions, reads = [], []
        log_probability = entropy = self.start.new_zeros(count)
        for node in range(self.nodes):
            if node > 0:
                hidden, memory = self.lstm(given, (hidden, memory))
                seen = torch.stack(earlier, dim=1)
                fit = torch.tanh(self.read_key(seen) + self.read_query(hidden)[:, None])
                read, log_p, spread = self._draw(self.read_score(fit).squeeze(2))
                log_probability, entropy = log_probability + log_p, entropy + spread
                reads.append(read)
                given = seen[rows, read]
            hidden, memory = self.lstm(given, (hidden, memory))
            function, log_p, spread = self._draw(self.function_scores(hidden))
            log_probability, entropy = log_probability + log_p, entropy + spread
            functions.append(function)
            given = self.embedding(function)
            earlier.append(hidden)
        chosen = torch.stack(functions, dim=1).tolist()
        read_from = torch.stack(reads, dim=1).tolist() if reads else [[]] * count
        cells = [Cell(tuple(f), tuple(r)) for f, r in zip(chosen, read_from, strict=True)]
        return cells, log_probability, entropy

    def _draw(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From scores (count, options): a choice, its log-probability and the entropy, each (count,)."""
        log_p = (self.tanh_constant * torch.tanh(scores / self.temperature)).log_softmax(dim=1)
        choice = torch.multinomial(log_p.detach().exp(), 1)
        return choice.squeeze(1), log_p.gather(1, choice).squeeze(1), -(log_p.exp() * log_p).sum(dim=1)


class Teacher:
    """REINFORCE with a moving baseline: makes the cells likelier that get more reward than cells did before."""

    def __init__(self, controller: Controller, rate: float, baseline_decay: float) -> None:
        self.controller = controller
        self.optimizer = torch.optim.Adam(controller.parameters(), lr=rate)
        self.baseline_decay = baseline_decay
        self.baseline: float | None = None  # the first rewards' mean, then a moving one

    def learn(self, rewards: Tensor, log_probabilities: Tensor, entropies: Tensor, entropy_weight: float) -> None:
        """One step, from the rewards (count,) of drawn cells and what the controller said of them.

        entropy_weight: what a nat of entropy counts beside the reward, see search.entropy_weight.
        """
        mean = float(rewards.mean())
        if self.baseline is None:
            self.baseline = mean
        loss = -((rewards - self.baseline) * log_probabilities + entropy_weight * entropies).mean()
        self.baseline = self.baseline_decay * self.baseline + (1 - self.baseline_decay) * mean
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
