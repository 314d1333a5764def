"""Speech recognition: decoders, error rates, network and batches, each against a case worked out another way."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from . import baselines, batches, decoding, metric, model, train

CPU = torch.device("cpu")
FULL, SMALL = train.PROFILES["full"], train.PROFILES["embedded"]


def network(hp: train.Settings, bins: int) -> model.DeepSpeech2:
    sizes = (hp.conv_channels, hp.conv_kernels, hp.conv_strides, hp.gru_width, hp.gru_layers)
    return model.DeepSpeech2(bins, *sizes, len(decoding.LABELS))


# ---- decoding --------------------------------------------------------------------------------------------------------


def test_labels_and_their_spelling() -> None:
    assert len(decoding.LABELS) == 29
    assert decoding.spell(decoding.encode("IT'S SO")) == "IT'S SO"
    for wrong in ("a", "É", "_"):  # the blank is no character of a text
        with pytest.raises(ValueError, match="not one of the labels"):
            decoding.encode(wrong)


def of_path(text: str) -> np.ndarray:
    """Log-probabilities whose most probable path is `text`."""
    rows = torch.eye(29)[[decoding.LABELS.index(label) for label in text]]
    return (rows * 5).log_softmax(dim=1).numpy()


@pytest.mark.parametrize(
    ("path", "text"),
    [("__AA_B__", "AB"), ("A_AA", "AA"), ("AAAA", "A"), ("____", ""), ("H_EEL_LLO", "HELLO"), ("A  __ B", "A  B")],
)
def test_a_path_is_merged_and_its_blanks_removed(path: str, text: str) -> None:
    assert decoding.spell(decoding.greedy(of_path(path))) == text
    assert decoding.spell(decoding.beam(of_path(path), 8)) == text


def every_text(log_probabilities: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of each text: a sum over all paths, written out."""
    frames, labels = log_probabilities.shape
    total: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(labels), repeat=frames):
        text = tuple(label for label, _ in itertools.groupby(path) if label != decoding.BLANK)
        total[text] = total.get(text, 0.0) + math.exp(sum(log_probabilities[t, label] for t, label in enumerate(path)))
    return total


def test_a_wide_beam_finds_the_text_with_the_greatest_sum_over_its_paths() -> None:
    """Random frames, nearly flat: the best single path is another text's in some of them."""
    generator = torch.Generator().manual_seed(0)
    differ = 0
    for _ in range(60):
        frames = torch.randn(5, 4, generator=generator).log_softmax(dim=1).numpy()
        total = every_text(frames)
        assert sum(total.values()) == pytest.approx(1)
        assert tuple(decoding.beam(frames, 10_000, least=0)) == max(total, key=total.__getitem__)
        differ += decoding.beam(frames, 10_000, least=0) != decoding.greedy(frames)
    assert differ > 5


def test_torchs_loss_is_that_sum_too() -> None:
    frames = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).log_softmax(dim=1)
    total = every_text(frames.numpy())
    for text in ((1,), (1, 2), (1, 1)):
        loss = F.ctc_loss(frames[:, None], torch.tensor([text]), (4,), (len(text),), decoding.BLANK, "sum")
        assert math.exp(-loss.item()) == pytest.approx(total[text], rel=1e-4)


# ---- error rates -----------------------------------------------------------------------------------------------------


def test_word_errors_by_hand() -> None:
    """1 substitution, 1 deletion and 2 insertions over 7 words; a mean of the utterances' rates would be 1.1."""
    said = ["A RED BOX", "THE OLD KING", "GO"]
    read = ["A BED BOX", "THE KING", "GO ON NOW"]
    assert metric.word_error_rate(said, read) == pytest.approx(4 / 7)
    assert np.mean([metric.word_error_rate([s], [r]) for s, r in zip(said, read, strict=True)]) == pytest.approx(8 / 9)


def test_nothing_read_is_every_word_wrong_and_spaces_are_no_words() -> None:
    assert metric.word_error_rate(["A B", "C"], ["", ""]) == 1
    assert metric.word_error_rate(["A B"], [" A  B "]) == 0
    assert metric.word_error_rate(["A"], ["A B C"]) == 2  # above 1 is possible
    assert metric.character_error_rate(["ABC D"], ["ABD"]) == pytest.approx(2 / 5)


def test_error_rates_of_nothing_are_refused() -> None:
    for said, read, message in (
        ([], [], "no words"),
        ([""], ["A"], "no words"),
        (["A"], [], "1 texts were said and 0"),
    ):
        with pytest.raises(ValueError, match=message):
            metric.word_error_rate(said, read)


# ---- network ---------------------------------------------------------------------------------------------------------


def test_parameter_counts() -> None:
    """AIBench's 41.19 million with 161 frequencies; the small one has the same structure."""
    counts = [sum(p.numel() for p in network(hp, bins).parameters()) for hp, bins in ((FULL, 161), (SMALL, 40))]
    assert counts == [41_187_968, 284_560]


def plainly(net: model.DeepSpeech2, spectrogram: torch.Tensor) -> torch.Tensor:
    """One utterance (bins, frames) through the layers one by one, without batch, mask or packing: (frames, labels)."""
    x = spectrogram[None, None]
    for convolution, norm in zip(net.convolutions, net.convolution_norms, strict=True):
        x = F.hardtanh(norm(convolution(x)), 0, 20)
    x = x[0].flatten(0, 1).T
    for recurrent, norm in zip(net.recurrent, net.norms, strict=True):
        forwards, backwards = recurrent(x)[0].chunk(2, dim=1)
        x = norm(forwards + backwards)
    return net.output(x).log_softmax(dim=1)


def some_utterances(count: int = 7, bins: int = 40) -> batches.Utterances:
    generator = torch.Generator().manual_seed(2)
    lengths = [23, 40, 9, 31, 24, 12, 55][:count]
    spectrograms = [torch.randn(bins, length, generator=generator) for length in lengths]
    return batches.Utterances(spectrograms.__getitem__, np.array(lengths), [f"WORD {'AB' * n}" for n in range(count)])


@pytest.mark.parametrize("size", [1, 3, 7])
def test_an_utterance_does_not_depend_on_its_batch(size: int) -> None:
    torch.manual_seed(0)
    net, utterances = network(SMALL, 40), some_utterances()
    for _ in range(3):  # so that the running statistics are not those of a new network
        whole = next(utterances.in_order(7, CPU))
        net(whole.features, whole.frames)
    heard = metric.listen(net, utterances.in_order(size, CPU))
    assert net.training
    net.eval()
    order = np.argsort(utterances.lengths)
    assert heard.texts == [utterances.texts[index] for index in order]
    for index, found in zip(order, heard.log_probabilities, strict=True):
        assert len(found) == (utterances.lengths[index] - 1) // 2 + 1
        expected = plainly(net, utterances.read(index)).detach().numpy()
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_normalisations_of_the_recurrent_layers_see_real_frames_only() -> None:
    net, seen = network(SMALL, 40), []
    for norm in net.norms:
        norm.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    batch = next(some_utterances().in_order(7, CPU))
    _, frames = net(batch.features, batch.frames)
    assert frames.max() == 28
    assert seen == [int(frames.sum())] * 2


def test_outputs_that_are_no_numbers_are_an_error() -> None:
    net = network(SMALL, 40)
    torch.nn.init.constant_(net.output.weight, math.nan)
    with pytest.raises(ValueError, match="diverged"):
        metric.listen(net, some_utterances().in_order(4, CPU))


def test_sizes_without_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="two odd kernels"):
        model.DeepSpeech2(40, 4, (4, 3, 3, 3), (2, 2, 2, 1), 8, 1, 29)


def test_the_learning_rate_rises_and_is_annealed() -> None:
    hp = train.Settings(opt_base_learning_rate=1.0, opt_learning_rate_warmup_steps=4, opt_learning_rate_annealing=2.0)
    assert [train.learning_rate(hp, *at) for at in ((1, 1), (4, 1), (9, 1), (9, 3))] == [0.25, 1, 1, 0.25]
    assert train.learning_rate(FULL, 1, 1) == 3e-4


# ---- batches ---------------------------------------------------------------------------------------------------------


def shown(passed: list[batches.Batch]) -> list[list[str]]:
    return [batch.texts for batch in passed]


def test_the_first_pass_goes_from_short_to_long_and_the_others_at_random() -> None:
    torch.manual_seed(0)
    utterances = some_utterances()
    first = list(utterances.in_order(3, CPU))
    frames = [count for batch in first for count in batch.frames.tolist()]
    assert frames == sorted(utterances.lengths)
    assert [len(batch.texts) for batch in first] == [3, 3, 1]
    others = [list(utterances.shuffled(3, 0.0, CPU)) for _ in range(8)]
    orders = {str(shown(each)) for each in others}
    assert len(orders) > 2
    for each in others:
        assert sorted(map(sorted, shown(each))) == sorted(map(sorted, shown(first)))  # the same neighbours meet
    mixed = [shown(list(utterances.shuffled(3, 2.0, CPU))) for _ in range(8)]
    assert any(sorted(map(sorted, each)) != sorted(map(sorted, shown(first))) for each in mixed)
    assert all(sorted(text for texts in each for text in texts) == sorted(utterances.texts) for each in mixed)


def test_a_batch_holds_its_utterances_and_zeros_behind_them() -> None:
    utterances = some_utterances()
    batch = next(utterances.in_order(7, CPU))
    assert batch.features.shape == (7, 1, 40, 55)
    at = 0
    for row, (count, frames, text) in enumerate(zip(batch.label_counts, batch.frames, batch.texts, strict=True)):
        original = utterances.read(utterances.texts.index(text))
        assert torch.equal(batch.features[row, 0, :, :frames], original)
        assert not batch.features[row, 0, :, frames:].any()
        assert decoding.spell(batch.labels[at : at + count].tolist()) == text
        at += int(count)
    assert at == len(batch.labels)


def test_threads_change_nothing_and_pass_errors_on() -> None:
    utterances = some_utterances()
    threaded = batches.Utterances(utterances.read, utterances.lengths, utterances.texts, threads=3)
    for one, other in zip(utterances.in_order(2, CPU), threaded.in_order(2, CPU), strict=True):
        assert torch.equal(one.features, other.features)
        assert one.texts == other.texts

    def broken(index: int) -> torch.Tensor:
        raise OSError(f"utterance {index}")

    with pytest.raises(OSError, match="utterance"):
        list(batches.Utterances(broken, utterances.lengths, utterances.texts, threads=3).in_order(2, CPU))


def test_variation_moves_and_blanks_frequencies_only() -> None:
    torch.manual_seed(0)
    features = torch.arange(1.0, 9.0).view(1, 1, 8, 1).repeat(200, 1, 1, 5)
    assert torch.equal(batches.varied(features, 0, 0), features)
    moved = batches.varied(features, 2, 0)
    assert moved.shape == features.shape
    middles = set(moved[:, 0, 4, 0].tolist())
    assert middles == {3.0, 4.0, 5.0, 6.0, 7.0}
    assert (moved == moved[..., :1]).all()  # all frames alike
    blanked = (batches.varied(features, 0, 3) == 0).sum(dim=2)
    assert set(blanked.flatten().tolist()) == {0, 1, 2, 3}


# ---- spectrograms ----------------------------------------------------------------------------------------------------


def test_a_tone_is_where_it_should_be_and_loudness_does_not_matter() -> None:
    make = batches.Spectrogram(16000, 320, 160, 0)
    tone = 0.3 * np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000)
    found = make(tone)
    assert found.shape == (161, 101)
    assert (found[:, 5:-5].argmax(dim=0) == 20).all()  # 50 Hz a bin
    assert found.mean().item() == pytest.approx(0, abs=1e-4)
    assert found.std().item() == pytest.approx(1, abs=1e-4)
    assert torch.allclose(make(tone * 0.01), found, atol=1e-3)
    assert make(np.zeros(7)).isfinite().all()


def test_mel_bands_cover_all_frequencies() -> None:
    weights = batches.mel_filters(22050, 512, 40)
    assert weights.shape == (40, 257)
    assert torch.allclose(weights.sum(dim=1), torch.ones(40))
    tips = weights.argmax(dim=1)
    assert (tips.diff() > 0).all()  # each band has a frequency of its own
    assert (weights.sum(dim=0)[2:-2] > 0).all()


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_the_best_constant_text() -> None:
    """THE saves an error in every text; a second word would save one in one of them and cost one in the shortest."""
    assert baselines.best_constant(["THE OLD KING", "THE RED BOX", "THE NEW DOG", "THE"]) == "THE"


def test_warping_forgives_tempo() -> None:
    """The same pattern, slower at its beginning, is nearer than another pattern."""
    torch.manual_seed(0)
    patterns = torch.randn(2, 6, 5)
    even = patterns.repeat_interleave(4, dim=1)
    uneven = patterns.repeat_interleave(torch.tensor([8, 4, 4, 4, 2, 2]), dim=1)
    assert baselines.nearest_by_warping(even, uneven) == [0, 1]
    assert baselines._warped(torch.cdist(even[:1], uneven[:1]).numpy())[0] == pytest.approx(0, abs=1e-3)
