"""Environments for the tests here.

Workers import the module of an environment's class: this one has nothing of TensorFlow.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import parallel_envs as pe
from parallel_envs.testing import environments


def staggered(*lengths: int) -> list[Callable[[], Any]]:
    """Returns constructors of rows that count, with episodes of these lengths."""
    return [
        functools.partial(environments.Counting, index, length)
        for index, length in enumerate(lengths)
    ]


class Rich(environments.Nested):
    """A nested observation without the empty part, and a reward of two numbers."""

    def observation_spec(self) -> Any:
        spec = super().observation_spec()
        del spec["nothing"]
        return spec

    def reward_spec(self) -> Any:
        return pe.ArraySpec((2,), np.float32, "reward")

    def _observation(self) -> Any:
        observation = super()._observation()
        del observation["nothing"]
        return observation

    def _reset(self) -> pe.TimeStep:
        return super()._reset()._replace(reward=np.zeros(2, np.float32))

    def _step(self, action: Any) -> pe.TimeStep:
        time_step = super()._step(action)
        return time_step._replace(reward=np.array([self.t, action["move"][0]], "f4"))


class Wandering(environments.Counting):
    """Observes its last action and a number that it draws; ends when it likes to."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.generator = np.random.default_rng(index)
        self.drawn = 0.0

    def observation_spec(self) -> Any:
        return pe.ArraySpec((4,), np.float32, "observation")

    def action_spec(self) -> Any:
        return pe.BoundedArraySpec((2,), np.float32, [-1, 0], [1, 5], "action")

    def seed(self, seed: int) -> int:
        self.generator = np.random.default_rng(seed)
        self.episode = -1
        return seed

    def _observation(self) -> Any:
        acted = np.zeros(2) if self.last_action is None else self.last_action
        return np.array([self.index, self.drawn, *acted], np.float32)

    def _reset(self) -> pe.TimeStep:
        self.last_action, self.drawn = None, 0.0
        return super()._reset()

    def _step(self, action: Any) -> pe.TimeStep:
        self.drawn = self.generator.random()
        self.length = self.t + (1 if self.drawn < 0.3 else 2)
        self.end = "termination" if self.drawn < 0.2 else "truncation"
        return super()._step(action)


class Walk(environments.Counting):
    """Observes its state as float32 `[3]`, as networks want it; two actions."""

    def seed(self, seed: int) -> None:
        self.episode = -1  # As new, then.

    def observation_spec(self) -> Any:
        return pe.BoundedArraySpec((3,), np.float32, -100, 100, "observation")

    def action_spec(self) -> Any:
        return pe.BoundedArraySpec((), np.int32, 0, 1, "action")

    def _observation(self) -> Any:
        return np.array([self.index, self.episode, self.t], np.float32)


def walks(*lengths: int) -> list[Callable[[], Any]]:
    """Returns constructors of `Walk`, with episodes of these lengths."""
    return [functools.partial(Walk, i, length) for i, length in enumerate(lengths)]


class Importing(environments.Counting):
    """Tells what its process has imported."""

    def imported(self) -> set[str]:
        return {name.partition(".")[0] for name in sys.modules}


class ImportingAndDying(environments.Dying, Importing):
    """The same, until its process is killed."""


class Tunable(environments.Image):
    """A small picture, a private attribute, a public one, methods and seeds."""

    def __init__(self, index: int = 0, length: int = 3) -> None:
        super().__init__(index, length, height=2, width=3)
        self._rng = np.random.default_rng(index)
        self.gravity = 9.81

    def seed(self, seed: int) -> int:
        self._rng = np.random.default_rng(seed)
        return seed + 1

    def scaled(self, factor: float, *, offset: float = 0.0) -> float:
        return self.index * factor + offset

    def failing(self) -> None:
        raise KeyError("no such thing")


class ResettingItself(environments.Counting):
    """Is asked for a step after the last one, too, and begins anew in it."""

    def __init__(self) -> None:
        super().__init__(length=2)
        self._handle_auto_reset = False

    def _step(self, action: Any) -> pe.TimeStep:
        return self._reset() if self.t == self.length else super()._step(action)


class Masked(Walk):
    """Allows one action of two: 0 at even times, 1 at odd ones."""

    def observation_spec(self) -> Any:
        mask = pe.BoundedArraySpec((2,), np.int32, 0, 1, "mask")
        return {"seen": super().observation_spec(), "mask": mask}

    def _observation(self) -> Any:
        mask = np.eye(2, dtype=np.int32)[self.t % 2]
        return {"seen": super()._observation(), "mask": mask}
