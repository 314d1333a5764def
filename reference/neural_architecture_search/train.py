"""Neural architecture search (AIBench component 17): find a recurrent cell with ENAS, good under the shared weights.

python -m reference.neural_architecture_search.train                            embedded: a made-up language
python -m reference.neural_architecture_search.train --profile smoke            seconds, on less of it
python -m reference.neural_architecture_search.train --profile full --data-dir DIR --device cuda     Penn Treebank
python -m reference.neural_architecture_search.train --samples DIR              also draws the cell that was found

Epoch-based. An epoch is one round of ENAS's two phases: `shared_steps` steps of the shared weights on the training
text, going on where the round before stopped, then `controller_steps` updates of the controller. Then a cell is
derived and judged under the weights of that moment.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from reference.common import runs

from . import baselines, data, drawing, metric, search
from .controller import Controller, Teacher
from .model import SharedModel, follow


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's: those of a public ENAS for the Penn Treebank."""

    text: str = "penn-treebank"  # or clauses, the made-up language, or wikipedia
    held_out: str = "evaluation"  # what is judged; validation: another text, to tune on
    cell_choice: str = "controller"  # or uniform, random: controls, see CELL_CHOICES
    vocab_size: int = 10_000  # symbols: words, or characters and merged pairs of them
    hidden_size: int = 1000  # of the embedding, of each node and of the state
    nodes: int = 12  # of a cell
    max_state_norm: float = 25.0  # longer states are shortened
    gate_bias: float = -1.0  # of node 0 at the start; the lower, the longer a state is kept
    dropout_symbols: float = 0.1  # whole symbols of the embedding
    dropout_inputs: float = 0.65  # of the embedded text
    dropout_outputs: float = 0.4  # of the states before the output layer
    average_decay: float = 0.0  # what is evaluated is an average of the weights over steps; 0: the weights themselves
    opt_name: str = "sgd"  # or adam, of the shared weights
    opt_base_learning_rate: float = 20.0  # of the shared weights
    opt_adam_beta_1: float = 0.9  # decay of the gradient's average
    opt_adam_beta_2: float = 0.99  # decay of its square's average
    opt_weight_decay: float = 1e-7  # added to the gradient, times the weight
    opt_gradient_clip_norm: float = 0.25  # longer gradients are shortened
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base rate
    lr_decay_start_epoch: int = 15  # the last epoch at the base rate
    lr_decay_factor: float = 0.96  # of the rate, for every epoch after it
    global_batch_size: int = 64  # streams that the training text is read in
    max_sequence_length: int = 35  # symbols of each stream a step; no gradient goes further back
    shared_steps: int = 400  # of the shared weights in an epoch
    controller_size: int = 100  # width of its LSTM
    controller_start_epoch: int = 1  # the first epoch with its phase
    controller_steps: int = 2000  # its updates in an epoch
    controller_batch_size: int = 1  # cells an update
    controller_learning_rate: float = 3.5e-4  # of Adam
    controller_baseline_decay: float = 0.95  # of the moving mean of rewards
    controller_entropy_weight: float = 1e-4  # of the entropy beside the reward, see search.entropy_weight
    controller_entropy_zero_epoch: int = 0  # where that weight has fallen to 0, and goes on falling; 0: it stays
    controller_temperature: float = 5.0  # divides its scores
    controller_tanh_constant: float = 2.5  # bounds them
    reward_scale: float = 80.0  # the reward is this over a perplexity
    derive_samples: int = 10  # cells drawn to take the best of
    derive_pieces: int = 32  # of the reward text, that they are compared on
    max_epochs: int = 150  # budget


SMALL = Settings(
    text="clauses",
    vocab_size=38,
    hidden_size=64,
    nodes=6,
    gate_bias=-3.0,
    dropout_symbols=0.0,
    dropout_inputs=0.0,
    dropout_outputs=0.0,
    average_decay=0.98,
    opt_name="adam",
    opt_base_learning_rate=1e-2,
    opt_weight_decay=0.0,
    opt_gradient_clip_norm=0.5,
    opt_learning_rate_warmup_steps=100,
    lr_decay_start_epoch=18,
    lr_decay_factor=0.85,
    max_sequence_length=32,
    shared_steps=100,
    controller_size=64,
    controller_start_epoch=2,
    controller_steps=16,
    controller_batch_size=8,
    controller_learning_rate=5e-3,
    controller_baseline_decay=0.9,
    controller_entropy_weight=0.1,
    controller_entropy_zero_epoch=6,
    controller_temperature=2.5,
    controller_tanh_constant=5.0,
    reward_scale=20.0,
    derive_samples=20,
    derive_pieces=4,
    max_epochs=24,
)
TINY = {"hidden_size": 24, "nodes": 3, "global_batch_size": 16, "shared_steps": 40, "opt_base_learning_rate": 2e-2}
TINY |= {"max_epochs": 4, "opt_learning_rate_warmup_steps": 10, "controller_steps": 6, "derive_samples": 6}
TINY |= {"controller_entropy_zero_epoch": 2}
PROFILES = {"full": Settings(), "embedded": SMALL, "smoke": Settings(**{**vars(SMALL), **TINY})}
# What is judged. controller: the derived cell. uniform: a random cell, after the same search with a controller that is
# never taught, so that cells are drawn evenly. random: the same cell, trained alone in every step, without a search.
CELL_CHOICES = ("controller", "uniform", "random")
EVAL_STREAMS = 128  # that a text is evaluated in, each from an empty state on
RANDOM_CELLS = 10  # that are evaluated beside the judged one; drawn by the seed
NGRAM_ORDERS = {"penn-treebank": 4, "clauses": 9, "wikipedia": 7}


def build(run: runs.Run, hp: Settings) -> tuple[SharedModel, Controller, torch.optim.Optimizer]:
    """The shared weights, the controller and the former's optimizer. Raises SetupError for settings without sense."""
    if hp.opt_name not in ("adam", "sgd") or hp.cell_choice not in CELL_CHOICES:
        raise runs.SetupError(f"known are adam, sgd; {', '.join(CELL_CHOICES)}; not {hp.opt_name} and {hp.cell_choice}")
    counts = (hp.global_batch_size, hp.max_sequence_length, hp.shared_steps, hp.max_epochs)
    if min(*counts, hp.controller_batch_size, hp.derive_samples, hp.derive_pieces) < 1:
        raise runs.SetupError("counts of streams, symbols, steps, epochs, samples and pieces must be at least 1")
    if hp.controller_entropy_zero_epoch < 0:
        raise runs.SetupError(f"--controller-entropy-zero-epoch must be 0 or more: {hp.controller_entropy_zero_epoch}")
    start = hp.dropout_symbols, hp.dropout_inputs, hp.dropout_outputs, hp.gate_bias
    try:
        net = SharedModel(hp.vocab_size, hp.hidden_size, hp.nodes, hp.max_state_norm, *start).to(run.device)
        scores = hp.controller_temperature, hp.controller_tanh_constant
        controller = Controller(hp.nodes, hp.controller_size, *scores).to(run.device)
        how = {"lr": hp.opt_base_learning_rate, "weight_decay": hp.opt_weight_decay}
        if hp.opt_name == "sgd":
            return net, controller, torch.optim.SGD(net.parameters(), **how)
        betas = hp.opt_adam_beta_1, hp.opt_adam_beta_2
        return net, controller, torch.optim.Adam(net.parameters(), betas=betas, fused=True, **how)
    except ValueError as error:
        raise runs.SetupError(f"settings: {error}") from None


def learning_rate(hp: Settings, step: int, epoch: int) -> float:
    """Of the step with this number, from 1: a linear rise, a plateau, a fall by a constant factor an epoch."""
    rise = min(1.0, step / hp.opt_learning_rate_warmup_steps) if hp.opt_learning_rate_warmup_steps else 1.0
    return hp.opt_base_learning_rate * rise * hp.lr_decay_factor ** max(0, epoch - hp.lr_decay_start_epoch)


def train(run: runs.Run) -> data.Texts:
    """The run, or its rehearsal. Returns the texts that it read."""
    hp: Settings = run.settings
    net, controller, optimizer = build(run, hp)
    average = deepcopy(net).requires_grad_(False)  # what is evaluated
    teacher = Teacher(controller, hp.controller_learning_rate, hp.controller_baseline_decay)
    drawn = search.random_cells(1 + RANDOM_CELLS, hp.nodes, run.seed)
    searching, teaching = hp.cell_choice != "random", hp.cell_choice == "controller"

    with run.timed():
        texts = data.load(run)
        reader = data.Reader(texts.train, hp.global_batch_size, hp.max_sequence_length)
        reward_reader = data.Reader(texts.reward, hp.global_batch_size, hp.max_sequence_length)
        state, step, cell = net.start_state(hp.global_batch_size), 0, drawn[0]
        for epoch in run.epochs(hp.max_epochs):
            for following, text in run.progress(reader.pieces(hp.shared_steps), total=hp.shared_steps):
                step += 1
                if searching:
                    with torch.no_grad():
                        cell = controller(1)[0][0]
                logits, state = net(text, state, cell)
                loss = F.cross_entropy(logits.flatten(0, 1), following)
                optimizer.param_groups[0]["lr"] = learning_rate(hp, step, epoch)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), hp.opt_gradient_clip_norm)
                optimizer.step()
                follow(average, net, hp.average_decay)
            if not math.isfinite(loss.item()):  # weights that are NaN stay so
                raise runs.SetupError(f"training diverged in epoch {epoch}: the loss of {cell} is {loss.item()}")

            if teaching and (epoch >= hp.controller_start_epoch or run.rehearsing):
                bonus = search.entropy_weight(epoch, hp.controller_entropy_weight, hp.controller_entropy_zero_epoch)
                given = average, reward_reader, texts.lengths, hp.reward_scale, bonus
                for _ in range(1 if run.rehearsing else hp.controller_steps):
                    entropy = search.teach(teacher, hp.controller_batch_size, *given)
                run.log("controller_entropy", entropy)
            with run.evaluation():
                if searching:
                    pieces = list(reward_reader.pieces(hp.derive_pieces))
                    cell, chosen_at = search.derive(controller, hp.derive_samples, average, pieces, texts.lengths)
                    run.log("derived_cell", str(cell))
                    run.log("validation_perplexity", chosen_at)
                reached = judge(run, average, cell, drawn, texts)
            if reached:
                break
    if run.samples_dir is not None:
        drawing.write(run.samples_dir / f"{run.profile.name}_seed{run.seed}.svg", cell if teaching else drawn[0])
    return texts


def judge(run: runs.Run, net: SharedModel, cell: search.Cell, drawn: Sequence[search.Cell], texts: data.Texts) -> bool:
    """Whether the derived `cell` reaches the target under the weights of `net`; in a control the first of `drawn`.

    The rest of `drawn` goes beside it, on the same text under the same weights: their median and the best are logged.
    """
    choice = run.settings.cell_choice
    pieces = list(data.once(texts.held_out, EVAL_STREAMS, run.settings.max_sequence_length))

    def score(one: search.Cell, shown: Iterable[tuple[Tensor, Tensor]] = pieces) -> metric.Score:
        return metric.evaluate(net, one, shown, EVAL_STREAMS, texts.lengths)

    judged = score(cell if choice == "controller" else drawn[0], run.progress(pieces))
    run.log("bits_per_symbol", judged.nats / judged.symbols / math.log(2))
    if choice != "random":  # there the weights are shared by no cells
        others = [score(one).perplexity for one in run.progress(drawn[1:])]
        run.log("random_cell_perplexity", statistics.median(others))
        run.log("random_cell_best_perplexity", min(others))
    if choice != "controller":
        run.log("random_cell", str(drawn[0]))
    if choice == "uniform":
        run.log("derived_cell_perplexity", score(cell).perplexity)
    return run.reached(judged.perplexity, judged.symbols)


def naive_baselines(run: runs.Run, texts: data.Texts) -> dict[str, float]:
    """n-gram tables of the training text, on the judged text."""
    orders = NGRAM_ORDERS[run.settings.text]
    return baselines.perplexities(texts.train_units, texts.held_out_units, texts.unit_count, orders)


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        texts = train(run.rehearsal())
        run.baselines(naive_baselines(run, texts))
        if texts.floor is not None:
            run.run_log.event("perplexity_floor", texts.floor)
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
