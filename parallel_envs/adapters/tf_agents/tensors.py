"""Arrays that a function of Python returns as tensors, and tensors rearranged."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from parallel_envs.specs import checks, nest

_tf: Any = importlib.import_module("tensorflow")

Nest = nest.Nest


def of_arrays(
    function: Callable[[], Nest], spec: Nest, outer_shape: Sequence[int | None]
) -> Nest:
    """Returns the nest of arrays that `function` returns, as tensors.

    In a graph they are operations, and the function is called when they run. Shapes and
    dtypes are known before.

    Args:
        function: Returns a nest of arrays.
        spec: The nest as our specs.
        outer_shape: What the shapes of `spec` have before them; None where unknown.
    """
    structure = checks.spec_structure(spec, "items")
    returned = _tf.numpy_function(
        lambda: structure.flatten(function()),
        [],
        [_tf.as_dtype(leaf.dtype) for leaf in structure.specs],
    )
    # Outside of a graph a single tensor comes without its list.
    leaves: list[Any] = _tf.nest.flatten(returned)
    return structure.pack(
        [
            _tf.ensure_shape(tensor, (*outer_shape, *leaf.shape))
            for tensor, leaf in zip(leaves, structure.specs, strict=True)
        ]
    )


def swap_outer_dims(tensors: Nest) -> Nest:
    """Returns `[T, B, ...]` of `[B, T, ...]`, and the other way round."""

    def swapped(tensor: Any) -> Any:
        return _tf.transpose(tensor, (1, 0, *range(2, tensor.shape.rank)))

    return _tf.nest.map_structure(swapped, tensors)


def unstacked(tensors: Nest, axis: int) -> tuple[Nest, ...]:
    """Returns the nests that lie along an axis whose size is known."""
    leaves = [_tf.unstack(leaf, axis=axis) for leaf in _tf.nest.flatten(tensors)]
    return tuple(
        _tf.nest.pack_sequence_as(tensors, step) for step in zip(*leaves, strict=True)
    )
