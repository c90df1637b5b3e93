"""An object that stands for an environment inside, of either library."""

from __future__ import annotations

from typing import Any

from parallel_envs.specs import nest

Nest = nest.Nest


class Forwarding:
    """Hands on what the two libraries have in common; the specs are converted once."""

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

    def __getattr__(self, name: str) -> Any:
        """Returns a public attribute of the environment inside."""
        # `copy` and `pickle` ask for private names before there is an `_env`.
        if name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        return getattr(self._env, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._env!r}>"

    def wrapped_env(self) -> Any:
        """Returns the environment inside, of the other library."""
        return self._env

    @property
    def batched(self) -> bool:
        return self._env.batched

    @property
    def batch_size(self) -> int | None:
        return self._env.batch_size

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

    def seed(self, seed: Any) -> Any:
        return self._env.seed(seed)

    def render(self, mode: str = "rgb_array") -> Any:
        return self._env.render(mode)

    def get_info(self) -> Any:
        return self._env.get_info()

    def get_state(self) -> Any:
        return self._env.get_state()

    def set_state(self, state: Any) -> None:
        self._env.set_state(state)

    def close(self) -> None:
        self._env.close()
