"""What drivers hand to observers and replay buffers: time steps joined with actions.

The names and semantics are those of TF-Agents' `trajectories/trajectory.py` and
`policy_step.py`, in NumPy. What differs is said at `to_n_step_transition`.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs.specs import nest

Nest = nest.Nest


class PolicyStep(NamedTuple):
    """What a policy answers.

    Attributes:
        action: A nest as in the action spec, with the time step's batch dimension.
        state: What to hand to the next call of the policy; `()` if it has no state.
        info: What else the policy has to say, log probabilities for example.
    """

    action: Nest
    state: Nest = ()
    info: Nest = ()

    def replace(self, **fields: Any) -> PolicyStep:
        """Returns a copy in which the fields given by name are replaced."""
        return self._replace(**fields)


class Trajectory(NamedTuple):
    """Steps of one or more episodes, each with the action taken in it.

    `step_type`, `observation`, `action` and `policy_info` are of a time step;
    `next_step_type`, `reward` and `discount` are of the one that followed. Leaves are
    `[...]`, `[B, ...]`, `[T, ...]` or `[B, T, ...]`, as the maker says.

    An episode of n actions is n + 1 steps. The last of them is the boundary: LAST,
    followed by the FIRST of the next episode. Its observation is the final one of the
    episode, and its action was ignored.
    """

    step_type: Any
    observation: Nest
    action: Nest
    policy_info: Nest
    next_step_type: Any
    reward: Nest
    discount: Any

    def is_first(self) -> Any:
        """Whether an episode starts here; one bool for each step."""
        return np.equal(self.step_type, ts.StepType.FIRST)

    def is_mid(self) -> Any:
        """Whether an episode neither starts here nor ends next; for each step."""
        mid = ts.StepType.MID
        return np.equal(self.step_type, mid) & np.equal(self.next_step_type, mid)

    def is_last(self) -> Any:
        """Whether the episode ended with the action taken here; for each step."""
        return np.equal(self.next_step_type, ts.StepType.LAST)

    def is_boundary(self) -> Any:
        """Whether this is the step between two episodes; for each step."""
        return np.equal(self.step_type, ts.StepType.LAST)

    def replace(self, **fields: Any) -> Trajectory:
        """Returns a copy in which the fields given by name are replaced."""
        return self._replace(**fields)


class Transition(NamedTuple):
    """A step, what was done in it, and the step that followed (once, or n times)."""

    time_step: ts.TimeStep
    action_step: PolicyStep
    next_time_step: ts.TimeStep

    def replace(self, **fields: Any) -> Transition:
        """Returns a copy in which the fields given by name are replaced."""
        return self._replace(**fields)


def from_transition(
    time_step: ts.TimeStep, action_step: PolicyStep, next_time_step: ts.TimeStep
) -> Trajectory:
    """Returns a trajectory of the same arrays; no dimension is added."""
    return Trajectory(
        step_type=time_step.step_type,
        observation=time_step.observation,
        action=action_step.action,
        policy_info=action_step.info,
        next_step_type=next_time_step.step_type,
        reward=next_time_step.reward,
        discount=next_time_step.discount,
    )


def first(
    observation: Nest,
    action: Nest,
    policy_info: Nest,
    reward: Nest,
    discount: npt.ArrayLike,
) -> Trajectory:
    """Returns steps from FIRST to MID, as many as `discount` has elements.

    Leaves are made arrays. `discount` has the shape of the outer dimensions: `()`,
    `[B]`, `[T]` or `[B, T]`; the leaves of the others begin with it.
    """
    step_types = (ts.StepType.FIRST, ts.StepType.MID)
    return _uniform(step_types, observation, action, policy_info, reward, discount)


def mid(
    observation: Nest,
    action: Nest,
    policy_info: Nest,
    reward: Nest,
    discount: npt.ArrayLike,
) -> Trajectory:
    """Returns steps from MID to MID; arguments as for `first`."""
    step_types = (ts.StepType.MID, ts.StepType.MID)
    return _uniform(step_types, observation, action, policy_info, reward, discount)


def last(
    observation: Nest,
    action: Nest,
    policy_info: Nest,
    reward: Nest,
    discount: npt.ArrayLike,
) -> Trajectory:
    """Returns steps from MID to LAST; arguments as for `first`."""
    step_types = (ts.StepType.MID, ts.StepType.LAST)
    return _uniform(step_types, observation, action, policy_info, reward, discount)


def single_step(
    observation: Nest,
    action: Nest,
    policy_info: Nest,
    reward: Nest,
    discount: npt.ArrayLike,
) -> Trajectory:
    """Returns whole episodes of one action, FIRST to LAST; arguments as for `first`."""
    step_types = (ts.StepType.FIRST, ts.StepType.LAST)
    return _uniform(step_types, observation, action, policy_info, reward, discount)


def boundary(
    observation: Nest,
    action: Nest,
    policy_info: Nest,
    reward: Nest,
    discount: npt.ArrayLike,
) -> Trajectory:
    """Returns steps between episodes, LAST to FIRST; arguments as for `first`."""
    step_types = (ts.StepType.LAST, ts.StepType.FIRST)
    return _uniform(step_types, observation, action, policy_info, reward, discount)


def from_episode(
    observation: Nest,
    action: Nest,
    policy_info: Nest,
    reward: Nest,
    discount: npt.ArrayLike | None = None,
) -> Trajectory:
    """Returns one whole episode without its boundary, leaves `[T, ...]`.

    Args:
        observation: Leaves `[T, ...]`: what was seen before each action.
        action: Leaves `[T, ...]`.
        policy_info: Leaves `[T, ...]`.
        reward: Leaves `[T, ...]`: what each action earned.
        discount: `[T]`; None for float32 ones, an episode that was cut.

    Raises:
        ValueError: If the leaves are not of one length, or have no step at all.
    """
    timed = np.asarray(nest.flatten(reward)[0] if discount is None else discount)
    length = timed.shape[0] if timed.ndim else 0
    if discount is None:
        discount = np.ones(length, np.float32)
    trajectory = Trajectory(
        step_type=np.full(length, ts.StepType.MID),
        observation=_arrays(observation),
        action=_arrays(action),
        policy_info=_arrays(policy_info),
        next_step_type=np.full(length, ts.StepType.MID),
        reward=_arrays(reward),
        discount=np.asarray(discount),
    )
    _check_length(trajectory, length)
    trajectory.step_type[0] = ts.StepType.FIRST
    trajectory.next_step_type[-1] = ts.StepType.LAST
    return trajectory


def to_transition(
    trajectory: Trajectory, next_trajectory: Trajectory | None = None
) -> Transition:
    """Returns the transitions within a trajectory, or from it to an adjacent one.

    A transition that starts in a boundary step leads from one episode to the next:
    `time_step.is_last()` marks those, and a learner leaves them out.

    Args:
        trajectory: Leaves `[B, T, ...]`; `[B, ...]` will do with a `next_trajectory`.
        next_trajectory: The same, one step later. If None, it is `trajectory` without
            its first step, and the last step of `trajectory` gives its observation
            only.

    Returns:
        Leaves `[B, T - 1, ...]`, or as in `trajectory` where `next_trajectory` is
        given. They are views. `time_step.reward` and `.discount` are not known, and 0.

    Raises:
        ValueError: If `trajectory.discount` has no time dimension to cut along.
    """
    if next_trajectory is None:
        _check_has_time(trajectory.discount)
        next_observation = _at(np.s_[:, 1:], trajectory.observation)
        trajectory = _at(np.s_[:, :-1], trajectory)
    else:
        next_observation = next_trajectory.observation
    return Transition(
        time_step=ts.TimeStep(
            step_type=trajectory.step_type,
            reward=nest.map_structure(np.zeros_like, trajectory.reward),
            discount=np.zeros_like(trajectory.discount),
            observation=trajectory.observation,
        ),
        action_step=PolicyStep(trajectory.action, (), trajectory.policy_info),
        next_time_step=ts.TimeStep(
            step_type=trajectory.next_step_type,
            reward=trajectory.reward,
            discount=trajectory.discount,
            observation=next_observation,
        ),
    )


def to_n_step_transition(trajectory: Trajectory, gamma: float) -> Transition:
    """Returns the transition over all n actions but the last step's, n = T - 1.

    With rewards r, discounts d and k the number of actions up to the end of the
    episode, at most n:

        reward   = r[0] + gamma d[0] r[1] + ... + gamma^(k-1) d[0]...d[k-2] r[k-1]
        discount = gamma^(k-1) d[0] ... d[k-1]

    so that a learner that discounts with gamma itself bootstraps with
    `reward + gamma * discount * value(next_time_step.observation)`. TF-Agents always
    sums over n steps. Here nothing is taken from beyond the end of an episode: where
    one was cut (its discount is not 0), the sum stops there and the next observation
    is the final one of the episode, which its boundary step holds.

    Args:
        trajectory: Leaves `[B, T, ...]`, T at least 2. Rows that start in a boundary
            step are no transitions: `time_step.is_last()` marks them.
        gamma: Discount of a step, on top of the trajectory's own.

    Returns:
        Leaves `[B, ...]`, new arrays. `time_step.reward` and `.discount` are not
        known, and nan.

    Raises:
        ValueError: If T is less than 2, or if a cut episode is not followed by its
            boundary step, so that its final observation is not there.
    """
    _check_has_time(trajectory.discount)
    if trajectory.discount.shape[1] < 2:
        raise ValueError(
            "trajectory: expected at least 2 steps in time, leaves [B, T, ...], got "
            f"discount of shape {trajectory.discount.shape}."
        )
    ends, within = _episode_ends(trajectory)
    rows = np.arange(len(ends))
    weights, discount = _n_step_weights(trajectory.discount, ends, gamma)

    def n_step_return(reward: npt.NDArray[Any]) -> npt.NDArray[Any]:
        inner = tuple(range(2, reward.ndim))
        mask = np.expand_dims(within, inner)
        rewards = np.where(mask, reward[:, :-1], 0)  # Also where it is nan beyond.
        return np.sum(np.expand_dims(weights, inner) * rewards, axis=1)

    start = _at((rows, 0), trajectory)
    return Transition(
        time_step=ts.TimeStep(
            step_type=start.step_type,
            reward=nest.map_structure(_nans, start.reward),
            discount=_nans(start.discount),
            observation=start.observation,
        ),
        action_step=PolicyStep(start.action, (), start.policy_info),
        next_time_step=ts.TimeStep(
            step_type=trajectory.next_step_type[rows, ends],
            reward=nest.map_structure(n_step_return, trajectory.reward),
            discount=discount,
            observation=_at((rows, ends + 1), trajectory.observation),
        ),
    )


def experience_to_transitions(
    experience: Trajectory, squeeze_time_dim: bool
) -> Transition:
    """Returns `to_transition(experience)`, without its time dimension if asked.

    Args:
        experience: Leaves `[B, T, ...]`.
        squeeze_time_dim: Whether T is 2 and the leaves of the result are `[B, ...]`.

    Raises:
        ValueError: If the time dimension cannot be left out because T is not 2.
    """
    transitions = to_transition(experience)
    if not squeeze_time_dim:
        return transitions
    if experience.discount.shape[1] != 2:
        raise ValueError(
            "experience: expected 2 steps in time to leave the time dimension out, "
            f"got discount of shape {experience.discount.shape}."
        )
    return _at(np.s_[:, 0], transitions)


def to_transition_spec(trajectory_spec: Trajectory) -> Transition:
    """Returns the specs of `to_transition`'s result; the policy's state is `()`."""
    time_step_spec = ts.TimeStep(
        step_type=trajectory_spec.step_type,
        reward=trajectory_spec.reward,
        discount=trajectory_spec.discount,
        observation=trajectory_spec.observation,
    )
    action_step_spec = PolicyStep(
        trajectory_spec.action, (), trajectory_spec.policy_info
    )
    return Transition(time_step_spec, action_step_spec, time_step_spec)


def _uniform(
    step_types: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]],
    observation: Nest,
    action: Nest,
    policy_info: Nest,
    reward: Nest,
    discount: npt.ArrayLike,
) -> Trajectory:
    discount = np.asarray(discount)
    step_type, next_step_type = step_types
    return Trajectory(
        step_type=np.full(discount.shape, step_type),
        observation=_arrays(observation),
        action=_arrays(action),
        policy_info=_arrays(policy_info),
        next_step_type=np.full(discount.shape, next_step_type),
        reward=_arrays(reward),
        discount=discount,
    )


def _arrays(values: Nest) -> Nest:
    return nest.map_structure(np.asarray, values)


def _at(index: Any, values: Nest) -> Nest:
    """Returns the nest of `leaf[index]`."""
    return nest.map_structure(operator.itemgetter(index), values)


def _check_length(trajectory: Trajectory, length: int) -> None:
    if not length:
        raise ValueError(
            "episode: expected at least 1 step in leaves [T, ...], got none."
        )
    for name, value in trajectory._asdict().items():
        for leaf in nest.flatten(value):
            if leaf.shape[:1] != (length,):
                raise ValueError(
                    f"{name}: expected leaves of shape ({length}, ...), as many steps "
                    f"as the episode has, got shape {leaf.shape}."
                )


def _check_has_time(discount: npt.NDArray[Any]) -> None:
    if discount.ndim != 2:
        raise ValueError(
            "trajectory: expected leaves of shape [B, T, ...], so discount of shape "
            f"[B, T], got discount of shape {discount.shape}."
        )


def _episode_ends(
    trajectory: Trajectory,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Returns the last action of each row's return `[B]`, and which are in it `[B, n]`.

    All of the n actions but the last step's, or those up to the end of the episode.
    """
    is_last = trajectory.is_last()[:, :-1]
    is_end: npt.NDArray[np.bool_] = is_last | trajectory.is_boundary()[:, :-1]
    num_actions = int(trajectory.discount.shape[1]) - 1
    first_end: npt.NDArray[np.intp] = is_end.argmax(axis=1)
    ends = np.where(np.any(is_end, axis=1), first_end, num_actions - 1)
    rows = np.arange(len(is_end))
    was_cut = is_last[rows, ends] & (trajectory.discount[rows, ends] != 0)
    missing = was_cut & ~trajectory.is_boundary()[rows, ends + 1]
    if missing.any():
        row = int(missing.argmax())
        raise ValueError(
            f"trajectory: row {row} has an episode cut at step {ends[row]} and no "
            "boundary step (step_type LAST) after it, so the final observation to "
            "bootstrap from is missing. Keep the boundary steps."
        )
    return ends, np.arange(num_actions) <= ends[:, None]


def _n_step_weights(
    discount: npt.NDArray[Any], ends: npt.NDArray[np.intp], gamma: float
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Returns what each reward counts `[B, n]`, and the final discount `[B]`."""
    weights: npt.NDArray[Any] = np.ones_like(discount[:, :-1])
    np.cumprod(float(gamma) * discount[:, :-2], axis=1, out=weights[:, 1:])
    rows = np.arange(len(ends))
    return weights, weights[rows, ends] * discount[rows, ends]


def _nans(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return np.full(values.shape, np.nan, np.float32)
