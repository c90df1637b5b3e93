"""Tests for specs/checks.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_envs import specs
from parallel_envs.specs import ArraySpec, BoundedArraySpec

_OBSERVATION = {
    "cam": {"rgb": ArraySpec((5, 5), np.float32, "rgb")},
    "goal": BoundedArraySpec((), np.int32, 0, 9, "goal"),
}


def _value(**changes: Any) -> dict[str, Any]:
    value = {"cam": {"rgb": np.zeros((5, 5), np.float32)}, "goal": np.int32(3)}
    return {**value, **changes}


def test_fitting_values_come_back_as_arrays_without_a_copy() -> None:
    value = _value(goal=3)

    arrays = specs.validate(_OBSERVATION, value, "observation")

    assert arrays["cam"]["rgb"] is value["cam"]["rgb"]
    assert arrays["goal"].dtype == np.int32
    assert arrays["goal"] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cam": {"rgb": np.zeros((1, 5, 5), np.float32)}},
         "observation['cam']['rgb'] does not fit its spec: expected float32 of shape "
         "(5, 5), got float32 of shape (1, 5, 5)."),
        ({"cam": {"rgb": np.zeros((5, 5))}},
         "observation['cam']['rgb'] does not fit its spec: expected float32 of shape "
         "(5, 5), got float64 of shape (5, 5)."),
        ({"goal": np.int32(10)},
         "observation['goal'] does not fit its spec: expected values of at most 9, got "
         "10."),
        ({"cam": {"depth": 0}},
         "observation['cam']: expected a dict with keys ['rgb'], got a dict with keys "
         "['depth']; missing: ['rgb']; not expected: ['depth']."),
    ],
)  # fmt: skip
def test_misfits_are_named_by_path(changes: dict[str, Any], message: str) -> None:
    value = _value(**changes)

    with pytest.raises(ValueError) as caught:
        specs.validate(_OBSERVATION, value, "observation")

    assert str(caught.value) == message


def test_single_values_are_validated_under_their_name() -> None:
    with pytest.raises(ValueError, match=r"^reward does not fit its spec: "):
        specs.validate(ArraySpec((), np.float32), np.zeros(2), "reward")
    with pytest.raises(ValueError, match=r"^value does not fit its spec: "):
        specs.validate(ArraySpec((), np.float32, "x"), np.zeros(2))


def test_leaves_that_are_no_specs_are_refused_by_path() -> None:
    with pytest.raises(TypeError) as caught:
        specs.validate({"a": (np.float32,)}, {"a": (0,)}, "observation")

    assert str(caught.value) == (
        "observation['a'][0]: expected an ArraySpec, got type <class 'numpy.float32'>."
    )


def test_check_arrays_nest_takes_arrays_as_they_are() -> None:
    assert specs.check_arrays_nest(_value(), _OBSERVATION)
    assert not specs.check_arrays_nest(_value(goal=3), _OBSERVATION)
    assert not specs.check_arrays_nest(_value(goal=np.int32(10)), _OBSERVATION)
    assert not specs.check_arrays_nest(_value(goal=[]), _OBSERVATION)
    assert not specs.check_arrays_nest({}, _OBSERVATION)


def test_assert_arrays_spec_nest_says_what_does_not_fit() -> None:
    specs.assert_arrays_spec_nest(_value(), _OBSERVATION)

    with pytest.raises(ValueError) as cast:
        specs.assert_arrays_spec_nest(_value(goal=3), _OBSERVATION)
    with pytest.raises(ValueError) as bound:
        specs.assert_arrays_spec_nest(_value(goal=np.int32(-1)), _OBSERVATION)
    with pytest.raises(ValueError) as structure:
        specs.assert_arrays_spec_nest(_value(goal=[np.int32(1)]), _OBSERVATION)

    assert str(cast.value) == (
        "arrays['goal'] does not fit its spec: expected an array of int32, got 3."
    )
    assert str(bound.value) == (
        "arrays['goal'] does not fit its spec: expected values of at least 0, got -1."
    )
    assert str(structure.value) == (
        "arrays['goal']: expected a leaf, got a list of length 1."
    )


_INT = BoundedArraySpec((3,), np.int32, 0, [1, 2, 3])


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (_INT, None),
        (_INT.replace(name="another", minimum=[0, 0, 0]), None),
        (_INT.replace(shape=(2, 3)),
         "x['a']: expected int32 of shape (3,), got int32 of shape (2, 3)."),
        (_INT.replace(dtype=np.int64),
         "x['a']: expected int32 of shape (3,), got int64 of shape (3,)."),
        (ArraySpec.from_spec(_INT),
         "x['a']: expected int32 of shape (3,) with bounds, got int32 of shape (3,) "
         "without bounds."),
        (_INT.replace(maximum=[1, 2, 4]),
         "x['a']: expected a maximum of 3 at index (2,), got 4."),
        (_INT.replace(maximum=[1, 3, 4]),
         "x['a']: expected a maximum of 2 at index (1,), got 3."),
        (_INT.replace(minimum=-1),
         "x['a']: expected a minimum of 0, got -1."),
        ([_INT], "x['a']: expected a leaf, got a list of length 1."),
    ],
)  # fmt: skip
def test_the_first_difference_between_specs_is_named(
    found: Any, message: str | None
) -> None:
    assert specs.difference({"a": _INT}, {"a": found}, "x") == message


def test_a_difference_of_scalar_bounds_has_no_index() -> None:
    spec = BoundedArraySpec((), np.int64, 0, 9)

    difference = specs.difference(spec, spec.replace(maximum=8), "action")

    assert difference == "action: expected a maximum of 9, got 8."


def test_a_difference_in_structure_is_named() -> None:
    spec = ArraySpec((), np.int32)

    assert specs.difference({"a": spec}, {"b": spec}, "x") == (
        "x: expected a dict with keys ['a'], got a dict with keys ['b']; missing: "
        "['a']; not expected: ['b']."
    )
    assert specs.difference([spec], (spec,), "x") is None
