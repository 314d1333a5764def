"""Image to image: metric by hand, parameter counts, networks, sampling, Cityscapes' layout, and short runs.

All pictures here are made up.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import baselines, cityscapes, data, metric, model, scenes, train

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FULL, SMALL = train.PROFILES["full"], train.PROFILES["embedded"]


# ---- metric ----------------------------------------------------------------------------------------------------------


def test_scores_by_hand() -> None:
    """Classes 0, 1, 2 of 4; void is left out; class 3 is nowhere. IoU: 2/4, 1/3, 1/2."""
    true = torch.tensor([[[0, 0, 0, 1], [1, 2, 255, 255]]])
    predicted = torch.tensor([[[0, 0, 1, 0], [1, 2, 2, 0]]])
    predicted[0, 0, 3] = 0
    confusion = metric.Confusion(4)
    confusion.add(predicted, true)
    assert confusion.pixel_accuracy() == pytest.approx(4 / 6)
    assert confusion.mean_iou() == pytest.approx((2 / 4 + 1 / 3 + 1) / 3)


def test_a_class_that_is_only_predicted_counts_as_zero() -> None:
    confusion = metric.Confusion(3)
    confusion.add(torch.tensor([[[0, 2]]]), torch.tensor([[[0, 0]]]))
    assert confusion.mean_iou() == pytest.approx((1 / 2 + 0) / 2)


def test_the_union_is_taken_over_the_set_not_per_image() -> None:
    """Image 1: 1 of 1 right, image 2: 0 of 3. A mean of per-image values would give 1/2."""
    confusion = metric.Confusion(2)
    confusion.add(torch.tensor([[[0]]]), torch.tensor([[[0]]]))
    confusion.add(torch.tensor([[[1, 1, 1]]]), torch.tensor([[[0, 0, 0]]]))
    assert confusion.scores() == {"pixel_accuracy": 1 / 4, "mean_iou": pytest.approx((1 / 4 + 0) / 2)}
    assert confusion.images == 2


def test_no_pixels_and_values_that_are_no_numbers() -> None:
    confusion = metric.Confusion(2)
    confusion.add(torch.zeros(1, 2, 2, dtype=torch.int64), torch.full((1, 2, 2), metric.VOID))
    with pytest.raises(ValueError, match="no pixels"):
        confusion.scores()
    photos, true = torch.zeros(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.uint8)
    with pytest.raises(ValueError, match="diverged"):
        metric.evaluate(lambda x: x * float("nan"), torch.eye(3), [(photos, true)])


def test_nearest_colours_with_a_tie() -> None:
    palette = torch.tensor([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0], [1.0, -1.0, -1.0]])
    pixels = torch.tensor([[-0.9, -0.8, -1.0], [0.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.7, -0.3, -0.4]])
    assert metric.classes_of(pixels.T.reshape(1, 3, 2, 2), palette).flatten().tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("size", [1, 3, 8])
def test_the_batch_size_of_an_evaluation_changes_nothing(size: int) -> None:
    torch.manual_seed(0)
    net = train.generator(train.PROFILES["smoke"])
    photos, maps = scenes.scenes(7, 32, 5)
    photos_t, maps_t = data.scaled(torch.from_numpy(photos).permute(0, 3, 1, 2)), torch.from_numpy(maps)
    palette = data.scaled(torch.tensor(scenes.PALETTE))
    batches = list(zip(photos_t.split(size), maps_t.split(size), strict=True))
    found = metric.evaluate(net, palette, batches)
    whole = metric.evaluate(net, palette, [(photos_t, maps_t)])
    assert found.images == whole.images == 7
    assert int(found.counts.sum()) == 7 * 32 * 32
    assert (found.counts - whole.counts).abs().sum() <= 8  # sums of other order may move a pixel on a boundary


# ---- networks --------------------------------------------------------------------------------------------------------


def test_parameter_counts() -> None:
    """The paper's networks: 28.3 million in all; the small ones have the same structure."""
    counts = {}
    for name, hp in (("full", FULL), ("small", SMALL)):
        counts[name] = [
            sum(p.numel() for p in net.parameters()) for net in (train.generator(hp), train.discriminator(hp))
        ]
    assert counts["full"] == [11_378_179, 2_764_737]
    assert 2 * sum(counts["full"]) == 28_285_832
    assert counts["small"] == [93_475, 62_377]


def test_a_generator_keeps_the_size_and_a_discriminator_sees_70_pixels() -> None:
    for hp in (FULL, SMALL):
        assert train.generator(hp)(torch.zeros(1, 3, 32, 48)).shape == (1, 3, 32, 48)
    critic = train.discriminator(FULL)
    critic.layers = torch.nn.Sequential(*(part for part in critic.layers if isinstance(part, torch.nn.Conv2d)))
    picture = torch.zeros(1, 3, 256, 256, requires_grad=True)
    verdicts = critic(picture)
    assert verdicts.shape == (1, 1, 30, 30)
    verdicts[0, 0, 15, 15].backward()
    seen = picture.grad.abs().sum(dim=(0, 1)) > 0
    assert (int(seen.any(dim=0).sum()), int(seen.any(dim=1).sum())) == (70, 70)


def test_history_returns_older_pictures_half_the_time() -> None:
    model.random.seed(0)
    history = model.History(50)
    new = torch.arange(2000.0).view(-1, 1, 1, 1)
    first = history.mixed(new[:50])
    assert torch.equal(first, new[:50])  # the store fills first
    out = history.mixed(new[50:])
    older = (out != new[50:]).flatten()
    assert 0.45 < older.float().mean() < 0.55
    assert len(set(out.flatten().tolist())) == len(out)  # what is handed out again was swapped away
    assert len(history.stored) == 50
    assert torch.equal(model.History(0).mixed(new), new)


def test_the_average_follows() -> None:
    net, average = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    for module, value in ((net, 1.0), (average, 0.0)):
        torch.nn.init.constant_(module.weight, value)
    model.follow(average, net, 0.75)
    assert average.weight.item() == pytest.approx(0.25)
    model.follow(average, net, 0.0)
    assert average.weight.item() == 1.0


def test_the_learning_rate_rises_stays_and_falls_to_zero() -> None:
    hp = train.Settings(
        opt_base_learning_rate=1.0, opt_learning_rate_warmup_steps=4, lr_decay_start_epoch=2.0, max_epochs=4
    )
    rates = [train.learning_rate(hp, step, 10) for step in (1, 4, 5, 21, 31, 41)]
    assert rates == pytest.approx([0.25, 1, 1, 1, 0.5, 0])
    assert train.learning_rate(FULL, 1, 2975) == 2e-4


def test_a_step_of_the_full_networks_moves_every_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through train.py on a made-up Cityscapes of 64-pixel pictures, at the full width and depth."""
    made_up_cityscapes(tmp_path / "data", monkeypatch)
    kept = {}

    def keep(make):
        def made(hp):
            net = make(hp)
            kept[net] = [p.detach().clone() for p in net.parameters()]
            return net

        return made

    for name in ("generator", "discriminator"):
        monkeypatch.setattr(train, name, keep(getattr(train, name)))
    sizes = ["--load-size", "36", "--image-size", "32"]
    flags = ["--profile", "full", "--data-dir", str(tmp_path / "data"), "--log", str(tmp_path / "log.txt")]
    train.main([*flags, "--device", "cpu", "--max-epochs", "1", *sizes])
    assert len(kept) == 8  # four networks, rehearsed once
    for net, before in kept.items():
        # a bias before an instance normalisation without offset has no effect, so it need not move
        names = [name for name, p in net.named_parameters() if p.dim() > 1]
        moved = [not torch.equal(old, p) for old, p in zip(before, net.parameters(), strict=True) if p.dim() > 1]
        assert len(names) > 4
        assert all(moved)
    log = events(tmp_path / "log.txt")
    assert values(log, "train_samples") == [3]
    assert values(log, "eval_samples") == [2]
    assert {event["name"] for event in values(log, "data_source")} == {"cityscapes"}
    assert len(values(log, "data_source")) == 4
    assert 0 <= values(log, "eval_accuracy")[0] == values(log, "pixel_accuracy")[0] <= 1


# ---- data ------------------------------------------------------------------------------------------------------------


def made_up_cityscapes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three training and two evaluation pictures of two cities, in the owners' layout."""
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    counts = {"train": 3, "val": 2}
    monkeypatch.setattr(cityscapes, "COUNTS", counts)
    rng = np.random.default_rng(0)
    for part, count in counts.items():
        for number in range(count):
            city, stem = f"city{number % 2}", f"city{number % 2}_{number:06d}_000019"
            photo = folder / "leftImg8bit" / part / city / f"{stem}_leftImg8bit.png"
            labels = folder / "gtFine" / part / city / f"{stem}_gtFine_labelIds.png"
            for path in (photo, labels):
                path.parent.mkdir(parents=True, exist_ok=True)
            image.fromarray(rng.integers(0, 256, (32, 64, 3), np.uint8)).save(photo)
            ids = rng.choice(np.array([0, 7, 11, 21, 23, 26], np.uint8), (4, 8)).repeat(8, 0).repeat(8, 1)
            image.fromarray(ids).save(labels)


def test_cityscapes_ids_become_classes_and_void(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_cityscapes(tmp_path, monkeypatch)
    photos, labels, _ = cityscapes.part(tmp_path, "train", 16)
    assert photos.shape == (3, 16, 16, 3)
    assert labels.shape == (3, 16, 16)
    assert set(np.unique(labels)) <= {0, 2, 8, 10, 13, metric.VOID}  # road, building, vegetation, sky, car
    assert len({colour for _, _, colour in cityscapes.CLASSES}) == 19


def test_cityscapes_that_are_not_whole_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_cityscapes(tmp_path, monkeypatch)
    gone = next((tmp_path / "gtFine" / "train").glob("*/*"))
    content = gone.read_bytes()
    gone.unlink()
    with pytest.raises(SetupError, match="has no label map"):
        cityscapes.part(tmp_path, "train", 16)
    gone.write_bytes(content[:40])
    with pytest.raises(SetupError, match="not a readable picture"):
        cityscapes.part(tmp_path, "train", 16)
    next((tmp_path / "leftImg8bit" / "val").glob("*/*")).unlink()
    with pytest.raises(SetupError, match="expected 2 photos, found 1"):
        cityscapes.part(tmp_path, "val", 16)


def test_scenes_are_what_they_say() -> None:
    photos, maps = scenes.scenes(40, 32, 9)
    again, _ = scenes.scenes(3, 32, 9)
    assert np.array_equal(photos[:3], again)
    assert not np.array_equal(photos[:3], scenes.scenes(3, 32, 10)[0])
    assert set(np.unique(maps)) == set(range(len(scenes.CLASSES)))
    assert photos.std(axis=0).min() > 10  # no pixel is the same everywhere


def some_pictures(count: int, load_size: int = 32) -> data.Pictures:
    photos, maps = scenes.scenes(count, load_size, 1)
    photos_t = torch.from_numpy(photos).permute(0, 3, 1, 2)
    maps_t = torch.from_numpy(maps)
    palette = data.scaled(torch.tensor(scenes.PALETTE))
    return data.Pictures(photos_t, maps_t, photos_t, maps_t, palette, 32)


def test_one_pass_shows_every_picture_once_and_pairs_none() -> None:
    """Photos and maps of the same scenes here: a pairing would show."""
    torch.manual_seed(0)
    found = some_pictures(11)
    batches = list(found.batches(4))
    assert [len(photos) for photos, _ in batches] == [4, 4, 3]
    shown = [torch.cat(part) for part in zip(*batches, strict=True)]
    truth = data.scaled(found.photos), found.coloured(found.maps)
    orders = []
    for pictures_, true in zip(shown, truth, strict=True):
        same = [[torch.equal(p, t) or torch.equal(p.flip(-1), t) for t in true] for p in pictures_]
        orders.append([row.index(True) for row in same])
        assert sorted(orders[-1]) == list(range(11))
    assert orders[0] != orders[1]


def test_crops_stay_inside_and_move() -> None:
    torch.manual_seed(0)
    found = some_pictures(1, load_size=40)
    crops = {next(iter(found.batches(1)))[0].numpy().tobytes() for _ in range(30)}
    assert len(crops) > 20


def test_label_pictures_read_back_as_their_classes() -> None:
    found = some_pictures(3)
    assert torch.equal(metric.classes_of(found.coloured(found.maps), found.palette), found.maps.long())


# ---- baselines and pictures ------------------------------------------------------------------------------------------


def test_position_names_a_cluster() -> None:
    """Class 1 is rare but always at the top left; the cluster there is named by it, the other by class 0."""
    maps = torch.zeros(4, 2, 2, dtype=torch.uint8)
    maps[:, 0, 0] = 1
    clusters = torch.tensor([[[0, 1], [1, 1]]]).repeat(4, 1, 1)
    assert baselines.named_by_position(clusters, baselines.class_shares(maps, 2), 2).tolist() == [1, 0]


def test_k_means_finds_two_colours() -> None:
    photos = torch.full((2, 3, 4, 4), -0.9)
    photos[:, 0, :, 2:] = 0.9
    centres = baselines.k_means(photos, 2)
    at = baselines.assigned(photos, centres)
    assert (at[:, :, :2] != at[:, :, 2:]).all()


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
    assert values(log, "train_samples") == [16]
    assert values(log, "eval_samples") == [8]
    assert values(log, "eval_accuracy") == values(log, "mean_iou")
    assert len(values(log, "pixel_accuracy")) == 2
    epochs = [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"]
    assert epochs == [16, 16]
    named = {event["metadata"]["name"] for event in log if event["key"] == "baseline"}
    assert {"majority_class", "position_mode", "k_means_60"} <= named
    (sheet,) = (tmp_path / "sheets").iterdir()
    assert struct.unpack(">II", sheet.read_bytes()[16:24]) == (8 * 128, 4 * 128)


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed) for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("pixel_accuracy", "eval_accuracy", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    for key in ("baseline", "data_source"):  # the scenes know no seed
        assert values(first, key) == values(other, key)
    assert values(first, "pixel_accuracy") != values(other, "pixel_accuracy")


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, message in (
        ([], "give --data-dir"),
        (["--data-dir", str(tmp_path)], "expected 2975 photos, found 0"),
        (["--held-out", "test", "--division", "open"], "--held-out is evaluation or validation"),
        (["--held-out", "validation"], "closed division: held_out is"),
    ):
        with pytest.raises(SystemExit) as stopped:
            train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *flags])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
