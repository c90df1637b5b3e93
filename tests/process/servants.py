"""Small objects for workers to serve, and the pools that serve them."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs.process import pickling
from parallel_envs.process.control_block import Progress
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.shared_arrays import ArrayLayout
from parallel_envs.process.worker import Report, ServantFactory
from parallel_envs.process.worker_handle import WorkerGone
from parallel_envs.process.worker_pool import WorkerPool

Arrays = list[npt.NDArray[Any]]

# Inputs that are wishes and not numbers.
FAIL = -1
TELL = -2
DIE = -3
EXIT = -4
WAIT = -5
WAIT_AND_TELL = -6
HANG = -7
THREE_PARTS = -8


class Adder:
    """Adds its inputs to a sum, and does what inputs below zero wish for.

    The command is added as well, and else says in which part it is to hang, or how many
    milliseconds each of three parts is to take.

    The class is a factory of servants as it is.
    """

    def __init__(self, progress: Progress, order: Any, name: object = "adder") -> None:
        self._progress = progress
        self._order = order
        self._name = name
        self._sum = 0
        self._inputs: Arrays = []
        self._outputs: Arrays = []
        self._gates: dict[str, int] = {}

    def introduction(self) -> Any:
        return self._name

    def attach(self, inputs: Arrays, outputs: Arrays) -> None:
        self._inputs, self._outputs = inputs, outputs

    def round(self, command: int, extras: Any = None) -> Report | None:
        value = int(self._inputs[0][0])
        if value < 0:
            return self._obey(value, command)
        self._sum += value + command
        self._outputs[0][0] = self._sum
        return None if extras is None else Report(extras=extras)

    def rows_of(self, part: int) -> slice:
        return slice(part, part + 1)

    def part(self, part: int, command: int, extras: Any = None) -> Report | None:
        value = int(self._inputs[0][part])
        if value < 0:
            return self._obey(value, command)
        self._outputs[0][part] = value + command
        return None if extras is None else Report(extras=extras)

    def request(self, name: str, *arguments: Any) -> Any:
        return getattr(self, f"do_{name}")(*arguments)

    def close(self) -> None:
        for descriptor in self._gates.values():
            os.close(descriptor)
        if isinstance(self._name, str) and os.path.isdir(self._name):
            with open(f"{self._name}/closed-{os.getpid()}", "w"):
                pass

    def do_echo(self, value: Any) -> Any:
        return value

    def do_call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def do_sum(self) -> int:
        return self._sum

    def do_order(self) -> Any:
        return self._order

    def do_parts(self, *seconds: float) -> int:
        """Does parts, each of which takes so long; returns their number."""
        for part, duration in enumerate(seconds):
            self._progress.begin(part)
            time.sleep(duration)
        return len(seconds)

    def do_use_gate(self, path: str) -> None:
        """Has what is to wait do so until the named pipe is written to."""
        self._gates["enter"] = os.open(f"{path}.enter", os.O_WRONLY)
        self._gates["leave"] = os.open(f"{path}.leave", os.O_RDONLY)

    def do_wait(self) -> None:
        os.write(self._gates["enter"], b"x")
        os.read(self._gates["leave"], 1)

    def _obey(self, wish: int, command: int) -> Report | None:
        if wish == TELL:
            return Report(extras=f"sum {self._sum}")
        if wish == FAIL:
            raise ValueError("a round that fails")
        if wish == DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        if wish == EXIT:
            os._exit(7)
        if wish == HANG:
            self._progress.begin(command)
            hang()
        if wish == THREE_PARTS:
            return Report(extras=self.do_parts(*[command / 1000] * 3))
        self.do_wait()
        return None if wish == WAIT else Report(extras="late")


class Gate:
    """Holds up a worker at a known place, and lets it go on."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.mkfifo(f"{path}.enter")
        os.mkfifo(f"{path}.leave")
        # Read and write, so that opening waits for nobody.
        self._enter = os.open(f"{path}.enter", os.O_RDWR)
        self._leave = os.open(f"{path}.leave", os.O_RDWR)

    @property
    def path(self) -> str:
        return self._path

    def wait_until_entered(self) -> None:
        assert is_readable(self._enter, 30)
        os.read(self._enter, 1)

    def open(self) -> None:
        os.write(self._leave, b"x")

    def close(self) -> None:
        os.close(self._enter)
        os.close(self._leave)


def hang() -> None:
    """Takes longer than any test."""
    time.sleep(1000)


def has_failed(answer: Any) -> bool:
    return isinstance(answer, (RemoteError, WorkerGone))


def factory(make: ServantFactory, context: str = "forkserver") -> Any:
    """Returns a factory as a pool of this context takes it."""
    return make if context == "fork" else pickling.dumps(make)


@contextlib.contextmanager
def started(
    makers: int | Sequence[ServantFactory],
    *,
    context: str = "forkserver",
    **options: Any,
) -> Generator[WorkerPool]:
    """Gives a pool whose workers run and have no object yet, and closes it."""
    if isinstance(makers, int):
        makers = [Adder] * makers
    factories = [factory(make, context) for make in makers]
    with contextlib.closing(WorkerPool(factories, context=context, **options)) as pool:
        pool.start(range(len(factories)))
        yield pool


@contextlib.contextmanager
def pool_of(
    makers: int | Sequence[ServantFactory],
    *,
    context: str = "forkserver",
    **options: Any,
) -> Generator[WorkerPool]:
    """Gives a pool of adders, or of what the makers make, and closes it."""
    with started(makers, context=context, **options) as pool:
        for introduction in make_all(pool):
            assert not has_failed(introduction), introduction
        yield pool


@contextlib.contextmanager
def running(
    makers: int | Sequence[ServantFactory], **options: Any
) -> Generator[tuple[WorkerPool, npt.NDArray[Any], npt.NDArray[Any]]]:
    """Gives a pool that is ready for rounds, its inputs and its sums."""
    with pool_of(makers, **options) as pool:
        yield pool, *attach(pool)


def make_all(pool: WorkerPool) -> list[Any]:
    """Has all workers make their objects; returns how each introduces itself."""
    numbers = [pool.make(worker) for worker in range(len(pool.pids))]
    answers = pool.gather(numbers, wait_for_all=True)
    return [answers[number] for number in numbers]


def attach(
    pool: WorkerPool, *, shared_memory: bool = True
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Returns the inputs and the sums of a pool of adders, one row each."""
    num_workers = len(pool.pids)
    layout = ArrayLayout([(num_workers,)] * 2, [np.dtype(np.int64)] * 2)
    rows = [(worker, worker + 1) for worker in range(num_workers)]
    if shared_memory:
        inputs, sums = pool.lay_out(layout, 1, rows)
    else:
        inputs, sums = layout.new_arrays()
        pool.lay_out_apart(layout, 1, rows)
    attach_to_rows(pool, range(num_workers))
    return inputs, sums


def attach_to_rows(pool: WorkerPool, workers: Sequence[int]) -> None:
    numbers = [pool.attach(worker) for worker in workers]
    answers = pool.gather(numbers, wait_for_all=True)
    assert answers == dict.fromkeys(numbers), answers


def replace_dead(pool: WorkerPool) -> None:
    """Puts new workers, with new objects, in the places of the dead."""
    dead = pool.dead
    pool.start(dead)
    numbers = [pool.make(worker) for worker in dead]
    answers = pool.gather(numbers, wait_for_all=True)
    assert not any(map(has_failed, answers.values())), answers
    attach_to_rows(pool, dead)


def ask(pool: WorkerPool, worker: int, name: str, *arguments: Any) -> Any:
    return pool.answer(pool.ask(worker, name, *arguments))


def call(
    pool: WorkerPool, worker: int, function: Callable[..., Any], *args: Any
) -> Any:
    """Returns what a function returns in a worker."""
    answer = ask(pool, worker, "call", function, *args)
    assert not has_failed(answer), answer
    return answer


def start_sleeper() -> int:
    """Starts a program that runs for a long time, as simulators do."""
    program = [sys.executable, "-c", "import time; time.sleep(1000)"]
    return subprocess.Popen(program, stdin=subprocess.DEVNULL).pid


def is_readable(descriptor: int, seconds: float = 0.0) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(seconds * 1000))


class Watch:
    """Processes that are to end."""

    def __init__(self, *pids: int) -> None:
        self._pidfds = {pid: os.pidfd_open(pid) for pid in pids}

    def living_after(self, seconds: float) -> list[int]:
        """Returns those that have not ended in time."""
        deadline = time.monotonic() + seconds
        return [
            pid
            for pid, pidfd in self._pidfds.items()
            if not is_readable(pidfd, max(0.0, deadline - time.monotonic()))
        ]

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        for pid, pidfd in self._pidfds.items():
            if not is_readable(pidfd):
                os.kill(pid, signal.SIGKILL)
            os.close(pidfd)


def nursery_of(pool: WorkerPool) -> int:
    """Returns the process that is the parent of a pool's workers."""
    with open(f"/proc/{pool.pids[0]}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def descriptors() -> set[str]:
    """Returns what each descriptor of this process refers to."""
    gc.collect()  # A mapping has a descriptor until nothing refers to it.
    found: set[str] = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return found


def in_thread(function: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread
