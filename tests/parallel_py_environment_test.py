"""What only worker processes can get wrong; see also environment_batch_test."""

from __future__ import annotations

import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.testing import environments
from tests import waiting

CONTEXTS = ("forkserver", "spawn", "fork")


def zeros(count: int) -> Any:
    return np.zeros(count, np.int64)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fails a test that leaves a descriptor or a child process."""
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    yield
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize("context", [None, *CONTEXTS])
def test_closures_and_local_classes_work_in_every_context(context: str | None) -> None:
    number = 7

    class Local(environments.Counting):
        pass

    constructors = [lambda i=i: Local(number + i) for i in range(2)]
    with pe.ParallelPyEnvironment(constructors, context=context) as env:
        first = env.reset()

    assert first.observation.tolist() == [[7, 0, 0], [8, 0, 0]]


def test_a_fork_takes_constructors_that_cannot_be_pickled() -> None:
    lock = threading.Lock()

    def make() -> Any:
        with lock:
            return environments.Counting()

    with pytest.raises(TypeError, match=r"env_constructors\[0\] cannot be pickled"):
        pe.ParallelPyEnvironment([make])
    with pe.ParallelPyEnvironment([make], context="fork") as env:
        assert env.reset().step_type.tolist() == [0]


def test_a_fork_is_refused_while_other_threads_run() -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="other")
    thread.start()
    try:
        with pytest.raises(RuntimeError, match=r'context="fork".*\[\'other\'\]'):
            pe.ParallelPyEnvironment([environments.Counting], context="fork")
        with pe.ParallelPyEnvironment([environments.Counting]) as env:
            assert env.reset().step_type.tolist() == [0]
    finally:
        release.set()
        thread.join()


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("start_serially", [True, False])
def test_a_constructor_that_raises_is_named_and_nothing_is_left(
    context: str, start_serially: bool, tmp_path: Path
) -> None:
    class Marking(environments.Counting):
        def __init__(self) -> None:
            super().__init__()
            (tmp_path / str(os.getpid())).touch()

    def no_display() -> Any:
        raise RuntimeError("no display 42")

    with pytest.raises(
        pe.WorkerError,
        match=r"2 raised RuntimeError\('no display 42'\) during construction",
    ) as caught:
        pe.ParallelPyEnvironment(
            [Marking, Marking, no_display, Marking],
            start_serially=start_serially,
            context=context,
        )

    assert caught.value.indices == (2,)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "no_display" in caught.value.remote_traceback
    waiting.wait_for_end([int(name) for name in os.listdir(tmp_path)])


def test_a_quick_failure_is_not_hidden_behind_a_slow_start() -> None:
    def slow() -> Any:
        threading.Event().wait(60)

    def broken() -> Any:
        raise RuntimeError("at once")

    started = time.monotonic()
    with pytest.raises(pe.WorkerError, match=r"environment 1 raised.*at once"):
        pe.ParallelPyEnvironment([slow, broken], start_serially=False)

    assert time.monotonic() - started < 30


@pytest.mark.parametrize("num_workers", [None, 1])
def test_a_constructor_that_ends_its_process_is_told_with_its_exit_code(
    num_workers: int | None,
) -> None:
    def leave() -> Any:
        os._exit(5)

    def die() -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(pe.WorkerDiedError, match="exit code 5") as caught:
        pe.ParallelPyEnvironment([leave], num_workers=num_workers)
    assert (caught.value.index, caught.value.exitcode) == (0, 5)
    with pytest.raises(pe.WorkerDiedError, match=r"SIGSEGV.*native code") as caught:
        pe.ParallelPyEnvironment([environments.Counting, die], num_workers=num_workers)
    assert caught.value.exitcode == -signal.SIGSEGV


@pytest.mark.parametrize("made", [None, environments.Counting, print, 3])
def test_a_constructor_that_makes_no_environment_is_named(made: Any) -> None:
    with pytest.raises(
        pe.WorkerError,
        match=r"environment 1 raised TypeError.*expected a PyEnvironment",
    ):
        pe.ParallelPyEnvironment([environments.Counting, lambda: made])


@pytest.mark.parametrize("start_serially", [True, False])
def test_constructors_run_one_after_another_or_at_once(
    start_serially: bool, tmp_path: Path
) -> None:
    class Meeting(environments.Counting):
        """Waits a moment for the others to arrive, and says whether they did."""

        def __init__(self, index: int) -> None:
            super().__init__(index)
            (tmp_path / str(index)).touch()
            deadline = time.monotonic() + (0.2 if start_serially else 60)
            while len(os.listdir(tmp_path)) < 3 and time.monotonic() < deadline:
                time.sleep(0.005)
            self.met = len(os.listdir(tmp_path))

    with pe.ParallelPyEnvironment(
        [functools.partial(Meeting, i) for i in range(3)], start_serially=start_serially
    ) as env:
        met = env.get_attr("met")

    assert met == ([1, 2, 3] if start_serially else [3, 3, 3])


BAD_ARGUMENTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"env_constructors": environments.Counting},
        TypeError,
        r"env_constructors: expected a list of callables.*\[Counting\] \* 8",
    ),
    (
        {"env_constructors": 3},
        TypeError,
        "env_constructors: expected a list of callables, got 3",
    ),
    ({"env_constructors": []}, ValueError, "env_constructors: expected at least one"),
    (
        {"env_constructors": [environments.Counting, environments.Counting()]},
        TypeError,
        r"env_constructors\[1\]: expected a callable .*, got the non-callable",
    ),
    (
        {"env_constructors": [environments.Counting, "CartPole-v1"]},
        TypeError,
        r"env_constructors\[1\].*'CartPole-v1'",
    ),
    ({"start_serially": 1}, TypeError, "start_serially: expected True or False, got 1"),
    ({"blocking": "no"}, TypeError, "blocking: expected True or False, got 'no'"),
    ({"flatten": None}, TypeError, "flatten: expected True or False, got None"),
    ({"shared_memory": 0}, TypeError, "shared_memory: expected True or False, got 0"),
    ({"validate": []}, TypeError, r"validate: expected True or False, got \[\]"),
    ({"num_workers": -1}, ValueError, "num_workers: expected at least 0, got -1"),
    ({"num_workers": 1.5}, TypeError, "num_workers: expected None or an int.*got 1.5"),
    (
        {"num_workers": True},
        TypeError,
        "num_workers: expected None or an int.*got True",
    ),
    ({"context": "thread"}, ValueError, "context: expected None.*got 'thread'"),
    ({"context": 3}, TypeError, "context: expected None.*got 3"),
    (
        {"context": "spawn", "num_workers": 0},
        ValueError,
        "context: expected None, since num_workers=0",
    ),
    (
        {"preload": "json"},
        TypeError,
        "preload: expected a list of module names, got 'json'",
    ),
    (
        {"preload": [3]},
        TypeError,
        r"preload: expected a list of module names, got \[3\]",
    ),
    ({"preload": 3}, TypeError, "preload: expected a list of module names, got 3"),
    (
        {"preload": ["__main__"]},
        ValueError,
        "preload: expected names of modules to import, got '__main__'",
    ),
    (
        {"env_constructors": {environments.Counting}},
        TypeError,
        "env_constructors: expected a list of callables",
    ),
    (
        {"preload": ["no_such_module_here"]},
        ValueError,
        "preload: expected names of modules to import, got .no_such_module_here.",
    ),
    (
        {"preload": ["json"], "num_workers": 0},
        ValueError,
        r"preload: expected no modules, got \['json'\]",
    ),
    (
        {"preload": ["json"], "context": "spawn"},
        ValueError,
        "preload: expected no modules",
    ),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), BAD_ARGUMENTS)
def test_a_wrong_argument_is_named_before_any_process_is_started(
    arguments: dict[str, Any],
    kind: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a process was started")

    given: dict[str, Any] = {"env_constructors": [environments.Counting], **arguments}
    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(os, "fork", refuse)

    with pytest.raises(kind, match=message):
        pe.ParallelPyEnvironment(**given)


def test_a_module_that_starts_threads_is_not_preloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "threaded_module.py").write_text(
        "from threading import Event, Thread\n"
        "Thread(target=Event().wait, daemon=True).start()\n"
    )
    (tmp_path / "broken_module.py").write_text("raise OSError('half')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    with pytest.raises(
        ValueError, match=r"preload: 'threaded_module' will not do.*1 thread"
    ):
        pe.ParallelPyEnvironment([environments.Counting], preload=["threaded_module"])
    with pytest.raises(
        ValueError, match=r"preload: 'broken_module' will not do.*OSError\('half'\)"
    ):
        pe.ParallelPyEnvironment([environments.Counting], preload=["broken_module"])


def test_preloaded_modules_are_there_in_every_worker() -> None:
    class Looking(environments.Counting):
        def __init__(self) -> None:
            super().__init__()
            self.had_it = "colorsys" in sys.modules

    with pe.ParallelPyEnvironment([Looking] * 2, preload=["colorsys"]) as env:
        assert env.get_attr("had_it") == [True, True]
    with pe.ParallelPyEnvironment([Looking] * 2) as env:
        assert env.get_attr("had_it") == [False, False]


@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_workers_see_the_callers_surroundings_of_that_moment(
    context: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "Ordner mit ä und 猫"
    folder.mkdir()
    (folder / "module_found_by_path.py").write_text("VALUE = 3\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setenv("PARALLEL_ENVS_TEST", "seen")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "3")

    class Looking(environments.Counting):
        def look(self) -> Any:
            import module_found_by_path  # pyright: ignore

            return (
                os.getcwd(),
                os.environ["PARALLEL_ENVS_TEST"],
                os.environ["OMP_NUM_THREADS"],
                os.environ["MKL_NUM_THREADS"],
                module_found_by_path.VALUE,  # pyright: ignore
                sys.stdin.read() if sys.stdin else "",
            )

    with pe.ParallelPyEnvironment([Looking], context=context) as env:
        seen = env.call("look")

    assert seen == [(str(folder), "seen", "1", "3", 3, "")]


def test_workers_draw_different_global_numbers() -> None:
    class Drawing(environments.Counting):
        def draw(self) -> Any:
            import random

            return random.random(), float(np.random.random())

    with pe.ParallelPyEnvironment([Drawing] * 4) as env:
        drawn = env.call("draw")

    assert len({number for pair in drawn for number in pair}) == 8


def test_workers_import_only_what_their_constructors_need() -> None:
    class Looking(environments.Counting):
        def heavy(self) -> list[str]:
            names = ("tensorflow", "torch", "gym", "gymnasium", "dm_env", "zmq", "ray")
            return [name for name in (*names, "absl", "pytest") if name in sys.modules]

    with pe.ParallelPyEnvironment([Looking]) as env:
        assert env.call("heavy") == [[]]


@pytest.mark.parametrize(
    ("num_workers", "expected"),
    [(None, [1, 1, 1, 1, 1]), (1, [5]), (2, [2, 3]), (3, [1, 2, 2]), (9, [1] * 5)],
)
def test_constructors_are_spread_over_workers_as_evenly_as_can_be(
    num_workers: int | None, expected: list[int]
) -> None:
    constructors = [functools.partial(environments.Counting, i) for i in range(5)]

    with pe.ParallelPyEnvironment(constructors, num_workers=num_workers) as env:
        pids = env.worker_pids
        rows = env.reset().observation[:, 0].tolist()

    counts = [pids.count(pid) for pid in dict.fromkeys(pids)]
    assert sorted(counts) == sorted(expected)
    assert list(pids) == sorted(pids, key=pids.index)  # Neighbours share a worker.
    assert rows == [0, 1, 2, 3, 4]


def test_no_workers_means_this_process() -> None:
    with pe.ParallelPyEnvironment([environments.Counting], num_workers=0) as env:
        assert env.worker_pids == ()
        assert env.call("_observation")[0].tolist() == [0, -1, 0]


def test_blocking_steps_one_environment_at_a_time(tmp_path: Path) -> None:
    class Alone(environments.Counting):
        """Fails if another one steps at the same time."""

        def _step(self, action: Any) -> ts.TimeStep:
            os.close(os.open(tmp_path / "taken", os.O_CREAT | os.O_EXCL))
            for _ in range(200):
                os.sched_yield()
            os.unlink(tmp_path / "taken")
            return super()._step(action)

    with pe.ParallelPyEnvironment([Alone] * 3, blocking=True) as env:
        env.reset()
        for _ in range(20):
            env.step(zeros(3))


def test_handles_speak_to_one_environment() -> None:
    constructors = [functools.partial(environments.Counting, i, 9) for i in range(3)]
    with pe.ParallelPyEnvironment(constructors) as env:
        env.reset()
        handle = env.envs[1]

        promises = [each.call("get_info") for each in env.envs]
        assert [promise()["t"] for promise in reversed(promises)] == [0, 0, 0]
        assert promises[0]() == {"episode": 0, "t": 0}
        assert handle.access("index") == 1
        assert handle.index == 1
        assert handle.get_info() == {"episode": 0, "t": 0}
        assert handle.step(3).observation.tolist() == [1, 0, 1]
        later = handle.step(3, blocking=False)
        assert later().observation.tolist() == [1, 0, 2]
        assert handle.reset().observation.tolist() == [1, 1, 0]
        assert handle.observation_spec() == env.observation_spec()
        assert handle.action_spec() == env.action_spec()
        assert handle.time_step_spec().discount == env.discount_spec()
        assert not hasattr(handle, "nonsense")
        assert not hasattr(handle, "_private")
        assert env.step(zeros(3)).observation[:, 2].tolist() == [1, 1, 1]


def test_a_promise_that_is_dropped_leaves_nothing() -> None:
    with pe.ParallelPyEnvironment([environments.Counting]) as env:
        for _ in range(10):
            env.envs[0].call("get_info")
        gc.collect()

        assert env.envs[0].call("get_info")() == {"episode": -1, "t": 0}


def test_values_that_cannot_be_pickled_are_named() -> None:
    class Locked(environments.Counting):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    with pe.ParallelPyEnvironment([Locked] * 2) as env:
        with pytest.raises(
            TypeError, match=r"environment 0 raised.*cannot be pickled.*lock"
        ):
            env.get_attr("lock")
        with pytest.raises(
            TypeError, match=r"set_attr\('lock'\): row 1: cannot be pickled"
        ):
            env.set_attr("lock", [3, threading.Lock()])
        assert env.get_attr("index") == [0, 0]


def test_a_killed_worker_is_reported_with_its_signal() -> None:
    with pe.ParallelPyEnvironment([environments.Counting] * 4) as env:
        env.reset()
        os.kill(env.worker_pids[2], signal.SIGKILL)

        with pytest.raises(
            pe.WorkerDiedError,
            match=r"environment 2 died during step.*SIGKILL.*-9.*memory",
        ) as caught:
            env.step(zeros(4))

        assert (caught.value.indices, caught.value.exitcode) == ((2,), -9)
        with pytest.raises(RuntimeError, match=r"reset\(\) first"):
            env.step(zeros(4))


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize(
    ("kind", "exitcode"), [(environments.Dying, -9), (environments.Exiting, 3)]
)
def test_reset_starts_a_new_worker_where_one_is_gone(
    kind: Any, exitcode: int, shared_memory: bool
) -> None:
    constructors: list[Callable[[], Any]] = [
        environments.Counting,
        functools.partial(kind, 1),
        functools.partial(environments.Counting, 2),
    ]
    with pe.ParallelPyEnvironment(constructors, shared_memory=shared_memory) as env:
        env.reset()
        before = env.worker_pids

        with pytest.raises(pe.WorkerDiedError) as caught:
            env.step(zeros(3))
        again = env.reset()
        after = env.worker_pids

        assert (caught.value.indices, caught.value.exitcode) == ((1,), exitcode)
        assert again.observation[:, :2].tolist() == [[0, 1], [1, 0], [2, 1]]
        assert [a == b for a, b in zip(before, after, strict=True)] == [
            True,
            False,
            True,
        ]


def test_an_environment_with_other_specs_than_before_is_refused_at_each_reset(
    tmp_path: Path,
) -> None:
    class Changing(environments.Exiting):
        def action_spec(self) -> Any:
            maximum = len(os.listdir(tmp_path))
            return pe.BoundedArraySpec((), np.int64, 0, maximum, "action")

    with pe.ParallelPyEnvironment([Changing]) as env:
        env.reset()
        with pytest.raises(pe.WorkerDiedError):
            env.step(zeros(1))
        (tmp_path / "changed").touch()

        for _ in range(2):
            with pytest.raises(
                ValueError, match=r"environment 0 has other specs since .* anew: action"
            ):
                env.reset()


def test_all_rows_of_a_lost_process_are_named() -> None:
    constructors = [environments.Counting, environments.Exiting, environments.Counting]

    with pe.ParallelPyEnvironment(constructors, num_workers=1) as env:
        env.reset()

        with pytest.raises(pe.WorkerDiedError) as caught:
            env.step(zeros(3))

        assert caught.value.indices == (0, 1, 2)
        assert env.reset().step_type.tolist() == [0, 0, 0]


def test_answers_never_shift_after_an_interrupt() -> None:
    class Slow(environments.Counting):
        """Interrupts the parent in its second step, and answers late."""

        def _step(self, action: Any) -> ts.TimeStep:
            if self.episode == 0 and self.t == 1:
                if self.index == 0:
                    os.kill(self.parent, signal.SIGINT)
                time.sleep(0.2)
            return super()._step(action)

        parent = os.getpid()

    with pe.ParallelPyEnvironment(
        [functools.partial(Slow, i, 9) for i in range(3)]
    ) as env:
        env.reset()
        env.step(zeros(3))
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                env.step(zeros(3))
        finally:
            signal.signal(signal.SIGINT, previous)

        assert env.get_attr("index") == [0, 1, 2]
        with pytest.raises(RuntimeError, match=r"reset\(\) first"):
            env.step(zeros(3))
        assert env.reset().observation[:, 1:].tolist() == [[1, 0]] * 3
        assert env.step(zeros(3)).observation[:, 1:].tolist() == [[1, 1]] * 3


def test_close_from_another_thread_wakes_a_call_that_waits() -> None:
    env = pe.ParallelPyEnvironment([environments.Hanging])
    env.reset()
    raised: list[BaseException] = []
    is_waiting = threading.Event()

    def wait() -> None:
        is_waiting.set()
        try:
            env.step(zeros(1))
        except pe.ClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    is_waiting.wait()
    env.close()
    thread.join(20)

    assert not thread.is_alive()
    assert len(raised) == 1


def test_close_ends_a_worker_that_hangs_and_what_it_started(tmp_path: Path) -> None:
    class Starting(environments.Hanging):
        def __init__(self) -> None:
            super().__init__()
            self.child = subprocess.Popen(["sleep", "1000"]).pid

    env = pe.ParallelPyEnvironment([Starting])
    env.reset()
    pids = [*env.worker_pids, *env.get_attr("child")]
    promise = env.envs[0].step(0, blocking=False)
    started = time.monotonic()

    env.close()

    assert time.monotonic() - started < 10
    waiting.wait_for_end(pids)
    with pytest.raises(pe.ClosedError):
        promise()


def test_an_environment_that_is_dropped_ends_its_workers() -> None:
    env = pe.ParallelPyEnvironment([environments.Counting] * 2)
    pids = env.worker_pids

    del env
    gc.collect()

    waiting.wait_for_end(pids)


def test_a_forked_child_cannot_use_it_and_its_exit_touches_nothing() -> None:
    with pe.ParallelPyEnvironment([environments.Counting] * 2) as env:
        env.reset()
        child = os.fork()
        if child == 0:
            try:
                env.step(zeros(2))
            except pe.ClosedError:
                env.close()
                del env
                gc.collect()
                os._exit(7)
            os._exit(1)

        _, status = os.waitpid(child, 0)

        assert os.waitstatus_to_exitcode(status) == 7
        assert env.step(zeros(2)).observation[:, 2].tolist() == [1, 1]


SCRIPT = """
import numpy as np, parallel_envs as pe
from parallel_envs import time_step as ts

class Env(pe.PyEnvironment):
    def observation_spec(self): return pe.ArraySpec((1,), np.float32)
    def action_spec(self): return pe.BoundedArraySpec((), np.int64, 0, 1)
    def _reset(self): return ts.restart(np.zeros(1, np.float32))
    def _step(self, action): return ts.transition(np.ones(1, np.float32), 1.0)

env = pe.ParallelPyEnvironment([Env, Env]{options})
env.reset()
env.step(np.zeros(2, np.int64))
{end}
print("done")
"""


@pytest.mark.parametrize("options", ["", ", context='spawn'", ", context='fork'"])
@pytest.mark.parametrize("end", ["env.close()", "pass"])
@pytest.mark.parametrize("how", ["file", "stdin", "-c"])
def test_a_plain_script_needs_no_guard_and_may_forget_to_close(
    how: str, end: str, options: str, tmp_path: Path
) -> None:
    text = SCRIPT.format(end=end, options=options)
    script = tmp_path / "script.py"
    script.write_text(text)
    arguments = {"file": [str(script)], "stdin": ["-"], "-c": ["-c", text]}[how]

    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        input=text if how == "stdin" else None,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["done"]


@pytest.mark.parametrize("context", CONTEXTS)
def test_when_the_parent_is_killed_the_workers_go_too(
    context: str, tmp_path: Path
) -> None:
    script = SCRIPT.format(
        options=f", context={context!r}",
        end="print(*env.worker_pids, flush=True)\nimport time; time.sleep(1000)",
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]

    parent.kill()
    parent.wait()
    parent.stdout.close()

    assert len(pids) == 2
    waiting.wait_for_end(pids, seconds=5.0)


def test_a_child_that_an_environment_forks_does_not_become_a_second_worker() -> None:
    class Forking(environments.Counting):
        """The child of its first step comes back in one of four ways."""

        def _step(self, action: Any) -> ts.TimeStep:
            if self.t == 0:
                child = os.fork()
                if child == 0:
                    if self.index == 0:
                        sys.exit(3)
                    if self.index == 1:
                        sys.stderr = None
                        raise ValueError("in the child")
                    if self.index == 2:
                        return ts.transition(np.full(3, 99), 99.0)
                    raise KeyboardInterrupt
                self.status = os.waitpid(child, 0)[1]
            return super()._step(action)

    with pe.ParallelPyEnvironment(
        [functools.partial(Forking, i, 9) for i in range(4)]
    ) as env:
        env.reset()
        steps = [env.step(zeros(4)) for _ in range(5)]
        codes = [os.waitstatus_to_exitcode(status) for status in env.get_attr("status")]

    assert codes == [3, 1, 0, 1]
    assert [step.observation[:, 2].tolist() for step in steps] == [
        [t] * 4 for t in range(1, 6)
    ]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_worker_and_its_nursery_killed_together_are_reported(
    is_stopped: bool,
) -> None:
    with pe.ParallelPyEnvironment([environments.Counting] * 4) as env:
        env.reset()
        (nursery,) = parents(env.worker_pids)
        if is_stopped:
            os.kill(nursery, signal.SIGSTOP)
        os.kill(env.worker_pids[1], signal.SIGKILL)
        os.kill(nursery, signal.SIGKILL)

        with pytest.raises(pe.WorkerDiedError):
            env.step(zeros(4))

        assert env.reset().step_type.tolist() == [0, 0, 0, 0]


def parents(pids: Any) -> set[int]:
    """Returns the parents of processes."""
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in pids]
    return {int(stat.rpartition(")")[2].split()[1]) for stat in stats}


def test_a_death_is_told_where_the_caller_ignores_its_children() -> None:
    previous = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pe.ParallelPyEnvironment([environments.Dying] * 2) as env:
            env.reset()

            with pytest.raises(pe.WorkerDiedError) as caught:
                env.step(zeros(2))

            assert caught.value.exitcode == -signal.SIGKILL
    finally:
        signal.signal(signal.SIGCHLD, previous)


def test_close_wakes_a_call_that_waits_to_send() -> None:
    env = pe.ParallelPyEnvironment([environments.Hanging])
    env.reset()
    env.envs[0].step(0, blocking=False)
    large = np.zeros(20_000_000, np.uint8)
    raised: list[BaseException] = []

    def send() -> None:
        try:
            env.set_attr("large", [large])
        except pe.ClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    wait_until_asleep(thread)
    env.close()
    thread.join(20)

    assert not thread.is_alive()
    assert len(raised) == 1


def wait_until_asleep(thread: threading.Thread) -> None:
    """Returns once a thread sleeps in the kernel."""
    stat = Path(f"/proc/self/task/{thread.native_id}/stat")
    deadline = time.monotonic() + 20
    while stat.read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < deadline
        os.sched_yield()
