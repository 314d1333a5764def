"""Made-up data for the tests: samples, and files in the layouts of Criteo's logs and of MovieLens-100K."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from .samples import Samples


def samples(count: int, table_rows: tuple[int, ...] = (5, 7, 3), numbers: int = 4) -> Samples:
    rng = np.random.default_rng(3)
    categories = np.stack([rng.integers(0, rows, count) for rows in table_rows], axis=1)
    dense = rng.normal(size=(count, numbers)).astype(np.float32)
    return Samples((rng.random(count) < 0.4).astype(np.float32), dense, categories, table_rows)


def row(label: int, integers: dict[int, int], codes: dict[int, str]) -> str:
    """A line of Criteo's text with these integers and codes by place, all others empty."""
    fields = [str(label), *(str(integers.get(i, "")) for i in range(13)), *(codes.get(i, "") for i in range(26))]
    return "\t".join(fields)


def lines(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)

    def line(number: int) -> str:
        integers = {i: int(rng.integers(-2, 3000)) for i in range(13) if rng.random() < 0.7}
        codes = {i: f"{int(rng.zipf(1.5)) * 2654435761 % 2**32:08x}" for i in range(26) if rng.random() < 0.9}
        return row(int(number % 3 == 0), integers, codes)

    return [line(number) for number in range(count)]


def terabyte(folder: Path, rows_a_day: int = 6) -> Path:
    folder.mkdir()
    for day in range(24):
        text = "\n".join(lines(rows_a_day + day % 2, seed=day)) + "\n"
        if day % 5 == 4:
            (folder / f"day_{day}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / f"day_{day}").write_text(text)
    return folder


def films(folder: Path, users: int = 8, items: int = 10) -> Path:
    """A made-up data set in the layout of ml-100k."""
    rng = np.random.default_rng(9)
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float"
    stars = [f"{u}\t{i}\t{rng.integers(1, 6)}\t{800 + u * i}" for u in range(1, users + 1) for i in range(1, items + 1)]
    (folder / "ml-100k.inter").write_text("\n".join([header, *stars]) + "\n")
    header = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq"
    about = [
        f"{i}\tFilm {i}\t{'' if i == 2 else 1980 + i}\t{'Drama Comedy' if i % 2 else 'War'}"
        for i in range(1, items + 1)
    ]
    (folder / "ml-100k.item").write_text("\n".join([header, *about]) + "\n")
    header = "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token"
    people = [f"{u}\t{20 + u}\t{'MF'[u % 2]}\tjob{u % 3}\t{u % 4}5711" for u in range(1, users + 1)]
    (folder / "ml-100k.user").write_text("\n".join([header, *people]) + "\n")
    return folder
