"""This library."""

from __future__ import annotations

import functools

from parallel_envs.benchmarking import workloads
from parallel_envs.benchmarking.vector import Vector, read
from parallel_envs.benchmarking.workloads import Workload
from parallel_envs.parallel_py_environment import ParallelPyEnvironment


def make(way: str, workload: Workload, num_envs: int, num_cores: int) -> Vector:
    """Returns environments with as many workers as `way` says, all else by default."""
    place, _, views = way.partition("-")
    num_workers = {"here": 0, "cores": min(num_cores, num_envs), "each": num_envs}
    constructor = functools.partial(workloads.make_py_environment, workload)
    env = ParallelPyEnvironment(
        [constructor] * num_envs,
        start_serially=False,
        num_workers=num_workers[place],
        copy=not views,
    )
    return Vector(
        reset=env.reset,
        step=lambda actions: read(env.step(actions).observation),
        close=env.close,
        num_workers=num_workers[place],
    )
