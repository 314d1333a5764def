"""Image to text (AIBench component 4): captions for pictures with Neural Image Caption, a CNN and an LSTM.

python -m reference.image_to_text.train                            embedded: shape scenes made by code
python -m reference.image_to_text.train --profile smoke            seconds
python -m reference.image_to_text.train --profile full --data-dir DIR --encoder-weights FILE --device cuda     COCO
python -m reference.image_to_text.train --samples DIR              also writes pictures with their captions
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from reference.common import pictures, runs

from . import baselines, data, metric, model, words


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's."""

    held_out: str = "evaluation"  # what is evaluated; validation: other pictures, to tune on
    encoder: str = "resnet50"  # what sees the picture; or small
    encoder_weights: str = ""  # file of trained weights (torchvision's ResNet-50); needed by resnet50
    encoder_frozen: bool = True  # the encoder stays as it is; else it is trained with the rest, from random weights
    encoder_widths: tuple[int, ...] = ()  # channels of the small encoder's convolutions
    image_size: int = 224  # pixels a side
    embedding_size: int = 299  # of a word, and of the picture where it begins the sentence
    hidden_size: int = 512  # of the LSTM
    dropout: float = 0.0  # of the LSTM's outputs
    min_word_count: int = 4  # rarer words of the training captions become one unknown word
    beam_size: int = 3  # of the search whose captions BLEU is measured on
    bleu_pictures: int = 5000  # the first of the evaluation set; 0: all
    opt_name: str = "adam"
    opt_base_learning_rate: float = 1e-3
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base rate
    opt_learning_rate_decay_boundary_epochs: tuple[int, ...] = ()  # after which it falls
    opt_learning_rate_decay_factor: float = 0.5  # to this part
    opt_gradient_clip_norm: float = 0.0  # largest norm of the whole gradient; 0: any
    global_batch_size: int = 128  # pairs of a picture and a caption a step
    eval_batch_size: int = 64  # pictures at once; changes no result
    data_workers: int = 8  # processes that read pictures; 0: the training's own
    max_epochs: int = 10  # budget


SMALL = Settings(
    encoder="small",
    encoder_frozen=False,
    encoder_widths=(16, 32, 64),
    image_size=32,
    embedding_size=96,
    hidden_size=96,
    min_word_count=1,
    bleu_pictures=0,
    opt_base_learning_rate=2e-3,
    opt_learning_rate_warmup_steps=20,
    opt_learning_rate_decay_boundary_epochs=(3, 4, 5),
    opt_gradient_clip_norm=5.0,
    global_batch_size=64,
    data_workers=0,
    max_epochs=6,
)
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(**{**vars(SMALL), "encoder_widths": (4, 8, 8), "hidden_size": 16, "max_epochs": 2}),
}


def learning_rate(hp: Settings, step: int, epoch: int) -> float:
    """The rate of this step, from 1, in this epoch, from 1: a linear rise, then the base rate with its falls."""
    if step <= hp.opt_learning_rate_warmup_steps:
        return hp.opt_base_learning_rate * step / hp.opt_learning_rate_warmup_steps
    passed = sum(epoch > boundary for boundary in hp.opt_learning_rate_decay_boundary_epochs)
    return hp.opt_base_learning_rate * hp.opt_learning_rate_decay_factor**passed


def build(hp: Settings, vocabulary: int) -> model.Captioner:
    """The network; raises SetupError for settings that make none, and for a weights file that doesn't fit."""
    if hp.encoder == "resnet50":
        encoder: model.ResNet50 | model.SmallEncoder = model.ResNet50()
        load_weights(encoder, hp.encoder_weights)
    elif hp.encoder == "small":
        encoder = model.SmallEncoder(hp.encoder_widths, hp.image_size)
    else:
        raise runs.SetupError(f"--encoder is resnet50 or small, not {hp.encoder}")
    sizes = encoder.features, vocabulary, hp.embedding_size, hp.hidden_size
    return model.Captioner(encoder, *sizes, hp.encoder_frozen, hp.dropout)


def load_weights(encoder: nn.Module, file: str) -> None:
    """Fill `encoder` from a state dict of torchvision's ResNet-50. SetupError where the file is missing or another."""
    help = "--encoder-weights FILE: a state dict of torchvision's ResNet-50 (resnet50-*.pth)"
    if not file:
        raise runs.SetupError(f"the encoder is pre-trained and frozen: give its weights\n  {help}")
    try:
        weights = torch.load(file, map_location="cpu", weights_only=True)
        encoder.load_state_dict({name: value for name, value in weights.items() if not name.startswith("fc.")})
    except OSError as error:
        raise runs.SetupError(f"{file}: cannot be read: {error.strerror or error}\n  {help}") from None
    except Exception as error:  # torch.load raises what it likes for a file that isn't its own
        raise runs.SetupError(f"{file}: not this encoder's weights: {str(error)[:200]}\n  {help}") from None


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    found = data.load(run)  # the vocabulary's size is the network's: read once for it, and again inside the clock
    net = build(hp, len(found.vocabulary)).to(run.device)
    optimizer = torch.optim.Adam(parameter for parameter in net.parameters() if parameter.requires_grad)
    step = 0

    with run.timed():
        found = data.load(run)
        for epoch in run.epochs(hp.max_epochs):
            net.train()
            for seen, tokens in run.progress(found.batches(hp.global_batch_size, hp.data_workers, run.device)):
                step += 1
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(hp, step, epoch)
                seen, tokens = seen.to(run.device), tokens.to(run.device)
                logits = net(net.seen(seen), tokens[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=words.PAD)
                optimizer.zero_grad()
                loss.backward()
                if hp.opt_gradient_clip_norm:
                    nn.utils.clip_grad_norm_(net.parameters(), hp.opt_gradient_clip_norm)
                optimizer.step()

            with run.evaluation():
                batches = found.evaluation(hp.eval_batch_size, hp.data_workers, run.device)
                value, evaluated = metric.perplexity(net, moved(run, run.progress(batches)))
                most = hp.eval_batch_size if run.rehearsing else hp.bleu_pictures or len(found.held_out.texts)
                made = captions(run, net, found, most)
                run.log("bleu_4", metric.bleu_4(made, found.held_out.texts[: len(made)]))
                reached = run.reached(value, evaluated)
            if reached:
                break
    if run.samples_dir is not None:
        write_samples(run, found, net)


def moved(run: runs.Run, batches: Iterable[tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
    """Batches of tensors on the run's device."""
    return (tuple(part.to(run.device) for part in batch) for batch in batches)


def captions(run: runs.Run, net: model.Captioner, found: data.Found, most: int) -> list[str]:
    """What the network says about the first `most` held-out pictures."""
    hp: Settings = run.settings
    batches = found.evaluation(hp.eval_batch_size, hp.data_workers, run.device, most)
    made = metric.captions(net, (seen for seen, _, _ in moved(run, batches)), hp.beam_size, run.device)
    return [found.vocabulary.text(caption) for caption in made]


def write_samples(run: runs.Run, found: data.Found, net: model.Captioner) -> None:
    """Twelve pictures side by side, and a text file: of each what is said about it, and the first reference."""
    made = captions(run, net, found, 12)
    rows = [found.held_out.pictures.picture(number, training=False) for number in range(len(made))]
    path = run.samples_dir / f"{run.profile.name}_seed{run.seed}.png"
    pictures.write_sheet(path, [torch.stack(rows)], max(128 // run.settings.image_size, 1))
    first = [texts[0] for texts in found.held_out.texts]
    told = [f"{number}: {text}\n   ({true})\n" for number, (text, true) in enumerate(zip(made, first, strict=False), 1)]
    path.with_suffix(".txt").write_text("".join(told), encoding="utf-8")


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """Perplexity of counts of words without and, in small profiles, with the picture; the constant's BLEU beside it."""
    found = data.load(run)
    size = len(found.vocabulary)
    small = run.profile.name != "full"  # longer counts of all of COCO's captions fill the memory
    orders = (1, 2, 3, 5, 7) if small else (1, 2, 3)
    values = baselines.language_models(found.train.captions(), found.held_out.captions(), size, orders)
    if small:
        train_rows, test_rows = (
            baselines.reduced(
                torch.stack([part.pictures.picture(row, training=False) for row in range(len(part.texts))])
            )
            for part in (found.train, found.held_out)
        )
        near = baselines.nearest(train_rows, test_rows, max(baselines.NEIGHBOURS))
        values |= baselines.neighbour_perplexities(found.train.numbers, found.held_out.numbers, near, size)
        copied = [found.train.texts[row][0] for row in near[:, 0].tolist()]
        run.run_log.event("baseline_bleu_4", metric.bleu_4(copied, found.held_out.texts), {"name": "nearest_picture"})
        everything = [text for own in found.train.texts for text in own]
        _, constant = baselines.best_constant(everything, found.held_out.texts)
        run.run_log.event("baseline_bleu_4", constant, {"name": "best_constant"})
    return values


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
