"""What a name of an environment refers to.

CartPole-v1, gymnasium:CartPole-v1      registered with Gymnasium
ale:Pong                                an Atari game, preprocessed and stacked
my_package:Name-v0, ale_py:ALE/Pong-v5  likewise, once the module is imported
my_package.my_module:make_env           a function or class that makes one
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from parallel_envs import py_environment
from parallel_envs.adapters import extras
from parallel_envs.suites import nearest

_EXTRAS = {"ale_py": "atari"}  # Of packages that register with Gymnasium.
_RESERVED = ("bsuite", "dm_control", "embodied", "envpool", "pettingzoo")


def constructor(
    name: str, /, **kwargs: Any
) -> Callable[[], py_environment.PyEnvironment]:
    """Returns a callable without arguments that makes the environment called `name`.

    It pickles, so that it can be given to `ParallelPyEnvironment`. The environment and
    its module are imported where it is called. What can be known before is checked
    here; for a name of Gymnasium's that includes whether it is registered.

    Args:
        name: One of the forms at the top of this module.
        **kwargs: Passed to `gymnasium.make`, to `ale_suite.make`, or to the function. A
            time limit of Gymnasium's, `max_episode_steps=...` too, ends episodes as
            truncations.

    Raises:
        TypeError: If `name` is no string.
        ValueError: If it has none of the forms, or nothing is registered by it. Says
            which names are nearest.
        ImportError: If a package is not there. Says which extra brings it, if one does.
    """
    parts = _parts(name)
    if parts[0] in _RESERVED and len(parts) > 1:
        raise ValueError(
            "name: expected no prefix, 'gymnasium:', 'ale:' or 'module:function', got "
            f"{name!r}. The prefix {parts[0]!r} is reserved."
        )
    if parts[0] == "ale" and len(parts) > 1:
        return _suite("ale").constructor(parts[1], kwargs)
    if parts[0] == "gymnasium" and len(parts) > 1:
        parts = parts[1:]
    elif len(parts) == 2 and all(_is_dotted(part) for part in parts):
        _check_package(parts[0], name)
        return _suite("function").constructor(*parts, kwargs)
    if len(parts) == 2:
        _check_package(parts[0], name)
    return _suite("gymnasium").constructor(":".join(parts), kwargs)


def load(name: str, /, **kwargs: Any) -> py_environment.PyEnvironment:
    """Returns the environment called `name`, made in this process.

    Arguments and errors are those of `constructor`, and the environment's own.
    """
    return constructor(name, **kwargs)()


def _parts(name: Any) -> list[str]:
    if not isinstance(name, str):
        raise TypeError(f"name: expected a string, got {name!r}.")
    parts = name.split(":")
    most = 3 if parts[0] == "gymnasium" else 2
    if not all(parts) or len(parts) > most or any(map(str.isspace, name)):
        raise ValueError(
            "name: expected a form such as 'CartPole-v1', 'gymnasium:CartPole-v1', "
            f"'ale:Pong' or 'my_package.my_module:make_env', got {name!r}."
        )
    return parts


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _check_package(module: str, name: str) -> None:
    if (meant := nearest.without_suffix(module)) is not None:
        raise ValueError(
            f"name: expected the name of a module, got the file {module!r}: write "
            f"'{meant}:{name.rpartition(':')[2]}'."
        )
    package = module.partition(".")[0]
    if package == "__main__":
        raise ValueError(
            f"name: expected a module that other processes can import, got {name!r}. "
            "Pass the function itself instead of its name."
        )
    if importlib.util.find_spec(package) is None:
        if package in _EXTRAS:
            raise extras.missing(package, _EXTRAS[package])
        raise ModuleNotFoundError(
            f"name: there is no package {package!r} on sys.path, of {name!r}",
            name=package,
        )


def _suite(kind: str) -> Any:
    return importlib.import_module(f"parallel_envs.suites.{kind}_suite")
