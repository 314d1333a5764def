"""Text summarization: ROUGE by hand, copying through the extended vocabulary, the network, batches and baselines."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from . import baselines, data, docs, made_up, metric, model, train
from .model import END, PAD, START, UNKNOWN

CPU = torch.device("cpu")

# ---- metric ----------------------------------------------------------------------------------------------------------


def test_rouge_by_hand() -> None:
    """ "list tags for resource" against "get resource tags": one common subsequence of length 1, two common words."""
    found = metric.rouge(["get resource tags", "a b c d"], ["list tags for resource", "a b c d"])
    precision, recall = 1 / 3, 1 / 4
    longest = 2 * precision * recall / (precision + recall)
    single = 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)
    assert found["rougeL"] == pytest.approx((longest + 1) / 2)
    assert found["rouge1"] == pytest.approx((single + 1) / 2)
    assert found["rouge2"] == pytest.approx((0 + 1) / 2)


def test_rouge_of_nothing() -> None:
    assert metric.rouge([""], ["get tags"])["rougeL"] == 0
    with pytest.raises(ValueError, match="no summary"):
        metric.rouge([], [])
    with pytest.raises(ValueError, match="shorter|longer"):
        metric.rouge(["a"], ["a", "b"])


# ---- the extended vocabulary -----------------------------------------------------------------------------------------


def test_extended_vocabulary_by_hand() -> None:
    """10 words can be generated; 12, 15 and 11 can't: each gets one place a row, in the order of their numbers."""
    source = torch.tensor([[5, 15, 12, 15, 6, PAD], [4, 5, 6, 7, 8, 9], [11, PAD, PAD, PAD, PAD, PAD]])
    places, extra = model.extended(source, 10)
    assert places.tolist() == [[5, 11, 10, 11, 6, PAD], [4, 5, 6, 7, 8, 9], [10, PAD, PAD, PAD, PAD, PAD]]
    assert extra.tolist() == [[12, 15], [PAD, PAD], [11, PAD]]


def test_a_vocabulary_without_extra_words() -> None:
    places, extra = model.extended(torch.tensor([[4, 5], [6, PAD]]), 10)
    assert places.tolist() == [[4, 5], [6, PAD]]
    assert extra.shape == (2, 0)


INPUT, OUTPUT = 14, 10  # 4..9 can be said and read, 10..13 read, 14 and more are unknown


def small(seed: int = 0) -> model.Summarizer:
    torch.manual_seed(seed)
    net = model.Summarizer(INPUT, OUTPUT, 8, 6, 0.0)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return net


def some_batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = torch.tensor([[5, 15, 12, 15], [4, 6, PAD, PAD], [20, 4, 13, PAD]])
    given = torch.tensor([[START, 15, 5], [START, 4, 9], [START, 20, 7]])
    return source, given, torch.tensor([[15, 5, END], [4, 9, END], [20, 7, 30]])


@torch.no_grad()
def test_the_loss_is_the_probability_that_decoding_gives() -> None:
    """Known words, copied known words and copied unknown words, step by step through the extended vocabulary."""
    net = small()
    source, given, wanted = some_batch()
    losses = net.losses(source, given, wanted).view(3, 3)
    state = net.start(source)
    _, extra = model.extended(source, OUTPUT)
    for step in range(3):
        last = place_of(given[:, step], extra)
        log_probs, state = net.step(state, last)
        assert log_probs.shape == (3, OUTPUT + 2)
        for row in range(3):
            word = int(wanted[row, step])
            if word != 30:  # which can be neither generated nor copied
                place = int(place_of(wanted[row : row + 1, step], extra[row : row + 1]))
                assert float(losses[row, step]) == pytest.approx(-float(log_probs[row, place]), abs=1e-5)


def place_of(words: torch.Tensor, extra: torch.Tensor) -> torch.Tensor:
    """Places in the extended vocabulary of one word a row."""
    rows = zip(words.tolist(), extra.tolist(), strict=True)
    return torch.tensor([word if word < OUTPUT or word not in row else OUTPUT + row.index(word) for word, row in rows])


@torch.no_grad()
def test_probabilities_are_of_what_can_be_said() -> None:
    """They add up to 1 but for what no summary may hold; another row's unknown words have none."""
    net = small()
    source = some_batch()[0]
    log_probs, _ = net.step(net.start(source), torch.tensor([START] * 3))
    probabilities = log_probs.exp()
    assert (probabilities[:, [PAD, START, UNKNOWN]] == 0).all()
    assert (probabilities[1, OUTPUT:] == 0).all()
    mixed, attention, gate, _ = net.advance(net.start(source), torch.tensor([START] * 3))
    lost = gate.sigmoid() * net.out(mixed).softmax(dim=1)[:, [PAD, START, UNKNOWN]].sum(dim=1)
    torch.testing.assert_close(probabilities.sum(dim=1), 1 - lost)
    torch.testing.assert_close(attention.sum(dim=1), torch.ones(3))
    assert float(probabilities[0, OUTPUT + 1]) == pytest.approx(
        float((1 - gate.sigmoid()[0]) * (attention[0, 1] + attention[0, 3])), rel=1e-4
    )  # the word 15 stands twice


@torch.no_grad()
def test_a_word_that_can_not_be_said_counts_as_unknown() -> None:
    net = small()
    source, given, wanted = some_batch()
    other = wanted.clone()
    other[2, 2] = UNKNOWN
    torch.testing.assert_close(net.losses(source, given, wanted), net.losses(source, given, other))


def test_unknown_words_are_copied_into_summaries() -> None:
    """Trained to say the source's third word and 4: with third words that nobody can generate, seen or not."""
    torch.manual_seed(0)
    net = model.Summarizer(INPUT, OUTPUT, 16, 24, 0.0)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)

    def some(low: int, high: int) -> metric.Batch:
        source = torch.from_numpy(rng.integers(5, 14, size=(32, 5)))
        source[:, 2] = torch.from_numpy(rng.integers(low, high, size=32))
        four = torch.full((32,), 4)
        wanted = torch.stack([source[:, 2], four, torch.full((32,), END)], dim=1)
        return source, torch.cat([torch.full((32, 1), START), wanted[:, :2]], dim=1), wanted

    for _ in range(150):
        loss = net.losses(*some(14, 40)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    batch = some(100, 1000)  # words that training never had
    found = metric.summaries(net, [batch], 4, 1, 6, 1.0)
    assert sum(words == [int(row[2]), 4] for words, row in zip(found, batch[0], strict=True)) >= 31


# ---- model -----------------------------------------------------------------------------------------------------------


def test_the_full_model_has_aibenchs_parameters() -> None:
    hp = train.PROFILES["full"]
    net = model.Summarizer(50_000, 50_000, hp.embedding_size, hp.hidden_size, hp.dropout)
    assert sum(parameter.numel() for parameter in net.parameters()) == 48_234_833


@torch.no_grad()
def test_padding_changes_nothing() -> None:
    net = small()
    source, given, wanted = some_batch()
    alone = net.losses(source[1:2, :2], given[1:2], wanted[1:2])
    torch.testing.assert_close(net.losses(source, given, wanted).view(3, 3)[1], alone)
    wider = [torch.nn.functional.pad(part, (0, 2)) for part in (source, given, wanted)]
    torch.testing.assert_close(net.losses(*wider), net.losses(source, given, wanted))


@torch.no_grad()
def test_attention_remembers_what_it_has_seen() -> None:
    """Scores are divided by the sum of the exponentials of those before (Paulus et al., equations 3 and 4)."""
    net = small()
    state = net.start(some_batch()[0])
    last, raw = torch.tensor([START] * 3), []
    for step in range(3):
        x = net.input(torch.cat([net.embedded(last), state.context], dim=1))
        both = torch.cat(net.cell(x, (state.hidden, state.cell)), dim=1)
        raw.append(net.score_source(torch.tanh(state.projected + net.project_state(both)[:, None])).squeeze(2).exp())
        weight = raw[-1] / (sum(raw[:-1]) if step else 1.0) * state.mask
        _, attention, _, state = net.advance(state, last)
        torch.testing.assert_close(attention, weight / weight.sum(dim=1, keepdim=True))


@torch.no_grad()
def test_rows_of_a_state_can_be_reordered() -> None:
    net = small()
    source = some_batch()[0]
    state = net.start(source)
    for last in ([START] * 3, [5, 4, 10]):
        _, state = net.step(state, torch.tensor(last))
    order = torch.tensor([2, 0, 0])
    words = torch.tensor([6, 10, 11])
    straight, _ = net.step(state, words)
    swapped, _ = net.step(net.reorder(state, order), words[order])
    torch.testing.assert_close(swapped, straight[order])


def test_models_without_sense_are_refused() -> None:
    for words in ((9, 10), (10, 3)):
        with pytest.raises(ValueError, match="no model that generates"):
            model.Summarizer(*words, 8, 6, 0.0)


def test_learning_rates() -> None:
    full, small_ = train.PROFILES["full"], train.PROFILES["embedded"]
    assert {train.learning_rate(full, step, 1000) for step in (1, 500, 1000)} == {0.001}
    peak, warmup = small_.opt_base_learning_rate, small_.opt_learning_rate_warmup_steps
    rates = [train.learning_rate(small_, step, 1000) for step in (warmup // 2, warmup, 1000)]
    assert rates == pytest.approx([peak / 2, peak, peak / (1001 - warmup)])


# ---- data ------------------------------------------------------------------------------------------------------------


def test_words_of_documentation() -> None:
    html = "<p>Lists all <code>VPCEndpoint</code>s &amp; APIs of the AppInstance. See also <a href='x'>IPv4</a>.</p>"
    assert docs.first_sentence(html) == "Lists all VPCEndpoint s & APIs of the AppInstance."
    assert " ".join(docs.words(docs.first_sentence(html))) == "lists all vpc endpoint s apis of the app instance"
    assert docs.words("DescribeCanariesLastRun") == ("describe", "canaries", "last", "run")


def items() -> list[docs.Item]:
    return made_up.read()[0]


def test_services_are_on_one_side() -> None:
    train_items, held_out = docs.split(items(), validation=False)
    other_train, validation = docs.split(items(), validation=True)
    sides = [{item.service for item in side} for side in (train_items, held_out, other_train, validation)]
    assert not sides[0] & sides[1]
    assert not (sides[2] & sides[3] or sides[2] & sides[1] or sides[3] & sides[1])
    assert sides[0] == sides[2] | sides[3]
    with pytest.raises(ValueError, match="held-out sentence or service"):
        data.numbered(train_items, train_items[:1], CPU)


def test_words_are_ordered_by_what_can_be_done_with_them() -> None:
    one = docs.Item("a", ("reads", "the", "old", "book"), ("get", "old", "book"))
    two = docs.Item("a", ("reads", "the", "new", "book"), ("get", "new", "book"))
    other = docs.Item("b", ("reads", "a", "map"), ("get", "map"))
    corpus = data.numbered([one, two], [other], CPU)
    said, read = corpus.words[4 : corpus.output_words], corpus.words[corpus.output_words : corpus.input_words]
    assert said == ["book", "get"]  # twice in titles; "new" and "old" are once
    assert set(read) == {"reads", "the", "new", "old"}  # twice in all
    assert corpus.words[corpus.input_words :] == ["a", "map"]  # kept, so that it can be copied
    assert corpus.texts(corpus.held_out.title, [0]) == ["get map"]


def test_an_epoch_holds_every_pair_once() -> None:
    corpus = data.numbered(*docs.split(items(), False), CPU)
    pairs, shown, sizes = corpus.train, [], []
    for source, given, wanted in pairs.batches(50, 60, 10):
        sizes.append(len(source))
        for row in range(len(source)):
            assert given[row, 0] == START
            title = [word for word in given[row, 1:].tolist() if word != PAD]
            assert [word for word in wanted[row].tolist() if word != PAD] == [*title, END]
            shown.append(([word for word in source[row].tolist() if word != PAD], title))
    every = [(pairs.source.row(row).tolist(), pairs.title.row(row).tolist()) for row in range(len(pairs))]
    assert sorted(shown) == sorted(every)
    assert sorted(sizes)[1:] == [50] * (len(pairs) // 50)


def test_sentences_are_cut_and_empty_ones_are_an_end() -> None:
    ragged = data.Ragged.of([[], [5, 6, 7, 8]])
    pairs = data.Pairs(ragged, ragged, CPU)
    source, given, wanted = pairs.batch(np.array([0, 1]), 3, 3)
    assert source.tolist() == [[END, PAD, PAD], [5, 6, 7]]
    assert given.tolist() == [[START, PAD, PAD], [START, 5, 6]]
    assert wanted.tolist() == [[END, PAD, PAD], [5, 6, END]]
    (whole,) = pairs.in_order(2, 3)
    assert whole[2].tolist()[1] == [5, 6, 7, 8, END]


# ---- baselines -------------------------------------------------------------------------------------------------------

SOURCES = ["returns the tags of a lamp", "removes the tags of a table", "returns a big table"]
TITLES = ["get lamp tags", "delete table tags", "get table"]


def test_nearest_sentence() -> None:
    rows = [text.split() for text in SOURCES], [text.split() for text in TITLES]
    nearest = baselines.Nearest(*rows)
    asked = ["shows a big lamp big", "removes it", "nothing known"]
    found = nearest([text.split() for text in asked])
    assert [" ".join(title) for title in found] == ["get table", "delete table tags", "get lamp tags"]


def test_kept_words_by_hand() -> None:
    """Of 15 distinct words 5 are in the titles; "table" in 2 of 2 sentences, "the" in 0 of 2."""
    rows = [text.split() for text in SOURCES], [text.split() for text in TITLES]
    kept = baselines.Kept(*rows, verbs=True)
    usual = 5 / sum(len(set(row)) for row in rows[0])
    assert kept.share["table"] == pytest.approx((2 + 4 * usual) / 6)
    assert kept.share["the"] == pytest.approx(4 * usual / 6)
    kept.threshold = 0.4
    found = kept([["returns", "the", "table", "a", "table"], ["returns", "the", "zebra"]])
    assert [" ".join(title) for title in found] == ["get table", "get zebra"]


def test_the_best_lead_is_found() -> None:
    assert baselines.leads(["a b c d e f"], ["a b c d"]) == {"lead_4": 1.0}
