"""Video prediction: metric by hand, CDNA, made clips, baselines, and short runs through train.py.

All clips here are made up.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from . import baselines, data, metric, model, pushing, robot, train
from .test_video_prediction_robot import made_up_robot

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FULL, SMALL = train.PROFILES["full"], train.PROFILES["embedded"]
CPU = torch.device("cpu")
NEEDS_FACTS = pytest.mark.skipif(
    not (HERE / "benchmark.toml").is_file(),
    reason="no benchmark.toml: no evidence yet for a target of the embedded profile (README.md)",
)


# ---- metric ----------------------------------------------------------------------------------------------------------


def test_errors_by_hand() -> None:
    """Two clips of two steps, frames of one pixel. The first clip moves in both steps, the other one in none."""
    last = torch.tensor([0.0, 0.5]).view(2, 1, 1, 1).expand(2, 3, 1, 1)
    true = torch.tensor([[1.0, 0.2], [0.5, 0.55]]).view(2, 2, 1, 1, 1).expand(2, 2, 3, 1, 1)
    predicted = torch.tensor([[0.5, 0.2], [0.5, 0.65]]).view(2, 2, 1, 1, 1).expand(2, 2, 3, 1, 1)
    errors = metric.total([(predicted[:1], true[:1], last[:1]), (predicted[1:], true[1:], last[1:])])
    assert errors.clips == 2
    assert errors.mse_by_step() == pytest.approx([3 * 0.25 / 2, 3 * 0.01 / 2])
    assert errors.mse_per_frame() == pytest.approx(3 * 0.26 / 4)
    assert errors.psnr() == pytest.approx(-10 * math.log10(0.26 / 4))
    assert errors.moving_pixels == 2
    assert errors.moving_mse() == pytest.approx(0.25 / 2)


def test_nothing_to_judge_and_values_that_are_no_numbers() -> None:
    with pytest.raises(ValueError, match="no clips"):
        metric.Errors().mse_per_frame()
    frame = torch.zeros(1, 1, 3, 2, 2)
    with pytest.raises(ValueError, match="diverged"):
        metric.Errors().add(frame * float("nan"), frame, frame[:, 0])
    errors = metric.total([(frame, frame, frame[:, 0])])
    assert (errors.moving_mse(), errors.psnr()) == (0.0, 100.0)


# ---- network ---------------------------------------------------------------------------------------------------------


def net_of(name: str) -> model.CDNA:
    hp = train.PROFILES[name]
    sizes = (hp.image_size, *data.SIZES[name], hp.filters, hp.lstms, hp.lstm_filters, hp.decoder_lstms)
    return model.CDNA(*sizes, hp.lstm_kernel, hp.cdna_kernels, hp.cdna_kernel_size)


def lstm(channels: int, width: int, kernel: int) -> int:
    return (channels + width) * 4 * width * kernel**2 + 4 * width + 2 * width


def conv(channels: int, width: int, kernel: int) -> int:
    return channels * width * kernel**2 + width


def test_parameter_counts() -> None:
    """The full network's, added up layer by layer; the small one has the same parts."""
    down = conv(3, 32, 5) + conv(32, 32, 3) + conv(64, 64, 3) + 2 * (32 + 32 + 64) + conv(64 + 7, 64, 1)
    cells = lstm(32, 32, 5) * 2 + lstm(32, 64, 5) + lstm(64, 64, 5) + lstm(64, 128, 5)
    up = conv(128, 128, 4) + lstm(128, 64, 5) + conv(64 + 32, 96, 4) + lstm(96, 32, 5) + conv(32 + 32, 32, 4)
    up += 2 * (128 + 96 + 32)
    heads = conv(32, 3, 1) + conv(32, 12, 1) + (128 * 8 * 8 + 1) * 250 + 7 * 250 + 8 * 3
    counted = [sum(p.numel() for p in net_of(name).parameters()) for name in ("full", "embedded")]
    assert counted == [down + cells + up + heads, 234_267]
    assert counted[0] == 8_488_823
    kinds = [{type(part) for part in net_of(name).modules()} for name in ("full", "embedded")]
    assert kinds[1] - kinds[0] <= {torch.nn.Identity}


def test_a_kernel_moves_the_picture() -> None:
    """All weight one place right of the middle: the picture moves left, and 0 comes in; the middle keeps it."""
    frame = torch.rand(2, 3, 6, 6)
    kernels = torch.zeros(2, 2, 25)
    kernels[:, 0, 12] = kernels[:, 1, 13] = 1
    kept, left = model.move(frame, kernels).unbind(1)
    assert torch.allclose(kept, frame)
    assert torch.allclose(left[..., :5], frame[..., 1:])
    assert (left[..., 5] == 0).all()


def test_a_frame_is_made_of_the_layers_only() -> None:
    """Masks sum to 1, so that a frame stays within 0..1; at the start it is near to the last one."""
    torch.manual_seed(0)
    net = net_of("embedded")
    frame = torch.rand(2, 3, 24, 24)
    made, state, memory = net(frame, torch.zeros(2, 2), torch.zeros(2, 2), None)
    assert made.shape == frame.shape
    assert made.min() >= 0 and made.max() <= 1
    assert state.shape == (2, 2)
    assert len(memory) == 2
    smooth = torch.full((1, 3, 24, 24), 0.5)
    made, _, _ = net(smooth, torch.zeros(1, 2), torch.zeros(1, 2), None)
    assert (made - smooth)[..., 4:-4, 4:-4].abs().max() < 0.1


class Counter:
    """A network that adds 1 to the frame and notes what it was fed."""

    def __init__(self) -> None:
        self.fed: list[list[float]] = []
        self.actions: list[float] = []

    def __call__(self, frame, action, state, memory):
        self.fed.append(frame[:, 0, 0, 0].tolist())
        self.actions.append(action[0, 0].item())
        return frame + 1, state + action, memory


def test_a_rollout_sees_the_context_and_then_its_own_frames() -> None:
    frames = 10.0 * torch.arange(6.0).view(1, 6, 1, 1, 1).expand(2, 6, 3, 1, 1)
    actions = torch.arange(6.0).view(1, 6, 1).expand(2, 6, 1)
    net = Counter()
    made, states = model.rollout(net, frames, actions, torch.zeros(2, 1, 1), 2, 3)
    assert [fed[0] for fed in net.fed] == [0, 10, 11, 12]
    assert net.actions == [0, 1, 2, 3]
    assert made[0, :, 0, 0, 0].tolist() == [11, 12, 13]
    assert states[0, :, 0].tolist() == [1, 3, 6]
    fed_true = Counter()
    model.rollout(fed_true, frames, actions, torch.zeros(2, 1, 1), 2, 3, true_share=1.0)
    assert [fed[0] for fed in fed_true.fed] == [0, 10, 20, 30]
    torch.manual_seed(0)
    mixed = Counter()
    many = frames[:1].expand(400, -1, -1, -1, -1)
    model.rollout(mixed, many, actions[:1].expand(400, -1, -1), torch.zeros(400, 1, 1), 2, 2, true_share=0.25)
    assert 0.18 < sum(value == 20 for value in mixed.fed[2]) / 400 < 0.32


def test_schedules() -> None:
    hp = train.Settings(
        opt_base_learning_rate=1.0,
        opt_learning_rate_warmup_steps=4,
        lr_decay_start_epoch=2.0,
        max_epochs=4,
        first_horizon=2,
        full_horizon_epoch=2.0,
    )
    rates = [train.learning_rate(hp, step, 10) for step in (1, 4, 5, 21, 31, 41)]
    assert rates == pytest.approx([0.25, 1, 1, 1, 0.5, 0])
    assert [train.horizon(hp, step, 10) for step in (1, 4, 20, 21, 99)] == [2, 3, 8, 8, 8]
    assert {train.horizon(FULL, step, 10) for step in (1, 2, 99)} == {8}
    assert train.true_share(900.0, 1) == pytest.approx(900 / 901)
    assert train.true_share(10.0, 1 + round(10 * math.log(10))) == pytest.approx(0.5, abs=0.01)
    assert train.true_share(1.0, 10**9) == pytest.approx(0)


# ---- clips -----------------------------------------------------------------------------------------------------------


def test_clips_are_what_they_say() -> None:
    clips = pushing.clips(60, 10, 32, 9)
    again = pushing.clips(5, 10, 32, 9)
    assert np.array_equal(clips.frames[:5], again.frames)
    assert not np.array_equal(again.frames, pushing.clips(5, 10, 32, 10).frames)
    assert clips.touched.mean() > 0.7
    # the gripper is where the state says: the frame is white there
    at = ((clips.states + 1) / 2 * 32).astype(int)
    rows, steps = np.mgrid[:60, :10]
    assert (clips.frames[rows, steps, at[..., 1], at[..., 0]] == 255).all()
    # actions lead from one state to the next, but for walls
    led = np.clip(
        clips.states[:, :-1] + pushing.UNIT * clips.actions[:, :-1], -1 + 2 * pushing.GRIPPER, 1 - 2 * pushing.GRIPPER
    )
    assert np.abs(led - clips.states[:, 1:]).max() < 1e-5


def test_a_push_goes_along_the_line_of_centres_and_stops_at_a_wall() -> None:
    at = np.array([[[0.3, 0.5], [0.55, 0.5], [0.85, 0.5]]])
    radius = np.array([[pushing.GRIPPER, 0.1, 0.1]])
    after = pushing.moved(at, radius, np.array([[0.1, 0.0]]))
    assert np.allclose(after[0], [[0.4, 0.5], [0.5 + pushing.GRIPPER, 0.5], [0.85, 0.5]])
    far = pushing.moved(at, radius, np.array([[-0.5, 0.0]]))
    assert np.allclose(far[0, 0], [pushing.GRIPPER, 0.5])
    assert np.allclose(far[0, 1:], at[0, 1:])
    for _ in range(5):
        after = pushing.moved(after, radius, np.array([[0.08, 0.0]]))
    assert after[0, 2, 0] == pytest.approx(0.9)


def made_part(count: int, seed: int = 5) -> data.Part:
    return data.Part(data.Held(pushing.clips(count, 10, SMALL.image_size, seed)), CPU)


def test_one_pass_shows_every_clip_once() -> None:
    torch.manual_seed(0)
    part = made_part(11)
    batches = list(part.batches(4, flipped=False))
    assert [len(frames) for frames, _, _ in batches] == [4, 4, 3]
    (known,) = (frames for frames, _, _ in part.evaluation(11))
    shown = torch.cat([frames for frames, _, _ in batches])
    assert sorted([torch.equal(clip, other) for other in known].index(True) for clip in shown) == list(range(11))


def test_a_turned_clip_has_turned_actions() -> None:
    torch.manual_seed(0)
    part = made_part(12)
    kept = part.store.clips.actions.copy()
    for frames, actions, states in part.batches(12, flipped=True):
        at = ((states + 1) / 2 * 24 - 0.5).round().long()
        for clip in range(12):
            for step in range(10):
                x, y = at[clip, step].tolist()
                assert frames[clip, step, :, y, x].min() == 1  # white: the gripper
        wall = 1 - 2 * pushing.GRIPPER
        led = (states[:, :-1] + pushing.UNIT * actions[:, :-1]).clamp(-wall, wall)
        assert (led - states[:, 1:]).abs().max() < 1e-5
        assert (actions.sign() != torch.from_numpy(kept).sign()).any()
    assert np.array_equal(part.store.clips.actions, kept)


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_baselines_by_hand() -> None:
    """One clip of frames of one colour: 0, .5, then 1 and .75 of one pixel's three values."""
    frames = torch.tensor([0.0, 0.5, 1.0, 0.75]).view(1, 4, 1, 1, 1).expand(1, 4, 3, 1, 1)
    found = baselines.scores(frames, torch.zeros(1, 4, 2), torch.zeros(1, 4, 2), 2, None)
    assert found["copy_last"] == pytest.approx(3 * (0.25 + 0.0625) / 2)
    assert found["mean_of_context"] == pytest.approx(3 * (0.75**2 + 0.5**2) / 2)
    assert found["linear_extrapolation"] == pytest.approx(3 * (0 + 0.0625) / 2)
    assert found["motionless_oracle"] == pytest.approx(3 * 0.125**2)


def test_the_gripper_moved_by_hand_is_right_where_nothing_is_pushed() -> None:
    clips = pushing.clips(150, 10, 24, 4)
    frames, actions, states = next(data.Part(data.Held(clips), CPU).evaluation(150))
    made = baselines.moved_gripper(frames[:, 1], states, pushing.UNIT * actions, 2, pushing.GRIPPER)
    errors = (made - frames[:, 2:]).square().sum((2, 3, 4)).mean(1)
    still = torch.from_numpy(~clips.touched)
    assert 2 <= still.sum() < 75
    assert errors[still].median() < 0.2 * errors[~still].median()
    scores = baselines.scores(frames, states, actions, 2, (pushing.GRIPPER, pushing.UNIT))
    assert errors.mean().item() == pytest.approx(scores["gripper_moved_by_hand"], rel=1e-4)
    assert scores["gripper_moved_by_hand"] < scores["motionless_oracle"] < scores["copy_last"]


# ---- runs ------------------------------------------------------------------------------------------------------------


def run_smoke(log: Path, *flags: str) -> list[dict]:
    """The events of a smoke run, in this process."""
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def test_other_actions_give_another_prediction() -> None:
    """Of the same frames; the first predicted frame is changed by the action before it, not by one that comes later."""
    torch.manual_seed(0)
    net, part = net_of("embedded"), made_part(6)
    ((plain, _, _),) = train.predictions(net, part.evaluation(6))
    ((swapped, _, _),) = train.predictions(net, part.evaluation(6), swapped=True)
    assert (plain - swapped).abs().amax((1, 2, 3, 4)).min() > 1e-3
    frames, actions, states = next(part.evaluation(6))
    later = actions.clone()
    later[:, 5] += 0.1
    ((changed, _, _),) = train.predictions(net, iter([(frames, later, states)]))
    assert torch.equal(changed[:, :4], plain[:, :4])
    assert not torch.equal(changed[:, 4], plain[:, 4])


def test_every_tensor_of_the_full_network_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step through the full network, on clips in the real layout. Two predicted frames: the weights are shared."""
    made_up_robot(tmp_path, monkeypatch)
    torch.manual_seed(0)
    records, _ = robot.part(tmp_path, "train", 64, 4)
    net = net_of("full")
    before = [p.detach().clone() for p in net.parameters()]
    optimizer = torch.optim.Adam(net.parameters(), FULL.opt_base_learning_rate)
    for frames, actions, states in data.Part(records, CPU).batches(3, FULL.flipped):
        made, followed = model.rollout(net, frames, actions, states, 2, 2)
        loss = (made - frames[:, 2:]).square().mean() + (followed - states[:, 2:]).square().mean()
        loss.backward()
    optimizer.step()
    still = [name for (name, p), old in zip(net.named_parameters(), before, strict=True) if torch.equal(p, old)]
    assert not still


@NEEDS_FACTS
def test_a_smoke_run_its_log_and_its_samples(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    log = run_smoke(tmp_path / "a.txt", "--seed", "7", "--samples", str(tmp_path / "clips"))
    assert values(log, "submission_benchmark") == [HERE.name]
    assert (values(log, "train_samples"), values(log, "eval_samples")) == ([16], [8])
    for quality, steps in zip(values(log, "eval_accuracy"), values(log, "mse_by_step"), strict=True):
        assert len(steps) == 8
        assert quality == pytest.approx(sum(steps) / 8)
    assert len(values(log, "psnr")) == len(values(log, "moving_psnr")) == 2
    assert len(values(log, "mse_with_swapped_actions")) == 1
    named = {event["metadata"]["name"] for event in log if event["key"] == "baseline"}
    assert {"copy_last", "motionless_oracle", "gripper_moved_by_hand"} <= named
    (clip,) = (tmp_path / "clips").iterdir()
    with image.open(clip) as opened:
        assert (opened.n_frames, opened.size) == (10, (6 * 96, 2 * 96))
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "a.txt")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


@NEEDS_FACTS
def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed) for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("mse_by_step", "eval_accuracy", "mse_with_swapped_actions", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    for key in ("baseline", "data_source"):  # the clips know no seed
        assert values(first, key) == values(other, key)
    assert values(first, "eval_accuracy") != values(other, "eval_accuracy")


@NEEDS_FACTS
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "give --data-dir"),
        (["--data-dir", "."], "expected 43264 clips in *.tfrecords, found 0"),
        (["--held-out", "test", "--division", "open"], "--held-out is evaluation or validation"),
        (["--held-out", "validation"], "closed division: held_out is"),
        (["--first-horizon", "9", "--division", "open"], "--first-horizon must be 1 to 8"),
        (["--lstms", "1", "--division", "open"], "need as many LSTM counts"),
        (["--cdna-kernel-size", "4", "--division", "open"], "kernels of odd sides"),
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
        quality, (swapped,) = values(log, "eval_accuracy"), values(log, "mse_with_swapped_actions")
        (stop,) = [event["metadata"]["status"] for event in log if event["key"] == "run_stop"]
        epochs = len(quality) if stop == "success" else f"not in {len(quality)}"
        row = f"| {values(log, 'seed')[0]} | {epochs} | {quality[-2]:.2f} | {quality[-1]:.2f} | {swapped:.1f} |"
        assert row in readme
