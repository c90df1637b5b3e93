"""For games that wait for a button."""

from __future__ import annotations

from typing import Any

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.wrappers import arguments, base


class FireOnReset(base.PyEnvironmentBaseWrapper):
    """Starts each episode with FIRE, and then the action after it.

    In some Atari games, Breakout among them, nothing moves before; an agent has to find
    that out, or be spared it. As in TF-Agents that takes two steps, whose rewards
    nobody gets, and games without FIRE as their second action are left alone. With
    `terminal_on_life_loss` each life starts so.
    """

    def __init__(
        self,
        env: py_environment.PyEnvironment,
        handle_auto_reset: bool | None = None,
    ) -> None:
        """Wraps a single environment that has `get_action_meanings`.

        Raises:
            TypeError: If `env` is no `PyEnvironment`, or does not say what its actions
                mean.
            ValueError: If it is batched.
        """
        super().__init__(env, handle_auto_reset)
        arguments.check_single(env)
        meanings = _action_meanings(env)
        self._has_fire = len(meanings) >= 3 and meanings[1] == "FIRE"

    def _reset(self) -> ts.TimeStep:
        time_step = self._env.reset()
        if not self._has_fire:
            return time_step
        for action in (1, 2):
            time_step = self._env.step(action)
            if time_step.is_last():
                time_step = self._env.reset()
        return ts.restart(time_step.observation)


def _action_meanings(env: Any) -> list[str]:
    try:
        return env.get_action_meanings()
    except AttributeError:
        raise TypeError(
            "env: expected an environment with get_action_meanings(), as "
            f"AtariPreprocessing has, got {env!r}."
        ) from None
