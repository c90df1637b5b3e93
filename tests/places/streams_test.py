"""Whatever has become of stdin, stdout and stderr."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.places import programs

TALKING = f"""{programs.PREAMBLE}
import os

class Talking(Env):
    def _step(self, action):
        print("printed " * 100, flush=True)
        print("printed " * 100, file=sys.stderr, flush=True)
        if self.is_native:
            os.write(1, b"written " * 100)
        return super()._step(action)

is_portable = os.environ.get("PARALLEL_ENVS_PORTABLE") == "1"
for context in ("spawn",) if is_portable else ("forkserver", "spawn", "fork"):
    # As native code does it. A fork has the very descriptors of this process.
    Talking.is_native = context != "fork"
    use([Talking] * 3, context=context)
os.write(int(sys.argv[1]), b"done")
"""


@pytest.mark.parametrize("portable", ["0", "1"])
@pytest.mark.parametrize("closed", ["0<&-", ">&-", "2>&-", "0<&- >&- 2>&-"])
def test_a_worker_may_print_where_a_stream_is_closed(
    closed: str, portable: str, tmp_path: pathlib.Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(TALKING)
    read_end, write_end = os.pipe()
    command = f"exec {sys.executable} {program} {write_end} {closed}"

    with programs.nothing_left_of({"PARALLEL_ENVS_PORTABLE": portable}) as environ:
        done = subprocess.run(
            ["sh", "-c", command],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[write_end],
            timeout=programs.SECONDS,
        )

    os.close(write_end)
    with open(read_end, "rb") as pipe:
        assert (done.returncode, pipe.read()) == (0, b"done")


def test_what_workers_print_goes_where_the_program_prints(
    tmp_path: pathlib.Path,
) -> None:
    text = f"""{programs.PREAMBLE}
class Talking(Env):
    def _reset(self):
        print("from a worker")
        return super()._reset()

for context in ("forkserver", "spawn", "fork"):
    print(context)
    use([Talking], context=context)
"""
    printed = programs.run(["-c", text])

    assert sorted(printed.split("\n")) == sorted(
        ["", "forkserver", "spawn", "fork", *["from a worker"] * 6]
    )


def test_a_worker_learns_that_nobody_reads_what_it_prints(
    tmp_path: pathlib.Path,
) -> None:
    text = f"""{programs.PREAMBLE}
class Talking(Env):
    def _step(self, action):
        print("printed", flush=True)
        return super()._step(action)

with pe.ParallelPyEnvironment([Talking, Env]) as env:
    env.reset()
    try:
        env.step(np.zeros(2, np.int64))
    except pe.WorkerError as error:
        assert error.indices == (0,)
        assert isinstance(error.__cause__, BrokenPipeError)
    assert env.reset().step_type.tolist() == [0, 0]
use([Env, Env])
"""
    read_end, write_end = os.pipe()
    os.close(read_end)

    with programs.nothing_left_of() as environ:
        done = subprocess.run(
            [sys.executable, "-c", text],
            env=environ,
            stdout=write_end,
            stderr=subprocess.PIPE,
            timeout=programs.SECONDS,
        )

    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")
