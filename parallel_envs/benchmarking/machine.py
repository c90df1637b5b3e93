"""Where it was measured."""

from __future__ import annotations

import os
import pathlib
import platform
import re

_CPU_INFO = pathlib.Path("/proc/cpuinfo")


def num_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_busy() -> bool:
    """Returns whether others have used more than half a core in the last minute."""
    return os.getloadavg()[0] > 0.5


def description() -> dict[str, str]:
    """Returns what may explain other numbers elsewhere, by name."""
    return {
        "processor": _processor(),
        "cores": f"{num_cores()} of {os.cpu_count()}",
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load": ", ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def _processor() -> str:
    text = _CPU_INFO.read_text("utf-8", "replace") if _CPU_INFO.exists() else ""
    found = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()
