"""What `--policy` names."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from parallel_envs import py_policy
from parallel_envs.cli import usage
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.random_py_policy import RandomPyPolicy
from parallel_envs.suites import nearest

Maker = Callable[..., Any]

_HINT = " Did you mean a function that returns it?"


def find(name: str) -> Maker:
    """Returns the function that makes the policy; its module is imported.

    Args:
        name: "random", or "module:function".

    Raises:
        UsageError: If there is none, or it does not take two arguments.
    """
    if name == "random":
        return RandomPyPolicy
    module_name, _, function_name = name.partition(":")
    if (meant := nearest.without_suffix(module_name)) is not None:
        raise usage.UsageError(
            f"--policy: expected the name of a module, got the file {module_name!r}: "
            f"write '{meant}:{function_name or 'FUNCTION'}'."
        )
    if not module_name or not function_name:
        raise usage.UsageError(
            f"--policy: expected module:function or random, got {name!r}."
        )
    maker = _attribute(_imported(module_name), function_name)
    if not callable(maker):
        raise usage.UsageError(
            f"--policy: expected {name} to be a function, got {maker!r}."
            f"{_HINT if hasattr(maker, 'action') else ''}"
        )
    _check_takes_specs(maker, name)
    return maker


def make(
    maker: Maker, name: str, env: PyEnvironment, seed: int | None
) -> py_policy.PyPolicy:
    """Returns the policy for an environment.

    Args:
        maker: What `find` returned.
        name: What it is called in errors.
        env: Gives the specs.
        seed: Given to makers that have an argument of this name; None for none.

    Raises:
        UsageError: If what the maker returns is no policy.
    """
    seeds = {"seed": seed} if seed is not None and _takes_seed(maker) else {}
    policy = maker(env.time_step_spec(), env.action_spec(), **seeds)
    try:
        return py_policy.as_policy(policy, env)
    except TypeError as error:
        raise usage.UsageError(
            f"--policy: expected {name} to return a policy: "
            f"{str(error).removeprefix('policy: ')}"
        ) from error


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # Whatever may go wrong in a module of the user's.
        raise usage.UsageError(
            f"--policy: the module {name!r} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error


def _attribute(module: Any, name: str) -> Any:
    try:
        return functools.reduce(getattr, name.split("."), module)
    except AttributeError:
        raise usage.UsageError(f"--policy: {nearest.no_member(module, name)}") from None


def _check_takes_specs(maker: Maker, name: str) -> None:
    signature = _signature(maker)
    if signature is None:
        return
    if _can_take(signature, "time_step_spec", "action_spec"):
        return
    hint = _HINT if _can_take(signature, "time_step") else ""
    raise usage.UsageError(
        f"--policy: expected {name} to take (time_step_spec, action_spec) and to "
        f"return a policy, got {name}{signature}.{hint}"
    )


def _can_take(signature: inspect.Signature, *arguments: str) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _takes_seed(maker: Maker) -> bool:
    signature = _signature(maker)
    return signature is not None and "seed" in signature.parameters


def _signature(maker: Maker) -> inspect.Signature | None:
    try:
        return inspect.signature(maker)
    except (TypeError, ValueError):  # Compiled functions may have none.
        return None
