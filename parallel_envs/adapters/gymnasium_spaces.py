"""Gymnasium's spaces as specs, and their values as arrays and back.

| space | spec | value the environment is given |
|---|---|---|
| Box, MultiBinary, MultiDiscrete | bounded, the space's shape and dtype | array |
| Discrete | bounded, shape `()`, from `start` to `start + n - 1` | numpy scalar |
| Dict, Tuple | dict, tuple | dict, tuple |
| Text | uint32 code points of shape `(None,)` | str |
| Sequence | its feature's leaves with a leading `None` | tuple, or arrays if stacked |

`None` marks a size that varies. `"".join(map(chr, leaf))` is the text of a leaf.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from parallel_envs.specs import array_spec, nest

Nest = nest.Nest


@dataclasses.dataclass(frozen=True)
class AdaptedSpace:
    """A space seen from our side.

    Attributes:
        spec: Nest of `BoundedArraySpec`, named by their paths.
        read: Takes a value of the space and returns a nest of arrays for `spec`. A
            value without the form of the space is returned as it is, for whoever
            checks it against `spec` to name it.
        write: Takes a nest of arrays that fits `spec` and returns a value of the
            space. Raises TypeError where an array is of another kind of number.
    """

    spec: Nest
    read: Callable[[Any], Nest]
    write: Callable[[Nest], Any]


def adapt(space: spaces.Space[Any], path: str) -> AdaptedSpace:
    """Returns `space` as specs with the functions between the two.

    Args:
        space: Any nest of the spaces in the table above, or of subclasses.
        path: What it is a space of, for example `observation`.

    Raises:
        TypeError: If a space in it has no form as arrays. Names it and its path.
    """
    for kind, build in _BUILDERS.items():
        if isinstance(space, kind):
            return build(space, path)
    supported = ", ".join(kind.__name__ for kind in _BUILDERS)
    raise TypeError(
        f"{path}: expected one of Gymnasium's spaces {supported}, got {space!r}. "
        "Wrap the environment so that it uses one of these."
    )


def _adapt_array(space: Any, path: str) -> AdaptedSpace:
    minimum, maximum = _bounds(space)
    spec = array_spec.BoundedArraySpec(
        space.shape, space.dtype, _simplified(minimum), _simplified(maximum), path
    )
    dtype = np.dtype(spec.dtype)

    def read(value: Any) -> Any:
        if value.__class__ is np.ndarray and value.dtype == dtype:
            return value
        return _as_array(value, dtype)

    def write(value: Any) -> npt.NDArray[Any]:
        return np.asarray(value).astype(dtype, casting="same_kind", copy=False)

    return AdaptedSpace(spec, read, write)


def _bounds(space: Any) -> tuple[Any, Any]:
    if hasattr(space, "nvec"):
        return space.start, space.start + space.nvec - 1
    if hasattr(space, "low"):
        return space.low, space.high
    return np.int8(0), np.int8(1)


def _simplified(bound: Any) -> Any:
    """Returns a scalar where all elements are alike: an image has 20,000 of them."""
    if bound.size and (bound == bound.flat[0]).all():
        return bound.flat[0]
    return bound


def _as_array(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns an array of `dtype`, or of its own dtype if a cast changed its values.

    Python's and NumPy's scalars, and lists, have no dtype to insist on, so their
    floats are rounded to that of the space.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        return array
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    rounds = not isinstance(value, np.ndarray) and dtype.kind == "f"
    is_same = rounds or np.array_equal(cast, array, equal_nan=True)
    return cast if is_same else array


def _adapt_discrete(space: Any, path: str) -> AdaptedSpace:
    first, last = space.start, space.start + space.n - 1
    spec = array_spec.BoundedArraySpec((), space.dtype, first, last, path)
    dtype = np.dtype(spec.dtype)
    scalar = dtype.type

    def read(value: Any) -> Any:
        if value.__class__ is int or value.__class__ is scalar:
            return scalar(value)
        return _as_array(value, dtype)

    def write(value: Any) -> Any:
        # What `space.sample()` gives; arrays of shape () would not be hashable.
        return value if value.__class__ is scalar else scalar(operator.index(value))

    return AdaptedSpace(spec, read, write)


def _adapt_dict(space: Any, path: str) -> AdaptedSpace:
    items = {key: adapt(item, f"{path}[{key!r}]") for key, item in space.items()}
    readers = {key: item.read for key, item in items.items()}
    writers = {key: item.write for key, item in items.items()}

    def read(value: Any) -> Any:
        if not _is_mapping(value) or value.keys() != readers.keys():
            return value
        return {key: read_item(value[key]) for key, read_item in readers.items()}

    def write(value: Any) -> Any:
        return {key: write_item(value[key]) for key, write_item in writers.items()}

    return AdaptedSpace({key: item.spec for key, item in items.items()}, read, write)


def _adapt_tuple(space: Any, path: str) -> AdaptedSpace:
    items = [adapt(item, f"{path}[{index}]") for index, item in enumerate(space)]
    readers = [item.read for item in items]
    writers = [item.write for item in items]

    def read(value: Any) -> Any:
        if not _is_sequence(value) or len(value) != len(readers):
            return value
        return tuple(
            read_item(item) for read_item, item in zip(readers, value, strict=True)
        )

    def write(value: Any) -> Any:
        return tuple(
            write_item(item) for write_item, item in zip(writers, value, strict=True)
        )

    return AdaptedSpace(tuple(item.spec for item in items), read, write)


def _adapt_text(space: Any, path: str) -> AdaptedSpace:
    codes = [ord(character) for character in space.character_set] or [0]
    spec = array_spec.BoundedArraySpec((None,), np.uint32, min(codes), max(codes), path)

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return np.array([ord(character) for character in value], np.uint32)

    def write(value: Any) -> str:
        return "".join(map(chr, value))

    return AdaptedSpace(spec, read, write)


def _adapt_sequence(space: Any, path: str) -> AdaptedSpace:
    feature = adapt(space.feature_space, f"{path}[...]")
    for leaf in nest.flatten(feature.spec):
        if None in leaf.shape:
            raise TypeError(
                f"{leaf.name}: expected items of one size in a Sequence, got "
                f"{space.feature_space!r}, which varies itself."
            )
    spec = nest.map_structure(_with_length, feature.spec)
    if space.stack:
        stacked = adapt(space.stacked_feature_space, path)
        return AdaptedSpace(spec, stacked.read, stacked.write)
    return AdaptedSpace(spec, _sequence_reader(feature), _sequence_writer(feature))


def _with_length(leaf: array_spec.BoundedArraySpec) -> array_spec.BoundedArraySpec:
    return array_spec.BoundedArraySpec(
        (None, *leaf.shape), leaf.dtype, leaf.minimum, leaf.maximum, leaf.name
    )


def _sequence_reader(feature: AdaptedSpace) -> Callable[[Any], Any]:
    def empty(leaf: array_spec.BoundedArraySpec) -> npt.NDArray[Any]:
        return np.zeros((0, *leaf.shape), leaf.dtype)

    def read(value: Any) -> Any:
        if not _is_sequence(value):
            return value
        if not value:
            return nest.map_structure(empty, feature.spec)
        items = [feature.read(item) for item in value]
        return nest.map_structure(lambda *leaves: np.stack(leaves), *items)

    return read


def _sequence_writer(feature: AdaptedSpace) -> Callable[[Any], Any]:
    def write(value: Any) -> tuple[Any, ...]:
        items = zip(*nest.flatten(value), strict=True)
        return tuple(feature.write(nest.pack(feature.spec, item)) for item in items)

    return write


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (tuple, list))


_BUILDERS: dict[type[Any], Callable[[Any, str], AdaptedSpace]] = {
    spaces.Box: _adapt_array,
    spaces.Discrete: _adapt_discrete,
    spaces.MultiBinary: _adapt_array,
    spaces.MultiDiscrete: _adapt_array,
    spaces.Dict: _adapt_dict,
    spaces.Tuple: _adapt_tuple,
    spaces.Text: _adapt_text,
    spaces.Sequence: _adapt_sequence,
}
