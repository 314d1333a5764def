"""Image compression: the codecs without a network, the digits, and ImageNet's layout. All pictures are made up."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import baselines, data, digits, imagenet

# ---- baselines -------------------------------------------------------------------------------------------------------


def test_a_quantiser_of_two_values_finds_them() -> None:
    book, error = baselines.lloyd_max(np.array([1.0, 1.2, 5.0, 5.2]), 1)
    assert book == pytest.approx([1.1, 5.1])
    assert error == pytest.approx(0.01)


def test_bits_go_where_they_gain_most() -> None:
    rng = np.random.default_rng(0)
    fit = rng.normal(size=(4000, 3)) * [16.0, 4.0, 1.0]
    for budget, expected in ((2, [4, 1, 1]), (8, [32, 8, 1]), (11, [64, 16, 2])):
        coded = baselines._allocated(fit, budget)(fit)
        levels = [len(np.unique(coded[:, column])) for column in range(3)]
        assert levels == expected, budget
        assert sum(math.log2(level) for level in levels) <= budget


def test_the_cosine_transform_is_orthonormal_and_its_first_column_the_mean() -> None:
    basis = baselines.cosines(4, 2)
    np.testing.assert_allclose(basis.T @ basis, np.eye(32), atol=1e-12)
    np.testing.assert_allclose(basis[:, 0], np.repeat([0.25, 0.0], 16))


def test_more_bits_make_every_codec_better() -> None:
    tiles = data.tiles(torch.from_numpy(digits.drawn(400)[0]), 16)
    errors = {}
    for budget in (16, 48):
        for name, code in baselines.codecs(tiles[:300], budget, 16).items():
            errors[name, budget] = np.square(code(tiles[300:]) - tiles[300:]).mean()
    names = {name for name, _ in errors}
    assert names == {
        "training_mean_0_bits",
        "pca_6_bits_each",
        "pca_allocated",
        "dct_allocated",
        "k_means_in_stages",
    }
    for name in names - {"training_mean_0_bits"}:
        assert errors[name, 48] < errors[name, 16] < errors["training_mean_0_bits", 16]


def test_tiles_and_back() -> None:
    true = torch.randint(0, 256, (2, 3, 32, 48), dtype=torch.uint8)
    cut = data.tiles(true, 16)
    assert cut.shape == (12, 768)
    assert torch.equal(data.pictures_of(cut, true, 16), true)


# ---- data ------------------------------------------------------------------------------------------------------------


def test_digits_are_halved_with_a_border() -> None:
    image = np.zeros((1, 28, 28), np.uint8)
    image[0, :2, :2] = [[0, 100], [200, 60]]
    small = digits.halved(image)
    assert small.shape == (1, 1, 16, 16)
    assert small[0, 0, 1, 1] == 90
    assert small.sum() == 90


def test_one_pass_shows_every_picture_once_and_both_parts_are_apart() -> None:
    images = digits.drawn(23)[0]
    train_part, held_out = data.split(images, 20, 3)
    batches = list(data.InMemory(torch.from_numpy(train_part)).batches(8, torch.device("cpu")))
    assert [len(batch) for batch in batches] == [8, 8, 4]
    assert {b.numpy().tobytes() for batch in batches for b in batch} == {image.tobytes() for image in train_part}
    with pytest.raises(ValueError, match="in the training set and in the held-out set"):
        data.split(np.concatenate([images, images[:1]]), 20, 4)
    with pytest.raises(ValueError, match="23 pictures are not"):
        data.split(images, 20, 4)
    assert len(held_out) == 3


def made_up_imagenet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six training and four validation pictures, one of them smaller than a crop, in the owners' layout."""
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    monkeypatch.setattr(imagenet, "COUNTS", {"train": 6, "val": 4})
    monkeypatch.setattr(imagenet, "EVAL_EVERY", 2)
    monkeypatch.setattr(imagenet, "WORKERS", 0)
    monkeypatch.setattr(imagenet.Crops.__init__, "__defaults__", (0,))
    rng = np.random.default_rng(0)
    names = [f"train/n{k % 2:08d}/n{k % 2:08d}_{k}.JPEG" for k in range(6)] + [f"val/ILSVRC_{k}.JPEG" for k in range(4)]
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        size = (20, 50, 3) if number == 0 else (260, 300 + number, 3)
        image.fromarray(rng.integers(0, 256, size, np.uint8)).save(path)


def test_imagenet_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_imagenet(tmp_path, monkeypatch)
    crops, held_out, found = imagenet.load(tmp_path, 32, validation=False)
    assert (len(crops), tuple(held_out.shape)) == (6, (2, 3, 256, 256))
    assert [source.file for source in found] == ["train", "val"]
    torch.manual_seed(0)
    assert all(crops[k].shape == (3, 32, 32) for k in range(6))
    assert not torch.equal(crops[1], crops[1])  # the place is drawn anew
    (tmp_path / "val" / "ILSVRC_2.JPEG").write_bytes(b"not a picture")
    with pytest.raises(SetupError, match=r"ILSVRC_2.JPEG: cannot be read"):
        imagenet.load(tmp_path, 32, validation=False)
    (tmp_path / "val" / "ILSVRC_2.JPEG").unlink()
    with pytest.raises(SetupError, match=r"expected 4 pictures \(\*.JPEG\), found 3"):
        imagenet.load(tmp_path, 32, validation=False)
