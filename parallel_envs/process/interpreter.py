"""How to start an interpreter like this one, that knows the same modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# The module path comes first, so that the very
# same packages are found whatever folder the program was started from.
_BOOTSTRAP = (
    "import sys; count = int(sys.argv[1]); sys.path[:] = sys.argv[2 : 2 + count]; "
    "from parallel_envs.process import {module}; {module}.main(sys.argv[2 + count :])"
)


def command(
    module: str, module_path: Sequence[str], arguments: Sequence[str]
) -> list[str]:
    """Returns a command that runs `main` of a module of `parallel_envs.process`.

    Args:
        module: Name of the module.
        module_path: What `sys.path` is to be.
        arguments: What `main` gets.
    """
    code = _BOOTSTRAP.format(module=module)
    count = str(len(module_path))
    flags = _interpreter_flags()
    return [sys.executable, *flags, "-c", code, count, *module_path, *arguments]


def _interpreter_flags() -> list[str]:
    """Returns the flags of this interpreter that change what code does."""
    flags = ["-O"] * sys.flags.optimize + ["-B"] * sys.flags.dont_write_bytecode
    flags += ["-X", "utf8"] * sys.flags.utf8_mode
    return flags + [f"-W{option}" for option in sys.warnoptions]
