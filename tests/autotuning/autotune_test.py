"""Environments of every kind, tuned for real: what is recommended, and what is told."""

from __future__ import annotations

import os
import pathlib
import time
from typing import Any

import pytest

import parallel_envs as pe
from parallel_envs import errors
from parallel_envs.autotuning import resources
from parallel_envs.testing import environments

MILLISECONDS_20 = 0.02


class Computing(environments.Endless):
    """Keeps a core busy for 20 ms a step, however many others want it."""

    def _step(self, action: Any) -> pe.TimeStep:
        end = time.thread_time() + MILLISECONDS_20
        while time.thread_time() < end:
            pass
        return super()._step(action)


class Waiting(environments.Endless):
    """Waits for 20 ms a step, as for a simulator."""

    def _step(self, action: Any) -> pe.TimeStep:
        time.sleep(MILLISECONDS_20)
        return super()._step(action)


class SlowToReset(environments.Counting):
    """Waits for 20 ms in a reset."""

    def _reset(self) -> pe.TimeStep:
        time.sleep(MILLISECONDS_20)
        return super()._reset()


class SlowToMake(environments.Counting):
    """Takes its time to be made."""

    def __init__(self, seconds: float) -> None:
        time.sleep(seconds)
        super().__init__()


class SlowToWarmUp(environments.Endless):
    """Its first step in a process takes its time, as a compiler does."""

    is_warm = False

    def _step(self, action: Any) -> pe.TimeStep:
        if not self.is_warm:
            time.sleep(0.3)
            type(self).is_warm = True
        return super()._step(action)


class Counted(environments.Endless):
    """Knows how many of its kind are in this process."""

    num_alive = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).num_alive += 1

    def close(self) -> None:
        type(self).num_alive -= 1


class OnlyOne(Counted):
    """There can be only one in a process."""

    def __init__(self) -> None:
        if self.num_alive:
            raise RuntimeError("there is one already")
        super().__init__()


class OnlyTwo(Counted):
    """There can be several, but no more than two can be stepped."""

    def _step(self, action: Any) -> pe.TimeStep:
        if self.num_alive > 2:
            raise RuntimeError("there are more than two")
        return super()._step(action)


class HangingInCompany(Counted):
    """Hangs in a step where there are more than two in its process."""

    def _step(self, action: Any) -> pe.TimeStep:
        if self.num_alive > 2:
            time.sleep(1000)
        return super()._step(action)


def test_environments_that_do_nothing_are_stepped_in_the_callers_process() -> None:
    tuning = pe.autotune(environments.Counting, num_envs=4, seconds=4)

    assert tuning.arguments == {"num_workers": 0, "copy": True}
    assert "costs more than it gains" in tuning.reason


def test_environments_that_wait_get_a_process_each() -> None:
    tuning = pe.autotune(Waiting, num_envs=6, seconds=5)

    assert tuning.arguments["num_workers"] == 6
    assert not tuning.facts.computes
    assert tuning.facts.step_seconds >= MILLISECONDS_20
    assert "wait at the same time" in tuning.reason


def test_environments_that_compute_get_processes_for_the_cores() -> None:
    tuning = pe.autotune(Computing, num_envs=6, seconds=6)
    for _ in range(2):  # Other programs may have all cores but one for a while.
        if not tuning.arguments["num_workers"]:
            tuning = pe.autotune(Computing, num_envs=6, seconds=6)

    assert tuning.facts.computes
    assert "computing" in tuning.reason
    has_several_cores = resources.usable_cores() > 1
    assert bool(tuning.arguments["num_workers"]) == has_several_cores


def test_recommended_arguments_are_those_of_a_batch() -> None:
    tuning = pe.autotune(Waiting, num_envs=2, seconds=4)

    with pe.ParallelPyEnvironment([Waiting] * 2, **tuning.arguments) as env:
        assert env.reset().is_first().all()
        assert len(set(env.worker_pids)) == tuning.arguments["num_workers"]


def test_no_environment_is_made_in_the_callers_process(tmp_path: pathlib.Path) -> None:
    def make() -> environments.Counting:
        (tmp_path / str(os.getpid())).touch()
        return environments.Counting()

    tuning = pe.autotune(make, num_envs=2, seconds=2)

    makers = {path.name for path in tmp_path.iterdir()}
    assert len(makers) >= 2
    assert str(os.getpid()) not in makers
    assert tuning.trials[0].num_workers == 0


def test_what_an_environment_cannot_share_is_told_and_not_recommended() -> None:
    tuning = pe.autotune(OnlyOne, num_envs=3, seconds=3)

    assert tuning.arguments["num_workers"] == 3
    assert tuning.trials[0].failure == (
        "failed: a second one in a process raised RuntimeError('there is one already') "
        "during call."
    )
    assert tuning.trials[0].error is None
    assert "can hold only one" in tuning.reason


def test_trial_that_fails_is_told_and_others_go_on() -> None:
    tuning = pe.autotune(OnlyTwo, num_envs=3, seconds=4)

    assert tuning.arguments["num_workers"] > 0
    assert tuning.trials[0].failure == (
        "failed: environment 0 raised RuntimeError('there are more than two') during "
        "step."
    )
    assert isinstance(tuning.trials[0].error, errors.WorkerError)
    assert f"num_workers=0 {tuning.trials[0].failure}" in str(tuning)


def test_trial_that_hangs_is_ended_and_others_go_on() -> None:
    start = time.monotonic()

    tuning = pe.autotune(HangingInCompany, num_envs=3, seconds=4)

    assert time.monotonic() - start < 20
    assert tuning.arguments["num_workers"] > 0
    assert isinstance(tuning.trials[0].error, errors.WorkerTimeoutError)
    assert "was not done" in tuning.trials[0].failure


def test_constructor_that_fails_is_raised_as_it_is() -> None:
    with pytest.raises(errors.WorkerError, match="cannot be made") as caught:
        pe.autotune(environments.RaisingInConstructor, num_envs=2, seconds=2)

    assert caught.value.doing == "construction"


def test_step_that_fails_is_raised_as_it_is() -> None:
    with pytest.raises(errors.WorkerError, match="bad state 1") as caught:
        pe.autotune(lambda: environments.RaisingInStep(at=2), seconds=2)

    assert caught.value.doing == "step"


def test_step_that_hangs_is_raised_in_time() -> None:
    start = time.monotonic()

    with pytest.raises(errors.WorkerTimeoutError, match="was not done with step"):
        pe.autotune(lambda: environments.Hanging(at=2), seconds=4)

    assert time.monotonic() - start < 15


def test_frequent_resets_count() -> None:
    tuning = pe.autotune(lambda: SlowToReset(length=1), num_envs=4, seconds=5)

    assert tuning.facts.reset_seconds >= MILLISECONDS_20
    assert tuning.facts.episode_steps == pytest.approx(1, abs=0.2)
    assert not tuning.facts.computes
    assert tuning.arguments["num_workers"] == 4


def test_rare_resets_do_not_count() -> None:
    tuning = pe.autotune(lambda: SlowToReset(length=10**9), num_envs=4, seconds=4)

    assert tuning.facts.episode_steps is None
    assert tuning.arguments["num_workers"] == 0


def test_first_step_that_is_slow_is_told_apart_from_the_others() -> None:
    tuning = pe.autotune(SlowToWarmUp, num_envs=2, seconds=6)

    assert tuning.facts.warm_up_seconds >= 0.3
    assert tuning.facts.step_seconds < 0.01
    assert tuning.arguments["num_workers"] == 0


def test_time_too_short_for_a_trial_leaves_what_the_probe_tells() -> None:
    tuning = pe.autotune(lambda: SlowToMake(1.0), num_envs=20, seconds=3)

    assert all(trial.failure.startswith("not tried") for trial in tuning.trials)
    assert "give more seconds" in tuning.reason
    assert tuning.chosen in tuning.trials


def test_environment_that_is_a_batch_counts_its_rows() -> None:
    def make() -> pe.BatchedPyEnvironment:
        return pe.BatchedPyEnvironment([environments.Counting() for _ in range(3)])

    tuning = pe.autotune(make, num_envs=2, seconds=3)

    assert tuning.facts.num_rows == 3
    assert tuning.facts.observation_bytes == 24
    assert "rows         3, stepped by one call" in str(tuning)


def test_context_is_tried_with_and_recommended() -> None:
    tuning = pe.autotune(Waiting, num_envs=2, seconds=5, context="spawn")

    assert tuning.arguments["context"] == "spawn"


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="env_constructor: expected a callable"):
        pe.autotune("CartPole-v1")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="num_envs: expected at least 1, got 0"):
        pe.autotune(environments.Counting, num_envs=0)
    with pytest.raises(TypeError, match=r"num_envs: expected an int .* got 2\.5"):
        pe.autotune(environments.Counting, num_envs=2.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"seconds: expected a number above 0, got 0"):
        pe.autotune(environments.Counting, seconds=0)
    with pytest.raises(TypeError, match="seconds: expected a number, got 'long'"):
        pe.autotune(environments.Counting, seconds="long")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="copy: expected True or False, got 1"):
        pe.autotune(environments.Counting, copy=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="context: expected None"):
        pe.autotune(environments.Counting, context="thread")
