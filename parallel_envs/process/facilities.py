"""What the system has: a nursery and its bells need Linux, the rest makes do."""

from __future__ import annotations

import os

VARIABLE = "PARALLEL_ENVS_PORTABLE"
"""Name of the environment variable that, set to 1, forces the way of other systems."""


def is_portable() -> bool:
    """Whether pools are to do without what only Linux has."""
    wanted = ("eventfd", "memfd_create", "pidfd_open")
    return os.environ.get(VARIABLE) == "1" or not all(hasattr(os, n) for n in wanted)
