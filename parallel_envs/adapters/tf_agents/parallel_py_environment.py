"""The batch in worker processes as a real environment of TF-Agents."""

from __future__ import annotations

from typing import Any

from parallel_envs import parallel_py_environment
from parallel_envs.adapters.tf_agents import grafted, library
from parallel_envs.batch.environment_handle import EnvironmentHandle
from parallel_envs.batch.environment_rows import Description
from parallel_envs.specs import nest

_Base: Any = library.part("environments.py_environment").PyEnvironment

Nest = nest.Nest


class ParallelPyEnvironment(
    grafted.GraftedBatch, parallel_py_environment.ParallelPyEnvironment, _Base
):
    """`parallel_envs.ParallelPyEnvironment`, which TF-Agents takes for its own.

    It goes where TF-Agents' class of that name goes: into `TFPyEnvironment`, drivers
    and `Actor`. Arguments, methods and errors are ours; specs and time steps are
    TF-Agents'. A step costs no more than without TF-Agents.

    Constructors may return environments of TF-Agents, which then run in the workers as
    they are. A worker imports TensorFlow only if a constructor does.

    `copy=False` has no effect: TensorFlow keeps the arrays that it is given, so that
    the next step must not be written into them.
    """

    @property
    def _envs(self) -> list[EnvironmentHandle]:
        """As `envs`; programs for TF-Agents read it."""
        return self.envs

    def _specs_of(self, description: Description) -> tuple[Nest, Any]:
        return grafted.specs_for_tf_agents(
            description.action_spec, description.time_step_spec
        )

    def _unstack_actions(self, batched_actions: Nest) -> list[Nest]:
        """Returns the action of each row; TF-Agents' class has it."""
        return grafted.unstack_actions(batched_actions)
