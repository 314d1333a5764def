"""Image to text: words, scenes and what is told of them, COCO's layout, and the counts that the baselines are.

All pictures and captions here are made up.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import baselines, coco, scenes, words


def test_words() -> None:
    assert words.split("A man's dog, well-fed; 2 cats!") == [
        "a",
        "man's",
        "dog",
        ",",
        "well-fed",
        ";",
        "2",
        "cats",
        "!",
    ]
    vocabulary = words.Vocabulary([["b", "a"], ["a", "c", "a"], ["b"]], min_count=2)
    assert vocabulary.words == [*words.SPECIAL, "a", "b"]
    assert vocabulary.numbers(["b", "c", "a"]) == [5, words.UNKNOWN, 4]
    assert vocabulary.text([5, 4]) == "b a"


# ---- scenes ----------------------------------------------------------------------------------------------------------


def thing(colour: int, shape: int, row: float, column: float) -> scenes.Thing:
    return scenes.Thing(colour, shape, row, column, 5.0)


def test_what_is_told_is_true() -> None:
    red, blue = thing(0, 0, 8, 7), thing(2, 1, 12, 24)
    assert scenes.relation(red, blue) == "left of"
    assert scenes.relation(blue, red) == "right of"
    assert scenes.relation(thing(0, 0, 8, 7), thing(2, 1, 25, 12)) == "above"
    assert scenes.told([red, blue]) == [
        "a red circle left of a blue square",
        "there is a blue square right of a red circle",
        "two shapes : a red circle and a blue square",
        "the blue square is right of the red circle",
        "a picture of a red circle left of a blue square",
    ]
    assert scenes.told([thing(5, 3, 25, 7)])[0] == "a white cross at the bottom left"
    assert len(scenes.ONE) == len(scenes.TWO) == 5


def test_a_relation_and_its_opposite_are_told_together() -> None:
    opposites = dict(zip(scenes.RELATIONS, scenes.RELATIONS[2:] + scenes.RELATIONS[:2], strict=True))
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(200):
        things = scenes.arranged(rng)
        if len(things) == 2:
            seen.add(scenes.relation(*things))
            assert scenes.relation(*reversed(things)) == opposites[scenes.relation(*things)]
            assert not (scenes.covered(things[0]) & scenes.covered(things[1])).any()
    assert seen == {"left of", "above"}  # the first is the one further left or up


def test_scenes_know_their_seed_and_show_their_colours() -> None:
    pictures, captions = scenes.scenes(60, 9)
    again, told = scenes.scenes(3, 9)
    assert np.array_equal(pictures[:3], again)
    assert captions[:3] == told
    assert not np.array_equal(again, scenes.scenes(3, 10)[0])
    reds = [picture for picture, own in zip(pictures, captions, strict=True) if "red" in own[0]]
    others = [picture for picture, own in zip(pictures, captions, strict=True) if "red" not in own[0]]

    def reddest(picture: np.ndarray) -> float:
        return float((picture[:, :, 0].astype(float) - picture[:, :, 1:].max(axis=2)).max())

    assert np.mean([reddest(p) for p in reds]) > 50 + np.mean([reddest(p) for p in others])


# ---- COCO ------------------------------------------------------------------------------------------------------------


def made_up_coco(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four training pictures with two captions each and two validation ones with two, in the owners' layout."""
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    monkeypatch.setattr(coco, "COUNTS", {"train": (4, 8), "val": (2, 4)})
    rng = np.random.default_rng(0)
    (folder / "annotations").mkdir(parents=True)
    for part, count in (("train", 4), ("val", 2)):
        images, annotations = [], []
        (folder / f"{part}2014").mkdir()
        for number in range(count, 0, -1):  # not in order
            name = f"COCO_{part}2014_{number:012d}.jpg"
            shape = (90, 70 + number, 3) if number != 2 else (80, 90)  # one of them grey
            image.fromarray(rng.integers(0, 256, shape, np.uint8)).save(folder / f"{part}2014" / name)
            images.append({"id": number, "file_name": name})
            for k in range(2):
                text = f"A Cat {'sits' if k else 'stands'} on {number} mats."
                annotations.append({"id": 10 * number + k, "image_id": number, "caption": text})
        facts = {"info": {}, "images": images, "annotations": annotations[::-1]}
        (folder / "annotations" / f"captions_{part}2014.json").write_text(json.dumps(facts))


def test_coco_pictures_and_captions_belong_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_coco(tmp_path, monkeypatch)
    (pictures, captions), (held_out, _), found = coco.load(tmp_path, 64, validation=False)
    assert (len(pictures), len(held_out)) == (4, 2)
    assert captions[0] == ["A Cat stands on 1 mats.", "A Cat sits on 1 mats."]
    assert pictures.paths[0].name == "COCO_train2014_000000000001.jpg"
    assert pictures.picture(0, training=False).shape == pictures.picture(1, training=True).shape == (3, 64, 64)
    assert torch.equal(pictures.picture(0, training=False), pictures.picture(0, training=False))
    torch.manual_seed(0)
    assert not torch.equal(pictures.picture(0, training=True), pictures.picture(0, training=True))
    assert [source.file for source in found] == [
        "annotations/captions_train2014.json",
        "annotations/captions_val2014.json",
    ]
    (own, _), (taken, _), _ = coco.load(tmp_path, 64, validation=True)
    assert not set(own.paths) & set(taken.paths)


def test_coco_that_is_not_whole_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_coco(tmp_path, monkeypatch)
    (tmp_path / "val2014" / "COCO_val2014_000000000002.jpg").rename(tmp_path / "away.jpg")
    with pytest.raises(SetupError, match="1 of 2 pictures are missing, COCO_val2014_000000000002.jpg"):
        coco.load(tmp_path, 64, validation=False)
    path = tmp_path / "annotations" / "captions_train2014.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "annotations": facts["annotations"][:-1]}))
    with pytest.raises(SetupError, match="expected 4 pictures and 8 captions, found 4 and 7"):
        coco.load(tmp_path, 64, validation=False)
    path.write_text(json.dumps({**facts, "images": facts["images"][1:]}))
    with pytest.raises(SetupError, match="captions of pictures that it doesn't list"):
        coco.load(tmp_path, 64, validation=False)
    path.write_text('{"images": []}')
    with pytest.raises(SetupError, match="not COCO's caption annotations"):
        coco.load(tmp_path, 64, validation=False)


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_counts_by_hand() -> None:
    """Captions "4 5" and "4": Witten-Bell over an even chance of 4 words."""
    one = baselines.Counts([[4, 5], [4]], 1, vocabulary=4)  # 4 twice, 5 once, END twice
    assert one.probability([], 4) == pytest.approx((2 + 3 * 0.25) / 8)
    two = baselines.Counts([[4, 5], [4]], 2, vocabulary=4)
    assert two.probability([4], 5) == pytest.approx((1 + 2 * (1 + 3 * 0.25) / 8) / 4)
    assert two.probability([7], 5) == pytest.approx((1 + 3 * 0.25) / 8)  # after an unseen word: the single words
    following = [words.END, words.UNKNOWN, 4, 5]
    for before in ([words.START], [4], [5]):
        assert sum(two.probability(before, token) for token in following) == pytest.approx(1)
    by_hand = [two.probability([words.START], 4), two.probability([4], words.END)]
    assert baselines.perplexity(two, [[4]]) == pytest.approx(math.exp(-sum(map(math.log, by_hand)) / 2))


def test_higher_orders_know_more_and_neighbours_know_the_picture() -> None:
    pictures, told = scenes.scenes(330, 4)
    split = [[words.split(text) for text in own] for own in told]
    vocabulary = words.Vocabulary((caption for own in split for caption in own), 1)
    numbers = [[vocabulary.numbers(caption) for caption in own] for own in split]
    train, held_out = numbers[:300], numbers[300:]
    flat = [[caption for own in part for caption in own] for part in (train, held_out)]
    values = baselines.language_models(*flat, len(vocabulary), (1, 2, 3))
    assert values["1-gram"] > values["2-gram"] > values["3-gram"]
    rows = baselines.reduced(torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1)
    near = baselines.nearest(rows[:300], rows[300:], 100)
    assert near.shape == (30, 100)
    torch.testing.assert_close(baselines.nearest(rows[:300], rows[:5], 1).flatten(), torch.arange(5))
    by_picture = baselines.neighbour_perplexities(train, held_out, near, len(vocabulary))
    assert set(by_picture) == {"5-gram_of_5_nearest", "5-gram_of_50_nearest"}
    assert min(by_picture.values()) < values["3-gram"]


def test_the_best_constant_is_found() -> None:
    references = [["a b c d", "x y"], ["a b c e", "p q"]]
    text, score = baselines.best_constant(["p q", "a b c d", "p q", "m n o p"], references)
    assert text == "a b c d"
    assert 50 < score < 100
