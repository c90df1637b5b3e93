"""Nests: arrays held together by dicts, lists, tuples and named tuples.

The leaves of a nest have one order: that of the items, dict keys sorted, as in
`tf.nest`. Empty containers are kept. Two tools work on nests. The functions take any
nest apart by walking over it (dm-tree does it in C++). A `Structure` knows the nest in
advance, so that each value is taken apart without a search for what it consists of.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tree

Nest = Any
"""A leaf, or a dict, list, tuple or named tuple of nests."""


def flatten(nest: Nest) -> list[Any]:
    """Returns the leaves of `nest`.

    >>> flatten({"b": 1, "a": (2, [3])})
    [2, 3, 1]

    Raises:
        ValueError: If the keys of a dict cannot be sorted.
    """
    try:
        leaves: list[Any] = tree.flatten(nest)
    except TypeError as error:
        raise ValueError(
            f"nest: the keys of a dict cannot be sorted: {error}."
        ) from None
    return leaves


def map_structure(fn: Callable[..., Any], *nests: Nest) -> Nest:
    """Returns a nest like the first of `nests` with `fn(leaf, ...)` for each leaf.

    >>> map_structure(operator.add, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}

    Raises:
        ValueError: If the nests differ in structure.
    """
    mapped: Nest = tree.map_structure(fn, *nests, check_types=False)
    return mapped


def pack(structure: Nest, leaves: Sequence[Any]) -> Nest:
    """Returns a nest like `structure` that holds `leaves`.

    >>> pack({"b": 0, "a": (0, 0)}, [1, 2, 3])
    {'b': 3, 'a': (1, 2)}

    Raises:
        ValueError: If the number of leaves is another.
    """
    packed: Nest = tree.unflatten_as(structure, leaves)
    return packed


def assert_same_structure(expected: Nest, found: Nest, name: str) -> None:
    """Checks that two nests differ in their leaves only.

    Lists and tuples stand for each other, as do all mappings, and named tuples with
    the same fields.

    Raises:
        ValueError: If they differ, with the path of the first difference, which begins
            with `name`.
    """
    structure = Structure(expected, name)
    for path, leaf in zip(structure.paths, structure.flatten(found), strict=True):
        if isinstance(leaf, (Mapping, list, tuple)):
            raise ValueError(f"{path}: expected a leaf, got {_describe(leaf)}.")


class Structure:
    """Takes values of one known structure apart, and puts leaves together again.

    What a value consists of is looked at once, when the structure is made: functions
    for exactly this nest are composed then. A pickled structure is made anew from its
    nest where it arrives.

    >>> structure = Structure({"move": 0, "jump": 0}, "action")
    >>> structure.paths
    ("action['jump']", "action['move']")
    >>> structure.flatten({"jump": True, "move": [1, 2]})
    [True, [1, 2]]
    >>> structure.pack([True, [1, 2]])
    {'move': [1, 2], 'jump': True}

    Attributes:
        name: What the paths begin with.
        specs: The leaves of the nest it was made from.
        paths: Where each leaf is, for example "observation['cam']['rgb']".
        flatten: `flatten(value)` returns the leaves of `value` as a new list. The
            structure decides what is a leaf: a leaf may be a list or anything else. All
            mappings stand for dicts, lists and tuples for each other, and a named tuple
            needs the fields. ValueError, with the path, if `value` differs.
        pack: `pack(leaves)` returns a nest of the containers it was made from: dicts
            with their order of keys (an OrderedDict stays one, other mappings become
            dicts), named tuples of their class. ValueError if the number is another.
    """

    __slots__ = ("_key", "_nest", "flatten", "name", "pack", "paths", "specs")

    flatten: Callable[[Any], list[Any]]
    pack: Callable[[Sequence[Any]], Nest]

    def __init__(self, spec_nest: Nest, name: str) -> None:
        """Composes the functions.

        Args:
            spec_nest: A nest, whose leaves are most often specs.
            name: What the paths in errors begin with, for example "observation".

        Raises:
            ValueError: If the keys of a dict cannot be sorted.
        """
        leaves: list[tuple[str, Any]] = []
        node = _compiled(spec_nest, name, leaves)
        self.name = name
        self.specs = tuple(spec for _, spec in leaves)
        self.paths = tuple(path for path, _ in leaves)
        self.flatten = _flattener(node)
        self.pack = _packer(node, len(leaves), name)
        self._nest = spec_nest
        self._key = node.key

    def __eq__(self, other: object) -> bool:
        """Whether containers, keys and specs agree; names do not count."""
        if not isinstance(other, Structure):
            return NotImplemented
        return bool(self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Structure({self._nest!r}, {self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Structure, (self._nest, self.name)


class _Node(NamedTuple):
    """What was composed for one part of a nest."""

    key: Any  # Equal for equal structures of equal leaves.
    open: Callable[[Any], Iterable[Any]] | None  # Children in order; None for a leaf.
    children: tuple[_Node, ...]
    build: Callable[[Sequence[Any]], Nest]  # From all the leaves of the root.


def _compiled(nest: Nest, path: str, leaves: list[tuple[str, Any]]) -> _Node:
    """Returns the node for `nest`, and adds its leaves with their paths to `leaves`."""
    if isinstance(nest, Mapping):
        return _compiled_mapping(nest, path, leaves)
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return _compiled_named_tuple(nest, path, leaves)
    if isinstance(nest, (list, tuple)):
        return _compiled_items(nest, path, leaves)
    leaves.append((path, nest))
    return _Node(nest, None, (), operator.itemgetter(len(leaves) - 1))


def _compiled_mapping(
    nest: Mapping[Any, Nest], path: str, leaves: list[tuple[str, Any]]
) -> _Node:
    try:
        keys = sorted(nest)
    except TypeError:
        raise ValueError(
            f"{path}: expected keys that can be sorted, got {list(nest)!r}."
        ) from None
    nodes = {key: _compiled(nest[key], f"{path}[{key!r}]", leaves) for key in keys}
    is_ordered = isinstance(nest, collections.OrderedDict)
    container = collections.OrderedDict if is_ordered else dict
    builders = [(key, nodes[key].build) for key in nest]

    def build(values: Sequence[Any]) -> Nest:
        return container([(key, build(values)) for key, build in builders])

    children = tuple(nodes.values())
    key = (container, tuple(keys), tuple(child.key for child in children))
    return _Node(key, _mapping_opener(keys, path), children, build)


def _compiled_named_tuple(nest: Any, path: str, leaves: list[tuple[str, Any]]) -> _Node:
    kind = type(nest)
    children = tuple(
        _compiled(item, f"{path}.{field}", leaves)
        for field, item in zip(kind._fields, nest, strict=True)
    )
    builders = [child.build for child in children]

    def build(values: Sequence[Any]) -> Nest:
        return kind._make([build(values) for build in builders])

    key = (kind, tuple(child.key for child in children))
    return _Node(key, _named_tuple_opener(kind, path), children, build)


def _compiled_items(
    nest: Sequence[Nest], path: str, leaves: list[tuple[str, Any]]
) -> _Node:
    container = list if isinstance(nest, list) else tuple
    children = tuple(
        _compiled(item, f"{path}[{index}]", leaves) for index, item in enumerate(nest)
    )
    builders = [child.build for child in children]

    def build(values: Sequence[Any]) -> Nest:
        return container([build(values) for build in builders])

    key = (container, tuple(child.key for child in children))
    return _Node(key, _items_opener(len(children), path), children, build)


def _mapping_opener(keys: list[Any], path: str) -> Callable[[Any], Iterable[Any]]:
    count = len(keys)
    get = _getter(keys)

    def open_mapping(value: Any) -> Iterable[Any]:
        if type(value) is dict and len(value) == count:
            try:
                return get(value)
            except KeyError:
                pass
        if isinstance(value, Mapping) and value.keys() == set(keys):
            return [value[key] for key in keys]
        raise _mismatch(
            path, f"a dict with keys {keys}", value, _key_changes(keys, value)
        )

    return open_mapping


def _getter(keys: list[Any]) -> Callable[[Any], Iterable[Any]]:
    if len(keys) > 1:
        return operator.itemgetter(*keys)
    return lambda value: [value[key] for key in keys]


def _named_tuple_opener(kind: Any, path: str) -> Callable[[Any], Iterable[Any]]:
    fields = kind._fields

    def open_named_tuple(value: Any) -> Iterable[Any]:
        if type(value) is kind or getattr(value, "_fields", None) == fields:
            return value
        raise _mismatch(path, f"a named tuple with fields {list(fields)}", value)

    return open_named_tuple


def _items_opener(count: int, path: str) -> Callable[[Any], Iterable[Any]]:
    def open_items(value: Any) -> Iterable[Any]:
        if isinstance(value, (list, tuple)) and len(value) == count:
            return value
        raise _mismatch(path, f"a list or tuple of length {count}", value)

    return open_items


def _flattener(node: _Node) -> Callable[[Any], list[Any]]:
    open_value = node.open
    if open_value is None:
        return lambda value: [value]
    if all(child.open is None for child in node.children):
        return lambda value: list(open_value(value))
    collect = _collector(node)

    def flatten(value: Any) -> list[Any]:
        leaves: list[Any] = []
        collect(value, leaves)
        return leaves

    return flatten


def _collector(node: _Node) -> Callable[[Any, list[Any]], None]:
    """Returns a function that appends the leaves of a value to a list."""
    open_value = node.open
    if open_value is None:
        return lambda value, leaves: leaves.append(value)
    if all(child.open is None for child in node.children):
        return lambda value, leaves: leaves.extend(open_value(value))
    collectors = [child.open and _collector(child) for child in node.children]

    def collect(value: Any, leaves: list[Any]) -> None:
        for collect_child, item in zip(collectors, open_value(value), strict=True):
            if collect_child is None:
                leaves.append(item)
            else:
                collect_child(item, leaves)

    return collect


def _packer(node: _Node, count: int, name: str) -> Callable[[Sequence[Any]], Nest]:
    build = node.build

    def pack(leaves: Sequence[Any]) -> Nest:
        if len(leaves) != count:
            raise ValueError(f"{name}: expected {count} leaves, got {len(leaves)}.")
        return build(leaves)

    return pack


def _mismatch(path: str, expected: str, value: Any, detail: str = "") -> ValueError:
    return ValueError(f"{path}: expected {expected}, got {_describe(value)}{detail}.")


def _key_changes(keys: list[Any], value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    missing = [key for key in keys if key not in value]
    unknown = [key for key in value if key not in keys]
    parts = ((missing, "missing"), (unknown, "not expected"))
    return "".join(f"; {what}: {found}" for found, what in parts if found)


def _describe(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, Mapping):
        return f"a {kind} with keys {_sorted_if_possible(value)}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"a named tuple with fields {list(value._fields)}"
    if isinstance(value, (list, tuple)):
        return f"a {kind} of length {len(value)}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"a value of type {kind}"


def _sorted_if_possible(keys: Iterable[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)
