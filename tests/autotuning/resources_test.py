"""What processes take, and what there is, read from the system's files."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from parallel_envs.autotuning import resources

GIB = 2**30


def write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_memory_that_is_free_is_that_of_the_machine(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    4194304 kB\n")

    assert resources.available_memory(tmp_path) == 4 * GIB


def test_memory_of_a_container_counts_without_files_it_has_read(
    tmp_path: pathlib.Path,
) -> None:
    write(tmp_path / "proc/meminfo", "MemAvailable:    4194304 kB\n")
    write(tmp_path / "sys/fs/cgroup/memory.max", f"{2 * GIB}\n")
    write(tmp_path / "sys/fs/cgroup/memory.current", f"{3 * GIB // 2}\n")
    write(tmp_path / "sys/fs/cgroup/memory.stat", f"anon 7\ninactive_file {GIB // 2}\n")

    assert resources.available_memory(tmp_path) == GIB


def test_container_of_the_first_version_without_a_limit_limits_nothing(
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / "sys/fs/cgroup/memory"
    write(tmp_path / "proc/meminfo", "MemAvailable:    1024 kB\n")
    write(folder / "memory.limit_in_bytes", "9223372036854771712\n")
    write(folder / "memory.usage_in_bytes", f"{GIB}\n")

    assert resources.available_memory(tmp_path) == 2**20


def test_memory_is_unknown_where_no_file_tells(tmp_path: pathlib.Path) -> None:
    assert resources.available_memory(tmp_path) is None


def test_quota_of_a_container_bounds_the_cores(tmp_path: pathlib.Path) -> None:
    cores = len(os.sched_getaffinity(0))

    assert resources.usable_cores(tmp_path) == cores
    write(tmp_path / "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert resources.usable_cores(tmp_path) == cores
    write(tmp_path / "sys/fs/cgroup/cpu.max", "50000 100000\n")
    assert resources.usable_cores(tmp_path) == 1


def test_own_memory_counts_what_a_process_has_started() -> None:
    before = resources.own_memory([os.getpid()])
    child = "import sys; block = bytearray(b'x' * 50_000_000); print(1); input()"

    with subprocess.Popen(
        [sys.executable, "-c", child],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        during = resources.own_memory([os.getpid()])

        assert before is not None
        assert during is not None
        assert during - before > 50_000_000
        process.communicate(b"\n")


def test_own_memory_of_a_process_that_is_not_there_is_unknown() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()

    assert resources.own_memory([process.pid]) is None


def test_time_of_what_a_process_has_started_counts_before_and_after_its_end() -> None:
    before = resources.seconds_of_children()
    child = (
        "import time\nwhile time.process_time() < 0.3: pass\n"
        "print(1, flush=True); input()"
    )

    with subprocess.Popen(
        [sys.executable, "-c", child],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        during = resources.seconds_of_children()
        process.communicate(b"\n")

    assert during - before > 0.25
    assert resources.seconds_of_children() - before > 0.25


def test_queueing_never_gets_less_and_can_be_closed_twice() -> None:
    queueing = resources.Queueing()
    first = queueing.seconds()

    assert 0 <= first <= queueing.seconds()
    queueing.close()
    queueing.close()
    assert queueing.seconds() == 0
