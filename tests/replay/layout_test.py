from __future__ import annotations

import collections
from typing import Any, NamedTuple

import numpy as np
import pytest

from parallel_envs.replay import layout
from parallel_envs.specs.array_spec import ArraySpec


class Pair(NamedTuple):
    left: Any
    right: Any


def refused(first: Any, later: Any, num_rows: int | None = 2) -> str:
    """The message with which `later` is refused after `first`."""
    learned = layout.Layout.of(first, num_rows)
    with pytest.raises(ValueError) as error:
        learned.rows(later, num_rows)
    return str(error.value)


def test_the_first_item_decides_structure_dtypes_and_shapes() -> None:
    items = Pair({"b": np.zeros((2, 3), ">f4"), "a": (np.zeros(2, bool),)}, [[1], [2]])

    learned = layout.Layout.of(items, 2)

    assert learned.nest == Pair(
        {"b": ArraySpec((3,), np.float32), "a": (ArraySpec((), np.bool_),)},
        ArraySpec((None,), np.int64),
    )


def test_containers_come_back_as_they_were() -> None:
    items = Pair(collections.OrderedDict(b=np.ones(2), a=np.zeros(2)), ((), np.ones(2)))
    learned = layout.Layout.of(items, 2)

    packed = learned.pack(learned.rows(items, 2))

    assert isinstance(packed, Pair)
    assert type(packed.left) is type(items.left)
    assert list(packed.left) == ["b", "a"]
    assert packed.left["b"].tolist() == [1, 1]
    assert packed.right[0] == ()


def test_one_item_is_a_batch_of_one() -> None:
    learned = layout.Layout.of({"x": 1.5, "y": [np.arange(4)]}, None)

    x, y = learned.rows({"x": 2.5, "y": [np.arange(2)]}, None)

    assert x.tolist() == [2.5]
    assert y[0].tolist() == [0, 1]


def test_a_list_of_numbers_of_each_row_is_an_ordinary_leaf() -> None:
    learned = layout.Layout.of({"reward": [1.0, 2.0]}, 2)

    assert learned.specs == (ArraySpec((), np.float64),)
    assert learned.rows({"reward": [3.0, 4.0]}, 2)[0].tolist() == [3.0, 4.0]


def test_a_later_item_that_differs_is_refused_with_the_path() -> None:
    first = {"observation": np.zeros((2, 3), np.float32), "n": (np.zeros(2, int),)}

    assert refused(first, {**first, "observation": np.zeros((2, 3))}) == (
        "items['observation']: expected float32 of shape (3,) as in the first item, "
        "got float64 of shape (3,)."
    )
    assert "got float32 of shape (4,)" in refused(
        first, {**first, "observation": np.zeros((2, 4), np.float32)}
    )
    assert "items['n'][0]: expected int64" in refused(
        first, {**first, "n": (np.zeros(2),)}
    )
    assert "items" in refused(first, {"observation": first["observation"]})
    assert refused(first, {**first, "n": (np.zeros(3, int),)}) == (
        "items['n'][0]: expected 2 rows in the first dimension, got an array of shape "
        "(3,). For 3 rows make the buffer with num_streams=3, or pass streams= with 3 "
        "numbers; one item goes in with add()."
    )


def test_a_leaf_that_varies_stays_one() -> None:
    first = {"x": [np.zeros(1), np.zeros(2)]}

    assert "expected a list with one array for each row" in refused(
        first, {"x": np.zeros((2, 3))}
    )
    assert "items['x'], row 1: expected float64 of shape (None,)" in refused(
        first, {"x": [np.zeros(1), np.zeros((1, 1))]}
    )
    assert "expected 2, got 3" in refused(first, {"x": [np.zeros(1)] * 3})


def test_bytes_of_another_order_are_taken() -> None:
    learned = layout.Layout.of(np.zeros(1, "<i4"), 1)

    assert learned.rows(np.ones(1, ">i4"), 1)[0].tolist() == [1]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({"x": np.array([{}, None])}, r"items\['x'\]: .*got dtype object"),
        ({"x": np.zeros(3)}, r"items\['x'\]: expected 2 rows.*shape \(3,\)"),
        ({"x": 1.0}, r"items\['x'\]: expected 2 rows.*shape \(\)"),
        ({"x": [np.zeros(1)]}, r"items\['x'\]: a list is a leaf .* expected 2, got 1"),
        ({}, "at least one leaf"),
        ({"step_type": np.zeros((2, 1), int)}, "step_type is expected to be one int"),
        ({"step_type": np.zeros(2)}, "step_type is expected to be one integer"),
    ],
)
def test_a_first_item_that_cannot_be_stored_is_refused(
    items: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        layout.Layout.of(items, 2)


def test_kinds_tell_first_last_and_boundary() -> None:
    items = {
        "step_type": np.array([0, 1, 1, 2], np.int32),
        "next_step_type": np.array([1, 1, 2, 0], np.int32),
    }
    learned = layout.Layout.of(items, 4)

    kinds = learned.kinds(learned.rows(items, 4))

    last = layout.LAST | layout.ENDS_EPISODE | layout.BOUNDARY
    assert kinds.tolist() == [layout.FIRST, 0, layout.ENDS_EPISODE, last]
    assert learned.is_trajectory


def test_the_last_time_step_is_no_boundary() -> None:
    items = {"step_type": np.array([2])}
    learned = layout.Layout.of(items, 1)

    kinds = learned.kinds(learned.rows(items, 1))

    assert kinds.tolist() == [layout.LAST | layout.ENDS_EPISODE]
    assert not learned.is_trajectory


def test_a_field_knows_its_leaves() -> None:
    learned = layout.Layout.of(
        Pair(np.zeros(1), {"b": np.zeros(1), "a": np.ones(1)}), 1
    )

    field = learned.field("right")

    assert field is not None
    assert field.leaves == [1, 2]
    assert field.pack([3, 4]) == {"a": 3, "b": 4}
    assert learned.field("elsewhere") is None
