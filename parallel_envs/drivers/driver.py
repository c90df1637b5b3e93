"""What every driver has: an environment, a policy, and who is told of each step."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from parallel_envs import py_policy, trajectory
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import nest

Nest = nest.Nest
Observer = Callable[[trajectory.Trajectory], object]
TransitionObserver = Callable[[trajectory.Transition], object]
InfoObserver = Callable[[Any], object]
_Function = TypeVar("_Function", bound=Callable[[Any], object])


class Driver(abc.ABC):
    """Runs a policy in an environment and tells observers; the interface is TF-Agents'.

    Observers are called in the order of their list. The lists that the properties
    return are the driver's own: what is appended to them is called as well.
    """

    def __init__(
        self,
        env: PyEnvironment,
        policy: py_policy.PolicyLike,
        observers: Sequence[Observer] | None,
        transition_observers: Sequence[TransitionObserver] | None = (),
        info_observers: Sequence[InfoObserver] | None = (),
    ) -> None:
        """Checks the parts and keeps them; neither resets nor steps.

        Args:
            env: Stepped, and closed by whoever made it.
            policy: A `PyPolicy`, or a function from a time step to an action.
            observers: Each is called with a `Trajectory`, its leaves `[...]` or
                `[B, ...]` as the environment's steps. None stands for an empty list.
            transition_observers: Each is called with a `Transition`, which is the tuple
                `(time_step, action_step, next_time_step)`; the state in `action_step`
                is the one that the policy was given.
            info_observers: Each is called with what `env.get_info()` returned.

        Raises:
            TypeError: If `env` is not an environment, `policy` is not a policy, or an
                observer cannot be called; it says which.
        """
        self._env = _checked_env(env)
        self._policy = py_policy.as_policy(policy, self._env)
        self._observers = _checked_observers("observers", observers)
        self._transition_observers = _checked_observers(
            "transition_observers", transition_observers
        )
        self._info_observers = _checked_observers("info_observers", info_observers)

    @property
    def env(self) -> PyEnvironment:
        """The environment that is stepped."""
        return self._env

    @property
    def policy(self) -> py_policy.PyPolicy:
        """The policy; one made of the function, where a function was given."""
        return self._policy

    @property
    def observers(self) -> list[Observer]:
        """Who is told of each step by a trajectory."""
        return self._observers

    @property
    def transition_observers(self) -> list[TransitionObserver]:
        """Who is told of each step by a transition."""
        return self._transition_observers

    @property
    def info_observers(self) -> list[InfoObserver]:
        """Who is told what the environment said about each step."""
        return self._info_observers

    @abc.abstractmethod
    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Steps the environment and tells the observers; each driver says how long."""


def _checked_env(env: Any) -> PyEnvironment:
    """Returns `env`; by its methods, since TF-Agents' own environments do as well."""
    methods = ("step", "reset", "current_time_step")
    if isinstance(env, type) or not all(hasattr(env, name) for name in methods):
        raise TypeError(
            f"env: expected an environment, got {env!r}. One of another library is "
            "made into one by parallel_envs.adapters, from_gymnasium for example."
        )
    return env


def _checked_observers(
    name: str, observers: Sequence[_Function] | None
) -> list[_Function]:
    if observers is None:
        return []
    if callable(observers):
        raise TypeError(
            f"{name}: expected a list of functions, got {observers!r}. Put a single "
            "one into a list."
        )
    for position, observer in enumerate(observers):
        if not callable(observer):
            raise TypeError(
                f"{name}[{position}]: expected something that can be called with one "
                f"argument, got {observer!r}."
            )
    return list(observers)
