"""No library: a plain loop over environments, results dropped one by one."""

from __future__ import annotations

import operator
from typing import Any

from parallel_envs.benchmarking import single
from parallel_envs.benchmarking.vector import Vector, first_leaf
from parallel_envs.benchmarking.workloads import Workload
from parallel_envs.specs import nest


def make(way: str, workload: Workload, num_envs: int, num_cores: int) -> Vector:
    """Returns environments that are stepped one after another, and make no batch."""
    envs = [single.make(workload) for _ in range(num_envs)]

    def reset() -> None:
        for env in envs:
            env.reset()

    def step(actions: list[Any]) -> None:
        for env, action in zip(envs, actions, strict=True):
            observation, _, is_over = env.step(action)
            if is_over:
                observation = env.reset()
            _read_one(observation)

    def close() -> None:
        for env in envs:
            env.close()

    return Vector(reset, step, close, num_workers=0, as_actions=_rows)


def _read_one(observation: Any) -> Any:
    leaf: Any = first_leaf(observation)
    # Gymnasium's Discrete gives bare numbers.
    return leaf.item(0) if hasattr(leaf, "item") else leaf


def _rows(actions: nest.Nest) -> list[Any]:
    def row(index: int) -> Any:
        return nest.map_structure(operator.itemgetter(index), actions)

    return [row(index) for index in range(len(first_leaf(actions)))]
