"""Environments that are registered with Gymnasium, by their id."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping
from typing import Any

from parallel_envs import py_environment
from parallel_envs.adapters import extras
from parallel_envs.adapters import gymnasium as adapter
from parallel_envs.suites import nearest

# The adapter is first, for its error is the one that says what to install.
import gymnasium  # isort: skip

# Where Gymnasium's own environments live, the package they need, and its extra.
_NEEDS = {"gymnasium.envs.mujoco.": ("mujoco", "mujoco")}


@dataclasses.dataclass(frozen=True)
class GymnasiumConstructor:
    """Makes an environment with `gymnasium.make` and adapts it.

    Attributes:
        name: Id, with a module to import before it where it has one.
        kwargs: Arguments of `gymnasium.make`.
        spec: How the name was registered here; None if its module was not imported.
            It travels along, because a worker does not run the program that may have
            registered it.
    """

    name: str
    kwargs: Mapping[str, Any] = dataclasses.field(hash=False)
    spec: Any = dataclasses.field(default=None, hash=False, repr=False)

    def __call__(self) -> py_environment.PyEnvironment:
        """Returns the environment; errors are those of `gymnasium.make`."""
        env = gymnasium.make(self.spec or self.name, **self.kwargs)
        return adapter.from_gymnasium(env)


def constructor(name: str, kwargs: Mapping[str, Any]) -> GymnasiumConstructor:
    """Returns the constructor of the environment registered as `name`.

    Args:
        name: "CartPole-v1", or "module:Name-v0", of which nothing is imported here.
        kwargs: Arguments of `gymnasium.make`.

    Raises:
        ValueError: If nothing is registered as `name`.
        ImportError: If it needs a package that is not installed.
    """
    if ":" in name:
        return GymnasiumConstructor(name, dict(kwargs))
    spec = gymnasium.envs.registry.get(name)
    if spec is None:
        if name.startswith("ALE/") and importlib.util.find_spec("ale_py") is None:
            raise extras.missing("ale_py", "atari")
        raise ValueError(
            f"name: there is no {name!r} in Gymnasium"
            f"{nearest.hint(name, gymnasium.envs.registry)}. What another package "
            "registers needs its module before it, as in 'my_package:Name-v0'."
        )
    _check_packages(str(spec.entry_point))
    return GymnasiumConstructor(name, dict(kwargs), spec)


def _check_packages(entry_point: str) -> None:
    for module, (package, extra) in _NEEDS.items():
        is_missing = importlib.util.find_spec(package) is None
        if entry_point.startswith(module) and is_missing:
            raise extras.missing(package, extra)
