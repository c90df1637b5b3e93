"""Measures how best to step an environment, and prints the table it comes from."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence
from typing import Any

from absl import flags

from parallel_envs import errors
from parallel_envs.autotuning.autotune import autotune
from parallel_envs.autotuning.tuning import COLUMNS, Tuning
from parallel_envs.cli import environments, failures, usage

_SUMMARY = """\
usage: parallel-envs tune --env=NAME [flags]

Measures an environment, steps many of it in one process, in one for each core and in
one for each environment, and recommends arguments of ParallelPyEnvironment. Let no
other programs run meanwhile. No environment is made in this process."""

_EXAMPLES = """\
Examples:
  parallel-envs tune --env=CartPole-v1 --num_envs=32
  parallel-envs tune --env=my_package.my_module:make_env --seconds=60"""

_METAVARS = {"env": "NAME", "context": "KIND", "preload": "MODULE,..."}
_GROUP = "Flags"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """One field for each flag, of the same name."""

    env: str | None
    num_envs: int
    seconds: float
    copy: bool
    context: str | None
    preload: list[str] | None


def help_text() -> str:
    """Returns what the command does, and its flags."""
    flags_text = usage.flags_text(_defined(), _METAVARS)
    return "\n\n".join([_SUMMARY, flags_text, _EXAMPLES])


def main(arguments: Sequence[str]) -> int:
    """Measures, prints, and returns the exit code.

    Raises:
        UsageError: If something was asked for that cannot be done.
        RunError: If the environment has failed.
    """
    values = _defined()
    usage.parse(values, arguments)
    found = values.flag_values_dict()
    request = Request(**{name: found[name] for name in found})
    if not request.env:
        raise usage.UsageError("--env: expected a name, as in --env=CartPole-v1.")
    if importlib.util.find_spec("rich") is None:
        raise usage.UsageError(
            "the package 'rich' is not installed: pip install 'parallel_envs[collect]'"
        )
    try:
        tuning = _tuned(request, request.env)
    except (errors.WorkerError, OSError) as error:
        raise failures.told(error) from error
    _show(tuning)
    return 0


def _tuned(request: Request, name: str) -> Tuning:
    # Needs the package that was looked for, as `printing` does.
    from parallel_envs.cli import progress

    make = environments.constructor(name)
    preload = request.preload
    if preload is None:
        preload = list(_default_preload(make, request.context))
    message = f"Measuring for about {request.seconds:g} s ..."
    with progress.notice(message), environments.mistakes_told(name):
        return autotune(
            make,
            request.num_envs,
            seconds=request.seconds,
            copy=request.copy,
            context=request.context,
            preload=preload,
        )


def _default_preload(
    make: environments.Constructor, context: str | None
) -> tuple[str, ...]:
    has_nursery = context in (None, "forkserver")
    return environments.default_preload(make) if has_nursery else ()


def _show(tuning: Tuning) -> None:
    from parallel_envs.cli import printing

    facts = printing.table("")
    facts.show_header = False
    facts.add_column("")
    for name, text in tuning.told_facts():
        facts.add_row(name, text)
    trials = printing.table(f"{tuning.num_envs} on {tuning.num_cores} cores")
    for heading in COLUMNS[1:-1]:
        trials.add_column(heading, justify="right")
    trials.add_column(COLUMNS[-1])
    for trial, cells in zip(tuning.trials, tuning.cells(), strict=True):
        trials.add_row(*cells, style="bold" if trial is tuning.chosen else None)
    told = [tuning.told_failures(), tuning.conclusion()]
    printing.show(facts, trials, *("\n".join(lines) for lines in told if lines))


def _defined() -> flags.FlagValues:
    """Returns flags of our own, apart from those that other libraries define."""
    values = flags.FlagValues()

    def define(kind: Any, name: str, default: Any, *words: Any, **bounds: Any) -> None:
        kind(name, default, *words, flag_values=values, module_name=_GROUP, **bounds)

    define(
        flags.DEFINE_string,
        "env",
        None,
        "Environment: a name of Gymnasium, as CartPole-v1 or package:Name-v0; "
        "ale:GAME, an Atari game, as ale:Pong; or module:function, which returns an "
        "environment.",
    )
    define(
        flags.DEFINE_integer,
        "num_envs",
        8,
        "How many environments there are to be.",
        lower_bound=1,
    )
    define(
        flags.DEFINE_float,
        "seconds",
        10.0,
        "About how long to take; environments that start or step slowly need more.",
        lower_bound=0.0,
    )
    define(
        flags.DEFINE_bool,
        "copy",
        True,
        "Whether arrays have to be the caller's own, as by default. With --nocopy, "
        "views may be recommended, which hold until the fourth call after.",
    )
    define(
        flags.DEFINE_enum,
        "context",
        None,
        ["forkserver", "spawn", "fork"],
        "how processes start, by default as forkserver; see ParallelPyEnvironment.",
    )
    define(
        flags.DEFINE_list,
        "preload",
        None,
        "Modules imported once, before workers are forked. By default gymnasium for "
        "its environments; '' for none.",
    )
    return values
