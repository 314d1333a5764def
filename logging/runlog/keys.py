"""The key names a log may use.

Official names come from `mlperf_logging.mllog.constants`, so that they cannot drift. The suite's own keys, for facts
that MLPerf has no key for, are listed here and explained in logging/README.md.
"""

from __future__ import annotations

from typing import Final

from mlperf_logging.mllog import constants as official

# Submission
SUBMISSION_BENCHMARK: Final[str] = official.SUBMISSION_BENCHMARK
SUBMISSION_DIVISION: Final[str] = official.SUBMISSION_DIVISION
SUBMISSION_ORG: Final[str] = official.SUBMISSION_ORG
SUBMISSION_PLATFORM: Final[str] = official.SUBMISSION_PLATFORM
SUBMISSION_STATUS: Final[str] = official.SUBMISSION_STATUS

# The clock and what lies inside it
INIT_START: Final[str] = official.INIT_START
INIT_STOP: Final[str] = official.INIT_STOP
RUN_START: Final[str] = official.RUN_START
RUN_STOP: Final[str] = official.RUN_STOP
EPOCH_START: Final[str] = official.EPOCH_START
EPOCH_STOP: Final[str] = official.EPOCH_STOP
BLOCK_START: Final[str] = official.BLOCK_START
BLOCK_STOP: Final[str] = official.BLOCK_STOP
EVAL_START: Final[str] = official.EVAL_START
EVAL_STOP: Final[str] = official.EVAL_STOP
EVAL_ACCURACY: Final[str] = official.EVAL_ACCURACY

# What every run states
SEED: Final[str] = official.SEED
TRAIN_SAMPLES: Final[str] = official.TRAIN_SAMPLES
EVAL_SAMPLES: Final[str] = official.EVAL_SAMPLES
GLOBAL_BATCH_SIZE: Final[str] = official.GLOBAL_BATCH_SIZE

# Metadata
EPOCH_NUM: Final[str] = official.EPOCH_NUM
SAMPLES_COUNT: Final[str] = official.SAMPLES_COUNT
STATUS: Final[str] = official.STATUS
SUCCESS: Final[str] = official.SUCCESS
ABORTED: Final[str] = official.ABORTED

# The suite's own
BENCHMARK_PROFILE: Final = "benchmark_profile"
QUALITY_METRIC: Final = "quality_metric"
QUALITY_BETTER: Final = "quality_better"
QUALITY_TARGET: Final = "quality_target"
DATA_SOURCE: Final = "data_source"
BASELINE: Final = "baseline"
DEVICE: Final = "device"
WORLD_SIZE: Final = "world_size"
LOWEST_NUMERICAL_PRECISION: Final = "lowest_numerical_precision"
THREAD_COUNT: Final = "thread_count"
DETERMINISTIC: Final = "deterministic"
SOFTWARE: Final = "software"
SAMPLES_PER_SECOND: Final = "samples_per_second"
TIME_TO_TRAIN_MS: Final = "time_to_train_ms"
CPU_TIME_MS: Final = "cpu_time_ms"
EPOCH_TIME_MS: Final = "epoch_time_ms"
BLOCK_TIME_MS: Final = "block_time_ms"
PEAK_MEMORY_BYTES: Final = "peak_memory_bytes"
PEAK_DEVICE_MEMORY_BYTES: Final = "peak_device_memory_bytes"

EVALUATED_SAMPLES: Final = "evaluated_samples"
REASON: Final = "reason"

# Numbers under these keys are judged wherever they stand. Everything before run_start is judged as well.
JUDGED: Final = frozenset(
    {EVAL_ACCURACY, SEED, TRAIN_SAMPLES, EVAL_SAMPLES, QUALITY_TARGET, SAMPLES_PER_SECOND}
    | {TIME_TO_TRAIN_MS, CPU_TIME_MS, EPOCH_TIME_MS, BLOCK_TIME_MS, PEAK_MEMORY_BYTES}
)
