"""What every driver has: an environment, a policy, and who is told of each step."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from parallel_envs import py_policy, trajectory
from parallel_envs import time_step as ts
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import nest

Nest = nest.Nest
Observer = Callable[[trajectory.Trajectory], object]
TransitionObserver = Callable[[trajectory.Transition], object]
InfoObserver = Callable[[Any], object]
_Function = TypeVar("_Function", bound=Callable[..., object])
_Observer = TypeVar("_Observer", bound=Callable[..., object])
_TransitionObserver = TypeVar("_TransitionObserver", bound=Callable[..., object])


class Driver(abc.ABC, Generic[_Observer, _TransitionObserver]):
    """Runs a policy in an environment and tells observers; the interface is TF-Agents'.

    Observers are called in the order of their list. The lists that the properties
    return are the driver's own: what is appended to them is called as well.
    """

    def __init__(
        self,
        env: PyEnvironment,
        policy: py_policy.PolicyLike,
        observers: Sequence[_Observer] | None,
        transition_observers: Sequence[_TransitionObserver] | None = (),
    ) -> None:
        """Checks the parts and keeps them; neither resets nor steps.

        Args:
            env: Stepped, and closed by whoever made it.
            policy: A `PyPolicy`, or a function from a time step to an action.
            observers: Each is called with a `Trajectory`. None stands for an empty
                list.
            transition_observers: Each is called with a `Transition`, which is the tuple
                `(time_step, action_step, next_time_step)`; the state in `action_step`
                is the one that the policy was given.

        Raises:
            TypeError: If `env` is not an environment, `policy` is not a policy, or an
                observer cannot be called; it says which.
        """
        self._env = _checked_env(env)
        self._policy = py_policy.as_policy(policy, self._env)
        self._observers = checked_observers("observers", observers)
        self._transition_observers = checked_observers(
            "transition_observers", transition_observers
        )

    @property
    def env(self) -> PyEnvironment:
        """The environment that is stepped."""
        return self._env

    @property
    def policy(self) -> py_policy.PyPolicy:
        """The policy; one made of the function, where a function was given."""
        return self._policy

    @property
    def observers(self) -> list[_Observer]:
        """Who is told of each step by a trajectory."""
        return self._observers

    @property
    def transition_observers(self) -> list[_TransitionObserver]:
        """Who is told of each step by a transition."""
        return self._transition_observers

    @abc.abstractmethod
    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Steps the environment and tells the observers; each driver says how long."""

    def _current_time_step(self) -> ts.TimeStep:
        if getattr(self._env, "num_outstanding", 0):
            return self._env.reset()  # Another driver was broken off.
        try:
            return self._env.current_time_step()
        except ValueError:  # There was no reset yet.
            return self._env.reset()

    def _initial_state(self) -> Nest:
        batch_size = self._env.batch_size
        if batch_size is None and not _is_ours(self._policy):
            # TF-Agents' policies make a batch of one out of a single environment.
            batch_size = 1
        return py_policy.initial_state(self._policy, batch_size)


def is_empty(nest: Nest) -> bool:
    """Whether a state is `()`, which stands for none."""
    return nest.__class__ is tuple and not nest


def count_last(step_type: npt.ArrayLike) -> int:
    """Returns how many rows are at the end of an episode."""
    return int(np.count_nonzero(np.equal(step_type, ts.StepType.LAST)))


def checked_observers(
    name: str, observers: Sequence[_Function] | None
) -> list[_Function]:
    """Returns them as a list of its own.

    Raises:
        TypeError: If one cannot be called, by its position.
    """
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
                f"{name}[{position}]: expected something that can be called, got "
                f"{observer!r}."
            )
    return list(observers)


def _checked_env(env: Any) -> PyEnvironment:
    """Returns `env`; by its methods, since TF-Agents' own environments do as well."""
    methods = ("step", "reset", "current_time_step")
    if isinstance(env, type) or not all(hasattr(env, name) for name in methods):
        raise TypeError(
            f"env: expected an environment, got {env!r}. One of another library is "
            "made into one by parallel_envs.adapters, from_gymnasium for example."
        )
    return env


def _is_ours(policy: object) -> bool:
    return isinstance(policy, py_policy.PyPolicy)
