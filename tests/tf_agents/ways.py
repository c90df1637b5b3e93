"""The ways to put a batch of ours into TF-Agents, and what tests drive it with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tf_agents.networks import q_network
from tf_agents.policies import greedy_policy, q_policy
from tf_agents.specs import tensor_spec

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter

Make = Callable[..., Any]


def _adapted(constructors: Sequence[Callable[[], Any]], **options: Any) -> Any:
    return adapter.to_tf_agents(pe.ParallelPyEnvironment(constructors, **options))


# Each takes constructors and options, and gives an environment of TF-Agents.
WAYS: dict[str, Make] = {
    "ParallelPyEnvironment": adapter.ParallelPyEnvironment,
    "to_tf_agents": _adapted,
}


def q_network_policy(env: Any) -> Any:
    """Returns TF-Agents' policy of a real, small q-network for the specs of `env`."""
    time_step_spec = tensor_spec.from_spec(env.time_step_spec())
    action_spec = tensor_spec.from_spec(env.action_spec())
    network = q_network.QNetwork(
        time_step_spec.observation, action_spec, fc_layer_params=(8,)
    )
    policy = q_policy.QPolicy(time_step_spec, action_spec, q_network=network)
    return greedy_policy.GreedyPolicy(policy)
