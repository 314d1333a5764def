"""Reference convergence points: ``python -m compliance.rcp make reference/<task>``.

``make`` writes a task's rcps.json from the logs in its evidence folder. Exit status 0: done; 1: the logs give no
reference points, with the reasons; 2: wrong call.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compliance import rcp_make
from compliance.benchmarks import FactsError


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        return _make(options.folder, options.out)
    except (rcp_make.EvidenceError, FactsError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"compliance.rcp: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compliance.rcp", description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    make = commands.add_parser("make", help="write rcps.json from evidence logs")
    make.add_argument("folder", type=Path, metavar="FOLDER", help="a task, its evidence, or any folder of logs (--out)")
    make.add_argument("--out", type=Path, metavar="FILE", help="default: rcps.json of the task, from all its evidence")
    return parser


def _make(folder: Path, out: Path | None) -> int:
    source, target = rcp_make.paths(folder, out)
    if not source.is_dir():
        raise rcp_make.EvidenceError(f"{source}: no such folder")
    text = rcp_make.make(source, target.parent)
    target.write_text(text, encoding="utf-8")
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
