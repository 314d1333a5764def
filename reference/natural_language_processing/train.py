"""Natural language processing: pre-train BERT until it names enough of the masked words of held-out text.

python -m reference.natural_language_processing.train                        embedded: Wikipedia excerpt
python -m reference.natural_language_processing.train --profile smoke        seconds, on a made-up language
python -m reference.natural_language_processing.train --profile full --data-dir DIR --device cuda
python -m reference.natural_language_processing.train --samples DIR          also writes masked texts and guesses

An iteration-based benchmark: it has no epochs. Progress, evaluations and the budget are counted in samples, which are
sequences.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

from torch import Tensor, nn
from torch.nn import functional as F

from reference.common import runs
from reference.common.errors import SetupError

from . import baselines, checkpoint, data, lamb, metric, model, samples
from .pairs import NO_LABEL, Batch


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's: MLPerf's reference of phase 2 at batch 256."""

    dataset: str = "wikipedia-20200101"  # or wikipedia-excerpt, made-up
    held_out: str = "evaluation"  # what is evaluated; validation: other articles, taken out of the training ones
    init_checkpoint: str = "phase1.pt"  # file in --data-dir whose weights training starts from; none: drawn anew
    vocab_size: int = 30522  # WordPieces, or whole words in the other data sets
    max_sequence_length: int = 512  # words, [CLS] and both [SEP] among them
    max_predictions_per_sequence: int = 76  # masked words at the most
    masked_lm_prob: float = 0.15  # share of the words that are masked in training
    mask_word_share: float = 0.8  # of the masked words become [MASK]
    random_word_share: float = 0.1  # of the masked words become another word; the rest stays as it was
    eval_sequences: int = 10_000  # held-out sequences
    eval_mask_sets: int = 1  # times that each of them is evaluated, with other words masked
    hidden_size: int = 1024  # width of the network
    layers: int = 24  # of the encoder
    heads: int = 16  # of its attention
    intermediate_size: int = 4096  # width inside its feed-forward parts
    dropout: float = 0.1  # of sublayers, embeddings and attention
    norm_first: bool = False  # layers normalise their input instead of their output
    relative_window: int = 0  # distances up to this have a learned attention bias; 0: there is none
    embedding_init: float = 0.02  # standard deviation of the first embeddings
    inner_init: float = 0.02  # the same for the layers that read the residual stream
    outer_init: float = 0.02  # and for those that write to it
    next_sentence_weight: float = 1.0  # of that loss beside the masked words'
    opt_name: str = "lamb"  # or adamw
    opt_base_learning_rate: float = 3.5e-4  # the highest
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to it
    opt_learning_rate_training_steps: int = 13_700  # steps until it is 0 again
    opt_lamb_learning_rate_decay_poly_power: float = 1.0  # how it falls: 1 is a line
    opt_lamb_beta_1: float = 0.9  # decay of the gradient's average, in either optimizer
    opt_lamb_beta_2: float = 0.999  # decay of its square's average
    opt_epsilon: float = 1e-6  # added to the root of that
    opt_lamb_weight_decay_rate: float = 0.01  # of matrices; biases and normalisations have none
    opt_gradient_clip_norm: float = 1.0  # length that the gradient of all weights is cut to
    average_decay: float = 0.0  # what is evaluated is an average of the weights over steps; 0: the weights themselves
    global_batch_size: int = 256  # sequences a step
    gradient_accumulation_steps: int = 1  # parts that a step's sequences go through the network in
    eval_batch_size: int = 64  # sequences at a time in an evaluation; changes no result
    max_samples: int = 3_507_200  # budget


SMALL = Settings(
    dataset="wikipedia-excerpt",
    init_checkpoint="none",
    vocab_size=2000,
    max_sequence_length=64,
    max_predictions_per_sequence=20,
    masked_lm_prob=0.4,
    mask_word_share=1.0,
    random_word_share=0.0,
    eval_sequences=400,
    eval_mask_sets=4,
    hidden_size=128,
    layers=1,
    heads=8,
    intermediate_size=256,
    dropout=0.0,
    norm_first=True,
    relative_window=31,
    embedding_init=0.15,
    inner_init=0.07,
    outer_init=0.02,
    next_sentence_weight=0.1,
    opt_name="adamw",
    opt_base_learning_rate=4e-3,
    opt_learning_rate_warmup_steps=200,
    opt_learning_rate_training_steps=7_000,
    opt_lamb_beta_2=0.98,
    opt_epsilon=1e-8,
    average_decay=0.996,
    global_batch_size=16,
    eval_batch_size=100,
    max_samples=112_000,
)
TINY = {"vocab_size": 80, "max_sequence_length": 32, "max_predictions_per_sequence": 8, "eval_sequences": 40}
TINY |= {"hidden_size": 32, "layers": 1, "intermediate_size": 64, "opt_learning_rate_warmup_steps": 10}
TINY |= {"opt_learning_rate_training_steps": 200, "average_decay": 0.9, "max_samples": 1_600}
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(**{**vars(SMALL), "dataset": "made-up", **TINY}),
}


def learning_rate(hp: Settings, step: int) -> float:
    """The rate of the step with this number, from 1: a linear rise, then a polynomial fall to 0."""
    warmup = hp.opt_learning_rate_warmup_steps
    if step <= warmup:
        return hp.opt_base_learning_rate * step / warmup
    fallen = (step - 1 - warmup) / max(hp.opt_learning_rate_training_steps - warmup, 1)
    return hp.opt_base_learning_rate * max(1 - fallen, 0.0) ** hp.opt_lamb_learning_rate_decay_poly_power


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    data.look(run)
    net = network(hp).to(run.device)
    average = deepcopy(net).requires_grad_(False) if hp.average_decay else net  # what is evaluated
    betas = hp.opt_lamb_beta_1, hp.opt_lamb_beta_2
    decay = hp.opt_lamb_weight_decay_rate
    optimizer, code = lamb.make(net, hp.opt_name, hp.opt_base_learning_rate, betas, hp.opt_epsilon, decay)
    run.run_log.event("optimizer_code", code)

    with run.timed():
        corpus = data.load(run)
        if hp.init_checkpoint != "none":
            checkpoint.load(net, data.checkpoint_path(run))
        held_out = data.evaluation_batches(corpus, run)
        for step, batch in enumerate(run.samples(data.stream(corpus, run), hp.max_samples), start=1):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(hp, step)
            optimizer.zero_grad()
            masked = int((batch.labels != NO_LABEL).sum())
            for part in batch.to(run.device).chunks(hp.gradient_accumulation_steps):
                words, unrelated = losses(net, part)
                loss = words / masked + hp.next_sentence_weight * unrelated / len(batch.ids)
                loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), hp.opt_gradient_clip_norm)
            optimizer.step()
            if hp.average_decay:
                model.follow(average, net, min(hp.average_decay, step / (step + 9)))

            if run.evaluation_due:
                with run.evaluation():
                    scores = metric.evaluate(average, run.progress(held_out), run.device)
                    run.log("masked_loss", scores.masked_loss)
                    run.log("masked_words", scores.masked_words)
                    run.log("next_sentence_accuracy", scores.next_sentence_accuracy)
                    reached = run.reached(scores.masked_accuracy, scores.sequences)
                if reached:
                    break
    if run.samples_dir is not None:
        samples.write(run.samples_dir / f"{run.profile.name}_seed{run.seed}.txt", average, held_out, corpus, run.device)


def network(hp: Settings) -> model.Bert:
    """The network of the settings, drawn anew. Raises SetupError, naming the flag, for sizes that make none."""
    wrong = {
        f"--opt-name {hp.opt_name}: unknown; known are lamb, adamw": hp.opt_name not in ("lamb", "adamw"),
        f"--heads {hp.heads}: must divide --hidden-size {hp.hidden_size}": hp.heads < 1 or hp.hidden_size % hp.heads,
        f"--layers {hp.layers}: at least 1": hp.layers < 1,
        f"--vocab-size {hp.vocab_size}: at least 6, five special words and one to mask": hp.vocab_size < 6,
        f"--max-sequence-length {hp.max_sequence_length}: at least 5 words": hp.max_sequence_length < 5,
        f"--max-predictions-per-sequence {hp.max_predictions_per_sequence}: at least 1":
            hp.max_predictions_per_sequence < 1,
        f"--global-batch-size {hp.global_batch_size} --gradient-accumulation-steps {hp.gradient_accumulation_steps}:"
        " at least 1 each": min(hp.global_batch_size, hp.gradient_accumulation_steps) < 1,
    }  # fmt: skip
    for reason, is_so in wrong.items():
        if is_so:
            raise SetupError(reason)
    shape = model.Shape(
        vocab_size=hp.vocab_size,
        hidden_size=hp.hidden_size,
        layers=hp.layers,
        heads=hp.heads,
        intermediate_size=hp.intermediate_size,
        sequence_length=hp.max_sequence_length,
        dropout=hp.dropout,
        norm_first=hp.norm_first,
        relative_window=hp.relative_window,
        embedding_init=hp.embedding_init,
        inner_init=hp.inner_init,
        outer_init=hp.outer_init,
    )
    return model.Bert(shape)


def losses(net: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Summed cross-entropy of the masked words, and of what follows what."""
    words, unrelated = net(batch.ids, batch.segments, batch.lengths, batch.positions)
    masked = F.cross_entropy(words.flatten(0, 1), batch.labels.flatten(), ignore_index=NO_LABEL, reduction="sum")
    return masked, F.cross_entropy(unrelated, batch.unrelated, reduction="sum")


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """Masked accuracy of tables. None for the shards: counting 13 GB would take longer than is worth it."""
    if run.settings.dataset == "wikipedia-20200101":
        return {}
    corpus = data.load(run)
    (part,), held_out = corpus.parts, data.evaluation_batches(corpus, run)
    return baselines.accuracies(part(), held_out, run.settings.vocab_size, corpus.special)


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
