"""moolib's `EnvPool`, the batches of which are views."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from parallel_envs.benchmarking import single
from parallel_envs.benchmarking.vector import UnsuitedError, Vector, read
from parallel_envs.benchmarking.workloads import Workload
from parallel_envs.specs import nest

_moolib: Any = importlib.import_module("moolib")
_torch: Any = importlib.import_module("torch")

_PREFIX = "observation"  # Of keys, among which moolib puts reward and done.


def make(way: str, workload: Workload, num_envs: int, num_cores: int) -> Vector:
    """Returns a pool with one batch."""
    num_workers = min(num_cores, num_envs) if way == "cores" else num_envs
    pool = _moolib.EnvPool(
        functools.partial(_Environment, workload),
        num_processes=num_workers,
        batch_size=num_envs,
        num_batches=1,
    )
    # It resets by itself, and knows steps only.
    idle = _torch.zeros(num_envs, dtype=_torch.int64)

    def step(actions: Any) -> None:
        batch = pool.step(0, actions).result()
        read(batch[min(name for name in batch if name.startswith(_PREFIX))].numpy())

    return Vector(
        reset=lambda: pool.step(0, idle).result(),
        step=step,
        close=lambda: None,
        num_workers=num_workers,
        as_actions=_as_tensor,
    )


def _as_tensor(actions: nest.Nest) -> Any:
    leaves = nest.flatten(actions)
    if len(leaves) != 1 or leaves[0].ndim != 1 or leaves[0].dtype.kind != "i":
        raise UnsuitedError("takes one whole number for an action only")
    return _torch.from_numpy(leaves[0].astype("int64"))


class _Environment:
    """A workload in the form of old Gym, with a dict as observation."""

    def __init__(self, workload: Workload) -> None:
        self._env = single.make(workload)

    def reset(self) -> Any:
        return _named(self._env.reset())

    def step(self, action: Any) -> Any:
        observation, reward, is_over = self._env.step(action)
        return _named(observation), reward, is_over, {}


def _named(observation: Any) -> dict[str, Any]:
    leaves: Any = observation if hasattr(observation, "keys") else {"": observation}
    return {f"{_PREFIX}.{name}": leaves[name] for name in leaves}
