"""3D face recognition: the RGB-D layout, made up here, and the full profile on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reference.common.errors import SetupError

from . import rgbd, train
from .test_face_recognition_3d import HERE, events, values


def write_samples(folder: Path, people: int = 3, each: int = 10) -> Path:
    """A CSV file and its pairs of png and npy, as in the full profile's layout; one class more, of too few samples."""
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    rng = np.random.default_rng(0)
    lines = ["rgb_path,dep_path,class"]
    for person in range(people + 1):
        name = f"n{person:06d}"
        (folder / name).mkdir(parents=True)
        for number in range(each if person < people else 2):
            stem = f"{name}/{number:04d}_03"
            image.fromarray(rng.integers(70 * person, 70 * person + 40, (20, 24, 3), np.uint8)).save(
                folder / f"{stem}.png"
            )
            np.save(folder / f"{stem}.npy", rng.uniform(400, 900, (20, 24)).astype(np.float32))
            lines.append(f"{stem}.png,{stem}.npy,{name}")
    (folder / "all.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_samples_are_split_by_a_fixed_seed(tmp_path: Path) -> None:
    parts = rgbd.listed(write_samples(tmp_path), classes=3)
    assert [len(part) for part in parts[:3]] == [24, 3, 3]
    assert len({path for part in parts[:3] for path, _, _ in part}) == 30
    assert {label for _, _, label in parts[0]} == {0, 1, 2}
    assert parts[:3] == rgbd.listed(tmp_path, classes=3)[:3]
    colour, depth, label = parts[0][0]
    assert (colour.parent, colour.stem) == (depth.parent, depth.stem)
    assert colour.parent.name == f"n{label:06d}"


def test_a_sample_is_read_by_hand(tmp_path: Path) -> None:
    """Depths 100 (near) to 300 (far), a 0 and no number: near is 255, far is 1, the others 0."""
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    image.fromarray(np.full((4, 4, 3), (10, 20, 30), np.uint8)).save(tmp_path / "a.png")
    depth = np.full((4, 4, 1), 100, np.float32)
    depth[2:] = 300
    depth[0, 0], depth[0, 1] = 0, np.nan
    np.save(tmp_path / "a.npy", depth)
    found = rgbd.read((tmp_path / "a.png", tmp_path / "a.npy", 0), 4)
    assert found[0, 0, :3].tolist() == [10, 20, 30]
    assert found[..., 3].tolist() == [[0, 0, 255, 255], [255] * 4, [1] * 4, [1] * 4]
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    assert not rgbd.read((tmp_path / "a.png", tmp_path / "a.npy", 0), 2)[..., 3].any()


def test_what_is_not_whole_is_named(tmp_path: Path) -> None:
    def refused(message: str, classes: int = 3) -> None:
        with pytest.raises(SetupError, match=message):
            rgbd.listed(tmp_path, classes)

    refused("expected one CSV file, found 0")
    write_samples(tmp_path)
    refused("expected 253 classes of 10 samples or more with 77715 samples, found 3 with 30", rgbd.CLASSES)
    lines = (tmp_path / "all.csv").read_text().splitlines()
    for changed, message in (
        ("a,b,c", "expected the columns rgb_path, dep_path, class, found a, b, c"),
        (lines[0] + "\nn000000/0000_03.png,,n000000", "all.csv:2: expected rgb_path, dep_path, class"),
        (lines[0] + "\nn000000/0000_03.png,no.npy,n000000", "all.csv:2: there is no file .*no.npy"),
    ):
        (tmp_path / "all.csv").write_text(changed + "\n")
        refused(message)
    colour, depth = tmp_path / "n000000" / "0000_03.png", tmp_path / "n000000" / "0000_03.npy"
    np.save(depth, np.zeros((2, 3, 4)))
    with pytest.raises(SetupError, match="expected numbers .height, width., found float64 .2, 3, 4."):
        rgbd.read((colour, depth, 0), 8)
    for path, message in ((depth, "not a readable array"), (colour, "not a readable picture")):
        path.write_bytes(path.read_bytes()[:30])
        with pytest.raises(SetupError, match=message):
            rgbd.read((colour, depth, 0), 8)


def test_training_learns(tmp_path: Path) -> None:
    """Three people of colours of their own, with a small network: all are named, which a mislabelled one doesn't."""
    flags = [
        "--profile",
        "full",
        "--data-dir",
        str(write_samples(tmp_path, each=20)),
        "--log",
        str(tmp_path / "log.txt"),
    ]
    flags += ["--device", "cpu", "--data-workers", "0", "--classes", "3", "--image-size", "16", "--division", "open"]
    flags += ["--network", "small", "--network-width", "4", "--embedding-size", "8", "--logit-scale", "8"]
    assert train.main([*flags, "--max-epochs", "12", "--opt-base-learning-rate", "0.05"]) == 0
    assert values(events(tmp_path / "log.txt"), "eval_accuracy")[-1] == 1.0


def test_the_full_profile_trains_on_the_real_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One epoch of the full network on smaller pictures of three people; and what it says where there are none."""
    flags = ["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", "--data-workers", "0"]
    for more, message in (([], "give --data-dir"), (["--data-dir", str(tmp_path)], "expected one CSV file, found 0")):
        with pytest.raises(SystemExit) as stopped:
            train.main([*flags, *more])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
    folder = str(write_samples(tmp_path / "data"))
    flags += ["--data-dir", folder, "--classes", "3", "--image-size", "32", "--max-epochs", "1"]
    assert train.main([*flags, "--division", "open"]) in (0, 1)
    log = events(tmp_path / "log.txt")
    assert values(log, "train_samples") == [24]
    assert values(log, "eval_samples") == [3]
    assert values(log, "quality_metric") == ["top1_accuracy"]
    assert {source["name"] for source in values(log, "data_source")} == {"rgbd-faces"}


def test_the_readme_shows_the_evidence() -> None:
    """Every log's seed, epochs and last values are a row of the table."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    logs = [events(path) for path in sorted((HERE / "evidence" / "embedded").glob("result_*.txt"))]
    assert len(logs) == 10
    for log in logs:
        found = values(log, "eval_accuracy")
        before, last = found[-2:]
        assert f"| {values(log, 'seed')[0]} | {len(found)} | {before:.4f} | {last:.4f} |" in readme
