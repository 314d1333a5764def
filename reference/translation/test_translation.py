"""Translation: the metric by hand, the network against torch's own, decoding, batches and baselines."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from . import baselines, data, metric, model, train
from .metric import END, START, UNKNOWN
from .model import PAD

# ---- metric ----------------------------------------------------------------------------------------------------------


def test_token_accuracy_by_hand() -> None:
    """Two batches of different lengths: padding never counts, the end does, unknown is never right."""
    wanted = [torch.tensor([[5, 6, END], [7, END, PAD]]), torch.tensor([[UNKNOWN, 5, 6, END]])]
    predicted = [torch.tensor([[5, 9, END], [7, 7, PAD]]), torch.tensor([[UNKNOWN, 5, 6, END]])]
    answers = iter(nn.functional.one_hot(rows, 10).float() for rows in predicted)
    batches = [(torch.zeros(len(rows), 1), torch.zeros_like(rows), rows) for rows in wanted]
    rights, wanteds = metric.token_counts(lambda source, given: next(answers), batches)
    assert rights.tolist() == [2, 1, 3]
    assert wanteds.tolist() == [3, 2, 4]
    assert metric.accuracy(rights, wanteds) == 6 / 9  # not the mean of 2/3, 1/2 and 3/4


def test_no_token_is_no_accuracy() -> None:
    with pytest.raises(ValueError, match="no token"):
        metric.accuracy(torch.zeros(0), torch.zeros(0))


def test_bleu_is_sacrebleus() -> None:
    references = ["der Hund schläft heute .", "die Katze sieht den Mann ."]
    assert metric.bleu(references, references, tokenized=True) == pytest.approx(100)
    # 9 of 10 words, 6 of 8 pairs, 4 of 6 triples, 2 of 4 quadruples right; one word shorter than the references' 11
    near = ["der Hund schläft jetzt .", "die Katze sieht den Mann"]
    wanted = 100 * (9 / 10 * 6 / 8 * 4 / 6 * 2 / 4) ** 0.25 * np.exp(1 - 11 / 10)
    assert metric.bleu(near, references, tokenized=True) == pytest.approx(wanted)


# ---- model -----------------------------------------------------------------------------------------------------------


def small(pre_norm: bool = True, shared: bool = False) -> model.Transformer:
    torch.manual_seed(0)
    net = model.Transformer(20, 20 if shared else 23, 16, 4, 24, 2, 0.0, pre_norm, shared)
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.3)
    return net.eval()


def some_batch() -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.tensor([[5, 6, 7, END], [8, END, PAD, PAD], [9, 4, END, PAD]])
    return source, torch.tensor([[START, 5, 6], [START, 8, 9], [START, 4, 4]])


def test_the_full_model_has_the_papers_parameters() -> None:
    hp = train.PROFILES["full"]
    shape = (hp.model_width, hp.attention_heads, hp.feed_forward_width, hp.layers, hp.dropout, hp.pre_norm)
    net = model.Transformer(37_000, 37_000, *shape, hp.shared_embeddings)
    assert sum(parameter.numel() for parameter in net.parameters()) == 44_138_496 + 37_000 * 512


def copied(ours: model.Attention, theirs: nn.MultiheadAttention) -> None:
    query, key_value = theirs.in_proj_weight.split([ours.query.out_features, ours.key_value.out_features])
    bias, biases = theirs.in_proj_bias.split([ours.query.out_features, ours.key_value.out_features])
    for layer, weight, shift in ((ours.query, query, bias), (ours.key_value, key_value, biases)):
        layer.weight.copy_(weight)
        layer.bias.copy_(shift)
    ours.out.load_state_dict(theirs.out_proj.state_dict())


@torch.no_grad()
def copied_layer(ours: nn.Module, theirs: nn.Module) -> None:
    copied(ours.attention, theirs.self_attn)
    if hasattr(ours, "on_source"):
        copied(ours.on_source, theirs.multihead_attn)
    ours.feed_forward[0].load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward[3].load_state_dict(theirs.linear2.state_dict())
    for name, norm in (("first", "norm1"), ("second", "norm2"), ("third", "norm3")):
        if hasattr(ours, name):
            getattr(ours, name).norm.load_state_dict(getattr(theirs, norm).state_dict())


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_it_computes_what_torchs_transformer_computes(pre_norm: bool) -> None:
    torch.manual_seed(1)
    shape = {"dim_feedforward": 24, "dropout": 0.0, "batch_first": True, "norm_first": pre_norm}
    theirs = nn.Transformer(16, 4, 2, 2, **shape).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    if not pre_norm:  # the published model has no further normalisation at the end of a stack
        theirs.encoder.norm = theirs.decoder.norm = None
    ours = small(pre_norm)
    for mine, other in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for layer, layer_other in zip(mine, other.layers, strict=True):
            copied_layer(layer, layer_other)
    if pre_norm:
        ours.encoder_norm.load_state_dict(theirs.encoder.norm.state_dict())
        ours.decoder_norm.load_state_dict(theirs.decoder.norm.state_dict())
    source, target = some_batch()
    padding = source == PAD
    embedded = ours._embedded(ours.source, source), ours._embedded(ours.target, target)
    hidden = theirs(
        *embedded,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(3),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
        tgt_is_causal=True,
    )
    torch.testing.assert_close(ours(source, target), hidden @ ours.target.weight.T, rtol=1e-4, atol=1e-5)


def test_no_position_sees_later_tokens_and_no_sentence_sees_its_padding() -> None:
    net = small()
    source, target = some_batch()
    logits = net(source, target)
    changed = target.clone()
    changed[:, 2] = 7
    torch.testing.assert_close(net(source, changed)[:, :2], logits[:, :2])
    assert not torch.allclose(net(source, changed)[:, 2], logits[:, 2])
    torch.testing.assert_close(net(source[1:2, :2], target[1:2]), logits[1:2])


@pytest.mark.parametrize("pre_norm", [False, True])
def test_decoding_step_by_step_is_the_whole_at_once(pre_norm: bool) -> None:
    net = small(pre_norm, shared=True)
    source, target = some_batch()
    whole = net(source, target).log_softmax(-1)
    state = net.start(source)
    for place in range(target.shape[1]):
        log_probs, state = net.step(state, target[:, place])
        torch.testing.assert_close(log_probs, whole[:, place])
        order = torch.tensor([2, 0, 1])
        source, target, whole, state = source[order], target[order], whole[order], net.reorder(state, order)


def test_positions_grow_with_the_sentence() -> None:
    net = small()
    assert net(torch.full((1, 150), 5), torch.full((1, 150), 5)).shape == (1, 150, 23)
    torch.testing.assert_close(model.sinusoids(4, 6)[2, :2], torch.tensor([np.sin(2.0), np.cos(2.0)]).float())


def test_a_small_model_learns_to_copy_and_beam_search_returns_it() -> None:
    """From scratch, with the training's loss: what is translated is what was learned."""
    torch.manual_seed(0)
    rows = [[4 + (k + place * place) % 8 for place in range(2 + k % 4)] for k in range(60)]
    ragged = data.Ragged.of(rows)
    pairs = data.Pairs(ragged, ragged, np.zeros(60, dtype=bool), torch.device("cpu"))
    net = model.Transformer(12, 12, 32, 4, 64, 1, 0.0, True, True)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(30):
        for source, given, wanted in pairs.batches(20, 100):
            loss = nn.functional.cross_entropy(net(source, given).flatten(0, 1), wanted.flatten(), ignore_index=PAD)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    net.eval()
    assert metric.accuracy(*metric.token_counts(net, pairs.in_order(7))) > 0.97
    found = metric.translations(net, pairs.in_order(7), 3, 10, 0.6)
    same = sum(one == rows[number] for one, number in zip(found, pairs.by_length(), strict=True))
    assert same >= 50  # of 60


@pytest.mark.parametrize("words", [{"heads": 3}, {"width": 15}, {"target": 21}])
def test_models_without_sense_are_refused(words: dict) -> None:
    with pytest.raises(ValueError, match="no model of width"):
        shape = (words.get("width", 16), words.get("heads", 4), 24, 2)
        model.Transformer(20, words.get("target", 20), *shape, 0.0, True, True)


# ---- training --------------------------------------------------------------------------------------------------------


def test_learning_rates() -> None:
    full, small_ = train.PROFILES["full"], train.PROFILES["embedded"]
    for step in (2000, 4000, 16000):
        wanted = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)  # as the paper writes it
        assert train.learning_rate(full, step, 10**6) == pytest.approx(wanted, rel=1e-3)
    warmup = small_.opt_learning_rate_warmup_steps
    assert train.learning_rate(small_, warmup, 1000) == small_.opt_base_learning_rate
    last = small_.opt_base_learning_rate / (1001 - warmup)
    assert train.learning_rate(small_, 1000, 1000) == pytest.approx(last)


# ---- data ------------------------------------------------------------------------------------------------------------


def some_pairs() -> data.Pairs:
    rng = np.random.default_rng(0)
    rows = [[[int(n) for n in rng.integers(4, 50, size=rng.integers(1, 9))] for _ in range(23)] for _ in range(2)]
    return data.Pairs(data.Ragged.of(rows[0]), data.Ragged.of(rows[1]), np.arange(23) % 5 == 0, torch.device("cpu"))


def rows_of(pairs: data.Pairs) -> list[tuple[list[int], list[int]]]:
    sides = [np.split(side.flat, side.starts[1:-1]) for side in (pairs.source, pairs.target)]
    return [(one.tolist(), other.tolist()) for one, other in zip(*sides, strict=True)]


def test_an_epoch_holds_every_pair_once() -> None:
    pairs = some_pairs()
    shown, sizes = [], []
    for source, given, wanted in pairs.batches(4, 100):
        sizes.append(len(source))
        for row in range(len(source)):
            assert given[row, 0] == START
            target = [token for token in given[row, 1:].tolist() if token != PAD]
            assert [token for token in wanted[row].tolist() if token != PAD] == [*target, END]
            *tokens, end = (token for token in source[row].tolist() if token != PAD)
            assert end == END
            shown.append((tokens, target))
    assert sorted(sizes) == [3, 4, 4, 4, 4, 4]
    assert sorted(shown) == sorted(rows_of(pairs))


def test_batches_are_of_similar_length_and_in_another_order_each_time() -> None:
    pairs = some_pairs()
    orders = [[tuple(source.flatten().tolist()) for source, _, _ in pairs.batches(4, 100)] for _ in range(2)]
    assert orders[0] != orders[1]
    padding = sum(int((source == PAD).sum()) for source, _, _ in pairs.batches(4, 100))
    assert padding < 40


def test_training_sentences_are_cut_and_evaluation_sentences_are_not() -> None:
    pairs = some_pairs()
    for source, _, wanted in pairs.batches(4, 4):
        assert source.shape[1] <= 4
        assert (wanted == END).sum() == len(wanted)
    assert max(wanted.shape[1] for _, _, wanted in pairs.in_order(5)) == pairs.target.lengths.max() + 1
    assert sum(len(source) for source, _, _ in pairs.in_order(5)) == 23


def test_an_empty_sentence_is_an_end() -> None:
    ragged = data.Ragged.of([[], [5]])
    pairs = data.Pairs(ragged, ragged, np.zeros(2, dtype=bool), torch.device("cpu"))
    source, given, wanted = pairs.batch(np.array([0]), 10)
    assert [source.tolist(), given.tolist(), wanted.tolist()] == [[[END, PAD]], [[START, PAD]], [[END, PAD]]]


def test_text_of_numbers() -> None:
    words = data.Vocabulary.of([["b", "a"], ["a"]])
    assert words.encoded(["a", "b", "c"]) == [4, 5, UNKNOWN]
    assert words.text([START, 5, 4, END, PAD]) == "b a"
    pieces = data.Vocabulary([*data.SPECIAL, "\u2581der", "\u2581H", "und"], pieces=True)
    assert pieces.text([4, 5, 6, END]) == "der Hund"


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_counts_by_hand() -> None:
    """Targets "a b" twice and "a c": after a, b has 2 of 3 counts and two kinds follow."""
    counts = baselines.Counts([[4, 5], [4, 5], [4, 6]], 7)
    assert counts.one[[4, 5, 6, END]] == pytest.approx(np.array([3, 2, 1, 3]) / 9)
    assert counts.two[4, 5] == pytest.approx((2 + 2 * 2 / 9) / 5)
    assert counts.three(START, 4)[5] == pytest.approx((2 + 2 * counts.two[4, 5]) / 5)
    assert counts.three(6, 5) == pytest.approx(counts.two[5])  # never seen
    for probabilities in (counts.one, counts.two[4], counts.two[6], counts.three(START, 4)):
        assert probabilities.sum() == pytest.approx(1)


def test_the_dictionary_finds_which_word_is_which() -> None:
    sources, targets = [[4, 5], [4, 6], [5, 6]], [[14, 15], [16, 14], [16, 15]]
    table = baselines.dictionary(sources, targets, 7, 17)
    assert [int(table[word].argmax()) for word in (4, 5, 6)] == [14, 15, 16]
    assert table.sum(axis=1)[[4, 5, 6]] == pytest.approx(1)


def test_what_has_been_said_is_called_for_no_more() -> None:
    counts = baselines.Counts([[4, 5], [5, 4]], 7)
    table = np.zeros((7, 7))
    table[4, 4] = table[5, 5] = 1.0
    table[PAD, END] = 0.1
    predict = baselines.with_dictionary(counts, table)
    after_four = predict(torch.tensor([[4, 5, END]]), torch.tensor([[START, 4]]))[0, 1]
    assert after_four[5] > 10 * after_four[4]
