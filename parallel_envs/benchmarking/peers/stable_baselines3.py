"""Stable-Baselines3's vector environments."""

from __future__ import annotations

import functools
import importlib

from parallel_envs.benchmarking.peers import gymnasium_form
from parallel_envs.benchmarking.vector import Vector, read
from parallel_envs.benchmarking.workloads import Workload

_vec_env = importlib.import_module("stable_baselines3.common.vec_env")


def make(way: str, workload: Workload, num_envs: int, num_cores: int) -> Vector:
    """Returns a `SubprocVecEnv`, or for "dummy" a `DummyVecEnv`."""
    functions = [functools.partial(gymnasium_form.make, workload)] * num_envs
    is_here = way == "dummy"
    kind = _vec_env.DummyVecEnv if is_here else _vec_env.SubprocVecEnv
    env = kind(functions)
    return Vector(
        reset=env.reset,
        step=lambda actions: read(env.step(actions)[0]),
        close=env.close,
        num_workers=0 if is_here else num_envs,
    )
