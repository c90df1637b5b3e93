"""Programs that have a part of the system for themselves."""

from __future__ import annotations

import subprocess

import pytest


def command(*options: str) -> list[str]:
    """Returns the beginning of a command: `unshare` with options that work here.

    Without root a user namespace is needed for it, which some systems and many
    containers refuse. The test then counts as failed for a known reason, which is
    shown: to pass would be to claim what was not tried.
    """
    for privilege in ([], ["--map-root-user"]):
        unshare = ["unshare", *privilege, *options]
        if subprocess.run([*unshare, "true"], capture_output=True).returncode == 0:
            return unshare
    pytest.xfail(f"unshare {' '.join(options)} is not allowed here")
