"""Neural architecture search (AIBench component 17): find a recurrent cell with ENAS and train it to its target.

python -m reference.neural_architecture_search.train                            embedded: a made-up language
python -m reference.neural_architecture_search.train --profile smoke            seconds, on less of it
python -m reference.neural_architecture_search.train --profile full --data-dir DIR --device cuda     Penn Treebank
python -m reference.neural_architecture_search.train --samples DIR              also draws the cell that was found

Epoch-based. An epoch is one round of ENAS's two phases: `shared_steps` steps of the shared weights on the training
text, going on where the round before stopped, then `controller_steps` updates of the controller. After the search's
last epoch the derived cell alone is trained on, from the weights that it shared.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch import nn
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
    cell_choice: str = "controller"  # or random, random_shared: cells drawn evenly from all, see CELL_CHOICES
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
    search_epochs: int = 150  # the last epoch in which cells are drawn
    controller_size: int = 100  # width of its LSTM
    controller_start_epoch: int = 1  # the first epoch with its phase
    controller_steps: int = 2000  # its updates in an epoch
    controller_batch_size: int = 1  # cells an update
    controller_learning_rate: float = 3.5e-4  # of Adam
    controller_baseline_decay: float = 0.95  # of the moving mean of rewards
    controller_entropy_weight: float = 1e-4  # of the entropy beside the reward
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
    opt_learning_rate_warmup_steps=100,
    lr_decay_start_epoch=18,
    lr_decay_factor=0.85,
    max_sequence_length=32,
    shared_steps=100,
    search_epochs=6,
    controller_size=64,
    controller_start_epoch=2,
    controller_steps=16,
    controller_batch_size=8,
    controller_learning_rate=5e-3,
    controller_baseline_decay=0.9,
    controller_entropy_weight=5e-3,
    reward_scale=20.0,
    derive_samples=20,
    derive_pieces=4,
    max_epochs=28,
)
TINY = {"hidden_size": 24, "nodes": 3, "global_batch_size": 16, "shared_steps": 40, "opt_base_learning_rate": 2e-2}
TINY |= {"max_epochs": 4, "opt_learning_rate_warmup_steps": 10, "search_epochs": 3, "controller_steps": 6}
TINY |= {"derive_samples": 6}
PROFILES = {"full": Settings(), "embedded": SMALL, "smoke": Settings(**{**vars(SMALL), **TINY})}
# controller: the cell that the search finds. random: no search, a random cell is trained alone in every step.
# random_shared: the search as ever, then a random cell goes on from the shared weights in the place of the derived one.
CELL_CHOICES = ("controller", "random", "random_shared")
EVAL_STREAMS = 128  # that a text is evaluated in, each from an empty state on
RANDOM_CELLS = 10  # whose median perplexity is logged where the search ends
NGRAM_ORDERS = {"penn-treebank": 4, "clauses": 9, "wikipedia": 7}


def build(run: runs.Run, hp: Settings) -> tuple[SharedModel, Controller, torch.optim.Optimizer]:
    """The shared weights, the controller and the former's optimizer. Raises SetupError for settings without sense."""
    if hp.opt_name not in ("adam", "sgd") or hp.cell_choice not in CELL_CHOICES:
        known = f"adam, sgd; {', '.join(CELL_CHOICES)}"
        raise runs.SetupError(f"known are {known}; not {hp.opt_name} and {hp.cell_choice}")
    counts = (hp.global_batch_size, hp.max_sequence_length, hp.shared_steps, hp.search_epochs, hp.max_epochs)
    if min(*counts, hp.controller_batch_size, hp.derive_samples, hp.derive_pieces) < 1:
        raise runs.SetupError("counts of streams, symbols, steps, epochs, samples and pieces must be at least 1")
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
    teacher = Teacher(
        controller, hp.controller_learning_rate, hp.controller_baseline_decay, hp.controller_entropy_weight
    )
    drawn = search.random_cells(RANDOM_CELLS, hp.nodes, run.seed)

    with run.timed():
        texts = data.load(run)
        reader = data.Reader(texts.train, hp.global_batch_size, hp.max_sequence_length)
        reward_reader = data.Reader(texts.reward, hp.global_batch_size, hp.max_sequence_length)
        state, step, cell = net.start_state(hp.global_batch_size), 0, drawn[0]
        if hp.cell_choice != "controller":
            run.log("random_cell", str(cell))
        for epoch in run.epochs(hp.max_epochs):
            searching = hp.cell_choice != "random" and epoch <= hp.search_epochs
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

            if searching and (epoch >= hp.controller_start_epoch or run.rehearsing):
                for _ in range(1 if run.rehearsing else hp.controller_steps):
                    entropy = search.teach(
                        teacher, hp.controller_batch_size, average, reward_reader, texts.lengths, hp.reward_scale
                    )
                run.log("controller_entropy", entropy)
            with run.evaluation():
                if searching:
                    pieces = list(reward_reader.pieces(hp.derive_pieces))
                    cell, chosen_at = search.derive(controller, hp.derive_samples, average, pieces, texts.lengths)
                    run.log("validation_perplexity", chosen_at)
                    run.log("derived_cell", str(cell))
                held_out = run.progress(data.once(texts.held_out, EVAL_STREAMS, hp.max_sequence_length))
                score = metric.evaluate(average, cell, held_out, EVAL_STREAMS, texts.lengths)
                run.log("bits_per_symbol", score.nats / score.symbols / math.log(2))
                if searching and (epoch == hp.search_epochs or run.profile.reached(score.perplexity)):
                    run.log("random_cell_perplexity", median_perplexity(average, drawn, texts, hp.max_sequence_length))
                    cell = drawn[0] if hp.cell_choice == "random_shared" else cell
                reached = run.reached(score.perplexity, score.symbols)
            if reached:
                break
    if run.samples_dir is not None:
        drawing.write(run.samples_dir / f"{run.profile.name}_seed{run.seed}.svg", cell)
    return texts


def median_perplexity(net: SharedModel, cells: Sequence[search.Cell], texts: data.Texts, steps: int) -> float:
    """The median over `cells` of their perplexity on the judged text, all under the weights of `net`."""
    found = []
    for cell in cells:
        pieces = data.once(texts.held_out, EVAL_STREAMS, steps)
        found.append(metric.evaluate(net, cell, pieces, EVAL_STREAMS, texts.lengths).perplexity)
    return statistics.median(found)


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
