"""Whether nests of values fit their specs, and nests of specs agree."""

from __future__ import annotations

from typing import Any

from parallel_envs.specs import array_spec, nest


def validate(spec: nest.Nest, value: nest.Nest, name: str = "value") -> nest.Nest:
    """Returns `value` with each leaf as an array of its spec.

    Leaves are taken as `ArraySpec.validate` takes them; arrays that fit are not copied.

    >>> import numpy as np
    >>> spec = {"cam": array_spec.ArraySpec((2,), np.float32)}
    >>> validate(spec, {"cam": np.zeros((1, 2), np.float32)}, "observation")
    Traceback (most recent call last):
    ...
    ValueError: observation['cam'] does not fit its spec: expected float32 of shape \
(2,), got float32 of shape (1, 2).

    Args:
        spec: A nest of specs.
        value: A nest of the same structure.
        name: What the paths in errors begin with, for example "observation".

    Raises:
        ValueError: If structure, shape, dtype or bounds do not fit, with the path of
            the leaf, what was expected and what was found.
    """
    structure = nest.Structure(spec, name)
    leaves = structure.flatten(value)
    return structure.pack(
        [
            leaf_spec.validate(leaf, path)
            for leaf_spec, leaf, path in zip(
                structure.specs, leaves, structure.paths, strict=True
            )
        ]
    )


def assert_arrays_spec_nest(arrays: nest.Nest, spec: nest.Nest) -> None:
    """Raises ValueError where `check_arrays_nest` returns False, with the path."""
    structure = nest.Structure(spec, "arrays")
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

    >>> import numpy as np
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
    structure = nest.Structure(expected, name)
    for path, spec, other in zip(
        structure.paths, structure.specs, structure.flatten(found), strict=True
    ):
        if spec != other:
            return f"{path}: expected {_full(spec, other)}, got {_full(other, spec)}."
    return None


def _full(spec: Any, other: Any) -> str:
    """Describes `spec` by dtype and shape, or in full if `other` has the same."""
    described = array_spec.describe(spec)
    if described != array_spec.describe(other):
        return described
    return repr(spec.replace(name=None))
