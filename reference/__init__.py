"""The reference tasks, one folder each, and the mechanics that they share in `common`.

`python -m reference list` shows them, `python -m reference run TASK` trains them.
"""

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("runlog") is None:  # a clone that is not installed: runlog lies in logging/
    sys.path.append(str(Path(__file__).resolve().parents[1] / "logging"))
