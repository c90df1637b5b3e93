"""TF-Agents: our batch inside of it, and its environments and policies inside of ours.

Importing this package imports TF-Agents, and with it TensorFlow; Reverb is imported
when the observer that writes to it is first touched.
"""

import importlib
from typing import TYPE_CHECKING, Any

from parallel_envs.adapters.tf_agents.batched_py_environment import (
    BatchedPyEnvironment as BatchedPyEnvironment,
)
from parallel_envs.adapters.tf_agents.environments import (
    from_tf_agents as from_tf_agents,
)
from parallel_envs.adapters.tf_agents.environments import to_tf_agents as to_tf_agents
from parallel_envs.adapters.tf_agents.grafted import (
    unstack_actions as unstack_actions,
)
from parallel_envs.adapters.tf_agents.parallel_py_environment import (
    ParallelPyEnvironment as ParallelPyEnvironment,
)
from parallel_envs.adapters.tf_agents.policies import (
    from_tf_agents_policy as from_tf_agents_policy,
)
from parallel_envs.adapters.tf_agents.policies import (
    to_tf_agents_policy as to_tf_agents_policy,
)
from parallel_envs.adapters.tf_agents.process_py_environment import (
    ProcessPyEnvironment as ProcessPyEnvironment,
)
from parallel_envs.adapters.tf_agents.replay import (
    TFAgentsReplayBuffer as TFAgentsReplayBuffer,
)
from parallel_envs.adapters.tf_agents.trajectories import (
    from_tf_agents_trajectory as from_tf_agents_trajectory,
)
from parallel_envs.adapters.tf_agents.trajectories import (
    to_tf_agents_trajectory as to_tf_agents_trajectory,
)
from parallel_envs.adapters.tf_agents.values import (
    from_tf_agents_spec as from_tf_agents_spec,
)
from parallel_envs.adapters.tf_agents.values import (
    from_tf_agents_time_step as from_tf_agents_time_step,
)
from parallel_envs.adapters.tf_agents.values import (
    to_tf_agents_spec as to_tf_agents_spec,
)
from parallel_envs.adapters.tf_agents.values import (
    to_tf_agents_time_step as to_tf_agents_time_step,
)

if TYPE_CHECKING:
    from parallel_envs.adapters.tf_agents.reverb import (
        ReverbAddTrajectoryObserver as ReverbAddTrajectoryObserver,
    )


__all__ = [
    "BatchedPyEnvironment",
    "ParallelPyEnvironment",
    "ProcessPyEnvironment",
    "ReverbAddTrajectoryObserver",
    "TFAgentsReplayBuffer",
    "from_tf_agents",
    "from_tf_agents_policy",
    "from_tf_agents_spec",
    "from_tf_agents_time_step",
    "from_tf_agents_trajectory",
    "to_tf_agents",
    "to_tf_agents_policy",
    "to_tf_agents_spec",
    "to_tf_agents_time_step",
    "to_tf_agents_trajectory",
    "unstack_actions",
]


def __getattr__(name: str) -> Any:
    if name == "ReverbAddTrajectoryObserver":
        reverb = importlib.import_module(f"{__name__}.reverb")
        return reverb.ReverbAddTrajectoryObserver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
