"""The flags of `collect`, and the settings that they make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from absl import flags

from parallel_envs.cli import usage
from parallel_envs.cli.settings import DEFAULT_NUM_STEPS, Settings

_METAVARS = {
    "env": "NAME",
    "num_workers": "N",
    "num_steps": "N",
    "num_episodes": "N",
    "policy": "MODULE:FUNCTION",
    "seed": "N",
    "logdir": "DIR",
    "replay_capacity": "N",
    "context": "KIND",
    "preload": "MODULE,...",
    "start_timeout": "SECONDS",
    "step_timeout": "SECONDS",
}
_GREATEST_SEED = 2**32 - 1


def help_text() -> str:
    """Returns the flags in their groups."""
    return usage.flags_text(_defined(), _METAVARS)


def parse(arguments: Sequence[str]) -> tuple[Settings, frozenset[str]]:
    """Returns the settings, and the names of the flags that were given.

    Raises:
        UsageError: If a flag or its value is wrong.
    """
    values = _defined()
    given = usage.parse(values, arguments)
    found = values.flag_values_dict()
    if not math.isfinite(found["save_every"]):
        raise usage.UsageError(f"--save_every={found['save_every']}: expected seconds.")
    if found["logdir"] == "":
        raise usage.UsageError("--logdir: expected the name of a folder, got ''.")
    if not given & {"num_steps", "num_episodes"}:
        found["num_steps"] = DEFAULT_NUM_STEPS
    if found["preload"] is not None:
        found["preload"] = tuple(found["preload"])
    found["policy"] = found["policy"] or "random"
    return Settings(**{name: found[name] for name in found}), given


def check(stored: Mapping[str, Any]) -> None:
    """Checks settings that were read from a file as if they had been given as flags.

    Raises:
        UsageError: If one could not have been.
    """
    known = set(_defined())
    values = {name: stored[name] for name in stored if name in known}
    given = {name: value for name, value in values.items() if value is not None}
    settings, _ = parse([f"--{name}={_as_flag(given[name])}" for name in given])
    for name, value in given.items():
        expected = getattr(settings, name)
        if value != (list(expected) if name == "preload" else expected):
            raise usage.UsageError(f"--{name}: expected {expected!r}, got {value!r}.")
    if not given.keys() & {"num_steps", "num_episodes"}:
        raise usage.UsageError("expected num_steps or num_episodes, got neither.")


def _as_flag(value: Any) -> str:
    is_list = isinstance(value, list)
    return ",".join(map(str, cast("list[Any]", value))) if is_list else str(value)


def _defined() -> flags.FlagValues:
    """Returns flags of our own, apart from those that other libraries define."""
    values = flags.FlagValues()
    _define_what_runs(values)
    _define_how_long(values)
    _define_what_is_kept(values)
    _define_processes(values)
    _define_failures(values)
    return values


def _define_what_runs(values: flags.FlagValues) -> None:
    group = "What runs"
    flags.DEFINE_string(
        "env",
        None,
        "Environment: a name of Gymnasium, as CartPole-v1 or package:Name-v0; "
        "ale:GAME, an Atari game, as ale:Pong; or module:function, which returns an "
        "environment.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_integer(
        "num_envs",
        8,
        "How many environments step as one batch.",
        lower_bound=1,
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_string(
        "policy",
        None,
        "A function (time_step_spec, action_spec) that returns a PyPolicy, or a "
        "function from a batched time step to actions; the class of a policy is one. "
        "If it has an argument seed it is given one, where --seed is. By default "
        "actions are random.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_integer(
        "seed",
        None,
        "Makes environments and policy draw the same again. By default no two runs do.",
        lower_bound=0,
        upper_bound=_GREATEST_SEED,
        flag_values=values,
        module_name=group,
    )


def _define_how_long(values: flags.FlagValues) -> None:
    group = "How long (what is reached first)"
    flags.DEFINE_integer(
        "num_steps",
        None,
        "Steps in all environments together, without those that only begin an "
        f"episode. {DEFAULT_NUM_STEPS} unless --num_episodes is given.",
        lower_bound=1,
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_integer(
        "num_episodes",
        None,
        "Episodes that end, in all environments together.",
        lower_bound=1,
        flag_values=values,
        module_name=group,
    )


def _define_what_is_kept(values: flags.FlagValues) -> None:
    group = "What is kept"
    flags.DEFINE_string(
        "logdir",
        None,
        "Folder for the replay (replay/), TensorBoard files, config.json and "
        "summary.json. By default runs/NAME-TIME, a new one.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_bool(
        "resume",
        False,
        "Goes on with the run in --logdir, until the limits are reached in all. Flags "
        "that are not given are as in that run; --env and --num_envs cannot differ. "
        "Begins a run if there is none yet.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_integer(
        "replay_capacity",
        None,
        "Rows that the replay keeps, of all environments together: the latest ones. By "
        "default all, as far as they fit in 4 GiB; a line at the start tells how much.",
        lower_bound=1,
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_float(
        "save_every",
        60,
        "Seconds between savings of the replay while the run goes on, at most a tenth "
        "of the time being spent on them; 0 saves at the end only.",
        lower_bound=0,
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_integer(
        "summary_interval",
        1000,
        "Steps between points in TensorBoard; 0 for none.",
        lower_bound=0,
        flag_values=values,
        module_name=group,
    )


def _define_processes(values: flags.FlagValues) -> None:
    group = "Processes"
    flags.DEFINE_integer(
        "num_workers",
        None,
        "Processes over which the environments are spread; 0 for this one. By default "
        "one for each environment.",
        lower_bound=0,
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_enum(
        "context",
        None,
        ["forkserver", "spawn", "fork"],
        "how they start, by default as forkserver; see ParallelPyEnvironment.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_list(
        "preload",
        None,
        "Modules imported once, before workers are forked. By default gymnasium for "
        "its environments; '' for none.",
        flag_values=values,
        module_name=group,
    )


def _define_failures(values: flags.FlagValues) -> None:
    group = "When environments fail"
    flags.DEFINE_float(
        "start_timeout",
        None,
        "Seconds that one environment may take to be made, after which its process is "
        "killed. By default as long as it likes.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_float(
        "step_timeout",
        None,
        "Seconds that one environment may take for a step or a reset, likewise.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_integer(
        "max_restarts",
        0,
        "Failures of one environment that are repaired, be it that it raises, is late, "
        "or that its process dies: another one takes its place. Those after them end "
        "the run.",
        lower_bound=0,
        flag_values=values,
        module_name=group,
    )
