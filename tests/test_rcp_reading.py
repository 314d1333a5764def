"""Reading logs for convergence points as MLPerf's tool does."""

import pytest

from compliance import loglines, rcp_runs
from tests.scored_logs import mllog


def official(*lines, version="5.1.0", **more):
    return rcp_runs.official_run(loglines.parse("\n".join(lines).encode()), version, **more)


GOOD = (
    mllog("submission_benchmark", "resnet"),
    mllog("global_batch_size", 64),
    mllog("eval_accuracy", 0.1, epoch_num=1),
    mllog("eval_accuracy", 0.9, epoch_num=2.00049),
    mllog("run_stop", status="success"),
)


def test_official_reading():
    assert official(*GOOD) == rcp_runs.Convergence(2.0, True, 64, "resnet")
    aborted = (*GOOD[:-1], mllog("run_stop", status="aborted"))
    assert official(*aborted) == rcp_runs.Convergence(1e9, False, 64, "resnet")
    assert official(*GOOD[:-1]) == rcp_runs.Convergence(1e9, False, 64, "resnet")
    samples = (mllog("submission_benchmark", "flux1"), mllog("eval_accuracy", 1, samples_count=512), GOOD[-1])
    assert official(*samples).value == 512
    bert = (mllog("submission_benchmark", "bert"), mllog("train_samples", 7), GOOD[-1])
    assert official(*bert, bert_samples=True).value == 7


def test_official_reading_finds_words_in_values_too():
    assert official(mllog("note", "global_batch_size"), *GOOD[2:]).batch_size == "global_batch_size"
    assert official(*GOOD[:4], mllog("eval_accuracy_of_training", 1, epoch_num=9), GOOD[4]).value == 9
    assert official(*GOOD[:4], "global_batch_size outside of any record", GOOD[4]).batch_size == 64


def test_two_metrics_are_joined_by_progress():
    def lines(unit):
        out = [mllog("submission_benchmark", "stable_diffusion"), mllog("global_batch_size", 512)]
        for step, fid, clip in ((1, 95.0, 0.2), (2, 89.0, 0.14), (3, 89.0, 0.16), (4, 50.0, 0.3)):
            out.append(mllog("eval_error", fid, metric="FID", **{unit: step}))
            out.append(mllog("eval_accuracy", clip, metric="CLIP", **{unit: step}))
        return [*out, GOOD[-1]]

    assert official(*lines("step_num"), version="3.1.0").value == 3
    assert official(*lines("samples_count"), version="4.0.0").value == 3


@pytest.mark.parametrize(
    "lines",
    [
        (GOOD[0], mllog("eval_accuracy", 0.9, samples_count=2), GOOD[-1]),
        (GOOD[0], mllog("eval_accuracy", 0.9, epoch_num="two"), GOOD[-1]),
        (*GOOD[:4], mllog("run_stop")),
        (*GOOD[:4], ':::MLLOG ["run_stop"]'),
        (*GOOD[:4], ':::MLLOG {"key": "run_stop"'),
        (GOOD[0], GOOD[-1]),
    ],
)
def test_what_ends_the_official_tool_is_unreadable(lines):
    with pytest.raises(rcp_runs.Unreadable):
        official(*lines)
