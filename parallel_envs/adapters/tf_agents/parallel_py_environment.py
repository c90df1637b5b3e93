"""The batch in worker processes as a real environment of TF-Agents."""

from __future__ import annotations

from typing import Any

from parallel_envs import parallel_py_environment
from parallel_envs.adapters.tf_agents import library, values
from parallel_envs.batch.environment_rows import Description
from parallel_envs.specs import nest

_Base: Any = library.part("environments.py_environment").PyEnvironment
_time_step: Any = library.part("trajectories.time_step")
_nest_utils: Any = library.part("utils.nest_utils")

Nest = nest.Nest


class ParallelPyEnvironment(parallel_py_environment.ParallelPyEnvironment, _Base):
    """`parallel_envs.ParallelPyEnvironment`, which TF-Agents takes for its own.

    It goes where TF-Agents' class of that name goes: into `TFPyEnvironment`, drivers
    and `Actor`. Arguments, methods and errors are ours; specs and time steps are
    TF-Agents'. A step costs no more than without TF-Agents.

    Constructors may return environments of TF-Agents, which then run in the workers as
    they are. A worker imports TensorFlow only if a constructor does.

    `copy=False` has no effect: TensorFlow keeps the arrays that it is given, so that
    the next step must not be written into them.
    """

    _time_step_type = _time_step.TimeStep

    def observation_spec(self) -> Nest:
        return self._specs_for_tf_agents[1].observation

    def action_spec(self) -> Nest:
        return self._specs_for_tf_agents[0]

    def reward_spec(self) -> Nest:
        return self._specs_for_tf_agents[1].reward

    def discount_spec(self) -> Nest:
        return self._specs_for_tf_agents[1].discount

    def time_step_spec(self) -> Any:
        """Returns the specs of one row's time step, a `TimeStep` of TF-Agents."""
        return self._specs_for_tf_agents[1]

    def get_info(self) -> Any:
        """Returns what the rows say of their last step: `[B, ...]` where they agree.

        A list of B infos where structures or shapes differ.
        """
        return values.stacked_infos(super().get_info())

    def _lay_out(self, validate: bool, copy: bool) -> None:
        super()._lay_out(validate, copy=True)
        self._specs_for_tf_agents = _converted(self._action_spec, self._time_step_spec)

    def _specs_of(self, description: Description) -> tuple[Nest, Any]:
        return _converted(description.action_spec, description.time_step_spec)

    def _unstack_actions(self, batched_actions: Nest) -> list[Nest]:
        """Returns the action of each row; TF-Agents' class has it."""
        return _nest_utils.unstack_nested_arrays(batched_actions)


def _converted(action_spec: Nest, time_step_spec: Any) -> tuple[Nest, Any]:
    return (
        values.to_tf_agents_spec(action_spec, "action"),
        values.to_tf_agents_spec(time_step_spec, "time_step"),
    )
