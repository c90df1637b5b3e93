"""What to tell a user whose installation lacks a library."""

from __future__ import annotations


def missing(package: str, extra: str) -> ImportError:
    """Returns the error that names `package` and the command that installs it.

    Args:
        package: Name that is imported, for example "dm_env".
        extra: Name of the extra of this project that brings it, for example "dm".
    """
    return ImportError(
        f"the package {package!r} is not installed: "
        f"pip install 'parallel_envs[{extra}]'",
        name=package,
    )
