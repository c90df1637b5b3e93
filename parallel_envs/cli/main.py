"""Where the program `parallel-envs` begins: it can be interrupted from here on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def run() -> NoReturn:
    """Does what the command line says, and exits."""
    _open_what_is_closed()
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Does what the arguments say, and returns the exit code; see `program`.

    Args:
        arguments: What was written after the name of the program.
    """
    try:
        # Its imports take long enough for people to change their minds.
        from parallel_envs.cli import program

        return program.main(arguments)
    except KeyboardInterrupt:
        print("parallel-envs: interrupted.", file=sys.stderr)
        return 128 + signal.SIGINT


def _open_what_is_closed() -> None:
    """Leads output nowhere that somebody has closed, as `2>&-` does.

    Or the first file that is opened would get its number, and what workers print.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, "w"))
