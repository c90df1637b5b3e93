"""How to start an interpreter like this one, that knows the same modules."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

# The module path comes first, so that the very same packages are found whatever folder
# the program was started from. What is beyond it is for the import of the module only.
_BOOTSTRAP = (
    "import sys; count, end = map(int, sys.argv[1:3]); sys.path[:] = sys.argv[3:end]; "
    "from parallel_envs.process import {module}; del sys.path[count:]; "
    "{module}.main(sys.argv[end:])"
)
# What the modules of `parallel_envs.process` are made of.
_NEEDED = ("parallel_envs", "numpy", "cloudpickle")


def command(
    module: str, module_path: Sequence[str], arguments: Sequence[str]
) -> list[str]:
    """Returns a command that runs `main` of a module of `parallel_envs.process`.

    Args:
        module: Name of the module.
        module_path: What `sys.path` is to be.
        arguments: What `main` gets.

    Raises:
        RuntimeError: If this program does not say where its interpreter is.
    """
    if not sys.executable:
        raise RuntimeError(
            "sys.executable: expected the path of the Python that is to run the "
            f"workers, got {sys.executable!r}, as where a program embeds Python. Set "
            'it, or use context="fork", or num_workers=0.'
        )
    path = searched(module_path)
    # A path may say "", and the program have gone elsewhere since.
    whole = [*path, *_folders_of_needed()]
    code = _BOOTSTRAP.format(module=module)
    places = [str(len(path)), str(3 + len(whole))]
    flags = _interpreter_flags()
    return [sys.executable, *flags, "-c", code, *places, *whole, *arguments]


def searched(module_path: Sequence[object]) -> list[str]:
    """Returns the entries of a module path that an import does not pass over."""
    return [entry for entry in module_path if isinstance(entry, str)]


def _folders_of_needed() -> list[str]:
    files = [str(sys.modules[name].__file__) for name in _NEEDED]
    return list(dict.fromkeys(os.path.dirname(os.path.dirname(f)) for f in files))


def _interpreter_flags() -> list[str]:
    """Returns the options of this interpreter that change what code does."""
    counts = {
        "-O": sys.flags.optimize,
        "-B": sys.flags.dont_write_bytecode,
        "-b": sys.flags.bytes_warning,
        "-S": sys.flags.no_site,
        "-I": sys.flags.isolated,
        "-E": sys.flags.ignore_environment,
        "-s": sys.flags.no_user_site,
        "-P": getattr(sys.flags, "safe_path", False),  # Since Python 3.11.
    }
    given: dict[str, Any] = getattr(sys, "_xoptions", {})
    options = {**given, "utf8": sys.flags.utf8_mode}
    return [
        *(letter for letter, count in counts.items() for _ in range(count)),
        *(f"-X{name}={value}".removesuffix("=True") for name, value in options.items()),
        *(f"-W{option}" for option in sys.warnoptions),
    ]
