"""Face embedding: VGGFace2 and LFW in their owners' layout, made up here, and the full profile on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reference.common.errors import SetupError

from . import data, lfw, train, vggface2
from .test_face_embedding import HERE, events, values

NAMES = ("Ann_Example", "Bo Example", "Cy_Both", "Di_E", "Eve_E", "Fay_E", "Guy_E", "Hal_E")
CLASSES = tuple(f"n{number:06d}" for number in range(1, len(NAMES) + 1))
PEOPLE = ("Cy_Both", "Ed_Other", "Flo_Other")


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight people of five pictures to train on, one of whom is in LFW too; three in LFW, two folds of three pairs."""
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    rng = np.random.default_rng(0)

    def picture(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(rng.integers(0, 256, (20, 24, 3), np.uint8)).save(path)

    for name in CLASSES:
        for number in range(5):
            picture(tmp_path / "train" / name / f"{number:04d}_01.{'png' if number else 'jpg'}")
    meta = tmp_path / "meta" / "identity_meta.csv"
    meta.parent.mkdir()
    lines = [f'{name}, "{who}", 5, 0, f' for name, who in zip(CLASSES, NAMES, strict=True)]
    meta.write_text("\n".join(["Class_ID, Name, Sample_Num, Flag, Gender", *lines]) + "\n")
    for name in PEOPLE:
        for number in range(1, 4):
            picture(tmp_path / "lfw" / name / f"{name}_{number:04d}.jpg")
    fold = ["Cy_Both\t1\t2", "Cy_Both\t1\t3", "Ed_Other\t2\t3"]
    fold += ["Cy_Both\t1\tEd_Other\t1", "Ed_Other\t2\tFlo_Other\t3", "Cy_Both\t3\tFlo_Other\t1"]
    (tmp_path / "pairs.txt").write_text("\n".join(["2\t3", *fold, *fold]) + "\n")
    monkeypatch.setattr(vggface2, "CLASSES", 8)
    monkeypatch.setattr(vggface2, "PICTURES", 40)
    for name, value in (("FOLDS", 2), ("PER_FOLD", 3), ("PEOPLE", 3)):
        monkeypatch.setattr(lfw, name, value)
    return tmp_path


def test_pairs_are_read_by_hand(real: Path) -> None:
    paths, pairs, people, used = lfw.listed(real)
    assert [path.name for path in paths[:4]] == ["Cy_Both_0001.jpg", "Cy_Both_0002.jpg", "Cy_Both_0003.jpg"] + [
        "Ed_Other_0002.jpg"
    ]
    assert pairs.same.tolist() == [True] * 3 + [False] * 3 + [True] * 3 + [False] * 3
    assert pairs.fold.tolist() == [0] * 6 + [1] * 6
    assert [[paths[row].name for row in rows] for rows in pairs.rows[3:5]] == [
        ["Cy_Both_0001.jpg", "Ed_Other_0001.jpg"],
        ["Ed_Other_0002.jpg", "Flo_Other_0003.jpg"],
    ]
    assert people == {"cyboth", "edother", "floother"}
    assert {source.name for source in used} == {"lfw"}


def test_people_of_the_evaluation_are_not_trained_on(real: Path) -> None:
    _, _, people, _ = lfw.listed(real)
    paths, labels, names, _ = vggface2.listed(real, people)
    assert names == ["annexample", "boexample", "die", "evee", "faye", "guye", "hale"]
    assert labels.tolist() == [number for number in range(7) for _ in range(5)]
    assert "n000003" not in {path.parent.name for path in paths}
    assert len(vggface2.listed(real, set())[0]) == 40


def test_what_is_not_whole_is_named(real: Path) -> None:
    lines = (real / "pairs.txt").read_text().splitlines()

    def refused(message: str, change: dict[int, str]) -> None:
        changed = [change.get(number, line) for number, line in enumerate(lines)]
        (real / "pairs.txt").write_text("\n".join(changed))
        with pytest.raises(SetupError, match=message):
            lfw.listed(real)

    refused("expected a first line 2 3 and 12 lines", {0: "3\t3"})
    refused("pairs.txt:3: expected name number number", {2: "Cy_Both\t1\tEd_Other\t3"})
    refused("pairs.txt:6: expected name number name number", {5: "Cy_Both\t1\tEd_Other\tx"})
    refused("pairs.txt:2: there is no picture .*Cy_Both_0009", {1: "Cy_Both\t1\t9"})
    (real / "pairs.txt").unlink()
    with pytest.raises(SetupError, match="pairs.txt: cannot be read"):
        lfw.listed(real)
    meta = real / "meta" / "identity_meta.csv"
    text = meta.read_text()
    for changed, message in (
        (text.replace("n000002", "n000009"), "no line for 1 classes: n000002"),
        ("nothing\n", "expected a first line Class_ID"),
        (text + "n000009\n", "identity_meta.csv:10: expected a class and a name"),
    ):
        meta.write_text(changed)
        with pytest.raises(SetupError, match=message):
            vggface2.listed(real, set())
    meta.write_text(text)
    for path in (real / "train" / "n000004").iterdir():
        path.unlink()
    with pytest.raises(SetupError, match="expected up to 40 pictures, found 35"):
        vggface2.listed(real, set())
    (real / "train" / "n000004").rmdir()
    with pytest.raises(SetupError, match="expected 8 folders, one a person, found 7"):
        vggface2.listed(real, set())


def test_a_damaged_picture_is_named(real: Path) -> None:
    path = real / "train" / "n000001" / "0001_01.png"
    files = data.Files([path, path], 16)
    assert files[[0, 1]].shape == (2, 3, 16, 16)
    assert -1 <= float(files[[0]].min()) < float(files[[0]].max()) <= 1
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(SetupError, match="0001_01.png: not a readable picture"):
        files[[0]]


@pytest.mark.parametrize(("held_out", "trained", "pairs"), [("evaluation", 7 * 5, 12), ("validation", 3 * 5, 12)])
def test_the_full_profile_trains_on_the_real_layout(
    real: Path, monkeypatch: pytest.MonkeyPatch, held_out: str, trained: int, pairs: int
) -> None:
    """One epoch of the full settings, the network on smaller pictures, batches of two people."""
    monkeypatch.setattr(data, "VALIDATION_EVERY", 2)  # four of the seven people
    log = real / "log.txt"
    flags = ["--profile", "full", "--data-dir", str(real), "--log", str(log), "--device", "cpu", "--data-workers", "0"]
    flags += ["--image-size", "32", "--max-epochs", "1", "--global-batch-size", "8", "--division", "open"]
    assert train.main([*flags, "--held-out", held_out]) in (0, 1)
    found = events(log)
    assert values(found, "train_samples") == [trained]
    assert values(found, "eval_samples") == [pairs]
    assert values(found, "network") == ["resnet34"]
    assert {source["name"] for source in values(found, "data_source")} == {"vggface2", "lfw"}
    people = trained // 5
    shown = 4 * (people - people % 2)  # the last batch of one person is left out
    assert [event["metadata"]["samples_count"] for event in found if event["key"] == "epoch_stop"] == [shown]


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, message in (
        ([], "give --data-dir"),
        (["--data-dir", str(tmp_path)], "expected 5749 folders, one a person, found 0"),
    ):
        with pytest.raises(SystemExit) as stopped:
            train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *flags])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "log.txt").exists()


def test_the_readme_shows_the_evidence() -> None:
    """Every log's seed, epochs and last values are a row of the table."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    logs = [events(path) for path in sorted((HERE / "evidence" / "embedded").glob("result_*.txt"))]
    assert len(logs) == 10
    for log in logs:
        before, last = values(log, "eval_accuracy")[-2:]
        (seed,), accepts = values(log, "seed"), values(log, "true_accept_rate")
        assert f"| {seed} | {len(accepts)} | {before:.4f} | {last:.4f} | {accepts[-1]:.3f} |" in readme
