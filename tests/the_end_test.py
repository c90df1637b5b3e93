"""Nothing is left of a program, however it ends: no process, no memory, no noise.

The programs are real, and run in each mode at the same time. Their environments start
programs as simulators do: a child, one in a session of its own, and a daemon.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

import parallel_envs
from parallel_envs.process import facilities
from parallel_envs.testing import environments

MODES = {
    "default": "",
    "spawn": ", context='spawn'",
    "fork": ", context='fork'",
    "two workers": ", num_workers=2",
    "portable": "",
}
NUM_ENVIRONMENTS = 3
COOKIE = "PARALLEL_ENVS_TEST_COOKIE"

PROGRAM = """
import atexit, ctypes, faulthandler, gc, logging, os, pathlib, resource, signal
import subprocess, sys, threading, time
import numpy as np
import {package} as pe
import {environments} as environments

faulthandler.disable()
for number in (signal.SIGHUP, signal.SIGQUIT):  # Of nohup and `&` it is ignored.
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
marks = pathlib.Path(sys.argv[1])
is_portable = os.environ.get("PARALLEL_ENVS_PORTABLE") == "1"
actions = np.zeros({count}, np.int64)
started = []

def note(what):
    with open(marks / what, "a") as file:
        file.write("x")

def wait_for(what):
    while not (marks / what).exists():
        time.sleep(0.01)

class Env(environments.Counting):
    def __init__(self, index):
        super().__init__(index, 10**9)
        started.append(subprocess.Popen(["sleep", "1000"]))
        if not is_portable:
            tree = ["sh", "-c", "sleep 1000 & sleep 1000"]
            started.append(subprocess.Popen(tree, start_new_session=True))
            subprocess.run(["sh", "-c", "setsid sleep 1000 &"])
    def close(self):
        note(f"closed-{{self.index}}")

def make(kind=Env):
    constructors = [lambda index=index: kind(index) for index in range({count})]
    return pe.ParallelPyEnvironment(constructors{options})

def ready():
    print("ready", flush=True)

{body}
"""
STEPPING = """
env = make()
env.reset()
ready()
while True:
    env.step(actions)
"""


@dataclasses.dataclass(frozen=True)
class Program:
    """A running program and where its environments leave marks."""

    process: subprocess.Popen[str]
    cookie: str
    marks: pathlib.Path
    stderr: pathlib.Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "ready\n", self.stderr.read_text()

    def kill_group(self, number: int) -> None:
        os.killpg(self.pid, number)

    def nursery_and_guard(self) -> tuple[int, int]:
        (guard,) = [pid for pid in self.living() if parent_of(pid) == self.pid]
        (nursery,) = [pid for pid in self.living() if parent_of(pid) == guard]
        return nursery, guard

    def living(self) -> list[int]:
        """Returns the processes that it has started, and those they have."""
        wanted = f"{COOKIE}={self.cookie}".encode()
        found: list[int] = []
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                environ = pathlib.Path(f"/proc/{name}/environ").read_bytes()
                if wanted in environ.split(b"\0"):
                    found.append(int(name))
        return found

    def living_after(self, seconds: float) -> list[str]:
        """Returns the commands of those that have not ended in time."""
        deadline = time.monotonic() + seconds
        while (living := self.living()) and time.monotonic() < deadline:
            wait_for_end(living[0], deadline)
        return [command_of(pid) for pid in living]

    def told(self) -> list[str]:
        """Returns the errors in what was written to stderr."""
        lines = self.stderr.read_text().splitlines()
        return [
            line.partition(":")[0]
            for line in lines
            if line and not line[0].isspace() and not line.startswith("Traceback (most")
        ]

    def wait_for_mark(self, name: str) -> None:
        deadline = time.monotonic() + 60
        while name not in self.marks_left():
            assert time.monotonic() < deadline, self.stderr.read_text()
            time.sleep(0.01)

    def marks_left(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in self.marks.iterdir()}


def parent_of(pid: int) -> int:
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        return f"{pid}: " + command.replace("\0", " ")[-60:]
    return str(pid)


def wait_for_end(pid: int, deadline: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(pid)
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        poller.poll(max(0.0, deadline - time.monotonic()) * 1000)
        os.close(pidfd)


@contextlib.contextmanager
def running(
    body: str, mode: str, folder: pathlib.Path, count: int = NUM_ENVIRONMENTS
) -> Generator[Program]:
    """Gives a program in a group of its own, and ends it with all it has started."""
    script, marks, temporary = folder / "script.py", folder / "marks", folder / "tmp"
    for new in (folder, marks, temporary):
        new.mkdir()
    options = MODES[mode]
    text = PROGRAM.format(
        # From the modules, since BUILD goes by what is imported here.
        package=parallel_envs.__name__,
        environments=environments.__name__,
        body=body,
        options=options,
        count=count,
    )
    script.write_text(text)
    cookie = uuid.uuid4().hex
    with open(folder / "stderr", "w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-Xdev", "-Werror::ResourceWarning", script, marks],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            env={
                **os.environ,
                COOKIE: cookie,
                "TMPDIR": str(temporary),
                facilities.VARIABLE: str(int(mode == "portable")),
            },
        )
    program = Program(process, cookie, marks, folder / "stderr")
    try:
        yield program
    finally:
        for pid in program.living():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@dataclasses.dataclass(frozen=True)
class End:
    """A way for a program to end, and what is to be seen of it.

    Attributes:
        exitcode: Minus the signal where one ended it.
        body: What the program does.
        act: Called once it is ready, if it ever gets so.
        does_close: Whether each environment's own `close` is called.
        error: What is told, once; nothing else is.
    """

    exitcode: int
    body: str = STEPPING
    act: Callable[[Program], object] | None = None
    does_close: bool = False
    error: str = ""


def by_signal(number: signal.Signals) -> End:
    return End(-number, act=lambda program: program.kill_group(number))


def stop_and_kill(program: Program) -> None:
    program.kill_group(signal.SIGSTOP)  # As Ctrl-Z does where there is a terminal.
    program.kill_group(signal.SIGKILL)


def stop_nursery_and_kill(program: Program) -> None:
    os.kill(program.nursery_and_guard()[0], signal.SIGSTOP)
    kill(program.pid)


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


MADE = "env = make()\nenv.reset()\nenv.step(actions)\n"
ENDS = {
    "at its last line": End(0, MADE, does_close=True),
    "by an exception": End(
        1, MADE + "raise ValueError('mine')", does_close=True, error="ValueError"
    ),
    "by sys.exit": End(5, MADE + "sys.exit(5)", does_close=True),
    "by os._exit": End(6, MADE + "os._exit(6)"),
    "by a segmentation fault": End(-signal.SIGSEGV, MADE + "ctypes.string_at(0)"),
    "after close, twice": End(0, MADE + "env.close()\nenv.close()", does_close=True),
    "after del": End(
        0, MADE + "del env\nassert len(list(marks.iterdir())) == 3", does_close=True
    ),
    "with a cycle": End(
        0,
        MADE + "env.itself = env\ndel env\ngc.collect()\n"
        "assert len(list(marks.iterdir())) == 3",
        does_close=True,
    ),
    "by an exception in a with block": End(
        1,
        "with make() as env:\n    env.reset()\n    raise ValueError('mine')",
        does_close=True,
        error="ValueError",
    ),
    "by Ctrl-C": End(
        -signal.SIGINT,
        act=lambda program: program.kill_group(signal.SIGINT),
        does_close=True,
        error="KeyboardInterrupt",
    ),
    "by SIGTERM": by_signal(signal.SIGTERM),
    "by SIGHUP": by_signal(signal.SIGHUP),
    "by SIGQUIT": by_signal(signal.SIGQUIT),
    "by SIGKILL": by_signal(signal.SIGKILL),
    "stopped, then killed": End(-signal.SIGKILL, act=stop_and_kill),
    "killed with its nursery": End(
        -signal.SIGKILL,
        act=lambda program: kill(program.pid, program.nursery_and_guard()[0]),
    ),
    "killed with its nursery stopped": End(-signal.SIGKILL, act=stop_nursery_and_kill),
    "killed with its guard": End(
        -signal.SIGKILL,
        act=lambda program: kill(program.pid, program.nursery_and_guard()[1]),
    ),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_program_leaves_nothing_when_it_ends(
    how: str, tmp_path: pathlib.Path
) -> None:
    end = ENDS[how]
    modes = [mode for mode in MODES if mode != "portable" or "with its" not in how]
    before = shared_memory()

    with contextlib.ExitStack() as stack:
        programs = {
            mode: stack.enter_context(running(end.body, mode, tmp_path / mode))
            for mode in modes
        }
        found = {mode: what_is_left(programs[mode], end) for mode in modes}

    assert found == {mode: expected_of(end) for mode in modes}
    assert shared_memory() <= before


def what_is_left(program: Program, end: End) -> dict[str, Any]:
    """Ends a program, and returns what can be seen of it then."""
    if end.act is not None:
        program.wait_until_ready()
        end.act(program)
    exitcode = program.process.wait()
    # They are gone within some 50 ms, where nothing else wants the cores.
    living = program.living_after(5)
    return {
        "exit code": exitcode,
        "living": living,
        "marks": program.marks_left(),
        "temporary files": list(program.marks.with_name("tmp").iterdir()),
        "told": program.told(),
    }


def expected_of(end: End) -> dict[str, Any]:
    closed = {f"closed-{row}": 1 for row in range(NUM_ENVIRONMENTS)}
    return {
        "exit code": end.exitcode,
        "living": [],
        "marks": closed if end.does_close else {},
        "temporary files": [],
        "told": [end.error] if end.error else [],
    }


INTERRUPTED = {
    "construction": """
class Slow(Env):
    def __init__(self, index):
        super().__init__(index)
        note("entered")
        if index == 1:
            threading.Event().wait()
ready()
make(Slow)
""",
    "close": """
class Slow(Env):
    def close(self):
        super().close()
        note("entered")
        threading.Event().wait()
env = make(Slow)
env.reset()
ready()
env.close()
""",
    "a reset after a death": """
class Slow(Env):
    def __init__(self, index):
        super().__init__(index)
        if (marks / "killed").exists():
            note("entered")
            threading.Event().wait()
logging.disable()  # That environments are made anew is logged.
env = make(Slow)
env.reset()
note("killed")
os.kill(env.worker_pids[1], signal.SIGKILL)
ready()
try:
    env.step(actions)
except pe.WorkerDiedError:
    pass
else:
    raise AssertionError("nobody died")
env.reset()
""",
}


@pytest.mark.parametrize("when", INTERRUPTED)
def test_ctrl_c_is_told_once_and_leaves_nothing_whatever_it_interrupts(
    when: str, tmp_path: pathlib.Path
) -> None:
    body = INTERRUPTED[when]

    with contextlib.ExitStack() as stack:
        programs: dict[str, Program] = {}
        for mode in MODES:  # One by one: what is interrupted does not take for ever.
            program = stack.enter_context(running(body, mode, tmp_path / mode))
            program.wait_until_ready()
            program.wait_for_mark("entered")
            program.kill_group(signal.SIGINT)
            programs[mode] = program
        found = {
            mode: (
                program.process.wait(),
                program.living_after(2 if mode == "portable" else 1),
                program.told(),
            )
            for mode, program in programs.items()
        }

    left: list[str] = []
    expected = (-signal.SIGINT, left, ["KeyboardInterrupt"])
    assert found == dict.fromkeys(MODES, expected)


MISBEHAVING = """
class Misbehaving(Env):
    def close(self):
        super().close()
        if self.index == 0:
            raise ValueError("in close")
        if self.index == 1:
            print("printed in close", flush=True)
        if self.index == 2:
            threading.Event().wait()
        if self.index == 3:
            threading.Thread(target=threading.Event().wait).start()
            own = not is_portable
            started.append(subprocess.Popen(["sleep", "9"], start_new_session=own))
        if self.index == 4:
            sys.exit("in close")
        if self.index == 5:
            os._exit(3)
env = make(Misbehaving)
env.reset()
begin = time.monotonic()
env.close()
took = time.monotonic() - begin
assert 2.9 < took < 4, took
"""


def test_each_close_is_called_once_whatever_it_does_and_none_takes_for_ever(
    tmp_path: pathlib.Path,
) -> None:
    found = {
        mode: (seen | {"told": sorted(seen["told"])}, output)
        for mode, seen, output in ends_of(MISBEHAVING, tmp_path, count=6)
    }

    logged = "An environment raised in close()."
    seen = expected_of(End(0)) | {
        "marks": {f"closed-{row}": 1 for row in range(6)},
        "told": [logged, logged, "SystemExit", "ValueError"],
    }
    assert found == dict.fromkeys(MODES, (seen, "printed in close\n"))


CLOSED_MEANWHILE = """
class Hanging(Env):
    def _step(self, action):
        if self.index == 0:
            note("entered")
            threading.Event().wait()
        return super()._step(action)

def step():
    try:
        env.step(actions)
    except pe.ClosedError:
        note("told")

env = make(Hanging)
env.reset()
thread = threading.Thread(target=step)
thread.start()
wait_for("entered")
env.close()
thread.join()
"""


def test_environments_are_closed_while_another_thread_waits_for_one_of_them(
    tmp_path: pathlib.Path,
) -> None:
    found = {mode: seen for mode, seen, _ in ends_of(CLOSED_MEANWHILE, tmp_path)}

    marks = {"entered": 1, "told": 1, "closed-1": 1, "closed-2": 1}
    assert found == dict.fromkeys(MODES, expected_of(End(0)) | {"marks": marks})


FINISHING = """
atexit.register(note, "program")

class Finishing(Env):
    def __init__(self, index):
        super().__init__(index)
        self.is_closed = threading.Event()
        threading.Thread(target=self.work).start()
        atexit.register(self.leave)

    def work(self):
        self.is_closed.wait()
        time.sleep(0.2)
        note(f"thread-{self.index}")

    def leave(self):
        if (marks / f"thread-{self.index}").exists():
            note(f"exit-{self.index}")

    def close(self):
        super().close()
        self.is_closed.set()

env = make(Finishing)
env.reset()
env.close()
"""


def test_threads_end_and_exit_handlers_of_environments_run_after_their_close(
    tmp_path: pathlib.Path,
) -> None:
    found = {mode: seen for mode, seen, _ in ends_of(FINISHING, tmp_path)}

    rows = range(NUM_ENVIRONMENTS)
    marks = {
        f"{what}-{row}": 1 for what in ("closed", "thread", "exit") for row in rows
    }
    marks["program"] = 1
    assert found == dict.fromkeys(MODES, expected_of(End(0)) | {"marks": marks})


def ends_of(
    body: str, folder: pathlib.Path, count: int = NUM_ENVIRONMENTS
) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Runs a program in each mode; gives mode, what is left, and what it printed."""
    with contextlib.ExitStack() as stack:
        programs = {
            mode: stack.enter_context(running(body, mode, folder / mode, count))
            for mode in MODES
        }
        for mode, program in programs.items():
            seen = what_is_left(program, End(0))
            assert program.process.stdout is not None
            yield mode, seen, program.process.stdout.read()


def shared_memory() -> set[str]:
    """Returns the names in shared memory, but for those of multiprocessing."""
    names = os.listdir("/dev/shm")
    return {name for name in names if not name.startswith(("sem.mp-", "psm_"))}
