"""The flags of `bench`, and what they ask for."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Sequence
from typing import Any

from absl import flags

from parallel_envs.benchmarking import contestants, machine, workloads
from parallel_envs.benchmarking.competition import Plan
from parallel_envs.benchmarking.contestants import Contestant, Library
from parallel_envs.benchmarking.workloads import Workload
from parallel_envs.cli import environments, usage
from parallel_envs.suites import nearest

_METAVARS = {
    "env": "NAME",
    "workloads": "NAME,...",
    "contestants": "NAME,...",
    "num_envs": "N,...",
    "num_workers": "N",
    "output": "DIR",
}
_DEFAULT_WORKLOADS = ("null", "image", "compute-100us", "sleep-2ms")
_ALL = "all"
_CONTESTANTS = """\
Contestants, "cores" being a process for each core, "each" one for each environment,
"one" a single one, "here" none, and "views" without copies:"""


@dataclasses.dataclass(frozen=True)
class BenchSettings:
    """What the command is told to do.

    Attributes:
        plan: What is compared.
        missing: Libraries that were asked for, or could have been, and are not there.
        is_sweep: Whether the cost of a step is what is varied.
        output: Folder for files; None for none.
    """

    plan: Plan
    missing: tuple[Library, ...]
    is_sweep: bool
    output: pathlib.Path | None


def help_text() -> str:
    """Returns the flags in their groups, and who may take part."""
    names = "\n".join(
        f"  {library.package}: {', '.join(library.ways)}"
        for library in (contestants.OURS, *contestants.PEERS)
    )
    return f"{usage.flags_text(_defined(), _METAVARS)}\n\n{_CONTESTANTS}\n{names}"


def parse(arguments: Sequence[str]) -> BenchSettings:
    """Returns what the arguments ask for.

    Raises:
        UsageError: If a flag or its value is wrong.
    """
    values = _defined()
    given = usage.parse(values, arguments)
    found = values.flag_values_dict()
    for name in ("seconds", "timeout"):
        if not (0 < found[name] < math.inf):
            raise usage.UsageError(f"--{name}={found[name]}: expected seconds above 0.")
    if found["sweep"] and given & {"env", "workloads"}:
        raise usage.UsageError("--sweep: expected neither --env nor --workloads.")
    if found["output"] == "":
        raise usage.UsageError("--output: expected the name of a folder, got ''.")
    chosen, missing = _contestants(found["contestants"])
    plan = Plan(
        contestants=chosen,
        workloads=_workloads(found),
        num_envs=_numbers("num_envs", found["num_envs"]),
        num_cores=found["num_workers"] or machine.num_cores(),
        runs=found["runs"],
        seconds=found["seconds"],
        timeout=found["timeout"],
    )
    output = None if found["output"] is None else pathlib.Path(found["output"])
    return BenchSettings(plan, missing, found["sweep"], output)


def _contestants(
    names: list[str] | None,
) -> tuple[tuple[Contestant, ...], tuple[Library, ...]]:
    """Returns those who are there, in the order of tables, and libraries that are not.

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
    missing = [lib for lib in contestants.PEERS if lib.version() is None]
    there = tuple(each for each in wanted if each.library not in missing)
    asked_for = {each.library for each in wanted}
    return there, tuple(each for each in missing if each in asked_for)


def _workloads(found: dict[str, Any]) -> tuple[Workload, ...]:
    if found["sweep"]:
        return _found_workloads(workloads.SWEEP)
    names = found["workloads"]
    if names is None:
        names = () if found["env"] is not None else _DEFAULT_WORKLOADS
    elif names == [_ALL]:
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
            _check_known("workloads", name, (*workloads.NAMES, _ALL))
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


def _defined() -> flags.FlagValues:
    values = flags.FlagValues()
    _define_what_is_compared(values)
    _define_how(values)
    return values


def _define_what_is_compared(values: flags.FlagValues) -> None:
    group = "What is compared"
    flags.DEFINE_list(
        "workloads",
        None,
        f"Environments of known cost: {', '.join(workloads.NAMES)}; the numbers may "
        f"be others. {_ALL} for these. By default {', '.join(_DEFAULT_WORKLOADS)}, or "
        "none if --env is given.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_string(
        "env",
        None,
        "An environment of yours: a name of Gymnasium, or module:function. Peers that "
        "step environments of Gymnasium take part if it is one.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_bool(
        "sweep",
        False,
        "Varies the cost of a step, from 0 to 1000 us, and draws curves.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_list(
        "contestants",
        None,
        "Libraries, or ways to use them such as gymnasium/async, from the list below. "
        "By default all that are installed. A plain loop is always there.",
        flag_values=values,
        module_name=group,
    )


def _define_how(values: flags.FlagValues) -> None:
    group = "How"
    flags.DEFINE_list(
        "num_envs",
        "8",
        "Environments in a batch, 8 by default; several numbers are compared one after "
        "another.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_integer(
        "num_workers",
        None,
        'What "cores" stands for. By default the cores that this process may use.',
        lower_bound=1,
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_integer(
        "runs",
        5,
        "Times that each is measured; the median counts.",
        lower_bound=1,
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_float(
        "seconds",
        1,
        "How long each run counts steps, after it has warmed up.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_float(
        "timeout",
        120,
        "Seconds after which a run is given up, its start and end included.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_string(
        "output",
        None,
        "Folder for results.json, chart.png and chart.html; made if it is not there.",
        flag_values=values,
        module_name=group,
    )
