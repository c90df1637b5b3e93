"""The parts of TF-Agents that are needed here, imported when they are.

TF-Agents has no types, and is not there where the code is checked: as `Any` its classes
can be used all the same.
"""

from __future__ import annotations

import importlib
from typing import Any

from parallel_envs.adapters import extras

_PACKAGES = frozenset({"tf_agents", "tensorflow"})


def part(name: str) -> Any:
    """Returns a module of TF-Agents, for example "trajectories.time_step".

    Raises:
        ImportError: If TF-Agents or TensorFlow is not installed; it says how to.
    """
    try:
        return importlib.import_module(f"tf_agents.{name}")
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        raise extras.missing(error.name, extra="tf-agents") from error
