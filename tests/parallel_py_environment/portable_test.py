"""The way of systems other than Linux, forced here: tests of both ways, run on it.

It stands for macOS, on which nobody has run it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs.process import facilities
from parallel_envs.testing import environments
from tests import waiting
from tests.parallel_py_environment_test import (
    SCRIPT,
    nothing_is_left_behind,
    test_a_constructor_that_ends_its_process_is_told_with_its_exit_code,
    test_a_forked_child_cannot_use_it_and_its_exit_touches_nothing,
    test_a_killed_worker_is_reported_with_its_signal,
    test_a_promise_that_is_dropped_leaves_nothing,
    test_a_quick_failure_is_not_hidden_behind_a_slow_start,
    test_all_rows_of_a_lost_process_are_named,
    test_an_environment_that_is_dropped_ends_its_workers,
    test_answers_never_shift_after_an_interrupt,
    test_blocking_steps_one_environment_at_a_time,
    test_close_ends_a_worker_that_hangs_and_what_it_started,
    test_close_from_another_thread_wakes_a_call_that_waits,
    test_constructors_run_one_after_another_or_at_once,
    test_handles_speak_to_one_environment,
    test_reset_starts_a_new_worker_where_one_is_gone,
    test_values_that_cannot_be_pickled_are_named,
    test_workers_draw_different_global_numbers,
    test_workers_see_the_callers_surroundings_of_that_moment,
)

__all__ = [
    "nothing_is_left_behind",
    "test_a_constructor_that_ends_its_process_is_told_with_its_exit_code",
    "test_a_forked_child_cannot_use_it_and_its_exit_touches_nothing",
    "test_a_killed_worker_is_reported_with_its_signal",
    "test_a_promise_that_is_dropped_leaves_nothing",
    "test_a_quick_failure_is_not_hidden_behind_a_slow_start",
    "test_all_rows_of_a_lost_process_are_named",
    "test_an_environment_that_is_dropped_ends_its_workers",
    "test_answers_never_shift_after_an_interrupt",
    "test_blocking_steps_one_environment_at_a_time",
    "test_close_ends_a_worker_that_hangs_and_what_it_started",
    "test_close_from_another_thread_wakes_a_call_that_waits",
    "test_constructors_run_one_after_another_or_at_once",
    "test_handles_speak_to_one_environment",
    "test_reset_starts_a_new_worker_where_one_is_gone",
    "test_values_that_cannot_be_pickled_are_named",
    "test_workers_draw_different_global_numbers",
    "test_workers_see_the_callers_surroundings_of_that_moment",
]


@pytest.fixture(autouse=True)
def portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes from this process what only Linux has, but for what the tests need."""
    monkeypatch.setenv(facilities.VARIABLE, "1")
    for name in ("eventfd", "memfd_create", "posix_fallocate"):
        monkeypatch.delattr(os, name)


def test_a_fork_is_refused() -> None:
    with pytest.raises(ValueError, match='context: expected None or "spawn"'):
        pe.ParallelPyEnvironment([environments.Counting], context="fork")


def test_a_death_is_noticed_though_a_child_holds_the_channel() -> None:
    class Leaving(environments.Counting):
        """Its step leaves a child behind, and exits."""

        def _step(self, action: object) -> object:  # type: ignore[override]
            if os.fork() == 0:
                threading.Event().wait()
            os._exit(4)

    with pe.ParallelPyEnvironment([Leaving]) as env:
        env.reset()

        with pytest.raises(pe.WorkerDiedError, match="exit code 4"):
            env.step(np.zeros(1, np.int64))


def test_when_the_parent_is_killed_the_workers_go_too() -> None:
    script = SCRIPT.format(
        options="",
        end="print(*env.worker_pids, flush=True)\nimport time; time.sleep(1000)",
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]

    parent.kill()
    parent.wait()
    parent.stdout.close()

    assert len(pids) == 2
    waiting.wait_for_end(pids, seconds=10.0)
