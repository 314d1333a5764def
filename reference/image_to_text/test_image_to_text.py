"""Image to text: perplexity and BLEU by hand, the network, the search, a step of the full one, and short runs.

All pictures and captions here are made up.
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

from . import data, metric, model, train, words
from .test_image_to_text_data import made_up_coco

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FULL, SMALL = train.PROFILES["full"], train.PROFILES["embedded"]


# ---- metric ----------------------------------------------------------------------------------------------------------


class Told:
    """Stands in for the network: the logits are given, one table of words for each token that is shown."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.shown = table, []

    def eval(self) -> None: ...

    def seen(self, pictures: Tensor) -> Tensor:
        return pictures

    def __call__(self, seen: Tensor, tokens: Tensor) -> Tensor:
        self.shown.append((seen, tokens))
        return self.table[tokens].log()


def test_perplexity_by_hand() -> None:
    """Words 4 and 5. After START: 1/2 for 4; after 4: 1/4 for 5, 1/8 for END; after 5: 1/2 for END."""
    table = torch.full((6, 6), 1e-9)
    table[words.START, 4], table[4, 5], table[4, words.END], table[5, words.END] = 0.5, 0.25, 0.125, 0.5
    table[:, words.UNKNOWN] = 1 - table.sum(dim=1)
    rows = words.padded([[4, 5], [4]])
    assert rows.tolist() == [[1, 4, 5, 2], [1, 4, 2, 0]]
    net = Told(table)
    value, count = metric.perplexity(net, [(torch.arange(2), rows, torch.tensor([1, 1]))])
    likelihoods = [0.5, 0.25, 0.5, 0.5, 0.125]  # five real tokens; the padding after END counts nowhere
    assert value == pytest.approx(math.exp(-sum(map(math.log, likelihoods)) / 5), rel=1e-5)
    assert count == 2
    assert net.shown[0][0].tolist() == [1, 1]  # each caption goes with its own picture
    table[words.START, 4] = 0
    with pytest.raises(ValueError, match="diverged"):
        metric.perplexity(Told(table), [(torch.arange(1), rows[:1], torch.tensor([0]))])
    with pytest.raises(ValueError, match="no tokens"):
        metric.perplexity(net, [])


@pytest.mark.parametrize("size", [1, 3, 8])
def test_the_batch_size_changes_neither_perplexity_nor_captions(size: int, small_found: data.Found) -> None:
    torch.manual_seed(0)
    net = train.build(train.PROFILES["smoke"], len(small_found.vocabulary))
    cpu = torch.device("cpu")
    value, count = metric.perplexity(net, small_found.evaluation(size, 0, cpu))
    whole, _ = metric.perplexity(net, small_found.evaluation(100, 0, cpu))
    assert value == pytest.approx(whole, rel=1e-5)
    assert count == 40
    made = metric.captions(net, (seen for seen, _, _ in small_found.evaluation(size, 0, cpu)), 3, cpu)
    assert made == metric.captions(net, (seen for seen, _, _ in small_found.evaluation(100, 0, cpu)), 3, cpu)
    assert len(made) == 8


def test_bleu() -> None:
    """Half the 4-grams of "a b c d e" are in its reference: precisions 4/5, 3/4, 2/3, 1/2, no penalty for length."""
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert metric.bleu_4(["a b c d e"], [["a b c d x"]]) == pytest.approx(expected)
    assert metric.bleu_4(["a b c d e"], [["x x x", "a b c d e"]]) == pytest.approx(100)
    assert metric.bleu_4(["a b c d", "e f g h"], [["a b c d"], ["x", "e f g h"]]) == pytest.approx(100)
    sixth = [["x"] * metric.REFERENCES + ["a b c d"]]
    assert metric.bleu_4(["a b c d"], sixth) < 1  # only five references count
    short = metric.bleu_4(["a b c d"], [["a b c d e f g h"]])
    assert short == pytest.approx(100 * math.exp(1 - 8 / 4))
    with pytest.raises(ValueError, match="0 captions"):
        metric.bleu_4([], [])


# ---- network ---------------------------------------------------------------------------------------------------------


def test_parameter_counts(tmp_path: Path) -> None:
    """10.4 million trainable with COCO's vocabulary of about 9,956 words; the encoder's 23.5 million are frozen."""
    torch.save(model.ResNet50().state_dict(), tmp_path / "w.pth")
    net = train.build(train.Settings(encoder_weights=str(tmp_path / "w.pth")), 9956)
    by_hand = (2048 * 299 + 299) + 2 * 299 + 9956 * 299 + 4 * 512 * (299 + 512 + 2) + (512 * 9956 + 9956)
    assert sum(p.numel() for p in net.parameters() if p.requires_grad) == by_hand == 10_362_545
    assert sum(p.numel() for p in net.encoder.parameters()) == 25_557_032 - (2048 * 1000 + 1000)
    assert not any(p.requires_grad for p in net.encoder.parameters())


def test_the_encoder_has_torchvisions_names(tmp_path: Path) -> None:
    encoder = model.ResNet50()
    names = set(encoder.state_dict())
    assert len(names) == 318  # torchvision's 320 less the classifier's two
    assert {"conv1.weight", "bn1.running_var", "layer1.0.downsample.0.weight", "layer4.2.bn3.bias"} <= names
    state = {**encoder.state_dict(), "fc.weight": torch.zeros(1000, 2048), "fc.bias": torch.zeros(1000)}
    torch.save(state, tmp_path / "resnet50.pth")
    torch.nn.init.zeros_(encoder.conv1.weight)
    train.load_weights(encoder, str(tmp_path / "resnet50.pth"))
    assert encoder.conv1.weight.any()
    state.pop("layer3.0.conv1.weight")
    torch.save(state, tmp_path / "less.pth")
    (tmp_path / "text.pth").write_text("no weights")
    for file, message in (("", "give its weights"), ("less.pth", "layer3.0.conv1"), ("text.pth", "not this encoder")):
        with pytest.raises(SetupError, match=message):
            train.load_weights(encoder, str(tmp_path / file) if file else "")
    with pytest.raises(SetupError, match="cannot be read"):
        train.load_weights(encoder, str(tmp_path / "none.pth"))


def test_teacher_forcing_and_single_steps_agree() -> None:
    torch.manual_seed(0)
    net = train.build(SMALL, 12).eval()
    pictures, tokens = torch.randn(2, 3, 32, 32), torch.tensor([[1, 5, 7], [1, 6, 4]])
    with torch.no_grad():
        whole = net(net.seen(pictures), tokens).log_softmax(dim=2)
        state = net.begin(pictures)
        for place in range(3):
            single, state = net.step(state, tokens[:, place])
            torch.testing.assert_close(single, whole[:, place])
        other = net(net.seen(pictures.flip(0)), tokens).log_softmax(dim=2)
    assert not torch.allclose(other, whole)  # the picture matters


def test_a_frozen_encoder_keeps_its_weights_and_averages() -> None:
    torch.manual_seed(0)
    encoder = model.SmallEncoder((4, 4, 4), 32)
    net = model.Captioner(encoder, encoder.features, 9, 8, 8, frozen=True, dropout=0.0).train()
    before = [value.clone() for value in encoder.state_dict().values()]
    net(net.seen(torch.randn(4, 3, 32, 32)), torch.ones(4, 3, dtype=torch.int64)).sum().backward()
    assert all(torch.equal(old, new) for old, new in zip(before, encoder.state_dict().values(), strict=True))
    assert all(p.grad is None for p in encoder.parameters())
    assert net.project.weight.grad is not None


def test_the_learning_rate() -> None:
    hp = train.Settings(
        opt_base_learning_rate=1.0, opt_learning_rate_warmup_steps=4, opt_learning_rate_decay_boundary_epochs=(2, 3)
    )
    rates = [train.learning_rate(hp, step, epoch) for step, epoch in ((1, 1), (4, 1), (9, 2), (9, 3), (9, 4))]
    assert rates == [0.25, 1, 1, 0.5, 0.25]


def test_a_step_of_the_full_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through train.py on a made-up COCO, with random weights in the file: only what is not frozen moves."""
    made_up_coco(tmp_path / "data", monkeypatch)
    torch.manual_seed(0)
    torch.save(model.ResNet50().state_dict(), tmp_path / "weights.pth")
    kept, build = {}, train.build

    def built(hp: train.Settings, vocabulary: int) -> model.Captioner:
        net = build(hp, vocabulary)
        kept[net] = {name: value.detach().clone() for name, value in net.state_dict().items()}
        return net

    monkeypatch.setattr(train, "build", built)
    flags = ["--profile", "full", "--data-dir", str(tmp_path / "data"), "--log", str(tmp_path / "log.txt")]
    flags += ["--encoder-weights", str(tmp_path / "weights.pth"), "--data-workers", "0", "--max-epochs", "1"]
    train.main([*flags, "--device", "cpu", "--image-size", "64", "--min-word-count", "1"])
    net, before = list(kept.items())[-1]
    frozen = {name for name, value in net.state_dict().items() if torch.equal(value, before[name])}
    assert frozen == {name for name in before if name.startswith("encoder.")}
    log = events(tmp_path / "log.txt")
    assert (values(log, "train_samples"), values(log, "eval_samples")) == ([8], [4])
    assert values(log, "eval_accuracy")[0] > 1
    assert {event["name"] for event in values(log, "data_source")} == {"coco"}


# ---- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_found(tmp_path_factory: pytest.TempPathFactory) -> data.Found:
    """The smoke profile's data."""
    found = []
    load = data.load

    def keep(run: object) -> data.Found:
        found.append(load(run))
        return found[-1]

    data.load = keep
    try:
        run_smoke(tmp_path_factory.mktemp("found") / "log.txt", "--max-epochs", "1")
    finally:
        data.load = load
    return found[-1]


def run_smoke(log: Path, *flags: str) -> list[dict]:
    """The events of a smoke run, in this process."""
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def test_a_smoke_run_its_log_and_its_samples(tmp_path: Path) -> None:
    log = run_smoke(tmp_path / "a.txt", "--seed", "7", "--samples", str(tmp_path / "said"))
    assert values(log, "submission_benchmark") == [HERE.name]
    assert (values(log, "train_samples"), values(log, "eval_samples")) == ([200], [40])
    assert len(values(log, "bleu_4")) == len(values(log, "eval_accuracy")) == 2
    assert values(log, "eval_accuracy")[1] < values(log, "eval_accuracy")[0]
    named = {event["metadata"]["name"] for event in log if event["key"] == "baseline"}
    assert {"1-gram", "7-gram", "5-gram_of_5_nearest"} <= named
    sheet, told = sorted((tmp_path / "said").iterdir())
    assert struct.unpack(">II", sheet.read_bytes()[16:24]) == (8 * 128, 128)
    assert len(told.read_text().splitlines()) == 2 * 8
    assert check.main([str(tmp_path / "a.txt"), "--partial"]) == 0


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed) for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("eval_accuracy", "bleu_4", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    for key in ("baseline", "data_source"):  # the scenes know no seed
        assert values(first, key) == values(other, key)
    assert values(first, "eval_accuracy") != values(other, "eval_accuracy")


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, message in (
        ([], "give --data-dir"),
        (["--data-dir", str(tmp_path)], "captions_train2014.json: cannot be read"),
        (["--held-out", "test", "--division", "open"], "--held-out is evaluation or validation"),
        (["--held-out", "validation"], "closed division: held_out is"),
    ):
        with pytest.raises(SystemExit) as stopped:
            train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *flags])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
