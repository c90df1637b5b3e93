"""Whether nests of values fit their specs, and nests of specs agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from parallel_envs.specs import array_spec, nest


def validate(spec: nest.Nest, value: nest.Nest, name: str = "value") -> nest.Nest:
    """Returns `value` with each leaf as an array of its spec.

    Leaves are taken as `ArraySpec.validate` takes them; arrays that fit are not copied.

    >>> spec = array_spec.ArraySpec((2,), np.float32)
    >>> validate({"cam": spec}, {"cam": np.zeros(3, np.float32)}, "observation")
    Traceback (most recent call last):
    ...
    ValueError: observation['cam'] does not fit its spec: ... of shape (3,).

    Args:
        spec: A nest of specs.
        value: A nest of the same structure.
        name: What the paths in errors begin with, for example "observation".

    Raises:
        ValueError: If structure, shape, dtype or bounds do not fit, with the path of
            the leaf, what was expected and what was found.
    """
    structure = spec_structure(spec, name)
    leaves = structure.flatten(value)
    return structure.pack(
        [
            leaf_spec.validate(leaf, path)
            for leaf_spec, leaf, path in zip(
                structure.specs, leaves, structure.paths, strict=True
            )
        ]
    )


def spec_structure(spec: nest.Nest, name: str) -> nest.Structure:
    """Returns the `Structure` of a nest of specs.

    Raises:
        TypeError: If a leaf is not an `ArraySpec`, with its path.
        ValueError: If the keys of a dict cannot be sorted.
    """
    structure = nest.Structure(spec, name)
    for leaf, path in zip(structure.specs, structure.paths, strict=True):
        if not isinstance(leaf, array_spec.ArraySpec):
            raise TypeError(
                f"{path}: expected an ArraySpec, got {_kind(leaf)} {leaf!r}."
            )
    return structure


def assert_arrays_spec_nest(arrays: nest.Nest, spec: nest.Nest) -> None:
    """Raises ValueError where `check_arrays_nest` returns False, with the path."""
    structure = spec_structure(spec, "arrays")
    nest.assert_same_structure(spec, arrays, "arrays")
    for leaf_spec, leaf, path in zip(
        structure.specs, structure.flatten(arrays), structure.paths, strict=True
    ):
        if not leaf_spec.check_array(leaf):
            leaf_spec.validate(leaf, path)
            raise ValueError(
                f"{path} does not fit its spec: expected an array of "
                f"{leaf_spec.dtype}, got {leaf!r}."
            )


def check_arrays_nest(arrays: nest.Nest, spec: nest.Nest) -> bool:
    """Returns whether structure, shapes, dtypes and bounds of `arrays` fit `spec`.

    As in TF-Agents, arrays and numbers must fit as they are: nothing is cast.
    """
    try:
        assert_arrays_spec_nest(arrays, spec)
    except ValueError:
        return False
    return True


def difference(expected: nest.Nest, found: nest.Nest, name: str) -> str | None:
    """Returns what first differs between two nests of specs, or None.

    Names of specs do not count, and lists and tuples stand for each other.

    >>> a, b = (array_spec.ArraySpec((size,), np.int32) for size in (2, 3))
    >>> difference({"x": a}, {"x": b}, "observation")
    "observation['x']: expected int32 of shape (2,), got int32 of shape (3,)."

    Args:
        expected: A nest of specs.
        found: The nest that should be equal.
        name: What the path begins with.
    """
    try:
        nest.assert_same_structure(expected, found, name)
    except ValueError as error:
        return str(error)
    structure = spec_structure(expected, name)
    for path, spec, other in zip(
        structure.paths, structure.specs, structure.flatten(found), strict=True
    ):
        if spec != other:
            wanted, got = _contrast(spec, other)
            return f"{path}: expected {wanted}, got {got}."
    return None


def _kind(leaf: Any) -> str:
    kind = type(leaf)
    # Other libraries have specs of the same name, TF-Agents for example.
    is_like_ours = kind.__name__ in ("ArraySpec", "BoundedArraySpec")
    return f"{kind.__module__}.{kind.__name__}" if is_like_ours else kind.__name__


def _contrast(spec: Any, other: Any) -> tuple[str, str]:
    """Describes two unequal specs by what sets them apart."""
    texts = array_spec.describe(spec), array_spec.describe(other)
    if texts[0] != texts[1]:
        return texts
    if array_spec.is_bounded(spec) != array_spec.is_bounded(other):
        return _with_or_without_bounds(spec), _with_or_without_bounds(other)
    for which in ("minimum", "maximum"):
        one, two = np.broadcast_arrays(getattr(spec, which), getattr(other, which))
        differing = np.argwhere(one != two)
        if len(differing):
            index = tuple(int(i) for i in differing[0])
            where = f" at index {index}" if index else ""
            return f"a {which} of {one[index]}{where}", str(two[index])
    return repr(spec), repr(other)


def _with_or_without_bounds(spec: array_spec.ArraySpec) -> str:
    which = "with" if array_spec.is_bounded(spec) else "without"
    return f"{array_spec.describe(spec)} {which} bounds"
