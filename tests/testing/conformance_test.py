from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parallel_envs import time_step as ts
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import array_spec
from parallel_envs.testing import RandomPyEnvironment, conformance, environments


class TestCounting(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return environments.Counting()


class TestDrawing(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return environments.Drawing()


class TestNested(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return environments.Nested()


class TestImage(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return environments.Image()


class TestVariableSize(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return environments.VariableSize()


class TestEndless(conformance.EnvironmentConformance):
    ends_episodes = False
    max_steps = 50

    def make_environment(self) -> PyEnvironment:
        return environments.Endless()


class TestRandom(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return RandomPyEnvironment(
            array_spec.ArraySpec((2,), np.float32), max_duration=5
        )


class TestRandomBatch(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return RandomPyEnvironment(
            array_spec.ArraySpec((2,), np.float32),
            array_spec.BoundedArraySpec((), np.int64, 0, 5),
            batch_size=3,
            render_size=(3, 4, 4, 3),
        )


class ChangingSpecs(environments.Counting):
    """Its action spec follows the time."""

    def action_spec(self) -> Any:
        return array_spec.BoundedArraySpec((), np.int64, 0, 9 + self.t)


class AlreadyReset(environments.Counting):
    """Resets itself when it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.reset()


class IgnoringItsSeed(environments.Drawing):
    """Takes a seed and goes on as before."""

    num_made = 0

    def __init__(self) -> None:
        super().__init__(index=IgnoringItsSeed.num_made)
        IgnoringItsSeed.num_made += 1

    def seed(self, seed: int) -> int:
        return seed


class RenderingFloats(environments.Image):
    """Renders float64."""

    def render(self, mode: str = "rgb_array") -> Any:
        return super().render(mode) / 255


class WritingIntoItsAction(environments.Counting):
    """Clips the action it was given where it lies."""

    def action_spec(self) -> Any:
        return array_spec.BoundedArraySpec((2,), np.float32, -1, 1)

    def _step(self, action: Any) -> ts.TimeStep:
        action.clip(0, 0.1, out=action)
        return super()._step(action)


class ClosingOnce(environments.Counting):
    """Fails when it is closed again."""

    num_closed = 0

    def close(self) -> None:
        self.num_closed += 1
        if self.num_closed > 1:
            raise RuntimeError("closed already")


class WithoutSpecs(environments.Counting):
    """Its action spec is a number."""

    def action_spec(self) -> Any:
        return 3


class StuckAtReset(environments.Counting):
    """Its second reset says MID."""

    def _reset(self) -> ts.TimeStep:
        time_step = super()._reset()
        if self.episode == 0:
            return time_step
        return ts.transition(time_step.observation, 0.0)


BROKEN: list[tuple[Callable[[], PyEnvironment], str, str]] = [
    (WithoutSpecs, "specs_are_specs_and_agree", "action_spec: expected an ArraySpec"),
    (ChangingSpecs, "specs_stay_the_same", r"action_spec\(\) changed"),
    (AlreadyReset, "there_is_no_current_time_step_before", "expected a ValueError"),
    (environments.StartingInTheMiddle, "first_reset_resets", "got MID"),
    (environments.WrongShape, "time_steps_fit", r"observation\['cam'\]\['rgb'\]"),
    (environments.WrongDtype, "time_steps_fit", r"observation\['cam'\]\['rgb'\]"),
    (environments.WrongStructure, "time_steps_fit", r"missing: \['goal'\]"),
    (environments.OutOfBounds, "time_steps_fit", "observation does not fit"),
    (environments.WrongReward, "time_steps_fit", "reward does not fit"),
    (environments.WrongDiscount, "time_steps_fit", "discount does not fit"),
    (environments.RestartingByItself, "time_steps_fit", "expected MID or LAST"),
    (environments.GoingOnAfterTheEnd, "an_episode_follows_the_end", "expected FIRST"),
    (environments.Endless, "an_episode_follows_the_end", "within 1000 steps. Raise"),
    (StuckAtReset, "reset_within_an_episode", r"the second reset\(\).* got MID"),
    (environments.WritingIntoOldSteps, "steps_stay", r"Time step 0 .*observation was"),
    (WritingIntoItsAction, "actions_stay", r"wrote into its action"),
    (IgnoringItsSeed, "the_same_seed", r"Time step 0 differs .* observation was"),
    (RenderingFloats, "render", r"render\(\"rgb_array\"\) .* uint8 .* got float64"),
]


def run(make: Callable[[], PyEnvironment], name: str) -> None:
    """Runs the one inherited test whose name contains `name`."""
    suite = conformance.EnvironmentConformance()
    suite.make_environment = make
    names = [test for test in dir(suite) if name in test and test.startswith("test_")]
    assert len(names) == 1
    getattr(suite, names[0])()


@pytest.mark.parametrize(("make", "name", "text"), BROKEN)
def test_environment_that_breaks_the_contract_fails_the_test_that_is_about_it(
    make: Callable[[], PyEnvironment], name: str, text: str
) -> None:
    with pytest.raises(AssertionError, match=text):
        run(make, name)


def test_environment_that_cannot_be_closed_twice_fails_with_its_own_error() -> None:
    with pytest.raises(RuntimeError, match="closed already"):
        run(ClosingOnce, "close_may_be_called_twice")


def test_what_the_environment_raises_is_no_failed_check() -> None:
    with pytest.raises(ValueError, match="bad state 0"):
        run(environments.RaisingInStep, "time_steps_fit")


def test_every_inherited_test_has_an_environment_that_fails_it() -> None:
    tests = {name for name in dir(TestCounting) if name.startswith("test_")}
    named = {name for _, name, _ in BROKEN} | {"close_may_be_called_twice"}

    assert {test for test in tests if not any(name in test for name in named)} == set()


def test_environment_has_to_be_made() -> None:
    with pytest.raises(NotImplementedError, match="Override make_environment"):
        conformance.EnvironmentConformance().make_environment()


def test_unittest_runs_the_tests_too() -> None:
    class CountingTest(conformance.EnvironmentConformance, unittest.TestCase):
        def make_environment(self) -> PyEnvironment:
            return environments.WrongShape()

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(CountingTest)
    result = suite.run(unittest.TestResult())

    assert result.testsRun == 12
    assert result.failures
    assert not result.errors
