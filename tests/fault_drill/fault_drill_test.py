"""Whatever environments do, a batch keeps its promises, and leaves nothing behind.

    pytest tests/fault_drill                        # a few short drills
    pytest tests/fault_drill --drill-steps=10000    # and a table of what they have met

The number in a test's name is the seed: it makes the same drill again.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fault_drill import faults
from tests.fault_drill.drill import run_drill
from tests.fault_drill.tally import Tally

STEPS_OF_A_DRILL = 250
LONG = 10_000  # Steps of batches, in which everything has to be met:
LEAST_FAULTS = 500
LEAST_FAULTS_OF_A_KIND = 5


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    num_steps: Any = metafunc.config.getoption("--drill-steps")
    metafunc.parametrize("seed", range(-(-num_steps // STEPS_OF_A_DRILL)))


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Counts what the drills have met; long ones have to meet everything."""
    tally = Tally()
    yield tally
    if tally.num_steps < LONG:
        return
    capture: Any = request.config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{tally}")  # noqa: T201
    kinds = [kind for kind in faults.Fault if faults.EFFECTS[kind] != "none"]
    assert sum(tally.faults[kind] for kind in kinds) >= LEAST_FAULTS
    assert min(tally.faults[kind] for kind in faults.Fault) >= LEAST_FAULTS_OF_A_KIND


def test_a_batch_keeps_its_promises_whatever_its_environments_do(
    seed: int,
    tally: Tally,
    tmp_path: pathlib.Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = sum(tally.faults.values())

    try:
        run_drill(seed, STEPS_OF_A_DRILL, tmp_path, tally)
    finally:
        capfd.readouterr()  # Of environments that print a lot.

    assert sum(tally.faults.values()) > before
    # A machine that is slow now and then is no reason not to believe the rest.
    assert tally.num_unexplained <= 3 + tally.num_steps // 200
