"""The table of faults in the documentation, line by line."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import errors
from parallel_envs import time_step as ts
from parallel_envs.testing import environments

GUIDE = pathlib.Path(__file__).parent.parent / "docs" / "guides" / "faults.md"
LIMIT = 0.5


class Faulty(environments.Counting):
    """Does something bad at one place, as long as a file is not there."""

    def __init__(
        self, where: str, fault: Callable[[], Any], once: pathlib.Path | None
    ) -> None:
        super().__init__(1, length=9)
        self._where, self._fault, self._once = where, fault, once
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._go_wrong_at("constructor")

    def _go_wrong_at(self, place: str) -> Any:
        if place != self._where or (self._once is not None and self._once.exists()):
            return None
        if self._once is not None:
            self._once.touch()
        return self._fault()

    def _reset(self) -> ts.TimeStep:
        self._go_wrong_at("reset")
        return super()._reset()

    def _step(self, action: Any) -> ts.TimeStep:
        wrong = self._go_wrong_at("step")
        return super()._step(action) if wrong is None else wrong


def raise_error() -> NoReturn:
    raise ValueError("bad state 7")


def raise_what_cannot_be_pickled() -> NoReturn:
    class Local(Exception):
        def __reduce__(self) -> NoReturn:
            raise TypeError("not me")

    raise Local("bad state 7")


def raise_what_cannot_be_printed() -> NoReturn:
    class Mute(Exception):
        def __repr__(self) -> NoReturn:
            raise ValueError("no words")

        __str__ = __repr__

    raise Mute


def raise_much() -> NoReturn:
    raise ValueError("x" * 20_000_000)


def hang() -> None:
    threading.Event().wait()


def signal_itself(number: int) -> None:
    os.kill(os.getpid(), number)


def wrong_shape() -> ts.TimeStep:
    return ts.transition(np.zeros(4, np.int64), 0.0)


# What a line of the table does, by its first column: the place, and the fault; a signal
# is sent from outside.
FAULTS: dict[str, tuple[str, Callable[[], Any] | signal.Signals]] = {
    "a constructor raises": ("constructor", raise_error),
    "a constructor ends its process": ("constructor", functools.partial(os._exit, 3)),
    "a constructor takes longer than `start_timeout`": ("constructor", hang),
    "`reset` raises": ("reset", raise_error),
    "the process ends in a reset": ("reset", functools.partial(os._exit, 3)),
    "`reset` takes longer than `step_timeout`": ("reset", hang),
    "`step` raises": ("step", raise_error),
    "`step` raises what cannot be pickled": ("step", raise_what_cannot_be_pickled),
    "`step` raises what cannot be printed": ("step", raise_what_cannot_be_printed),
    "`step` raises 20 MB": ("step", raise_much),
    "`step` calls `sys.exit`": ("step", functools.partial(sys.exit, 3)),
    "`step` calls `os._exit`": ("step", functools.partial(os._exit, 3)),
    "native code crashes (SIGSEGV)": ("step", functools.partial(ctypes.string_at, 0)),
    "native code gives up (SIGABRT)": ("step", os.abort),
    "the process is killed in a step (SIGKILL, out of memory)": (
        "step",
        functools.partial(signal_itself, signal.SIGKILL),
    ),
    "the process is killed between two steps": ("outside", signal.SIGKILL),
    "`step` takes longer than `step_timeout`, deaf to SIGTERM": ("step", hang),
    "the process is stopped (SIGSTOP) longer than `step_timeout`": (
        "outside",
        signal.SIGSTOP,
    ),
    "an observation has another shape than its spec": ("step", wrong_shape),
    "what is returned is no time step": ("step", lambda: "no time step"),
}


def table() -> dict[str, tuple[str, str]]:
    lines = re.findall(
        r"^\| (.+?) \| (.+?) \| (.+?) \|$", GUIDE.read_text("utf-8"), re.M
    )
    return {what: (error, repaired) for what, error, repaired in lines[1:]}


def test_every_line_of_the_table_is_tried() -> None:
    assert list(table()) == list(FAULTS)


def make(
    what: str, once: pathlib.Path | None, **options: Any
) -> pe.ParallelPyEnvironment:
    place, fault = FAULTS[what]
    inside: Callable[[], Any] = raise_error if place == "outside" else fault  # type: ignore[assignment]
    return pe.ParallelPyEnvironment(
        [
            functools.partial(environments.Counting, 0, 9),
            functools.partial(Faulty, place, inside, once),
        ],
        step_timeout=LIMIT,
        start_timeout=2.0 if place == "constructor" else 30.0,
        **options,
    )


def strike_from_outside(what: str, env: pe.ParallelPyEnvironment) -> None:
    _, fault = FAULTS[what]
    if isinstance(fault, signal.Signals):
        os.kill(env.worker_pids[1], fault)


def meet(what: str) -> None:
    with make(what, None) as env:
        env.reset()
        strike_from_outside(what, env)
        env.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_an_error_of_the_kind_that_is_told(what: str) -> None:
    kind = getattr(errors, table()[what][0].strip("`"))
    place, _ = FAULTS[what]

    with pytest.raises(errors.WorkerError) as info:
        meet(what)

    assert type(info.value) is kind
    assert info.value.index == 1
    assert info.value.doing == {"constructor": "construction", "reset": "reset"}.get(
        place, "step"
    )


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_repaired_as_it_is_told(what: str, tmp_path: pathlib.Path) -> None:
    expected = table()[what][1]
    action = np.zeros(2, np.int64)

    with make(what, tmp_path / "once", max_restarts=1) as env:
        steps, marks = [env.reset()], [env.get_info()[1].get("crashed")]
        strike_from_outside(what, env)
        for _ in range(3):
            steps.append(env.step(action))
            marks.append(env.get_info()[1].get("crashed"))
        failures = env.failures

    types = np.stack([step.step_type for step in steps], axis=1).tolist()
    assert types[0] == [0, 1, 1, 1]
    if expected == "`LAST`, `FIRST`":
        assert types[1] == [0, 2, 0, 1]
        assert marks == [None, True, None, None]
    elif expected == "`FIRST`":
        assert types[1] == [0, 1, 1, 1]
        assert marks == [True, None, None, None]
    else:
        assert expected == "made again"
        assert types[1] == [0, 1, 1, 1]
        assert marks == [None] * 4
    (failure,) = failures
    assert (failure.index, failure.num_restarts, failure.is_repaired) == (1, 1, True)


def test_a_crash_of_native_code_says_where() -> None:
    with make("native code crashes (SIGSEGV)", None) as env:
        env.reset()
        with pytest.raises(errors.WorkerDiedError, match="SIGSEGV") as info:
            env.step(np.zeros(2, np.int64))

    assert "string_at" in info.value.remote_traceback
    assert "in _step" in str(info.value)
    assert info.value.exitcode == -signal.SIGSEGV


def test_a_worker_that_prints_much_is_not_held_up() -> None:
    script = """
import numpy as np, parallel_envs as pe
from parallel_envs.testing import environments
class Loud(environments.Counting):
    def _step(self, action):
        print("x" * 1_000_000)
        return super()._step(action)
with pe.ParallelPyEnvironment([Loud] * 2) as env:
    env.reset()
    for _ in range(10):
        env.step(np.zeros(2, np.int64))
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=True
    )

    assert len(ended.stdout) >= 14_000_000
    assert ended.stderr == b""
