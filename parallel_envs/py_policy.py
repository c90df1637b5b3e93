"""What chooses actions: the base class of policies, and functions used as such."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable
from typing import Any, Protocol, cast

from parallel_envs import time_step as ts
from parallel_envs import trajectory
from parallel_envs.specs import nest, sampling

Nest = nest.Nest

# Takes an observation apart: what the policy sees, and a mask of the allowed actions.
Splitter = Callable[[Nest], tuple[Nest, Any]]


class PyPolicy(abc.ABC):
    """A policy that is asked from Python; the interface is TF-Agents'.

    A subclass writes `_action`, and may override `_get_initial_state` and `update`:

        time_step = env.reset()
        policy_state = policy.get_initial_state(env.batch_size)
        while not time_step.is_last():
            policy_step = policy.action(time_step, policy_state)
            policy_state = policy_step.state
            time_step = env.step(policy_step.action)
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep | None,
        action_spec: Nest,
        policy_state_spec: Nest = (),
        info_spec: Nest = (),
        observation_and_action_constraint_splitter: Splitter | None = None,
    ) -> None:
        """Keeps the specs, all without batch dimension.

        Args:
            time_step_spec: Of the time steps it will be asked about; None if it does
                not look at their observations.
            action_spec: Of its actions.
            policy_state_spec: Of its state; `()` if it has none.
            info_spec: Of what else it answers.
            observation_and_action_constraint_splitter: Takes an observation and
                returns what the policy sees of it, and a mask of the allowed actions.
        """
        self._time_step_spec = time_step_spec or ts.time_step_spec()
        self._policy_step_spec = trajectory.PolicyStep(
            action_spec, policy_state_spec, info_spec
        )
        self._splitter = observation_and_action_constraint_splitter

    @abc.abstractmethod
    def _action(
        self, time_step: ts.TimeStep, policy_state: Nest, seed: int | None = None
    ) -> trajectory.PolicyStep:
        """Chooses an action for each row of `time_step`; see `action`."""

    def action(
        self, time_step: ts.TimeStep, policy_state: Nest = (), seed: int | None = None
    ) -> trajectory.PolicyStep:
        """Returns actions for a time step, with the dimensions of its batch.

        Args:
            time_step: A single time step, or one of B rows.
            policy_state: What the call before returned as its `state`, or the initial
                state.
            seed: For this one call, where the policy draws; None to go on with its own
                generator.
        """
        if seed is None:
            return self._action(time_step, policy_state)
        return self._action(time_step, policy_state, seed=seed)

    def get_initial_state(self, batch_size: int | None = None) -> Nest:
        """Returns the state to begin an episode with, or B of them as `[B, ...]`."""
        return self._get_initial_state(batch_size)

    def update(self, variables: Nest) -> None:
        """Takes over new variables, from a learner.

        Raises:
            NotImplementedError: Unless a subclass overrides it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not implement update(): it has no variables "
            "that a learner could change."
        )

    @property
    def time_step_spec(self) -> ts.TimeStep:
        """Specs of the time steps it is asked about."""
        return self._time_step_spec

    @property
    def action_spec(self) -> Nest:
        """Specs of its actions."""
        return self._policy_step_spec.action

    @property
    def policy_state_spec(self) -> Nest:
        """Specs of its state."""
        return self._policy_step_spec.state

    @property
    def info_spec(self) -> Nest:
        """Specs of what it answers besides actions."""
        return self._policy_step_spec.info

    @property
    def policy_step_spec(self) -> trajectory.PolicyStep:
        """Specs of what `action` returns."""
        return self._policy_step_spec

    @property
    def trajectory_spec(self) -> trajectory.Trajectory:
        """Specs of what a driver collects with this policy."""
        return trajectory.from_transition(
            self._time_step_spec, self._policy_step_spec, self._time_step_spec
        )

    @property
    def collect_data_spec(self) -> trajectory.Trajectory:
        """Specs of what a learner needs: `trajectory_spec`, unless overridden."""
        return self.trajectory_spec

    @property
    def observation_and_action_constraint_splitter(self) -> Splitter | None:
        """The function that takes the mask of allowed actions out of observations."""
        return self._splitter

    def _get_initial_state(self, batch_size: int | None) -> Nest:
        """Returns zeros in the form of the state spec."""
        outer_dims = () if batch_size is None else (batch_size,)
        return sampling.zeros(self.policy_state_spec, outer_dims)


PolicyLike = PyPolicy | Callable[[ts.TimeStep], Nest]
"""A policy, or a function from a time step to an action."""


class HasSpecs(Protocol):
    """What a policy made of a function takes its specs from: any environment."""

    def time_step_spec(self) -> ts.TimeStep: ...

    def action_spec(self) -> Nest: ...


def as_policy(policy: PolicyLike, env: HasSpecs | None = None) -> PyPolicy:
    """Returns `policy` itself, or a bare function made into a policy.

    Args:
        policy: Anything with a method `action`, as it is; or a function that takes a
            time step and returns an action (or a `PolicyStep`, as the method `action`
            of a policy does).
        env: Gives a policy made of a function its specs; None for empty ones.

    Raises:
        TypeError: If `policy` is neither, or a function of other arguments.
    """
    if hasattr(policy, "action") and not isinstance(policy, type):
        return cast(PyPolicy, policy)
    if isinstance(policy, type) or not callable(policy):
        raise TypeError(
            "policy: expected an object with a method action(time_step, policy_state), "
            f"or a function time_step -> action, got {policy!r}."
        )
    _check_takes_time_step(policy)
    return _FunctionPolicy(policy, env)


def initial_state(policy: PyPolicy, batch_size: int | None) -> Nest:
    """Returns a policy's initial state; `()` for one that is nothing but `action`.

    Args:
        policy: What `as_policy` returned.
        batch_size: As for `PyPolicy.get_initial_state`.
    """
    if not hasattr(policy, "get_initial_state"):
        return ()
    return policy.get_initial_state(batch_size)


def _check_takes_time_step(function: Callable[..., Nest]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # Compiled functions may have none.
        return
    try:
        signature.bind("time_step")
    except TypeError:
        name = getattr(function, "__name__", repr(function))
        raise TypeError(
            "policy: expected a function of one argument, the time step, got "
            f"{name}{signature}."
        ) from None


class _FunctionPolicy(PyPolicy):
    """A policy without state that asks a function."""

    def __init__(
        self, function: Callable[[ts.TimeStep], Nest], env: HasSpecs | None
    ) -> None:
        if env is None:
            super().__init__(None, ())
        else:
            super().__init__(env.time_step_spec(), env.action_spec())
        self._function = function

    def _action(
        self, time_step: ts.TimeStep, policy_state: Nest, seed: int | None = None
    ) -> trajectory.PolicyStep:
        answer = self._function(time_step)
        if isinstance(answer, trajectory.PolicyStep):
            return answer
        return trajectory.PolicyStep(answer, policy_state)
