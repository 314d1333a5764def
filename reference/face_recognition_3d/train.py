"""3D face recognition (AIBench component 8): train an RGB-D ResNet-50 until it names people well enough.

python -m reference.face_recognition_3d.train                               embedded: heads made by code
python -m reference.face_recognition_3d.train --profile smoke               seconds
python -m reference.face_recognition_3d.train --profile full --data-dir DIR --device cuda     253 people
python -m reference.face_recognition_3d.train --samples DIR                 also writes faces with the likeliest people
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
import torch.nn.functional as F
from torch import Tensor

from reference.common import pictures, runs

from . import baselines, data, metric, model


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's; PROFILES says what the others change."""

    network: str = "resnet50"  # resnet50 or small
    held_out: str = "evaluation"  # what is judged; validation: other people or pictures, to tune on
    planes: str = "rgbd"  # what the network is shown: rgbd, rgb or depth (the other planes are 0)
    image_size: int = 224  # pixels
    classes: int = 253  # people of the training set
    network_width: int = 64  # of the first stage's blocks; small only, resnet50 has 64
    embedding_size: int = 0  # small only: numbers that a face is told by
    logit_scale: float = 1.0  # small only: of the cosines that are its logits
    logit_margin: float = 0.0  # small only: taken off the right person's cosine in training
    max_shift: int = 0  # pixels that a training picture is moved by, at most
    colour_gain: float = 0.0  # each colour of a training picture is multiplied by up to 1 +- this
    global_batch_size: int = 16  # pictures a step
    opt_name: str = "sgd"  # sgd or adamw
    opt_base_learning_rate: float = 0.01  # after warm-up
    opt_momentum: float = 0.9  # sgd only
    opt_weight_decay: float = 1e-4  # of all parameters
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base rate
    opt_learning_rate_decay_boundary_epochs: tuple[int, ...] = (20, 35, 45)  # epochs after which the rate falls
    opt_learning_rate_decay_factor: float = 0.1  # to this share
    data_workers: int = 8  # processes that read pictures
    max_epochs: int = 50  # budget


SMALL = Settings(
    network="small",
    image_size=32,
    classes=data.SIZES["embedded"].identities,
    network_width=12,
    embedding_size=96,
    logit_scale=16.0,
    logit_margin=0.1,
    max_shift=1,
    colour_gain=0.2,
    global_batch_size=64,
    opt_name="adamw",
    opt_base_learning_rate=4e-3,
    opt_weight_decay=1e-2,
    opt_learning_rate_warmup_steps=20,
    opt_learning_rate_decay_boundary_epochs=(8, 11),
    opt_learning_rate_decay_factor=0.3,
    data_workers=0,
    max_epochs=20,
)
TINY = {"classes": data.SIZES["smoke"].identities, "network_width": 4, "global_batch_size": 16}
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(**{**vars(SMALL), **TINY, "opt_learning_rate_warmup_steps": 0, "max_epochs": 2}),
}
EVAL_BATCH = 120  # pictures at once; changes no result
CHOICES = {"network": ("resnet50", "small"), "opt_name": ("sgd", "adamw"), "planes": tuple(data.PLANES)}


def learning_rate(hp: Settings, step: int, epoch: int) -> float:
    """The rate of the step with this number, from 1, in this epoch, from 1."""
    passed = sum(epoch > boundary for boundary in hp.opt_learning_rate_decay_boundary_epochs)
    warm = min(step / hp.opt_learning_rate_warmup_steps, 1.0) if hp.opt_learning_rate_warmup_steps else 1.0
    return hp.opt_base_learning_rate * warm * hp.opt_learning_rate_decay_factor**passed


def build(hp: Settings) -> tuple[model.RGBDResNet, torch.optim.Optimizer]:
    """Network and optimizer. Raises SetupError for settings that mean nothing here, whatever the division."""
    for name, allowed in CHOICES.items():
        if getattr(hp, name) not in allowed:
            flag = "--" + name.replace("_", "-")
            raise runs.SetupError(f"{flag} {getattr(hp, name)}: expected one of {', '.join(allowed)}")
    if hp.network == "small" and hp.embedding_size < 1:
        raise runs.SetupError("--embedding-size: the small network needs at least 1")
    net = model.resnet50(hp.classes)
    if hp.network == "small":
        net = model.small(hp.classes, hp.network_width, hp.embedding_size, hp.logit_scale)
    rate, decay = hp.opt_base_learning_rate, hp.opt_weight_decay
    if hp.opt_name == "sgd":
        return net, torch.optim.SGD(net.parameters(), rate, hp.opt_momentum, weight_decay=decay)
    return net, torch.optim.AdamW(net.parameters(), rate, weight_decay=decay)


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    net, optimizer = build(hp)
    net = net.to(run.device, memory_format=torch.channels_last)  # twice as fast on a CPU
    step = 0

    with run.timed():
        found = data.load(run)
        batches = data.batches(
            found.train, hp.global_batch_size, hp.max_shift, hp.colour_gain, hp.data_workers, run.device
        )
        for epoch in run.epochs(hp.max_epochs):
            net.train()
            for faces, labels in run.progress(batches):
                step += 1
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(hp, step, epoch)
                labels = labels.to(run.device)
                features = net.features(data.only(faces.to(run.device), hp.planes))
                loss = F.cross_entropy(net.logits(features, labels, hp.logit_margin), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

            with run.evaluation():
                net.eval()
                scorer = judge(net, found, hp.planes, run.device)
                probes = found.probes.in_turn(EVAL_BATCH)
                total = -(-len(found.probes.labels) // EVAL_BATCH)
                accuracy, evaluated = metric.identification(scorer, run.progress(probes, total=total), run.device)
                reached = run.reached(accuracy, evaluated)
            if reached:
                break
    if run.samples_dir is not None:
        write_samples(run, scorer, found)


@torch.no_grad()
def judge(net: model.RGBDResNet, found: data.People, planes: str, device: torch.device) -> Callable[[Tensor], Tensor]:
    """What gives a picture's scores: the network's logits, or its likeness to the people of the gallery."""
    if found.gallery is None:
        return lambda faces: net(data.only(faces, planes))

    def features(faces: Tensor) -> Tensor:
        return F.normalize(net.features(data.only(faces.to(device), planes)), dim=1)

    known = torch.cat([features(faces) for faces, _ in found.gallery.in_turn(EVAL_BATCH)])
    people = metric.templates(known, found.gallery.labels.to(device))
    return lambda faces: features(faces) @ people.T


@torch.no_grad()
def write_samples(run: runs.Run, scorer: Callable[[Tensor], Tensor], found: data.People) -> None:
    """A sheet of rows of colours above rows of depths: a probe, then a picture of each of the five likeliest people."""
    shown = found.gallery or found.train
    count = len(found.probes.labels)
    rows = list(range(0, count, max(count // 12, 1)))[:12]
    probes = found.probes.pictures[rows]
    likeliest = scorer(probes.to(run.device)).topk(5, dim=1).indices.cpu()
    first = [int((shown.labels == person).nonzero()[0]) for person in likeliest.flatten().tolist()]
    others = shown.pictures[first].view(len(rows), 5, *probes.shape[1:])
    sheet: list[Tensor] = []
    for row in torch.cat([probes[:, None], others], dim=1):
        sheet += [row[:, :3], row[:, 3:].expand(-1, 3, -1, -1)]
    path = run.samples_dir / f"{run.profile.name}_seed{run.seed}.png"
    pictures.write_sheet(path, sheet, max(96 // probes.shape[-1], 1))


def naive_baselines(run: runs.Run) -> dict[str, float]:
    return baselines.scores(data.load(run))


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
