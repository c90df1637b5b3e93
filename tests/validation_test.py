from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from parallel_envs import time_step as ts
from parallel_envs import validation
from parallel_envs.specs import array_spec
from parallel_envs.testing import RandomPyEnvironment, environments


@pytest.mark.parametrize(
    "make",
    [
        environments.Counting,
        environments.Drawing,
        environments.Nested,
        environments.Image,
        environments.VariableSize,
        lambda: environments.Counting(length=1, end="truncation"),
    ],
)
def test_right_environment_passes(make: Any) -> None:
    assert validation.validate_py_environment(make()) is None


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_random_environment_passes_single_and_in_batches(
    batch_size: int | None,
) -> None:
    env = RandomPyEnvironment(
        {"a": array_spec.ArraySpec((2,), np.float32)},
        array_spec.BoundedArraySpec((), np.int32, 0, 3),
        batch_size=batch_size,
        episode_end_probability=0.4,
        seed=0,
    )

    validation.validate_py_environment(env, episodes=20)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            environments.WrongShape,
            r"reset\(\) of WrongShape: observation\['cam'\]\['rgb'\] does not fit its "
            r"spec: expected uint8 of shape \(5, 5, 3\), got uint8 of shape "
            r"\(1, 5, 5, 3\)\.$",
        ),
        (environments.WrongDtype, r"\['rgb'\] .* expected uint8 .* got float64 of"),
        (environments.WrongStructure, r"observation: .* missing: \['goal'\]"),
        (environments.OutOfBounds, r"observation .* at least 0, got -1 at index \(2,"),
        (environments.WrongReward, r"step\(\) number 1 .*: reward .* got float64"),
        (environments.WrongDiscount, "discount .* at most 1.0, got 2.0"),
        (environments.StartingInTheMiddle, "expected FIRST, as after each reset, got"),
        (
            environments.RestartingByItself,
            r"number 3 .* expected MID or LAST, .* FIRST",
        ),
        (
            environments.GoingOnAfterTheEnd,
            r"number 4 .* FIRST, as after each LAST, got",
        ),
    ],
)
def test_what_is_wrong_is_said_with_call_path_expected_and_found(
    make: Any, text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        validation.validate_py_environment(make(), episodes=2)


def test_only_the_leaf_that_is_wrong_is_mentioned() -> None:
    with pytest.raises(ValueError, match="rgb") as error:
        validation.validate_py_environment(environments.WrongShape())

    assert "goal" not in str(error.value)
    assert "joints" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (environments.RaisingInReset, ValueError),
        (environments.RaisingInStep, ValueError),
    ],
)
def test_what_the_environment_raises_comes_through(make: Any, kind: Any) -> None:
    with pytest.raises(kind, match=r"^bad (episode|state) 0$"):
        validation.validate_py_environment(make())


def test_as_many_episodes_are_seen_to_their_end_as_asked_for() -> None:
    env = environments.Counting()

    validation.validate_py_environment(env, episodes=4)

    assert env.episode == 4  # Counted from 0: the fourth LAST was followed by a FIRST.
    assert env.t == 0


def test_environment_without_ends_is_left_after_a_while_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    env = environments.Endless()

    with caplog.at_level(logging.WARNING):
        validation.validate_py_environment(env, episodes=1)

    assert env.t == 1000
    assert "Endless ended 0 of 1 episodes within 1000 steps" in caplog.text


@pytest.mark.parametrize("wrong", [None, environments.Counting], ids=repr)
def test_what_is_no_environment_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="env: expected a PyEnvironment, got"):
        validation.validate_py_environment(wrong)


def test_at_least_one_episode_has_to_be_seen() -> None:
    with pytest.raises(ValueError, match="episodes: expected at least 1, got 0"):
        validation.validate_py_environment(environments.Counting(), episodes=0)


def test_masked_actions_are_kept_to() -> None:
    class Masked(environments.Counting):
        def observation_spec(self) -> Any:
            return {"mask": array_spec.BoundedArraySpec((10,), np.bool_)}

        def _observation(self) -> Any:
            return {"mask": np.arange(10) == self.t}

        def _step(self, action: Any) -> ts.TimeStep:
            assert action == self.t
            return super()._step(action)

    def split(observation: Any) -> tuple[Any, Any]:
        return (), observation["mask"]

    validation.validate_py_environment(
        Masked(), observation_and_action_constraint_splitter=split
    )
