from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.batch import agreement
from parallel_envs.batch.environment_rows import Description

SCALAR = pe.ArraySpec((), np.float32)


def described(
    observation: Any = SCALAR,
    action: Any = SCALAR,
    reward: Any = None,
    batch_size: int | None = None,
) -> Description:
    return Description(action, ts.time_step_spec(observation, reward), batch_size)


def joined(*observations: Any) -> Any:
    _, time_step_spec = agreement.agreed([described(each) for each in observations])
    return time_step_spec.observation


def bounded(low: Any, high: Any, name: str | None = None) -> pe.BoundedArraySpec:
    return pe.BoundedArraySpec((2,), np.float32, low, high, name)


def test_specs_of_one_environment_are_those_of_the_batch() -> None:
    only = described({"x": SCALAR, "none": ()}, action=bounded(0, 1))

    action_spec, time_step_spec = agreement.agreed([only])

    assert action_spec == only.action_spec
    assert time_step_spec == only.time_step_spec
    assert isinstance(time_step_spec, ts.TimeStep)


def test_names_may_differ_and_the_first_are_taken() -> None:
    first, second = pe.ArraySpec((), "f4", "one"), pe.ArraySpec((), "f4", "two")

    action_spec, time_step_spec = agreement.agreed(
        [described(first, action=first), described(second, action=second)]
    )

    assert (action_spec.name, time_step_spec.observation.name) == ("one", "one")


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ([bounded(0, 1), bounded(0, 1)], bounded(0, 1)),
        ([bounded(0, 1), bounded(-2, 0), bounded(0, 5)], bounded(-2, 5)),
        ([bounded([0, 3], 4), bounded(1, [9, 2])], bounded([0, 1], [9, 4])),
        ([bounded(0, 1), pe.ArraySpec((2,), "f4")], pe.ArraySpec((2,), "f4")),
        ([pe.ArraySpec((2,), "f4"), bounded(0, 1)], pe.ArraySpec((2,), "f4")),
        ([bounded(-np.inf, 1), bounded(0, 2)], bounded(-np.inf, 2)),
    ],
)
def test_bounds_of_observations_are_joined(specs: list[Any], expected: Any) -> None:
    found = joined(*({"x": spec} for spec in specs))["x"]

    assert type(found) is type(expected)
    assert found == expected


def test_bounds_of_rewards_are_joined_too() -> None:
    rewards = [pe.BoundedArraySpec((), "f4", 0, high) for high in (1, 3)]

    _, spec = agreement.agreed([described(reward=reward) for reward in rewards])

    assert spec.reward == pe.BoundedArraySpec((), "f4", 0, 3)


def test_containers_are_those_of_the_first_environment() -> None:
    items: dict[str, Any] = {"b": SCALAR, "a": (SCALAR, {})}
    pair = collections.OrderedDict(items)

    found = joined(pair, items)

    assert type(found) is collections.OrderedDict
    assert found == pair


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            described({"x": pe.ArraySpec((), "f8")}),
            r"environment 1 has other specs than environment 0: "
            r".*observation\['x'\].*float32.*float64",
        ),
        (
            described({"x": pe.ArraySpec((1,), "f4")}),
            r"environment 1 .*observation\['x'\].*\(\).*\(1,\)",
        ),
        (described({"y": SCALAR}), r"environment 1 .*observation.*'x'.*'y'"),
        (described((SCALAR,)), r"environment 1 .*observation: expected a dict"),
        (
            described({"x": SCALAR}, action=bounded(0, 2)),
            r"environment 1 .*action.*float32.*\(\).*\(2,\)",
        ),
        (
            described({"x": SCALAR}, reward=pe.ArraySpec((2,), "f4")),
            r"environment 1 .*reward.*\(\).*\(2,\)",
        ),
    ],
)
def test_specs_that_differ_are_refused_with_row_path_and_both(
    other: Description, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        agreement.agreed([described({"x": SCALAR}), other])


def test_bounds_of_actions_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match=r"environment 1 .*action"):
        agreement.agreed(
            [described(action=bounded(0, 1)), described(action=bounded(0, 2))]
        )


def test_rows_of_batched_environments_are_counted() -> None:
    same, other = described(batch_size=3), described(pe.ArraySpec((), "i4"))

    with pytest.raises(ValueError, match="environment 4 has other specs"):
        agreement.agreed([same, described(), other])
