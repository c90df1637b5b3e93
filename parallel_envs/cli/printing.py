"""What a command ends with, on stdout: tables for people."""

from __future__ import annotations

import os
import sys

import rich.console
import rich.table


def show(*parts: rich.console.RenderableType) -> None:
    """Prints parts with an empty line before each; no colours where is no terminal.

    Raises:
        OSError: If they cannot be printed, but for a reader who has read enough.
    """
    console = rich.console.Console(highlight=False)
    with console.capture() as capture:
        for part in parts:
            console.print()
            console.print(part)
    lines = (line.rstrip() for line in capture.get().splitlines())
    try:
        print("\n".join(lines), flush=True)
    except OSError as error:
        # Or what is left to be written would fail once more at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # `head` ends with that.
            raise


def table(heading: str, width: int | None = None) -> rich.table.Table:
    """Returns a table without lines, of one column so far, which names its rows.

    Args:
        heading: Of that column.
        width: Its width in letters; None for as wide as its cells.
    """
    made = rich.table.Table(
        box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="none"
    )
    made.add_column(heading, style="bold", width=width)
    return made
