"""What an environment returns at each step, and the functions that make it.

The semantics are those of TF-Agents' `trajectories/time_step.py`, which took them from
dm_env. Two things differ: the constants handed out are read-only, so that writing into
one step never changes another, and a discount is broadcast to the batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from parallel_envs.specs import array_spec, nest, sampling

Nest = nest.Nest


def _constant(value: float, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Returns a scalar array that nobody can make writable again."""
    # An array over immutable bytes: `setflags(write=True)` is refused as well.
    buffer = np.array(value, dtype).tobytes()
    constant: npt.NDArray[Any] = np.ndarray((), dtype, buffer)
    return constant


class StepType:
    """Where in an episode a step stands: read-only int32 arrays of shape `()`.

    `StepType(value)` returns the constant equal to `value`.
    """

    FIRST: npt.NDArray[np.int32] = _constant(0, np.int32)
    MID: npt.NDArray[np.int32] = _constant(1, np.int32)
    LAST: npt.NDArray[np.int32] = _constant(2, np.int32)

    def __new__(cls, value: Any) -> npt.NDArray[np.int32]:  # type: ignore[misc]
        """Raises ValueError if `value` is not 0, 1 or 2."""
        for constant in (cls.FIRST, cls.MID, cls.LAST):
            if value == constant:
                return constant
        raise ValueError(
            f"step_type: expected 0 (FIRST), 1 (MID) or 2 (LAST), got {value!r}."
        )


# As globals, because reading a class attribute is a good part of making a step.
_FIRST, _MID, _LAST = StepType.FIRST, StepType.MID, StepType.LAST
_ZERO, _ONE = _constant(0, np.float32), _constant(1, np.float32)
_DISCOUNTS = {0.0: _ZERO, 1.0: _ONE}


class TimeStep(NamedTuple):
    """One step of one environment, or of a batch of B.

    Attributes:
        step_type: int32 of shape `()` or `[B]`, one of `StepType`.
        reward: What the action before this step earned; 0 in a FIRST step. A nest as
            in `reward_spec()`, float32 of shape `()` or `[B]` unless that says else.
        discount: float32 of shape `()` or `[B]` in [0, 1]: how much the future after
            this step counts. 0 in a LAST step means that the episode came to its own
            end, anything else that it was cut.
        observation: A nest as in `observation_spec()`, leaves `[...]` or `[B, ...]`.
    """

    step_type: Any
    reward: Nest
    discount: Any
    observation: Nest

    def is_first(self) -> Any:
        """Whether an episode starts here: `np.bool_`, or an array of bool `[B]`."""
        return np.equal(self.step_type, _FIRST)

    def is_mid(self) -> Any:
        """Whether the step is within an episode: `np.bool_`, or bool `[B]`."""
        return np.equal(self.step_type, _MID)

    def is_last(self) -> Any:
        """Whether an episode ends here: `np.bool_`, or an array of bool `[B]`."""
        return np.equal(self.step_type, _LAST)


def restart(
    observation: Nest, batch_size: int | None = None, reward_spec: Nest | None = None
) -> TimeStep:
    """Returns the FIRST step of an episode, or of B episodes.

    Args:
        observation: Kept as it is, not copied.
        batch_size: B, or None for a single environment.
        reward_spec: Specs the zero reward is made from; None for float32 of shape `()`.

    Returns:
        Reward 0 and discount 1. Without batch size and reward spec both are read-only
        constants, as the step type is.
    """
    if batch_size is None and reward_spec is None:
        return _new(TimeStep, (_FIRST, _ZERO, _ONE, observation))
    shape = () if batch_size is None else _as_shape(batch_size)
    return TimeStep(
        step_type=_filled(_FIRST, shape),
        reward=_zero_reward(reward_spec, shape),
        discount=_filled(_ONE, shape),
        observation=observation,
    )


def transition(
    observation: Nest,
    reward: Nest,
    discount: npt.ArrayLike = 1.0,
    outer_dims: int | Iterable[int] | None = None,
) -> TimeStep:
    """Returns a MID step.

    Args:
        observation: Kept as it is, not copied.
        reward: Without `outer_dims` it is cast to float32 and its shape is that of the
            batch, `()` or `[B]`; a list counts as an array, a dict or a tuple as a nest
            whose first leaf has the batch's shape.
        discount: A number for all, or one for each row; cast to float32.
        outer_dims: Shape of the batch, `()` for a single environment. With it the
            reward is taken as it is, so that it may be a vector or of another dtype.

    Returns:
        step_type and discount have the shape of the batch. Scalars among them may be
        read-only constants; arrays are the caller's own, apart from a reward or
        discount that already had the right type, which are kept.

    Raises:
        ValueError: If a reward or discount is nan (which is also what a forgotten None
            becomes), or if the discount does not fit the batch.
    """
    # This runs at each step of each environment: what nearly all of them say goes
    # straight.
    if (
        reward.__class__ is float
        and reward == reward
        and discount.__class__ is float
        and discount == 1.0
        and outer_dims is None
    ):
        return _new(TimeStep, (_MID, _asarray(reward, _FLOAT32), _ONE, observation))
    return _later(_MID, observation, reward, discount, outer_dims)


def termination(
    observation: Nest, reward: Nest, outer_dims: int | Iterable[int] | None = None
) -> TimeStep:
    """Returns the LAST step of an episode that came to its own end: discount 0.

    Arguments, result and errors are those of `transition`.
    """
    return _later(_LAST, observation, reward, 0.0, outer_dims)


def truncation(
    observation: Nest,
    reward: Nest,
    discount: npt.ArrayLike = 1.0,
    outer_dims: int | Iterable[int] | None = None,
) -> TimeStep:
    """Returns the LAST step of an episode that was cut, by a time limit for example.

    A learner goes on counting from the last observation, since the discount stays 1.
    Arguments, result and errors are those of `transition`.
    """
    return _later(_LAST, observation, reward, discount, outer_dims)


def time_step_spec(
    observation_spec: Nest | None = None, reward_spec: Nest | None = None
) -> TimeStep:
    """Returns a `TimeStep` of specs; one of empty tuples if there is no observation.

    The discount is in [0, 1]; the reward is float32 of shape `()` unless given.
    """
    if observation_spec is None:
        return TimeStep((), (), (), ())
    if reward_spec is None:
        reward_spec = array_spec.ArraySpec((), np.float32, "reward")
    return TimeStep(
        step_type=array_spec.ArraySpec((), np.int32, "step_type"),
        reward=reward_spec,
        discount=array_spec.BoundedArraySpec((), np.float32, 0.0, 1.0, "discount"),
        observation=observation_spec,
    )


# These functions run once a step in every environment, so the common case, a single
# environment with a plain number for a reward, is told by its class and goes straight.
_FLOAT32 = np.dtype(np.float32)
_NUMBERS = frozenset({float, int, np.float32, np.float64})
_asarray = np.asarray
# Half the cost of `TimeStep(...)`.
_new: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _later(
    step_type: npt.NDArray[np.int32],
    observation: Nest,
    reward: Any,
    discount: Any,
    outer_dims: int | Iterable[int] | None,
) -> TimeStep:
    if outer_dims is None and reward.__class__ in _NUMBERS and reward == reward:
        reward, shape = np.asarray(reward, _FLOAT32), ()
    else:
        reward, shape = _reward_and_shape(reward, outer_dims)
        step_type = _filled(step_type, shape)
    if not shape and discount.__class__ is float and discount == discount:
        constant = _DISCOUNTS.get(discount)
        discount = np.asarray(discount, _FLOAT32) if constant is None else constant
    else:
        discount = _as_discount(discount, shape)
    return _new(TimeStep, (step_type, reward, discount, observation))


def _reward_and_shape(
    reward: Nest, outer_dims: int | Iterable[int] | None
) -> tuple[Nest, tuple[int, ...]]:
    """Returns the reward as it goes into a step, and the shape of the batch."""
    if outer_dims is not None:
        return reward, _as_shape(outer_dims)
    if isinstance(reward, (dict, tuple)):
        reward = nest.map_structure(_as_reward, reward)
        return reward, nest.flatten(reward)[0].shape
    reward = _as_reward(reward)
    return reward, reward.shape


def _as_reward(reward: npt.ArrayLike) -> npt.NDArray[np.float32]:
    return _as_float32(reward, "reward")


def _as_discount(
    discount: npt.ArrayLike, shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    array = _as_float32(discount, "discount")
    return array if array.shape == shape else _filled(array, shape)


def _as_float32(value: npt.ArrayLike, name: str) -> npt.NDArray[np.float32]:
    array = np.asarray(value, np.float32)
    if array.ndim:
        has_nan = bool(np.isnan(array).any())
    else:
        number = float(array)
        has_nan = number != number  # A tenth of the time of `np.isnan`.
    if has_nan:
        raise ValueError(
            f"{name}: expected numbers, got {value!r:.200}, which is or has "
            f"{'None' if np.asarray(value).dtype.hasobject else 'nan'}."
        )
    return array


def _filled(value: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Returns a new array of `shape`, or the read-only `value` itself for `()`."""
    if value.shape == shape:
        return value
    try:
        return np.full(shape, value, value.dtype)
    except ValueError:
        raise ValueError(
            f"discount: expected a number or an array of the batch's shape {shape}, "
            f"got an array of shape {value.shape}."
        ) from None


def _zero_reward(reward_spec: Nest | None, shape: tuple[int, ...]) -> Nest:
    if reward_spec is None:
        return _filled(_ZERO, shape)
    return sampling.zeros(reward_spec, shape)


def _as_shape(outer_dims: int | Iterable[int]) -> tuple[int, ...]:
    if isinstance(outer_dims, Iterable):
        return tuple(outer_dims)
    return (outer_dims,)
