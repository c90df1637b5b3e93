"""An environment that notes how long everything takes, in the worker it is in.

It is what a worker imports for it, so it imports little: what that takes counts as the
environment's own memory.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from parallel_envs import time_step as ts
from parallel_envs.adapters import recognition
from parallel_envs.autotuning import resources
from parallel_envs.autotuning.facts import Facts
from parallel_envs.specs import nest
from parallel_envs.wrappers import PyEnvironmentBaseWrapper

_NUM_READINGS = 1000  # Of the clock, to find out what one takes.


class Stopwatch(PyEnvironmentBaseWrapper):
    """Makes an environment, and notes how long it takes for what."""

    def __init__(self, constructor: Callable[[], Any]) -> None:
        self._constructor = constructor
        start = time.perf_counter()
        super().__init__(recognition.as_py_environment(constructor()))
        self._construct_seconds = time.perf_counter() - start
        self._queueing = resources.Queueing()
        self._begin_to_count()

    def warmed_up(self) -> None:
        """Leaves out of the facts, from now on, what the steps so far took."""
        self._first_resets = self._reset_seconds
        self._warm_up_seconds = sum(self._reset_seconds) + sum(self._step_seconds)
        self._begin_to_count()

    def facts(self) -> Facts:
        """Returns what was noted since `warmed_up`."""
        memory_bytes = resources.own_memory([os.getpid()])
        # An environment may do nothing but begin episodes, or none for long.
        seconds = np.sort(self._step_seconds or self._reset_seconds)
        resets = self._reset_seconds or self._first_resets
        timed = [*self._step_seconds, *self._reset_seconds]
        cpu_seconds = self._cpu_seconds - len(timed) * _seconds_of_reading()
        cpu_seconds += resources.seconds_of_children() - self._children_seconds
        num_rows = self.batch_size or 1
        return Facts(
            num_rows=num_rows,
            num_steps=len(seconds),
            num_episodes=self._num_episodes,
            step_seconds=float(seconds.mean()),
            step_seconds_p95=float(seconds[int(0.95 * (len(seconds) - 1))]),
            step_seconds_max=float(seconds[-1]),
            cpu_share=max(0.0, cpu_seconds) / max(sum(timed), 1e-9),
            construct_seconds=self._construct_seconds,
            warm_up_seconds=self._warm_up_seconds,
            reset_seconds=float(np.mean(resets)),
            observation_bytes=_num_bytes(self._env.current_time_step()) // num_rows,
            memory_bytes=memory_bytes,
        )

    def start_another(self, action: nest.Nest) -> dict[str, Any]:
        """Makes, resets, steps and closes a second environment in this process.

        Args:
            action: For one environment.

        Returns:
            What that adds to the facts.
        """
        before = resources.own_memory([os.getpid()])
        start = time.perf_counter()
        env = recognition.as_py_environment(self._constructor())
        try:
            env.reset()
            env.step(action)
            seconds = time.perf_counter() - start
            after = resources.own_memory([os.getpid()])
        finally:
            with contextlib.suppress(Exception):  # As where a batch is closed.
                env.close()
        further = None if before is None or after is None else max(0, after - before)
        return {"further_start_seconds": seconds, "further_memory_bytes": further}

    def close(self) -> None:
        self._queueing.close()
        super().close()

    def _begin_to_count(self) -> None:
        self._step_seconds: list[float] = []
        self._reset_seconds: list[float] = []
        self._num_episodes = 0
        self._cpu_seconds = 0.0
        self._children_seconds = resources.seconds_of_children()

    def _reset(self) -> ts.TimeStep:
        return self._timed(self._reset_seconds, self._env.reset)

    def _step(self, action: nest.Nest) -> ts.TimeStep:
        time_step = self._timed(self._step_seconds, self._env.step, action)
        self._num_episodes += int(np.sum(time_step.is_last()))
        return time_step

    def _timed(
        self, times: list[float], function: Callable[..., ts.TimeStep], *arguments: Any
    ) -> ts.TimeStep:
        queued = self._queueing.seconds()
        cpu_start, start = time.process_time(), time.perf_counter()
        time_step = function(*arguments)
        seconds = time.perf_counter() - start
        self._cpu_seconds += time.process_time() - cpu_start
        # While others had the core the environment neither computed nor waited.
        queued = self._queueing.seconds() - queued
        times.append(max(seconds - queued, 0.0))
        return time_step


def _num_bytes(time_step: ts.TimeStep) -> int:
    return sum(np.asarray(leaf).nbytes for leaf in nest.flatten(time_step.observation))


def _seconds_of_reading() -> float:
    """Returns what the clocks take that are read between the readings of a step."""
    start = time.process_time()
    for _ in range(_NUM_READINGS):
        time.perf_counter()
        time.perf_counter()
        time.process_time()
    return (time.process_time() - start) / _NUM_READINGS
