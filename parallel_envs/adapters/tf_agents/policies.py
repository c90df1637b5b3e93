"""Policies of TF-Agents as ours, and the other way round."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from parallel_envs import py_policy, trajectory
from parallel_envs import time_step as ts
from parallel_envs.adapters.tf_agents import library, values
from parallel_envs.specs import nest

_PyPolicy: Any = library.part("policies.py_policy").PyPolicy
_TFPolicy: Any = library.part("policies.tf_policy").TFPolicy
_eager: Any = library.part("policies.py_tf_eager_policy")
_PolicyStep: Any = library.part("trajectories.policy_step").PolicyStep

Nest = nest.Nest


def from_tf_agents_policy(policy: Any) -> py_policy.PyPolicy:
    """Returns a policy of TF-Agents as one of ours, with NumPy's arrays as actions.

    Args:
        policy: A `PyPolicy` (`RandomPyPolicy`, one loaded from a SavedModel), or a
            `TFPolicy` such as `agent.collect_policy`, which is compiled with
            `tf.function`. It is asked about single time steps and about batches alike.
            What `to_tf_agents_policy` made is unwrapped; one of ours is returned.

    Raises:
        TypeError: If `policy` is something else.
    """
    if isinstance(policy, py_policy.PyPolicy):
        return policy
    if isinstance(policy, ToTFAgentsPolicy):
        return policy.wrapped_policy()
    if not isinstance(policy, (_PyPolicy, _TFPolicy)):
        raise TypeError(f"policy: expected a policy of TF-Agents, got {policy!r:.200}.")
    return FromTFAgentsPolicy(policy)


def to_tf_agents_policy(
    policy: py_policy.PolicyLike, env: py_policy.HasSpecs | None = None
) -> Any:
    """Returns a policy of ours as a `PyPolicy` of TF-Agents.

    Args:
        policy: What `from_tf_agents_policy` made is unwrapped; one of TF-Agents is
            returned as it is.
        env: Of either library; gives its specs to a policy that is a bare function.

    Raises:
        TypeError: If `policy` is no policy.
    """
    if isinstance(policy, (_PyPolicy, _TFPolicy)):
        return policy
    if isinstance(policy, FromTFAgentsPolicy):
        return policy.wrapped_policy()
    return ToTFAgentsPolicy(py_policy.as_policy(policy, env and _OurSpecs(env)))


class _OurSpecs:
    """What an environment of either library says of itself, in specs of ours."""

    def __init__(self, env: py_policy.HasSpecs) -> None:
        self._env = env

    def time_step_spec(self) -> ts.TimeStep:
        return values.from_tf_agents_spec(self._env.time_step_spec(), "time_step")

    def action_spec(self) -> Nest:
        return values.from_tf_agents_spec(self._env.action_spec(), "action")


class FromTFAgentsPolicy(py_policy.PyPolicy):
    """A policy of TF-Agents as one of ours."""

    def __init__(self, policy: Any) -> None:
        """Adapts `policy`; see `from_tf_agents_policy`."""
        super().__init__(
            *_specs(policy, values.from_tf_agents_spec),
            policy.observation_and_action_constraint_splitter,
        )
        self._policy = self._of_batches = self._of_one = policy
        if isinstance(policy, (_TFPolicy, _eager.PyTFEagerPolicyBase)):
            self._of_batches, self._of_one = (
                _eager_policy(policy, batch_time_steps=is_single)
                for is_single in (False, True)
            )

    def wrapped_policy(self) -> Any:
        """Returns the policy of TF-Agents."""
        return self._policy

    def _action(
        self, time_step: ts.TimeStep, policy_state: Nest, seed: int | None = None
    ) -> trajectory.PolicyStep:
        asked = self._of_batches if np.ndim(time_step.step_type) else self._of_one
        answer = asked.action(
            values.to_tf_agents_time_step(time_step), policy_state, seed
        )
        return trajectory.PolicyStep(
            nest.map_structure(np.asarray, answer.action),
            answer.state,  # It goes back to the policy, whose tensors it may be.
            nest.map_structure(np.asarray, answer.info),
        )

    def _get_initial_state(self, batch_size: int | None) -> Nest:
        is_of_tensors = isinstance(self._of_one, _eager.PyTFEagerPolicyBase)
        if batch_size is None and is_of_tensors:
            batch_size = 1  # Of one time step it makes a batch.
        return self._of_one.get_initial_state(batch_size)


class ToTFAgentsPolicy(_PyPolicy):
    """A policy of ours as one of TF-Agents."""

    def __init__(self, policy: py_policy.PyPolicy) -> None:
        """Adapts `policy`; see `to_tf_agents_policy`."""
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            *_specs(policy, values.to_tf_agents_spec),
            policy.observation_and_action_constraint_splitter,
        )
        self._policy = policy

    def wrapped_policy(self) -> py_policy.PyPolicy:
        """Returns our policy."""
        return self._policy

    def _action(self, time_step: Any, policy_state: Nest, seed: Any = None) -> Any:
        answer = self._policy.action(
            values.from_tf_agents_time_step(time_step), policy_state, seed
        )
        return _PolicyStep(*answer)

    def _get_initial_state(self, batch_size: Any) -> Nest:
        # TF-Agents' `TFPyPolicy` hands it over in a tuple.
        size = None if batch_size is None else int(np.ravel(batch_size)[0])
        return self._policy.get_initial_state(size)


def _specs(
    policy: Any, convert: Callable[[Nest, str], Nest]
) -> tuple[Any, Nest, Nest, Nest]:
    """Returns what a policy of either library says of itself, as the other's specs."""
    return (
        convert(policy.time_step_spec, "time_step"),
        convert(policy.action_spec, "action"),
        convert(policy.policy_state_spec, "policy_state"),
        convert(policy.info_spec, "info"),
    )


def _eager_policy(policy: Any, *, batch_time_steps: bool) -> Any:
    """Returns a policy of tensors as one that is asked with arrays."""
    if _is_of_tensors(policy):
        return _eager.PyTFEagerPolicy(
            policy, use_tf_function=True, batch_time_steps=batch_time_steps
        )
    # It is such a policy, also one of a SavedModel, made for the one or for the other.
    own: Any = operator.attrgetter("_policy", "_use_tf_function")(policy)
    inner, use_tf_function = own
    return _eager.PyTFEagerPolicyBase(
        inner,
        policy.time_step_spec,
        policy.action_spec,
        policy.policy_state_spec,
        policy.info_spec,
        use_tf_function,
        batch_time_steps,
    )


def _is_of_tensors(policy: Any) -> bool:
    return isinstance(policy, _TFPolicy)
