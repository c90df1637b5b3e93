"""Environments of other libraries as environments of this one.

A name here imports the library it is about when it is first used, and nothing before.
"""

import importlib
from typing import TYPE_CHECKING, Any

from parallel_envs.adapters.recognition import as_py_environment as as_py_environment

if TYPE_CHECKING:
    from parallel_envs.adapters.gymnasium import from_gymnasium as from_gymnasium

_HOMES = {
    "from_gymnasium": "gymnasium",
    "from_tf_agents": "tf_agents",
    "to_tf_agents": "tf_agents",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
        return getattr(module, name)
    if name in _HOMES.values():
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_HOMES.values()})
