"""In Jupyter: real kernels run real notebooks."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import nbclient
import nbformat
import pytest
from jupyter_client import manager

from tests import waiting
from tests.places import programs

untyped: Any = nbformat
nbformat_v4: Any = untyped.v4

ENVIRONMENT = """\
import numpy as np
import parallel_envs as pe
from parallel_envs import time_step as ts

class Walk(pe.PyEnvironment):
    def __init__(self, start=0):
        super().__init__()
        self.start = self.position = start

    def observation_spec(self):
        return pe.ArraySpec((), np.int64, "position")

    def action_spec(self):
        return pe.BoundedArraySpec((), np.int64, -1, 1, "direction")

    def _reset(self):
        self.position = self.start
        return ts.restart(np.int64(self.position))

    def _step(self, action):
        self.position += action
        if self.position < 0:
            raise ValueError(f"fell off at {self.position}")
        return ts.transition(np.int64(self.position), reward=1.0)
"""


@pytest.fixture(autouse=True)
def surroundings(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Kernels write here only, and end with all that they have started."""
    monkeypatch.chdir(tmp_path)  # Their sockets too, whose names are to be short.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("PYTHONPATH", str(programs.ROOT))
    with programs.nothing_left_of() as environ:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        try:
            yield
        finally:  # Threads of a kernel that a failed test has left forbid forks.
            while _kernels:
                _kernels.pop().end(now=True)


_kernels: list[Kernel] = []  # Those that run.


class Kernel:
    """A kernel, and what a person would do with it."""

    def __init__(self) -> None:
        self._manager: Any = manager.KernelManager(transport="ipc")
        self._manager.start_kernel()
        _kernels.append(self)
        self._connect()

    def _connect(self) -> None:
        self._client: Any = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=programs.SECONDS)

    def run(self, code: str) -> str:
        """Returns what a cell printed; it must not raise."""
        # Else a cell that comes soon after one that was interrupted is not run.
        request = self._client.execute(code, stop_on_error=False)
        reply = self._reply(request)
        assert reply["status"] == "ok", "\n".join(reply["traceback"])
        return self._printed(request)

    def interrupt(self, code: str, when: pathlib.Path) -> str:
        """Returns what a cell raised that was interrupted when it had made a file."""
        # Else a cell that comes soon after one that was interrupted is not run.
        request = self._client.execute(code, stop_on_error=False)
        with open(when) as pipe:  # Waits until the other end is opened.
            pipe.read()
        self._manager.interrupt_kernel()
        return self._reply(request)["ename"]

    def restart(self) -> None:
        self._client.stop_channels()
        self._manager.restart_kernel(now=True)
        self._connect()

    def end(self, *, now: bool) -> None:
        if self in _kernels:
            _kernels.remove(self)
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=now)

    def _reply(self, request: str) -> dict[str, Any]:
        deadline = time.monotonic() + programs.SECONDS
        while True:
            reply = self._client.get_shell_msg(timeout=deadline - time.monotonic())
            if reply["parent_header"]["msg_id"] == request:
                return reply["content"]

    def _printed(self, request: str) -> str:
        printed = ""
        while True:
            message = self._client.get_iopub_msg(timeout=programs.SECONDS)
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "stream":
                printed += message["content"]["text"]
            elif message["content"].get("execution_state") == "idle":
                return printed


def test_a_notebook_makes_steps_and_shows_an_error_of_an_environment() -> None:
    cells = [
        ENVIRONMENT,
        "env = pe.ParallelPyEnvironment([Walk, lambda: Walk(3)])\n"
        "env.reset().observation.tolist()",
        "env.step(np.array([1, 1])).observation.tolist()",
        "env.step([-1, -1])\nenv.step([-1, -1])",
        "print(env.reset().observation.tolist())\nenv.close()",
    ]
    notebook = nbformat_v4.new_notebook(
        cells=[nbformat_v4.new_code_cell(text) for text in cells]
    )

    run = nbclient.NotebookClient(notebook, timeout=60, allow_errors=True)
    run.execute()

    outputs = [cell.outputs for cell in notebook.cells]
    assert outputs[0] == []
    assert outputs[1][0].data["text/plain"] == "[0, 3]"
    assert outputs[2][0].data["text/plain"] == "[1, 4]"
    (error,) = outputs[3]
    assert error.ename == "WorkerError"
    assert "environment 0 raised ValueError('fell off at -1') during step" in (
        error.evalue
    )
    assert "in _step" in error.evalue  # From the worker's traceback.
    assert outputs[4][0].text == "[0, 3]\n"


def test_an_interrupt_ends_a_step_and_the_batch_goes_on(tmp_path: pathlib.Path) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    os.mkfifo(begun)
    os.mkfifo(go_on)
    kernel = Kernel()
    kernel.run(
        f"{ENVIRONMENT}\n"
        "class Waiting(Walk):\n"
        "    def _step(self, action):\n"
        f"        open({str(begun)!r}, 'w').close()\n"
        f"        open({str(go_on)!r}).read()\n"
        "        return super()._step(action)\n"
        "env = pe.ParallelPyEnvironment([Waiting, Walk])\n"
        "pids = env.worker_pids\n"
        "env.reset()"
    )

    raised = kernel.interrupt("env.step([1, 1])", when=begun)
    go_on.write_text("")

    assert raised == "KeyboardInterrupt"
    assert kernel.run("print(env.reset().observation, env.worker_pids == pids)") == (
        "[0 0] True\n"
    )
    kernel.end(now=False)


def test_nothing_is_left_when_a_kernel_is_restarted_or_ended() -> None:
    kernel = Kernel()
    begin = (
        f"{ENVIRONMENT}\n"
        "env = pe.ParallelPyEnvironment([Walk] * 2)\n"
        "env.reset()\n"
        "print(*env.worker_pids)"
    )
    ends = [kernel.restart, lambda: kernel.end(now=False)]

    for end in ends:
        pids = [int(word) for word in kernel.run(begin).split()]
        end()
        assert len(pids) == 2
        waiting.wait_for_end(pids)


def test_a_cell_that_is_run_again_ends_the_batch_it_made_before() -> None:
    kernel = Kernel()
    cell = "env = pe.ParallelPyEnvironment([Walk] * 2)\nprint(*env.worker_pids)"
    kernel.run(ENVIRONMENT)

    pids = [int(word) for word in kernel.run(cell).split()]
    others = [int(word) for word in kernel.run(cell).split()]

    waiting.wait_for_end(pids)
    assert kernel.run("print(env.reset().observation)") == "[0 0]\n"
    assert not set(pids) & set(others)
    kernel.end(now=False)


def test_nothing_is_left_when_a_kernel_is_killed_while_it_steps() -> None:
    kernel = Kernel()
    kernel.run(f"{ENVIRONMENT}\nenv = pe.ParallelPyEnvironment([Walk] * 2)")
    kernel.run("env.reset()")
    kernel.end(now=True)
