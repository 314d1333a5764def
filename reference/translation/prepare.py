"""Make a shared sub-word vocabulary of WMT 2014's English and German text and write everything as token numbers.

    python -m reference.translation.prepare --data-dir WMT --out PREPARED

Byte-pair encoding (Sennrich, Haddow and Birch, ACL 2016) over both languages together, 37,000 pieces as in the paper,
by the package tokenizers, which only this program needs. Training reads PREPARED and learns nothing of the test set
here: pieces are counted on the training text alone.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: python reference/<task>/prepare.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

from reference.common.errors import SetupError

from . import data, wmt

PIECES = 37_000
BLOCK = 100_000  # sentences encoded at once


def learned(folder: Path, pieces: int) -> Any:
    """A tokenizer of `pieces` pieces, SPECIAL first, learned from the training text of both languages."""
    try:
        import tokenizers
    except ImportError:
        raise SetupError("preparing needs the package tokenizers: pip install tokenizers") from None
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    made.normalizer = tokenizers.normalizers.NFC()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(replacement=wmt.BLANK, prepend_scheme="always")
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=pieces, special_tokens=data.SPECIAL, limit_alphabet=1000, show_progress=sys.stderr.isatty()
    )
    text = (side for part in wmt.TRAIN_PARTS for pair in wmt.pairs(folder, part) for side in pair)
    made.train_from_iterator(text, trainer)
    return made


def convert(folder: Path, out: Path, pieces: int) -> dict[str, int]:
    """Write the prepared folder `out` and return its numbers of pairs.

    Raises:
        SetupError: missing or unequal files, other counts than the published ones, or an `out` that is there already.
    """
    if out.exists() and any(out.iterdir()):
        raise SetupError(f"{out} exists and isn't empty; choose another --out")
    parts = {"train": wmt.TRAIN_PARTS, "newstest2013": ("newstest2013",), "newstest2014": ("newstest2014",)}
    counts = {name: sum(1 for part in parts[name] for _ in wmt.pairs(folder, part)) for name in reversed(parts)}
    if counts != wmt.COUNTS:
        raise SetupError(f"{folder}: expected pairs with text on both sides {wmt.COUNTS}, found {counts}")
    tokenizer = learned(folder, pieces)
    out.mkdir(parents=True, exist_ok=True)
    for name, of in parts.items():
        text = [pair for part in of for pair in wmt.pairs(folder, part)]
        for side, language in enumerate(("en", "de")):
            rows: list[list[int]] = []
            for start in range(0, len(text), BLOCK):
                encoded = tokenizer.encode_batch([pair[side] for pair in text[start : start + BLOCK]])
                rows += [one.ids for one in encoded]
                print(f"\r{name}.{language}: {len(rows):,} sentences", end="", flush=True)
            print()
            wmt.write(out, name, language, rows)
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    (out / "vocabulary.json").write_text(json.dumps([word for word, _ in words], ensure_ascii=False), encoding="utf-8")
    sizes = {path.name: path.stat().st_size for path in wmt.files(out)}
    manifest = {"pairs": counts, "bytes": sizes, "tokenizers": importlib.metadata.version("tokenizers")}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")  # last: all is there
    return counts


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help=f"the published text: {wmt.LAYOUT}")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--pieces", type=int, default=PIECES, help="size of the vocabulary (default: %(default)s)")
    given = parser.parse_args(argv)
    try:
        if not given.data_dir.is_dir():
            raise SetupError(f"--data-dir {given.data_dir} is not a folder")
        convert(given.data_dir, given.out, given.pieces)
    except (SetupError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
