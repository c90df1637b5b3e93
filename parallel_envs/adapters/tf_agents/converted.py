"""An object that stands for an environment of the other library."""

from __future__ import annotations

from typing import Any

from parallel_envs import forwarding
from parallel_envs.specs import nest

Nest = nest.Nest


class Converted(forwarding.Forwarding):
    """Tells specs that were converted once, and hands on what is alike in both."""

    def __init__(self, env: Any, time_step_spec: Any, action_spec: Nest) -> None:
        """Stands for `env`, which it then owns.

        Args:
            env: The environment of the other library.
            time_step_spec: Of this library's kind.
            action_spec: The same.
        """
        super().__init__()
        self._env = env
        self._time_step_spec = time_step_spec
        self._action_spec = action_spec

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._env!r}>"

    def observation_spec(self) -> Nest:
        return self._time_step_spec.observation

    def action_spec(self) -> Nest:
        return self._action_spec

    def reward_spec(self) -> Nest:
        return self._time_step_spec.reward

    def discount_spec(self) -> Nest:
        return self._time_step_spec.discount

    def time_step_spec(self) -> Any:
        return self._time_step_spec
