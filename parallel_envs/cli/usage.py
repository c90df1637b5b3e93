"""What commands have in common: their two errors, and how flags are told."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from absl import flags

_HELP = {"--help", "-help", "-h", "--h", "--helpshort", "--helpfull"}
_MAX_WIDTH = 100
_INDENT = 27  # Columns; where the words about a flag begin.


class UsageError(Exception):
    """What was asked for cannot be done as it was written: one line, exit code 2."""


class RunError(Exception):
    """Something failed on the way: its message, exit code 1.

    Attributes:
        details: What is told before the message, a traceback for example; often "".
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Returns whether one of the arguments is `--help`."""
    return not _HELP.isdisjoint(arguments)


def one_line(message: object) -> str:
    """Returns the text of a message or an error, its line breaks made spaces."""
    return " ".join(str(message).split())


def say(message: str) -> None:
    """Tells people something on stderr; stdout is for results."""
    print(message, file=sys.stderr)


def parse(values: flags.FlagValues, arguments: Sequence[str]) -> frozenset[str]:
    """Reads the arguments into `values`, and returns the names of the flags given.

    Raises:
        UsageError: If a flag is not known, a value does not fit, or there is something
            that is no flag.
    """
    values.set_gnu_getopt(True)  # So that what is no flag does not hide flags after it.
    try:
        _, *others = values(["parallel-envs", *arguments])
    except flags.Error as error:
        raise UsageError(_reworded(error)) from error
    if others:
        raise UsageError(f"expected flags, as in --name=value, got {others[0]!r}.")
    # Modules of the user that have flags of their own find the defaults of those.
    flags.FLAGS.mark_as_parsed()
    return frozenset(name for name in values if values[name].present)


def flags_text(values: flags.FlagValues, metavars: dict[str, str]) -> str:
    """Returns a paragraph for each group of flags, as wide as the terminal.

    Args:
        values: The flags; their `module_name` is the heading of their group.
        metavars: For flags without a default, what stands for a value.
    """
    width = min(_MAX_WIDTH, shutil.get_terminal_size().columns)
    groups: dict[str, list[str]] = {}
    for name in values:
        group = groups.setdefault(str(values.find_module_defining_flag(name)), [])
        group.append(_flag_text(values[name], metavars.get(name), width))
    return "\n\n".join(f"{name}:\n" + "\n".join(own) for name, own in groups.items())


def _flag_text(flag: Any, metavar: str | None, width: int) -> str:
    name = f"  --{flag.name}"
    if not flag.boolean:
        name += f"={metavar or format(flag.default, 'g')}"
    words = textwrap.wrap(flag.help or "", width - _INDENT)
    if len(name) <= _INDENT - 2:
        words[0] = f"{name:{_INDENT}}{words[0]}"
    else:
        words[0] = f"{name}\n{' ' * _INDENT}{words[0]}"
    return f"\n{' ' * _INDENT}".join(words)


def _reworded(error: flags.Error) -> str:
    if isinstance(error, flags.UnrecognizedFlagError):
        hint = str(error).partition("Did you mean: ")[2].rstrip(" ?")
        meant = f" Did you mean --{hint.replace(' or ', ' or --')}?" if hint else ""
        return f"there is no flag --{error.flagname}.{meant}"
    message = one_line(error).removeprefix("ERROR:: ").removeprefix("flag ")
    if "Non-boolean argument" in message:
        return f"{message.partition(':')[0]}: expected true or false."
    if "invalid literal for int" in message:
        return f"{message.partition(':')[0]}: expected an integer."
    if "could not convert" in message:
        return f"{message.partition(':')[0]}: expected a number."
    return message
