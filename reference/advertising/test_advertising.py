"""The advertising task: AUC and interaction by hand, sizes, a step of the full widths, runs and their logs, a copy."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import criteo, made_up, metric, model, train
from .samples import batches

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
CPU = torch.device("cpu")
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


# ---- the metric ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "scores", "auc"),
    [
        ([0, 1], [0.2, 0.7], 1.0),
        ([1, 0], [0.2, 0.7], 0.0),
        ([0, 1], [0.5, 0.5], 0.5),
        ([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 3 / 4),  # of the four pairs only (0.35, 0.4) is wrong
        ([1, 0, 1, 0, 0], [3, 3, 2, 1, 3], (0.5 + 1 + 0.5 + 0 + 1 + 0) / 6),  # ties of a click with two others
        ([0, 1, 1, 0, 1], [7, 7, 7, 7, 7], 0.5),
        ([1, 0, 0], [-np.inf, 0.0, np.inf], 0.0),
    ],
)
def test_auc_by_hand(labels: list[int], scores: list[float], auc: float) -> None:
    assert metric.roc_auc(np.array(labels), np.array(scores, dtype=float)) == auc


def test_auc_is_the_share_of_ordered_pairs() -> None:
    rng = np.random.default_rng(0)
    for values_of_score in (3, 20, 10**9):
        labels = rng.integers(0, 2, 200)
        scores = rng.integers(0, values_of_score, 200) + labels * rng.integers(0, 3, 200)
        difference = scores[labels == 1][:, None] - scores[labels == 0][None, :]
        pairs = ((difference > 0) + 0.5 * (difference == 0)).mean()
        assert metric.roc_auc(labels, scores.astype(np.float32)) == pytest.approx(pairs, abs=1e-12)


def test_auc_agrees_with_scikit_learn() -> None:
    theirs = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed").roc_auc_score
    rng = np.random.default_rng(1)
    labels = (rng.random(5000) < 0.03).astype(np.float32)
    scores = np.round(rng.normal(size=5000) + labels, 1).astype(np.float32)
    assert metric.roc_auc(labels, scores) == pytest.approx(theirs(labels, scores), abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([1, 1], [0.1, 0.2], "one class: 2 clicks, 0 without"),
        ([0], [0.1], "one class: 0 clicks, 1 without"),
        ([], [], "one class"),
        ([0, 2], [0.1, 0.2], "must be 0 or 1"),
        ([0, 1], [0.1, float("nan")], "1 of 2 scores are NaN"),
        ([0, 1], [0.1], "one score a label"),
    ],
)
def test_auc_says_why_it_is_not_defined(labels: list[int], scores: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metric.roc_auc(np.array(labels), np.array(scores))


def test_evaluation_counts_every_sample_once_whatever_the_batch_size() -> None:
    torch.manual_seed(0)
    samples, net = made_up.samples(103), model.DLRM(4, (5, 7, 3), 6, (8,), (8,))
    whole = metric.evaluate(net, batches(samples, 103, CPU))
    parts = metric.evaluate(net, batches(samples, 10, CPU))  # the last batch has 3
    assert whole[2] == parts[2] == 103
    assert parts[:2] == pytest.approx(whole[:2], abs=1e-6)
    assert net.training


def test_evaluation_refuses_what_it_cannot_judge() -> None:
    net = model.DLRM(4, (5, 7, 3), 6, (8,), (8,))
    with pytest.raises(SetupError, match="empty"):
        metric.evaluate(net, [])
    with pytest.raises(SetupError, match="one class"):
        metric.evaluate(net, [(torch.ones(2), torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.int64))])
    with torch.no_grad():
        net.top[-1].bias.fill_(float("nan"))
    with pytest.raises(SetupError, match="diverged"):
        metric.evaluate(net, batches(made_up.samples(9), 9, CPU))


# ---- the model -----------------------------------------------------------------------------------------------------


def test_interaction_by_hand() -> None:
    vectors = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]]])
    assert model.interact(vectors).tolist() == [[11.0, 17.0, 39.0], [0.0, 2.0, 3.0]]  # 1·0, 2·0, 2·1


def test_model_is_its_parts_put_together_by_hand() -> None:
    torch.manual_seed(0)
    net, samples = model.DLRM(4, (5, 7, 3), 6, (8,), (8, 5)), made_up.samples(3)
    bottom, top = list(net.bottom.parameters()), list(net.top.parameters())
    for (_, dense, categories), logit in ((batch, net(*batch[1:]).item()) for batch in batches(samples, 1, CPU)):
        x = dense[0]
        for weight, bias in zip(bottom[::2], bottom[1::2], strict=True):
            x = (weight @ x + bias).clamp(min=0)
        vectors = [x] + [table.weight[row] for table, row in zip(net.tables, categories[0], strict=True)]
        x = torch.cat([x, torch.stack([vectors[i] @ vectors[j] for i in range(4) for j in range(i)])])
        for number, (weight, bias) in enumerate(zip(top[::2], top[1::2], strict=True)):
            x = weight @ x + bias if number == 2 else (weight @ x + bias).clamp(min=0)
        assert logit == pytest.approx(x.item(), abs=1e-5)


def test_full_size_is_mlperfs() -> None:
    full = train.PROFILES["full"]
    with torch.device("meta"):
        net = model.DLRM(13, criteo.TERABYTE_ROWS, full.embedding_dim, full.bottom_widths, full.top_widths)
    tables = 187_767_399 * 128
    bottom = (13 + 1) * 512 + (512 + 1) * 256 + (256 + 1) * 128
    top = (128 + 27 * 26 // 2 + 1) * 1024 + (1024 + 1) * 1024 + (1024 + 1) * 512 + (512 + 1) * 256 + 256 + 1
    assert model.parameter_count(net) == tables + bottom + top == 24_036_595_969
    assert len(criteo.TERABYTE_ROWS) == len(criteo.KAGGLE_ROWS) == 26


def test_a_step_of_the_full_widths_changes_the_rows_of_its_batch_only() -> None:
    torch.manual_seed(0)
    full, rows = train.PROFILES["full"], tuple(min(count, 40) for count in criteo.TERABYTE_ROWS)
    net = model.DLRM(13, rows, full.embedding_dim, full.bottom_widths, full.top_widths)
    samples = made_up.samples(16, rows, numbers=13)
    labels, dense, categories = next(batches(samples, 16, CPU))
    before = [table.weight.detach().clone() for table in net.tables]
    optimizer = torch.optim.SGD(net.parameters(), lr=full.opt_base_learning_rate)
    losses = []
    for _ in range(2):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(dense, categories), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[1] < losses[0]
    for table, old, column in zip(net.tables, before, categories.unbind(1), strict=True):
        assert table.weight.grad.is_sparse
        changed = (table.weight != old).any(1).nonzero().flatten().tolist()
        assert changed == sorted(set(column.tolist()))


def test_tables_start_within_their_bound() -> None:
    assert model.table(100, 50, 0.0).weight.abs().max().item() == pytest.approx(0.1, rel=0.01)
    assert model.table(100, 50, 0.02).weight.abs().max().item() == pytest.approx(0.02, rel=0.01)


def test_learning_rate_by_hand() -> None:
    steps = {"opt_learning_rate_warmup_steps": 4, "lr_decay_start_steps": 10, "sgd_opt_learning_rate_decay_steps": 20}
    hp = train.Settings(opt_base_learning_rate=2.0, **steps)
    rates = [train.learning_rate(hp, step) for step in (1, 2, 4, 10, 20, 25, 30, 99)]
    assert rates == [0.5, 1.0, 2.0, 2.0, 0.5, 0.125, 0.0, 0.0]
    assert train.learning_rate(train.Settings(), 10**9) == 1.0  # no decay steps: it stays


# ---- runs ----------------------------------------------------------------------------------------------------------


def test_smoke_run_counts_samples_and_never_epochs(tmp_path: Path) -> None:
    logs = [tmp_path / f"{name}.txt" for name in ("first", "second", "other")]
    for log, seed in zip(logs, ("3", "3", "4"), strict=True):
        assert train.main(["--profile", "smoke", "--seed", seed, "--log", str(log)]) == 0
    assert untimed(logs[0]) == untimed(logs[1])
    assert values(logs[0], "eval_accuracy") != values(logs[2], "eval_accuracy")

    said = events(logs[0])
    assert "epoch" not in logs[0].read_text().replace("_epochs", "")
    counts = [(e["key"], e["metadata"]["samples_count"]) for e in said if e["key"] in ("block_start", "block_stop")]
    assert counts == [
        (key, n) for end in (2000, 4000, 6000) for key, n in (("block_start", end - 2000), ("block_stop", end))
    ]
    evaluated = [
        (e["metadata"]["samples_count"], e["metadata"]["evaluated_samples"])
        for e in said
        if e["key"] == "eval_accuracy"
    ]
    assert evaluated == [(2000, 2000), (4000, 2000), (6000, 2000)]
    assert [e["metadata"].get("status") for e in said if e["key"] == "run_stop"] == ["success"]
    assert len(values(logs[0], "baseline")) == 3
    keys = [e["key"] for e in said]
    assert max(
        i for i, key in enumerate(keys) if key in ("baseline", "sgd_opt_learning_rate_decay_steps")
    ) < keys.index("run_start")


def test_our_checker_takes_the_log(tmp_path: Path) -> None:
    if not (ROOT / "compliance" / "check.py").is_file():
        pytest.skip("the checker is not in this checkout")
    assert train.main(["--profile", "smoke", "--log", str(tmp_path / "result_0.txt")]) == 0
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "result_0.txt")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_full_profile_trains_on_the_real_layout(tmp_path: Path) -> None:
    folder, log = made_up.terabyte(tmp_path / "tb", rows_a_day=20), tmp_path / "log.txt"
    flags = [
        "--division",
        "open",
        "--max-ind-range",
        "50",
        "--global-batch-size",
        "32",
        "--max-samples",
        "64",
        "--seed",
        "2",
    ]
    status = train.main(["--profile", "full", "--data-dir", str(folder), "--log", str(log), *flags])
    assert status == 1  # two steps do not reach 0.8025
    assert values(log, "train_samples") == [23 * 20 + 11] and values(log, "eval_samples") == [11]
    source = values(log, "data_source")[0]
    assert source["name"] == "criteo-1tb" and source["file"] == "tb" and len(source["sha256"]) == 64
    assert [e["metadata"]["samples_count"] for e in events(log) if e["key"] == "block_stop"] == [64]
    stop = [e["metadata"] for e in events(log) if e["key"] == "run_stop"][0]
    assert stop["status"] == "aborted" and stop["reason"] == "quality target not reached"


def test_embedded_profile_reads_a_folder_of_the_layout(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    flags = [
        "--data-dir",
        str(made_up.films(tmp_path)),
        "--log",
        str(log),
        "--max-samples",
        "100",
        "--global-batch-size",
        "10",
    ]
    assert train.main(flags) == 1
    assert values(log, "train_samples") == [64] and values(log, "eval_samples") == [16]
    assert [e["metadata"]["samples_count"] for e in events(log) if e["key"] == "block_stop"] == [
        94 + 10
    ]  # 64 = 6 * 10 + 4


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--profile", "full"], "give --data-dir"),
        (["--profile", "full", "--data-dir", "."], "no Criteo data in"),
        (["--data-dir", "."], "no ml-100k.inter"),
        (["--profile", "smoke", "--dataset", "movielens"], "--dataset movielens: unknown"),
        (["--profile", "smoke", "--division", "open", "--held-out", "validation"], "only movielens-100k"),
        (["--profile", "smoke", "--division", "open", "--opt-name", "adam"], "plain sgd only"),
        (["--profile", "smoke", "--opt-name", "adam"], "closed division"),
        (["--profile", "full", "--max-ind-range", "1000"], "closed division: max_ind_range is 1000"),
        (["--profile", "smoke", "--opt-base-learning-rate", "1e30"], "training diverged"),
    ],
)
def test_wrong_calls_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        train.main([*flags, "--log", str(tmp_path / "log.txt")])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("start", [["-m", "reference.clicks.train"], ["reference/clicks/train.py"]])
def test_a_copy_of_the_folder_works_under_its_new_name(tmp_path: Path, start: list[str]) -> None:
    for part in ("logging", "reference/common", "compliance"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "reference/__init__.py").touch()
    shutil.copytree(FOLDER, tmp_path / "reference/clicks", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(tmp_path / "logging")])}
    if start[0] != "-m":
        environment.pop("PYTHONPATH")  # a script finds its own way
    command = [sys.executable, *start, "--profile", "smoke", "--log", "log.txt"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert values(tmp_path / "log.txt", "submission_benchmark") == ["clicks"]


def test_the_installed_data_gives_the_declared_counts(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    try:
        train.main(["--max-samples", "200", "--log", str(log)])
    except SystemExit:
        pytest.skip("the recbole wheel with MovieLens-100K is not installed")
    assert values(log, "train_samples") == [80_000] and values(log, "eval_samples") == [20_000]
    named = {e["metadata"]["name"]: e["value"] for e in events(log) if e["key"] == "baseline"}
    target = values(log, "quality_target")[0]
    assert max(named.values()) + 0.003 < target  # the target is no linear model's
    hashes = [source["sha256"][:8] for source in values(log, "data_source")]
    assert hashes == ["4edb74e2", "51d7cdf7", "4f670007"]
