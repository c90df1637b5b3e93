"""What `bench` is told to do, made of the values of its flags."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from parallel_envs.benchmarking import contestants, interpreters, machine, workloads
from parallel_envs.benchmarking.competition import Plan
from parallel_envs.benchmarking.contestants import Contestant, Library
from parallel_envs.benchmarking.interpreters import Interpreter
from parallel_envs.benchmarking.workloads import Workload
from parallel_envs.cli import environments, usage
from parallel_envs.suites import nearest

DEFAULT_WORKLOADS = ("null", "image", "compute-100us", "sleep-2ms")
ALL = "all"
"""Stands for all workloads."""


@dataclasses.dataclass(frozen=True)
class BenchSettings:
    """What the command is told to do.

    Attributes:
        plan: What is compared.
        versions: Those of the libraries that take part, by what pip calls them.
        missing: Libraries that were asked for, or could have been, and are not there.
        is_sweep: Whether the cost of a step is what is varied.
        output: Folder for files; None for none.
    """

    plan: Plan
    versions: dict[str, str]
    missing: tuple[Library, ...]
    is_sweep: bool
    output: pathlib.Path | None


def from_flags(found: Mapping[str, Any]) -> BenchSettings:
    """Returns the settings.

    Args:
        found: The values of the flags, by name.

    Raises:
        UsageError: If one is wrong, or they do not go together.
    """
    _check(found)
    wanted = _wanted(found["contestants"])
    having = _having({each.library for each in wanted}, found["pythons"] or ())
    missing = [each.library for each in wanted if each.library not in having]
    plan = Plan(
        contestants=tuple(each for each in wanted if each.library in having),
        pythons={library.package: having[library].path for library in having},
        workloads=_workloads(found),
        num_envs=_numbers("num_envs", found["num_envs"]),
        num_cores=found["num_workers"] or machine.num_cores(),
        runs=found["runs"],
        seconds=found["seconds"],
        timeout=found["timeout"],
    )
    return BenchSettings(
        plan,
        versions={lib.distribution: _version(lib, having[lib]) for lib in having},
        missing=tuple(dict.fromkeys(missing)),
        is_sweep=found["sweep"],
        output=None if found["output"] is None else pathlib.Path(found["output"]),
    )


def _check(found: Mapping[str, Any]) -> None:
    for name in ("seconds", "timeout"):
        if not (0 < found[name] < math.inf):
            raise usage.UsageError(f"--{name}={found[name]}: expected seconds above 0.")
    if found["sweep"] and (found["env"], found["workloads"]) != (None, None):
        raise usage.UsageError("--sweep: expected neither --env nor --workloads.")
    if found["output"] == "":
        raise usage.UsageError("--output: expected the name of a folder, got ''.")


def _wanted(names: list[str] | None) -> list[Contestant]:
    """Returns those who are asked for, in the order of tables.

    A name is that of a contestant or of a library, which stands for all its ways.
    """
    known = {each.name for each in contestants.ALL}
    libraries = {each.library.package for each in contestants.ALL}
    for name in names or ():
        _check_known("contestants", name, [*sorted(libraries), *sorted(known)])
    wanted = [
        each
        for each in contestants.ALL
        if names is None or {each.name, each.library.package} & set(names)
    ]
    if not wanted:
        raise usage.UsageError("--contestants: expected names, got none.")
    return wanted


def _having(
    libraries: Collection[Library], paths: Sequence[str]
) -> dict[Library, Interpreter]:
    """Returns the interpreters that have the libraries, but for those none has."""
    try:
        known = [interpreters.here(), *map(interpreters.at, paths)]
    except ValueError as error:
        raise usage.UsageError(f"--pythons: {error}.") from error
    found = {lib: interpreters.of_library(lib, known) for lib in contestants.LIBRARIES}
    return {
        lib: interpreter
        for lib, interpreter in found.items()
        if interpreter is not None and lib in libraries
    }


def _version(library: Library, interpreter: Interpreter) -> str:
    version = interpreter.versions[library.package]
    if interpreter.path == sys.executable:
        return version
    return f"{version} (with NumPy {interpreter.versions['numpy']})"


def _workloads(found: Mapping[str, Any]) -> tuple[Workload, ...]:
    if found["sweep"]:
        return _found_workloads(workloads.SWEEP)
    names = found["workloads"]
    if names is None:
        names = () if found["env"] is not None else DEFAULT_WORKLOADS
    elif names == [ALL]:
        names = workloads.NAMES
    chosen = _found_workloads(names)
    if found["env"] is not None:
        constructor = environments.constructor(found["env"])
        chosen += (Workload(found["env"], constructor=constructor),)
    if not chosen:
        raise usage.UsageError("--workloads: expected names, got none.")
    return chosen


def _found_workloads(names: Sequence[str]) -> tuple[Workload, ...]:
    chosen: list[Workload] = []
    for name in dict.fromkeys(names):
        workload = workloads.find(name)
        if workload is None:
            _check_known("workloads", name, (*workloads.NAMES, ALL))
        else:
            chosen.append(workload)
    return tuple(chosen)


def _check_known(flag: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        hint = nearest.hint(name, known) or f"; there are {', '.join(known)}"
        raise usage.UsageError(f"--{flag}: there is no {name!r}{hint}.")


def _numbers(flag: str, texts: Sequence[str]) -> tuple[int, ...]:
    if not texts or not all(text.isdecimal() and int(text) for text in texts):
        raise usage.UsageError(
            f"--{flag}={','.join(texts)}: expected whole numbers above 0, as in 8,32."
        )
    return tuple(dict.fromkeys(map(int, texts)))
