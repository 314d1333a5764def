"""SGD with momentum, and LARS (You et al., 2017, arXiv:1708.03888) for large batches."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class LARS(torch.optim.Optimizer):
    """Momentum SGD whose step is scaled, for each tensor, by the ratio of the norms of weights and gradient.

    velocity = momentum * velocity + lr * trust * (gradient + weight_decay * weight);  weight -= velocity
    trust = eta * |weight| / (|gradient| + weight_decay * |weight| + epsilon); 1 where either norm is 0.

    Groups with `scaled` False (biases, batch normalisation) take plain momentum steps.
    """

    def __init__(
        self, groups: Iterable[dict[str, object]], lr: float, momentum: float, eta: float, epsilon: float
    ) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum, "eta": eta, "epsilon": epsilon, "scaled": True})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                update = weight.grad + group["weight_decay"] * weight
                trust = self._trust(weight, weight.grad, group) if group["scaled"] else 1.0
                state = self.state[weight]
                if not state:
                    state["velocity"] = torch.zeros_like(weight)
                state["velocity"].mul_(group["momentum"]).add_(update * trust, alpha=group["lr"])
                weight.sub_(state["velocity"])

    @staticmethod
    def _trust(weight: Tensor, gradient: Tensor, group: dict[str, float]) -> Tensor:
        norm, other = weight.norm(), gradient.norm()
        ratio = group["eta"] * norm / (other + group["weight_decay"] * norm + group["epsilon"])
        return torch.where((norm > 0) & (other > 0), ratio, torch.ones_like(ratio))


def make(
    net: nn.Module,
    name: str,
    rate: float,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
    eta: float,
    epsilon: float,
) -> torch.optim.Optimizer:
    """The optimizer `name`: sgd decays every parameter, lars all but biases and batch normalisation."""
    if name == "sgd":
        return torch.optim.SGD(net.parameters(), rate, momentum, weight_decay=weight_decay, nesterov=nesterov)
    if name != "lars":
        raise ValueError(f"opt_name must be sgd or lars, not {name!r}")
    weights = [weight for weight in net.parameters() if weight.ndim > 1]
    others = [weight for weight in net.parameters() if weight.ndim <= 1]
    groups = [
        {"params": weights, "weight_decay": weight_decay, "scaled": True},
        {"params": others, "weight_decay": 0.0, "scaled": False},
    ]
    return LARS(groups, rate, momentum, eta, epsilon)
