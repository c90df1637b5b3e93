"""Values of one known structure, taken apart and put together quickly."""

from __future__ import annotations

import collections
import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

Nest = Any
"""A leaf, or a dict, list, tuple or named tuple of nests."""


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

    __slots__ = ("_key", "flatten", "name", "pack", "paths", "specs")

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
        compiler = _Compiler()
        compiler.add(spec_nest, name)
        self.name = name
        self.specs = tuple(compiler.specs)
        self.paths = tuple(compiler.paths)
        self.flatten = _flattener(compiler.containers)
        self.pack = _packer(compiler.containers, len(self.specs), name)
        self._key = tuple(compiler.key)

    def __eq__(self, other: object) -> bool:
        """Whether containers, keys and specs agree; names do not count."""
        if not isinstance(other, Structure):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Structure({self.pack(self.specs)!r}, {self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Structure, (self.pack(self.specs), self.name)


def describe(value: Any) -> str:
    """Returns what `value` is, as errors write it.

    >>> describe({"b": 1, "a": 2})
    "a dict with keys ['a', 'b']"
    """
    kind = type(value).__name__
    if _is_mapping(value):
        return f"a {kind} with keys {_sorted_if_possible(value)}"
    if _is_named_tuple(value):
        return f"a named tuple with fields {list(value._fields)}"
    if _is_list_or_tuple(value):
        return f"a {kind} of length {len(value)}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"a value of type {kind}"


_Open = Callable[[Any], Sequence[Any]]
_Build = Callable[[Sequence[Any]], Nest]


@dataclasses.dataclass(frozen=True)
class _Container:
    """One container of the nest."""

    index: int  # The number of leaves before it.
    count: int  # The number of its children.
    open: _Open  # A value's children, in the order of leaves.
    build: _Build  # The container that holds them.


class _Compiler:
    """Walks over a nest once, containers before what they contain."""

    def __init__(self) -> None:
        self.specs: list[Any] = []
        self.paths: list[str] = []
        self.containers: list[_Container] = []
        self.key: list[Any] = []

    def add(self, nest: Nest, path: str) -> None:
        if _is_mapping(nest):
            self._add_mapping(nest, path)
        elif _is_named_tuple(nest):
            self._add_named_tuple(nest, path)
        elif _is_list_or_tuple(nest):
            self._add_items(nest, path)
        else:
            self.key.append(nest)
            self.specs.append(nest)
            self.paths.append(path)

    def _add_mapping(self, nest: Mapping[Any, Nest], path: str) -> None:
        try:
            keys = sorted(nest)
        except TypeError:
            raise ValueError(
                f"{path}: expected keys that can be sorted, got {list(nest)!r}."
            ) from None
        is_ordered = isinstance(nest, collections.OrderedDict)
        container = collections.OrderedDict if is_ordered else dict
        build = _mapping_builder(container, keys, list(nest))
        kind = (container, *keys)
        self._add_container(kind, len(keys), _mapping_opener(keys, path), build)
        for key in keys:
            self.add(nest[key], f"{path}[{key!r}]")

    def _add_named_tuple(self, nest: Any, path: str) -> None:
        kind = cast(Any, type(nest))
        opener = _named_tuple_opener(kind, path)
        self._add_container(kind, len(nest), opener, kind._make)
        for field, item in zip(kind._fields, nest, strict=True):
            self.add(item, f"{path}.{field}")

    def _add_items(self, nest: Sequence[Nest], path: str) -> None:
        kind: Any = list if isinstance(nest, list) else tuple
        opener = _items_opener(len(nest), path)
        self._add_container((kind, len(nest)), len(nest), opener, kind)
        for index, item in enumerate(nest):
            self.add(item, f"{path}[{index}]")

    def _add_container(
        self, kind: Any, count: int, opener: _Open, build: _Build
    ) -> None:
        self.key.append(kind)
        index = len(self.specs)
        self.containers.append(_Container(index, count, opener, build))


def _mapping_opener(keys: list[Any], path: str) -> _Open:
    count = len(keys)
    get = _getter(keys)

    def open_mapping(value: Any) -> Sequence[Any]:
        kind = cast(Any, type(value))
        if kind is dict and len(value) == count:
            try:
                return get(value)
            except KeyError:
                pass  # The error below says which.
        if _is_mapping(value) and value.keys() == set(keys):
            return get(value)
        changes = _key_changes(keys, value)
        raise _mismatch(path, f"a dict with keys {keys}", value, changes)

    return open_mapping


def _mapping_builder(container: Any, keys: list[Any], order: list[Any]) -> _Build:
    """Returns a function that makes a dict, with its keys in `order`, from values.

    The values come in the order of `keys`.
    """
    # Not zipped strictly, which takes longer: `pack` has counted the values.
    if keys == order:
        return lambda values: container(zip(keys, values))  # noqa: B905
    arrange = _getter([keys.index(key) for key in order])
    return lambda values: container(zip(order, arrange(values)))  # noqa: B905


def _getter(keys: list[Any]) -> _Open:
    """Returns a function that looks up all `keys` in a container."""
    if len(keys) > 1:
        return operator.itemgetter(*keys)
    return lambda value: [value[key] for key in keys]


def _named_tuple_opener(kind: Any, path: str) -> _Open:
    fields = kind._fields

    def open_named_tuple(value: Any) -> Sequence[Any]:
        # Fields are compared too, because TF-Agents has a TimeStep of its own.
        if type(value) is kind or getattr(value, "_fields", None) == fields:
            return value
        raise _mismatch(path, f"a named tuple with fields {list(fields)}", value)

    return open_named_tuple


def _items_opener(count: int, path: str) -> _Open:
    def open_items(value: Any) -> Sequence[Any]:
        kind = cast(Any, type(value))
        if issubclass(kind, (list, tuple)) and len(value) == count:
            return value
        raise _mismatch(path, f"a list or tuple of length {count}", value)

    return open_items


def _flattener(containers: list[_Container]) -> Callable[[Any], list[Any]]:
    if not containers:
        return lambda value: [value]
    open_root = containers[0].open
    if len(containers) == 1:
        return lambda value: list(open_root(value))
    # A container is reached when all before it is flat, so its place is known.
    steps = [
        (part.index, slice(part.index, part.index + 1), part.open)
        for part in containers[1:]
    ]

    def flatten(value: Any) -> list[Any]:
        items = list(open_root(value))
        for index, place, open_part in steps:
            items[place] = open_part(items[index])
        return items

    return flatten


def _packer(containers: list[_Container], num_leaves: int, name: str) -> _Build:
    build = _builder(containers)

    def pack(leaves: Sequence[Any]) -> Nest:
        if len(leaves) != num_leaves:
            count = len(leaves)
            raise ValueError(f"{name}: expected {num_leaves} leaves, got {count}.")
        return build(leaves)

    return pack


def _builder(containers: list[_Container]) -> _Build:
    if not containers:
        return operator.itemgetter(0)
    build_root = containers[0].build
    if len(containers) == 1:
        return build_root
    # The steps of `flatten` backwards: what a container holds is built before it.
    steps = [
        (slice(part.index, part.index + part.count), part.build)
        for part in reversed(containers[1:])
    ]

    def build(leaves: Sequence[Any]) -> Nest:
        items = list(leaves)
        for place, build_part in steps:
            items[place] = (build_part(items[place]),)
        return build_root(items)

    return build


def _mismatch(path: str, expected: str, value: Any, detail: str = "") -> ValueError:
    return ValueError(f"{path}: expected {expected}, got {describe(value)}{detail}.")


def _key_changes(keys: list[Any], value: Any) -> str:
    if not _is_mapping(value):
        return ""
    missing = [key for key in keys if key not in value]
    unknown = [key for key in value if key not in keys]
    parts = (("missing", missing), ("not expected", unknown))
    return "".join(f"; {what}: {found}" for what, found in parts if found)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_named_tuple(value: Any) -> bool:
    return issubclass(type(value), tuple) and hasattr(value, "_fields")


def _is_list_or_tuple(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _sorted_if_possible(keys: Iterable[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)
