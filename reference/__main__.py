"""`python -m reference list` shows the tasks; `python -m reference run TASK...` trains them."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from reference.common import catalogue, machine, runner, system
from reference.common.errors import SetupError

RUN_EXAMPLES = """examples:
  python -m reference run spatial_transformer --seeds 5
  python -m reference run wc --profile smoke
  python -m reference run all --profile full --data-dir /data --org acme --system acme_x1
  python -m reference run spatial_transformer -- --opt-base-learning-rate 0.001

exit status: 0 every run reached its target, 1 at least one did not, 2 wrong call or something missing
"""


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    extra: list[str] = []
    if "--" in given:
        given, extra = given[: given.index("--")], given[given.index("--") + 1 :]
    arguments = _parser().parse_args(given)
    console = Console(highlight=False)
    try:
        if arguments.command == "list":
            return catalogue.show(console)
        return runner.run(_plan(arguments, extra), console)
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reference", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the tasks, their data, metrics and targets, and which data packages are there")
    raw = argparse.RawDescriptionHelpFormatter
    run = commands.add_parser("run", help="train tasks, one process a run", epilog=RUN_EXAMPLES, formatter_class=raw)
    run.add_argument("tasks", nargs="+", metavar="TASK", help="task names, a subset (rpr, wc), or all")
    run.add_argument("--profile", choices=catalogue.PROFILES, default="embedded", help="default: %(default)s")
    which = run.add_mutually_exclusive_group()
    which.add_argument("--seeds", type=_positive, metavar="N", help="N runs a task, with the seeds 1 to N (default: 1)")
    which.add_argument("--seed", type=int, metavar="S", help="one run a task, with this seed")
    run.add_argument("--workers", type=_positive, help="runs at a time (default: 2, or 1 with a GPU or one core)")
    run.add_argument("--threads", type=_positive, default=1, help="of each run (default: 1)")
    run.add_argument("--data-dir", type=Path, help="the real data sets, for the full profile")
    run.add_argument("--out", type=Path, default=Path("logs"), help="default: logs/")
    run.add_argument("--org", type=_folder_name, default="timetoaccuracy", help="who submits (default: %(default)s)")
    run.add_argument("--system", type=_folder_name, help="the system's name (default: from its processor or GPU)")
    run.add_argument("--division", choices=["closed", "open"], default="closed")
    run.add_argument("--status", choices=list(system.STATUS), default="onprem")
    run.add_argument("--overwrite", action="store_true", help="remove results of earlier runs of these tasks")
    return parser


def _plan(arguments: argparse.Namespace, extra: Sequence[str]) -> runner.Plan:
    tasks = catalogue.select(arguments.tasks, arguments.profile)
    one_at_a_time = (os.cpu_count() or 1) < 2 * arguments.threads or system.has_gpu()
    return runner.Plan(
        tasks=tuple(task.name for task in tasks),
        profile=arguments.profile,
        seeds=(arguments.seed,) if arguments.seed is not None else tuple(range(1, (arguments.seeds or 1) + 1)),
        workers=arguments.workers or (1 if one_at_a_time else 2),
        threads=arguments.threads,
        out=arguments.out.absolute(),
        org=arguments.org,
        system=arguments.system or machine.system_name(),
        division=arguments.division,
        status=arguments.status,
        data_dir=None if arguments.data_dir is None else arguments.data_dir.absolute(),
        overwrite=arguments.overwrite,
        extra=tuple(extra),
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def _folder_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} cannot name a folder: letters, digits and _ . + - only")
    return text


if __name__ == "__main__":
    raise SystemExit(main())
