"""What `bench` shows: a table for each comparison, and how far it is."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator

import rich.console
import rich.progress
import rich.table
import rich.text

from parallel_envs.benchmarking import columns, contestants
from parallel_envs.benchmarking.report import Report
from parallel_envs.benchmarking.results import Comparison

_LEAST_WIDTH = 110  # Columns, where there is no terminal that has its own.
_OURS = "bold"
_FAILED = "red"


def print_head(report: Report) -> None:
    """Prints where and with what is measured, and what could be installed for more."""
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    versions = ", ".join(f"{name} {each}" for name, each in report.versions.items())
    _print(f"{report.date}, {machine}", versions)
    if report.missing:
        names = ", ".join(each.package for each in report.missing)
        commands = " ".join(each.distribution for each in report.missing)
        _print(f"Not installed: {names} (pip install {commands})")


def print_comparison(comparison: Comparison) -> None:
    """Prints a table."""
    first, *others = columns.headings()
    table = rich.table.Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="none"
    )
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    for line, entry in zip(comparison.lines, comparison.entries, strict=True):
        is_ours = entry.contestant.library is contestants.OURS
        if line.failure is None:
            table.add_row(*columns.cells(line), style=_OURS if is_ours else "")
        else:
            table.add_row(line.name, "failed", style=_FAILED)
    failures = [
        rich.text.Text(f"{line.name} {line.failure}", style=_FAILED)
        for line in comparison.lines
        if line.failure is not None
    ]
    _print("", comparison.title, table, *failures, columns.legend(comparison))


@contextlib.contextmanager
def progress(total: int) -> Generator[Callable[[str, int], None], None, None]:
    """Shows a bar on stderr, if that is a terminal, and gives what moves it on."""
    console = rich.console.Console(stderr=True)
    with rich.progress.Progress(
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TextColumn("{task.description}"),
        rich.progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=sys.stdout.isatty(),
    ) as bar:
        task = bar.add_task("calibrating", total=total)
        yield lambda text, num_done: bar.update(
            task, description=text, completed=num_done
        )


def _print(*parts: rich.console.RenderableType) -> None:
    console = rich.console.Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = max(console.width, _LEAST_WIDTH)
    for part in parts:
        # Lines of text are left whole, so that they can be copied.
        console.print(part, soft_wrap=isinstance(part, str))
