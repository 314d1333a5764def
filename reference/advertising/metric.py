"""Area under the ROC curve, exact: the share of (click, no click) pairs that the scores order rightly, ties half."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from reference.common.errors import SetupError


def roc_auc(labels: NDArray[np.generic], scores: NDArray[np.floating]) -> float:
    """ROC AUC of `scores` (n,) for `labels` (n,) of 0 and 1, by the rank sum of Mann and Whitney.

    Equal scores share the mean of their ranks. Ranks are summed as integers (twice such a mean is one), so the only
    rounding is the final division.
    Sorts once; 89 million scores, the full evaluation set, need about 3 GB.

    Raises ValueError for labels other than 0 and 1, a single class, a score that is not a number, or unequal lengths.
    """
    labels, scores = np.asarray(labels), np.asarray(scores)
    if labels.ndim != 1 or labels.shape != scores.shape:
        raise ValueError(f"AUC needs one score a label: {labels.shape} labels, {scores.shape} scores")
    if np.isnan(scores).any():
        raise ValueError(f"AUC: {int(np.isnan(scores).sum())} of {len(scores)} scores are NaN")
    clicks = labels == 1
    if not (clicks | (labels == 0)).all():
        raise ValueError("AUC: labels must be 0 or 1")
    positives = int(clicks.sum())
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        raise ValueError(f"AUC is not defined for one class: {positives} clicks, {negatives} without a click")

    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))  # where a new score value begins
    ends = np.append(starts[1:], len(ordered))
    clicks_in_tie = np.add.reduceat(clicks[order].astype(np.int64), starts)
    twice_rank_sum = int((clicks_in_tie * (starts + 1 + ends)).sum())  # ranks of a tie: starts + 1 ... ends
    return (twice_rank_sum - positives * (positives + 1)) / (2 * positives * negatives)


@torch.no_grad()
def evaluate(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> tuple[float, float, int]:
    """AUC, log loss (nats a sample) and the number of samples, over all of `batches` of (labels, dense, categories).

    Every sample counts once: the last batch may be smaller. Logits are ranked, not probabilities, which would tie where
    a sigmoid saturates.

    Raises SetupError where the AUC is not defined: nothing or one class held out, or logits that are not finite.
    """
    net.eval()
    labels: list[Tensor] = []
    logits: list[Tensor] = []
    for label, dense, categories in batches:
        logits.append(net(dense, categories))
        labels.append(label)
    net.train()
    if not labels:
        raise SetupError("nothing to evaluate: the held-out data is empty")
    label, logit = torch.cat(labels), torch.cat(logits)
    if not logit.isfinite().all():
        raise SetupError("training diverged: logits are not finite; a lower --opt-base-learning-rate may help")
    log_loss = F.binary_cross_entropy_with_logits(logit, label).item()
    try:
        auc = roc_auc(label.cpu().numpy(), logit.cpu().numpy())
    except ValueError as error:
        raise SetupError(str(error)) from None
    return auc, log_loss, len(label)
