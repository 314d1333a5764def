"""The BERT task: accuracy by hand, the network against transformers, LAMB, sizes, runs and their logs, a copy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from reference.common import benchmark
from reference.common.errors import SetupError

from . import checkpoint, data, lamb, made_up, metric, model, shards, train
from .pairs import NO_LABEL, Batch
from .words import SPECIAL

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
FULL, SMALL = train.PROFILES["full"], train.PROFILES["embedded"]
BY_TIME = re.compile(r"_ms$|_bytes$|per_second$|^software$")  # keys whose values no seed fixes


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small work on a busy machine: threads that wait for each other cost more than they do."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)


def events(log: Path) -> list[dict]:
    return [json.loads(line.partition(":::MLLOG ")[2]) for line in log.read_text().splitlines()]


def values(log: Path, key: str) -> list:
    return [event["value"] for event in events(log) if event["key"] == key]


def untimed(log: Path) -> list[tuple]:
    kept = [event for event in events(log) if not BY_TIME.search(event["key"])]
    return [(event["key"], event["value"], event["metadata"].get("samples_count")) for event in kept]


def batch_of(labels: list[list[int]], unrelated: list[int], length: int = 6) -> Batch:
    count = len(labels)
    ids = torch.full((count, length), 7)
    places = torch.arange(1, 1 + len(labels[0])).expand(count, -1)
    return Batch(ids, ids * 0, torch.full((count,), length), places, torch.tensor(labels), torch.tensor(unrelated))


# ---- the metric ------------------------------------------------------------------------------------------------------


class Fixed(nn.Module):
    """Always says word 3, with a logit of 2 against 0 of the other words, and "follows"."""

    def forward(self, ids: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        words = torch.zeros(len(ids), others[2].shape[1], 5)
        words[:, :, 3] = 2.0
        return words, torch.tensor([[1.0, 0.0]]).expand(len(ids), 2)


def test_accuracy_by_hand() -> None:
    """Of 1 + 3 masked words 1 + 1 are right; a mean of the batches' shares would be (1 + 1/3) / 2."""
    batches = [batch_of([[3, NO_LABEL, NO_LABEL]], [0]), batch_of([[3, 1, NO_LABEL], [2, NO_LABEL, NO_LABEL]], [1, 0])]
    scores = metric.evaluate(Fixed(), batches, torch.device("cpu"))
    assert (scores.masked_accuracy, scores.masked_words, scores.sequences) == (2 / 4, 4, 3)
    assert scores.next_sentence_accuracy == pytest.approx(2 / 3)
    total = torch.tensor([2.0, 0, 0, 0, 0]).logsumexp(0).item()
    assert scores.masked_loss == pytest.approx(total - 2.0 * 2 / 4)


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(SetupError, match="no masked word"):
        metric.evaluate(Fixed(), [batch_of([[NO_LABEL]], [0])], torch.device("cpu"))
    net = small_bert()
    with torch.no_grad():
        net.output_bias.fill_(float("nan"))
    with pytest.raises(SetupError, match="training diverged"):
        metric.evaluate(net, [batch_of([[3]], [0])], torch.device("cpu"))


# ---- the model -------------------------------------------------------------------------------------------------------


def small_bert(**changes: object) -> model.Bert:
    sizes = {"vocab_size": 50, "hidden_size": 16, "layers": 2, "heads": 2, "intermediate_size": 32}
    return model.Bert(model.Shape(**{**sizes, "sequence_length": 12, "inner_init": 0.3, "outer_init": 0.3, **changes}))


def theirs(**changes: int):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 32, "max_position_embeddings": 12}
    return transformers.BertForPreTraining(transformers.BertConfig(**{**sizes, **changes}))


def test_outputs_are_those_of_transformers_with_the_same_weights() -> None:
    torch.manual_seed(0)
    other, net = theirs().eval(), small_bert().eval()
    with torch.no_grad():
        for weight in other.parameters():
            weight.normal_(std=0.3)
    checkpoint.copy(net, other.state_dict(), "file")
    lengths = torch.tensor([12, 7, 9])
    ids = torch.randint(5, 50, (3, 12))
    segments = (torch.arange(12) >= 5).long().expand(3, -1).contiguous()
    positions = torch.tensor([[1, 6, 0], [2, 3, 5], [8, 8, 1]])
    with torch.no_grad():
        words, unrelated = net(ids, segments, lengths, positions)
        real = (torch.arange(12) < lengths[:, None]).long()
        said = other(input_ids=ids, token_type_ids=segments, attention_mask=real)
    asked = said.prediction_logits.gather(1, positions[:, :, None].expand(-1, -1, 50))
    assert torch.allclose(words, asked, atol=1e-5)
    assert torch.allclose(unrelated, said.seq_relationship_logits, atol=1e-5)


def test_the_full_size_is_bert_large() -> None:
    with torch.device("meta"):
        net = train.network(FULL)
        width, inner, vocabulary = 1024, 4096, 30522
        embeddings = (vocabulary + 512 + 2) * width + 2 * width
        layer = 4 * (width + 1) * width + (width + 1) * inner + (inner + 1) * width + 4 * width
        heads = (width + 1) * width + 2 * (width + 1) + (width + 1) * width + 2 * width + vocabulary
        assert model.parameter_count(net) == embeddings + 24 * layer + heads == 336_226_108
        assert model.parameter_count(train.network(SMALL)) == 433_482
        large = {"vocab_size": 30522, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
        other = theirs(**large, intermediate_size=4096, max_position_embeddings=512)
    assert sum(weight.numel() for weight in other.parameters()) == 336_226_108


@pytest.mark.parametrize("changes", [{}, {"norm_first": True, "relative_window": 3}])
def test_asked_positions_alone_give_what_all_positions_give(changes: dict) -> None:
    """The last layer of a network of one layer, asked for everything, is the layer without the shortcut."""
    torch.manual_seed(0)
    layer = model.Layer(model.Shape(hidden_size=16, heads=4, intermediate_size=32, dropout=0.0, **changes))
    hidden, real = torch.randn(2, 9, 16), (torch.arange(9) < torch.tensor([[9], [6]]))[:, None, None]
    whole = layer(hidden, real)
    asked = torch.tensor([[0, 4, 8], [5, 1, 1]])
    part = layer(hidden, real, asked)
    assert torch.allclose(part, whole.gather(1, asked[:, :, None].expand(-1, -1, 16)), atol=1e-6)
    hidden[1, 6:] = 100.0  # padding
    assert torch.allclose(layer(hidden, real)[1, :6], whole[1, :6], atol=1e-6)


def test_the_relative_bias_by_hand() -> None:
    bias = model.RelativeBias(4, 3)
    start = bias(5, None)[0]
    left = [0.0, -4.0, -4.0]  # the word before the one at 1, itself, the next
    assert start[0, 1, :3].tolist() == left and start[1, 1, :3].tolist() == left[::-1]
    assert start[0, 4].tolist() == [-2.0, -2.0, -1.0, 0.0, -4.0]  # distance 4 counts as 3
    assert start[2, 4].tolist() == [-1.0, -1.0, -0.5, 0.0, -4.0]
    assert torch.equal(bias(5, torch.tensor([[4, 1]]))[0, :, 0], start[:, 4])


def test_lamb_by_hand() -> None:
    weights = nn.Parameter(torch.tensor([[3.0, 4.0]])), nn.Parameter(torch.tensor([1.0, 2.0]))
    groups = [{"params": [weights[0]], "weight_decay": 0.5}, {"params": [weights[1]], "weight_decay": 0.0}]
    optimizer = lamb.Lamb(groups, lr=0.1, betas=(0.9, 0.99), eps=1e-6)
    gradients = [
        (torch.tensor([[1.0, -2.0]]), torch.tensor([0.5, 0.0])),
        (torch.tensor([[0.5, 3.0]]), torch.tensor([1.0, 1.0])),
    ]
    expected = [weight.detach().double().clone() for weight in weights]
    mean, square = ([torch.zeros_like(value) for value in expected] for _ in range(2))
    for step, pair in enumerate(gradients, start=1):
        for number, gradient in enumerate(pair):
            weights[number].grad = gradient.clone()
            mean[number] = 0.9 * mean[number] + 0.1 * gradient
            square[number] = 0.99 * square[number] + 0.01 * gradient**2
            update = (mean[number] / (1 - 0.9**step)) / ((square[number] / (1 - 0.99**step)).sqrt() + 1e-6)
            if number == 0:
                update = update + 0.5 * expected[0]
                update = update * expected[0].norm() / update.norm()
            expected[number] = expected[number] - 0.1 * update
        optimizer.step()
        for weight, value in zip(weights, expected, strict=True):
            assert torch.allclose(weight.double(), value, atol=1e-5)


def test_weight_decay_is_for_matrices() -> None:
    net = small_bert(relative_window=3)
    decayed, others = (group["params"] for group in lamb.groups(net, 0.01))
    names = {id(weight): name for name, weight in net.named_parameters()}
    assert all(weight.ndim == 2 for weight in decayed) and len(decayed) == 3 + 3 + 2 * 6
    assert len(decayed) + len(others) == len(names)
    assert {names[id(weight)] for weight in others if weight.ndim == 2} == {
        "layers.0.bias.weight",
        "layers.1.bias.weight",
    }
    with pytest.raises(ValueError, match="unknown optimizer"):
        lamb.make(net, "sgd", 0.1, (0.9, 0.9), 1e-6, 0.0)


def test_learning_rate_by_hand() -> None:
    steps = {"opt_learning_rate_warmup_steps": 4, "opt_learning_rate_training_steps": 14}
    hp = train.Settings(opt_base_learning_rate=2.0, **steps)
    assert [train.learning_rate(hp, step) for step in (1, 2, 4, 5, 10, 15, 99)] == [0.5, 1.0, 2.0, 2.0, 1.0, 0.0, 0.0]
    assert train.learning_rate(FULL, 1) == FULL.opt_base_learning_rate
    assert FULL.max_samples == FULL.opt_learning_rate_training_steps * FULL.global_batch_size


def test_the_average_follows() -> None:
    net, average = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        net.weight.fill_(1.0), average.weight.fill_(3.0)
    model.follow(average, net, 0.75)
    assert average.weight.item() == 2.5


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_smoke_run_counts_samples_and_its_seed_fixes_it(tmp_path: Path) -> None:
    logs = [tmp_path / f"result_{name}.txt" for name in (0, 1, 2)]
    for log, seed in zip(logs, ("3", "3", "4"), strict=True):
        flags = ["--max-samples", "800"] if seed == "4" else ["--samples", str(tmp_path)]
        assert train.main(["--profile", "smoke", "--seed", seed, "--log", str(log), *flags]) == 0
    assert untimed(logs[0]) == untimed(logs[1])
    assert values(logs[0], "masked_loss")[0] != values(logs[2], "masked_loss")[0]
    said = events(logs[0])
    stops = [e["metadata"]["samples_count"] for e in said if e["key"] == "block_stop"]
    judged = [e["metadata"] for e in said if e["key"] == "eval_accuracy"]
    assert stops == [800, 1600] == [said["samples_count"] for said in judged]
    assert [said["evaluated_samples"] for said in judged] == [160, 160]
    assert values(logs[0], "eval_accuracy")[1] > 0.1 > values(logs[0], "baseline")[0]  # it learns something
    assert all("epoch_num" not in e["metadata"] for e in said)
    assert len(values(logs[0], "baseline")) == 7
    written = (tmp_path / "smoke_seed3.txt").read_text()
    assert written.startswith("[CLS]") and "in truth it" in written and "was: " in written
    if not (ROOT / "compliance" / "check.py").is_file():
        pytest.skip("the checker is not in this checkout")
    command = [sys.executable, "-m", "compliance.check", str(logs[0])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def layout(folder: Path, vocab_size: int = FULL.vocab_size) -> Path:
    """A small folder in the layout of MLPerf's preparation: two shards, held-out text, a vocabulary."""
    folder.mkdir(exist_ok=True)
    for name, seed in (("part-00000-of-00500", 1), ("part-00001-of-00500", 2), ("eval.txt", 3)):
        articles = made_up.articles(6, seed)
        text = "\n\n".join("\n".join(text.replace(". ", ".\n").split("\n")) for _, text in articles)
        (folder / name).write_text(text + "\n")
    known = sorted({word.strip(".").lower() for _, text in made_up.articles(20, 1) for word in text.split()})
    fillers = [f"[unused{number}]" for number in range(vocab_size - len(SPECIAL) - len(known) - 1)]
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, ".", *known, *fillers]) + "\n")
    return folder


ONE = {"layers": 1, "global-batch-size": 1, "eval-sequences": 1, "max-samples": 1}
WIDE = ["--division", "open", *(text for name, number in ONE.items() for text in (f"--{name}", str(number)))]


def test_a_step_of_the_full_widths_on_the_real_layout(tmp_path: Path) -> None:
    """Sequence 512, 76 masks, all widths, LAMB, both heads, from a checkpoint; one of 24 layers for memory's sake."""
    folder, log = layout(tmp_path / "wiki"), tmp_path / "log.txt"
    net = theirs(
        vocab_size=30522,
        hidden_size=1024,
        num_hidden_layers=1,
        num_attention_heads=16,
        intermediate_size=4096,
        max_position_embeddings=512,
    )
    torch.save(net.state_dict(), folder / "phase1.pt")
    assert train.main(["--profile", "full", "--data-dir", str(folder), "--log", str(log), *WIDE]) == 1
    assert values(log, "train_samples") == [12] and values(log, "eval_samples") == [1]
    named = [(s["name"], s["file"]) for s in values(log, "data_source")]
    assert named == [("wikipedia-20200101", "wiki"), ("phase-1 checkpoint", "phase1.pt")]
    assert values(log, "optimizer_code") == ["this folder"] and values(log, "opt_name") == ["lamb"]
    stop = [e["metadata"] for e in events(log) if e["key"] == "run_stop"][0]
    assert (stop["status"], stop["reason"], stop["samples_count"]) == ("aborted", "quality target not reached", 1)


def test_parts_of_a_step_add_up() -> None:
    torch.manual_seed(0)
    net = small_bert(dropout=0.0)
    labels = [[7, 8, 9], [5, NO_LABEL, NO_LABEL], [6, 9, NO_LABEL], [8, NO_LABEL, NO_LABEL]]
    batch = batch_of(labels, [0, 1, 1, 0])
    gradients = []
    for parts in (1, 2, 3):
        net.zero_grad()
        for part in batch.chunks(parts):
            words, unrelated = train.losses(net, part)
            (words / 7 + unrelated / 4).backward()
        gradients.append(net.pooler.weight.grad.clone())
    assert torch.allclose(gradients[0], gradients[1], atol=1e-6) and torch.allclose(
        gradients[0], gradients[2], atol=1e-6
    )


def test_checkpoints_that_do_not_fit(tmp_path: Path) -> None:
    tensors = theirs().state_dict()
    with pytest.raises(SetupError, match="1 tensors of BertForPreTraining are missing, first cls.predictions.bias"):
        checkpoint.copy(small_bert(), {k: v for k, v in tensors.items() if k != "cls.predictions.bias"}, "f")
    with pytest.raises(SetupError, match=r"cls.predictions.bias has the shape \(50,\), expected \(40,\)"):
        checkpoint.copy(small_bert(vocab_size=40), tensors, "f")
    with pytest.raises(SetupError, match="BERT has no"):
        checkpoint.copy(small_bert(relative_window=2), tensors, "f")
    (tmp_path / "x.pt").write_bytes(b"no tensors")
    with pytest.raises(SetupError, match="cannot be read"):
        checkpoint.load(small_bert(), tmp_path / "x.pt")
    torch.save([1], tmp_path / "x.pt")
    with pytest.raises(SetupError, match="expected the tensors"):
        checkpoint.load(small_bert(), tmp_path / "x.pt")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--profile", "full"], "give --data-dir"),
        (["--profile", "full", "--data-dir", "."], "no part-*-of-*, eval.txt, vocab.txt"),
        (["--profile", "full", "--data-dir", "wiki"], "no phase1.pt in it"),
        (["--profile", "full", "--data-dir", "wiki", "--vocab-size", "7", "--division", "open"], "30,522 lines"),
        (["--data-dir", "."], "expected: that file, a MediaWiki XML dump"),
        (["--profile", "smoke", "--dataset", "wiki"], "--dataset wiki: unknown"),
        (["--profile", "smoke", "--opt-name", "sgd"], "closed division: opt_name is 'sgd'"),
        (["--profile", "smoke", "--opt-name", "sgd", "--division", "open"], "--opt-name sgd: unknown"),
        (["--profile", "smoke", "--held-out", "validation"], "closed division: held_out"),
        (["--profile", "smoke", "--opt-base-learning-rate", "1e30", "--opt-gradient-clip-norm", "1e30"], "diverged"),
        (["--profile", "smoke", "--vocab-size", "5", "--division", "open"], "--vocab-size 5"),
        (["--profile", "smoke", "--max-sequence-length", "4", "--division", "open"], "--max-sequence-length 4"),
        (["--profile", "smoke", "--heads", "5", "--division", "open"], "--heads 5"),
    ],
)
def test_wrong_calls_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    layout(tmp_path / "wiki")
    with pytest.raises(SystemExit) as stopped:
        train.main([*flags, "--log", str(tmp_path / "log.txt")])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_the_installed_data_gives_the_declared_counts() -> None:
    told: list = []
    run = SimpleNamespace(settings=SMALL, data_dir=None, describe_data=lambda *said: told.extend(said))
    try:
        corpus = data.load(run)
    except SetupError:
        pytest.skip("the gensim wheel with the Wikipedia excerpt is not installed")
    facts = benchmark.load(FOLDER).profiles["embedded"]
    assert told[:2] == [facts.train_samples, facts.eval_samples]
    assert [source.sha256[:8] for source in told[2]] == ["a53f4648"]
    batches = data.evaluation_batches(corpus, run)
    asked = sum(int((batch.labels != NO_LABEL).sum()) for batch in batches)
    assert asked == 10_752 and len(corpus.held_out()) == 11
    run.settings = replace(SMALL, eval_batch_size=37)  # changes no mask
    others = data.evaluation_batches(corpus, run)
    assert [len(batch.ids) for batch in others] == [37] * 43 + [9]
    for column in range(len(Batch._fields)):
        whole, cut = (torch.cat([batch[column] for batch in made]) for made in (batches, others))
        assert torch.equal(whole, cut)


def test_the_evidence_is_above_every_table() -> None:
    logs = sorted((FOLDER / "evidence/embedded").glob("result_*.txt"))
    if not logs:
        pytest.skip("no evidence in this folder")
    target = benchmark.load(FOLDER).profiles["embedded"].quality_target
    for log in logs:
        named = {e["metadata"]["name"]: e["value"] for e in events(log) if e["key"] == "baseline"}
        assert max(named, key=named.get) == "left x right, pairs, trigrams"
        assert values(log, "quality_target") == [target] and max(named.values()) + 0.03 < target


def test_only_the_published_shards_count_as_the_full_set(tmp_path: Path) -> None:
    found = shards.find(layout(tmp_path / "wiki"))
    assert not found.complete and f"train_samples = {shards.TRAIN_SEQUENCES}" in (FOLDER / "benchmark.toml").read_text()
