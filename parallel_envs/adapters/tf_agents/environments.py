"""A single environment, or a batch, as the other library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.adapters import recognition
from parallel_envs.adapters.tf_agents import converted, library, values
from parallel_envs.specs import nest

_Base: Any = library.part("environments.py_environment").PyEnvironment

Nest = nest.Nest


def to_tf_agents(env: Any) -> Any:
    """Returns an environment as a real `PyEnvironment` of TF-Agents, which owns it.

    It adds about 0.2 us a step, whatever the nest: the arrays are those of `env`. Only
    a batch that was made with `copy=False` is copied from, since TensorFlow keeps the
    arrays that it is given. `adapters.tf_agents.ParallelPyEnvironment` is one of
    TF-Agents' without this.

    Args:
        env: Single or batched. What `from_tf_agents` made is unwrapped; an environment
            of TF-Agents is returned as it is. One of Gymnasium is adapted as well.

    Raises:
        TypeError: If `env` is no environment.
        ValueError: If a leaf of its specs has a size that varies, naming it.
    """
    if isinstance(env, _Base):
        return env
    if isinstance(env, FromTFAgents):
        return env.wrapped_env()
    return ToTFAgents(recognition.as_py_environment(env))


def from_tf_agents(env: Any) -> py_environment.PyEnvironment:
    """Returns an environment of TF-Agents as one of ours, which then owns it.

    Whether a step after LAST begins a new episode is left to `env`, as in TF-Agents'
    own batches.

    Args:
        env: Single or batched. What `to_tf_agents` made is unwrapped; one of ours is
            returned as it is. A batch that is one of both libraries, such as
            `adapters.tf_agents.ParallelPyEnvironment`, gets our specs and time steps.

    Raises:
        TypeError: If `env` is no `PyEnvironment` of TF-Agents.
    """
    if isinstance(env, ToTFAgents):
        return env.wrapped_env()
    if isinstance(env, _Base):
        return FromTFAgents(env)
    if isinstance(env, py_environment.PyEnvironment):
        return env
    raise TypeError(f"env: expected a PyEnvironment of TF-Agents, got {env!r:.200}.")


class FromTFAgents(
    converted.Converted, py_environment.PyEnvironment, defines_step=True
):
    """An environment of TF-Agents as one of ours."""

    def __init__(self, env: Any) -> None:
        """Adapts `env`; see `from_tf_agents`."""
        super().__init__(
            env,
            values.from_tf_agents_spec(_time_step_spec(env), "time_step"),
            values.from_tf_agents_spec(env.action_spec(), "action"),
        )

    def step(self, action: Nest) -> ts.TimeStep:
        return values.from_tf_agents_time_step(self._env.step(action))

    def reset(self) -> ts.TimeStep:
        return values.from_tf_agents_time_step(self._env.reset())

    _step, _reset = step, reset  # Which are abstract.

    def current_time_step(self) -> ts.TimeStep:
        return values.from_tf_agents_time_step(self._env.current_time_step())

    def should_reset(self, current_time_step: ts.TimeStep) -> bool:
        return bool(
            self._env.should_reset(values.to_tf_agents_time_step(current_time_step))
        )

    def get_info(self) -> Any:
        """Returns what `env` says of its last step; of a batch a list of B infos."""
        info, num_rows = self._env.get_info(), self.batch_size
        return info if num_rows is None else values.unstacked_infos(info, num_rows)


class _Stepped(converted.Converted, _Base):
    """Leaves it to the environment inside to keep the last step.

    TF-Agents refuses an object whose very class defines `step` or `reset`, so that a
    class in between has to.
    """

    _as_time_step: Callable[[Any], Any]

    def step(self, action: Nest) -> Any:
        return self._as_time_step(self._env.step(action))

    def reset(self) -> Any:
        return self._as_time_step(self._env.reset())

    _step, _reset = step, reset  # Which are abstract.


class ToTFAgents(_Stepped):
    """An environment of ours as one of TF-Agents."""

    def __init__(self, env: py_environment.PyEnvironment) -> None:
        """Adapts `env`; see `to_tf_agents`."""
        super().__init__(
            env,
            values.to_tf_agents_spec(env.time_step_spec(), "time_step"),
            values.to_tf_agents_spec(env.action_spec(), "action"),
        )
        has_views = getattr(env, "returns_views", False)
        self._as_time_step = _copied if has_views else values.to_tf_agents_time_step

    def current_time_step(self) -> Any:
        return self._as_time_step(self._env.current_time_step())

    def should_reset(self, current_time_step: Any) -> bool:
        return self._env.should_reset(current_time_step)

    def get_info(self) -> Any:
        """Returns what `env` says of its last step; of a batch as TF-Agents' own."""
        info = self._env.get_info()
        return values.stacked_infos(info) if self.batched else info


def _time_step_spec(env: Any) -> Any:
    observation = env.observation_spec()
    if nest.flatten(observation):
        spec = env.time_step_spec()
    else:  # TF-Agents' own method is an IndexError then.
        spec = ts.time_step_spec(observation, env.reward_spec())
    # It does not ask `discount_spec`, so that what is said there counts where the
    # environment has not said otherwise in a `time_step_spec` of its own.
    is_default = spec.discount == _Base.discount_spec(env)
    return spec._replace(discount=env.discount_spec()) if is_default else spec


def _copied(time_step: ts.TimeStep) -> Any:
    return values.to_tf_agents_time_step(nest.map_structure(np.array, time_step))
