"""TF-Agents: our batch inside of it, and its environments and policies inside of ours.

Importing this package imports TF-Agents, and with it TensorFlow.
"""

from parallel_envs.adapters.tf_agents.environments import (
    from_tf_agents as from_tf_agents,
)
from parallel_envs.adapters.tf_agents.environments import to_tf_agents as to_tf_agents
from parallel_envs.adapters.tf_agents.parallel_py_environment import (
    ParallelPyEnvironment as ParallelPyEnvironment,
)
from parallel_envs.adapters.tf_agents.policies import (
    from_tf_agents_policy as from_tf_agents_policy,
)
from parallel_envs.adapters.tf_agents.policies import (
    to_tf_agents_policy as to_tf_agents_policy,
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
