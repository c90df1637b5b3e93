"""Single faults that once broke a batch; the fault drill has found them."""

from __future__ import annotations

import functools
import os
import pathlib
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.process.watch import is_readable
from parallel_envs.specs import nest
from parallel_envs.testing import environments

FIRST, MID, LAST = 0, 1, 2


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    raise KeyboardInterrupt


def once(folder: pathlib.Path, action: Callable[[], Any]) -> None:
    """Does something the first time that it is called with this folder."""
    if not (folder / "done").exists():
        (folder / "done").touch()
        action()


def raise_error() -> None:
    raise ValueError("an error like any other")


def parent_of(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


class FailingInStep(environments.Counting):
    def __init__(self, folder: pathlib.Path, fault: Callable[[], Any]) -> None:
        super().__init__(1, length=9)
        self._do = functools.partial(once, folder, fault)

    def _step(self, action: nest.Nest) -> ts.TimeStep:
        self._do()
        return super()._step(action)

    def start_program(self) -> int:
        return subprocess.Popen(["sleep", "1000"]).pid


class LivingOnce(FailingInStep):
    """Raises in its first step, and then whenever it is to be made again."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder, raise_error)
        if (folder / "done").exists():
            raise ValueError("there is no second life")


class FailingInConstructor(environments.Counting):
    def __init__(
        self, index: int, folder: pathlib.Path, fault: Callable[[], Any]
    ) -> None:
        super().__init__(index, length=9)
        once(folder, fault)


class DyingWhenAttached(environments.Counting):
    """Ends its process when it is asked for its specs after it was introduced."""

    num_questions = 0

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(1, length=9)
        self._folder = folder
        self._life = len(list(folder.iterdir()))
        (folder / f"life {self._life}").touch()

    def action_spec(self) -> nest.Nest:
        self.num_questions += 1
        if self._life == 1 and self.num_questions > 3:
            die()
        return super().action_spec()

    def _step(self, action: nest.Nest) -> ts.TimeStep:
        if self._life == 0:
            die()
        return super()._step(action)


class VariableDying(environments.VariableSize):
    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(0)
        self._do = functools.partial(once, folder, die)

    def _step(self, action: nest.Nest) -> ts.TimeStep:
        self._do()
        return super()._step(action)


def fork_and_return() -> None:
    os.fork()


def note_process(path: pathlib.Path) -> environments.Counting:
    with path.open("a") as file:
        file.write(f"{os.getpid()}\n")
    return environments.Counting(1)


def test_an_interrupt_in_a_step_concerns_its_own_row(tmp_path: pathlib.Path) -> None:
    constructors = [
        functools.partial(environments.Counting, 0, 9),
        functools.partial(FailingInStep, tmp_path, interrupt),
        functools.partial(environments.Counting, 2, 9),
    ]

    with pe.ParallelPyEnvironment(constructors, num_workers=1, max_restarts=1) as env:
        env.reset()
        time_step = env.step(np.zeros(3, np.int64))

    assert time_step.step_type.tolist() == [MID, LAST, MID]
    assert [(failure.index, failure.indices) for failure in env.failures] == [(1, (1,))]


def test_an_interrupt_in_a_constructor_names_its_own_row(
    tmp_path: pathlib.Path,
) -> None:
    constructors = [
        functools.partial(environments.Counting, 0),
        functools.partial(FailingInConstructor, 1, tmp_path, interrupt),
    ]

    with pytest.raises(pe.WorkerError, match="environment 1 raised KeyboardInterrupt"):
        pe.ParallelPyEnvironment(constructors, num_workers=1)


def test_a_serial_start_goes_on_after_a_constructor_that_failed(
    tmp_path: pathlib.Path,
) -> None:
    constructors = [
        functools.partial(FailingInConstructor, index, tmp_path, interrupt)
        for index in range(3)
    ]

    with pe.ParallelPyEnvironment(constructors, max_restarts=1) as env:
        observation = env.reset().observation

    assert observation[:, 0].tolist() == [0, 1, 2]
    assert [failure.index for failure in env.failures] == [0]


@pytest.mark.parametrize("shared_memory", [True, False])
def test_values_of_varying_size_survive_the_loss_of_the_only_worker(
    shared_memory: bool, tmp_path: pathlib.Path
) -> None:
    constructors = [functools.partial(VariableDying, tmp_path)]
    options: dict[str, Any] = {"shared_memory": shared_memory, "max_restarts": 1}

    with pe.ParallelPyEnvironment(constructors, **options) as env:
        first = env.reset()
        last = env.step(np.zeros(1, np.int64))
        again = env.step(np.zeros(1, np.int64))

    assert last.step_type.tolist() == [LAST]
    np.testing.assert_array_equal(last.observation[0], first.observation[0])
    assert again.step_type.tolist() == [FIRST]


@pytest.mark.timeout(20)
def test_a_replacement_that_dies_before_it_has_rows_is_replaced(
    tmp_path: pathlib.Path,
) -> None:
    constructors = [functools.partial(DyingWhenAttached, tmp_path)]

    with pe.ParallelPyEnvironment(constructors, max_restarts=9) as env:
        env.reset()
        steps = [env.step(np.zeros(1, np.int64)) for _ in range(3)]

    assert [step.step_type.tolist() for step in steps] == [[LAST], [FIRST], [MID]]
    assert [failure.kind for failure in env.failures] == ["died", "died"]


def test_a_fork_that_returns_from_a_constructor_makes_no_others(
    tmp_path: pathlib.Path,
) -> None:
    pids = tmp_path / "pids"
    constructors: list[Callable[[], Any]] = [
        functools.partial(FailingInConstructor, 0, tmp_path, fork_and_return),
        functools.partial(note_process, pids),
    ]

    with pe.ParallelPyEnvironment(constructors, num_workers=1) as env:
        expected = env.worker_pids[1]

    assert pids.read_text().split() == [str(expected)]


@pytest.mark.parametrize("name", ["get_state", "reset"])
def test_what_cannot_be_replaced_is_not_stepped(
    name: str, tmp_path: pathlib.Path
) -> None:
    constructors = [functools.partial(LivingOnce, tmp_path)]

    with pe.ParallelPyEnvironment(constructors, num_workers=0, max_restarts=1) as env:
        env.reset()
        last = env.step(np.zeros(1, np.int64))
        with pytest.raises(pe.WorkerError, match="second life"):
            getattr(env, name)()
        with pytest.raises(RuntimeError, match=r"Call reset\(\) first"):
            env.step(np.zeros(1, np.int64))

    assert last.step_type.tolist() == [LAST]


def test_what_starts_workers_may_die_when_it_is_asked_to(
    tmp_path: pathlib.Path,
) -> None:
    constructors = [functools.partial(FailingInStep, tmp_path, die)]

    with pe.ParallelPyEnvironment(constructors, max_restarts=1) as env:
        env.reset()
        nursery = parent_of(env.worker_pids[0])
        os.kill(nursery, signal.SIGSTOP)
        # After the second in which the step waits to be told how the worker ended.
        timer = threading.Timer(1.5, os.kill, [nursery, signal.SIGKILL])
        timer.start()
        steps = [env.step(np.zeros(1, np.int64)) for _ in range(2)]
        timer.join()

    assert [step.step_type.tolist() for step in steps] == [[LAST], [FIRST]]


def test_programs_of_environments_end_when_nobody_has_buried_their_worker(
    tmp_path: pathlib.Path,
) -> None:
    constructors = [functools.partial(FailingInStep, tmp_path, die)]

    with pe.ParallelPyEnvironment(constructors) as env:
        env.reset()
        program = os.pidfd_open(env.call("start_program")[0])
        nursery = parent_of(env.worker_pids[0])
        os.kill(nursery, signal.SIGSTOP)
        with pytest.raises(pe.WorkerDiedError):
            env.step(np.zeros(1, np.int64))
        os.kill(nursery, signal.SIGKILL)
        env.reset()

        assert is_readable(program, 5.0)

    os.close(program)


def test_a_closed_batch_holds_no_descriptor() -> None:
    before = os.listdir("/proc/self/fd")
    env = pe.ParallelPyEnvironment([environments.Counting] * 2)
    env.reset()

    env.close()

    assert os.listdir("/proc/self/fd") == before
    del env
