"""Environments of TF-Agents, as its users write them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tf_agents.environments import batched_py_environment, py_environment, wrappers
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts


class Theirs(py_environment.PyEnvironment):
    """Counts to three; has two rewards, a state, a seed, pictures and infos.

    The observation is `[index, episode, t]`. The action 9 raises ValueError.
    """

    def __init__(self, index: int = 0, handle_auto_reset: bool = True) -> None:
        super().__init__(handle_auto_reset)
        self._index, self._episode, self._t = index, -1, 0
        self.seeds: list[int] = []

    def observation_spec(self) -> Any:
        return array_spec.BoundedArraySpec((3,), np.float32, 0.0, np.inf, "observation")

    def action_spec(self) -> Any:
        return array_spec.BoundedArraySpec((), np.int32, 0, 9, "action")

    def reward_spec(self) -> Any:
        return array_spec.ArraySpec((2,), np.float32, "rewards")

    def _observation(self) -> Any:
        return np.array([self._index, self._episode, self._t], np.float32)

    def _reset(self) -> Any:
        self._episode, self._t = self._episode + 1, 0
        return ts.restart(self._observation(), reward_spec=self.reward_spec())

    def _step(self, action: Any) -> Any:
        if self._t == 3:  # It is asked, unless the base class resets.
            return self._reset()
        if action == 9:
            raise ValueError(f"no move {action}")
        self._t += 1
        step_type = ts.StepType.LAST if self._t == 3 else ts.StepType.MID
        rewards = np.array([self._t, action], np.float32)
        discount = np.float32(self._t < 3)
        return ts.TimeStep(step_type, rewards, discount, self._observation())

    def seed(self, seed: int) -> None:
        self.seeds.append(seed)

    def render(self, mode: str = "rgb_array") -> Any:
        if mode != "rgb_array":
            raise NotImplementedError(mode)
        return np.full((2, 3, 3), self._t, np.uint8)

    def get_info(self) -> Any:
        return {"t": self._t}

    def get_state(self) -> Any:
        return self._episode, self._t

    def set_state(self, state: Any) -> None:
        self._episode, self._t = state
        self._current_time_step = ts.transition(
            self._observation(), np.zeros(2, np.float32), outer_dims=()
        )


def without_auto_reset() -> Any:
    return Theirs(1, handle_auto_reset=False)


def wrapped() -> Any:
    """Returns an environment whose episodes a wrapper of TF-Agents ends after two."""
    return ForwardingRewards(wrappers.TimeLimit(Theirs(2), duration=2))


def batched() -> Any:
    """Returns a batch of two of TF-Agents' own."""
    envs = [Theirs(3), Theirs(4)]
    return batched_py_environment.BatchedPyEnvironment(envs, multithreading=False)


class ForwardingRewards(wrappers.PyEnvironmentBaseWrapper):
    """TF-Agents' wrappers make scalars of reward specs; this one does not."""

    def reward_spec(self) -> Any:
        return Theirs().reward_spec()

    def time_step_spec(self) -> Any:
        return Theirs().time_step_spec()


def broken() -> Any:
    raise LookupError("no such game")
