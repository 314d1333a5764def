"""One seed for everything random in a run.

What a seed promises: on one machine, with one version of torch and one number of threads, the same seed gives the same
run on the CPU. `--deterministic` makes torch refuse operations that have no deterministic form (and, on a GPU, choose
the deterministic form where there is one), so that the promise is checked instead of hoped for.
"""

from __future__ import annotations

import os
import random

import numpy as np
import torch

MAX_SEED = 2**32 - 1  # numpy's legacy generator takes no more


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and torch (all devices). `seed` is 0 .. 2**32 - 1."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def seed_worker(worker: int) -> None:
    """`worker_init_fn` of a DataLoader: torch gives each worker a seed of its own; Python and numpy take it over."""
    seed = torch.initial_seed() % (MAX_SEED + 1)
    random.seed(seed)
    np.random.seed(seed)


def be_deterministic() -> None:
    """Let torch raise an error at an operation without a deterministic form, on the CPU and on a GPU."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it before its first call
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
