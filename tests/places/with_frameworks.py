"""In a program that has TensorFlow or PyTorch loaded, and their threads running.

Both are heavy, so this is run by itself: `pytest tests/places/with_frameworks.py`, with
`tensorflow-cpu` and `torch` installed.
"""

from __future__ import annotations

import pytest

from tests.places import programs

USES = {
    "tensorflow": """
import tensorflow as framework

@framework.function
def compute():
    return framework.reduce_sum(framework.ones((300, 300)) @ framework.ones((300, 300)))

# The iterator stays, and with it the threads that fill it.
numbers = framework.data.Dataset.range(10**9).map(lambda x: x + 1, num_parallel_calls=2)
stream = iter(numbers.prefetch(10))

def work():
    assert float(compute()) == 300.0**3
    return next(stream)

def zeros(count):
    return framework.zeros(count, framework.int64)
""",
    "torch": """
import torch as framework

framework.set_num_threads(2)
weights = framework.ones(300, 300, requires_grad=True)

def work():
    loss = (weights @ framework.ones(300, 300)).sum()
    loss.backward()  # In threads of its own.
    assert float(loss.detach()) == 300.0**3

def zeros(count):
    return framework.zeros(count, dtype=framework.int64)
""",
}

PROGRAM = (
    programs.PREAMBLE
    + """
import os, pathlib

NAME = sys.argv[1]

def parent(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])

def has_loaded(pid):
    return f"/{NAME}/" in pathlib.Path(f"/proc/{pid}/maps").read_text()

def num_threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))

work()
assert has_loaded("self") and num_threads("self") > 2
"""
)


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_workers_have_not_loaded_what_the_program_has(name: str, context: str) -> None:
    text = f"""{USES[name]}{PROGRAM}
class Looking(Env):
    def modules(self):
        return NAME in sys.modules

constructors = [Looking, lambda: Looking(1)]
with pe.ParallelPyEnvironment(constructors, context={context!r}) as env:
    env.reset()
    for _ in range(100):
        work()
        env.step(zeros(2))
    for pid in {{*env.worker_pids, *map(parent, env.worker_pids)}}:
        assert not has_loaded(pid), pid
        assert num_threads(pid) == 1
    assert env.call("modules") == [False, False]
work()
print("done")
"""

    assert run(text, name) == "done\n"


@pytest.mark.parametrize("name", USES)
def test_a_fork_is_refused_beside_their_threads(name: str) -> None:
    text = f"""{USES[name]}{PROGRAM}
try:
    use([Env], context="fork")
except RuntimeError as error:
    print(error)
use([Env])
"""

    assert "expected no other threads" in run(text, name)


@pytest.mark.parametrize("name", USES)
def test_an_environment_may_use_them_too(name: str) -> None:
    text = f"""{USES[name]}{PROGRAM}
class Computing(Env):
    def __init__(self):
        super().__init__()
        import importlib
        self.framework = importlib.import_module(NAME)

    def _step(self, action):
        assert float(self.framework.ones(3)[2]) == 1.0
        return super()._step(action)

use([Computing])
work()
print("done")
"""

    assert run(text, name) == "done\n"


def run(text: str, name: str) -> str:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    return programs.run(["-c", text, name], environ=quiet)
