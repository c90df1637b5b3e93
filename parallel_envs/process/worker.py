"""The loop inside a worker: serves one object until it is asked to close.

The object is what a factory made, and obeys the `Servant` protocol. Each request
gets exactly one answer, the making of the object included. Rounds are the fast way:
the bell wakes the worker, the command and the arrays lie in shared memory, and
nothing is sent back unless there is something to tell.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import pickle
import random
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from parallel_envs.process import (
    attention,
    channel,
    control_block,
    crash_notes,
    doorbell,
    part_block,
    pickling,
    remote_error,
)
from parallel_envs.process import shared_arrays as shared

_PARENT_SECONDS = 0.5  # How often a worker without a nursery looks for its parent.


@dataclasses.dataclass(frozen=True)
class Report:
    """What a round has to tell beside what it wrote into the arrays.

    Attributes:
        failures: What went wrong; empty where nothing did.
        extras: Values that do not fit into arrays of fixed shape, or None.
    """

    failures: tuple[Any, ...] = ()
    extras: Any = None


class Servant(Protocol):
    """What a worker serves; made by a `ServantFactory`."""

    def introduction(self) -> Any:
        """Returns what the parent has to know before it attaches the arrays."""
        ...

    def attach(
        self, inputs: list[npt.NDArray[Any]], outputs: list[npt.NDArray[Any]]
    ) -> None:
        """Takes the arrays that rounds read from and write to: its own rows."""
        ...

    def round(self, command: int, extras: Any = None) -> Report | None:
        """Does one round; returns what the arrays do not tell, or None."""
        ...

    def rows_of(self, part: int) -> slice:
        """Returns which of its rows belong to one part of the object."""
        ...

    def part(self, part: int, command: int, extras: Any = None) -> Report | None:
        """Does what a round does for one part of the object; returns as `round`."""
        ...

    def request(self, name: str, *arguments: Any) -> Any:
        """Does what is asked for by name, and returns the result."""
        ...

    def close(self) -> None:
        """Frees what the object holds."""
        ...


ServantFactory = Callable[[control_block.Progress, Any], Servant]
"""Makes a servant, given where to note which of its parts it is at, and an order."""


@dataclasses.dataclass(frozen=True)
class Attachment:
    """The arrays of the whole batch, and which rows of them a worker serves.

    Attributes:
        layout: All arrays, the inputs first.
        num_inputs: How many of them are inputs.
        rows: First row and one past the last row of the worker.
        offset: Where the block starts in the memory file; None where values travel
            through the channel, and each worker has arrays of its own.
        parts: First part and one past the last part of the worker's object.
        num_parts: How many there are of all objects.
        parts_offset: Where the block of parts starts in the memory file.
    """

    layout: shared.ArrayLayout
    num_inputs: int
    rows: tuple[int, int]
    offset: int | None
    parts: tuple[int, int] = (0, 0)
    num_parts: int = 0
    parts_offset: int = 0

    def arrays(self, memory: shared.MemoryFile) -> list[npt.NDArray[Any]]:
        """Returns the worker's rows of each array."""
        first, end = self.rows
        if self.offset is None:
            shapes = [(end - first, *shape[1:]) for shape in self.layout.shapes]
            own = shared.ArrayLayout(shapes, self.layout.dtypes)
            return own.new_arrays()
        block = memory.map(self.layout.size, self.offset)
        return [array[first:end] for array in self.layout.arrays(block)]


@dataclasses.dataclass(frozen=True)
class Station:
    """What is in place for a worker before it is born; all of it is inherited.

    Attributes:
        num_workers: How many workers share it.
        memory: Descriptor of the memory file.
        notes: Descriptor of the file for crash notes.
        bells: Descriptors of the doorbell; none where rounds are asked for through the
            channel.
    """

    num_workers: int
    memory: int
    notes: int
    bells: tuple[int, ...] = ()

    @classmethod
    def of(cls, num_workers: int, descriptors: Sequence[int]) -> Station:
        """Returns the station with these descriptors, in the order it has them in."""
        memory, notes, *bells = descriptors
        return cls(num_workers, memory, notes, tuple(bells))

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All descriptors that a worker has to inherit."""
        return (self.memory, self.notes, *self.bells)


copies: list[int] = []
"""Holds something in a process that was forked from a worker."""


def leave_if_copy(error: BaseException | None = None) -> None:
    """Ends the process if an environment forked it from a worker and let it return.

    Such a child would answer, and write into rows, in the name of the worker.

    Args:
        error: What the child raised.
    """
    if not copies:
        return
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(bool(error.code))
    else:
        code = 0 if error is None else 1
        if error is not None:
            traceback.print_exception(error)
    _flush()
    os._exit(code)  # pyright: ignore[reportPrivateUsage]


class Worker:
    """Serves one object on one channel."""

    def __init__(
        self,
        station: Station,
        index: int,
        connection: socket.socket,
        inherited: ServantFactory | None = None,
    ) -> None:
        """Maps what is shared.

        Args:
            station: What all workers share.
            index: Number of this worker.
            connection: This worker's end of its channel.
            inherited: Makes the servant where it came by a fork, and not pickled.
        """
        self._index = index
        self._inherited = inherited
        self._channel = channel.Channel(connection)
        self._memory = shared.MemoryFile(station.memory)
        self._station = station
        self._control = control_block.ControlBlock(self._memory, station.num_workers)
        self._progress = self._control.progress(index)
        self._done = self._control.asked_of(index)
        self._servant: Servant | None = None
        self._inputs: list[npt.NDArray[Any]] = []
        self._outputs: list[npt.NDArray[Any]] = []
        self._is_open = True

    def serve(self) -> None:
        """Answers until asked to close, or until the other side is gone."""
        if self._station.bells:
            self._serve_bell_and_channel()
            return
        while self._is_open:
            self._channel.wait()
            self._read_channel()

    def _serve_bell_and_channel(self) -> None:
        self._doorbell = doorbell.Doorbell(self._station.bells)
        waiting = attention.attention(
            self._doorbell, self._channel.fileno(), self._control, self._index
        )
        while self._is_open:
            if not self._channel.has_messages:
                number, news = waiting.serve(self._attempt_round, self._done)
                if news is not None:
                    self._end_round(number, news)
                    continue
                self._done = number
            asked = self._control.asked_of(self._index)
            # First what is in the channel: it was asked before the round.
            self._read_channel()
            self._catch_up(asked)

    def _catch_up(self, asked: int) -> None:
        if asked > self._done and self._is_open:
            self._round(asked)

    def _round(self, number: int) -> None:
        self._progress.begin()
        self._end_round(number, self._attempt_round(self._control.command))

    def _attempt_round(self, command: int) -> Any:
        return self._attempt(self._the_servant().round, command)

    def _end_round(self, number: int, news: Any) -> None:
        if news is not None:
            self._send("news", number, news)
        self._done = number
        self._control.set_done(self._index, number if news is None else -number)
        self._doorbell.answer()

    def _read_channel(self) -> None:
        messages = self._channel.receive_all()
        while messages:
            for number, verb, payload in messages:
                self._progress.begin()
                if verb == "parts":
                    self._do_parts(number, payload)
                    continue
                self._send("answer", number, self._attempt(self._answer, verb, payload))
            messages = self._channel.receive_all() if self._channel.has_messages else []
        if self._channel.has_ended:
            self._is_open = False

    def _answer(self, verb: str, payload: bytes) -> Any:
        return getattr(self, f"_do_{verb}")(*pickle.loads(payload))

    def _attempt(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            result = function(*arguments)
        # SystemExit and KeyboardInterrupt too: what an environment raises ends
        # neither the worker nor the others that it serves.
        except BaseException as error:
            leave_if_copy(error)
            return remote_error.RemoteError.of(error)
        leave_if_copy()
        return result

    def _send(self, kind: str, number: int, value: Any) -> None:
        try:
            payload = pickling.dumps(value)
        except TypeError as error:
            payload = pickling.dumps(remote_error.RemoteError.of(error))
        try:
            self._channel.send((kind, number, payload))
        except (BrokenPipeError, ConnectionResetError):
            self._is_open = False  # The other side is gone, and with it the need.

    def _the_servant(self) -> Servant:
        assert self._servant is not None, "a round before the object was made"
        return self._servant

    def _do_make(self, pickled: bytes | None, order: Any) -> Any:
        # A fork copies the generators: without this all workers would draw alike.
        random.seed()
        np.random.seed()
        factory = self._inherited if pickled is None else pickle.loads(pickled)
        assert factory is not None, "neither a pickled factory nor an inherited one"
        servant: Servant = factory(self._progress, order)
        self._servant = servant
        return servant.introduction()

    def _do_attach(self, attachment: Attachment) -> None:
        arrays = attachment.arrays(self._memory)
        self._inputs = arrays[: attachment.num_inputs]
        self._outputs = arrays[attachment.num_inputs :]
        self._own_parts = attachment.parts
        if self._station.bells:
            self._parts = part_block.PartBlock(
                self._memory, attachment.num_parts, attachment.parts_offset
            )
        self._the_servant().attach(self._inputs, self._outputs)

    def _do_parts(self, last: int, payload: bytes) -> None:
        """Does what is asked for of parts up to request `last`; sends news only."""
        command = self._parts.command
        extras: Any = self._attempt(pickle.loads, payload) if payload else {}
        first, end = self._own_parts
        for part, number in self._parts.open_requests(first, end, last):
            self._progress.begin()
            news = self._attempt(self._part, part - first, command, extras, part)
            if news is not None:
                self._send("part", number, news)
            self._parts.set_done(part, number if news is None else -number)
            self._doorbell.ring_back()

    def _part(self, own: int, command: int, extras: Any, part: int) -> Any:
        if isinstance(extras, remote_error.RemoteError):
            return extras
        return self._the_servant().part(own, command, extras.get(part))

    def _do_part(
        self,
        part: int,
        command: int,
        inputs: Sequence[npt.NDArray[Any]] | None,
        extras: Any,
    ) -> tuple[Any, list[npt.NDArray[Any]] | None]:
        rows = self._the_servant().rows_of(part)
        for array, value in zip(self._inputs, inputs or (), strict=False):
            array[rows] = value
        news = self._the_servant().part(part, command, extras)
        return news, None if inputs is None else [a[rows] for a in self._outputs]

    def _do_round(
        self, command: int, inputs: Sequence[npt.NDArray[Any]] | None, extras: Any
    ) -> tuple[Any, list[npt.NDArray[Any]] | None]:
        for array, value in zip(self._inputs, inputs or (), strict=False):
            array[...] = value
        news = self._the_servant().round(command, extras)
        return news, None if inputs is None else self._outputs

    def _do_request(self, name: str, arguments: tuple[Any, ...]) -> Any:
        return self._the_servant().request(name, *arguments)

    def _do_ping(self) -> None:
        """Has the answer say that all that came before is done, rounds too."""
        self._catch_up(self._control.asked_of(self._index))

    def _do_close(self) -> None:
        self._is_open = False
        if self._servant is not None:
            self._servant.close()


def run(
    station: Station,
    index: int,
    connection: socket.socket,
    inherited: ServantFactory | None = None,
) -> None:
    """Serves as worker `index`, and ends the process."""
    # An empty handler and not SIG_IGN, which programs that environments start would
    # inherit. Ctrl-C is the parent's business: it tells its workers to close.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    os.register_at_fork(after_in_child=lambda: copies.append(os.getpid()))
    crash_notes.enable(station.notes, index)
    _forget_exit_handlers()
    status = 1
    try:
        Worker(station, index, connection, inherited).serve()
        status = 0
    except BaseException:
        traceback.print_exc()  # What is left to fail here has no answer to travel in.
    finally:
        try:
            _finish()
        finally:
            if status == 0 and not station.bells:
                # There is no nursery to end what it has started, and maybe no parent.
                os.killpg(0, signal.SIGKILL)
            os._exit(status)  # pyright: ignore[reportPrivateUsage]


def main(arguments: Sequence[str]) -> None:
    """Serves in an interpreter of its own; the arguments are those of `command`."""
    index, descriptor, num_workers, *shared_by_all = map(int, arguments[0].split(","))
    sys.argv[:] = arguments[1:]
    station = Station.of(num_workers, shared_by_all)
    for inherited in (descriptor, *station.descriptors):
        os.set_inheritable(inherited, False)
    if not station.bells:  # There is no nursery that would end it with its parent.
        threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    run(station, index, socket.socket(fileno=descriptor))


def _forget_exit_handlers() -> None:
    """Drops those that were registered before a fork: they are another process's."""
    atexit._clear()  # pyright: ignore[reportPrivateUsage]


def _finish() -> None:
    """Does what an interpreter does at its end, but for taking its modules apart.

    As `multiprocessing` does: threads that are no daemons are waited for, and handlers
    that environments and their libraries have registered are called.
    """
    threading._shutdown()  # pyright: ignore
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    _flush()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # It may be closed, or None.
            stream.flush()


def _end_with(parent: int) -> None:
    """Ends this process, and its group with it, soon after its parent has ended."""
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os.killpg(0, signal.SIGKILL)


def command(station: Station, index: int, descriptor: int) -> str:
    """Returns the first argument of `main`; those of the program follow."""
    numbers = (index, descriptor, station.num_workers, *station.descriptors)
    return ",".join(map(str, numbers))
