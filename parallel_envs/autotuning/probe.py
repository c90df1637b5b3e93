"""Steps one environment alone in a process, and times it there."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from parallel_envs import errors
from parallel_envs.autotuning.facts import Facts
from parallel_envs.autotuning.stopwatch import Stopwatch
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.specs import nest, sampling

_NUM_DRAWN = 16


def probe(
    constructor: Callable[[], Any],
    process_arguments: Mapping[str, Any],
    seconds: float,
    limit: float,
) -> Facts:
    """Returns the facts about an environment, which lives in a process of its own.

    Args:
        constructor: Makes it; called a second time in that process, at the end.
        process_arguments: Of `ParallelPyEnvironment`, about how the process starts.
        seconds: How long to step it.
        limit: Seconds that making it, a reset or a step may take.

    Raises:
        WorkerError: If it fails, or is late.
    """
    with ParallelPyEnvironment(
        [functools.partial(Stopwatch, constructor)],
        num_workers=1,
        start_timeout=limit,
        step_timeout=limit,
        **process_arguments,
    ) as env:
        actions = draw_actions(env)
        env.reset()
        env.step(actions[0])
        env.call("warmed_up")
        deadline = time.perf_counter() + seconds
        for action in itertools.cycle(actions):
            env.step(action)
            if time.perf_counter() >= deadline:
                break
        (facts,) = env.call("facts")
        return dataclasses.replace(facts, **_facts_about_another(env, actions[0]))


def draw_actions(env: ParallelPyEnvironment) -> list[nest.Nest]:
    """Returns some random actions for a batch, to be used in turn.

    They are drawn in advance, so that no time of drawing counts as that of a step.
    """
    rng = np.random.default_rng()
    outer_dims = (env.batch_size,)
    return [
        sampling.sample(env.action_spec(), rng, outer_dims) for _ in range(_NUM_DRAWN)
    ]


def _facts_about_another(
    env: ParallelPyEnvironment, actions: nest.Nest
) -> dict[str, Any]:
    (is_batched,) = env.get_attr("batched")
    action = actions if is_batched else nest.map_structure(_first_row, actions)
    try:
        (answer,) = env.call("start_another", action)
    except errors.WorkerError as error:
        return {"sharing_error": f"a second one in a process{error.details[0]}"}
    return answer


def _first_row(leaf: Any) -> Any:
    return leaf[0]
