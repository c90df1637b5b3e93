"""EnvPool: environments of its own in C++, in threads."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from parallel_envs.benchmarking.vector import UnsuitedError, Vector, read
from parallel_envs.benchmarking.workloads import Workload

_envpool: Any = importlib.import_module("envpool")


def make(way: str, workload: Workload, num_envs: int, num_cores: int) -> Vector:
    """Returns its environment of the same name, with a thread for each core.

    Raises:
        UnsuitedError: If it has none.
    """
    if workload.constructor is None:
        raise UnsuitedError("steps environments of its own only: try --env=CartPole-v1")
    name = workload.name.removeprefix("gymnasium:")
    if name not in _envpool.list_all_envs():
        raise UnsuitedError(f"has no environment {name!r}")
    env = _envpool.make(
        name, env_type="gymnasium", num_envs=num_envs, num_threads=num_cores, seed=0
    )
    dtype = env.action_space.dtype

    def as_actions(actions: Any) -> Any:
        return np.asarray(actions).astype(dtype)

    return Vector(
        reset=env.reset,
        step=lambda actions: read(env.step(actions)[0]),
        close=env.close,
        num_workers=0,
        as_actions=as_actions,
    )
