"""A policy that is asked about some rows of a batch at a time."""

from __future__ import annotations

import numpy as np

from parallel_envs import py_policy, trajectory
from parallel_envs import time_step as ts
from parallel_envs.drivers import driver
from parallel_envs.drivers.row_store import Rows, RowStore
from parallel_envs.specs import nest

Nest = nest.Nest


class RowPolicy:
    """Keeps for each row what the policy said about it last, and its state there.

    The first question is about all rows. From what is answered then it learns what
    actions, infos and states consist of.
    """

    def __init__(
        self,
        policy: py_policy.PyPolicy,
        action_spec: Nest,
        num_rows: int,
        policy_state: Nest,
        *,
        tells_states: bool,
    ) -> None:
        """Takes the policy, and its state for all rows.

        Args:
            policy: What is asked.
            action_spec: Of one row.
            num_rows: B.
            policy_state: `[B, ...]`, or `()`.
            tells_states: Whether `answers` has the states that the policy was given.
        """
        self._policy, self._num_rows = policy, num_rows
        self._action_structure = nest.Structure(action_spec, "action")
        self._first_state, self._tells_states = policy_state, tells_states
        self._actions: RowStore | None = None
        self._infos: RowStore | None = None
        self._states: RowStore | None = None
        self._given: RowStore | None = None

    def action(self, time_step: ts.TimeStep, rows: Rows) -> trajectory.PolicyStep:
        """Returns what the policy answers about some rows at `time_step`."""
        if self._actions is None:
            state = self._first_state
        elif self._states is None:
            state = ()
        else:
            state = self._states.take(rows)
        if self._given is not None:
            self._given.put(rows, state)
        return self._policy.action(time_step, state)

    def keep(self, policy_step: trajectory.PolicyStep, rows: Rows) -> None:
        """Keeps an answer, once its actions are on their way.

        Raises:
            ValueError: If infos or states differ from the first ones, or have another
                number of rows.
        """
        if self._actions is None or self._infos is None:
            self._learn(policy_step)
            return
        self._actions.put(rows, policy_step.action)
        self._infos.put(rows, policy_step.info)
        if self._states is not None:
            self._states.put(rows, policy_step.state)

    def answers(self, rows: Rows) -> trajectory.PolicyStep:
        """Returns what was answered last about each of some rows."""
        assert self._actions is not None
        assert self._infos is not None
        state = () if self._given is None else self._given.take(rows)
        return trajectory.PolicyStep(
            self._actions.take(rows), state, self._infos.take(rows)
        )

    def begin_anew(self, rows: Rows) -> None:
        """Gives rows that begin an episode the initial state."""
        if self._states is None:
            return
        initial = py_policy.initial_state(self._policy, self._num_rows)
        if not driver.is_empty(initial):
            self._states.put_from(rows, initial)

    def state(self) -> Nest:
        """Returns the state of all rows; `()` for a policy that has none."""
        return () if self._states is None else self._states.all()

    def _learn(self, policy_step: trajectory.PolicyStep) -> None:
        """Makes room for answers such as the first one, which is about all rows."""
        action, state, info = policy_step
        info_spec = getattr(self._policy, "info_spec", ())
        if driver.is_empty(info_spec):
            info_spec = info
        info_structure = nest.Structure(info_spec, "policy_info")
        num_rows = self._num_rows
        self._actions = RowStore(self._action_structure, action, num_rows)
        self._infos = RowStore(info_structure, info, num_rows)
        if driver.is_empty(state):
            return
        structure = nest.Structure(state, "policy_state")
        self._states = RowStore(structure, state, num_rows, keeps_others=True)
        if self._tells_states:
            given = self._first_state
            if driver.is_empty(given):  # The policy has made its state by itself.
                given = nest.map_structure(np.zeros_like, state)
            self._given = RowStore(structure, given, num_rows, keeps_others=True)
