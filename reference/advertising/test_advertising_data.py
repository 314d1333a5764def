"""The data of the advertising task: Criteo's three layouts, MovieLens-100K, the generator, and the naive baselines."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from reference.common.errors import SetupError

from . import baselines, criteo, made_up, metric, movielens, prepare, synthetic
from .samples import Samples

# ---- Criteo's files ------------------------------------------------------------------------------------------------


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
    text = made_up.row(1, {0: 0, 1: -2, 2: 7, 12: 2147483647}, {0: "0", 1: "68fd1e64", 2: "FFFFFFFF", 25: "a"}) + "\n"
    labels, dense, codes = criteo.parse(text.encode(), "day_0", 0)
    assert labels.tolist() == [1.0]
    assert dense[0].tolist() == [0, -2, 7, *[0] * 9, float(np.float32(2147483647))]
    assert codes[0].tolist() == [0, 0x68FD1E64, 0xFFFFFFFF, *[0] * 22, 10]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\t2\t3", r"day_7:13: expected 40 fields, found 3"),
        (made_up.row(1, {}, {}) + "\t", r"day_7:13: expected 40 fields, found 41"),
        (made_up.row(2, {}, {}), r"day_7:13: the label must be 0 or 1"),
        (made_up.row(1, {}, {}).removeprefix("1"), r"day_7:13: the label must be 0 or 1"),
        (made_up.row(1, {}, {3: "xyz"}), r"day_7:13: b'xyz' is no code"),
        (made_up.row(1, {}, {3: "123456789"}), r"day_7:13: b'123456789' is no code"),
        (made_up.row(1, {}, {}).replace("\t", "\t1.5", 1), r"day_7:13: b'1.5' is no integer"),
        (made_up.row(1, {}, {}).replace("\t", "\t-", 1), r"day_7:13: b'-' is no integer"),
        ("", r"day_7:13: expected 40 fields, found 1"),
    ],
)
def test_a_bad_row_is_named(line: str, message: str) -> None:
    text = "\n".join([*made_up.lines(2, 0), line, *made_up.lines(2, 1), ""])
    with pytest.raises(SetupError, match=message):
        criteo.parse(text.encode(), "day_7", 10)


def test_terabyte_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made_up.terabyte(tmp_path / "tb")
    train_rows, held_out = read(folder)
    assert len(train_rows) == 23 * 6 + 11 and len(held_out) == 4  # day 23 has 7 rows; the first half is 4
    texts = [line for day in range(23) for line in made_up.lines(6 + day % 2, seed=day)]
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
    (tmp_path / "train.txt").write_bytes("\r\n".join(made_up.lines(30, seed=5)).encode())
    train_rows, held_out = read(tmp_path)
    assert (len(train_rows), len(held_out)) == (26, 2)  # seven days: 26 rows in six of them, 4 in the last
    assert held_out.labels.tolist() == [float(number % 3 == 0) for number in (26, 27)]
    assert train_rows.table_rows[0] == 1000 and train_rows.table_rows[8] == 3


def test_prepared_files_agree_with_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = made_up.terabyte(tmp_path / "tb"), tmp_path / "bin"
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
    folder = made_up.terabyte(tmp_path / "tb")
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


def test_movielens_layout(tmp_path: Path) -> None:
    made_up.films(tmp_path)
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
    text = (made_up.films(tmp_path) / file).read_text()
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
    samples = made_up.samples(300)
    one_hot = [np.eye(rows)[samples.categories[:, field]] for field, rows in enumerate(samples.table_rows)]
    inputs = np.concatenate([*one_hot, samples.dense], axis=1)
    theirs = linear.LogisticRegression(C=1 / 2.0, tol=1e-8, max_iter=1000).fit(inputs, samples.labels)
    ours = baselines.logistic_regression(samples, samples, l2=2.0)
    assert np.allclose(ours, theirs.decision_function(inputs), atol=1e-3)
