"""Checks of what `ParallelPyEnvironment` is given.

Each raises TypeError or ValueError: which argument, what was expected, what was found.
"""

from __future__ import annotations

import importlib.util
import math
import operator
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parallel_envs.process import facilities
from parallel_envs.process.nursery_handle import refuse_other_threads

_CONTEXTS = (None, "forkserver", "spawn", "fork")


def checked_constructors(constructors: Any) -> tuple[Callable[[], Any], ...]:
    """Returns constructors; they are to be callable, and at least one."""
    if not _is_sequence(constructors):
        raise TypeError(
            "env_constructors: expected a list of callables, got "
            f"{constructors!r:.200}. Write [{_name(constructors)}] * 8 for eight."
        )
    if len(constructors) == 0:
        raise ValueError("env_constructors: expected at least one, got none.")
    for position, constructor in enumerate(constructors):
        if not callable(constructor):
            raise TypeError(
                f"env_constructors[{position}]: expected a callable that makes an "
                f"environment, got the non-callable {constructor!r:.200}. An "
                "environment itself cannot be sent to a process: pass its class, or a "
                "lambda that makes it."
            )
    return tuple(constructors)


def _name(thing: Any) -> str:
    return getattr(thing, "__name__", "constructor")


def check_bool(name: str, value: Any) -> None:
    """Raises TypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}: expected True or False, got {value!r}.")


def checked_num_workers(num_workers: Any, num_constructors: int) -> int:
    """Returns how many processes there are to be, 0 for this one."""
    if num_workers is None:
        return num_constructors
    return min(
        checked_integer("num_workers", num_workers, "None or "), num_constructors
    )


def checked_integer(name: str, value: Any, besides: str = "") -> int:
    """Returns an int of at least 0.

    Args:
        name: Of the argument.
        value: What was given for it.
        besides: What else is expected, for the message.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise TypeError(
            f"{name}: expected {besides}an int of at least 0, got {value!r:.200}."
        )
    if number < 0:
        raise ValueError(f"{name}: expected at least 0, got {value}.")
    return number


def checked_timeout(name: str, seconds: Any, num_workers: int) -> float | None:
    """Returns seconds as a float; None for no limit."""
    if seconds is None:
        return None
    if isinstance(seconds, (bool, np.bool_)) or not isinstance(
        seconds, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"{name}: expected None or seconds, got {seconds!r}.")
    if not 0 < seconds < math.inf:
        raise ValueError(
            f"{name}: expected a finite number of seconds above 0, or None for no "
            f"limit, got {seconds}."
        )
    if num_workers == 0:
        raise ValueError(
            f"{name}: expected None, since num_workers=0 starts no process that could "
            f"be ended, got {seconds}."
        )
    # An integer may be larger than any float.
    return float(min(seconds, 10**300) if isinstance(seconds, int) else seconds)  # pyright: ignore[reportUnknownArgumentType]


def check_context(context: Any, num_workers: int) -> None:
    """Raises TypeError, ValueError or RuntimeError unless workers can start so."""
    if context not in _CONTEXTS:
        kind = ValueError if isinstance(context, str) else TypeError
        raise kind(
            f'context: expected None, "forkserver", "spawn" or "fork", got {context!r}.'
        )
    if context is not None and num_workers == 0:
        raise ValueError(
            f"context: expected None, since num_workers=0 starts no process, got "
            f"{context!r}."
        )
    if context == "fork":
        if facilities.is_portable():
            raise ValueError(
                'context: expected None or "spawn", got "fork", which needs Linux.'
            )
        refuse_other_threads()


def checked_concurrency(max_concurrency: Any) -> int | None:
    """Returns how many environments may step at a time; None for all."""
    if max_concurrency is None:
        return None
    number = checked_integer("max_concurrency", max_concurrency, "None or ")
    if number == 0:
        raise ValueError("max_concurrency: expected None or at least 1, got 0.")
    return number


def checked_affinity(affinity: Any, num_workers: int) -> list[frozenset[int]]:
    """Returns the cores of the first worker, the second and so on; empty for any."""
    if affinity is None:
        return []
    if num_workers == 0:
        raise ValueError(
            "affinity: expected None, since num_workers=0 starts no process, got "
            f"{affinity!r}."
        )
    if not hasattr(os, "sched_setaffinity"):
        raise ValueError(
            f"affinity: expected None, since {sys.platform} cannot tell a process on "
            f"which cores to run, got {affinity!r}."
        )
    usable = sorted(os.sched_getaffinity(0))
    entries = usable if isinstance(affinity, str) and affinity == "auto" else affinity
    if isinstance(entries, str) or not hasattr(entries, "__len__") or not len(entries):
        raise TypeError(
            f'affinity: expected None, "auto" or a list of cores, got {affinity!r}.'
        )
    return [_checked_cores(entry, usable) for entry in entries]


def _checked_cores(entry: Any, usable: Sequence[int]) -> frozenset[int]:
    cores = list(entry) if hasattr(entry, "__len__") else [entry]
    found = {checked_integer("affinity", core, "cores, each ") for core in cores}
    if not found or not found.issubset(usable):
        raise ValueError(
            f"affinity: expected cores that this process may use, {list(usable)}, got "
            f"{entry!r}."
        )
    return frozenset(found)


def checked_preload(
    preload: Any, context: str | None, num_workers: int
) -> tuple[str, ...]:
    """Returns names of modules, which must be there."""
    items: list[Any] = list(preload) if _is_list_or_tuple(preload) else [preload, None]
    modules = tuple(name for name in items if isinstance(name, str))
    if len(modules) != len(items):
        raise TypeError(f"preload: expected a list of module names, got {preload!r}.")
    if modules and (num_workers == 0 or context in ("spawn", "fork")):
        raise ValueError(
            f"preload: expected no modules, got {list(modules)}: only workers forked "
            'from a clean process (context=None or "forkserver") can use them.'
        )
    for name in modules:
        if name == "__main__" or not _is_there(name.partition(".")[0]):
            raise ValueError(
                f"preload: expected names of modules to import, got {name!r}."
            )
    return modules


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_list_or_tuple(value: object) -> bool:
    return isinstance(value, (list, tuple))
