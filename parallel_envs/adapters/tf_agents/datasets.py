"""Rows of a replay buffer as tensors and as datasets of TensorFlow.

Elements are the pairs that TF-Agents' replay buffers give: items, and a `BufferInfo`.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs.adapters.tf_agents import (
    library,
    passes,
    tensors,
    trajectories,
    values,
)
from parallel_envs.specs import array_spec, checks, nest

_BufferInfo: Any = library.part("replay_buffers.tf_uniform_replay_buffer").BufferInfo
_tf: Any = importlib.import_module("tensorflow")

Nest = nest.Nest
Integers = npt.NDArray[np.int64]

Draw = Callable[[], tuple[Nest, Integers, float]]
"""Returns windows, leaves `[B, T, ...]`, their keys `[B]`, and their probability."""


def agreed_spec(item_spec: Nest | None, data_spec: Nest | None) -> Nest:
    """Returns what items look like, as our specs.

    Args:
        item_spec: What is known of the items of a buffer; None before the first.
        data_spec: What its user says of them, in specs of either library, or None.

    Raises:
        ValueError: If neither is known, if they differ, or if the size of a leaf
            varies; it says which leaf.
    """
    if data_spec is not None:
        # Without bounds: a buffer learns none.
        plain = array_spec.ArraySpec.from_spec
        data_spec = nest.map_structure(plain, _ours(data_spec))
    if item_spec is None:
        item_spec = data_spec
    if item_spec is None:
        raise ValueError(
            "data_spec: nothing was added yet, so shapes and dtypes are not known: add "
            "items before, or pass data_spec=, for example agent.collect_data_spec."
        )
    if data_spec is not None:
        difference = checks.difference(data_spec, item_spec, "items")
        if difference is not None:
            raise ValueError(f"data_spec is not that of the buffer: {difference}")
        item_spec = data_spec  # A buffer has tuples where this has lists.
    values.to_tf_agents_spec(item_spec, "items")  # Refuses sizes that vary.
    return trajectories.from_tf_agents_trajectory(item_spec)


def sampled(
    draw: Draw,
    item_spec: Nest,
    sample_batch_size: int | None,
    num_steps: int | None,
    with_probabilities: bool,
) -> Any:
    """Returns an endless dataset of what `draw` returns; arguments as for `drawn`."""

    # Else AutoGraph rewrites Python that is not for a graph, at a cost in each draw.
    @_tf.autograph.experimental.do_not_convert
    def element(_: Any) -> tuple[Any, Any]:
        return drawn(draw, item_spec, sample_batch_size, num_steps, with_probabilities)

    # Measured: never slower than `from_generator`, and in parallel calls Python's
    # threads are in each other's way.
    return _tf.data.Dataset.counter().map(element)


@_tf.autograph.experimental.do_not_convert
def drawn(
    draw: Draw,
    item_spec: Nest,
    sample_batch_size: int | None,
    num_steps: int | None,
    with_probabilities: bool,
) -> tuple[Any, Any]:
    """Returns the tensors of one draw, in a graph too.

    Args:
        draw: Called once, or at each run of the graph.
        item_spec: What items look like, as our specs.
        sample_batch_size: B, or None where there is to be no such dimension.
        num_steps: T, or None in the same way.
        with_probabilities: Whether the probability is told.
    """
    outer = (sample_batch_size, num_steps)
    # One window, or one step of it, where a dimension is left out.
    kept = tuple(0 if size is None else slice(None) for size in outer)
    shape = tuple(size for size in outer if size is not None)
    ids = array_spec.ArraySpec((), np.int64)
    probability = array_spec.ArraySpec((), np.float32)
    info_spec = (ids, probability if with_probabilities else ())

    def leaves() -> tuple[Nest, Nest]:
        items, keys, chance = draw()
        every = np.repeat(keys[:, np.newaxis], num_steps or 1, axis=1)
        chances = np.full(every.shape, chance, np.float32)
        info = (every, chances if with_probabilities else ())
        return nest.map_structure(operator.itemgetter(kept), (items, info))

    items, info = tensors.of_arrays(leaves, (item_spec, info_spec), shape)
    return trajectories.to_tf_agents_trajectory(items), _BufferInfo(*info)


def preprocessed(
    dataset: Any,
    sequence_preprocess_fn: Callable[[Any], Any],
    sample_batch_size: int | None,
) -> Any:
    """Returns the dataset with a function applied to each of its windows."""
    if sample_batch_size is None:
        return passes.mapped(dataset, sequence_preprocess_fn)
    windows = passes.mapped(dataset.unbatch(), sequence_preprocess_fn)
    return windows.batch(sample_batch_size, drop_remainder=True)


def _ours(data_spec: Nest) -> Nest:
    return trajectories.from_tf_agents_trajectory(
        values.from_tf_agents_spec(data_spec, "data_spec")
    )
