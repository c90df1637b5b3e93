from __future__ import annotations

import os
import subprocess

import pytest

from parallel_envs.process import standard_streams


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


def test_copies_have_no_number_of_a_standard_stream(pipe: tuple[int, int]) -> None:
    kept = os.dup(0)
    os.dup2(pipe[1], 0)
    try:
        with standard_streams.copied_above([0, pipe[1]]) as copies:
            for copy in copies:
                os.write(copy, b"x")
            inheritable = [os.get_inheritable(copy) for copy in copies]
    finally:
        os.dup2(kept, 0)
        os.close(kept)

    assert min(copies) > 2
    assert inheritable == [False, False]
    assert os.read(pipe[0], 9) == b"xx"
    for descriptor in copies:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    os.close(pipe[0])
    os.close(pipe[1])


def test_copies_are_closed_when_one_cannot_be_made(pipe: tuple[int, int]) -> None:
    nobodys = 1_000_000
    before = os.listdir("/dev/fd")

    with (
        pytest.raises(OSError, match="Bad file descriptor"),
        standard_streams.copied_above([*pipe, nobodys]),
    ):
        pass

    assert os.listdir("/dev/fd") == before
    os.close(pipe[0])
    os.close(pipe[1])


def test_a_program_gets_the_streams_of_this_process(pipe: tuple[int, int]) -> None:
    own, closed = pipe
    os.close(closed)

    assert standard_streams.for_program(1) is None
    assert standard_streams.for_program(own) is subprocess.DEVNULL
    assert standard_streams.for_program(closed) is subprocess.DEVNULL
    os.close(own)
