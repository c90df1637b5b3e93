"""What goes wrong in the drill, and how an environment does it."""

from __future__ import annotations

import ctypes
import enum
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Literal

import numpy as np

from parallel_envs import time_step as ts

Effect = Literal["raised", "died", "late", "none"]


class Fault(enum.Enum):
    """One way in which things go wrong."""

    RAISES = "raises"
    RAISES_UNPICKLABLE = "raises what cannot be pickled"
    RAISES_UNREADABLE = "raises what cannot be unpickled"
    RAISES_HUGE = "raises 5 MB"
    RAISES_BAD_REPR = "raises what has no repr"
    RAISES_KEYBOARD_INTERRUPT = "raises KeyboardInterrupt"
    CALLS_SYS_EXIT = "calls sys.exit"
    WRONG_SHAPE = "returns a wrong shape"
    WRONG_DTYPE = "returns a wrong dtype"
    WRONG_STRUCTURE = "returns a wrong structure"
    NO_TIME_STEP = "returns no TimeStep"
    EXITS = "calls os._exit"
    SEGFAULTS = "segfaults"
    ABORTS = "aborts"
    KILLS_ITSELF = "kills itself"
    IS_KILLED = "is killed while it works"
    DIES_SOON = "is killed a moment later"
    SLEEPS = "sleeps"
    WAITS_NATIVELY = "waits in native code"
    IGNORES_SIGTERM = "sleeps and ignores SIGTERM"
    STOPS_ITSELF = "stops itself"
    PRINTS = "prints a lot"
    FORKS = "forks and returns in the child"
    STARTS_PROCESS = "starts a process"
    LEAKS = "leaks memory"
    # Not of an environment: the drill does it.
    WORKER_KILLED = "worker is killed"
    NURSERY_KILLED = "parent of the workers is killed"


RAISING = (
    Fault.RAISES,
    Fault.RAISES_UNPICKLABLE,
    Fault.RAISES_UNREADABLE,
    Fault.RAISES_HUGE,
    Fault.RAISES_BAD_REPR,
    Fault.RAISES_KEYBOARD_INTERRUPT,
    Fault.CALLS_SYS_EXIT,
)
MISFITS = (
    Fault.WRONG_SHAPE,
    Fault.WRONG_DTYPE,
    Fault.WRONG_STRUCTURE,
    Fault.NO_TIME_STEP,
)
DYING = (
    Fault.EXITS,
    Fault.SEGFAULTS,
    Fault.ABORTS,
    Fault.KILLS_ITSELF,
    Fault.IS_KILLED,
    Fault.DIES_SOON,
)
HANGING = (
    Fault.SLEEPS,
    Fault.WAITS_NATIVELY,
    Fault.IGNORES_SIGTERM,
    Fault.STOPS_ITSELF,
)
HARMLESS = (Fault.PRINTS, Fault.FORKS, Fault.STARTS_PROCESS, Fault.LEAKS)
FROM_OUTSIDE = (Fault.WORKER_KILLED, Fault.NURSERY_KILLED)

# They come at a moment that nobody knows, and may come to an end of a process first.
AT_SOME_TIME = (Fault.DIES_SOON, *FROM_OUTSIDE)

EFFECTS: dict[Fault, Effect] = {
    **dict.fromkeys((*RAISING, *MISFITS), "raised"),
    **dict.fromkeys((*DYING, *FROM_OUTSIDE), "died"),
    **dict.fromkeys(HANGING, "late"),
    **dict.fromkeys(HARMLESS, "none"),
}


class UnpicklableError(Exception):
    def __init__(self) -> None:
        super().__init__(lambda: None, threading.Lock())


class UnreadableError(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


class NoReprError(Exception):
    def __repr__(self) -> str:
        raise ValueError("there is no repr")

    __str__ = __repr__


_leaked: list[bytearray] = []
_started: list[subprocess.Popen[bytes]] = []


def commit(fault: Fault, killer: pathlib.Path) -> None:
    """Does it; returns where it is harmless or is done to what is returned.

    Args:
        fault: What to do.
        killer: Pipe of the process that kills on demand.
    """
    if fault in RAISING:
        _raise(fault)
    elif fault in DYING:
        _die(fault, killer)
    elif fault in HANGING:
        _hang(fault)
    elif fault is Fault.PRINTS:
        print("much ado about nothing\n" * 5000)  # noqa: T201
    elif fault is Fault.FORKS:
        os.fork()
    elif fault is Fault.STARTS_PROCESS:
        _started.append(subprocess.Popen(["sleep", "1000"]))
    elif fault is Fault.LEAKS:
        _leaked.append(bytearray(1 << 20))


def spoiled(fault: Fault | None, time_step: ts.TimeStep) -> Any:
    """Returns what an environment returns instead of a time step."""
    observation = dict(time_step.observation)
    if fault is Fault.WRONG_SHAPE:
        observation["who"] = observation["who"][..., :3]
    elif fault is Fault.WRONG_DTYPE:
        observation["who"] = observation["who"].astype(np.float64)
    elif fault is Fault.WRONG_STRUCTURE:
        del observation["heard"]
    elif fault is Fault.NO_TIME_STEP:
        return "nothing"
    return time_step._replace(observation=observation)


def ask_to_kill(killer: pathlib.Path, pid: int, after_seconds: float = 0.0) -> None:
    """Has the process behind the pipe send SIGKILL."""
    descriptor = os.open(killer, os.O_WRONLY)
    try:
        os.write(descriptor, f"{after_seconds:.4f} {pid}\n".encode())
    finally:
        os.close(descriptor)


def _raise(fault: Fault) -> None:
    if fault is Fault.RAISES_UNPICKLABLE:
        raise UnpicklableError
    if fault is Fault.RAISES_UNREADABLE:
        raise UnreadableError(1, 2)
    if fault is Fault.RAISES_HUGE:
        raise RuntimeError("x" * 5_000_000)
    if fault is Fault.RAISES_BAD_REPR:
        raise NoReprError
    if fault is Fault.RAISES_KEYBOARD_INTERRUPT:
        raise KeyboardInterrupt
    if fault is Fault.CALLS_SYS_EXIT:
        sys.exit(5)
    raise RuntimeError("a plain error")


def _die(fault: Fault, killer: pathlib.Path) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if fault is Fault.EXITS:
        os._exit(3)  # pyright: ignore[reportPrivateUsage]
    elif fault is Fault.SEGFAULTS:
        ctypes.string_at(0)
    elif fault is Fault.ABORTS:
        os.abort()
    elif fault is Fault.KILLS_ITSELF:
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault is Fault.DIES_SOON:
        threading.Thread(target=_die_soon, daemon=True).start()
    else:
        ask_to_kill(killer, os.getpid())
        time.sleep(1000)


def _die_soon() -> None:
    time.sleep(0.004)
    os.kill(os.getpid(), signal.SIGKILL)


def _hang(fault: Fault) -> None:
    if fault is Fault.IGNORES_SIGTERM:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif fault is Fault.STOPS_ITSELF:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault is Fault.WAITS_NATIVELY:
        wait = ctypes.PyDLL(None).pause  # It keeps the interpreter's lock.
        while True:
            wait()
    time.sleep(1000)
