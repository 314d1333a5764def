"""Object reconstruction: metric by hand, parameter counts, made objects and their pictures, binvox, and short runs.

All objects here are made up.
"""

from __future__ import annotations

import importlib.util
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from . import baselines, data, metric, model, render, shapenet, shapes, train
from .test_object_reconstruction_3d_shapenet import made_up_shapenet

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FULL, SMALL = train.PROFILES["full"], train.PROFILES["embedded"]
CPU = torch.device("cpu")
CAMERA = render.camera
NEEDS_FACTS = pytest.mark.skipif(
    not (HERE / "benchmark.toml").is_file(),
    reason="no benchmark.toml: no evidence yet for a target of the embedded profile (README.md)",
)


def grid(*filled: tuple[int, int, int], side: int = 4) -> torch.Tensor:
    out = torch.zeros(side, side, side, dtype=torch.bool)
    for place in filled:
        out[place] = True
    return out


# ---- metric ----------------------------------------------------------------------------------------------------------


def test_iou_by_hand() -> None:
    true = grid((0, 0, 0), (1, 1, 1), (2, 2, 2))
    predicted = torch.stack([true, grid((0, 0, 0), (1, 1, 1), (3, 3, 3)), grid(), grid((3, 3, 3))])
    assert metric.iou(predicted, true).tolist() == [1.0, 2 / 4, 0.0, 0.0]
    assert metric.iou(grid(), grid()).item() == 1.0


def test_the_mean_is_over_a_shapes_pictures_then_over_shapes() -> None:
    """Shape 1 with one of two filled voxels found, then both; shape 2 with none, in a last batch of its own.

    A logit of 0 is a probability of .5, which is not above the threshold.
    """
    true = torch.stack([grid((0, 0, 0), (0, 0, 1)), grid((1, 1, 1))])
    logits = torch.full((4, 4, 4, 4), -3.0)
    logits[0, 0, 0, 0] = logits[1, 0, 0, 0] = logits[1, 0, 0, 1] = 0.1
    logits[0, 0, 0, 1] = 0.0
    pictures = torch.arange(4.0).view(2, 2, 1, 1, 1).expand(2, 2, 3, 1, 1)  # each names its logits

    def net(shown: torch.Tensor) -> torch.Tensor:
        return logits[shown[:, 0, 0, 0].long()]

    value, each, count = metric.mean_iou(net, [(pictures[:1], true[:1]), (pictures[1:], true[1:])])
    assert each.tolist() == [(1 / 2 + 1) / 2, 0.0]
    assert (value, count) == (3 / 8, 2)
    assert metric.by_class(each, np.array([5, 2])) == [0.0, 0.75]
    with pytest.raises(ValueError, match="no shapes"):
        metric.mean_iou(net, [])
    with pytest.raises(ValueError, match="diverged"):
        metric.mean_iou(lambda shown: net(shown) * float("nan"), [(pictures, true)])


# ---- network ---------------------------------------------------------------------------------------------------------


def net_of(hp: train.Settings) -> model.Reconstructor:
    sizes = (hp.image_size, hp.encoder_filters, hp.encoder_kernel, hp.hidden_sizes, hp.code_size)
    return model.Reconstructor(*sizes, hp.decoder_filters, hp.decoder_kernels, hp.batch_norm)


def test_parameter_counts() -> None:
    """The full network's, added up layer by layer; the small one has the same structure."""
    encoder = 25 * (3 * 64 + 64 * 128 + 128 * 256) + 64 + 128 + 256
    code = (8 * 8 * 256 + 1) * 1024 + 1025 * 1024 + 1025 * 512
    decoder = 513 * 512 * 64 + 64 * 512 * 256 + 256 + 125 * 256 * 96 + 96 + 216 * 96 + 1
    counted = [sum(p.numel() for p in net.parameters()) for net in (net_of(FULL), net_of(SMALL))]
    assert counted == [encoder + code + decoder, 2_563_793]
    assert encoder + code + decoder == 47_673_569
    kinds = [{type(part) for part in net_of(hp).modules()} for hp in (FULL, SMALL)]
    assert kinds[1] - kinds[0] == {torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d}


@pytest.mark.parametrize("kernel", [2, 3, 4, 5, 6])
def test_every_kernel_doubles_the_side(kernel: int) -> None:
    net = model.Reconstructor(16, (4,), 3, (), 8, (4, 4, 4), (kernel, 4, 4))
    net.start_from(0.05)
    with torch.no_grad():
        net.decoder[-1].weight.zero_()
    out = net(torch.zeros(2, 3, 16, 16))
    assert out.shape == (2, 32, 32, 32)
    assert out.sigmoid().mean().item() == pytest.approx(0.05)


def test_smooth_iou_of_sure_voxels_is_the_iou() -> None:
    true = torch.stack([grid((0, 0, 0), (1, 1, 1)), grid((2, 2, 2))])
    other = torch.stack([grid((0, 0, 0), (3, 3, 3)), grid((2, 2, 2))])
    found = model.smooth_iou(200.0 * other.float() - 100, true.float())
    assert found.tolist() == pytest.approx([1 / 3, 1], abs=1e-5)


def test_the_average_of_weights_by_hand() -> None:
    """Keeps 2/11 of itself at the first step and 3/12 at the second, as long as that is less than its decay."""
    net = net_of(SMALL)
    average = model.Average(net, 0.2)
    bias = net.decoder[-1].bias
    start = bias.item()
    for value in (1.0, 2.0):
        with torch.no_grad():
            bias.fill_(value)
            net.encoder[1].running_mean.fill_(value)
        average.update(net)
    first = 1 - 2 / 11
    assert average.net.decoder[-1].bias.item() == pytest.approx(0.2 * (first + 2 / 11 * start) + 0.8 * 2, abs=1e-6)
    assert average.net.encoder[1].running_mean.tolist() == pytest.approx([0.2 * first + 0.8 * 2] * 32, abs=1e-6)
    assert not average.net.training
    plain = model.Average(net, 0.0)
    with torch.no_grad():
        bias.fill_(5.0)
    plain.update(net)
    assert all(
        torch.equal(a, b) for a, b in zip(net.state_dict().values(), plain.net.state_dict().values(), strict=True)
    )
    with pytest.raises(ValueError, match="from 0 to below 1"):
        model.Average(net, 1.0)


def test_the_learning_rate_rises_stays_and_falls_to_zero() -> None:
    hp = train.Settings(
        opt_base_learning_rate=1.0, opt_learning_rate_warmup_steps=4, lr_decay_start_epoch=2.0, max_epochs=4
    )
    rates = [train.learning_rate(hp, step, 10) for step in (1, 4, 5, 21, 31, 41)]
    assert rates == pytest.approx([0.25, 1, 1, 1, 0.5, 0])


# ---- objects and pictures --------------------------------------------------------------------------------------------


def test_objects_are_what_they_say() -> None:
    voxels, classes = shapes.objects(120, 9)
    assert np.array_equal(voxels[:7], shapes.objects(7, 9)[0])
    assert not np.array_equal(voxels[:6], shapes.objects(6, 10)[0])
    assert len({shape.tobytes() for shape in voxels}) == 120
    assert np.bincount(classes).tolist() == [20] * 6
    filled = voxels.mean((1, 2, 3))
    assert 0.005 < filled.min() < filled.max() < 0.3


def test_a_picture_shows_what_is_nearest_from_its_side() -> None:
    """One voxel in front of another, one to the right and one above: seen from the front, all but the hidden one."""
    voxels = np.zeros((1, 32, 32, 32), bool)
    voxels[0, 16, 4, 16] = voxels[0, 16, 20, 16] = voxels[0, 24, 16, 16] = voxels[0, 16, 16, 24] = True
    front = render.camera(np.zeros((1, 1)), np.zeros((1, 1)))
    assert np.allclose(front[0, 0], [[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    seen = render.shades(voxels, front, front[:, :, 2], 32)[0, 0]
    assert sorted(zip(*np.nonzero(seen), strict=True)) == [(8, 16), (15, 16), (15, 23)]
    assert seen[15, 16] == 250  # the light comes from the camera
    dark = render.shades(voxels, front, -front[:, :, 2], 32)[0, 0]
    assert dark[15, 16] == 90
    right = render.camera(np.full((1, 1), 90.0), np.zeros((1, 1)))
    seen = render.shades(voxels, right, right[:, :, 2], 32)[0, 0]
    assert sorted(zip(*np.nonzero(seen), strict=True)) == [(8, 16), (15, 6), (15, 16), (15, 19)]


def test_pictures_change_with_the_view_only_as_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    voxels, _ = shapes.objects(70, 3)
    angles = []
    monkeypatch.setattr(render, "camera", lambda *drawn: angles.append(drawn) or CAMERA(*drawn))
    pictures = render.photos(voxels, 2, 32, 3)
    assert np.array_equal(pictures[:5], render.photos(voxels[:5], 2, 32, 3))
    assert (pictures[:, 0] != pictures[:, 1]).any((1, 2, 3)).all()
    one = baselines.cut_out(torch.from_numpy(pictures[:, 0]).permute(0, 3, 1, 2) / 127.5 - 1)
    share = (one > 0).float().mean(1)
    assert 0.02 < share.min() < share.max() < 0.7
    for drawn, (low, high) in zip(angles[0], (render.AZIMUTH, render.ELEVATION), strict=True):
        assert low <= drawn.min() < low + 3 and high - 3 < drawn.max() <= high


def made_part(count: int, seed: int = 5) -> data.Part:
    voxels, classes = shapes.objects(count, seed)
    bits = np.packbits(voxels.reshape(count, -1), axis=1)
    return data.Part(data.Held(render.photos(voxels, 4, 32, seed)), bits, classes, CPU)


def test_one_pass_shows_every_object_once_with_its_voxels() -> None:
    torch.manual_seed(0)
    part = made_part(11)
    true = part.voxels(np.arange(11))
    assert np.array_equal(true.numpy(), shapes.objects(11, 5)[0])
    batches = list(part.batches(4, mirrored=False))
    assert [len(pictures) for pictures, _ in batches] == [4, 4, 3]
    known = torch.from_numpy(part.pictures.pictures).permute(0, 1, 4, 2, 3).float() / 127.5 - 1
    shown = []
    for picture, voxels in zip(*(torch.cat(sides) for sides in zip(*batches, strict=True)), strict=True):
        (row,) = [row for row in range(11) if torch.equal(voxels.bool(), true[row])]
        assert any(torch.equal(picture, view) for view in known[row])
        shown.append(row)
    assert sorted(shown) == list(range(11))


def test_a_mirror_turns_picture_and_voxels_alike() -> None:
    """A mirrored object's picture from the mirrored side is the mirrored picture, but for rounding of half pixels."""
    voxels, _ = shapes.objects(6, 1)
    angles = np.full((6, 1), 40.0), np.full((6, 1), 20.0)
    first, other = render.camera(*angles), render.camera(-angles[0], angles[1])
    plain = render.shades(voxels, first, first[:, :, 2], 32)
    turned = render.shades(voxels[:, ::-1], other, other[:, :, 2], 32)[..., ::-1]
    assert ((plain > 0) == (turned > 0)).mean() > 0.97
    torch.manual_seed(0)
    part = made_part(40)
    true = part.voxels(np.arange(40)).float()
    turned_voxels = sum(
        not any(torch.equal(grid_, known) for known in true)
        for _, batch in part.batches(40, mirrored=True)
        for grid_ in batch
    )
    assert 3 < turned_voxels <= 28  # objects that are their own mirror image don't show it


@pytest.mark.parametrize("size", [1, 3, 7])
def test_the_batch_size_of_an_evaluation_changes_nothing(size: int) -> None:
    torch.manual_seed(0)
    part, net = made_part(7), net_of(SMALL).eval()
    value, each, count = metric.mean_iou(net, part.evaluation(size, 4))
    whole, _, _ = metric.mean_iou(net, part.evaluation(7, 4))
    assert count == len(each) == 7
    assert value == pytest.approx(whole, abs=1e-3)


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_baselines_on_what_they_have_seen() -> None:
    """Judged on training objects: the nearest neighbour is the object itself, and the class mean beats the mean."""
    part = made_part(30)
    found = baselines.scores(part, part, 4)
    assert found["pixel_neighbour"] == found["cut_out_neighbours_1"] == 1
    assert 0 < found["mean_shape"] < found["oracle_class_mean"] < 1
    assert found["linear"] > found["mean_shape"]


def test_neighbours_vote_and_see_mirrors() -> None:
    """The second half of the known pictures stands for objects seen in a mirror."""
    voxels = torch.stack([grid((0, 0, 0), (1, 1, 1)), grid((0, 0, 0), (2, 2, 2)), grid((0, 0, 0))])
    cut = torch.tensor([[1.0, 0.0]])
    known = torch.tensor([[1.0, 0.1], [1.0, 0.2], [0.9, 0.3], [0.0, 9.0], [0.0, 9.0], [0.0, 9.0]])
    found = baselines.by_neighbours(cut, known, voxels, torch.arange(3))
    assert found["1"][0].equal(voxels[0])
    assert found["3"][0].equal(grid((0, 0, 0)))  # one of three is not more than the share
    assert found["weighted"][0].equal(voxels[0])
    mirrored = baselines.by_neighbours(cut, known.roll(3, 0), voxels, torch.arange(3))
    assert mirrored["1"][0].equal(grid((3, 0, 0), (2, 1, 1)))
    picture = torch.rand(2, 3, 3)
    assert baselines.mirror(picture.flatten(1), 3).view(2, 3, 3).equal(picture[:, :, [2, 1, 0]])


# ---- runs ------------------------------------------------------------------------------------------------------------


def run_smoke(log: Path, *flags: str) -> list[dict]:
    """The events of a smoke run, in this process."""
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def values_of_metadata(log: list[dict], key: str, name: str) -> list:
    return [event["metadata"][name] for event in log if event["key"] == key]


def test_a_step_of_the_full_network_moves_every_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a made-up ShapeNet in the real layout, at the full width, depth and picture size."""
    made_up_shapenet(tmp_path, monkeypatch)
    found = shapenet.read(tmp_path, FULL.image_size)
    part = data.Part(found.renderings.part(np.arange(2)), found.bits[:2], found.classes[:2], CPU)
    net = net_of(FULL)
    net.start_from(FULL.filled_share)
    before = [p.detach().clone() for p in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), 100.0)
    ((pictures, voxels),) = part.batches(2, FULL.mirrored)
    torch.nn.functional.binary_cross_entropy_with_logits(net(pictures), voxels).backward()
    optimizer.step()
    assert all(not torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True))


@NEEDS_FACTS
def test_a_smoke_run_its_log_and_its_samples(tmp_path: Path) -> None:
    sheets = ["--samples", str(tmp_path / "sheets")] if importlib.util.find_spec("PIL") else []
    log = run_smoke(tmp_path / "a.txt", "--seed", "7", *sheets)
    assert values(log, "submission_benchmark") == [HERE.name]
    assert (values(log, "train_samples"), values(log, "eval_samples")) == ([48], [12])
    assert [len(each) for each in values(log, "mean_iou_by_class")] == [6, 6]
    epochs = [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"]
    assert epochs == [48, 48]
    named = {event["metadata"]["name"] for event in log if event["key"] == "baseline"}
    assert {"mean_shape", "pixel_neighbour", "cut_out_neighbours_weighted", "linear", "oracle_class_mean"} <= named
    if sheets:
        (sheet,) = (tmp_path / "sheets").iterdir()
        assert struct.unpack(">II", sheet.read_bytes()[16:24]) == (12 * 96, 3 * 96)
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "a.txt")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


@NEEDS_FACTS
def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed) for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("mean_iou_by_class", "eval_accuracy", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    for key in ("baseline", "data_source"):  # the objects know no seed
        assert values(first, key) == values(other, key)
    assert values(first, "eval_accuracy") != values(other, "eval_accuracy")


@NEEDS_FACTS
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "give --data-dir"),
        (["--data-dir", "."], "expected 43783 binvox files, found 0"),
        (["--held-out", "test", "--division", "open"], "--held-out is evaluation or validation"),
        (["--held-out", "validation"], "closed division: held_out is"),
        (["--eval-views", "1"], "closed division: eval_views is"),
        (["--filled-share", "1", "--division", "open"], "--filled-share must lie between"),
        (["--decoder-kernels", "4", "--division", "open"], "three widths and three kernels"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *flags])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(not (HERE / "evidence").is_dir(), reason="no evidence yet")
def test_the_readme_shows_the_evidence() -> None:
    """Every log's seed, epochs and last values are a row of the table."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    logs = [events(path) for path in sorted((HERE / "evidence" / "embedded").glob("result_*.txt"))]
    assert len(logs) == 10
    for log in logs:
        quality = values(log, "eval_accuracy")
        (stop,) = [event["metadata"]["status"] for event in log if event["key"] == "run_stop"]
        last = values_of_metadata(log, "eval_accuracy", "epoch_num")[-1]
        epochs = last if stop == "success" else f"not in {last}"
        cpu_s = values(log, "cpu_time_ms")[0] / 1000
        assert (
            f"| {values(log, 'seed')[0]} | {epochs} | {quality[-2]:.4f} | {quality[-1]:.4f} | {cpu_s:.0f} |" in readme
        )
