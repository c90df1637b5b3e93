"""SuperSuit's vector environments, of PettingZoo's form with one agent.

That of plain environments of Gymnasium does not work in SuperSuit 3.11, whose vector
environment hands on what `reset` returns as a whole.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, ClassVar

from parallel_envs.benchmarking.peers import gymnasium_form
from parallel_envs.benchmarking.vector import Vector, read
from parallel_envs.benchmarking.workloads import Workload

_pettingzoo: Any = importlib.import_module("pettingzoo")
_supersuit: Any = importlib.import_module("supersuit")
_vector: Any = importlib.import_module("supersuit.vector")

_AGENT = "agent"


def make(way: str, workload: Workload, num_envs: int, num_cores: int) -> Vector:
    """Returns what `MakeCPUAsyncConstructor` makes."""
    num_workers = min(num_cores, num_envs) if way == "cores" else num_envs
    functions = [functools.partial(_make, workload)] * num_envs
    first = functions[0]()
    construct = _vector.MakeCPUAsyncConstructor(num_workers)
    env = construct(functions, first.observation_space, first.action_space)
    return Vector(
        reset=env.reset,
        step=lambda actions: read(env.step(actions)[0]),
        close=env.close,
        num_workers=num_workers,
    )


def _make(workload: Workload) -> Any:
    return _supersuit.pettingzoo_env_to_vec_env_v1(_OneAgent(workload))


class _OneAgent(_pettingzoo.ParallelEnv):
    """An environment of Gymnasium as one of PettingZoo."""

    metadata: ClassVar[dict[str, Any]] = {"name": "one_agent", "render_modes": []}
    render_mode = None

    def __init__(self, workload: Workload) -> None:
        self._env = gymnasium_form.make(workload)
        self.possible_agents = [_AGENT]
        self.agents = [_AGENT]

    def observation_space(self, agent: str) -> Any:
        return self._env.observation_space

    def action_space(self, agent: str) -> Any:
        return self._env.action_space

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        observation, info = self._env.reset(seed=seed, options=options)
        return {_AGENT: observation}, {_AGENT: info}

    def step(self, actions: dict[str, Any]) -> Any:
        return tuple({_AGENT: each} for each in self._env.step(actions[_AGENT]))

    def close(self) -> None:
        self._env.close()
