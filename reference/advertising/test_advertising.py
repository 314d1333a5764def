"""The advertising task: AUC and interaction by hand, sizes, loaders on made-up data, runs and their logs, a copy."""

from __future__ import annotations

import gzip
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

from . import baselines, criteo, metric, model, movielens, prepare, synthetic, train
from .samples import Samples, batches

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


def made_up(count: int, table_rows: tuple[int, ...] = (5, 7, 3), numbers: int = 4) -> Samples:
    rng = np.random.default_rng(3)
    categories = np.stack([rng.integers(0, rows, count) for rows in table_rows], axis=1)
    dense = rng.normal(size=(count, numbers)).astype(np.float32)
    return Samples((rng.random(count) < 0.4).astype(np.float32), dense, categories, table_rows)


def test_evaluation_counts_every_sample_once_whatever_the_batch_size() -> None:
    torch.manual_seed(0)
    samples, net = made_up(103), model.DLRM(4, (5, 7, 3), 6, (8,), (8,))
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
        metric.evaluate(net, batches(made_up(9), 9, CPU))


# ---- the model -----------------------------------------------------------------------------------------------------


def test_interaction_by_hand() -> None:
    vectors = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]]])
    assert model.interact(vectors).tolist() == [[11.0, 17.0, 39.0], [0.0, 2.0, 3.0]]  # 1·0, 2·0, 2·1


def test_model_is_its_parts_put_together_by_hand() -> None:
    torch.manual_seed(0)
    net, samples = model.DLRM(4, (5, 7, 3), 6, (8,), (8, 5)), made_up(3)
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
    samples = made_up(16, rows, numbers=13)
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


# ---- Criteo's files ------------------------------------------------------------------------------------------------


def row(label: int, integers: dict[int, int], codes: dict[int, str]) -> str:
    """A line of Criteo's text with these integers and codes by place, all others empty."""
    fields = [str(label), *(str(integers.get(i, "")) for i in range(13)), *(codes.get(i, "") for i in range(26))]
    return "\t".join(fields)


def lines(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)

    def line(number: int) -> str:
        integers = {i: int(rng.integers(-2, 3000)) for i in range(13) if rng.random() < 0.7}
        codes = {i: f"{int(rng.zipf(1.5)) * 2654435761 % 2**32:08x}" for i in range(26) if rng.random() < 0.9}
        return row(int(number % 3 == 0), integers, codes)

    return [line(number) for number in range(count)]


def terabyte(folder: Path, rows_a_day: int = 6) -> Path:
    folder.mkdir()
    for day in range(24):
        text = "\n".join(lines(rows_a_day + day % 2, seed=day)) + "\n"
        if day % 5 == 4:
            (folder / f"day_{day}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / f"day_{day}").write_text(text)
    return folder


def read(folder: Path, max_ind_range: int = 1000) -> tuple[Samples, Samples]:
    """All training and held-out rows of a folder."""
    layout = criteo.find(folder, max_ind_range)
    reader = criteo.Reader(layout, max_ind_range)
    both = [list(reader.pieces(parts)) for parts in criteo.parts(layout)]
    joined = [
        Samples(
            *(np.concatenate([getattr(p, f) for p in ps]) for f in ("labels", "dense", "categories")), ps[0].table_rows
        )
        for ps in both
    ]
    return joined[0], joined[1]


def test_a_row_of_text_by_hand() -> None:
    text = row(1, {0: 0, 1: -2, 2: 7, 12: 2147483647}, {0: "0", 1: "68fd1e64", 2: "FFFFFFFF", 25: "a"}) + "\n"
    labels, dense, codes = criteo.parse(text.encode(), "day_0", 0)
    assert labels.tolist() == [1.0]
    assert dense[0].tolist() == [0, -2, 7, *[0] * 9, float(np.float32(2147483647))]
    assert codes[0].tolist() == [0, 0x68FD1E64, 0xFFFFFFFF, *[0] * 22, 10]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\t2\t3", r"day_7:13: expected 40 fields, found 3"),
        (row(1, {}, {}) + "\t", r"day_7:13: expected 40 fields, found 41"),
        (row(2, {}, {}), r"day_7:13: the label must be 0 or 1"),
        (row(1, {}, {}).removeprefix("1"), r"day_7:13: the label must be 0 or 1"),
        (row(1, {}, {3: "xyz"}), r"day_7:13: b'xyz' is no code"),
        (row(1, {}, {3: "123456789"}), r"day_7:13: b'123456789' is no code"),
        (row(1, {}, {}).replace("\t", "\t1.5", 1), r"day_7:13: b'1.5' is no integer"),
        (row(1, {}, {}).replace("\t", "\t-", 1), r"day_7:13: b'-' is no integer"),
        ("", r"day_7:13: expected 40 fields, found 1"),
    ],
)
def test_a_bad_row_is_named(line: str, message: str) -> None:
    text = "\n".join([*lines(2, 0), line, *lines(2, 1), ""])
    with pytest.raises(SetupError, match=message):
        criteo.parse(text.encode(), "day_7", 10)


def test_terabyte_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = terabyte(tmp_path / "tb")
    train_rows, held_out = read(folder)
    assert len(train_rows) == 23 * 6 + 11 and len(held_out) == 4  # day 23 has 7 rows; the first half is 4
    texts = [line for day in range(23) for line in lines(6 + day % 2, seed=day)]
    integers = [[int(field or 0) for field in text.split("\t")[1:14]] for text in texts]
    expected = np.log(np.maximum(np.array(integers), 0) + 1)
    assert np.allclose(train_rows.dense, expected)
    codes = [int(text.split("\t")[14] or "0", 16) % 1000 for text in texts]
    first_seen = {code: number for number, code in enumerate(dict.fromkeys(codes))}
    assert train_rows.categories[:, 0].tolist() == [first_seen[code] for code in codes]
    assert (train_rows.categories < np.array(train_rows.table_rows)).all()

    monkeypatch.setattr(criteo, "PIECE", 97)  # rows cut in pieces anywhere are the same rows
    again, held_out_again = read(folder)
    assert np.array_equal(again.dense, train_rows.dense) and np.array_equal(again.labels, train_rows.labels)
    assert np.array_equal(again.categories, train_rows.categories)
    assert np.array_equal(held_out_again.categories, held_out.categories)


def test_kaggle_layout_without_a_last_line_break(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_bytes("\r\n".join(lines(30, seed=5)).encode())
    train_rows, held_out = read(tmp_path)
    assert (len(train_rows), len(held_out)) == (26, 2)  # seven days: 26 rows in six of them, 4 in the last
    assert held_out.labels.tolist() == [float(number % 3 == 0) for number in (26, 27)]
    assert train_rows.table_rows[0] == 1000 and train_rows.table_rows[8] == 3


def test_prepared_files_agree_with_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = terabyte(tmp_path / "tb"), tmp_path / "bin"
    assert prepare.main(["--data-dir", str(folder), "--out", str(out), "--max-ind-range", "1000"]) == 0
    assert [(out / name).stat().st_size for name in prepare.NAMES] == [149 * 160, 4 * 160]
    for text, binary in zip(read(folder), read(out), strict=True):
        assert np.array_equal(text.labels, binary.labels) and np.array_equal(text.categories, binary.categories)
        assert np.array_equal(text.dense, binary.dense)
    assert prepare.main(["--data-dir", str(folder), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert prepare.main(["--data-dir", str(out), "--out", str(tmp_path / "again")]) == 2
    assert "only the text" in capsys.readouterr().err

    with open(out / "test_data.bin", "ab") as file:
        file.write(b"\0")
    with pytest.raises(SetupError, match="test_data.bin: 641 bytes are not a whole number of rows of 160"):
        read(out)
    np.full((1, 40), 2, dtype="<i4").tofile(out / "test_data.bin")
    with pytest.raises(SetupError, match="a label other than 0 and 1"):
        read(out)


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="expected day_0 to day_23 .* found nothing"):
        criteo.find(tmp_path, 100)
    folder = terabyte(tmp_path / "tb")
    (folder / "day_3").unlink()
    with pytest.raises(SetupError, match="of the days day_3 is missing"):
        criteo.find(folder, 100)
    (folder / "day_3.gz").write_bytes(gzip.compress(b"1\n" * 1000)[:-9])
    with pytest.raises(SetupError, match="day_3.gz: cannot be read to its end"):
        criteo.parts(criteo.find(folder, 100))
    (folder / "day_3.gz").unlink()
    (folder / "day_3").write_bytes(b"0" * 100_000)
    with pytest.raises(SetupError, match="day_3: a line of over"):
        read(folder)


# ---- MovieLens and the generator -----------------------------------------------------------------------------------


def films(folder: Path, users: int = 8, items: int = 10) -> Path:
    """A made-up data set in the layout of ml-100k."""
    rng = np.random.default_rng(9)
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float"
    stars = [f"{u}\t{i}\t{rng.integers(1, 6)}\t{800 + u * i}" for u in range(1, users + 1) for i in range(1, items + 1)]
    (folder / "ml-100k.inter").write_text("\n".join([header, *stars]) + "\n")
    header = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq"
    about = [
        f"{i}\tFilm {i}\t{'' if i == 2 else 1980 + i}\t{'Drama Comedy' if i % 2 else 'War'}"
        for i in range(1, items + 1)
    ]
    (folder / "ml-100k.item").write_text("\n".join([header, *about]) + "\n")
    header = "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token"
    people = [f"{u}\t{20 + u}\t{'MF'[u % 2]}\tjob{u % 3}\t{u % 4}5711" for u in range(1, users + 1)]
    (folder / "ml-100k.user").write_text("\n".join([header, *people]) + "\n")
    return folder


def test_movielens_layout(tmp_path: Path) -> None:
    films(tmp_path)
    train_rows, held_out = movielens.load(tmp_path, "evaluation")
    assert (len(train_rows), len(held_out)) == (64, 16)
    assert train_rows.table_rows == (9, 11, 4, 3, 5, 3) == movielens.table_rows(tmp_path)
    pairs = {(u, i) for u, i in np.concatenate([train_rows.categories, held_out.categories])[:, :2].tolist()}
    assert len(pairs) == 80  # every rating once, on one side
    assert np.allclose(train_rows.dense.mean(0), 0, atol=1e-5)
    assert np.allclose(train_rows.dense.std(0)[[0, 2, 3, 4]], 1, atol=1e-5)  # a film without a year has the mean year
    assert (train_rows.dense[train_rows.categories[:, 1] == 3, 1] == 0).all()  # film "2" is third of "1", "10", "2" ...
    ratings = (tmp_path / "ml-100k.inter").read_text().splitlines()[1:]
    clicks = sum(int(line.split("\t")[2]) >= 4 for line in ratings)
    assert train_rows.labels.sum() + held_out.labels.sum() == clicks

    tuning_rows, validation = movielens.load(tmp_path, "validation")
    assert (len(tuning_rows), len(validation)) == (56, 8)
    judged = {tuple(pair) for pair in held_out.categories[:, :2].tolist()}
    assert not judged & {tuple(pair) for part in (tuning_rows, validation) for pair in part.categories[:, :2].tolist()}


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("ml-100k.inter", "rating:float", "stars:float", "ml-100k.inter: no column rating; found user_id"),
        ("ml-100k.inter", "1\t1\t", "1\t", "ml-100k.inter:2: expected 4 fields, found 3"),
        ("ml-100k.inter", "1\t1\t", "1\t1\tfive", "ml-100k.inter:2: rating and timestamp must be numbers"),
        ("ml-100k.user", "\n8\t", "\n88\t", "ml-100k.user: no row for '8'"),
        ("ml-100k.item", "", None, "ml-100k.item: no column"),
    ],
)
def test_damaged_movielens_is_named(tmp_path: Path, file: str, old: str, new: str | None, message: str) -> None:
    text = (films(tmp_path) / file).read_text()
    (tmp_path / file).write_text("" if new is None else text.replace(old, new, 1))
    with pytest.raises(SetupError, match=message):
        movielens.load(tmp_path, "evaluation")


def test_generator_is_reproducible_and_its_bayes_auc_is_a_ceiling() -> None:
    few, held_out, probability = synthetic.load(700, 4000)
    many, _, _ = synthetic.load(1500, 10)
    for mine, theirs in ((few.labels, many.labels), (few.dense, many.dense), (few.categories, many.categories)):
        assert np.array_equal(mine, theirs[:700])
    assert (held_out.categories < np.array(synthetic.TABLE_ROWS)).all()
    assert held_out.labels.mean() == pytest.approx(probability.mean(), abs=0.03)
    best = metric.roc_auc(held_out.labels, probability)
    train_rows, _, _ = synthetic.load(8000, 10)
    assert 0.75 < best < 0.85
    assert 0.6 < metric.roc_auc(held_out.labels, baselines.logistic_regression(train_rows, held_out)) < best
    with pytest.raises(SetupError, match="not 0"):
        synthetic.load(0, 10)


def test_field_mean_by_hand() -> None:
    categories = np.array([[0, 1], [0, 0], [1, 1], [1, 0]])
    train_rows = Samples(np.array([1, 1, 0, 0], dtype=np.float32), np.zeros((4, 1), np.float32), categories, (3, 2))
    held_out = Samples(np.array([1, 0, 0], dtype=np.float32), np.zeros((3, 1), np.float32),
                       np.array([[0, 0], [1, 0], [2, 0]]), (3, 2))  # fmt: skip
    shares = baselines.field_mean(train_rows, held_out, field=0, prior=2.0)
    assert shares.tolist() == [(2 + 1) / (2 + 2), (0 + 1) / (2 + 2), 0.5]
    assert (
        baselines.best_field_mean(train_rows, held_out).tolist()
        == baselines.field_mean(train_rows, held_out, 0).tolist()
    )


def test_logistic_regression_agrees_with_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    samples = made_up(300)
    one_hot = [np.eye(rows)[samples.categories[:, field]] for field, rows in enumerate(samples.table_rows)]
    inputs = np.concatenate([*one_hot, samples.dense], axis=1)
    theirs = linear.LogisticRegression(C=1 / 2.0, tol=1e-8, max_iter=1000).fit(inputs, samples.labels)
    ours = baselines.logistic_regression(samples, samples, l2=2.0)
    assert np.allclose(ours, theirs.decision_function(inputs), atol=1e-3)


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
    folder, log = terabyte(tmp_path / "tb", rows_a_day=20), tmp_path / "log.txt"
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
    flags = ["--data-dir", str(films(tmp_path)), "--log", str(log), "--max-samples", "100", "--global-batch-size", "10"]
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
