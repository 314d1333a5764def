"""The text of a run, whichever it is: MLPerf's shards of Wikipedia, the excerpt in the gensim wheel, or made up."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from reference.common import runs, sources, wikipedia
from reference.common.errors import SetupError

from . import made_up, shards, words
from .pairs import Batch, Document, Masker, Masking, Sequences, Special, join, sequences, spread

DATASETS = ("wikipedia-20200101", "wikipedia-excerpt", "made-up")
EVALUATION_SEED = 12345  # of the held-out pairs and masks, in every run
EVALUATION_BLOCK = 100  # sequences masked at a time, whatever the batch size: the masks must not depend on it
EVALUATION_MASK_SHARE = 0.15  # of the words that can be masked
TITLE_PARTS, EVALUATION_PARTS, VALIDATION_PARTS = 12, (1,), (0,)  # of the excerpt's articles, by the MD5 of the title


@dataclass(frozen=True)
class Corpus:
    """Documents as sentences of word numbers. `parts` and `held_out` are functions that read them."""

    parts: Sequence[Callable[[], list[Document]]]
    held_out: Callable[[], list[Document]]
    special: Special
    spelled: Sequence[str]  # the word of each number


def look(run: runs.Run) -> None:
    """Raise SetupError, saying what was expected, for settings or files that are wrong; before the network is made."""
    settings = run.settings
    if settings.dataset not in DATASETS:
        raise SetupError(f"--dataset {settings.dataset}: unknown; known are {', '.join(DATASETS)}")
    if settings.held_out not in ("evaluation", "validation"):
        raise SetupError(f"--held-out {settings.held_out}: must be evaluation or validation")
    if settings.dataset == "wikipedia-20200101":
        if settings.held_out != "evaluation":
            raise SetupError("--held-out validation: only wikipedia-excerpt has a validation part")
        layout = shards.find(run.require_data_dir(shards.LAYOUT))
        words.read_wordpiece(layout.vocabulary, settings.vocab_size)
    if settings.init_checkpoint != "none":
        checkpoint_path(run)


def load(run: runs.Run) -> Corpus:
    """Read the data (the shards: open it), and tell the run how much there is and where it is from."""
    settings = run.settings
    if settings.dataset == "wikipedia-20200101":
        return load_shards(run)
    if settings.dataset == "made-up":
        train, held_out = (
            made_up.articles(60, seed=1),
            made_up.articles(12, seed=2 + (settings.held_out != "evaluation")),
        )
        origin = sources.generated("made-up", made_up.VERSION, *made_up.arrays(train + held_out))
    else:
        path, origin = wikipedia.excerpt(run.data_dir)
        train, held_out = excerpt_split(wikipedia.articles(path), settings.held_out)
    return load_articles(run, train, held_out, origin)


def excerpt_split(
    articles: list[wikipedia.Article], held_out: str
) -> tuple[list[wikipedia.Article], list[wikipedia.Article]]:
    """Articles to train on, and those held out: for the "evaluation", or for the "validation" out of the other ones."""
    train, evaluation = wikipedia.split(articles, TITLE_PARTS, EVALUATION_PARTS)
    if held_out == "validation":
        train, evaluation = wikipedia.split(train, TITLE_PARTS, VALIDATION_PARTS)
    if not train or not evaluation:
        raise SetupError(f"{len(train)} articles to train on and {len(evaluation)} to evaluate; both must be there")
    return train, evaluation


def load_articles(
    run: runs.Run, train: list[wikipedia.Article], held_out: list[wikipedia.Article], origin: sources.Source
) -> Corpus:
    """Whole words; the vocabulary is counted on the training articles alone."""
    if {title for title, _ in train} & {title for title, _ in held_out}:
        raise AssertionError("an article is in both the training and the held-out text")
    spelled, held_spelled = (
        [[words.whole_words(sentence) for sentence in words.text_sentences(text)] for _, text in part]
        for part in (train, held_out)
    )
    vocabulary = words.Words.counted((s for document in spelled for s in document), run.settings.vocab_size)
    documents, held_documents = (
        [vocabulary.numbers(document) for document in part] for part in (spelled, held_spelled)
    )
    corpus = Corpus([lambda: documents], lambda: held_documents, vocabulary.special, vocabulary.words)
    count = sum(len(sentence) for document in documents for sentence in document)
    room = run.settings.max_sequence_length - 3
    run.describe_data(-(-count // room), len(evaluation_texts(corpus, run)) * run.settings.eval_mask_sets, [origin])
    return corpus


def load_shards(run: runs.Run) -> Corpus:
    """Open a folder of text shards. What is not the published set is counted in articles and passes as another set."""
    folder = run.require_data_dir(shards.LAYOUT)
    layout = shards.find(folder)
    tokenizer = words.read_wordpiece(layout.vocabulary, run.settings.vocab_size)
    if layout.complete:
        train_samples = shards.TRAIN_SEQUENCES
    else:
        train_samples = sum(shards.count_documents(path) for path in layout.parts)
    corpus = Corpus(
        [lambda path=path: shards.documents(path, tokenizer) for path in layout.parts],
        functools.cache(lambda: shards.documents(layout.evaluation, tokenizer)),
        tokenizer.special,
        list(tokenizer.vocabulary),
    )
    origin = [shards.source(layout)]
    name = run.settings.init_checkpoint
    if name != "none":
        origin.append(sources.data_file(checkpoint_path(run), "phase-1 checkpoint", "given in --data-dir", folder))
    texts = len(evaluation_texts(corpus, run))
    run.describe_data(train_samples, texts * run.settings.eval_mask_sets, origin)
    return corpus


def checkpoint_path(run: runs.Run) -> Path:
    """The file of first weights in --data-dir. Raises SetupError where it is not there."""
    path = run.require_data_dir(shards.LAYOUT) / run.settings.init_checkpoint
    if not path.is_file():
        raise SetupError(
            f"--data-dir: no {path.name} in it, the weights that training starts from; expected: a file of"
            " torch.save with BertForPreTraining's tensors (--init-checkpoint NAME; open division: none)"
        )
    return path


def masking(run: runs.Run, share: float) -> Masking:
    hp = run.settings
    return Masking(share, hp.max_predictions_per_sequence, hp.mask_word_share, hp.random_word_share)


def stream(corpus: Corpus, run: runs.Run) -> Iterator[Batch]:
    """Training batches without end, all of global_batch_size sequences.

    A pass takes the parts in a new order; the sequences of a part are made anew, shuffled among each other, and masked
    as they are handed out.
    """
    size = run.settings.global_batch_size
    rng, pair_rng = np.random.default_rng(run.seed), random.Random(run.seed)
    masker = Masker(masking(run, run.settings.masked_lm_prob), run.settings.vocab_size, corpus.special)
    rest: Sequences | None = None
    while True:
        for part in rng.permutation(len(corpus.parts)):
            texts = sequences(corpus.parts[part](), run.settings.max_sequence_length, corpus.special, pair_rng)
            texts = texts.take(rng.permutation(len(texts)))
            rest = texts if rest is None else join(rest, texts)
            full = len(rest) - len(rest) % size
            for start in range(0, full, size):
                yield masker(rest.take(slice(start, start + size)), rng)
            rest = rest.take(slice(full, len(rest)))


def evaluation_texts(corpus: Corpus, run: runs.Run) -> Sequences:
    """The held-out sequences, unmasked: one pass over the held-out text, `eval_sequences` of it at even distances."""
    rng = random.Random(EVALUATION_SEED)
    made = sequences(corpus.held_out(), run.settings.max_sequence_length, corpus.special, rng)
    return spread(made, run.settings.eval_sequences)


def evaluation_batches(corpus: Corpus, run: runs.Run) -> list[Batch]:
    """The held-out sequences, `eval_mask_sets` times with different words masked, the same ones in every run."""
    hp, texts = run.settings, evaluation_texts(corpus, run)
    masker = Masker(masking(run, EVALUATION_MASK_SHARE), hp.vocab_size, corpus.special)
    rng = np.random.default_rng(EVALUATION_SEED)
    blocks = [texts.take(slice(start, start + EVALUATION_BLOCK)) for start in range(0, len(texts), EVALUATION_BLOCK)]
    made = [batch for block in blocks for batch in masker.disjoint(block, rng, hp.eval_mask_sets)]
    columns = (torch.cat(tensors).split(hp.eval_batch_size) for tensors in zip(*made, strict=True))
    return [Batch(*tensors) for tensors in zip(*columns, strict=True)]
