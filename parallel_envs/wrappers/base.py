"""The environment that wraps another and hands everything on: root of all wrappers."""

from __future__ import annotations

from typing import Any

from parallel_envs import forwarding, py_environment
from parallel_envs import time_step as ts
from parallel_envs.specs import nest

Nest = nest.Nest

_PAST_WRAPPERS = frozenset({"send", "recv"})  # What steps rows other than by `step`.


class PyEnvironmentBaseWrapper(forwarding.Forwarding, py_environment.PyEnvironment):
    """Behaves as the environment it wraps; a subclass overrides what should differ.

    Public attributes that only the wrapped environment has are found through the
    wrapper. `_reset` and `_step` ask the wrapped environment's `reset` and `step`. As
    the wrapper asks `should_reset` first, its own `_reset` runs at the start of each
    episode, so that a subclass can clear there what it remembers. Not for batches:
    their rows start anew within `_step`.
    """

    _env: py_environment.PyEnvironment

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
        if name in _PAST_WRAPPERS:
            raise AttributeError(
                f"{name}: {type(self).__name__} would not see the steps. Wrap the "
                "single environments inside of the batch instead, or use step()."
            )
        return super().__getattr__(name)

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
