"""Tests for specs/nest.py."""

from __future__ import annotations

import collections
import operator
from typing import Any

import pytest

from parallel_envs import specs


def test_leaves_come_with_dict_keys_sorted() -> None:
    nest = {"b": 1, "a": collections.OrderedDict([("y", 2), ("x", (3, [4]))])}

    assert specs.flatten(nest) == [3, 4, 2, 1]
    assert specs.flatten(5) == [5]
    assert specs.flatten({"a": (), "b": {}}) == []


def test_keys_without_an_order_are_refused() -> None:
    with pytest.raises(ValueError, match="keys of a dict cannot be sorted"):
        specs.flatten({1: 0, "a": 0})


def test_mapping_keeps_containers_and_the_order_of_keys() -> None:
    empty: dict[str, int] = {}
    nest = {"b": 1, "a": (2, empty), "c": [()]}

    mapped = specs.map_structure(operator.neg, nest)

    assert repr(mapped) == "{'b': -1, 'a': (-2, {}), 'c': [()]}"


def test_mapping_takes_leaves_of_the_same_place_together() -> None:
    first, second = {"a": 1, "b": (2,)}, {"b": [20], "a": 10}

    assert specs.map_structure(operator.add, first, second) == {"a": 11, "b": (22,)}
    with pytest.raises(ValueError, match="structure"):
        specs.map_structure(operator.add, first, {"a": 1})


def test_packing_undoes_flattening() -> None:
    nest = {"b": 1, "a": (2, [3], ())}

    assert repr(specs.pack(nest, specs.flatten(nest))) == repr(nest)
    with pytest.raises(ValueError, match="2"):
        specs.pack(nest, [1, 2])


_SAME: list[tuple[specs.Nest, specs.Nest]] = [
    (0, 1),
    ({"a": [0, 0]}, collections.OrderedDict(a=(1, 2))),
    ({"a": {}, "b": ()}, {"b": [], "a": {}}),
]


@pytest.mark.parametrize(
    ("expected", "found"),
    _SAME,
)
def test_nests_that_differ_in_leaves_only_have_the_same_structure(
    expected: Any, found: Any
) -> None:
    specs.assert_same_structure(expected, found, "x")


@pytest.mark.parametrize(
    ("expected", "found", "message"),
    [
        (0, [0], "x: expected a leaf, got a list of length 1."),
        ({"a": 0}, {"a": {"b": 1}},
         "x['a']: expected a leaf, got a dict with keys ['b']."),
        ({"a": 0}, {"b": 0},
         "x: expected a dict with keys ['a'], got a dict with keys ['b']; missing: "
         "['a']; not expected: ['b']."),
        ([0, ()], [0, [1]],
         "x[1]: expected a list or tuple of length 0, got a list of length 1."),
    ],
)  # fmt: skip
def test_the_first_difference_in_structure_is_named(
    expected: Any, found: Any, message: str
) -> None:
    with pytest.raises(ValueError) as caught:
        specs.assert_same_structure(expected, found, "x")

    assert str(caught.value) == message
