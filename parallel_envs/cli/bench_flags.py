"""The flags of `bench`."""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from parallel_envs.benchmarking import contestants, workloads
from parallel_envs.cli import bench_settings, usage
from parallel_envs.cli.bench_settings import ALL, DEFAULT_WORKLOADS, BenchSettings

_METAVARS = {
    "env": "NAME",
    "workloads": "NAME,...",
    "contestants": "NAME,...",
    "num_envs": "N,...",
    "num_workers": "N",
    "pythons": "PATH,...",
    "output": "DIR",
}
_CONTESTANTS = """\
Contestants, "cores" being a process for each core, "each" one for each environment,
"one" a single one, "here" none, and "views" without copies:"""


def help_text() -> str:
    """Returns the flags in their groups, and who may take part."""
    names = "\n".join(
        f"  {library.package}: {', '.join(library.ways)}"
        for library in contestants.LIBRARIES
    )
    return f"{usage.flags_text(_defined(), _METAVARS)}\n\n{_CONTESTANTS}\n{names}"


def parse(arguments: Sequence[str]) -> BenchSettings:
    """Returns what the arguments ask for.

    Raises:
        UsageError: If a flag or its value is wrong.
    """
    values = _defined()
    usage.parse(values, arguments)
    return bench_settings.from_flags(values.flag_values_dict())


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
        f"be others. {ALL} for these. By default {', '.join(DEFAULT_WORKLOADS)}, or "
        "none if --env is given.",
        flag_values=values,
        module_name=group,
    )
    flags.DEFINE_string(
        "env",
        None,
        "An environment of yours: a name of Gymnasium; ale:GAME, an Atari game, as "
        "ale:Pong; or module:function. Peers that step environments of Gymnasium take "
        "part if it is one, as ale:GAME is not.",
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

    flags.DEFINE_list(
        "pythons",
        None,
        "Interpreters of other virtual environments, of the same version of Python. "
        "Libraries that are not installed here take part from the first that has them; "
        "they need NumPy and cloudpickle.",
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
