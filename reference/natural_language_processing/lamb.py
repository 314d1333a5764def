"""LAMB, You et al., 2019 (arXiv:1904.00962): Adam with a step as long, for each layer, as its weights ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class Lamb(Optimizer):
    """LAMB in plain torch.

    A step is lr * ratio * (m / (sqrt(v) + epsilon) + weight_decay * w), with Adam's bias-corrected averages m and v of
    the gradient and its square, and ratio = |w| / |the bracket| of each tensor. Groups without weight decay (biases
    and normalisations) and tensors where either length is 0 have ratio 1.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """One step on the gradients at hand; parameters without one stay. Takes no closure."""
        if closure is not None:
            raise ValueError("LAMB takes no closure")
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._step(weight, weight.grad, group)

    def _step(self, weight: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state.update(step=0, mean=torch.zeros_like(weight), square=torch.zeros_like(weight))
        state["step"] += 1
        first, second = group["betas"]
        state["mean"].lerp_(grad, 1 - first)
        state["square"].mul_(second).addcmul_(grad, grad, value=1 - second)
        square = (state["square"] / (1 - second ** state["step"])).sqrt_().add_(group["eps"])
        update = (state["mean"] / (1 - first ** state["step"])).div_(square)
        decay = group["weight_decay"]
        if decay == 0:
            weight.add_(update, alpha=-group["lr"])
            return
        update.add_(weight, alpha=decay)
        length, change = weight.norm(), update.norm()
        ratio = torch.where((length > 0) & (change > 0), length / change, torch.ones_like(length))
        weight.add_(update.mul_(ratio), alpha=-group["lr"])


def groups(net: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters with `weight_decay` (matrices), and without: biases, normalisations and attention biases."""
    decayed = [
        weight for name, weight in net.named_parameters() if name.endswith(".weight") and _is_matrix(name, weight)
    ]
    ids = {id(weight) for weight in decayed}
    others = [weight for weight in net.parameters() if id(weight) not in ids]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def _is_matrix(name: str, weight: Tensor) -> bool:
    return weight.ndim == 2 and not name.endswith("bias.weight")


def make(
    net: nn.Module, name: str, lr: float, betas: tuple[float, float], epsilon: float, weight_decay: float
) -> tuple[Optimizer, str]:
    """The optimizer `name` ("lamb" or "adamw") for `net`, and whose code it is.

    LAMB on a GPU is apex's FusedLAMB where apex is installed (its own limit on the gradient is off: the loop has one).
    Raises ValueError for another name.
    """
    parts = groups(net, weight_decay)
    device = next(net.parameters()).device
    if name == "adamw":
        return torch.optim.AdamW(parts, lr=lr, betas=betas, eps=epsilon, fused=device.type != "meta"), "torch"
    if name != "lamb":
        raise ValueError(f"unknown optimizer {name!r}")
    if device.type == "cuda":
        try:
            from apex.optimizers import FusedLAMB
        except ImportError:
            pass
        else:
            return FusedLAMB(parts, lr=lr, betas=betas, eps=epsilon, max_grad_norm=1e30), "apex"
    return Lamb(parts, lr=lr, betas=betas, eps=epsilon), "this folder"
