"""A limit on the length of episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.specs import nest
from parallel_envs.wrappers import arguments, base

Nest = nest.Nest


class TimeLimit(base.PyEnvironmentBaseWrapper):
    """Ends episodes after `duration` steps, as truncations.

    The last step becomes LAST and keeps its reward and its discount, which is 1.0 in
    most environments: a learner goes on counting from the last observation. An
    episode that comes to its own end in that very step keeps its discount of 0.

    In a batch each row has its own count. A batch cannot reset one of its rows on the
    way, so a row that was cut is stepped once more together with the others, the
    result is thrown away, and the row is reset by itself, through `env.envs[row]`.
    With the limit inside of the constructors, `lambda: TimeLimit(make_env(), 100)`,
    there is no such extra step, and no waiting for one row after another.
    """

    def __init__(
        self,
        env: py_environment.PyEnvironment,
        duration: int,
        handle_auto_reset: bool | None = None,
    ) -> None:
        """Limits the episodes of `env`.

        Args:
            env: Single, or a batch itself (not a wrapper around it) that has an
                environment for each row in `env.envs`.
            duration: Steps after FIRST, at least 1.
            handle_auto_reset: As in `PyEnvironmentBaseWrapper`.

        Raises:
            TypeError: If `env` is no `PyEnvironment` or `duration` no integer.
            ValueError: If `duration` is below 1, or rows of `env` cannot be reset.
        """
        super().__init__(env, handle_auto_reset)
        self._duration = arguments.count("duration", duration, "step")
        self._rows = _RowLimits(env, self._duration) if env.batched else None
        self._num_steps = 0
        self._is_cut = False

    @property
    def duration(self) -> int:
        """Steps after FIRST at which an episode ends at the latest."""
        return self._duration

    def _reset(self) -> ts.TimeStep:
        self._num_steps = 0
        self._is_cut = False
        time_step = self._env.reset()
        return time_step if self._rows is None else self._rows.started(time_step)

    def _step(self, action: Nest) -> ts.TimeStep:
        if self._rows is not None:
            return self._rows.step(action)
        if self._is_cut:
            # Where the environment resets itself: it does not know of this end.
            return self._reset()
        time_step = self._env.step(action)
        step_type = time_step.step_type
        # The constant itself, most often: comparing arrays takes ten times as long.
        if step_type is not _MID and step_type != _MID:
            self._num_steps = 0
            return time_step
        self._num_steps += 1
        if self._num_steps < self._duration:
            return time_step
        self._is_cut = True
        return time_step._replace(step_type=_LAST)


class _RowLimits:
    """The same for a batch: counts `[B]`, and resets of single rows."""

    def __init__(self, env: py_environment.PyEnvironment, duration: int) -> None:
        self._env = env
        self._envs = _environments_of_rows(env)
        self._duration = duration
        self._structure = nest.Structure(env.time_step_spec(), "time_step")
        self._num_steps = np.zeros(len(self._envs), np.int64)
        self._is_cut = np.zeros(len(self._envs), np.bool_)

    def started(self, time_step: ts.TimeStep) -> ts.TimeStep:
        self._num_steps[:] = 0
        self._is_cut[:] = False
        return time_step

    def step(self, action: Nest) -> ts.TimeStep:
        if self._is_cut.all():
            return self.started(self._env.reset())
        time_step = self._env.step(action)
        if self._is_cut.any():
            time_step = self._with_cut_rows_reset(time_step)
        self._num_steps = np.where(time_step.is_mid(), self._num_steps + 1, 0)
        self._is_cut = self._num_steps >= self._duration
        if not self._is_cut.any():
            return time_step
        step_type: npt.NDArray[np.int32] = np.where(
            self._is_cut, _LAST, time_step.step_type
        )
        return time_step._replace(step_type=step_type)

    def _with_cut_rows_reset(self, time_step: ts.TimeStep) -> ts.TimeStep:
        # Copies, because the arrays may be a view on what the batch will reuse. A leaf
        # of varying size is a list of B arrays, and `copy` serves both.
        leaves = [leaf.copy() for leaf in self._structure.flatten(time_step)]
        for row in np.flatnonzero(self._is_cut):
            first = self._structure.flatten(self._envs[row].reset())
            for leaf, value in zip(leaves, first, strict=True):
                leaf[row] = value
        return self._structure.pack(leaves)


def _environments_of_rows(env: py_environment.PyEnvironment) -> Any:
    # A wrapper in between would not learn that a row was reset inside of it.
    is_wrapper = isinstance(env, base.PyEnvironmentBaseWrapper)
    envs = () if is_wrapper else getattr(env, "envs", ())
    if len(envs) != env.batch_size:
        raise ValueError(
            "env: expected a batch, itself and not wrapped, with an environment for "
            f"each of its {env.batch_size} rows in env.envs, got {env!r}. A row that "
            "reaches its limit must be reset by itself. Wrap the environments before "
            "they are batched, as in [lambda: TimeLimit(make_env(), duration), ...]."
        )
    return envs


_MID, _LAST = ts.StepType.MID, ts.StepType.LAST
