"""What environments leave behind, in pools: who ends it, and when not."""

from __future__ import annotations

import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from parallel_envs.process import orphans
from tests.process import servants
from tests.process.servants import Watch, call, pool_of

CONTEXTS = ["forkserver", "spawn", "fork"]


def start_daemon(*command: str) -> int:
    """Starts a program in a session of its own, whose parent is gone at once."""
    line = 'setsid "$@" > /dev/null & echo $!'
    told = subprocess.check_output(["sh", "-c", line, "", *(command or ["sleep", "9"])])
    return int(told)


def start_session() -> list[int]:
    return [subprocess.Popen(["sleep", "9"], start_new_session=True).pid]


def start_tree() -> list[int]:
    """Starts a program that starts one that starts one, each in its own session."""
    inner = "echo $$; setsid sleep 9 & echo $!; wait"
    line = f"echo $$; setsid sh -c '{inner}' & wait"
    tree = subprocess.Popen(
        ["sh", "-c", line], stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    assert tree.stdout is not None
    return [int(tree.stdout.readline()) for _ in range(3)]


def start_without_environment() -> list[int]:
    return [subprocess.Popen(["sleep", "9"], start_new_session=True, env={}).pid]


def fork_daemon() -> list[int]:
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            signal.pause()
        os.write(write_end, f"{pid}".encode())
        os._exit(0)
    os.wait()
    return [int(os.read(read_end, 100))]


WAYS: list[Callable[[], list[int]]] = [
    lambda: [start_daemon()],
    start_session,
    start_tree,
    start_without_environment,
    fork_daemon,
]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_worker_has_left_ends_with_it_and_nothing_of_its_sibling(
    way: Callable[[], list[int]], context: str
) -> None:
    with pool_of(2, context=context) as pool:
        own, other = [call(pool, worker, way) for worker in (0, 1)]
        with Watch(*own) as watch, Watch(*other) as others:
            os.kill(pool.pids[0], signal.SIGKILL)

            assert watch.living_after(1) == []
            assert others.living_after(0.05) == other
            pool.close()
            assert others.living_after(1) == []


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("victim", ["nursery", "guard"])
def test_daemons_end_when_what_would_end_them_is_killed(
    victim: str, context: str
) -> None:
    with pool_of(2, context=context) as pool:
        nursery = servants.nursery_of(pool)
        guard = parent_of(nursery)
        daemons = [call(pool, worker, start_daemon) for worker in (0, 1)]
        with Watch(nursery, guard, *pool.pids, *daemons) as watch:
            os.kill({"nursery": nursery, "guard": guard}[victim], signal.SIGKILL)

            assert watch.living_after(1) == []


def test_a_stopped_nursery_does_not_keep_daemons_alive() -> None:
    with pool_of(1) as pool:
        nursery = servants.nursery_of(pool)
        with Watch(nursery, call(pool, 0, start_daemon)) as watch:
            os.kill(nursery, signal.SIGSTOP)
            pool.close()

            assert watch.living_after(0) == []


def test_a_daemon_that_has_ended_is_no_longer_there() -> None:
    """Programs wait for the end of a daemon by asking whether its number is taken."""
    with pool_of(1) as pool:
        daemon = call(pool, 0, start_daemon, "true")
        deadline = time.monotonic() + 10
        while pathlib.Path(f"/proc/{daemon}").exists():
            assert time.monotonic() < deadline
            os.sched_yield()


def test_an_environment_learns_how_its_own_programs_ended() -> None:
    def run_many() -> list[int]:
        codes = [f"{code}" for code in range(50)]
        started = [subprocess.Popen(["sh", "-c", f"exit {code}"]) for code in codes]
        return [each.wait() for each in started]

    with pool_of(1) as pool:
        assert call(pool, 0, run_many) == list(range(50))


def test_shared_memory_of_a_killed_worker_is_unlinked() -> None:
    def make_memory() -> str:
        from multiprocessing import shared_memory

        made = shared_memory.SharedMemory(create=True, size=100)
        sys.modules["kept"] = made  # type: ignore[assignment]
        return made.name

    with pool_of(2) as pool:
        names = [call(pool, worker, make_memory) for worker in (0, 1)]
        os.kill(pool.pids[0], signal.SIGKILL)
        wait_until_unlinked(names[0])

        assert names[1] in os.listdir("/dev/shm")
        os.kill(parent_of(pool.pids[1]), signal.SIGKILL)
        wait_until_unlinked(names[1])


def wait_until_unlinked(name: str) -> None:
    deadline = time.monotonic() + 10
    while name in os.listdir("/dev/shm"):
        assert time.monotonic() < deadline
        os.sched_yield()


def test_without_marks_daemons_end_with_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some systems refuse the limit that is the mark."""
    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pool_of(2, context="fork") as pool:
        group = call(pool, 0, servants.start_sleeper)
        daemon = call(pool, 0, start_daemon)
        with Watch(group) as watch, Watch(daemon) as later:
            os.kill(pool.pids[0], signal.SIGKILL)

            assert watch.living_after(1) == []
            assert later.living_after(0.05) == [daemon]
            pool.close()
            assert later.living_after(1) == []


def refuse(*_: object) -> None:
    raise PermissionError


def test_a_mark_is_inherited_and_is_none_where_there_is_none() -> None:
    program = (
        "import os, subprocess\n"
        "from parallel_envs.process import orphans\n"
        "print(orphans.mark_of(os.getpid()))\n"
        "orphans.mark(2**40 + 5)\n"
        "child = subprocess.Popen(['sleep', '9'], start_new_session=True, env={})\n"
        "print(orphans.mark_of(child.pid))\n"
        "child.kill()\n"
        "print(orphans.mark_of(1 << 30))\n"
    )

    told = subprocess.check_output([sys.executable, "-c", program], text=True)

    assert told.split() == ["None", str(2**40 + 5), "None"]
    assert orphans.mark_of(os.getpid()) is None


def parent_of(pid: int) -> int:
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])
