"""From which cost of a step on do processes pay, against a plain loop?

Eight environments of Gymnasium are stepped as a batch: by a loop that steps one after
another, resets those that ended, and stacks what they return; and by
`ParallelPyEnvironment` with `num_workers` None (a process each), 2 and 0 (this
process). They do nothing; are CartPole; compute for 100 us; wait for 2 ms. Prints the
machine, the versions, and the microseconds of a batch of steps, the median of several
rounds.

    python tests/benchmarks/processes_or_loop.py
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import guarding
import gymnasium
import numpy as np
import simulated

import parallel_envs as pe
from parallel_envs.benchmarking.peers import gymnasium_form

_NUM_ENVS = 8
_NUM_WORKERS = {"a process each": None, "2 processes": 2, "this process": 0}


def main() -> None:
    guarding.print_machine("gymnasium")
    makers: dict[str, Callable[[], Any]] = {
        "nothing": _of_workload("null"),
        "CartPole-v1": functools.partial(gymnasium.make, "CartPole-v1"),
        "100 us": _of_workload("compute-100us"),
        "2 ms wait": _of_workload("sleep-2ms"),
    }
    for name, make in makers.items():
        print(f"{name}, a batch of {_NUM_ENVS}")
        with contextlib.ExitStack() as stack:
            batches = {
                place: simulated.stepping(
                    stack.enter_context(_batch(make, num_workers))
                )
                for place, num_workers in _NUM_WORKERS.items()
            }
            guarding.medians({"loop": _loop(make), **batches})


def _of_workload(name: str) -> Callable[[], Any]:
    return functools.partial(gymnasium_form.make, simulated.workload(name))


def _batch(
    make: Callable[[], Any], num_workers: int | None
) -> pe.ParallelPyEnvironment:
    env = pe.ParallelPyEnvironment([make] * _NUM_ENVS, num_workers=num_workers)
    env.reset()
    return env


def _loop(make: Callable[[], Any]) -> Callable[[], Any]:
    envs = [make() for _ in range(_NUM_ENVS)]
    for env in envs:
        env.reset(seed=0)
    batches = simulated.actions(_NUM_ENVS)

    def step() -> Any:
        observations: list[Any] = []
        rewards: list[Any] = []
        for env, action in zip(envs, next(batches), strict=True):
            observation, reward, is_terminated, is_truncated, _ = env.step(action)
            if is_terminated or is_truncated:
                observation, _ = env.reset()
            observations.append(observation)
            rewards.append(reward)
        return np.stack(observations), np.array(rewards, np.float32)

    return step


if __name__ == "__main__":
    main()
