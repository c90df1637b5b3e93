"""Gymnasium's vector environments."""

from __future__ import annotations

import functools

import gymnasium

from parallel_envs.benchmarking.peers import gymnasium_form
from parallel_envs.benchmarking.vector import Vector, read
from parallel_envs.benchmarking.workloads import Workload


def make(way: str, workload: Workload, num_envs: int, num_cores: int) -> Vector:
    """Returns an `AsyncVectorEnv`, or for "sync" a `SyncVectorEnv`."""
    functions = [functools.partial(gymnasium_form.make, workload)] * num_envs
    if way == "sync":
        env = gymnasium.vector.SyncVectorEnv(functions)
    else:
        env = gymnasium.vector.AsyncVectorEnv(functions, copy=way != "async-views")
    return Vector(
        reset=env.reset,
        step=lambda actions: read(env.step(actions)[0]),
        close=env.close,
        num_workers=0 if way == "sync" else num_envs,
    )
