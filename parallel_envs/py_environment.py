"""The base class of every environment: what a user writes, and what comes for free."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec, nest

Nest = nest.Nest
_Self = TypeVar("_Self", bound="PyEnvironment")


class PyEnvironment(abc.ABC):
    """An environment that is stepped from Python; the interface is TF-Agents'.

    A subclass writes `observation_spec`, `action_spec`, `_reset` and `_step`, and may
    override any other public member but `reset` and `step`, which keep the last step
    and start a new episode after the end of one:

        call                                  result
        ------------------------------------  ------------------------------------
        reset(), or the first step(action)    FIRST, from _reset(); action ignored
        step(action) after FIRST or MID       MID or LAST, from _step(action)
        step(action) after LAST               FIRST, from _reset(); action ignored

    Without a call of `super().__init__()` an environment resets itself too.
    """

    # On the class, so that a subclass need not call `super().__init__()`. The names
    # and meanings are TF-Agents', whose code reads them.
    _current_time_step: ts.TimeStep | None = None
    _handle_auto_reset: bool = True
    _has_own_should_reset = False

    def __init_subclass__(cls, *, defines_step: bool = False, **kwargs: Any) -> None:
        """Refuses a subclass whose own `step` or `reset` would replace the ones here.

        Args:
            defines_step: True for classes that do their own bookkeeping of the last
                step, as batches and wrappers do.
            **kwargs: Passed on to the next class.

        Raises:
            TypeError: If `step` or `reset` is defined without `defines_step`.
        """
        super().__init_subclass__(**kwargs)
        cls._has_own_should_reset = cls.should_reset is not PyEnvironment.should_reset
        if defines_step:
            return
        for name in ("step", "reset"):
            if name in vars(cls):
                raise TypeError(
                    f"{cls.__name__} defines {name}(): write _step() and _reset() "
                    "instead. PyEnvironment's own step() and reset() call them, keep "
                    "the last time step, and reset after the end of an episode."
                )

    def __init__(self, handle_auto_reset: bool = True) -> None:
        """Makes an environment that has not been reset yet.

        Args:
            handle_auto_reset: Whether `step` after LAST resets. If False, `_step` is
                called then, for environments that reset themselves.
        """
        super().__init__()
        self._handle_auto_reset = handle_auto_reset
        self._current_time_step = None

    @abc.abstractmethod
    def observation_spec(self) -> Nest:
        """Returns the nest of specs of an observation, without a batch dimension."""

    @abc.abstractmethod
    def action_spec(self) -> Nest:
        """Returns the nest of specs of an action, without a batch dimension."""

    @abc.abstractmethod
    def _reset(self) -> ts.TimeStep:
        """Starts an episode and returns its FIRST step; see `time_step.restart`."""

    @abc.abstractmethod
    def _step(self, action: Nest) -> ts.TimeStep:
        """Acts once and returns what followed; see `time_step.transition`.

        Args:
            action: As in `action_spec()`, with B rows where the environment is batched.
        """

    def reset(self) -> ts.TimeStep:
        """Starts a new episode and returns its FIRST step."""
        time_step = self._current_time_step = self._reset()
        return time_step

    def step(self, action: Nest) -> ts.TimeStep:
        """Acts once and returns what followed; the table above says when it resets.

        Args:
            action: As in `action_spec()`, with B rows where the environment is batched.
                It is handed to `_step` unchecked.
        """
        time_step = self._current_time_step
        # By far the commonest case is not worth a call, as this runs at each step.
        if time_step is None or (
            (time_step.step_type is not _MID or self._has_own_should_reset)
            and self.should_reset(time_step)
        ):
            return self.reset()
        time_step = self._current_time_step = self._step(action)
        return time_step

    def should_reset(self, current_time_step: ts.TimeStep) -> bool:
        """Returns whether the next `step` resets and ignores its action.

        By default: after LAST, if the base class was asked to handle that. Never for a
        batched environment, in which every row resets by itself.
        """
        if not self._handle_auto_reset or self.batched:
            return False
        return bool(current_time_step.step_type == _LAST)

    def current_time_step(self) -> ts.TimeStep:
        """Returns what the last `step` or `reset` returned.

        Raises:
            ValueError: If there was none yet.
        """
        if self._current_time_step is None:
            raise ValueError(
                f"{type(self).__name__} has no current time step before its first "
                "reset(): call reset() or step() first."
            )
        return self._current_time_step

    @property
    def batched(self) -> bool:
        """Whether actions and time steps have a leading batch dimension."""
        return False

    @property
    def batch_size(self) -> int | None:
        """Number of rows, B, of a batched environment; else None.

        Raises:
            RuntimeError: If a subclass overrides `batched` but not this.
        """
        if self.batched:
            raise RuntimeError(
                f"{type(self).__name__} is batched: it has to override batch_size too."
            )
        return None

    def reward_spec(self) -> Nest:
        """Returns the nest of specs of a reward: float32 of shape `()` by default."""
        return array_spec.ArraySpec((), np.float32, "reward")

    def discount_spec(self) -> Nest:
        """Returns the spec of a discount: float32 of shape `()` in [0, 1]."""
        return array_spec.BoundedArraySpec((), np.float32, 0.0, 1.0, "discount")

    def time_step_spec(self) -> ts.TimeStep:
        """Returns a `TimeStep` of specs, made of the three other spec methods."""
        return ts.TimeStep(
            step_type=array_spec.ArraySpec((), np.int32, "step_type"),
            reward=self.reward_spec(),
            discount=self.discount_spec(),
            observation=self.observation_spec(),
        )

    def seed(self, seed: Any) -> Any:
        """Seeds what is random in the environment, from the next reset on.

        Raises:
            NotImplementedError: Unless a subclass overrides it.
        """
        raise self._not_implemented("seed()")

    def render(self, mode: str = "rgb_array") -> npt.NDArray[Any] | None:
        """Returns a picture, uint8 `[H, W, 3]`, or shows it where `mode` is "human".

        Raises:
            NotImplementedError: Unless a subclass overrides it.
        """
        raise self._not_implemented("render()")

    def get_info(self) -> Any:
        """Returns what the environment has to say about its last step, mostly a dict.

        Raises:
            NotImplementedError: Unless a subclass overrides it.
        """
        raise self._not_implemented("get_info()")

    def get_state(self) -> Any:
        """Returns everything that `set_state` needs to come back to this moment.

        Raises:
            NotImplementedError: Unless a subclass overrides it.
        """
        raise self._not_implemented("get_state()")

    def set_state(self, state: Any) -> None:
        """Comes back to the moment at which `get_state` returned `state`.

        Raises:
            NotImplementedError: Unless a subclass overrides it.
        """
        raise self._not_implemented("set_state()")

    def close(self) -> None:  # noqa: B027 - most environments hold nothing.
        """Frees what the environment holds. Does nothing by default."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _not_implemented(self, method: str) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self).__name__} does not implement {method}: override it in the "
            "environment."
        )


# As globals, because reading a class attribute takes a good part of a step's overhead.
_MID, _LAST = ts.StepType.MID, ts.StepType.LAST
