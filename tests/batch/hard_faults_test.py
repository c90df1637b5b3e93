"""Faults of which one alone, at the wrong moment, once hid, hung or left something."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.testing import environments
from tests import namespaces, waiting

ROOT = pathlib.Path(__file__).parent.parent.parent
SLACK = 4.0  # seconds, on a busy machine
EVERYWHERE: list[dict[str, Any]] = [{}, {"num_workers": 1}, {"num_workers": 0}]


def zeros(env: Any) -> Any:
    return np.zeros(env.batch_size, np.int64)


def nursery_of(env: pe.ParallelPyEnvironment) -> int:
    status = pathlib.Path(f"/proc/{env.worker_pids[0]}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


@contextlib.contextmanager
def seconds_below(limit: float) -> Generator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < limit


DEATHS_OF_ONE_PID = """
import os, sys
import numpy as np
import parallel_envs as pe
from parallel_envs.testing import environments
from tests import waiting

restarts = int(sys.argv[1])
env = pe.ParallelPyEnvironment([environments.Endless] * 2, max_restarts=restarts)
env.reset()
first = env.worker_pids[1]
told = []
for _ in range(4):
    env.step(np.zeros(2, np.int64))
    pid = env.worker_pids[1]
    os.kill(pid, 9)
    waiting.wait_for_end([pid])
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(pid - 1))
    try:
        told.append(env.step(np.zeros(2, np.int64)).step_type.tolist())
    except pe.WorkerDiedError:
        told.append("died")
    env.reset()
    assert env.worker_pids[1] == first, (env.worker_pids, first)
env.close()
print(told, [failure.num_restarts for failure in env.failures])
"""


@pytest.mark.parametrize(
    ("max_restarts", "expected"),
    [
        (0, "['died', 'died', 'died', 'died'] [0, 0, 0, 0]"),
        (2, "[[1, 2], [1, 2], 'died', 'died'] [1, 2, 2, 2]"),
    ],
)
def test_each_death_counts_though_process_ids_come_again(
    max_restarts: int, expected: str
) -> None:
    in_a_namespace = namespaces.command("--pid", "--fork", "--mount-proc")
    done = subprocess.run(
        [*in_a_namespace, sys.executable, "-c", DEATHS_OF_ONE_PID, str(max_restarts)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == expected, done.stderr


def test_what_hangs_before_it_can_start_workers_is_ended(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = tmp_path / "pid"
    (tmp_path / "hanging_module.py").write_text(
        "import os, pathlib, threading\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\n"
        "threading.Event().wait()\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    with pytest.raises(pe.WorkerTimeoutError, match=r"after 2 s \(start_timeout\)"):
        pe.ParallelPyEnvironment(
            [environments.Counting], preload=["hanging_module"], start_timeout=2.0
        )

    waiting.wait_for_end([int(pid_file.read_text())])


def test_a_stopped_nursery_is_replaced_within_the_limits_and_left_nowhere() -> None:
    with pe.ParallelPyEnvironment(
        [environments.Endless] * 3, max_restarts=9, start_timeout=2.0, step_timeout=2.0
    ) as env:
        env.reset()
        nursery = nursery_of(env)
        os.kill(nursery, signal.SIGSTOP)
        os.kill(env.worker_pids[1], signal.SIGKILL)

        with seconds_below(2.0 + 2.0 + 2 * SLACK):
            while env.step(zeros(env)).step_type.tolist() != [1, 1, 1]:
                pass

    waiting.wait_for_end([nursery])


def test_exit_codes_of_many_that_nobody_tells_are_waited_for_once() -> None:
    with pe.ParallelPyEnvironment([environments.Endless] * 6) as env:
        env.reset()
        os.kill(nursery_of(env), signal.SIGSTOP)
        for pid in env.worker_pids:
            os.kill(pid, signal.SIGKILL)

        with (
            seconds_below(1.0 + SLACK),
            pytest.raises(pe.WorkerDiedError, match="exit status is unknown") as info,
        ):
            env.step(zeros(env))

    assert info.value.indices == tuple(range(6))


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}])
def test_a_close_that_hangs_does_not_hold_up_a_repair_or_use_up_a_restart(
    options: dict[str, Any],
) -> None:
    class Failing(environments.RaisingInStep):
        def close(self) -> None:
            threading.Event().wait()

    makers = [functools.partial(environments.Counting, 0, 99), lambda: Failing(at=2)]
    with pe.ParallelPyEnvironment(
        makers, step_timeout=0.5, max_restarts=2, **options
    ) as env:
        with seconds_below(2 * 0.5 + SLACK):
            env.reset()
            types = [env.step(zeros(env)).step_type[1] for _ in range(6)]
        failures = env.failures

    assert types == [1, 2, 0, 1, 2, 0]
    assert [(each.doing, each.num_restarts) for each in failures] == [
        ("step", 1),
        ("close", 1),
        ("step", 2),
        ("close", 2),
    ]


def test_a_close_has_three_seconds_where_there_is_no_limit() -> None:
    class Failing(environments.RaisingInStep):
        def close(self) -> None:
            threading.Event().wait()

    with pe.ParallelPyEnvironment([lambda: Failing(at=2)], max_restarts=1) as env:
        env.reset()
        with seconds_below(3.0 + SLACK):
            types = [env.step(zeros(env)).step_type[0] for _ in range(3)]

    assert types == [1, 2, 0]


class Unusual(BaseException):
    """No `Exception`."""


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit, Unusual])
@pytest.mark.parametrize("where", ["construction", "reset", "step"])
def test_what_is_no_exception_concerns_its_own_row_too(
    where: str, kind: type[BaseException]
) -> None:
    class Raising(environments.Counting):
        def __init__(self, index: int) -> None:
            super().__init__(index)
            self.do("construction")

        def do(self, what: str) -> None:
            if (self.index, what) == (2, where):
                raise kind("x")

        def _reset(self) -> ts.TimeStep:
            self.do("reset")
            return super()._reset()

        def _step(self, action: Any) -> ts.TimeStep:
            self.do("step")
            return super()._step(action)

    def use() -> None:
        makers = [functools.partial(Raising, index) for index in range(4)]
        with pe.ParallelPyEnvironment(makers, num_workers=1) as env:
            env.reset()
            env.step(zeros(env))

    with pytest.raises(pe.WorkerError) as info:
        use()

    assert f"environment 2 raised {kind.__name__}('x') during {where}" in str(
        info.value
    )
    assert info.value.indices == (2,)


@pytest.mark.parametrize("options", EVERYWHERE)
def test_an_environment_that_cannot_be_taken_is_closed(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    class Specless(environments.Counting):
        def action_spec(self) -> Any:
            raise ValueError("no specs")

        def close(self) -> None:
            (tmp_path / f"closed-{self.index}").touch()

    makers = [environments.Counting, functools.partial(Specless, 1)]
    with pytest.raises(pe.WorkerError, match=r"environment 1 raised .*no specs"):
        pe.ParallelPyEnvironment(makers, **options)

    assert (tmp_path / "closed-1").exists()


@pytest.mark.parametrize("options", EVERYWHERE)
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "action: expected an ArraySpec, got NoneType None"),
        ({"a": "b"}, "action['a']: expected an ArraySpec, got str 'b'"),
    ],
)
def test_who_has_no_specs_is_named(
    options: dict[str, Any], spec: Any, message: str
) -> None:
    class Specless(environments.Counting):
        def action_spec(self) -> Any:
            return spec

    makers = [environments.Counting, Specless]
    with pytest.raises(pe.WorkerError, match="environment 1 raised TypeError") as info:
        pe.ParallelPyEnvironment(makers, **options)

    assert message in str(info.value)


def test_only_rows_that_have_used_up_their_restarts_are_said_to_have() -> None:
    class Failing(environments.Counting):
        def _step(self, action: Any) -> ts.TimeStep:
            if action:
                raise ValueError(f"as told {self.index}")
            return super()._step(action)

    makers = [functools.partial(Failing, index, 9) for index in range(2)]
    with pe.ParallelPyEnvironment(makers, max_restarts=1) as env:
        env.reset()
        for action in ([0, 1], [0, 0], [0, 0]):
            env.step(action)
        with pytest.raises(pe.WorkerError) as info:
            env.step([1, 1])

    first, second = str(info.value).splitlines()[:2]
    assert first == "environment 0 raised ValueError('as told 0') during step."
    assert second.endswith("It has used up its restarts (max_restarts=1).")


class Quitting(Exception):
    """Ends the program when somebody looks at it."""

    def __repr__(self) -> str:
        raise SystemExit(3)

    def __reduce__(self) -> Any:
        raise GeneratorExit


@pytest.mark.parametrize("options", EVERYWHERE)
def test_an_exception_that_exits_when_it_is_looked_at_is_told(
    options: dict[str, Any],
) -> None:
    class Raising(environments.Counting):
        def _step(self, action: Any) -> ts.TimeStep:
            raise Quitting

    message = re.escape("raised Quitting (its repr raised)")
    with pe.ParallelPyEnvironment([Raising], **options) as env:
        env.reset()
        with pytest.raises(pe.WorkerError, match=message):
            env.step(zeros(env))

        assert env.reset().step_type.tolist() == [0]


CALLS: dict[str, Callable[[Any], Any]] = {
    "step": lambda env: env.step(zeros(env)),
    "call": lambda env: env.call("step", np.int64(0)),
    "handle": lambda env: env.envs[0].step(np.int64(0)),
}


@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({}, "step"),
        ({}, "call"),
        ({}, "handle"),
        ({"step_timeout": 60.0}, "handle"),
        ({"blocking": True}, "step"),
        ({"max_restarts": 1}, "step"),
    ],
)
def test_a_signal_handler_may_close_what_is_waited_for(
    options: dict[str, Any], call: str
) -> None:
    class Hanging(environments.Counting):
        program = os.getpid()

        def _step(self, action: Any) -> ts.TimeStep:
            os.kill(self.program, signal.SIGUSR1)
            time.sleep(0.5)
            return super()._step(action)

    env = pe.ParallelPyEnvironment([Hanging] * 2, **options)
    env.reset()
    previous = signal.signal(signal.SIGUSR1, lambda _number, _frame: env.close())

    try:
        with pytest.raises(pe.ClosedError):
            CALLS[call](env)
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_who_waits_for_a_turn_is_told_that_the_batch_was_closed(
    tmp_path: pathlib.Path,
) -> None:
    entered = tmp_path / "entered"
    os.mkfifo(entered)

    class Hanging(environments.Counting):
        def _step(self, action: Any) -> ts.TimeStep:
            entered.write_text("x")
            threading.Event().wait()
            raise AssertionError

    env = pe.ParallelPyEnvironment([Hanging])
    env.reset()
    told: list[str] = []

    def step() -> None:
        try:
            env.step(zeros(env))
        except Exception as error:
            told.append(type(error).__name__)

    threads = [threading.Thread(target=step) for _ in range(3)]
    for thread in threads:
        thread.start()
    entered.read_text()
    env.close()
    for thread in threads:
        thread.join(20)

    assert told == ["ClosedError"] * 3


@pytest.mark.parametrize("options", EVERYWHERE)
def test_two_threads_may_close(options: dict[str, Any]) -> None:
    env = pe.ParallelPyEnvironment([environments.Counting] * 2, **options)
    env.reset()
    raised: list[BaseException] = []
    barrier = threading.Barrier(4)

    def close() -> None:
        barrier.wait()
        try:
            env.close()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert raised == []


@pytest.mark.parametrize("options", EVERYWHERE)
def test_close_ends_the_pause_between_two_tries(options: dict[str, Any]) -> None:
    tried = threading.Event()

    class Failing(environments.Counting):
        def _reset(self) -> ts.TimeStep:
            raise ValueError("never")

    env = pe.ParallelPyEnvironment([Failing], max_restarts=99, **options)
    told: list[str] = []

    def reset() -> None:
        tried.set()
        try:
            env.reset()
        except Exception as error:
            told.append(type(error).__name__)

    thread = threading.Thread(target=reset)
    thread.start()
    tried.wait()
    with seconds_below(SLACK):
        while len(env.failures) < 4:
            thread.join(0.01)
        env.close()
        thread.join()

    assert told == ["ClosedError"]


def test_the_process_of_a_row_is_never_said_to_be_all_of_them(
    tmp_path: pathlib.Path,
) -> None:
    class Once(environments.Dying):
        def __init__(self) -> None:
            super().__init__(at=1)
            if (tmp_path / "made").exists():
                time.sleep(0.3)
            (tmp_path / "made").touch()

    with pe.ParallelPyEnvironment([Once], max_restarts=1) as env:
        env.reset()
        env.step(zeros(env))
        thread = threading.Thread(target=env.step, args=[zeros(env)])
        thread.start()
        while thread.is_alive():
            assert env.worker_pids[0] > 1
        thread.join()


@pytest.mark.parametrize("value", [np.float32(9), np.float16(9), np.int8(9), 10**400])
def test_numbers_of_numpy_and_huge_ones_are_limits_too(value: Any) -> None:
    with pe.ParallelPyEnvironment(
        [environments.Counting], start_timeout=value, step_timeout=value
    ) as env:
        assert env.reset().step_type.tolist() == [0]


@pytest.mark.parametrize("name", ["max_restarts", "base_seed", "num_workers"])
@pytest.mark.parametrize("value", [np.array(1.5), np.array([1, 2]), 1.0, "1"], ids=repr)
def test_what_is_no_integer_is_refused(name: str, value: Any) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(TypeError, match=f"{name}: expected .*an int of at least 0"):
        pe.ParallelPyEnvironment([environments.Counting], **options)
