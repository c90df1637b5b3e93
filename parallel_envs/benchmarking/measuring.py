"""Measures one contestant once, in a process of its own that leaves nothing behind."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from parallel_envs.benchmarking.contestants import Contestant
from parallel_envs.benchmarking.workloads import Workload

_BOOTSTRAP = (
    "import sys; _, result, *path = sys.argv; sys.path[:] = {path}; "
    "from parallel_envs.benchmarking import child; child.main(result)"
)
# The very same packages are found; by another interpreter only those that it lacks.
_PATH, _PATH_ELSEWHERE = "path", "sys.path + path"
_RESULT = "result.json"
# Whoever computes with several threads would be measured on more cores than the rest.
_ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
}
_SECONDS_TO_END = 1.0  # For what clears up after itself when it is asked to end.
_POLL_SECONDS = 0.01


@dataclasses.dataclass(frozen=True)
class Job:
    """What is measured.

    Attributes:
        contestant: Who steps.
        python: Executable of the interpreter that does, and has the library.
        workload: What is stepped, calibrated.
        num_envs: Rows of the batch.
        num_cores: Processes of those who spread the rows over the cores.
        seconds: How long the steps are counted.
        timeout: Seconds after which it is given up, start and end included.
    """

    contestant: Contestant
    python: str
    workload: Workload
    num_envs: int
    num_cores: int
    seconds: float
    timeout: float


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What came of it.

    Attributes:
        steps_per_second: Steps of all environments together.
        startup_seconds: From before the constructor to after the first reset, which
            are the first of their kind in the process; imports do not count.
        num_workers: Processes that the rows are spread over.
        worker_bytes: Memory that belongs to the processes it started alone, for each of
            `num_workers`; None where there are none, or the system does not tell.
        busy_share: Of the time of the steps, that in which the measuring process had
            something to compute, be it that it waited for a core to do so.
    """

    steps_per_second: float
    startup_seconds: float
    num_workers: int
    worker_bytes: float | None
    busy_share: float


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why there is no measurement, in one line."""

    reason: str


def measure(job: Job) -> Measurement | Failure:
    """Returns what was measured, or why it could not be.

    Blocks for `timeout` at most, and some seconds more where processes are to be ended:
    the process has a session of its own, which is ended whole, by force if need be, and
    a folder for its temporary files, which is removed.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        result = pathlib.Path(folder, _RESULT)
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                _command(job.python, str(result)),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **_ONE_THREAD, "TMPDIR": folder},
                start_new_session=True,
            )
            try:
                is_late = _has_to_be_ended(process, job)
            finally:
                _end(process)
            if result.exists():
                return _outcome(json.loads(result.read_text("utf-8")))
            if is_late:
                return Failure(f"was not done after {job.timeout:g} s")
            return Failure(_last_words(process.returncode, errors))


def _command(python: str, result: str) -> list[str]:
    # Where a checkout is installed as editable, no path leads to it.
    path = [*sys.path, str(pathlib.Path(__file__).parents[2])]
    kind = _PATH if python == sys.executable else _PATH_ELSEWHERE
    return [python, "-c", _BOOTSTRAP.format(path=kind), result, *path]


def _has_to_be_ended(process: subprocess.Popen[bytes], job: Job) -> bool:
    try:
        process.communicate(pickle.dumps(job), timeout=job.timeout)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the session, which is what its first process leads, and waits for it."""
    for number, seconds in ((signal.SIGTERM, _SECONDS_TO_END), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + seconds
        while _is_there(process) and time.monotonic() < deadline:
            # Of those that are not our children no end is told.
            time.sleep(_POLL_SECONDS)
    process.wait()


def _is_there(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _outcome(found: dict[str, Any]) -> Measurement | Failure:
    return Failure(found["reason"]) if "reason" in found else Measurement(**found)


def _last_words(exit_code: int, errors: Any) -> str:
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").split("\n")
    written = [line.strip() for line in lines if line.strip()]
    words = f", its last words: {written[-1][:200]}" if written else ""
    if exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}{words}"
    return f"ended with exit code {exit_code}{words}"
