"""What runs side by side keeps its order, and ends together."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time

import numpy as np
import pytest

from stancoreset.parallel import (
    THREADS_VARIABLE,
    available_cores,
    ending_with_others,
    map_rows,
    side_by_side,
    single_threaded,
)
from stancoreset.rows.tables.passes import ordered


class Sleepers:
    """Processes that would sleep for a minute."""

    def __init__(self):
        self.started, self.ended = threading.Semaphore(0), threading.Semaphore(0)
        self.codes = []

    def sleep(self, _=None):
        with subprocess.Popen(["sleep", "60"]) as process, ending_with_others(process.kill):
            self.started.release()
            self.codes.append(process.wait())
        self.ended.release()

    def wait_for(self, count):
        for _ in range(count):
            assert self.started.acquire(timeout=30)

    def assert_killed(self, at_least):
        for _ in range(at_least):
            assert self.ended.acquire(timeout=30)
        assert set(self.codes) == {-signal.SIGKILL}


def test_results_come_in_the_order_of_the_items():
    def slow_at_first(item):
        time.sleep(0.05 / (1 + item))
        return item**2

    for threads in (1, 3, 50):
        assert side_by_side(slow_at_first, range(7), threads) == [i**2 for i in range(7)]
    assert side_by_side(abs, [], 2) == []
    rows = np.arange(10.0).reshape(5, 2)
    assert map_rows(np.sum, rows, 2) == [1, 5, 9, 13, 17]


def test_no_more_threads_than_asked_for():
    lock, running, most = threading.Lock(), 0, 0

    def work(_):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    side_by_side(work, range(12), 3)
    assert most == 3


@pytest.mark.parametrize("run", [side_by_side, lambda *args: list(ordered(*args))])
def test_the_first_error_is_raised_and_ends_the_others(run):
    sleepers = Sleepers()

    def work(item):
        if item is None:
            sleepers.wait_for(2)
            raise ValueError("the first")
        sleepers.sleep()
        raise RuntimeError("its consequence")

    with pytest.raises(ValueError, match="the first"):
        run(work, [0, 1, None, *range(20)], 3)
    sleepers.assert_killed(at_least=2)
    assert len(sleepers.codes) == 2  # others were never begun


def test_a_team_within_a_team_ends_with_it():
    sleepers = Sleepers()

    def work(item):
        if item is None:
            sleepers.wait_for(2)
            raise ValueError("outside")
        side_by_side(sleepers.sleep, [0, 1], 2)

    with pytest.raises(ValueError, match="outside"):
        side_by_side(work, [0, None], 2)
    sleepers.assert_killed(at_least=2)


@pytest.mark.parametrize("run", [side_by_side, lambda *args: list(ordered(*args))])
def test_an_interrupt_ends_all(run):
    sleepers = Sleepers()

    def interrupt():
        sleepers.wait_for(2)
        os.kill(os.getpid(), signal.SIGINT)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    with pytest.raises(KeyboardInterrupt):
        run(sleepers.sleep, range(5), 2)
    waiting.join()
    sleepers.assert_killed(at_least=2)


def test_a_stream_that_is_left_early_ends():
    sleepers = Sleepers()

    def work(item):
        if item:
            sleepers.sleep()
        return item

    stream = ordered(work, range(4), 2)
    assert next(stream) == 0
    sleepers.wait_for(1)
    stream.close()
    sleepers.assert_killed(at_least=1)


def test_the_number_of_cores_can_be_set(monkeypatch):
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    assert available_cores() == 3
    monkeypatch.setenv(THREADS_VARIABLE, "0")
    assert available_cores() == 1
    monkeypatch.delenv(THREADS_VARIABLE)
    assert available_cores() >= 1


def test_linear_algebra_has_one_thread_as_long_as_the_outermost_function_runs():
    import scipy.linalg  # noqa: F401  (so that its library is loaded)
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    @single_threaded
    def outer():
        inner = single_threaded(threads)
        with pytest.raises(ZeroDivisionError):
            single_threaded(lambda: 1 / 0)()
        return inner(), threads()

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        assert outer() == ({1}, {1})
        assert threads() == before != {1}
