"""Batches that are used at random while their environments fail as planned."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Generator

import pytest

from tests.fault_drill import leftovers
from tests.fault_drill.batch_drill import BatchDrill
from tests.fault_drill.plan import Diary
from tests.fault_drill.tally import Tally


class DrillError(AssertionError):
    """What went wrong, and how to see it again."""


def run_drill(seed: int, num_steps: int, folder: pathlib.Path, tally: Tally) -> None:
    """Uses batches until they have made some steps.

    Args:
        seed: The same one makes the same batches, faults and calls.
        num_steps: Steps and resets of batches, at least.
        folder: For the files of the drill; empty.
        tally: Where to count what happens.

    Raises:
        DrillError: If a batch breaks a promise, or something is left of it.
    """
    began, end = time.monotonic(), tally.num_steps + num_steps
    before = leftovers.possessions()
    diaries: list[Diary] = []
    with _surroundings(folder, seed) as (mark, killer, pipe):
        while tally.num_steps < end:
            number = len(diaries)
            own = folder / str(number)
            own.mkdir()
            diaries.append(Diary(own))
            drill = BatchDrill(f"{seed} {number}", diaries[-1], pipe, tally)
            try:
                drill.run()
            except Exception as error:
                raise DrillError(f"{drill}: {error}") from error
        pids = {pid for diary in diaries for pid in diary.pids()} - {os.getpid()}
        left = leftovers.processes_left(mark, pids, seconds=2.0)
        left = [line for line in left if not line.startswith(f"{killer}:")]
        files = os.listdir(tempfile.gettempdir())
    more = leftovers.possessions() - before
    tally.seconds += time.monotonic() - began
    if left or files or more:
        raise DrillError(f"seed {seed} leaves {left} {files} {more} behind.")


@contextlib.contextmanager
def _surroundings(
    folder: pathlib.Path, seed: int
) -> Generator[tuple[str, int, pathlib.Path]]:
    """Gives a mark for processes, one that kills on demand, and the pipe to it."""
    temporary, pipe = folder / "tmp", folder / "killer"
    temporary.mkdir()
    os.mkfifo(pipe)
    mark = f"{os.getpid()}-{seed}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(leftovers.VARIABLE, mark)
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr(tempfile, "tempdir", None)
        # No thread: context="fork" is refused where there are others.
        script = 'while read -r s pid; do sleep "$s"; kill -9 "$pid"; done <> "$0"'
        with subprocess.Popen(["sh", "-c", script, pipe]) as process:
            try:
                yield mark, process.pid, pipe
            finally:
                process.kill()
