"""Face embedding (AIBench component 7): learn FaceNet's embeddings until pairs of strangers' faces are told apart.

python -m reference.face_embedding.train                               embedded: faces drawn by code
python -m reference.face_embedding.train --profile smoke               seconds
python -m reference.face_embedding.train --profile full --data-dir DIR --device cuda     VGGFace2, judged on LFW
python -m reference.face_embedding.train --samples DIR                 also writes faces with their nearest neighbours
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch import nn

from reference.common import pictures, runs

from . import baselines, data, metric, model, triplets


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's; PROFILES says what the others change."""

    network: str = "resnet34"  # resnet34 or small
    held_out: str = "evaluation"  # whose pairs are judged; validation: other people's, to tune on
    image_size: int = 182  # pixels
    network_width: int = 64  # channels of the first stage; small only, resnet34 has 64
    embedding_size: int = 128  # numbers of an embedding
    global_batch_size: int = 256  # pictures a step: people times pictures of each
    pictures_per_identity: int = 4  # in a batch
    rounds_per_epoch: int = 1  # how often an epoch shows each person, with that many pictures
    triplet_margin: float = 0.2  # between squared distances
    max_shift: int = 0  # pixels that a training picture is moved by, at most
    opt_name: str = "adam"  # the only one
    opt_base_learning_rate: float = 1e-3  # after warm-up
    opt_weight_decay: float = 0.0  # of all parameters, decoupled from the gradient's averages
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base rate
    opt_learning_rate_decay_boundary_epochs: tuple[int, ...] = (50, 100, 150)  # epochs after which the rate falls
    opt_learning_rate_decay_factor: float = 0.1  # to this share
    false_accept_rate: float = 1e-3  # at which the share of true accepts is logged
    data_workers: int = 8  # processes that read pictures
    max_epochs: int = 200  # budget


SMALL = Settings(
    network="small",
    image_size=32,
    network_width=16,
    embedding_size=64,
    global_batch_size=80,
    rounds_per_epoch=2,
    max_shift=1,
    opt_base_learning_rate=3e-3,
    opt_learning_rate_warmup_steps=20,
    opt_learning_rate_decay_boundary_epochs=(11, 16),
    opt_learning_rate_decay_factor=0.3,
    false_accept_rate=1e-2,
    data_workers=0,
    max_epochs=30,
)
TINY = {"global_batch_size": 24, "network_width": 8, "rounds_per_epoch": 1, "opt_learning_rate_warmup_steps": 0}
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(**{**vars(SMALL), **TINY, "max_epochs": 2}),
}
EVAL_BATCH = 250  # pictures embedded at once; changes no result
SHEET_FACES, SHEET_ROWS, SHEET_NEIGHBOURS = 800, 16, 7  # of --samples


def learning_rate(hp: Settings, step: int, epoch: int) -> float:
    """The rate of the step with this number, from 1, in this epoch, from 1."""
    passed = sum(epoch > boundary for boundary in hp.opt_learning_rate_decay_boundary_epochs)
    warm = min(step / hp.opt_learning_rate_warmup_steps, 1.0) if hp.opt_learning_rate_warmup_steps else 1.0
    return hp.opt_base_learning_rate * warm * hp.opt_learning_rate_decay_factor**passed


def build(hp: Settings) -> model.FaceNet:
    """The network of these settings. Raises SetupError for settings that mean nothing here, whatever the division."""
    if hp.network not in ("resnet34", "small"):
        raise runs.SetupError(f"--network {hp.network}: expected resnet34 or small")
    if hp.opt_name != "adam":
        raise runs.SetupError(f"--opt-name {hp.opt_name}: expected adam")
    if hp.pictures_per_identity < 2 or hp.global_batch_size < 2 * hp.pictures_per_identity:
        raise runs.SetupError("a batch needs at least two people (--global-batch-size) and two pictures of each")
    if hp.global_batch_size % hp.pictures_per_identity:
        raise runs.SetupError("--global-batch-size must be a multiple of --pictures-per-identity")
    if hp.network == "resnet34":
        return model.full(hp.image_size, hp.embedding_size)
    return model.small(hp.image_size, hp.network_width, hp.embedding_size)


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    net = build(hp).to(run.device)
    rate, decay = hp.opt_base_learning_rate, hp.opt_weight_decay
    optimizer = torch.optim.AdamW(net.parameters(), rate, weight_decay=decay)
    step = 0

    with run.timed():
        found = data.load(run)
        groups = data.Groups(found.labels, hp.global_batch_size, hp.pictures_per_identity, hp.rounds_per_epoch)
        batches = data.batches(found, groups, hp.max_shift, hp.data_workers, run.device)
        for epoch in run.epochs(hp.max_epochs):
            net.train()
            broken = torch.zeros((), device=run.device)
            for images, labels in run.progress(batches, total=len(groups)):
                step += 1
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(hp, step, epoch)
                embedded = net(images.to(run.device))
                loss, share = triplets.loss(embedded, labels.to(run.device), hp.triplet_margin)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                broken += share

            with run.evaluation():
                verified = judge(run, net, found)
                run.log("triplets_that_break_the_margin", float(broken) / len(groups))
                run.log("true_accept_rate", verified.true_accepts)
                run.log("embedding_spread", verified.spread)
                reached = run.reached(verified.accuracy, verified.pairs)
            if reached:
                break
    if run.samples_dir is not None:
        write_samples(run, net, found)


def judge(run: runs.Run, net: nn.Module, found: data.Faces) -> metric.Verified:
    """The verification of the evaluation's pairs. In a rehearsal the network sees one batch; the rest gets copies."""
    batches = data.in_turn(found.held_out, EVAL_BATCH, run.device)
    embedded = metric.embeddings(net, run.progress(batches, total=-(-len(found.held_out) // EVAL_BATCH)))
    if run.rehearsing:
        embedded = embedded[torch.arange(len(found.held_out)) % len(embedded)]
    return metric.verify(embedded.cpu(), found.pairs, run.settings.false_accept_rate)


def write_samples(run: runs.Run, net: nn.Module, found: data.Faces) -> None:
    """A sheet of rows: a face of the evaluation, then its nearest neighbours among SHEET_FACES, the nearest first."""
    count = min(len(found.held_out), SHEET_FACES)
    shown = found.held_out[range(count)]
    embedded = metric.embeddings(net, (part.to(run.device) for part in shown.split(EVAL_BATCH))).cpu()
    chosen = torch.arange(0, count, -(-count // SHEET_ROWS))
    distances = torch.cdist(embedded[chosen], embedded).scatter(1, chosen[:, None], torch.inf)
    order = torch.cat([chosen[:, None], distances.topk(SHEET_NEIGHBOURS, largest=False).indices], dim=1)
    path = run.samples_dir / f"{run.profile.name}_seed{run.seed}.png"
    pictures.write_sheet(path, [shown[row] for row in order], max(96 // shown.shape[-1], 1))


def naive_baselines(run: runs.Run) -> dict[str, float]:
    found = data.load(run)
    known, rows = data.shrunk(found.train, baselines.FIT_PICTURES, baselines.SIDE)
    held_out, _ = data.shrunk(found.held_out, len(found.held_out), baselines.SIDE)
    return baselines.scores(known, found.labels[rows], held_out, found.pairs)


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
