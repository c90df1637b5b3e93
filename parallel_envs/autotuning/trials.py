"""Steps environments in one of the ways there are, for a while, and times it."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from parallel_envs import errors
from parallel_envs import time_step as ts
from parallel_envs.autotuning import resources
from parallel_envs.autotuning.probe import draw_actions
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.wrappers import PyEnvironmentBaseWrapper

_WARM_UP = 0.1  # Of the time there is.
_PATIENCE = 2  # Times the time there is: for what starts or answers,
_LEAST_PATIENCE = 2.0  # or so many seconds, since the machine may be busy.
_TOLD = ("num_workers", "max_concurrency", "affinity")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of one way to step the environments.

    Attributes:
        arguments: Of `ParallelPyEnvironment`.
        steps_per_second: Steps of all environments together; None if none was taken.
        batch_seconds: The mean time of a call of `step`; None likewise.
        start_seconds: Until all environments were there; None likewise.
        memory_bytes: Memory of their own of all processes with environments, or for
            `num_workers=0` what the environments add to the one they are in; None
            where the system does not tell.
        failure: Why nothing was measured; "" where something was.
        error: The error that is why; None where it was not tried.
    """

    arguments: Mapping[str, Any]
    steps_per_second: float | None = None
    batch_seconds: float | None = None
    start_seconds: float | None = None
    memory_bytes: int | None = None
    failure: str = ""
    error: Exception | None = None

    @property
    def num_workers(self) -> int:
        """How many processes there were besides the one that calls `step`."""
        return self.arguments["num_workers"]

    @property
    def name(self) -> str:
        """The arguments in which trials differ, as they are written in a call."""
        told = {key: self.arguments.get(key) for key in _TOLD if key in self.arguments}
        if not self.arguments["copy"]:
            told["copy"] = False
        return ", ".join(f"{key}={value!r}" for key, value in told.items())


class Speed(NamedTuple):
    """How fast a batch was: see `Trial`."""

    steps_per_second: float
    batch_seconds: float


def run(
    constructors: Sequence[Callable[[], Any]],
    arguments: Mapping[str, Any],
    process_arguments: Mapping[str, Any],
    *,
    seconds: float,
    counts_resets: bool,
) -> Trial:
    """Returns how fast environments are with some arguments; they are closed then.

    Those of `num_workers=0` live in a worker too, for the trial: whatever they do to
    their process is not done to the caller's.

    Args:
        constructors: One for each environment.
        arguments: Of `ParallelPyEnvironment`.
        process_arguments: How the process starts in which `num_workers=0` is tried.
        seconds: About how long it may take, with the start. A start or a step that
            takes twice as long fails, though none within 2 s.
        counts_resets: As in `measure`.
    """
    run_there = _run_inside if arguments["num_workers"] == 0 else _run
    limit = max(_PATIENCE * seconds, _LEAST_PATIENCE)
    limits = {"start_timeout": limit, "step_timeout": limit}
    try:
        return run_there(
            constructors,
            arguments,
            {**process_arguments, **limits},
            seconds,
            counts_resets,
        )
    except errors.WorkerError as error:
        # One of a batch within a worker is the cause of one that the worker raised.
        cause = error.__cause__
        told = cause if isinstance(cause, errors.WorkerError) else error
        reason = str(told).partition("\n")[0]
        return Trial(arguments=arguments, failure=f"failed: {reason}", error=told)
    except OSError as error:  # Too many processes or files, mostly.
        return Trial(arguments=arguments, failure=f"failed: {error}", error=error)


def measure(
    env: ParallelPyEnvironment, seconds: float, *, counts_resets: bool
) -> Speed:
    """Resets and steps a batch with random actions, and returns its speed.

    Args:
        env: Environments that nobody has stepped yet.
        seconds: How long to step; at least two batches are stepped.
        counts_resets: False leaves out steps in which a row began an episode. Where
            episodes are so long that hardly one ends, chance would else decide how
            many resets fall into the time of a trial.
    """
    actions = itertools.cycle(draw_actions(env))
    env.reset()
    _step_for(env, actions, seconds * _WARM_UP)
    batch_seconds, has_reset = _step_for(env, actions, seconds * (1 - _WARM_UP))
    if not counts_resets and not has_reset.all():
        batch_seconds = batch_seconds[~has_reset]
    mean = float(batch_seconds.mean())
    return Speed(env.batch_size / mean, mean)


class Loop(PyEnvironmentBaseWrapper):
    """A batch in the worker it was made in, which is stepped there."""

    def __init__(
        self, constructors: Sequence[Callable[[], Any]], arguments: Mapping[str, Any]
    ) -> None:
        self._memory_before = resources.own_memory([os.getpid()])
        start = time.perf_counter()
        self._batch = ParallelPyEnvironment(constructors, **arguments)
        self._start_seconds = time.perf_counter() - start
        super().__init__(self._batch)

    def trial(self, seconds: float, counts_resets: bool) -> dict[str, Any]:
        """Returns what `Trial` has of it, once it has run."""
        speed = measure(self._batch, seconds, counts_resets=counts_resets)
        before, after = self._memory_before, resources.own_memory([os.getpid()])
        return {
            **speed._asdict(),
            "start_seconds": self._start_seconds,
            "memory_bytes": (
                None if before is None or after is None else max(0, after - before)
            ),
        }


def _run(
    constructors: Sequence[Callable[[], Any]],
    arguments: Mapping[str, Any],
    limits: Mapping[str, Any],
    seconds: float,
    counts_resets: bool,
) -> Trial:
    start = time.perf_counter()
    with ParallelPyEnvironment(constructors, **{**limits, **arguments}) as env:
        start_seconds = time.perf_counter() - start
        left = _left(seconds, start_seconds)
        speed = measure(env, left, counts_resets=counts_resets)
        return Trial(
            arguments=arguments,
            **speed._asdict(),
            start_seconds=start_seconds,
            memory_bytes=resources.own_memory(list(set(env.worker_pids))),
        )


def _run_inside(
    constructors: Sequence[Callable[[], Any]],
    arguments: Mapping[str, Any],
    limits: Mapping[str, Any],
    seconds: float,
    counts_resets: bool,
) -> Trial:
    start = time.perf_counter()
    make_loop = functools.partial(Loop, constructors, arguments)
    # The whole trial is one call there.
    limits = {**limits, "step_timeout": seconds + limits["step_timeout"]}
    with ParallelPyEnvironment([make_loop], num_workers=1, **limits) as env:
        left = _left(seconds, time.perf_counter() - start)
        (measured,) = env.call("trial", left, counts_resets)
    return Trial(arguments=arguments, **measured)


def _left(seconds: float, start_seconds: float) -> float:
    """Returns how long to step, so that something is seen after a slow start too."""
    return max(seconds - start_seconds, seconds / 4)


def _step_for(
    env: ParallelPyEnvironment, actions: Any, seconds: float
) -> tuple[Any, Any]:
    """Returns the time of each batch, and whether a row began an episode in it."""
    batch_seconds: list[float] = []
    has_reset: list[bool] = []
    now = time.perf_counter()
    deadline = now + seconds
    while not batch_seconds or now < deadline:
        action = next(actions)
        start = time.perf_counter()
        time_step = env.step(action)
        now = time.perf_counter()
        batch_seconds.append(now - start)
        has_reset.append(bool((time_step.step_type == ts.StepType.FIRST).any()))
    return np.array(batch_seconds), np.array(has_reset)
