"""What the items of a buffer consist of: learned from the first, asked of the rest."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import numpy.typing as npt

from parallel_envs.specs.array_spec import ArraySpec
from parallel_envs.specs.nest import Nest, Structure

Array = npt.NDArray[Any]

# What the index keeps of a row, as bits. A boundary is the row between two episodes
# that TF-Agents' drivers deliver: LAST in `step_type`, FIRST in `next_step_type`.
FIRST = 1
LAST = 2
ENDS_EPISODE = 4
BOUNDARY = 8

_KIND_OF_STEP_TYPE = np.array([FIRST, 0, LAST | ENDS_EPISODE], np.uint8)
_LAST_STEP_TYPE = 2

_BATCH_HINT = " A batch goes in with add_batch()."


class Field(NamedTuple):
    """One entry at the top of an item.

    Attributes:
        leaves: Which leaves of the item are its own.
        pack: Makes its nest of these leaves.
    """

    leaves: list[int]
    pack: Callable[[Sequence[Any]], Nest]


class Layout:
    """Takes batches of items apart and puts leaves together again.

    A list is not a container here. It is a leaf whose size varies from row to row and
    holds one array for each row, as environments deliver such leaves.

    Attributes:
        nest: An item with an `ArraySpec` in the place of each array. Sizes that vary
            are None.
        specs: The leaves of `nest`.
        is_trajectory: Whether rows have `next_step_type`, and so hold the reward that
            follows them.
    """

    def __init__(self, nest: Nest) -> None:
        """Raises ValueError if it has no leaves, or if `step_type` is no integer."""
        self._structure = Structure(nest, "items")
        if not self._structure.specs:
            raise ValueError("items: expected at least one leaf, got an empty nest.")
        self.nest = nest
        self.specs: tuple[ArraySpec, ...] = self._structure.specs
        self._step_type = self._step_type_leaf("step_type")
        next_step_type = self._step_type_leaf("next_step_type")
        self._next_step_type = None if self._step_type is None else next_step_type
        self.is_trajectory = self._next_step_type is not None

    @classmethod
    def of(cls, items: Nest, num_rows: int | None) -> Layout:
        """Returns the layout of a batch, leaves `[num_rows, ...]`, or of one item.

        Args:
            items: The batch, or one item.
            num_rows: Size of the batch; None if `items` is one item.

        Raises:
            ValueError: If a leaf has another number of rows, or holds Python objects.
        """
        return cls(_spec_nest(items, "items", num_rows))

    def rows(self, items: Nest, num_rows: int | None) -> list[Array]:
        """Returns the leaves of a batch, or of one item, checked.

        Returns:
            An array `[num_rows, ...]` for each leaf, not copied where that is possible;
            one item is a batch of 1. For a leaf of variable size an object array that
            holds copies.

        Raises:
            ValueError: If structure, dtype or shape is not that of the first item. The
                path is in the message.
        """
        leaves = self._structure.flatten(items)
        return [
            _checked_leaf(leaf, spec, path, num_rows)
            for leaf, spec, path in zip(
                leaves, self.specs, self._structure.paths, strict=True
            )
        ]

    def kinds(self, rows: Sequence[Array]) -> npt.NDArray[np.uint8]:
        """Returns the bits of each row; none where items have no `step_type`.

        Raises:
            ValueError: If a step type is not 0, 1 or 2.
        """
        if self._step_type is None:
            return np.zeros(len(rows[0]), np.uint8)
        kinds = _KIND_OF_STEP_TYPE[self._step_types(rows, self._step_type)]
        if self._next_step_type is not None:
            next_step_types = self._step_types(rows, self._next_step_type)
            kinds[next_step_types == _LAST_STEP_TYPE] |= ENDS_EPISODE
            kinds[(kinds & LAST) != 0] |= BOUNDARY
        return kinds

    def field(self, name: str) -> Field | None:
        """Returns the entry `name` of the items, or None if they have none."""
        whole = self.nest
        if name in getattr(whole, "_fields", ()):
            prefix, nest = f"items.{name}", getattr(whole, name)
        elif isinstance(whole, Mapping) and name in whole:
            prefix, nest = f"items[{name!r}]", cast(Nest, whole[name])
        else:
            return None
        below = (f"{prefix}[", f"{prefix}.")
        leaves = [
            leaf
            for leaf, path in enumerate(self._structure.paths)
            if path == prefix or path.startswith(below)
        ]
        return Field(leaves, Structure(nest, prefix).pack)

    def pack(self, leaves: Sequence[Any]) -> Nest:
        """Returns an item of these leaves, in the containers of the first item."""
        return self._structure.pack(leaves)

    def _step_type_leaf(self, name: str) -> int | None:
        field = self.field(name)
        if field is None:
            return None
        spec = self.specs[field.leaves[0]] if len(field.leaves) == 1 else None
        if spec is None or spec.shape != () or spec.dtype.kind not in "iu":
            raise ValueError(
                f"items: {name} is expected to be one integer a row (0 FIRST, 1 MID, "
                f"2 LAST), got {spec if spec is not None else 'a nest'}."
                f"{_BATCH_HINT if spec is not None and len(spec.shape) == 1 else ''}"
            )
        return field.leaves[0]

    def _step_types(self, rows: Sequence[Array], leaf: int) -> Array:
        step_types = rows[leaf]
        if step_types.size and not 0 <= step_types.min() <= step_types.max() <= 2:
            raise ValueError(
                f"{self._structure.paths[leaf]}: expected 0 (FIRST), 1 (MID) or "
                f"2 (LAST), got {np.unique(step_types).tolist()}."
            )
        return step_types


def _spec_nest(items: Nest, path: str, num_rows: int | None) -> Nest:
    """Returns `items` with an `ArraySpec` of one row in the place of each leaf."""
    if isinstance(items, Mapping):
        mapping = cast("Mapping[Any, Nest]", items)
        specs = {
            key: _spec_nest(value, f"{path}[{key!r}]", num_rows)
            for key, value in mapping.items()
        }
        is_ordered = isinstance(items, collections.OrderedDict)
        return collections.OrderedDict(specs) if is_ordered else specs
    if isinstance(items, tuple):
        return _spec_tuple(cast("tuple[Nest, ...]", items), path, num_rows)
    if isinstance(items, list):
        rows = _listed_rows(cast("list[Any]", items), path, num_rows)
        return ArraySpec((None,) * rows[0].ndim, _native_dtype(rows[0], path))
    array = _batched(items, path, num_rows)
    return ArraySpec(array.shape[1:], _native_dtype(array, path))


def _spec_tuple(items: tuple[Nest, ...], path: str, num_rows: int | None) -> Nest:
    names = cast("Sequence[str] | None", getattr(items, "_fields", None))
    if names is None:
        return tuple(
            _spec_nest(value, f"{path}[{index}]", num_rows)
            for index, value in enumerate(items)
        )
    make = cast("Callable[..., Nest]", type(items))
    return make(
        *(
            _spec_nest(value, f"{path}.{name}", num_rows)
            for name, value in zip(names, items, strict=True)
        )
    )


def _checked_leaf(leaf: Any, spec: ArraySpec, path: str, num_rows: int | None) -> Array:
    if None in spec.shape:
        return _checked_variable_leaf(leaf, spec, path, num_rows)
    array = _batched(leaf, path, num_rows)
    if array.shape[1:] != spec.shape or _native_dtype(array, path) != spec.dtype:
        is_batch = num_rows is None and array.shape[2:] == spec.shape != array.shape[1:]
        hint = _BATCH_HINT if is_batch else ""
        _refuse(array.shape[1:], array.dtype, spec, path, hint)
    return array


def _checked_variable_leaf(
    leaf: Any, spec: ArraySpec, path: str, num_rows: int | None
) -> Array:
    if not isinstance(leaf, (list, tuple)):
        raise ValueError(
            f"{path}: expected a list with one array for each row, as in the first "
            f"item, got a value of type {type(leaf).__name__}."
        )
    arrays = _listed_rows(cast("Sequence[Any]", leaf), path, num_rows)
    rows = np.empty(len(arrays), object)
    for index, array in enumerate(arrays):
        if array.ndim != len(spec.shape) or _native_dtype(array, path) != spec.dtype:
            _refuse(array.shape, array.dtype, spec, f"{path}, row {index}")
        rows[index] = np.array(array, spec.dtype, order="C")
    return rows


def _batched(leaf: Any, path: str, num_rows: int | None) -> Array:
    """Returns a leaf as an array `[num_rows, ...]`, one item as a batch of 1."""
    array = _array(leaf, path)
    if num_rows is None:
        return array[np.newaxis]
    if array.shape[:1] != (num_rows,):
        raise ValueError(
            f"{path}: expected {num_rows} row{'s' if num_rows != 1 else ''} in the "
            f"first dimension, got an array of shape {array.shape}. {_way_in(array)}"
        )
    return array


def _way_in(array: Array) -> str:
    """Returns how to add an array that is not of so many rows as there are streams."""
    if not array.ndim:
        return "One item goes in with add()."
    found = len(array)
    return (
        f"For {found} rows make the buffer with num_streams={found}, or pass streams= "
        f"with {found} numbers; one item goes in with add()."
    )


def _listed_rows(rows: Sequence[Any], path: str, num_rows: int | None) -> list[Array]:
    expected = 1 if num_rows is None else num_rows
    if len(rows) != expected:
        raise ValueError(
            f"{path}: a list is a leaf whose size varies, with one array for each row: "
            f"expected {expected}, got {len(rows)}. Use an array where the size is "
            "fixed, and a tuple for a nest."
        )
    return [_array(row, path) for row in rows]


def _array(value: Any, path: str) -> Array:
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: expected an array: {error}") from error


def _native_dtype(array: Array, path: str) -> np.dtype[Any]:
    if array.dtype.hasobject:
        raise ValueError(
            f"{path}: expected numbers, booleans or text of fixed size, got dtype "
            f"{array.dtype}. For arrays that differ in size give a list with one "
            "array for each row."
        )
    return array.dtype.newbyteorder("=")


def _refuse(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    spec: ArraySpec,
    path: str,
    hint: str = "",
) -> NoReturn:
    raise ValueError(
        f"{path}: expected {spec.dtype} of shape {spec.shape} as in the first item, "
        f"got {dtype} of shape {shape}.{hint}"
    )
