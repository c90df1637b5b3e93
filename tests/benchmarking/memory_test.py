"""Memory that belongs to the processes below another one."""

from __future__ import annotations

import os
import subprocess
import sys

from parallel_envs.benchmarking import memory

PROGRAM = """
import os
if os.fork() == 0:
    block = bytearray(os.urandom(1)) * 50_000_000
    print(flush=True)
    input()
else:
    os.wait()
"""


def test_memory_of_a_process_below_a_process_counts() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        own_bytes = memory.own_bytes_of_descendants(os.getpid())
        below = memory.own_bytes_of_descendants(process.pid)

        process.communicate(b"\n")
    assert own_bytes is not None
    assert below is not None
    assert 50_000_000 <= below <= own_bytes < 150_000_000
