"""Spaces of Gymnasium as specs, and values there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from parallel_envs.adapters import gymnasium_spaces
from parallel_envs.specs import array_spec, checks

Bounded = array_spec.BoundedArraySpec


def spec_of(space: Any) -> Any:
    return gymnasium_spaces.adapt(space, "observation").spec


def read(space: Any, value: Any) -> Any:
    return gymnasium_spaces.adapt(space, "observation").read(value)


def write(space: Any, value: Any) -> Any:
    return gymnasium_spaces.adapt(space, "action").write(value)


FLOAT_MAX = np.finfo(np.float32).max

SPECS = {
    "Box": (
        spaces.Box(-1.0, 2.0, (2, 3), np.float32),
        Bounded((2, 3), np.float32, -1.0, 2.0),
    ),
    "Box with bounds of its elements": (
        spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 5.0]), dtype=np.float64),
        Bounded((2,), np.float64, [-1.0, 0.0], [1.0, 5.0]),
    ),
    "Box without bounds": (
        spaces.Box(-np.inf, np.inf, (2,), np.float32),
        Bounded((2,), np.float32, -FLOAT_MAX, FLOAT_MAX),
    ),
    "Box of an image": (
        spaces.Box(0, 255, (84, 84, 3), np.uint8),
        Bounded((84, 84, 3), np.uint8, 0, 255),
    ),
    "Box of a scalar": (spaces.Box(0, 1, (), np.float32), Bounded((), "f4", 0, 1)),
    "Discrete": (spaces.Discrete(3), Bounded((), np.int64, 0, 2)),
    "Discrete with a start": (
        spaces.Discrete(3, start=-1),
        Bounded((), np.int64, -1, 1),
    ),
    "MultiDiscrete": (
        spaces.MultiDiscrete([2, 5]),
        Bounded((2,), np.int64, 0, [1, 4]),
    ),
    "MultiDiscrete with a start and more dimensions": (
        spaces.MultiDiscrete(
            np.array([[2, 3], [4, 5]]), np.int32, start=np.array([[1, 1], [-1, 0]])
        ),
        Bounded((2, 2), np.int32, [[1, 1], [-1, 0]], [[2, 3], [2, 4]]),
    ),
    "MultiBinary": (spaces.MultiBinary(4), Bounded((4,), np.int8, 0, 1)),
    "MultiBinary with more dimensions": (
        spaces.MultiBinary([2, 3]),
        Bounded((2, 3), np.int8, 0, 1),
    ),
    "Text": (spaces.Text(5, charset="azc"), Bounded((None,), np.uint32, 97, 122)),
    "Sequence": (
        spaces.Sequence(spaces.Box(0.0, 1.0, (2,), np.float32)),
        Bounded((None, 2), np.float32, 0.0, 1.0),
    ),
    "Sequence with bounds of its elements": (
        spaces.Sequence(
            spaces.Box(np.zeros(2), np.array([1.0, 2.0]), dtype=np.float64)
        ),
        Bounded((None, 2), np.float64, 0.0, [1.0, 2.0]),
    ),
    "Sequence of scalars": (
        spaces.Sequence(spaces.Discrete(3)),
        Bounded((None,), np.int64, 0, 2),
    ),
    "nested": (
        spaces.Dict(
            cam=spaces.Dict(rgb=spaces.Box(0, 255, (2, 2, 3), np.uint8)),
            pair=spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(3)]),
            items=spaces.Sequence(spaces.Dict(kind=spaces.Discrete(4))),
        ),
        {
            "cam": {"rgb": Bounded((2, 2, 3), np.uint8, 0, 255)},
            "pair": (Bounded((), np.int64, 0, 1), Bounded((3,), np.int8, 0, 1)),
            "items": {"kind": Bounded((None,), np.int64, 0, 3)},
        },
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_spec_has_shape_dtype_and_bounds_of_the_space(name: str) -> None:
    space, expected = SPECS[name]

    assert spec_of(space) == expected


def test_bounds_that_are_all_alike_take_no_array() -> None:
    spec = spec_of(spaces.Box(0, 255, (84, 84, 3), np.uint8))

    assert spec.minimum.shape == spec.maximum.shape == ()


def test_leaves_are_named_by_their_paths() -> None:
    spec = spec_of(SPECS["nested"][0])

    assert spec["cam"]["rgb"].name == "observation['cam']['rgb']"
    assert spec["pair"][1].name == "observation['pair'][1]"


GRAPH: Any = spaces.Graph(spaces.Discrete(2), None)


class Whatever(spaces.Space[Any]):
    """A space that somebody wrote for himself."""


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (
            spaces.Dict(graph=GRAPH),
            r"observation\['graph'\]: expected one of Gymnasium's spaces Box, .*Graph",
        ),
        (
            spaces.Tuple([Whatever()]),
            r"observation\[0\]: expected one of Gymnasium's spaces .*Whatever",
        ),
        (
            spaces.Dict(words=spaces.Sequence(spaces.Text(3))),
            r"observation\['words'\]\[...\]: expected items of one size in a Sequence",
        ),
    ],
)
def test_a_space_without_form_as_arrays_is_named(space: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        spec_of(space)


LEAVES = st.sampled_from(
    [
        spaces.Box(-2.0, 2.0, (2,), np.float32),
        spaces.Box(-5, 5, (), np.int16),
        spaces.Box(0, 255, (2, 2), np.uint8),
        spaces.Discrete(5, start=-2),
        spaces.MultiDiscrete([3, 2]),
        spaces.MultiBinary([2, 2]),
    ]
)
FIXED = st.recursive(
    LEAVES,
    lambda inner: (
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3).map(
            spaces.Dict
        )
        | st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple)
    ),
    max_leaves=5,
)
SPACES = (
    FIXED
    | st.builds(spaces.Sequence, FIXED)
    | st.builds(spaces.Sequence, FIXED, stack=st.just(True))
    | st.just(spaces.Text(6, min_length=0, charset="aß€😀"))
)


# Gymnasium says this of its own samples, where it takes stacked scalars apart.
@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
@given(SPACES, st.integers(0, 2**31))
def test_any_value_fits_the_spec_and_comes_back_as_it_was(
    space: Any, seed: int
) -> None:
    adapted = gymnasium_spaces.adapt(space, "value")
    space.seed(seed)
    value = space.sample()

    arrays = adapted.read(value)
    back = adapted.write(arrays)

    checks.validate(adapted.spec, arrays)
    assert space.contains(back)
    np.testing.assert_equal(back, value)


def test_an_empty_sequence_keeps_dtype_and_shape_of_its_items() -> None:
    space = spaces.Sequence(spaces.Box(0, 1, (2,), np.float32))

    array = read(space, ())

    assert array.shape == (0, 2)
    assert array.dtype == np.float32
    assert write(space, array) == ()


def test_text_is_read_from_a_leaf_in_one_line() -> None:
    leaf = read(spaces.Text(5, charset="aß€😀"), "ß😀a")

    assert "".join(map(chr, leaf)) == "ß😀a"


def test_an_array_of_the_right_dtype_is_not_copied() -> None:
    value = np.zeros(2, np.float32)

    assert read(spaces.Box(-1, 1, (2,), np.float32), value) is value


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.0, 0.5]),
        np.array([1, 0]),
        np.array([1.0, np.nan]),
        np.array([1.0, 0.5], ">f4"),
        [1.0, 0.1],
        [np.float64(0.1), 1],
    ],
)
def test_observations_get_the_dtype_of_the_space_where_no_value_changes(
    value: Any,
) -> None:
    array = read(spaces.Box(-1, 1, (2,), np.float32), value)

    assert array.dtype == np.float32
    assert array.dtype.isnative
    np.testing.assert_equal(array, np.asarray(value, np.float32))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.float32, np.array([0.1, 1.0])),
        (np.uint8, np.array([0, 256])),
        (np.uint8, np.array([-1, 3])),
        (np.uint8, [0.5, 1.0]),
        (np.uint8, np.array(["a", "b"])),
        (np.float32, np.array([None, None])),
    ],
)
def test_observations_that_a_cast_would_change_stay_as_they_came(
    dtype: Any, value: Any
) -> None:
    array = read(spaces.Box(0, 1, (2,), dtype), value)

    assert array.dtype == np.asarray(value).dtype
    np.testing.assert_equal(array, value)


@pytest.mark.parametrize("value", [3, np.int64(3), np.int32(3), np.array(3), 3.0])
def test_a_discrete_observation_has_the_dtype_of_the_space(value: Any) -> None:
    leaf = read(spaces.Discrete(5), value)

    assert leaf.dtype == np.int64
    assert leaf.shape == ()
    assert leaf == 3


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Dict(a=spaces.Discrete(2)), {"b": 1}),
        (spaces.Dict(a=spaces.Discrete(2)), {"a": 1, "b": 1}),
        (spaces.Dict(a=spaces.Discrete(2)), 7),
        (spaces.Tuple([spaces.Discrete(2)]), (1, 1)),
        (spaces.Tuple([spaces.Discrete(2)]), None),
        (spaces.Sequence(spaces.Discrete(2)), None),
        (spaces.Text(3), 5),
    ],
)
def test_a_value_of_another_form_is_left_for_the_checks(space: Any, value: Any) -> None:
    assert read(space, value) is value


@pytest.mark.parametrize("value", [2, np.int64(2), np.int32(2), np.array(2)])
def test_a_discrete_action_is_a_numpy_scalar(value: Any) -> None:
    action = write(spaces.Discrete(3), value)

    assert type(action) is np.int64
    assert action in {2}


def test_a_box_action_is_an_array_of_the_dtype_of_the_space() -> None:
    for value in (np.float32(0.5), 0.5, np.array(0.5)):
        action: Any = write(spaces.Box(0, 1, (), np.float32), value)

        assert type(action) is np.ndarray
        assert action.dtype == np.float32
        assert action == 0.5


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Discrete(3), 1.5),
        (spaces.MultiDiscrete([3, 3]), [1.0, 0.5]),
        (spaces.Box(0, 9, (2,), np.uint8), np.array([1.5, 2.0])),
    ],
)
def test_fractions_are_no_integer_actions(space: Any, value: Any) -> None:
    with pytest.raises(TypeError):
        write(space, value)
