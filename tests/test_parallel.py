"""Pieces of work on several processes: every result once, in order, whatever becomes of a process."""

import os
import signal
import sys
import threading
import time

import pytest

from compliance.parallel import MOST_TICKETS, RESULTS_AT_ONCE, spread

HERE = os.getpid()


@pytest.fixture(params=["forked", "pooled"])
def way(request, monkeypatch):
    """Both ways of using several processes; which is taken depends on the system and on threads."""
    if request.param == "forked" and sys.platform != "linux":
        pytest.skip("processes are forked on Linux only")
    monkeypatch.setattr(threading, "active_count", lambda: 1 if request.param == "forked" else 2)
    monkeypatch.setattr("tests.test_parallel.HERE", os.getpid())
    return request.param


def square(number):
    return number * number


def who(number):
    time.sleep(0.01)
    return os.getpid()


def fail_at_seven(number):
    if number == 7:
        raise ValueError("seven")
    return number


def die_elsewhere(number):
    """End any process but the calling one, before it could send anything."""
    if os.getpid() != HERE:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.001)
    return -number


def die_later(number):
    """As `die_elsewhere`, in the middle of the work."""
    if number > RESULTS_AT_ONCE * 3 and os.getpid() != HERE:
        os.kill(os.getpid(), signal.SIGKILL)
    return -number


@pytest.fixture
def forked(monkeypatch):
    if sys.platform != "linux":
        pytest.skip("processes are forked on Linux only")
    monkeypatch.setattr(threading, "active_count", lambda: 1)


@pytest.mark.parametrize("jobs", [1, 2, 3, 50])
@pytest.mark.parametrize("pieces", [0, 1, 2, 7, 2 * MOST_TICKETS + 1])
def test_results_are_in_the_order_of_the_pieces(forked, jobs, pieces):
    assert_squares(jobs, pieces)


def test_results_are_in_the_order_of_the_pieces_everywhere(way):
    assert_squares(2, 70)


def assert_squares(jobs, pieces):
    seen = []
    weights = [n % 5 for n in range(pieces)]
    assert spread(square, range(pieces), weights, jobs, seen.append) == [n * n for n in range(pieces)]
    assert seen == sorted(seen)
    assert seen[-1:] == ([pieces] if pieces else [])


def test_every_process_works(way):
    processes = set(spread(who, range(40), [1] * 40, 3))
    assert len(processes) == 3 if way == "forked" else len(processes) > 1
    assert (os.getpid() in processes) == (way == "forked")


def test_large_pieces_are_begun_first(forked):
    began = spread(lambda n: (time.sleep(0.01), time.monotonic())[1], range(6), [1, 9, 2, 8, 3, 7], 2)
    assert max(began[n] for n in (1, 3, 5)) < min(began[n] for n in (0, 2, 4))


def test_what_the_work_raises_is_raised(way):
    with pytest.raises(ValueError, match="seven"):
        spread(fail_at_seven, range(20), [1] * 20, 2)
    assert_no_process_left()


@pytest.mark.parametrize("work", [die_elsewhere, die_later])
def test_pieces_of_a_process_that_was_ended_are_done_again(way, work):
    pieces = range(RESULTS_AT_ONCE * 8)
    seen = []
    assert spread(work, pieces, [1] * len(pieces), 2, seen.append) == [-n for n in pieces]
    assert seen == sorted(seen)
    assert seen[-1] == len(pieces)
    assert_no_process_left()


def test_an_interrupt_ends_every_process(forked):
    def interrupted(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spread(who, range(2000), [1] * 2000, 3, interrupted)
    assert_no_process_left()


def test_results_that_cannot_be_sent_are_made_here(forked):
    assert [one() for one in spread(lambda n: lambda: n, range(9), [1] * 9, 2)] == list(range(9))


def assert_no_process_left():
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
