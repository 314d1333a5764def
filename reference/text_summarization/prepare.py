"""Turn Gigaword's articles and titles into word numbers, with the 50,000 most frequent training words as known ones.

    python -m reference.text_summarization.prepare --data-dir GIGAWORD --out PREPARED

All other words keep a number of their own behind those: the model can't generate them, but it can copy them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/prepare.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

from reference.common.errors import SetupError

from . import data, gigaword

KNOWN = 50_000  # words with an embedding that can be generated, the special ones among them


def convert(folder: Path, out: Path, known: int) -> None:
    """Write the prepared folder `out`.

    Raises:
        SetupError: missing or unequal files, other counts than the published ones, or an `out` that is there already.
    """
    if out.exists() and any(out.iterdir()):
        raise SetupError(f"{out} exists and isn't empty; choose another --out")
    counts, pairs = gigaword.counted(folder)
    for mark in data.SPECIAL:
        counts.pop(mark, None)
    words = [*data.SPECIAL, *(word for word, _ in data.ordered(counts))]
    numbers = {word: number for number, word in enumerate(words)}
    out.mkdir(parents=True, exist_ok=True)
    for part in gigaword.TEXT:
        for side in gigaword.SIDES:
            print(f"{part}.{side}")
            lines = gigaword.lines(folder, part, side)
            gigaword.write(out, part, side, ([numbers.setdefault(w, len(numbers)) for w in line] for line in lines))
    text = json.dumps(list(numbers), ensure_ascii=False)
    (out / "words.json").write_text(text, encoding="utf-8")
    sizes = {path.name: path.stat().st_size for path in gigaword.files(out)}
    manifest = {"pairs": pairs, "known_words": min(known, len(words)), "bytes": sizes}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")  # last: all is there


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help=f"the published text: {gigaword.LAYOUT}")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--known-words", type=int, default=KNOWN, help="size of the vocabulary (default: %(default)s)")
    given = parser.parse_args(argv)
    try:
        if not given.data_dir.is_dir():
            raise SetupError(f"--data-dir {given.data_dir} is not a folder")
        convert(given.data_dir, given.out, given.known_words)
    except (SetupError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
