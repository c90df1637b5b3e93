"""The loop that steps an environment with a policy and counts steps and episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import py_policy, trajectory
from parallel_envs import time_step as ts
from parallel_envs.drivers import driver, limits
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import nest

Nest = nest.Nest


class PyDriver(driver.Driver[driver.Observer, driver.TransitionObserver]):
    """Steps an environment, single or batched, until it has seen enough.

    It counts as TF-Agents' `PyDriver` does. Each call of `env.step` is told to the
    observers, the one from LAST to FIRST (the boundary, whose action is ignored) as
    well, but a boundary counts no step:

        4 rows, episodes of 3 steps     max_steps=12: 3 calls    max_steps=13: 5 calls

    Three calls make 12 steps; for the 13th the fourth call, which only begins the next
    episode in all rows, counts nothing, and the fifth makes four more.

    A whole batch is stepped at once, so a run may end a few steps past its limits.
    With `max_episodes` and more than one row, short episodes are seen more often than
    long ones: rows that are within an episode when the run ends do not count.
    """

    def __init__(
        self,
        env: PyEnvironment,
        policy: py_policy.PolicyLike,
        observers: Sequence[driver.Observer] | None,
        transition_observers: Sequence[driver.TransitionObserver] | None = (),
        info_observers: Sequence[driver.InfoObserver] | None = (),
        max_steps: int | None = None,
        max_episodes: int | None = None,
        end_episode_on_boundary: bool = True,
    ) -> None:
        """Checks the parts; the environment is neither reset nor stepped yet.

        Args:
            env: Stepped, and closed by whoever made it.
            policy: A `PyPolicy`, or a function from a time step to an action.
            observers: Called with a `Trajectory` after each step, in this order.
            transition_observers: Called, before those, with a `Transition`: the tuple
                `(time_step, action_step, next_time_step)`.
            info_observers: Called, after those, with `env.get_info()`, which is asked
                for once a step if there are any.
            max_steps: A run ends when it has made this many steps, summed over the
                rows. None or 0 for no limit.
            max_episodes: A run ends when it has seen the end of this many episodes,
                summed over the rows. None or 0 for no limit.
            end_episode_on_boundary: Whether an episode counts when its boundary is
                past, so that trajectory observers have seen that too. If False it
                counts with its LAST step, which suits transition observers.

        Raises:
            TypeError: If `env` is not an environment, `policy` is not a policy, an
                observer cannot be called, or a limit is not an integer.
            ValueError: If there is no limit, or a negative one.
        """
        super().__init__(env, policy, observers, transition_observers)
        self._info_observers = driver.checked_observers(
            "info_observers", info_observers
        )
        self._limits = limits.Limits(
            max_steps, max_episodes, end_episode_on_boundary=end_episode_on_boundary
        )

    @property
    def info_observers(self) -> list[driver.InfoObserver]:
        """Who is told what the environment said about each step."""
        return self._info_observers

    def run(
        self, time_step: ts.TimeStep | None = None, policy_state: Nest = ()
    ) -> tuple[ts.TimeStep, Nest]:
        """Steps until a limit is reached; blocks as the environment's `step` does.

        Args:
            time_step: Where the environment stands. None goes on from
                `env.current_time_step()`, and resets an environment that has none.
            policy_state: The policy's state there; `()` for its initial one.

        Returns:
            The last time step and the policy's state there: to be handed to the next
            run, which then goes on where this one ended. The state of a policy begins
            anew with each episode. In a batch those rows begin anew that are FIRST, in
            NumPy arrays whose first dimension is B; anything else in a state (tensors
            of another library, counters) is the policy's own affair.
        """
        if time_step is None:
            time_step = self._current_time_step()
        if driver.is_empty(policy_state):
            policy_state = self._initial_state()
        num_rows = np.size(time_step.step_type)
        num_last = driver.count_last(time_step.step_type)
        tally = limits.Tally(self._limits)
        while not tally.is_full:
            policy_step = self._policy.action(time_step, policy_state)
            next_time_step = self._env.step(policy_step.action)
            self._notify(time_step, policy_step, policy_state, next_time_step)
            num_boundary = num_last  # Rows that were LAST made a boundary just now.
            num_last = driver.count_last(next_time_step.step_type)
            tally.add(num_rows, num_boundary, num_last)
            policy_state = policy_step.state
            if not driver.is_empty(policy_state):
                policy_state = self._begun_anew(policy_state, next_time_step)
            time_step = next_time_step
        return time_step, policy_state

    def _notify(
        self,
        time_step: ts.TimeStep,
        policy_step: trajectory.PolicyStep,
        policy_state: Nest,
        next_time_step: ts.TimeStep,
    ) -> None:
        if self._transition_observers:
            # A learner needs the state that led to the action, not the one after it.
            transition = trajectory.Transition(
                time_step, policy_step._replace(state=policy_state), next_time_step
            )
            for transition_observer in self._transition_observers:
                transition_observer(transition)
        if self._observers:
            step = trajectory.from_transition(time_step, policy_step, next_time_step)
            for observer in self._observers:
                observer(step)
        if self._info_observers:
            info = self._env.get_info()
            for info_observer in self._info_observers:
                info_observer(info)

    def _begun_anew(self, policy_state: Nest, time_step: ts.TimeStep) -> Nest:
        """Returns the state, the initial one where an episode starts."""
        is_first = np.asarray(time_step.is_first())
        if not is_first.any():
            return policy_state
        initial = self._initial_state()
        if not is_first.ndim:
            return initial
        if driver.is_empty(initial):
            return policy_state  # It made its state itself, in a form we do not know.

        def choose(current: object, start: Any) -> object:
            return _choose_rows(is_first, start, current)

        return nest.map_structure(choose, policy_state, initial)


def _choose_rows(mask: npt.NDArray[np.bool_], start: Any, current: Any) -> Any:
    """Returns `current` with the rows in `mask` from `start`, if it has such rows."""
    if not _is_array(current) or current.shape[:1] != mask.shape:
        return current
    chosen = current.copy()  # The policy may have kept what it returned.
    chosen[mask] = np.asarray(start)[mask]
    return chosen


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)
