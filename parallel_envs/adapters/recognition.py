"""Tells what kind of environment an object is, importing no library to find out."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

from parallel_envs import py_environment


def as_py_environment(value: Any) -> py_environment.PyEnvironment:
    """Returns `value` itself, or adapted if it is an environment that we know.

    Only libraries that the process has already imported are considered: an object of
    one whose library is not there cannot exist.

    Args:
        value: What a constructor of environments returned.

    Raises:
        TypeError: If it is something else.
    """
    if isinstance(value, py_environment.PyEnvironment):
        return value
    if _is_of_gymnasium(value):
        from parallel_envs.adapters import gymnasium as adapter

        return adapter.from_gymnasium(value)
    if _is_of_tf_agents(value):
        # By name: that adapter knows batches, which know this module.
        adapter = importlib.import_module("parallel_envs.adapters.tf_agents")
        return adapter.from_tf_agents(value)
    raise TypeError(
        "expected a PyEnvironment, or an environment of Gymnasium or TF-Agents, got "
        f"{_describe(value)}"
    )


def _is_of_gymnasium(value: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is None:
        return False
    # Vector environments too: the adapter says why it does not take them.
    return isinstance(value, (gymnasium.Env, gymnasium.vector.VectorEnv))


def _is_of_tf_agents(value: Any) -> bool:
    module = sys.modules.get("tf_agents.environments.py_environment")
    return module is not None and isinstance(value, module.PyEnvironment)


def _describe(value: Any) -> str:
    if value is None:
        return "None. Does the constructor return the environment it makes?"
    if inspect.isclass(value):
        return f"the class {value.__name__}. Did you mean {value.__name__}()?"
    if inspect.isroutine(value):
        return f"{value!r}, a function. Should it be called?"
    return f"{value!r} of {type(value)}."
