"""Limits of time on what environments do."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.process import facilities
from parallel_envs.testing import environments

LIMIT = 0.5
SLACK = 3.0  # On a busy machine.

OPTIONS: dict[str, dict[str, Any]] = {
    "a worker each": {},
    "one worker": {"num_workers": 1},
    "sockets": {"shared_memory": False},
    "blocking": {"blocking": True},
    "spawn": {"context": "spawn"},
    "portable": {},
}


@pytest.fixture(params=OPTIONS)
def options(request: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if "portable" in request.param:
        monkeypatch.setenv(facilities.VARIABLE, "1")
    return dict(OPTIONS[request.param])


class Slow(environments.Counting):
    """Waits for ever in one of its methods, deaf to SIGTERM, once it is told to."""

    def __init__(self, index: int = 0, where: str = "") -> None:
        super().__init__(index, length=9)
        self.where = where
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.hang("construction")

    def hang(self, where: str) -> None:
        if where == self.where:
            threading.Event().wait()

    def _reset(self) -> ts.TimeStep:
        self.hang("reset")
        return super()._reset()

    def _step(self, action: Any) -> ts.TimeStep:
        self.hang("step")
        return super()._step(action)

    def seed(self, seed: Any) -> None:
        self.hang("seed")

    def render(self, mode: str = "rgb_array") -> Any:
        self.hang("render")
        return np.zeros((2, 2, 3), np.uint8)

    def get_info(self) -> dict[str, int]:
        self.hang("get_info")
        return {}

    def get_state(self) -> Any:
        self.hang("get_state")
        return (0, 0, None)

    def greet(self) -> str:
        self.hang("call")
        return "hello"


def makers(where: str) -> list[Callable[[], Any]]:
    return [Slow, functools.partial(Slow, 1, where), functools.partial(Slow, 2)]


def seconds_of(call: Callable[[], Any]) -> tuple[pe.WorkerTimeoutError, float]:
    """Returns the error that a late environment gives, and how long it took."""
    started = time.monotonic()
    with pytest.raises(pe.WorkerTimeoutError) as info:
        call()
    return info.value, time.monotonic() - started


CALLS: dict[str, Callable[[Any], Any]] = {
    "reset": lambda env: env.reset(),
    "step": lambda env: env.step(np.zeros(3, np.int64)),
    "seed": lambda env: env.seed(4),
    "render": lambda env: env.render(),
    "get_info": lambda env: env.get_info(),
    "get_state": lambda env: env.get_state(),
    "call": lambda env: env.call("greet"),
}


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (name, where)
        for name in OPTIONS
        for where in CALLS
        if name == "a worker each" or where in ("step", "call")
    ],
    indirect=["options"],
)
def test_whoever_is_late_is_named_and_its_process_ended(
    options: dict[str, Any], where: str
) -> None:
    with pe.ParallelPyEnvironment(makers(""), step_timeout=LIMIT, **options) as env:
        env.reset()
        pids = env.worker_pids
        env.set_attr("where", ["", where, ""])

        error, seconds = seconds_of(lambda: CALLS[where](env))
        again = env.reset()

        shares = len(set(pids)) == 1
        kept = [a == b for a, b in zip(pids, env.worker_pids, strict=True)]

    assert LIMIT <= seconds < LIMIT + SLACK
    # Of those that share its process the first had answered in time what was asked of
    # each of them by name; a round is answered as a whole.
    lost = (0, 1, 2) if where in ("step", "reset") else (1, 2)
    assert error.indices == (lost if shares else (1,))
    assert error.exitcode == -signal.SIGKILL
    assert f"environment 1 was not done with {where} after 0.5 s (step_timeout)" in str(
        error
    )
    assert again.step_type.tolist() == [0, 0, 0]
    assert kept == ([False] * 3 if shares else [True, False, True])


def test_a_constructor_that_is_late_is_named_and_nothing_is_left(
    options: dict[str, Any],
) -> None:
    error, seconds = seconds_of(
        lambda: pe.ParallelPyEnvironment(
            # Time enough for the interpreters of the others on a busy machine.
            makers("construction"),
            start_timeout=3.0,
            **options,
        )
    )

    assert seconds < 3.0 + 2 * SLACK
    assert error.index == 1
    assert "environment 1 was not done with construction after 3 s (start_timeout)" in (
        str(error)
    )


def test_a_limit_that_no_process_can_keep_is_named() -> None:
    with pytest.raises(pe.WorkerTimeoutError) as info:
        pe.ParallelPyEnvironment(makers("none"), start_timeout=0.001)

    assert "environment 0 was not started after 0.001 s (start_timeout)" in (
        str(info.value)
    )


@pytest.mark.parametrize("num_workers", [None, 1])
def test_the_time_of_a_constructor_is_its_own(num_workers: int | None) -> None:
    def make() -> environments.Counting:
        time.sleep(0.4)
        return environments.Counting()

    with pe.ParallelPyEnvironment(
        [make] * 4, start_timeout=1.0, num_workers=num_workers
    ) as env:
        assert env.reset().step_type.tolist() == [0] * 4


def test_the_time_of_a_step_is_its_own_where_rows_share_a_process() -> None:
    class Sleepy(environments.Counting):
        def _step(self, action: Any) -> ts.TimeStep:
            time.sleep(0.3)
            return super()._step(action)

    with pe.ParallelPyEnvironment([Sleepy] * 4, num_workers=1, step_timeout=0.8) as env:
        env.reset()

        assert env.step(np.zeros(4, np.int64)).step_type.tolist() == [1] * 4


def test_the_trace_of_a_late_environment_says_where_it_is() -> None:
    with pe.ParallelPyEnvironment(makers("step"), step_timeout=LIMIT) as env:
        env.reset()

        error, _ = seconds_of(lambda: env.step(np.zeros(3, np.int64)))

    assert "in hang" in error.remote_traceback
    assert "in _step" in str(error)


def test_all_that_are_late_are_named() -> None:
    stuck = [functools.partial(Slow, index, "step") for index in range(4)]
    with pe.ParallelPyEnvironment(stuck, step_timeout=LIMIT) as env:
        env.reset()

        error, seconds = seconds_of(lambda: env.step(np.zeros(4, np.int64)))

    assert error.indices == (0, 1, 2, 3)
    assert seconds < LIMIT + SLACK


def test_a_process_that_was_stopped_is_late(options: dict[str, Any]) -> None:
    with pe.ParallelPyEnvironment(makers(""), step_timeout=LIMIT, **options) as env:
        env.reset()
        os.kill(env.worker_pids[1], signal.SIGSTOP)

        error, seconds = seconds_of(lambda: env.step(np.zeros(3, np.int64)))
        again = env.reset()

    assert LIMIT <= seconds < LIMIT + SLACK
    assert 1 in error.indices
    assert again.step_type.tolist() == [0, 0, 0]


def test_an_answer_that_lies_unread_is_not_late() -> None:
    with pe.ParallelPyEnvironment(makers(""), step_timeout=0.2) as env:
        env.reset()
        promise = env.envs[1].call("greet")
        threading.Event().wait(0.5)  # The caller has other things to do meanwhile.

        assert promise() == "hello"
        assert env.step(np.zeros(3, np.int64)).step_type.tolist() == [1] * 3


def test_a_promise_has_its_time_from_when_its_turn_comes() -> None:
    class Sleepy(Slow):
        def nap(self) -> int:
            time.sleep(0.3)
            return self.index

    with pe.ParallelPyEnvironment([Sleepy], step_timeout=0.6) as env:
        promises = [env.envs[0].call("nap") for _ in range(4)]

        assert [promise() for promise in promises] == [0] * 4


def test_a_promise_that_is_late_says_so_each_time() -> None:
    with pe.ParallelPyEnvironment(makers("call"), step_timeout=LIMIT) as env:
        promise = env.envs[1].call("greet")

        for _ in range(2):
            with pytest.raises(pe.WorkerTimeoutError, match=r"call after 0\.5 s"):
                promise()


def test_a_quick_failure_is_not_hidden_behind_a_slow_environment() -> None:
    quick = functools.partial(environments.RaisingInStep, 1, at=1)
    slow = functools.partial(Slow, 0, "step")
    with pe.ParallelPyEnvironment([slow, quick], step_timeout=60.0) as env:
        env.reset()
        started = time.monotonic()

        with pytest.raises(pe.WorkerError, match="bad state") as info:
            env.step(np.zeros(2, np.int64))
        seconds = time.monotonic() - started

    assert info.value.indices == (1,)
    assert seconds < SLACK


def test_a_reset_ends_what_an_earlier_call_has_left_behind() -> None:
    quick = functools.partial(environments.RaisingInStep, 1, at=1)
    slow = functools.partial(Slow, 0, "step")
    with pe.ParallelPyEnvironment([slow, quick], step_timeout=LIMIT) as env:
        env.reset()
        pids = env.worker_pids
        with pytest.raises(pe.WorkerError, match="bad state"):
            env.step(np.zeros(2, np.int64))
        started = time.monotonic()

        again = env.reset()
        seconds = time.monotonic() - started

        assert env.worker_pids[0] != pids[0]
        assert env.worker_pids[1] == pids[1]
    assert again.step_type.tolist() == [0, 0]
    assert seconds < LIMIT + SLACK


def test_a_message_that_is_not_taken_ends_at_the_limit() -> None:
    with pe.ParallelPyEnvironment([Slow], step_timeout=LIMIT) as env:
        os.kill(env.worker_pids[0], signal.SIGSTOP)
        large = np.zeros(10_000_000)

        _, seconds = seconds_of(lambda: env.set_attr("where", [large]))

    assert LIMIT <= seconds < LIMIT + SLACK


def test_a_late_environment_is_replaced(options: dict[str, Any]) -> None:
    with pe.ParallelPyEnvironment(
        makers(""), step_timeout=LIMIT, max_restarts=1, **options
    ) as env:
        env.reset()
        env.set_attr("where", ["", "step", ""])
        shares = len(set(env.worker_pids)) == 1

        steps = [env.step(np.zeros(3, np.int64)).step_type.tolist() for _ in range(3)]
        (failure,) = env.failures

    other = [2, 0, 1] if shares else [1, 1, 1]
    assert steps == [[other[n], [2, 0, 1][n], other[n]] for n in range(3)]
    assert (failure.index, failure.kind) == (1, "late")


class Interrupting(environments.Counting):
    """Sends Ctrl-C to the program, and then hangs."""

    def __init__(self, index: int, program: int) -> None:
        super().__init__(index, length=9)
        self.program = program

    def hang(self) -> None:
        if self.index == 1:
            os.kill(self.program, signal.SIGINT)
            threading.Event().wait()

    def _step(self, action: Any) -> ts.TimeStep:
        self.hang()
        return super()._step(action)


@pytest.fixture
def has_ctrl_c() -> Iterator[None]:
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("has_ctrl_c")
@pytest.mark.parametrize(
    ("how", "max_restarts"),
    [("a worker each", 0), ("one worker", 1), ("blocking", 0), ("portable", 1)],
)
def test_reset_replaces_what_goes_on_hanging_after_ctrl_c(
    how: str, max_restarts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "portable":
        monkeypatch.setenv(facilities.VARIABLE, "1")
    make = [functools.partial(Interrupting, i, os.getpid()) for i in range(3)]
    with pe.ParallelPyEnvironment(
        make, max_restarts=max_restarts, **OPTIONS[how]
    ) as env:
        env.reset()
        with pytest.raises(KeyboardInterrupt):
            env.step(np.zeros(3, np.int64))
        started = time.monotonic()
        first = env.reset()
        seconds = time.monotonic() - started
        (failure,) = env.failures

    assert first.step_type.tolist() == [0, 0, 0]
    assert first.observation[:, 0].tolist() == [0, 1, 2]
    assert 2.9 < seconds < 3.0 + 2 * SLACK
    assert failure.message == (
        "environment 1 was not done with what was interrupted after 3 s, so its "
        "process was ended."
    )


@pytest.mark.usefixtures("has_ctrl_c")
def test_reset_replaces_what_goes_on_hanging_in_a_method_after_ctrl_c() -> None:
    make = [functools.partial(Interrupting, i, os.getpid()) for i in range(3)]
    with pe.ParallelPyEnvironment(make) as env:
        with pytest.raises(KeyboardInterrupt):
            env.call("hang")

        assert env.reset().observation[:, 0].tolist() == [0, 1, 2]
        assert [failure.index for failure in env.failures] == [1]


@pytest.mark.parametrize("max_restarts", [0, 1])
def test_who_was_late_with_a_method_is_not_said_to_be_late_with_a_step(
    max_restarts: int,
) -> None:
    class Either(environments.Counting):
        def raise_or_hang(self) -> None:
            if self.index == 0:
                raise ValueError("no such thing")
            threading.Event().wait()

    make = [functools.partial(Either, i, 9) for i in range(2)]
    with pe.ParallelPyEnvironment(
        make, step_timeout=LIMIT, max_restarts=max_restarts
    ) as env:
        env.reset()
        with pytest.raises(pe.WorkerError, match="environment 0 raised"):
            env.call("raise_or_hang")
        with contextlib.suppress(pe.WorkerTimeoutError):
            env.step(np.zeros(2, np.int64))
        (failure,) = env.failures

    assert "environment 1 was not done with call after 0.5 s" in failure.message
    assert (failure.index, failure.kind, failure.doing) == (1, "late", "call")
    assert failure.is_repaired == bool(max_restarts)


@pytest.mark.parametrize("name", ["start_timeout", "step_timeout"])
@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (0, ValueError, "expected a finite number of seconds above 0, .* got 0"),
        (-1.5, ValueError, "expected a finite number of seconds above 0, .* got -1.5"),
        (
            float("nan"),
            ValueError,
            "expected a finite number of seconds above 0, .* got nan",
        ),
        (
            float("inf"),
            ValueError,
            "expected a finite number of seconds above 0, .* got inf",
        ),
        ("1", TypeError, "expected None or seconds, got '1'"),
        (True, TypeError, "expected None or seconds, got True"),
    ],
)
def test_a_limit_is_a_number_of_seconds(
    name: str, value: Any, kind: type[Exception], message: str
) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(kind, match=f"{name}: {message}"):
        pe.ParallelPyEnvironment([environments.Counting], **options)


@pytest.mark.parametrize("seconds", [1e-9, 2**31, 1e300])
def test_a_limit_may_be_of_any_size(options: dict[str, Any], seconds: float) -> None:
    is_long = seconds > 1
    late = contextlib.nullcontext() if is_long else pytest.raises(pe.WorkerTimeoutError)
    options |= {"start_timeout": max(seconds, 60.0), "step_timeout": seconds}
    with pe.ParallelPyEnvironment(makers("none"), **options) as env, late:
        env.reset()
        for _ in range(1 if is_long else 10_000):
            env.step(np.zeros(3, np.int64))
            env.call("hang", "nowhere")


@pytest.mark.parametrize("name", ["start_timeout", "step_timeout"])
def test_no_limit_is_taken_where_nothing_could_be_ended(name: str) -> None:
    options: dict[str, Any] = {name: 1.0, "num_workers": 0}
    with pytest.raises(ValueError, match=f"{name}: expected None, since num_workers=0"):
        pe.ParallelPyEnvironment([environments.Counting], **options)
