"""The last few observations as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec, batching, nest
from parallel_envs.wrappers import arguments, base

Nest = nest.Nest
Array = npt.NDArray[Any]


class FrameStack(base.PyEnvironmentBaseWrapper):
    """Observes the last `num_frames` observations, the newest at the end of an axis.

    Each leaf gets a new axis. At FIRST all of it is the first observation. Observations
    are the caller's own: what is stacked is kept in one block of memory, which moves on
    by one frame at each step and is then copied whole.

    In a batch each row has its own stack. The members of a batch besides `reset` and
    `step`, such as `send` and `recv`, know nothing of it.
    """

    def __init__(
        self,
        env: py_environment.PyEnvironment,
        num_frames: int = 4,
        axis: int = -1,
        handle_auto_reset: bool | None = None,
    ) -> None:
        """Stacks the observations of `env`.

        Args:
            env: Single or batched.
            num_frames: Observations in a stack, at least 1.
            axis: Where the new axis is: -1 for `[..., num_frames]`, as in TF-Agents, 0
                for `[num_frames, ...]`, as in Gymnasium, in a batch after that of rows.
            handle_auto_reset: As in `PyEnvironmentBaseWrapper`.

        Raises:
            TypeError: If `env` is no `PyEnvironment` or `num_frames` no integer.
            ValueError: If a number is out of range, or the size of a leaf may vary.
        """
        super().__init__(env, handle_auto_reset)
        arguments.count("num_frames", num_frames, "frame")
        if axis not in (0, -1):
            raise ValueError(f"axis: expected 0 or -1, got {axis!r}.")
        frames = nest.Structure(env.observation_spec(), "observation")
        _check_sizes(frames)
        self._frames = frames
        self._spec = frames.pack(
            [_stacked(spec, num_frames, axis) for spec in frames.specs]
        )
        self._stacks = [
            _Stack(spec, path, env.batch_size, num_frames, axis)
            for spec, path in zip(frames.specs, frames.paths, strict=True)
        ]

    def observation_spec(self) -> Nest:
        return self._spec

    def get_state(self) -> tuple[Any, list[Array], ts.TimeStep | None]:
        """Returns the state of the environment inside, and the stacks."""
        stacks = [stack.value() for stack in self._stacks]
        return self._env.get_state(), stacks, self._current_time_step

    def set_state(self, state: tuple[Any, list[Array], ts.TimeStep | None]) -> None:
        inside, stacks, self._current_time_step = state
        self._env.set_state(inside)
        for stack, value in zip(self._stacks, stacks, strict=True):
            stack.set_value(value)

    def _reset(self) -> ts.TimeStep:
        return self._with_stack(self._env.reset())

    def _step(self, action: Nest) -> ts.TimeStep:
        return self._with_stack(self._env.step(action))

    def _with_stack(self, time_step: ts.TimeStep) -> ts.TimeStep:
        leaves = self._frames.flatten(time_step.observation)
        for stack, leaf in zip(self._stacks, leaves, strict=True):
            stack.push(leaf)
        # The constant itself, most often: comparing arrays takes ten times as long.
        if time_step.step_type is not _MID:
            is_first = time_step.is_first()
            for stack in self._stacks:
                stack.fill(is_first)
        observation = self._frames.pack([stack.value() for stack in self._stacks])
        return ts.TimeStep(*time_step[:3], observation)


class _Stack:
    """The stack of one leaf, of one environment or of B."""

    def __init__(
        self,
        spec: array_spec.ArraySpec,
        path: str,
        batch_size: int | None,
        num_frames: int,
        axis: int,
    ) -> None:
        outer = () if batch_size is None else (batch_size,)
        self._path = path
        self._frame_spec = batching.add_outer_dims_nest(spec, outer)
        stacked = _stacked(spec, num_frames, axis).shape
        self._stack = np.zeros(outer + stacked, spec.dtype)
        # Moved by this much, each element is where the one before it was. What leaves
        # the stack of its row, or of its pixel, lands where the newest frame will be.
        self._flat = self._stack.reshape(-1)
        self._distance = 1 if axis == -1 else int(np.prod(spec.shape))
        self._by_frame = np.moveaxis(self._stack, -1 if axis == -1 else len(outer), 0)
        self._newest = self._by_frame[-1, ...]

    def push(self, frame: Any) -> None:
        """Adds `frame`, and drops the oldest."""
        # What does not fit would be cast, or spread over the pixels.
        if not self._fits(frame):
            frame = self._frame_spec.validate(frame, self._path)
        self._flat[: self._flat.size - self._distance] = self._flat[self._distance :]
        self._newest[...] = frame

    def fill(self, is_first: Any) -> None:
        """Makes all of the stack the newest frame, in rows where `is_first`."""
        # With a single environment this indexes by a bool, and takes all or nothing.
        self._by_frame[:, is_first] = self._newest[is_first]

    def value(self) -> Array:
        return self._stack.copy()

    def set_value(self, value: Array) -> None:
        self._stack[...] = value

    def _fits(self, frame: Any) -> bool:
        shape, dtype = getattr(frame, "shape", None), getattr(frame, "dtype", None)
        return shape == self._newest.shape and dtype == self._newest.dtype


def _stacked(
    spec: array_spec.ArraySpec, num_frames: int, axis: int
) -> array_spec.ArraySpec:
    if axis == 0:
        return spec.replace(shape=(num_frames, *spec.shape))
    changes: dict[str, Any] = {"shape": (*spec.shape, num_frames)}
    if isinstance(spec, array_spec.BoundedArraySpec):
        for name in ("minimum", "maximum"):
            bound = getattr(spec, name)
            # A scalar serves for all pixels, whatever is at the end of the shape.
            changes[name] = bound[..., np.newaxis] if bound.ndim else bound
    return spec.replace(**changes)


def _check_sizes(frames: nest.Structure) -> None:
    for spec, path in zip(frames.specs, frames.paths, strict=True):
        if spec.is_variable:
            raise ValueError(
                f"{path}: expected a shape without None, got {spec.shape}. Arrays "
                "whose size varies cannot be stacked."
            )


_MID = ts.StepType.MID
