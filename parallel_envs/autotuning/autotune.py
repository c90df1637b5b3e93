"""The function `autotune`: a probe, trials, and a choice between them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parallel_envs.autotuning import choice, resources
from parallel_envs.autotuning.course import Course
from parallel_envs.autotuning.plan import Plan
from parallel_envs.autotuning.probe import probe
from parallel_envs.autotuning.tuning import Tuning
from parallel_envs.batch import arguments

_PROBE = 0.1  # Of the time, for steps of the one that is alone.
_PROBE_LIMIT = 0.6  # Of the time, for its constructor, and for each step and reset.
_MEMORY = 0.9  # Of what is free.
_BUSY = 0.5  # Programs for each core: so many make a difference.


def autotune(
    env_constructor: Callable[[], Any],
    num_envs: int = 8,
    *,
    seconds: float = 10.0,
    copy: bool = True,
    context: str | None = None,
    preload: Sequence[str] = (),
) -> Tuning:
    """Returns arguments for a batch of environments, with the table they come from.

    >>> from parallel_envs.testing import environments
    >>> tuning = autotune(environments.Counting, num_envs=2, seconds=1)
    >>> tuning.arguments
    {'num_workers': 0, 'copy': True}

    One environment is stepped alone in a process first: how long it takes, whether it
    computes or waits, what memory it has of its own. Then all of them are stepped with
    random actions, for some time each: in one process (`num_workers=0`), in one for
    each core, two for each core, and one for each environment, where they fit into
    memory and time. Those near the best are tried twice, and the better try counts;
    the best one is tried with arguments that may help it, too. No environment is ever
    made in this process: `num_workers=0` is tried in a worker.

    Recommended is what gave most steps/s. Of ways that differ by less than 5 % it is
    the leanest: that with the fewest processes. A further argument has to gain 10 %.
    Other programs that run meanwhile are measured as well, so let there be none; a hint
    tells if there were.

    Args:
        env_constructor: As for `ParallelPyEnvironment`. It is called often, also more
            than once in a process; where only one environment can be in a process, the
            table says so, and what is recommended is a process for each.
        num_envs: How many environments there are to be.
        seconds: About how long to take. Environments that start or step slowly need
            more: a way that has no place in what is left is not tried. What fails or
            hangs ends with its trial.
        copy: False if arrays need not be yours, so that `copy=False` may be
            recommended, where it gains. With True it is tried and told.
        context: As in `ParallelPyEnvironment`; tried with, and recommended.
        preload: Likewise.

    Raises:
        TypeError, ValueError: If an argument is wrong.
        ValueError: If memory does not suffice for so many environments.
        WorkerError: If the environment fails where it is alone, or in every trial. A
            `WorkerTimeoutError` may only need more `seconds`: its limits are 0.6 of
            them.
    """
    _check(env_constructor, num_envs, seconds)
    arguments.check_bool("copy", copy)
    load = resources.load()
    deadline = time.perf_counter() + seconds
    processes = {"context": context, "preload": preload}
    facts = probe(env_constructor, processes, seconds * _PROBE, seconds * _PROBE_LIMIT)
    free = resources.available_memory()
    plan = Plan(
        facts=facts,
        num_envs=num_envs,
        num_cores=resources.usable_cores(),
        memory_bytes=None if free is None else int(free * _MEMORY),
    )
    course = Course(env_constructor, plan, processes, deadline)
    chosen, hints = course.best_number_of_workers(), list[str]()
    if chosen.steps_per_second is not None:
        chosen, hints = course.refined(chosen, copy=copy)
    if load >= _BUSY:
        hints.append(choice.hint_about_load(load))
    return Tuning(
        num_envs=num_envs,
        num_cores=plan.num_cores,
        facts=facts,
        trials=tuple(course.trials),
        chosen=chosen,
        reason=choice.reason(chosen, course.trials, facts, num_envs),
        hints=tuple(hints),
    )


def _check(env_constructor: Any, num_envs: Any, seconds: Any) -> None:
    if not callable(env_constructor):
        raise TypeError(
            "env_constructor: expected a callable that makes an environment, got "
            f"{env_constructor!r:.200}."
        )
    if arguments.checked_integer("num_envs", num_envs) < 1:
        raise ValueError("num_envs: expected at least 1, got 0.")
    is_number = isinstance(seconds, (int, float, np.integer, np.floating))
    if not is_number or isinstance(seconds, bool):
        raise TypeError(f"seconds: expected a number, got {seconds!r:.200}.")
    if not 0 < seconds < math.inf:
        raise ValueError(f"seconds: expected a number above 0, got {seconds}.")
