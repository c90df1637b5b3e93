"""What the files of a run say, once it is sure that they are what a run writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from parallel_envs.cli import flags, usage
from parallel_envs.cli.failure_counts import KINDS

_ADVICE = "put a copy of it back, or begin a new run in another folder"
_STATISTICS = ("count", "total", "minimum", "maximum", "latest")


def config(path: Path) -> dict[str, Any] | None:
    """Returns the settings and versions of a run; None if there is no such file.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is something else than `collect` writes.
    """
    content = _read(path)
    if content is None:
        return None
    settings = _member(content, "settings", path)
    for name in ("env", "num_envs"):
        _member(settings, name, path, "settings")
    try:
        flags.check(settings)
    except usage.UsageError as error:
        reason = f"in 'settings', {str(error).rstrip('.')}"
        raise _damaged(path, reason) from error
    return content


def progress(path: Path) -> list[dict[str, Any]]:
    """Returns the counts of a run, the oldest first; none if there is no such file.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is something else than `collect` writes.
    """
    content = _read(path)
    if content is None:
        return []
    if not isinstance(content, list) or not content:
        raise _damaged(path, f"expected a list of counts, got {_short(content)}")
    items = cast("list[Any]", content)
    for counts in items:
        _check_counts(counts, path)
    return items


def _check_counts(counts: Any, path: Path) -> None:
    for name in ("steps", "inserts"):
        _check_is_count(_member(counts, name, path), name, path)
    if "failures" in counts:
        for name in ("repaired", *KINDS):
            count = _member(counts["failures"], name, path, "failures")
            _check_is_count(count, f"failures.{name}", path)
    for name in ("returns", "lengths"):
        statistics = _member(counts, name, path)
        for member in _STATISTICS:
            _member(statistics, member, path, name)
        _check_is_count(statistics["count"], f"{name}.count", path)
        if statistics["count"] and not _are_numbers(statistics):
            raise _damaged(path, f"expected numbers of one shape in {name!r}")


def _are_numbers(statistics: Mapping[str, Any]) -> bool:
    names = ("total", "minimum", "maximum")
    try:
        values = [*(statistics[name] for name in names), *statistics["latest"]]
        return np.asarray(values).dtype.kind in "iuf"
    except (TypeError, ValueError):  # Not a list, or not of one shape.
        return False


def _check_is_count(value: Any, name: str, path: Path) -> None:
    if type(value) is not int or value < 0:
        raise _damaged(path, f"expected a count as {name!r}, got {_short(value)}")


def _member(content: Any, name: str, path: Path, parent: str = "") -> Any:
    where = f" in {parent!r}" if parent else ""
    if not isinstance(content, Mapping):
        raise _damaged(path, f"expected {name!r}{where}, got {_short(content)}")
    members = cast("Mapping[str, Any]", content)
    if name not in members:
        raise _damaged(path, f"there is no {name!r}{where}")
    return members[name]


def _read(path: Path) -> Any:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if content is None:
        raise _damaged(path, "it is null")
    return content


def _damaged(path: Path, reason: str) -> ValueError:
    return ValueError(f"{path} is damaged: {reason}; {_ADVICE}")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
