"""runlog: the log of one training run, in MLPerf's line format.

    with open_log("result_0.txt", root=PROJECT) as log:
        log.event(keys.SEED, 1)
        with log.clock() as outcome:
            with log.interval("epoch", {keys.EPOCH_NUM: 1}):
                ...
            outcome.status = keys.SUCCESS

The format and all keys: logging/README.md.
"""

from runlog import keys
from runlog.signals import Stopped, end_by, stopping
from runlog.values import plain
from runlog.writer import LogExistsError, Outcome, RunLog, open_log

__all__ = ["LogExistsError", "Outcome", "RunLog", "Stopped", "end_by", "keys", "open_log", "plain", "stopping"]
