"""Small environments that say in their observations what happened to them.

All of them are deterministic. Those whose class says what is wrong with them break the
contract of an environment on purpose, at one place each.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import array_spec, nest

Nest = nest.Nest
End = Literal["termination", "truncation"]


class Counting(PyEnvironment):
    """Counts: the observation is `[index, episode, t]`, the reward t.

    Episodes are counted from 0, and t from 0 at each reset. The last step of an episode
    is the one in which t gets to `length`. The action, an int64 from 0 to 9, changes
    nothing and is kept in `last_action`.
    """

    def __init__(
        self, index: int = 0, length: int = 3, end: End = "termination"
    ) -> None:
        super().__init__()
        self.index = index
        self.length = length
        self.end = end
        self.episode = -1
        self.t = 0
        self.last_action: Nest = None

    def observation_spec(self) -> Nest:
        return array_spec.ArraySpec((3,), np.int64, "observation")

    def action_spec(self) -> Nest:
        return array_spec.BoundedArraySpec((), np.int64, 0, 9, "action")

    def _observation(self) -> Nest:
        return np.array([self.index, self.episode, self.t], np.int64)

    def _reset(self) -> ts.TimeStep:
        self.episode += 1
        self.t = 0
        return ts.restart(self._observation())

    def _step(self, action: Nest) -> ts.TimeStep:
        self.last_action = action
        self.t += 1
        if self.t < self.length:
            return ts.transition(self._observation(), self.t)
        if self.end == "termination":
            return ts.termination(self._observation(), self.t)
        return ts.truncation(self._observation(), self.t)

    def get_info(self) -> dict[str, int]:
        return {"episode": self.episode, "t": self.t}

    def get_state(self) -> tuple[int, int, ts.TimeStep | None]:
        return self.episode, self.t, self._current_time_step

    def set_state(self, state: tuple[int, int, ts.TimeStep | None]) -> None:
        self.episode, self.t, self._current_time_step = state


class Drawing(Counting):
    """The observation is four numbers drawn at each reset; `seed` decides which."""

    def __init__(self, index: int = 0, length: int = 3) -> None:
        super().__init__(index, length)
        self.generator = np.random.default_rng(index)
        self.drawn: npt.NDArray[np.int64] = np.zeros(4, np.int64)

    def observation_spec(self) -> Nest:
        return array_spec.BoundedArraySpec((4,), np.int64, 0, 2**31, "observation")

    def seed(self, seed: int) -> int:
        self.generator = np.random.default_rng(seed)
        return seed

    def _observation(self) -> Nest:
        return np.array(self.drawn)

    def _reset(self) -> ts.TimeStep:
        self.drawn = self.generator.integers(0, 2**31, 4)
        return super()._reset()


class Nested(Counting):
    """Nests in nests: named dicts, a tuple, several dtypes, and an empty part."""

    def observation_spec(self) -> Nest:
        return {
            "cam": {"rgb": array_spec.BoundedArraySpec((5, 5, 3), np.uint8, 0, 255)},
            "joints": (
                array_spec.ArraySpec((2,), np.float32),
                array_spec.ArraySpec((), np.float64),
            ),
            "goal": array_spec.ArraySpec((), np.int32),
            "nothing": {},
        }

    def action_spec(self) -> Nest:
        return {
            "move": array_spec.BoundedArraySpec((2,), np.float32, -1, 1),
            "jump": array_spec.BoundedArraySpec((), np.bool_),
        }

    def _observation(self) -> Nest:
        return {
            "cam": {"rgb": np.full((5, 5, 3), self.t % 256, np.uint8)},
            "joints": (np.full(2, self.t, np.float32), np.float64(self.index)),
            "goal": np.int32(self.episode),
            "nothing": {},
        }


class Image(Counting):
    """Pictures, uint8 `[height, width, 3]`, whose pixels all are t; it also renders."""

    def __init__(
        self, index: int = 0, length: int = 3, height: int = 84, width: int = 84
    ) -> None:
        super().__init__(index, length)
        self.shape = (height, width, 3)

    def observation_spec(self) -> Nest:
        return array_spec.BoundedArraySpec(self.shape, np.uint8, 0, 255, "pixels")

    def _observation(self) -> npt.NDArray[np.uint8]:
        return np.full(self.shape, self.t % 256, np.uint8)

    def render(self, mode: str = "rgb_array") -> npt.NDArray[np.uint8]:
        if mode != "rgb_array":
            raise NotImplementedError(
                f'mode: expected "rgb_array", got {mode!r}: there is no screen.'
            )
        return self._observation()


class VariableSize(Counting):
    """The observation is as long as t, so its size is another at each step."""

    def observation_spec(self) -> Nest:
        return array_spec.ArraySpec((None,), np.int64, "observation")

    def _observation(self) -> Nest:
        return np.arange(self.t, dtype=np.int64)


class Endless(Counting):
    """Never ends an episode."""

    def _step(self, action: Nest) -> ts.TimeStep:
        self.length = self.t + 2
        return super()._step(action)


class RaisingInConstructor(Counting):
    """Its constructor raises RuntimeError."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        raise RuntimeError(f"environment with index {index} cannot be made")


class RaisingInReset(Counting):
    """The reset that would begin episode number `at` raises ValueError."""

    def __init__(self, index: int = 0, length: int = 3, at: int = 0) -> None:
        super().__init__(index, length)
        self.at = at

    def _reset(self) -> ts.TimeStep:
        time_step = super()._reset()
        if self.episode == self.at:
            raise ValueError(f"bad episode {self.episode}")
        return time_step


class _FailingInStep(Counting):
    """Does `_fail` instead of the step that would make t equal to `at`."""

    def __init__(self, index: int = 0, length: int = 3, at: int = 1) -> None:
        super().__init__(index, length)
        self.at = at

    def _step(self, action: Nest) -> ts.TimeStep:
        if self.t + 1 == self.at:
            self._fail()
        return super()._step(action)

    def _fail(self) -> None:
        raise NotImplementedError


class RaisingInStep(_FailingInStep):
    """Raises ValueError in the step that would make t equal to `at`."""

    def _fail(self) -> None:
        raise ValueError(f"bad state {self.t}")


class RaisingSystemExit(_FailingInStep):
    """Calls `sys.exit(3)` in the step that would make t equal to `at`."""

    def _fail(self) -> None:
        sys.exit(3)


class Exiting(_FailingInStep):
    """Ends its process with code 3, without a word, as native code may do."""

    def _fail(self) -> None:
        os._exit(3)


class Dying(_FailingInStep):
    """Ends its process by SIGKILL."""

    def _fail(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Hanging(_FailingInStep):
    """Waits for ever."""

    def _fail(self) -> None:
        threading.Event().wait()


class WrongShape(Nested):
    """observation['cam']['rgb'] has a dimension too many."""

    def _observation(self) -> Nest:
        observation = super()._observation()
        observation["cam"]["rgb"] = observation["cam"]["rgb"][None]
        return observation


class WrongDtype(Nested):
    """observation['cam']['rgb'] is float64 instead of uint8."""

    def _observation(self) -> Nest:
        observation = super()._observation()
        observation["cam"]["rgb"] = observation["cam"]["rgb"].astype(np.float64)
        return observation


class WrongStructure(Nested):
    """observation['goal'] is missing."""

    def _observation(self) -> Nest:
        observation = super()._observation()
        del observation["goal"]
        return observation


class OutOfBounds(Drawing):
    """An observation is below its minimum."""

    def _observation(self) -> Nest:
        return np.array([0, 0, -1, 0], np.int64)


class WrongReward(Counting):
    """Its reward is a float64 array, where its spec says float32."""

    def _step(self, action: Nest) -> ts.TimeStep:
        reward = np.array(1.0, np.float64)
        return super()._step(action)._replace(reward=reward)


class WrongDiscount(Counting):
    """Its discount is 2."""

    def _step(self, action: Nest) -> ts.TimeStep:
        return super()._step(action)._replace(discount=np.float32(2))


class StartingInTheMiddle(Counting):
    """Its reset returns MID."""

    def _reset(self) -> ts.TimeStep:
        return ts.transition(super()._reset().observation, 0.0)


class RestartingByItself(Counting):
    """Begins a new episode without having ended the one before."""

    def _step(self, action: Nest) -> ts.TimeStep:
        if self.t + 1 == self.length:
            return self._reset()
        return super()._step(action)


class GoingOnAfterTheEnd(Counting):
    """Returns MID after LAST, since it wants to reset itself and does not."""

    def __init__(self, index: int = 0, length: int = 3) -> None:
        super().__init__(index, length)
        self._handle_auto_reset = False

    def _step(self, action: Nest) -> ts.TimeStep:
        time_step = super()._step(action)
        if self.t > self.length:
            return ts.transition(time_step.observation, time_step.reward)
        return time_step


class WritingIntoOldSteps(Counting):
    """Returns the same array each time, so that steps returned before change."""

    def __init__(self, index: int = 0, length: int = 3) -> None:
        super().__init__(index, length)
        self._buffer: npt.NDArray[Any] = np.zeros(3, np.int64)

    def _observation(self) -> Nest:
        self._buffer[:] = super()._observation()
        return self._buffer
