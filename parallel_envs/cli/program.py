"""Finds the module of a command of `parallel-envs`, and tells how it ended.

Exit codes are 0 when all went well, 1 when something failed on the way, 2 when what was
asked for cannot be done as it was written, and 128 plus the number of a signal.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Protocol, cast

from parallel_envs.cli import usage
from parallel_envs.suites import nearest

_COMMANDS = {
    "collect": "runs environments and a policy, and keeps what happens",
    "bench": "compares this library with others that are installed",
    "tune": "measures how many processes suit an environment",
}
"""Each command is the module of its name in this package, imported when it is asked."""


class Command(Protocol):
    """What the module of a command has."""

    def help_text(self) -> str:
        """Returns what the command does, and its flags."""
        ...

    def main(self, arguments: Sequence[str]) -> int:
        """Does it, and returns the exit code."""
        ...


def main(arguments: Sequence[str]) -> int:
    """Does what the arguments say, and returns the exit code.

    Args:
        arguments: What was written after the name of the program.
    """
    name = arguments[0] if arguments else ""
    program = f"parallel-envs {name}" if name in _COMMANDS else "parallel-envs"
    try:
        return _do(name, arguments[1:])
    except usage.UsageError as error:
        usage.say(f"{program}: {usage.one_line(error)}")
        return 2
    except usage.RunError as error:
        if error.details:
            usage.say(error.details)
        usage.say(f"{program}: {error}")
        return 1


def _do(name: str, arguments: Sequence[str]) -> int:
    if not name:
        raise usage.UsageError("no command was given; parallel-envs --help tells all.")
    if name == "--version":
        print(f"parallel-envs {metadata.version('parallel-envs')}")
        return 0
    if usage.asks_for_help([name]):
        print(_help_text())
        return 0
    command = _command(name)
    if usage.asks_for_help(arguments):
        print(command.help_text())
        return 0
    _import_from_working_directory()
    return command.main(arguments)


def _command(name: str) -> Command:
    if name not in _COMMANDS:
        close = nearest.names(name, _COMMANDS)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        raise usage.UsageError(
            f"expected a command ({', '.join(_COMMANDS)}), got {name!r}.{hint}"
        )
    return cast(Command, importlib.import_module(f"parallel_envs.cli.{name}"))


def _help_text() -> str:
    width = max(map(len, _COMMANDS))
    commands = [f"  {name:{width}}  {what}" for name, what in _COMMANDS.items()]
    head = [
        "usage: parallel-envs COMMAND [flags]",
        "",
        "Many reinforcement learning environments as one, in parallel.",
        "",
        *commands,
        "",
        "parallel-envs COMMAND --help tells the flags of one, --version the version.",
    ]
    texts = [_command(name).help_text() for name in _COMMANDS]
    return "\n\n".join(["\n".join(head), *texts])


def _import_from_working_directory() -> None:
    """Lets names of modules mean files that lie here, if nothing else is called so."""
    here = os.getcwd()
    if here not in map(os.path.abspath, sys.path):
        # Last, or a file random.py that lies here would be what all others import.
        sys.path.append(here)
