"""TF-Agents' parallel environment, with steps made by hand, without TensorFlow."""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

import numpy as np

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.benchmarking import workloads
from parallel_envs.benchmarking.vector import Vector, read
from parallel_envs.benchmarking.workloads import Workload
from parallel_envs.specs import array_spec, nest

# Read when TensorFlow is imported: no notices, and no GPU for processes that need none.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

_Base: Any = importlib.import_module(
    "tf_agents.environments.py_environment"
).PyEnvironment
_parallel: Any = importlib.import_module(
    "tf_agents.environments.parallel_py_environment"
)
_specs: Any = importlib.import_module("tf_agents.specs.array_spec")
_time_step: Any = importlib.import_module("tf_agents.trajectories.time_step")
_processes: Any = importlib.import_module("tf_agents.system.system_multiprocessing")


def make(way: str, workload: Workload, num_envs: int, num_cores: int) -> Vector:
    """Returns a `ParallelPyEnvironment` of theirs."""
    _processes.enable_interactive_mode()
    constructor = functools.partial(_make, workload)
    env = _parallel.ParallelPyEnvironment(
        [constructor] * num_envs, start_serially=False
    )
    return Vector(
        reset=env.reset,
        step=lambda actions: read(env.step(actions).observation),
        close=env.close,
        num_workers=num_envs,
    )


def _make(workload: Workload) -> Any:
    return _Environment(workloads.make_py_environment(workload))


class _Environment(_Base):
    """An environment of ours as one of theirs, which is much the same."""

    def __init__(self, env: py_environment.PyEnvironment) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._env = env
        self._specs = nest.map_structure(
            _spec, (env.observation_spec(), env.action_spec())
        )

    def observation_spec(self) -> Any:
        return self._specs[0]

    def action_spec(self) -> Any:
        return self._specs[1]

    def close(self) -> None:
        self._env.close()

    def _reset(self) -> Any:
        return _step(self._env.reset())

    def _step(self, action: Any) -> Any:
        return _step(self._env.step(action))


def _spec(spec: array_spec.ArraySpec) -> Any:
    if isinstance(spec, array_spec.BoundedArraySpec):
        bounds = np.array(spec.minimum), np.array(spec.maximum)
        return _specs.BoundedArraySpec(spec.shape, spec.dtype, *bounds)
    return _specs.ArraySpec(spec.shape, spec.dtype)


def _step(time_step: ts.TimeStep) -> Any:
    return _time_step.TimeStep(*time_step)
