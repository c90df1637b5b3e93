"""What the system has: a nursery and its bells need Linux, the rest makes do."""

from __future__ import annotations

import importlib
import os
import platform
from typing import Any

VARIABLE = "PARALLEL_ENVS_PORTABLE"
"""Name of the environment variable that, set to 1, forces the way of other systems."""

PURE = "PARALLEL_ENVS_PURE"
"""Name of the environment variable that, set to 1, does without compiled code."""


def compiled(name: str) -> Any:
    """Returns a compiled module; None where it was not built, or does not fit."""
    if os.environ.get(PURE) == "1":
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def is_portable() -> bool:
    """Whether pools are to do without what only Linux has."""
    wanted = ("eventfd", "memfd_create", "pidfd_open")
    return os.environ.get(VARIABLE) == "1" or not all(hasattr(os, n) for n in wanted)


def may_spin(num_workers: int) -> bool:
    """Whether workers may look by themselves, for a moment, if they are asked again.

    Only where each may have a core; and where what one core writes is seen by others in
    that order, since then nobody asks the system before an action is read.
    """
    has_order = platform.machine().lower() in ("x86_64", "amd64")
    return (
        has_order
        and hasattr(os, "sched_getaffinity")
        and num_workers <= len(os.sched_getaffinity(0))
    )
