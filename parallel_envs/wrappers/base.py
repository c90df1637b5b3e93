"""The environment that wraps another and hands everything on: root of all wrappers."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.specs import nest

Nest = nest.Nest

_PAST_WRAPPERS = frozenset({"send", "recv"})  # What steps rows other than by `step`.


class PyEnvironmentBaseWrapper(py_environment.PyEnvironment):
    """Behaves as the environment it wraps; a subclass overrides what should differ.

    Public attributes that only the wrapped environment has are found through the
    wrapper. `_reset` and `_step` ask the wrapped environment's `reset` and `step`. As
    the wrapper asks `should_reset` first, its own `_reset` runs at the start of each
    episode, so that a subclass can clear there what it remembers. Not for batches:
    their rows start anew within `_step`.
    """

    def __init__(
        self,
        env: py_environment.PyEnvironment,
        handle_auto_reset: bool | None = None,
    ) -> None:
        """Wraps `env`, which the wrapper then owns: `close` closes it.

        Args:
            env: Single or batched.
            handle_auto_reset: Whether `step` after LAST calls `_reset`. None leaves it
                to `env.should_reset`.

        Raises:
            TypeError: If `env` is no `PyEnvironment`.
        """
        _check_environment(env)
        super().__init__(handle_auto_reset is not False)
        self._env = env
        self._asks_env = handle_auto_reset is None

    def __getattr__(self, name: str) -> Any:
        """Returns a public attribute of the wrapped environment."""
        # `copy` and `pickle` ask for private names before there is an `_env`.
        if name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        if name in _PAST_WRAPPERS:
            raise AttributeError(
                f"{name}: {type(self).__name__} would not see the steps. Wrap the "
                "single environments inside of the batch instead, or use step()."
            )
        return getattr(self._env, name)

    def wrapped_env(self) -> py_environment.PyEnvironment:
        """Returns the environment inside; it may be a wrapper too."""
        return self._env

    @property
    def batched(self) -> bool:
        return self._env.batched

    @property
    def batch_size(self) -> int | None:
        return self._env.batch_size

    def observation_spec(self) -> Nest:
        return self._env.observation_spec()

    def action_spec(self) -> Nest:
        return self._env.action_spec()

    def reward_spec(self) -> Nest:
        return self._env.reward_spec()

    def discount_spec(self) -> Nest:
        return self._env.discount_spec()

    def should_reset(self, current_time_step: ts.TimeStep) -> bool:
        if self._asks_env:
            return self._env.should_reset(current_time_step)
        return super().should_reset(current_time_step)

    def seed(self, seed: Any) -> Any:
        return self._env.seed(seed)

    def render(self, mode: str = "rgb_array") -> npt.NDArray[Any] | None:
        return self._env.render(mode)

    def get_info(self) -> Any:
        return self._env.get_info()

    def get_state(self) -> Any:
        return self._env.get_state()

    def set_state(self, state: Any) -> None:
        self._env.set_state(state)

    def close(self) -> None:
        self._env.close()

    def _reset(self) -> ts.TimeStep:
        return self._env.reset()

    def _step(self, action: Nest) -> ts.TimeStep:
        return self._env.step(action)


def _check_environment(env: Any) -> None:
    if not isinstance(env, py_environment.PyEnvironment):
        raise TypeError(
            f"env: expected a PyEnvironment, got {env!r}. An environment of another "
            "library needs its adapter first, as in "
            "parallel_envs.adapters.from_gymnasium(env)."
        )
