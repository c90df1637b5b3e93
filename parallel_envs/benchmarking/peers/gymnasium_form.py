"""Workloads as environments of Gymnasium, for all libraries that step those."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from parallel_envs.benchmarking import single
from parallel_envs.benchmarking.vector import UnsuitedError
from parallel_envs.benchmarking.workloads import (
    ACTION_SPEC,
    ObservationSpec,
    Simulation,
    Workload,
)


def make(workload: Workload) -> gymnasium.Env[Any, Any]:
    """Returns an environment of the workload.

    Raises:
        UnsuitedError: If it is the user's own and not of Gymnasium.
    """
    if workload.constructor is None:
        return SimulatedEnvironment(workload)
    env = workload.constructor()
    inner = single.gymnasium_within(env)
    if inner is None:
        env.close()
        raise UnsuitedError("the environment is not one of Gymnasium")
    return inner


class SimulatedEnvironment(gymnasium.Env[Any, Any]):
    """A workload that is not the user's own."""

    def __init__(self, workload: Workload) -> None:
        self._simulation = Simulation(workload)
        self.observation_space = _space(workload.observation)
        self.action_space = gymnasium.spaces.Discrete(int(ACTION_SPEC.maximum) + 1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._simulation.reset(), {}

    def step(self, action: Any) -> Any:
        observation, reward, is_over = self._simulation.step(action)
        return observation, reward, is_over, False, {}


def _space(spec: ObservationSpec) -> gymnasium.Space[Any]:
    if isinstance(spec, dict):
        return gymnasium.spaces.Dict({name: _space(spec[name]) for name in spec})
    if spec.dtype == np.uint8:
        return gymnasium.spaces.Box(0, 255, spec.shape, np.uint8)
    return gymnasium.spaces.Box(-np.inf, np.inf, spec.shape, np.float32)
