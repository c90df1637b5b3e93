"""Nests: arrays held together by dicts, lists, tuples and named tuples.

The leaves of a nest have one order: that of the items, dict keys sorted, as in
`tf.nest`. Empty containers are kept. Two tools work on nests. The functions take any
nest apart by walking over it (dm-tree does it in C++). A `Structure` knows the nest in
advance, so that each value is taken apart without a search for what it consists of.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parallel_envs.specs.structure import Nest as Nest
from parallel_envs.specs.structure import Structure as Structure
from parallel_envs.specs.structure import describe as describe


def flatten(nest: Nest) -> list[Any]:
    """Returns the leaves of `nest`.

    >>> flatten({"b": 1, "a": (2, [3])})
    [2, 3, 1]

    Raises:
        ValueError: If the keys of a dict cannot be sorted.
    """
    try:
        return _tree().flatten(nest)
    except TypeError as error:
        raise ValueError(
            f"nest: the keys of a dict cannot be sorted: {error}."
        ) from None


def map_structure(fn: Callable[..., Any], *nests: Nest) -> Nest:
    """Returns a nest like the first of `nests` with `fn(leaf, ...)` for each leaf.

    >>> import operator
    >>> map_structure(operator.add, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}

    Raises:
        ValueError: If the nests differ in structure.
    """
    return _tree().map_structure(fn, *nests, check_types=False)


def pack(structure: Nest, leaves: Sequence[Any]) -> Nest:
    """Returns a nest like `structure` that holds `leaves`.

    >>> pack({"b": 0, "a": (0, 0)}, [1, 2, 3])
    {'b': 3, 'a': (1, 2)}

    Raises:
        ValueError: If the number of leaves is another.
    """
    return _tree().unflatten_as(structure, leaves)


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
            raise ValueError(f"{path}: expected a leaf, got {describe(leaf)}.")


@functools.cache
def _tree() -> Any:
    """Returns dm-tree, loaded when it is first needed.

    Its import takes as long as that of all the rest here together, and a worker, whose
    nests have known structures, starts without.
    """
    import tree  # pyright: ignore[reportMissingTypeStubs]

    return tree
