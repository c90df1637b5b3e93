"""Programs of users, run where and how users run them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import parallel_envs
from tests import namespaces, waiting

ROOT = pathlib.Path(parallel_envs.__file__).parent.parent
SECONDS = 60.0
"""How long anything may take before it counts as hanging."""

_MARK = "PARALLEL_ENVS_TEST_MARK"

PREAMBLE = f"""\
import sys
sys.path.append({str(ROOT)!r})
import numpy as np
import parallel_envs as pe
from parallel_envs.testing import environments


class Env(environments.Counting):
    # Of the main module: it has to travel by value.
    def __init__(self, index=0):
        super().__init__(index)


def use(constructors, **options):
    # Makes a batch, and steps it into the second episode.
    with pe.ParallelPyEnvironment(constructors, **options) as env:
        env.reset()
        for _ in range(5):
            time_step = env.step(np.zeros(env.batch_size, np.int64))
        assert time_step.observation[:, 1:].tolist() == [[1, 1]] * env.batch_size
"""
"""The beginning of most programs."""


def run(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    python: str = sys.executable,
    stdin: str = "",
    environ: Mapping[str, str | None] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> str:
    """Returns what a program printed; it must end well and leave no process behind.

    Args:
        arguments: What follows `python`.
        python: The interpreter.
        stdin: What the program can read.
        environ: Environment variables that differ; None is one that is not there.
        folder: The working directory.
    """
    with nothing_left_of(environ) as variables:
        done = subprocess.run(
            [python, *arguments],
            input=stdin,
            env=variables,
            cwd=folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
        )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


@contextmanager
def nothing_left_of(
    environ: Mapping[str, str | None] | None = None,
) -> Generator[dict[str, str]]:
    """Gives environment variables; at the end no process may run that has them.

    Args:
        environ: See `run`.
    """
    mark = uuid.uuid4().hex
    changed = {**os.environ, **(environ or {}), _MARK: mark}
    yield {name: value for name, value in changed.items() if value is not None}
    waiting.wait_for_end(_marked(mark))


def _marked(mark: str) -> list[int]:
    """Returns the processes that were started with a mark in their environment."""
    return [
        int(entry.name)
        for entry in os.scandir("/proc")
        if entry.name.isdecimal() and _has_mark(entry.path, mark)
    ]


def _has_mark(folder: str, mark: str) -> bool:
    try:
        return mark.encode() in pathlib.Path(folder, "environ").read_bytes()
    except OSError:  # It has ended, or is another user's.
        return False


def mounting(commands: str, arguments: Sequence[str]) -> list[str]:
    """Returns a command that runs shell commands, which may mount, and then a program.

    Only the program sees what was mounted.
    """
    unshare = namespaces.command("--mount")
    return [*unshare, "sh", "-euc", f'{commands}\nexec "$@"', "sh", *arguments]
