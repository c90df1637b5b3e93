"""The nursery alone, without a pool."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from parallel_envs.process import control_block, doorbell, nursery, shared_arrays
from parallel_envs.process.channel import Channel
from parallel_envs.process.nursery_handle import NurseryHandle
from parallel_envs.process.surroundings import Surroundings
from parallel_envs.process.worker import ServantFactory, Station
from tests.process import servants
from tests.process.servants import Adder, Watch

CONTEXTS = ["forkserver", "spawn", "fork"]
MAX_WORKERS = 3
BIRTH = 100


@pytest.fixture
def station() -> Iterator[Station]:
    memory = shared_arrays.MemoryFile.create()
    memory.reserve(control_block.ControlBlock.size(MAX_WORKERS))
    notes = shared_arrays.MemoryFile.create()
    bells = doorbell.Doorbell.create()
    yield Station(MAX_WORKERS, memory.descriptor, notes.descriptor, bells.descriptors)
    bells.close()
    notes.close()
    memory.close()


def adder_for(index: int) -> ServantFactory:
    return functools.partial(Adder, name=index)


@contextlib.contextmanager
def nursery_in(station: Station, context: str) -> Generator[NurseryHandle]:
    inherited = adder_for if context == "fork" else None
    handle = NurseryHandle(station, context=context, inherited=inherited)
    try:
        yield handle
    finally:
        handle.end()


def next_message(handle: NurseryHandle) -> tuple[tuple[Any, ...], int | None]:
    assert servants.is_readable(handle.fileno(), 20)
    (message,) = handle.read()
    return message


def bear(handle: NurseryHandle, index: int) -> tuple[int, int, Channel]:
    """Returns process id, pidfd and channel of a new worker."""
    mine, other = Channel.pair()
    with other:
        handle.fork(BIRTH + index, index, other)
    mine.send(Surroundings.capture())
    (kind, told, pid), pidfd = next_message(handle)
    assert (kind, told) == ("born", BIRTH + index)
    assert pidfd is not None
    return pid, pidfd, mine


@pytest.mark.parametrize("context", CONTEXTS)
def test_births_and_deaths_are_told(context: str, station: Station) -> None:
    with nursery_in(station, context) as handle:
        ready = next_message(handle)
        pid, pidfd, channel = bear(handle, 2)
        os.kill(pid, signal.SIGTERM)
        dead = next_message(handle)

        assert ready == (("ready",), None)
        assert dead == (("dead", BIRTH + 2, -signal.SIGTERM), None)
        assert servants.is_readable(pidfd)
        os.close(pidfd)
        channel.close()


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_worker_leads_a_group_in_a_session_without_a_terminal(
    context: str, station: Station
) -> None:
    with nursery_in(station, context) as handle:
        next_message(handle)
        pid, pidfd, channel = bear(handle, 0)

        assert os.getpgid(pid) == pid
        assert os.getsid(pid) == handle.pid
        os.close(pidfd)
        channel.close()


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_worker_whose_channel_ends_leaves_by_itself(
    context: str, station: Station
) -> None:
    with nursery_in(station, context) as handle:
        next_message(handle)
        _, pidfd, channel = bear(handle, 1)
        channel.close()
        dead = next_message(handle)

        assert dead == (("dead", BIRTH + 1, 0), None)
        os.close(pidfd)


@pytest.mark.parametrize("context", CONTEXTS)
def test_ending_ends_all_workers(context: str, station: Station) -> None:
    with contextlib.ExitStack() as stack:
        with nursery_in(station, context) as handle:
            next_message(handle)
            born = [bear(handle, index) for index in range(MAX_WORKERS)]
            pids = [handle.pid, *(pid for pid, _, _ in born)]
            watch = stack.enter_context(Watch(*pids))

        assert watch.living_after(0.0) == []
    for _, pidfd, channel in born:
        os.close(pidfd)
        channel.close()


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_worker_inherits_nothing_of_its_siblings(
    context: str, station: Station
) -> None:
    with nursery_in(station, context) as handle:
        next_message(handle)
        born = [bear(handle, index) for index in range(MAX_WORKERS)]
        for pid, pidfd, channel in born:
            channel.send((0, "ping", servants.pickling.dumps(())))
            channel.receive()  # It is in its loop.
            opened = os.listdir(f"/proc/{pid}/fd")
            targets = [os.readlink(f"/proc/{pid}/fd/{name}") for name in opened]

            assert not any("pidfd" in target for target in targets)
            if context != "fork":  # Else what the caller had is there as well.
                assert sum("socket:" in target for target in targets) == 1
            os.close(pidfd)
            channel.close()


@pytest.mark.parametrize("context", CONTEXTS)
def test_handles_leave_no_descriptors(context: str, station: Station) -> None:
    before = servants.descriptors()

    with nursery_in(station, context) as handle:
        next_message(handle)

    assert servants.descriptors() == before


def test_a_nursery_that_cannot_be_executed_leaves_nothing(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = servants.descriptors()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(FileNotFoundError):
        NurseryHandle(station, context="forkserver")

    assert servants.descriptors() == before


def test_messages_carry_descriptors() -> None:
    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read_end, write_end = os.pipe()
    with mine, other:
        nursery.send(mine, b"with", write_end)
        nursery.send(mine, b"without")
        data, (copy,) = nursery.receive(other)
        os.write(copy, b"through the copy")

        assert data == b"with"
        assert nursery.receive(other) == (b"without", [])
        assert os.read(read_end, 100) == b"through the copy"
        assert not os.get_inheritable(copy)
    for descriptor in (read_end, write_end, copy):
        os.close(descriptor)


def test_a_process_dies_with_the_parent_that_it_named() -> None:
    program = (
        "import os, sys\n"
        "from parallel_envs.process import nursery\n"
        "nursery.die_with_parent({parent})\n"
        "print('lives')"
    )

    def status_and_output(parent: int) -> tuple[int, bytes]:
        done = subprocess.run(
            [sys.executable, "-c", program.format(parent=parent)],
            stdout=subprocess.PIPE,
        )
        return done.returncode, done.stdout

    assert status_and_output(os.getpid()) == (0, b"lives\n")
    assert status_and_output(1) == (1, b"")


def test_all_threads_are_counted() -> None:
    before = nursery.num_threads()
    read_end, write_end = os.pipe()
    thread = servants.in_thread(lambda: os.read(read_end, 1))
    during = nursery.num_threads()
    os.write(write_end, b"x")
    thread.join()
    os.close(read_end)
    os.close(write_end)

    assert during == before + 1
