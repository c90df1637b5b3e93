"""An environment that is all chance, for tests and benchmarks of what is around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import batching, checks, nest, sampling

Nest = nest.Nest
RewardFn = Callable[[Any, Nest, Nest], npt.ArrayLike]


class RandomPyEnvironment(PyEnvironment):
    """Draws observations from their spec, and ends episodes at random.

    After TF-Agents' class of this name, with two differences: each instance draws its
    own numbers unless a seed is given, and rows of a batch end each by itself.
    """

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest = (),
        episode_end_probability: float = 0.1,
        discount: float = 1.0,
        reward_fn: RewardFn | None = None,
        batch_size: int | None = None,
        auto_reset: bool = True,
        seed: int | None = None,
        render_size: Sequence[int] = (2, 2, 3),
        min_duration: int = 0,
        max_duration: int | None = None,
    ) -> None:
        """Makes an environment.

        Args:
            observation_spec: What to draw observations from.
            action_spec: What actions have to fit; `()` for actions of no leaves.
            episode_end_probability: Of a step to be the last of its episode.
            discount: Of steps that are not the last.
            reward_fn: Called with step type, action and observation, each with B rows
                where there is a batch; returns rewards `()` or `[B]`. None for zeros.
            batch_size: B; None for a single environment.
            auto_reset: False: a single environment goes on after the end of an episode
                unless it is reset. Rows of a batch always reset by themselves.
            seed: Of all that is drawn; None for numbers that differ each time.
            render_size: Shape of the pictures.
            min_duration: No episode has fewer steps after its first.
            max_duration: No episode has more. None for no limit.
        """
        super().__init__(handle_auto_reset=auto_reset)
        self._observation_spec = observation_spec
        self._action_spec = action_spec
        self._step_action_spec = batching.add_outer_dims_nest(
            action_spec, () if batch_size is None else (batch_size,)
        )
        self._end_probability = episode_end_probability
        self._discount = discount
        self._reward_fn = reward_fn or self._zero_reward
        self._batch_size = batch_size
        self._outer_dims = () if batch_size is None else (batch_size,)
        self._rng = np.random.default_rng(seed)
        self._render_size = tuple(render_size)
        self._min_duration = min_duration
        self._max_duration = np.inf if max_duration is None else max_duration
        self._num_steps: Any = np.zeros(self._outer_dims, np.int64)
        self._ended: Any = np.zeros(self._outer_dims, np.bool_)

    @property
    def batched(self) -> bool:
        return self._batch_size is not None

    @property
    def batch_size(self) -> int | None:
        return self._batch_size

    def observation_spec(self) -> Nest:
        return self._observation_spec

    def action_spec(self) -> Nest:
        return self._action_spec

    def seed(self, seed: int | None) -> None:
        self._rng = np.random.default_rng(seed)

    def render(self, mode: str = "rgb_array") -> npt.NDArray[np.uint8]:
        if mode != "rgb_array":
            raise NotImplementedError(f'mode: expected "rgb_array", got {mode!r}.')
        return self._rng.integers(0, 256, self._render_size, np.uint8)

    def _reset(self) -> ts.TimeStep:
        self._num_steps = np.zeros(self._outer_dims, np.int64)
        self._ended = np.zeros(self._outer_dims, np.bool_)
        return ts.restart(self._observation(), self._batch_size)

    def _step(self, action: Nest) -> ts.TimeStep:
        checks.validate(self._step_action_spec, action, "action")
        restarts = self._ended & self.batched
        num_steps = np.where(self._ended, 0, self._num_steps) + 1
        self._num_steps = np.where(restarts, 0, num_steps)
        self._ended = ~restarts & self._draw_ends()
        step_type = np.where(self._ended, ts.StepType.LAST, ts.StepType.MID)
        step_type = np.where(restarts, ts.StepType.FIRST, step_type)
        observation = self._observation()
        reward = self._checked_reward(self._reward_fn(step_type, action, observation))
        discount = np.where(self._ended, 0, self._discount)
        return ts.TimeStep(
            step_type=step_type,
            reward=np.where(restarts, np.float32(0), reward),
            discount=np.where(restarts, 1, discount).astype(np.float32),
            observation=observation,
        )

    def _observation(self) -> Nest:
        return sampling.sample(self._observation_spec, self._rng, self._outer_dims)

    def _draw_ends(self) -> npt.NDArray[np.bool_]:
        drawn = self._rng.random(self._outer_dims) < self._end_probability
        may_end = self._num_steps >= self._min_duration
        return may_end & (drawn | (self._num_steps >= self._max_duration))

    def _zero_reward(self, *_: object) -> npt.NDArray[np.float32]:
        return np.zeros(self._outer_dims, np.float32)

    def _checked_reward(self, reward: npt.ArrayLike) -> npt.NDArray[np.float32]:
        array = np.asarray(reward, np.float32)
        if array.shape != self._outer_dims:
            raise ValueError(
                f"reward_fn: expected a reward of shape {self._outer_dims}, got one of "
                f"shape {array.shape}."
            )
        return array
