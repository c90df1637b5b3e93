"""What a batch of ours needs to be one of TF-Agents: its specs and its time steps."""

from __future__ import annotations

from typing import Any

from parallel_envs.adapters.tf_agents import library, values
from parallel_envs.batch.environment_batch import EnvironmentBatch
from parallel_envs.specs import nest

_time_step: Any = library.part("trajectories.time_step")
_nest_utils: Any = library.part("utils.nest_utils")

Nest = nest.Nest


class GraftedBatch(EnvironmentBatch):
    """A batch whose specs and time steps are TF-Agents', at no cost for each step.

    TF-Agents' `PyEnvironment` is the last base of a class that derives from this.
    """

    _time_step_type = _time_step.TimeStep

    def get_info(self) -> Any:
        """Returns what the rows say of their last step: `[B, ...]` where they agree.

        A list of B infos where structures or shapes differ.
        """
        return values.stacked_infos(super().get_info())

    def _lay_out(self, validate: bool, copy: bool) -> None:
        super()._lay_out(validate, copy=True)
        # Nothing but the methods that tell them reads them from here on.
        self._action_spec, self._time_step_spec = specs_for_tf_agents(
            self._action_spec, self._time_step_spec
        )


def specs_for_tf_agents(action_spec: Nest, time_step_spec: Any) -> tuple[Nest, Any]:
    """Returns the specs of an action and of a time step as TF-Agents'."""
    return (
        values.to_tf_agents_spec(action_spec, "action"),
        values.to_tf_agents_spec(time_step_spec, "time_step"),
    )


def unstack_actions(batched_actions: Nest) -> list[Nest]:
    """Returns the action of each row of a batch; TF-Agents has it under this name."""
    return _nest_utils.unstack_nested_arrays(batched_actions)
