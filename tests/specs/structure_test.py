"""Tests for specs/structure.py."""

from __future__ import annotations

import collections
import pickle
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import hypothesis
import numpy as np
import pytest
import tree  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import strategies as st

from parallel_envs.specs import ArraySpec, Structure

_tree: Any = tree


class Point(NamedTuple):
    """A named tuple, as TimeStep is one."""

    x: Any
    y: Any


class Location(NamedTuple):
    x: Any
    y: Any


class Swapped(NamedTuple):
    y: Any
    x: Any


def _containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    dicts = st.dictionaries(st.text(max_size=2), children, max_size=3)
    lists = st.lists(children, max_size=3)
    return st.one_of(
        dicts,
        dicts.map(collections.OrderedDict),
        lists,
        lists.map(tuple),
        st.builds(Point, children, children),
    )


_NESTS = st.recursive(st.integers(), _containers, max_leaves=12)


@hypothesis.given(nest=_NESTS)
def test_leaves_come_in_the_order_of_the_tree_library(nest: Any) -> None:
    structure = Structure(nest, "x")

    assert structure.flatten(nest) == _tree.flatten(nest)
    assert list(structure.specs) == _tree.flatten(nest)


@hypothesis.given(nest=_NESTS)
def test_packed_leaves_are_the_nest_again_with_its_containers(nest: Any) -> None:
    structure = Structure(nest, "x")

    packed = structure.pack(structure.flatten(nest))

    assert repr(packed) == repr(nest)  # Also types and the order of keys.


@hypothesis.given(nest=_NESTS)
def test_packing_other_leaves_equals_mapping_over_the_nest(nest: Any) -> None:
    structure = Structure(nest, "x")

    packed = structure.pack([str(leaf) for leaf in structure.flatten(nest)])

    assert packed == _tree.map_structure(str, nest)


@hypothesis.given(nest=_NESTS)
def test_paths_lead_to_the_leaves(nest: Any) -> None:
    structure = Structure(nest, "nest")

    found = [eval(path, {"nest": nest}) for path in structure.paths]

    assert found == _tree.flatten(nest)


@hypothesis.given(nest=_NESTS)
def test_structure_survives_pickling(nest: Any) -> None:
    structure = Structure(nest, "x")

    twin = pickle.loads(pickle.dumps(structure))

    assert twin == structure
    assert twin.paths == structure.paths
    assert twin.flatten(nest) == structure.flatten(nest)


@hypothesis.given(first=_NESTS, second=_NESTS)
def test_structures_are_equal_when_containers_keys_and_leaves_are(
    first: Any, second: Any
) -> None:
    same = _sorted_keys(first) == _sorted_keys(second)

    assert (Structure(first, "a") == Structure(second, "b")) is same
    assert Structure(first, "a") == Structure(first, "b")
    assert hash(Structure(first, "a")) == hash(Structure(first, "b"))


def _sorted_keys(nest: Any) -> Any:
    """Describes `nest` with its types and without the order of its keys."""
    kind = cast(Any, type(nest))
    if issubclass(kind, dict):
        return kind, [(key, _sorted_keys(nest[key])) for key in sorted(nest)]
    if issubclass(kind, (list, tuple)):
        return kind, [_sorted_keys(item) for item in nest]
    return nest


def test_structure_does_not_follow_changes_of_the_nest_it_was_made_from() -> None:
    nest: dict[str, Any] = {"b": [0], "a": 1}
    structure = Structure(nest, "x")

    nest["c"] = 2

    assert repr(structure) == "Structure({'b': [0], 'a': 1}, 'x')"
    assert pickle.loads(pickle.dumps(structure)) == structure


def test_structures_of_different_specs_differ() -> None:
    one = Structure({"x": ArraySpec((), np.int32, "a")}, "x")

    assert one == Structure({"x": ArraySpec((), np.int32, "b")}, "x")
    assert one != Structure({"x": ArraySpec((), np.int64)}, "x")
    assert one != Structure({"y": ArraySpec((), np.int32)}, "x")
    assert one != Structure([ArraySpec((), np.int32)], "x")
    assert Structure([[0], 0], "x") != Structure([[0, 0]], "x")


def test_paths_are_written_as_python_writes_them() -> None:
    nest = {"cam": {"rgb": 0}, "goal": (0, [0]), "at": Point(0, 0), "none": ()}

    assert Structure(nest, "observation").paths == (
        "observation['at'].x",
        "observation['at'].y",
        "observation['cam']['rgb']",
        "observation['goal'][0]",
        "observation['goal'][1][0]",
    )
    assert Structure(0, "action").paths == ("action",)
    assert Structure({3: 0}, "action").paths == ("action[3]",)


def test_the_structure_decides_what_is_a_leaf() -> None:
    structure = Structure({"a": 0, "b": (0,)}, "x")

    leaves = structure.flatten({"a": [1, [2]], "b": ({"c": 3},)})

    assert leaves == [[1, [2]], {"c": 3}]
    assert Structure(0, "x").flatten([1, 2]) == [[1, 2]]


def test_flatten_gives_a_list_of_the_callers_own() -> None:
    nest = [1, 2]
    structure = Structure(nest, "x")

    structure.flatten(nest).append(3)

    assert nest == [1, 2]


def _defaultdict(items: dict[str, int]) -> collections.defaultdict[str, int]:
    return collections.defaultdict(int, items)


_MAPPINGS: list[Callable[[dict[str, int]], Mapping[str, int]]] = [
    dict,
    collections.OrderedDict,
    types.MappingProxyType,
    collections.ChainMap,
    _defaultdict,
]


@pytest.mark.parametrize("container", _MAPPINGS)
@pytest.mark.parametrize("nest", [{"b": 1, "a": 2}, {"b": 1}, {}])
def test_any_mapping_stands_for_a_dict(container: Any, nest: dict[str, int]) -> None:
    structure = Structure(nest, "x")

    assert structure.flatten(container(nest)) == [nest[key] for key in sorted(nest)]
    assert Structure(container(nest), "x").pack(structure.flatten(nest)) == nest


def test_mappings_but_ordered_dicts_are_packed_as_dicts() -> None:
    default = collections.defaultdict(int, {"b": 1, "a": 2})
    ordered = collections.OrderedDict([("b", 1), ("a", 2)])

    assert type(Structure(default, "x").pack([2, 1])) is dict
    assert type(Structure(ordered, "x").pack([2, 1])) is collections.OrderedDict
    assert list(Structure(ordered, "x").pack([2, 1]).items()) == [("b", 1), ("a", 2)]
    assert list(Structure(default, "x").pack([2, 1]).items()) == [("b", 1), ("a", 2)]


def test_looking_at_a_defaultdict_adds_no_key_to_it() -> None:
    value = collections.defaultdict(int, {"a": 1, "c": 1})

    with pytest.raises(ValueError, match="missing"):
        Structure({"a": 0, "b": 0}, "x").flatten(value)

    assert set(value) == {"a", "c"}


def test_lists_and_tuples_stand_for_each_other_and_keep_their_type() -> None:
    assert Structure([0, 0], "x").flatten((1, 2)) == [1, 2]
    assert Structure((0, 0), "x").flatten(Point(1, 2)) == [1, 2]
    assert Structure((0, (0,)), "x").pack([1, 2]) == (1, (2,))


def test_named_tuples_with_the_same_fields_stand_for_each_other() -> None:
    structure = Structure(Point(0, [0]), "step")

    packed = structure.pack(structure.flatten(Location(1, (2,))))

    assert type(packed) is Point
    assert packed == Point(1, [2])
    with pytest.raises(ValueError, match=r"fields \['x', 'y'\].*fields \['y', 'x'\]"):
        structure.flatten(Swapped(1, 2))
    with pytest.raises(ValueError, match=r"fields \['x', 'y'\], got a tuple of length"):
        structure.flatten((1, 2))


@pytest.mark.parametrize(
    ("nest", "value", "message"),
    [
        ({"move": 0, "jump": 0}, {"move": 1},
         "action: expected a dict with keys ['jump', 'move'], got a dict with keys "
         "['move']; missing: ['jump']."),
        ({"move": 0}, {"move": 1, "fly": 2, 3: 4},
         "action: expected a dict with keys ['move'], got a dict with keys ['move', "
         "'fly', 3]; not expected: ['fly', 3]."),
        ({"a": 0, "b": 0}, {"a": 1, "c": 2},
         "action: expected a dict with keys ['a', 'b'], got a dict with keys ['a', "
         "'c']; missing: ['b']; not expected: ['c']."),
        ({"move": 0}, np.zeros(3, np.float32),
         "action: expected a dict with keys ['move'], got float32 of shape (3,)."),
        ({"a": {"b": 0, "c": ()}, "d": 0}, {"a": {"b": 1, "c": [2]}, "d": 0},
         "action['a']['c']: expected a list or tuple of length 0, got a list of length "
         "1."),
        ((0, Point(0, (0, 0))), (0, Point(0, (1,))),
         "action[1].y: expected a list or tuple of length 2, got a tuple of length 1."),
        ([0], None,
         "action: expected a list or tuple of length 1, got a value of type NoneType."),
        (Point(0, 0), {"x": 0, "y": 0},
         "action: expected a named tuple with fields ['x', 'y'], got a dict with keys "
         "['x', 'y']."),
        ([0, 0], Point(1, 2)._asdict(),
         "action: expected a list or tuple of length 2, got a dict with keys ['x', "
         "'y']."),
        ((), ArraySpec((2,), np.int8),
         "action: expected a list or tuple of length 0, got int8 of shape (2,)."),
    ],
)  # fmt: skip
def test_another_structure_is_refused_with_its_path(
    nest: Any, value: Any, message: str
) -> None:
    structure = Structure(nest, "action")

    with pytest.raises(ValueError) as caught:
        structure.flatten(value)

    assert str(caught.value) == message


def test_keys_without_an_order_are_refused_with_their_path() -> None:
    with pytest.raises(ValueError) as caught:
        Structure({"a": [{1: 0, "b": 0}]}, "action")

    assert str(caught.value) == (
        "action['a'][0]: expected keys that can be sorted, got [1, 'b']."
    )


@pytest.mark.parametrize("nest", [0, [0, 0], {"a": 0, "b": [0]}, ()])
def test_another_number_of_leaves_is_refused(nest: Any) -> None:
    structure = Structure(nest, "action")
    count = len(structure.specs)

    for wrong in {count + 1, max(count - 1, 0)} - {count}:
        with pytest.raises(
            ValueError, match=rf"^action: expected {count} leaves, got {wrong}\.$"
        ):
            structure.pack([0] * wrong)
