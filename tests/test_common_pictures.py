"""Sheets of pictures: what is written reads back, and what cannot be written is said."""

import numpy as np
import pytest
import torch

from reference.common import pictures
from reference.common.errors import SetupError

Image = pytest.importorskip("PIL.Image")


def test_a_sheet_reads_back(tmp_path):
    """Two rows of two pictures of 1 x 2 pixels, each pixel drawn 2 x 2."""
    black, white = torch.full((3, 1, 2), -1.0), torch.full((3, 1, 2), 1.5)
    path = tmp_path / "new" / "sheet.png"
    pictures.write_sheet(path, [torch.stack([black, white]), torch.stack([white, black])], zoom=2)
    read = np.asarray(Image.open(path))
    assert read.shape == (4, 8, 3)
    assert read[:2, :4].max() == 0
    assert read[:2, 4:].min() == 255
    assert np.array_equal(read[2:], 255 - read[:2])


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot write"):
        pictures.write_sheet(tmp_path / "file" / "sheet.png", [torch.zeros(1, 3, 2, 2)])
