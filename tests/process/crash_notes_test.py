"""What native code that crashed or hung has left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from parallel_envs.process.crash_notes import CrashNotes
from parallel_envs.process.shared_arrays import MemoryFile
from parallel_envs.process.worker_handle import WorkerGone
from parallel_envs.process.worker_pool import WorkerPool
from tests.process.servants import ask, call, make_all, pool_of

LIMIT = 0.3
PLACE = 1 << 16  # bytes; where the second worker writes


@pytest.fixture
def notes() -> Iterator[CrashNotes]:
    with contextlib.closing(MemoryFile.create()) as memory:
        yield CrashNotes(memory.descriptor)


def crash_in_native_code() -> None:
    ctypes.string_at(0)


def abort_in_native_code() -> None:
    os.abort()


def turn_for_ever() -> None:
    while True:
        pass


def sleep_for_ever() -> None:
    time.sleep(1000)


def wait_for_a_lock_for_ever() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def gone(pool: WorkerPool, worker: int, function: Callable[[], object]) -> WorkerGone:
    answer = ask(pool, worker, "call", function)
    assert isinstance(answer, WorkerGone)
    return answer


@pytest.mark.parametrize("context", ["forkserver", "spawn", "fork"])
def test_a_crash_of_native_code_tells_where_python_stood(context: str) -> None:
    with pool_of(1, context=context) as pool:
        crashed = gone(pool, 0, crash_in_native_code)

    assert crashed.exitcode == -signal.SIGSEGV
    assert crashed.limit is None
    assert "Segmentation fault" in crashed.trace
    assert "in crash_in_native_code" in crashed.trace


@pytest.mark.usefixtures("portable")
def test_it_does_so_on_the_portable_way_too() -> None:
    with pool_of(2) as pool:
        crashed = gone(pool, 1, crash_in_native_code)

    assert crashed.exitcode == -signal.SIGSEGV
    assert "in crash_in_native_code" in crashed.trace


@pytest.mark.parametrize(
    "function", [turn_for_ever, sleep_for_ever, wait_for_a_lock_for_ever]
)
def test_a_late_worker_tells_in_which_function_it_hangs(
    function: Callable[[], None],
) -> None:
    with pool_of(1, timeout=LIMIT) as pool:
        late = gone(pool, 0, function)

    assert late.limit == LIMIT
    assert f"in {function.__name__}" in late.trace
    assert "Fatal" not in late.trace


def test_several_late_workers_all_tell() -> None:
    functions = [turn_for_ever, sleep_for_ever, wait_for_a_lock_for_ever] * 2
    with pool_of(len(functions), timeout=LIMIT) as pool:
        imports = [pool.ask_to_make(w, "echo", f) for w, f in enumerate(functions)]
        pool.gather(imports)
        numbers = [pool.ask(w, "call", f) for w, f in enumerate(functions)]
        answers = pool.gather(numbers)

    for number, function in zip(numbers, functions, strict=True):
        assert f"in {function.__name__}" in answers[number].trace


def test_a_late_worker_that_cannot_tell_is_not_waited_for() -> None:
    with pool_of(1, timeout=LIMIT) as pool:
        os.kill(pool.pids[0], signal.SIGSTOP)
        start = time.monotonic()

        late = ask(pool, 0, "echo", 1)

        assert time.monotonic() - start < LIMIT + 0.5
        assert (late.limit, late.trace) == (LIMIT, "")


def test_two_that_crash_at_once_keep_apart() -> None:
    with pool_of(2) as pool:
        numbers = [
            pool.ask(0, "call", crash_in_native_code),
            pool.ask(1, "call", abort_in_native_code),
        ]
        first, second = (pool.answer(number) for number in numbers)

    assert "in crash_in_native_code" in first.trace
    assert "in abort_in_native_code" in second.trace
    assert "abort" not in first.trace
    assert "Segmentation" not in second.trace


def test_the_thread_that_serves_tells_and_not_all_others() -> None:
    def hang_among_many_threads() -> None:
        def descend(depth: int) -> None:
            if depth:
                descend(depth - 1)
            time.sleep(1000)

        for _ in range(60):
            threading.Thread(target=descend, args=[40], daemon=True).start()
        sleep_for_ever()

    with pool_of(1, timeout=1.0) as pool:
        late = gone(pool, 0, hang_among_many_threads)

    assert "in hang_among_many_threads" in late.trace
    assert "descend" not in late.trace


def test_a_process_that_the_worker_forked_does_not_write_into_its_place() -> None:
    def crash_in_a_child() -> int:
        child = os.fork()
        if child == 0:
            crash_in_native_code()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    with pool_of(1) as pool:
        exitcode = call(pool, 0, crash_in_a_child)
        os.kill(pool.pids[0], signal.SIGKILL)
        killed = gone(pool, 0, os.getpid)

    assert exitcode == -signal.SIGSEGV
    assert (killed.exitcode, killed.trace) == (-signal.SIGKILL, "")


def test_the_next_worker_in_the_same_place_begins_with_nothing() -> None:
    with pool_of(2) as pool:
        for function in (crash_in_native_code, abort_in_native_code):
            assert f"in {function.__name__}" in gone(pool, 0, function).trace
            pool.start([0])
            make_all(pool)
        os.kill(call(pool, 0, os.getpid), signal.SIGTERM)

        assert pool.answer(pool.ask(0, "call", sleep_for_ever)).trace == ""


def test_nothing_was_written_at_first(notes: CrashNotes) -> None:
    assert [notes.of(worker) for worker in (0, 1, 100)] == ["", "", ""]


def test_each_has_a_place_of_its_own_that_can_be_wiped(notes: CrashNotes) -> None:
    os.pwrite(notes.descriptor, b"first\n", 0)
    os.pwrite(notes.descriptor, "zwölf\n".encode("latin-1") * 9_000, PLACE)

    assert notes.of(0) == "first"
    assert notes.of(1).splitlines() == ["zw\N{REPLACEMENT CHARACTER}lf"] * 9_000

    notes.wipe(1)

    assert (notes.of(0), notes.of(1)) == ("first", "")


PROGRAM = """
import ctypes
from parallel_envs.process import crash_notes
{before}
crash_notes.enable(99, 0)
print("went on", flush=True)
ctypes.string_at(0)
"""


@pytest.mark.parametrize(
    ("before", "told"),
    [("", "in <module>"), ("import sys; sys.stderr = None", "")],
    ids=["standard error", "nothing"],
)
def test_where_there_is_no_place_it_is_told_on_the_standard_error(
    before: str, told: str
) -> None:
    root = pathlib.Path(__file__).parents[2]

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        capture_output=True,
        text=True,
        cwd=root,
    )

    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "went on\n")
    assert told in done.stderr
    assert bool(done.stderr) == bool(told)
