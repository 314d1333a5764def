"""This machine and its software, as far as a log or a system description may tell. Never a host or user name."""

from __future__ import annotations

import functools
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def processor() -> str:
    """The processor's name as the operating system gives it; "" where that cannot be read."""
    try:  # Linux: quicker by a second than asking py-cpuinfo
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        if found:
            return found.group(1).strip()
    except OSError:
        pass
    try:
        import cpuinfo
    except ImportError:
        return platform.processor()
    return str(cpuinfo.get_cpu_info().get("brand_raw", ""))


@functools.lru_cache(maxsize=1)
def system_name() -> str:
    """A name for this kind of system, made from its processor and GPU, fit for a folder: "xeon_platinum_8488c"."""
    import torch

    parts = [torch.cuda.get_device_name(0)] if torch.cuda.is_available() else [processor()]
    text = re.sub(
        r"\((r|tm|c)\)|\b(cpu|processor|intel|amd|nvidia|genuineintel|authenticamd)\b|@.*", " ", parts[0].lower()
    )
    return re.sub(r"[^a-z0-9]+", "_", text).strip("_") or "unnamed_system"


def software() -> dict[str, object]:
    """Versions that a result depends on, and the commit of this project where it is a git clone (else None)."""
    import numpy
    import torch

    commit, dirty = _git()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "timetoaccuracy": _own_version(),
        "git_commit": commit,
        "git_dirty": dirty,
    }


def _own_version() -> str | None:
    """The one version of code, rules and results, read as text: this package doesn't import the checker."""
    try:
        text = (ROOT / "compliance" / "__init__.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r'__version__ = "([^"]+)"', text)
    return found.group(1) if found else None


def _git() -> tuple[str | None, bool | None]:
    if not (ROOT / ".git").exists():
        return None, None
    try:
        commit = _output("git", "rev-parse", "HEAD")
        changed = _output("git", "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None, None
    return commit, bool(changed)


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def peak_memory_bytes() -> int | None:
    """The most memory this process has held so far (resident set), or None where that cannot be read."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024
