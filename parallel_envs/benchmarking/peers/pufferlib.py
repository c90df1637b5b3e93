"""PufferLib's vector environments."""

from __future__ import annotations

import functools
import importlib
import os
import tempfile
from typing import Any

from parallel_envs.benchmarking.peers import gymnasium_form
from parallel_envs.benchmarking.vector import Vector, read
from parallel_envs.benchmarking.workloads import Simulation, Workload


def _import_elsewhere(name: str) -> Any:
    """Imports a package that leaves a link in the working folder when imported."""
    folder = os.getcwd()
    with tempfile.TemporaryDirectory() as elsewhere:
        os.chdir(elsewhere)
        try:
            return importlib.import_module(name)
        finally:
            os.chdir(folder)


_Base: Any = _import_elsewhere("pufferlib").PufferEnv
_emulation: Any = importlib.import_module("pufferlib.emulation")
_vector: Any = importlib.import_module("pufferlib.vector")


def make(way: str, workload: Workload, num_envs: int, num_cores: int) -> Vector:
    """Returns a `Multiprocessing` of environments in its own form, where it has one.

    That form has no dict as observation: those, and the user's own, are environments of
    Gymnasium that it emulates its form with.
    """
    most = {"cores": min(num_cores, num_envs), "each": num_envs, "one": 1}
    num_workers = most[way]
    # It wants as many environments in each of its processes.
    while num_envs % num_workers:
        num_workers -= 1
    is_simple = workload.constructor is None and not isinstance(
        workload.observation, dict
    )
    env = _vector.make(
        functools.partial(_Environment if is_simple else _emulated, workload),
        backend=_vector.Multiprocessing,
        num_envs=num_envs,
        num_workers=num_workers,
        batch_size=num_envs,
        overwork=True,
    )
    return Vector(
        reset=env.reset,
        step=lambda actions: read(env.step(actions)[0]),
        close=env.close,
        num_workers=num_workers,
    )


def _emulated(workload: Workload, buf: Any = None, seed: int = 0) -> Any:
    creator = functools.partial(gymnasium_form.make, workload)
    return _emulation.GymnasiumPufferEnv(env_creator=creator, buf=buf, seed=seed)


class _Environment(_Base):
    """A workload that writes into the arrays it is given, and resets by itself."""

    def __init__(self, workload: Workload, buf: Any = None, seed: int = 0) -> None:
        form = gymnasium_form.SimulatedEnvironment(workload)
        self.single_observation_space = form.observation_space
        self.single_action_space = form.action_space
        self.num_agents = 1
        super().__init__(buf)  # pyright: ignore[reportUnknownMemberType]
        self._simulation = Simulation(workload)
        self._infos: list[Any] = []

    def reset(self, seed: int | None = None) -> Any:
        self.observations[0] = self._simulation.reset()
        return self.observations, self._infos

    def step(self, actions: Any) -> Any:
        observation, reward, is_over = self._simulation.step(actions[0])
        if is_over:
            observation = self._simulation.reset()
        self.observations[0] = observation
        self.rewards[0] = reward
        self.terminals[0] = is_over
        arrays = self.observations, self.rewards, self.terminals, self.truncations
        return *arrays, self._infos

    def close(self) -> None:
        """Does nothing; the base class wants it."""
