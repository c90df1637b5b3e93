"""The bar that people look at while a run goes on; nothing where nobody looks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator

import rich.console
import rich.progress
import rich.table
import rich.text

from parallel_envs.cli.numbers import formatted
from parallel_envs.cli.settings import Settings
from parallel_envs.cli.tally import Tally

_CLEAR_LINE = "\x1b[2K"


@contextlib.contextmanager
def notice(message: str) -> Generator[None, None, None]:
    """Shows a line on stderr until the block ends, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    print(message, end="\r", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)


class Progress:
    """A bar with numbers on stderr, if that is a terminal. A context manager.

    It is drawn when `show` is called and has no thread of its own, so that processes
    may be forked beside it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        console = rich.console.Console(stderr=True)
        self._is_shown = console.is_terminal and not console.is_dumb_terminal
        self._bar = rich.progress.Progress(
            rich.progress.BarColumn(bar_width=None),
            _Numbers("steps"),
            _Numbers("speed"),
            _Numbers("episodes"),
            _Numbers("returns"),
            _TimeLeft(),
            console=console,
            auto_refresh=False,
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("", total=1.0, start=True)

    def show(self, tally: Tally, steps_per_second: float) -> None:
        """Draws the bar anew."""
        if not self._is_shown:
            return
        settings = self._settings
        mean = tally.returns.latest_mean
        self._bar.update(
            self._task,
            completed=settings.fraction(tally.num_steps, tally.num_episodes),
            steps=_of(tally.num_steps, settings.num_steps),
            speed=f"{steps_per_second:,.0f} steps/s" if steps_per_second else "",
            episodes=f"{_of(tally.num_episodes, settings.num_episodes)} episodes",
            returns=f"return {formatted(mean)}" if tally.returns.count else "",
        )
        self._bar.refresh()

    def __enter__(self) -> Progress:
        if self._is_shown:
            self._bar.start()
        return self

    def __exit__(self, *unused_error: object) -> None:
        if self._is_shown:
            self._bar.stop()


class _Numbers(rich.progress.ProgressColumn):
    """A text that `show` has made."""

    max_refresh = None

    def __init__(self, field: str) -> None:
        super().__init__(rich.table.Column(no_wrap=True))
        self._field = field

    def render(self, task: rich.progress.Task) -> rich.text.Text:
        return rich.text.Text(task.fields.get(self._field, ""))


class _TimeLeft(rich.progress.ProgressColumn):
    """How long it takes until the end, at the speed of late."""

    max_refresh = 0.5

    def __init__(self) -> None:
        super().__init__(rich.table.Column(no_wrap=True))

    def render(self, task: rich.progress.Task) -> rich.text.Text:
        if task.time_remaining is None:
            return rich.text.Text("")
        minutes, seconds = divmod(int(task.time_remaining), 60)
        hours, minutes = divmod(minutes, 60)
        clock = (
            f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
        )
        return rich.text.Text(f"{clock} left")


def _of(count: int, limit: int | None) -> str:
    return f"{count:,}" if limit is None else f"{count:,}/{limit:,}"
