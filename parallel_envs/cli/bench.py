"""Compares this library with those that are installed beside it."""

from __future__ import annotations

import contextlib
import datetime
import importlib.util
import json
import pathlib
import shlex
from collections.abc import Sequence

from parallel_envs.benchmarking import competition, machine, page
from parallel_envs.benchmarking.report import Report
from parallel_envs.cli import bench_flags, usage
from parallel_envs.cli.bench_settings import BenchSettings
from parallel_envs.cli.interruptions import Interrupted, Interruptions

_SUMMARY = """\
usage: parallel-envs bench [flags]

Steps environments as a batch, with this library and with each of its peers that is
installed, and prints how fast each of them is. Each run is a process of its own, and
all contestants take turns. Another machine, and another load, give other numbers:
compare what was measured in one call."""

_EXAMPLES = """\
Examples:
  parallel-envs bench --workloads=null,image --num_envs=8,32
  parallel-envs bench --env=CartPole-v1 --contestants=parallel_envs,gymnasium/async
  parallel-envs bench --sweep --output=charts"""

_TABLE, _CHART = "rich", "matplotlib"  # Needed for; both brought by one extra.


def help_text() -> str:
    """Returns what the command does, and its flags."""
    return "\n\n".join([_SUMMARY, bench_flags.help_text(), _EXAMPLES])


def main(arguments: Sequence[str]) -> int:
    """Compares, and returns the exit code.

    Raises:
        UsageError: If something was asked for that cannot be done.
        RunError: If nothing could be measured.
    """
    settings = bench_flags.parse(arguments)
    _check_package(_TABLE)
    if settings.output is not None:
        _check_package(_CHART)
        _make_folder(settings.output)
    report = _new_report(settings, arguments)
    if machine.is_busy():
        usage.say("Other programs use this machine now: numbers will be rough.")
    with Interruptions() as interruptions:
        with contextlib.suppress(Interrupted), interruptions.obeyed():
            _fill(report, settings)
        if settings.output is not None and report.comparisons:
            _write(report, settings.output)
    if interruptions.exit_code:
        usage.say("parallel-envs bench: interrupted; complete comparisons were kept.")
        return interruptions.exit_code
    _check_any_measured(report)
    return 0


def _check_package(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise usage.UsageError(
            f"the package {package!r} is not installed: "
            "pip install 'parallel_envs[bench]'"
        )


def _make_folder(path: pathlib.Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise usage.UsageError(f"--output={path}: {error.strerror}.") from error


def _new_report(settings: BenchSettings, arguments: Sequence[str]) -> Report:
    return Report(
        date=datetime.datetime.now().astimezone().isoformat(" ", "seconds"),
        command=shlex.join(["parallel-envs", "bench", *arguments]),
        machine=machine.description(),
        versions=settings.versions,
        missing=settings.missing,
        is_sweep=settings.is_sweep,
    )


def _fill(report: Report, settings: BenchSettings) -> None:
    from parallel_envs.cli import bench_table  # Needs the package that was looked for.

    bench_table.print_head(report)
    with bench_table.progress(settings.plan.num_jobs) as notify:
        for comparison in competition.run(settings.plan, notify):
            report.comparisons.append(comparison)
            bench_table.print_comparison(comparison)


def _write(report: Report, folder: pathlib.Path) -> None:
    from parallel_envs.benchmarking import chart  # As above.

    draw = chart.curves if report.is_sweep else chart.bars
    figure = draw(report.comparisons)
    chart.save(figure, folder / "chart.png")
    (folder / "chart.html").write_text(page.html(report, chart.svg(figure)), "utf-8")
    text = json.dumps(report.to_json(), indent=1)
    (folder / "results.json").write_text(f"{text}\n", "utf-8")
    usage.say(f"Written: {folder}/results.json, chart.png, chart.html")


def _check_any_measured(report: Report) -> None:
    lines = [line for each in report.comparisons for line in each.lines]
    if all(line.failure is not None for line in lines):
        raise usage.RunError(f"nothing could be measured: {lines[0].failure}.")
