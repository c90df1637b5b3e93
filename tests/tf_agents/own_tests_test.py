"""TF-Agents' own tests pass with our classes, or contradict a sentence of the guide."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Generator, Mapping

import pytest

ROOT = pathlib.Path(__file__).parents[2]
RUNS = {
    "parallel": ("environments.parallel_py_environment_test",),
    "batched": ("environments.batched_py_environment_test",),
    "driver": ("drivers.py_driver_test",),
    "in TensorFlow": ("environments.tf_py_environment_test",),
    "in TensorFlow, mended": ("environments.tf_py_environment_test", "--mended"),
}

FITS = "What an environment returns has the shape that its spec says, or is refused."
PICTURES = "A batch renders `rgb_array` only; another mode is a `NotImplementedError`."
GOES_ON = (
    "The policy's state that `run` returns goes with the time step that it returns: "
    "where that is FIRST, the state is the initial one."
)
_MISFIT = r"does not fit its spec: expected .* of shape \(\), got .* of shape \(1,\)"
# For each run the tests that fail, how, and the sentence that they contradict.
CONTRADICTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "parallel": {},
    "batched": {},
    # It counts how often the policy is asked for its initial state.
    "driver": {"testPolicyStateReset": ("AssertionError: 2 != 3", GOES_ON)},
    # Their environments return lists of one for specs of shape ().
    "in TensorFlow": dict.fromkeys(
        (
            "testBatchedFirstTimeStepAndOneStep",
            "testFirstObservationIsPreservedAfterTwoSteps",
            "testFirstTimeStep",
            "testIsolation1",
            "testMultipleReset",
            "testOneStep",
            "testRender",
            "testResetOp",
            "testTwoStepsDependenceOnTheFirst",
        ),
        (_MISFIT, FITS),
    ),
    "in TensorFlow, mended": {
        "testRender": ("NotImplementedError: .*Only rgb_array", PICTURES)
    },
}


@pytest.fixture(scope="module")
def processes(
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[Mapping[str, tuple[subprocess.Popen[bytes], pathlib.Path]], None, None]:
    """Starts all runs at once: they mostly import, and wait."""
    folder = tmp_path_factory.mktemp("own_tests")
    started = {name: start(folder / name, *run) for name, run in RUNS.items()}
    yield started
    for process, _ in started.values():
        process.kill()
        process.wait()


@pytest.mark.parametrize("run", RUNS)
def test_their_own_tests_pass_with_our_classes(
    run: str, processes: Mapping[str, tuple[subprocess.Popen[bytes], pathlib.Path]]
) -> None:
    process, output = processes[run]

    assert process.wait() == 0, output.with_suffix(".err").read_text("utf-8")

    outcomes = json.loads(output.read_text("utf-8"))
    failed = {name: error for name, error in outcomes.items() if error != "passed"}
    assert len(outcomes) - len(failed) >= 10
    assert unexplained(failed, CONTRADICTIONS[run]) == {}


def test_each_sentence_that_they_contradict_is_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "tf_agents.md").read_text("utf-8")
    told = " ".join(guide.split())

    for sentence in (FITS, PICTURES, GOES_ON):
        assert sentence in told


def start(
    output: pathlib.Path, *arguments: str
) -> tuple[subprocess.Popen[bytes], pathlib.Path]:
    program = pathlib.Path(__file__).with_name("own_tests.py")
    # A thread of OpenBLAS, even if it does nothing, forbids a fork.
    surroundings = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with output.open("wb") as out, output.with_suffix(".err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, program, *arguments],
            stdout=out,
            stderr=err,
            env=surroundings,
        )
    return process, output


def unexplained(
    failed: Mapping[str, str], contradictions: Mapping[str, tuple[str, str]]
) -> dict[str, str]:
    """Returns failures of which no sentence is known, and sentences without one."""
    left = dict(failed)
    for test, (error, sentence) in contradictions.items():
        found = [
            name
            for name in left
            if name.split(".")[1].startswith(test) and re.search(error, left[name])
        ]
        for name in found:
            del left[name]
        if not found:
            left[test] = f"did not fail: {sentence}"
    return left
