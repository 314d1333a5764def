"""Image compression: MS-SSIM and bits by hand, the codec, a step of the full one, and short runs.

All pictures here are made up.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest
import torch
from torch import Tensor

from compliance import check
from reference.common.errors import SetupError

from . import digits, imagenet, metric, model, train
from .test_image_compression_data import made_up_imagenet

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FULL, SMALL = train.PROFILES["full"], train.PROFILES["embedded"]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


# ---- metric ----------------------------------------------------------------------------------------------------------


def test_ms_ssim_of_flat_pictures_by_hand() -> None:
    """Two flat pictures: structure is 1 on every scale, so that only the coarsest luminance counts, to its weight."""
    luminance = (2 * 100 * 50 + 2.55**2) / (100**2 + 50**2 + 2.55**2)
    first, second = torch.full((1, 1, 176, 176), 100.0), torch.full((1, 1, 176, 176), 50.0)
    assert metric.ms_ssim(first, second).item() == pytest.approx(luminance**0.1333, rel=1e-9)
    assert metric.ms_ssim(first, first).item() == pytest.approx(1)


def test_ms_ssim_falls_with_noise_and_is_the_mean_over_channels() -> None:
    smooth = 255 * torch.rand(1, 3, 22, 22, generator=torch.Generator().manual_seed(1))
    true = torch.nn.functional.interpolate(smooth, size=176, mode="bicubic")
    grain = torch.randn(true.shape, generator=torch.Generator().manual_seed(2))
    values = [metric.ms_ssim(true, true + strength * grain).item() for strength in (0, 5, 20, 60)]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(1)
    assert values[3] < 0.9
    each = [metric.ms_ssim(true[:, k : k + 1], (true + 20 * grain)[:, k : k + 1]).item() for k in range(3)]
    assert values[2] == pytest.approx(sum(each) / 3)


def test_ms_ssim_of_an_inverted_picture_is_zero_not_a_complex_number() -> None:
    true = noise(1, 1, 176, 176).double()
    assert metric.ms_ssim(true, 255 - true).item() == 0


def test_five_scales_need_176_pixels() -> None:
    assert metric.SMALLEST == 176
    with pytest.raises(ValueError, match="176 pixels a side"):
        metric.ms_ssim(torch.zeros(1, 1, 175, 400), torch.zeros(1, 1, 175, 400))


def test_the_window_is_a_gaussian_inside_the_picture() -> None:
    spot = torch.zeros(1, 2, 21, 21)
    spot[:, :, 10, 10] = 1
    seen = metric.blurred(spot)
    assert seen.shape == (1, 2, 11, 11)
    assert seen.sum().item() == pytest.approx(2)
    assert (seen[0, 0, 5, 7] / seen[0, 0, 5, 5]).item() == pytest.approx(math.exp(-4 / 4.5), rel=1e-5)


def test_pages_are_in_reading_order() -> None:
    numbers = torch.arange(12).view(12, 1, 1, 1).expand(12, 1, 2, 2)
    pages = metric.assembled(numbers, (2, 3))
    assert pages.shape == (2, 1, 4, 6)
    assert pages[:, 0, ::2, ::2].tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]
    with pytest.raises(ValueError, match="don't fill pages"):
        metric.assembled(numbers[:5], (2, 3))


def test_psnr_is_that_of_the_mean_error() -> None:
    scores = metric.Scores()
    true = torch.zeros(4, 1, 88, 88, dtype=torch.uint8)
    wrong = true.clone()
    wrong[0] += 10  # one picture of four: mean squared error 25
    scores.add(true[:3], wrong[:3], (2, 2))
    with pytest.raises(ValueError, match="3 pictures fill no page"):
        scores.ms_ssim()
    scores.add(true[3:], wrong[3:], (2, 2))
    assert scores.psnr() == pytest.approx(10 * math.log10(255**2 / 25))
    assert (scores.pictures, scores.pages) == (4, 1)
    assert 0 < scores.ms_ssim() < 1


def test_bits_are_those_of_the_stored_bytes() -> None:
    bits = noise(3, 2, 5, 1, 1) > 127
    stored = metric.packed(bits)
    assert [len(row) for row in stored] == [2, 2, 2]  # ten bits take two bytes
    assert torch.equal(metric.unpacked(stored, (2, 5, 1, 1)), bits)


def test_an_evaluation_decodes_from_the_bytes_alone_whatever_the_batch() -> None:
    torch.manual_seed(0)
    codec = train.build(SMALL).eval()
    true = torch.from_numpy(digits.drawn(144)[0])
    found = {}
    for size in (144, 100, 7):
        scores = metric.evaluate(codec, 2, true.split(size), (12, 12))
        assert [score.bits_per_pixel() for score in scores] == [32 / 256, 64 / 256]
        assert [score.pictures for score in scores] == [144, 144]
        found[size] = [score.ms_ssim() for score in scores]
    assert found[100] == pytest.approx(found[144], abs=1e-3)  # a bit may turn where sums of other order do
    assert found[7] == pytest.approx(found[144], abs=1e-3)
    kept, codec.encode = codec.encode, lambda x, steps: torch.zeros_like(kept(x, steps))
    lost = metric.evaluate(codec, 2, [true], (12, 12))
    assert lost[-1].psnr() != pytest.approx(scores[-1].psnr())  # the picture does come through the bits
    codec.encode, codec.decode = kept, lambda bits: [torch.full((144, 1, 16, 16), math.nan)]
    with pytest.raises(ValueError, match="diverged"):
        metric.evaluate(codec, 2, [true], (12, 12))


# ---- codec -----------------------------------------------------------------------------------------------------------


def test_parameter_counts() -> None:
    """The paper's codec, 35.46 million, layer by layer; the embedded one has the same structure."""

    def lstm(inputs: int, outputs: int, kernel: int, shortcut: int = 0) -> int:
        return 4 * outputs * (9 * inputs + kernel**2 * outputs) + shortcut * inputs * outputs

    encoder = 3 * 64 * 9 + lstm(64, 256, 1) + lstm(256, 512, 1) + lstm(512, 512, 1)
    decoder = 32 * 512 + lstm(512, 512, 1) + lstm(128, 512, 1) + lstm(128, 256, 3) + lstm(64, 128, 3) + 32 * 3
    assert encoder + 512 * 32 + decoder == 35_456_800
    assert sum(p.numel() for p in train.build(FULL).parameters()) == 35_456_800
    small = 48 * 9 + lstm(48, 64, 1, 4) + lstm(64, 96, 1, 4) + 96 * 8
    small += 8 * 96 + lstm(96, 96, 1, 1) + lstm(24, 96, 1, 1) + lstm(24, 32, 1, 1) + 8
    assert small == 956_344
    assert sum(p.numel() for p in train.build(SMALL).parameters()) == small


def test_a_step_of_the_lstm_by_hand() -> None:
    layer = model.ConvLSTM(1, 1, 1, 1, shortcut=False)
    with torch.no_grad():
        layer.seen.weight.zero_()
        layer.seen.weight[:, 0, 1, 1] = torch.tensor([0.5, -1.0, 2.0, 1.5])  # into, forget, out, value
        layer.kept.weight[:, 0, 0, 0] = torch.tensor([0.1, 0.2, 0.3, 0.4])
    x = torch.full((1, 1, 1, 1), 0.7)
    first, state = layer(x, None)
    second, _ = layer(x, state)

    def s(value: float) -> float:
        return 1 / (1 + math.exp(-value))

    cell = s(0.35) * math.tanh(1.05)
    hidden = s(1.4) * math.tanh(cell)
    assert first.item() == pytest.approx(hidden, rel=1e-5)
    cell = s(0.35 + 0.1 * hidden) * math.tanh(1.05 + 0.4 * hidden) + s(-0.7 + 0.2 * hidden) * cell
    assert second.item() == pytest.approx(s(1.4 + 0.3 * hidden) * math.tanh(cell), rel=1e-5)


def test_bits_are_signs_with_a_straight_gradient_and_coins_in_training() -> None:
    binariser = model.Binariser(1, 1, stochastic=True)
    torch.nn.init.constant_(binariser.project.weight, 1.0)
    x = torch.full((1, 1, 100, 100), math.atanh(0.5), requires_grad=True)
    torch.manual_seed(0)
    drawn = binariser(x)
    assert set(drawn.unique().tolist()) == {-1.0, 1.0}
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.03)
    drawn.sum().backward()
    assert x.grad.unique().tolist() == pytest.approx([1 - 0.5**2])  # of tanh
    assert (binariser.eval()(x) == 1).all()
    assert (binariser(-x) == -1).all()


@pytest.mark.parametrize("hp", [SMALL, train.Settings(**{**vars(FULL), "encoder_widths": (8, 8, 8, 8)})])
def test_decoding_the_bits_gives_what_the_encoder_saw(hp: train.Settings) -> None:
    torch.manual_seed(0)
    codec = train.build(hp).eval()
    side = 2 * codec.cell
    pictures = torch.rand(2, hp.channels, side, side) - 0.5
    with torch.no_grad():
        bits = codec.encode(pictures, 3)
        assert bits.shape == (2, 3, hp.bits_per_cell, 2, 2)
        assert bits.dtype == torch.bool
        for inside, outside in zip(codec(pictures, 3), codec.decode(bits), strict=True):
            torch.testing.assert_close(inside, outside)
        torch.testing.assert_close(codec.decode(bits[:, :2])[-1], codec(pictures, 3)[1])  # a beginning can be decoded


def test_each_step_sees_what_is_still_missing() -> None:
    """A codec whose decoder always adds 0.1: the stem must be shown the picture, then less and less of it."""
    codec = train.build(SMALL).eval()
    shown: list[Tensor] = []
    codec.stem.register_forward_hook(lambda _, seen, __: shown.append(seen[0].detach()))
    codec._decoded = lambda bits, states: torch.full((1, 1, 16, 16), 0.1)  # type: ignore[method-assign]
    pictures = torch.rand(1, 1, 16, 16) - 0.5
    decoded = codec(pictures, 3)
    for step in range(3):
        torch.testing.assert_close(shown[step], pictures - 0.1 * step)
        torch.testing.assert_close(decoded[step], torch.full_like(pictures, 0.1 * (step + 1)))


def test_training_makes_later_steps_better() -> None:
    torch.manual_seed(0)
    hp = train.Settings(**{**vars(SMALL), "encoder_widths": (16, 16, 32), "decoder_widths": (32, 32, 8)})
    codec = train.build(hp)
    optimizer = torch.optim.Adam(codec.parameters(), 4e-3)
    true = torch.from_numpy(digits.drawn(32)[0]).float() / 255 - 0.5
    for _ in range(50):
        loss = sum((true - picture).square().mean() for picture in codec(true, 3))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(codec.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        errors = [(true - picture).square().mean().item() for picture in codec.eval()(true, 3)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.8 * true.var(dim=0).mean().item()  # better than the mean picture


def test_settings_that_make_no_codec(capsys: pytest.CaptureFixture[str]) -> None:
    for change, message in (
        ({"crop_size": 20}, "no multiple of a cell's 8 pixels"),
        ({"decoder_widths": (64, 64)}, "need the same length"),
        ({"decoder_widths": (64, 64, 18)}, "multiples of 4"),
        ({"loss": "cubed"}, "absolute or squared"),
    ):
        with pytest.raises(SetupError, match=message):
            train.build(train.Settings(**{**vars(SMALL), **change}))


def test_the_average_follows() -> None:
    net, average = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    for module, value in ((net, 1.0), (average, 0.0)):
        torch.nn.init.constant_(module.weight, value)
    model.follow(average, net, 0.75)
    assert average.weight.item() == pytest.approx(0.25)
    model.follow(average, net, 0.0)
    assert average.weight.item() == 1.0


def test_the_learning_rate() -> None:
    hp = train.Settings(opt_base_learning_rate=1.0, opt_learning_rate_warmup_steps=4)
    rates = [train.learning_rate(hp, step, epoch) for step, epoch in ((1, 1), (4, 1), (9, 3), (9, 4), (9, 11), (9, 12))]
    assert rates == [0.25, 1, 1, 0.5, 0.25, 0.25]


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_a_step_of_the_full_codec_moves_every_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through train.py on a made-up ImageNet, at the full width; two coding steps, so that every kernel is in use."""
    made_up_imagenet(tmp_path / "data", monkeypatch)
    monkeypatch.setattr(imagenet, "EVAL_SIDE", metric.SMALLEST)
    monkeypatch.setattr(imagenet, "EVAL_EVERY", 4)
    monkeypatch.setattr(train, "naive_baselines", lambda run: {"none": 0.0})
    kept, build = {}, train.build

    def built(hp: train.Settings) -> model.Codec:
        codec = build(hp)
        kept[codec] = [p.detach().clone() for p in codec.parameters()]
        return codec

    monkeypatch.setattr(train, "build", built)
    flags = ["--profile", "full", "--data-dir", str(tmp_path / "data"), "--log", str(tmp_path / "log.txt")]
    train.main([*flags, "--device", "cpu", "--max-epochs", "1", "--coding-steps", "2", "--global-batch-size", "6"])
    codec, before = list(kept.items())[-1]
    assert all(not torch.equal(old, p) for old, p in zip(before, codec.parameters(), strict=True))
    log = events(tmp_path / "log.txt")
    assert values(log, "bits_per_pixel") == [0.25]
    assert values(log, "eval_samples") == [1]


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
    assert (values(log, "train_samples"), values(log, "eval_samples")) == ([320], [144])
    assert values(log, "bits_per_pixel") == [0.25, 0.25]
    assert values(log, "eval_accuracy") == [steps[-1] for steps in values(log, "ms_ssim_by_step")]
    (sheet,) = (tmp_path / "sheets").iterdir()
    assert struct.unpack(">II", sheet.read_bytes()[16:24]) == (12 * 64, 3 * 64)
    assert check.main([str(tmp_path / "a.txt"), "--partial"]) == 0


def test_every_evaluation_of_the_evidence_gets_better_with_each_step() -> None:
    logs = sorted((HERE / "evidence" / "embedded").glob("result_*.txt"))
    for log in logs:
        steps = values(events(log), "ms_ssim_by_step")
        assert steps, log
        assert all(before < after for step in steps for before, after in zip(step, step[1:], strict=False)), log


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed, "--max-epochs", "1")
        for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("psnr", "eval_accuracy", "ms_ssim_by_step", "data_source"):
        assert values(first, key) == values(second, key)
    assert values(first, "data_source") == values(other, "data_source")
    assert values(first, "psnr") != values(other, "psnr")


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, message in (
        ([], "give --data-dir"),
        (["--data-dir", str(tmp_path)], "expected 1,281,167 pictures (*.JPEG), found 0"),
        (["--held-out", "test", "--division", "open"], "--held-out is evaluation or validation"),
        (["--held-out", "validation"], "closed division: held_out is"),
    ):
        with pytest.raises(SystemExit) as stopped:
            train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *flags])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
