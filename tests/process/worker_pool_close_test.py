"""Ways for a pool to end, and that nothing is left of it whichever it was."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from parallel_envs import errors
from parallel_envs.process import worker_pool
from parallel_envs.process.worker import ServantFactory
from parallel_envs.process.worker_pool import WorkerPool
from parallel_envs.process.worker_processes import NurseryError
from tests.process import servants
from tests.process.servants import (
    Adder,
    Gate,
    Watch,
    ask,
    attach,
    call,
    descriptors,
    factory,
    in_thread,
    pool_of,
    running,
    start_sleeper,
)

CONTEXTS = ["forkserver", "spawn", "fork"]
MEGABYTES_5 = 5_000_000


def named(folder: pathlib.Path) -> ServantFactory:
    """Makes an adder that leaves a file there when it is closed."""
    return functools.partial(Adder, name=str(folder))


@pytest.mark.parametrize("context", CONTEXTS)
def test_closing_closes_every_object_and_ends_every_process(
    context: str, tmp_path: pathlib.Path
) -> None:
    before = descriptors()
    with pool_of([named(tmp_path)] * 3, context=context) as pool:
        attach(pool)
        pids = pool.pids
        processes = [*pids, servants.nursery_of(pool), call(pool, 0, start_sleeper)]
        with Watch(*processes) as watch:
            pool.close()

            assert watch.living_after(1) == []
    del pool

    closed = sorted(path.name for path in tmp_path.iterdir())
    assert closed == sorted(f"closed-{pid}" for pid in pids)
    assert descriptors() == before


def test_closing_twice_does_nothing_more() -> None:
    with pool_of(1) as pool:
        pool.close()
        before = descriptors()

        pool.close()
        pool.interrupt()

        assert descriptors() == before


def test_a_closed_pool_refuses_everything() -> None:
    with running(1) as (pool, _, _):
        number = pool.ask(0, "echo", 1)
        pool.close()

        uses: list[Callable[[], object]] = [
            lambda: pool.round(0),
            lambda: pool.round_by_channel(0, {0: (None, None)}),
            lambda: pool.ask(0, "echo", 1),
            lambda: pool.ask_to_make(0, "echo", 1),
            lambda: pool.answer(number),
            lambda: pool.gather([number]),
            lambda: pool.start([0]),
            lambda: pool.make(0),
            lambda: pool.attach(0),
            lambda: pool.pause(10.0),
            pool.settle,
            pool.check_open,
        ]
        for use in uses:
            with pytest.raises(errors.ClosedError, match="the environment is closed"):
                use()


def test_an_object_whose_close_fails_ends_like_the_others() -> None:
    class Failing(Adder):
        def close(self) -> None:
            raise ValueError("no")

    with pool_of([Failing, Adder]) as pool, Watch(*pool.pids) as watch:
        pool.close()

        assert watch.living_after(0) == []


def test_an_object_that_will_not_close_is_ended_with_what_it_started() -> None:
    class Stubborn(Adder):
        def close(self) -> None:
            threading.Event().wait()

    with (
        pool_of([Stubborn, Adder]) as pool,
        Watch(*pool.pids, call(pool, 0, start_sleeper)) as watch,
    ):
        start = time.monotonic()
        pool.close(grace_seconds=0.2)

        assert 0.2 <= time.monotonic() - start < 2.0
        assert watch.living_after(1) == []


def test_a_stopped_worker_is_ended_with_what_it_started() -> None:
    with (
        pool_of(2) as pool,
        Watch(*pool.pids, call(pool, 0, start_sleeper)) as watch,
    ):
        os.kill(pool.pids[0], signal.SIGSTOP)
        start = time.monotonic()
        pool.close(grace_seconds=0.2)

        assert time.monotonic() - start < 2.0
        assert watch.living_after(1) == []


def test_closing_does_not_depend_on_the_nursery() -> None:
    with pool_of(2) as pool:
        nursery = servants.nursery_of(pool)
        with Watch(nursery, *pool.pids, call(pool, 0, start_sleeper)) as watch:
            os.kill(nursery, signal.SIGSTOP)
            start = time.monotonic()
            pool.close()

            assert time.monotonic() - start < 5.0
            assert watch.living_after(1) == []


def test_closing_in_the_middle_of_a_round_ends_the_workers(gate: Gate) -> None:
    with running(2) as (pool, inputs, _), Watch(*pool.pids) as watch:
        ask(pool, 0, "use_gate", gate.path)
        inputs[:] = servants.WAIT, servants.FAIL
        pool.round(0)

        pool.close(grace_seconds=0.2)

        assert watch.living_after(0) == []


def test_an_answer_that_nobody_read_does_not_keep_an_object_from_closing(
    tmp_path: pathlib.Path,
) -> None:
    with pool_of([named(tmp_path)]) as pool:
        pool.forget(pool.ask(0, "call", bytes, MEGABYTES_5))
        start = time.monotonic()
        pool.close(grace_seconds=10)

        assert time.monotonic() - start < 5.0
        assert len(list(tmp_path.iterdir())) == 1


def test_another_thread_can_interrupt_a_round(gate: Gate) -> None:
    with running(2) as (pool, inputs, _):
        ask(pool, 0, "use_gate", gate.path)
        inputs[:] = servants.WAIT, 1

        def interrupt() -> None:
            gate.wait_until_entered()
            pool.interrupt()

        thread = in_thread(interrupt)
        with pytest.raises(errors.ClosedError):
            pool.round(0)
        thread.join()
        pool.close(grace_seconds=0.2)


def test_another_thread_can_interrupt_the_wait_for_an_answer(gate: Gate) -> None:
    with pool_of(1) as pool:
        ask(pool, 0, "use_gate", gate.path)
        number = pool.ask(0, "wait")

        def interrupt() -> None:
            gate.wait_until_entered()
            pool.interrupt()

        thread = in_thread(interrupt)
        with pytest.raises(errors.ClosedError):
            pool.answer(number)
        thread.join()
        pool.close(grace_seconds=0.2)


def test_a_forked_child_cannot_use_the_pool_and_its_exit_touches_nothing() -> None:
    with running(2) as (pool, inputs, sums):
        number = pool.ask(0, "echo", 5)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for use in (lambda: pool.round(0), lambda: pool.answer(number)):
                    with pytest.raises(errors.ClosedError, match="fork of that proc"):
                        use()
                pool.interrupt()
                pool.close()
                del pool
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        inputs[:] = 1

        assert status == 0
        assert pool.answer(number) == 5
        assert pool.round(0) is None
        assert sums.tolist() == [1, 1]


def test_too_few_descriptors_are_told_before_any_process_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(subprocess.Popen, "__init__", _refuse_to_start)
    monkeypatch.setattr(subprocess.Popen, "__del__", print)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with pytest.raises(
            OSError, match=r"200 workers need 416 file descr.*256.*`ulimit -n \d+`"
        ):
            WorkerPool([factory(Adder)] * 200)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def _refuse_to_start(*_: Any, **__: Any) -> None:
    raise AssertionError("a process was started")


def test_a_pool_without_descriptors_to_spare_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the last thing was that could be opened."""
    monkeypatch.setattr(worker_pool, "_check_descriptors", print)
    factories = [factory(Adder)] * 3
    _, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = descriptors()
    free = os.dup(0)
    os.close(free)
    failures: list[str] = []

    for limit in itertools.count(free):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            with contextlib.closing(WorkerPool(factories)) as pool:
                pool.start(range(3))
            break
        except (OSError, NurseryError) as error:
            failures.append(str(error))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        pool = None
        assert descriptors() == before

    pool = None
    assert descriptors() == before
    assert len(failures) > 15
    assert all("Too many open files" in failure for failure in failures)


MODULES = {
    "missing": (None, "ModuleNotFoundError"),
    "raises": ("raise ValueError('broken')", "ValueError('broken')"),
    "talks": (f"raise ValueError({'x' * 50_000!r})", "ValueError('xxx"),
    "exits": ("raise SystemExit", "SystemExit"),
    "threads": (
        "import threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "starts 1 thread",
    ),
}


@pytest.mark.parametrize("kind", MODULES)
def test_a_module_that_cannot_be_preloaded_is_refused(
    kind: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, complaint = MODULES[kind]
    name = f"preloaded_{kind}"
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    if text is not None:
        (tmp_path / f"{name}.py").write_text(text)
    before = descriptors()

    pool = WorkerPool([factory(Adder)], preload=["json", name])
    with contextlib.closing(pool), pytest.raises(NurseryError) as refusal:
        pool.start([0])

    assert refusal.value.is_refusal
    assert f"preload: {name!r}" in str(refusal.value)
    assert complaint in str(refusal.value)
    del pool, refusal
    assert descriptors() == before


def test_a_nursery_that_ends_while_it_preloads_is_no_refusal(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "preloaded_ends.py").write_text("import os; os._exit(3)")

    pool = WorkerPool([factory(Adder)], preload=["preloaded_ends"])
    with (
        contextlib.closing(pool),
        pytest.raises(NurseryError, match="the process that starts workers") as error,
    ):
        pool.start([0])

    assert not error.value.is_refusal


def test_what_was_preloaded_is_there_in_every_worker(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "preloaded_well.py").write_text("import os; pid = os.getpid()")

    def pid_of_import() -> int:
        return __import__("preloaded_well").pid

    with pool_of(2, preload=["preloaded_well"]) as pool:
        pids = [call(pool, worker, pid_of_import) for worker in range(2)]

        assert pids == [servants.nursery_of(pool)] * 2


def test_a_process_with_other_threads_is_not_forked() -> None:
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait, name="in-the-way")
    thread.start()
    before = descriptors()

    pool = WorkerPool([Adder], context="fork")
    with (
        contextlib.closing(pool),
        pytest.raises(
            RuntimeError, match=r"expected no other threads, found.*in-the-w"
        ),
    ):
        pool.start([0])

    leave.set()
    thread.join()
    del pool
    assert descriptors() == before
