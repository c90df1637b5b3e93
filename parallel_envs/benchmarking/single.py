"""One environment of a workload, with nothing of ours around it that costs time."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from parallel_envs import py_environment
from parallel_envs.benchmarking.vector import UnsuitedError
from parallel_envs.benchmarking.workloads import Simulation, Workload


class Single(Protocol):
    """What all environments have in common."""

    def reset(self) -> Any:
        """Returns the first observation of an episode."""
        ...

    def step(self, action: Any) -> tuple[Any, float, bool]:
        """Returns observation, reward, and whether the episode is over."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


def make(workload: Workload) -> Single:
    """Returns an environment of the workload.

    Raises:
        UnsuitedError: If it is a batch of environments.
    """
    if workload.constructor is None:
        return Simulation(workload)
    env = workload.constructor()
    if env.batched:
        env.close()
        raise UnsuitedError("the environment is a batch of several itself")
    inner = gymnasium_within(env)
    return _OfPyEnvironment(env) if inner is None else _OfGymnasium(inner)


def gymnasium_within(env: Any) -> Any:
    """Returns the environment of Gymnasium that was adapted; None if none was."""
    # If the adapter was not imported, there is nothing that it has adapted.
    adapter: Any = sys.modules.get("parallel_envs.adapters.gymnasium")
    if adapter is not None and isinstance(env, adapter.GymnasiumEnvironment):
        return env.wrapped_env()
    return None


class _OfPyEnvironment:
    def __init__(self, env: py_environment.PyEnvironment) -> None:
        self._env = env
        self.close = env.close

    def reset(self) -> Any:
        return self._env.reset().observation

    def step(self, action: Any) -> tuple[Any, float, bool]:
        time_step = self._env.step(action)
        return time_step.observation, time_step.reward, bool(time_step.is_last())


class _OfGymnasium:
    def __init__(self, env: Any) -> None:
        self._env = env
        self.close = env.close

    def reset(self) -> Any:
        return self._env.reset()[0]

    def step(self, action: Any) -> tuple[Any, float, bool]:
        observation, reward, is_terminated, is_truncated, _ = self._env.step(action)
        return observation, float(reward), is_terminated or is_truncated
