"""All rows of a replay buffer, side by side or in a dataset that ends."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from parallel_envs.adapters.tf_agents import library, tensors, trajectories
from parallel_envs.specs import nest

_BufferInfo: Any = library.part("replay_buffers.tf_uniform_replay_buffer").BufferInfo
_tf: Any = importlib.import_module("tensorflow")

Nest = nest.Nest


@_tf.autograph.experimental.do_not_convert
def gathered(gather: Callable[[], Nest], item_spec: Nest) -> Nest:
    """Returns the tensors of all rows, leaves `[B, T, ...]`, in a graph too."""
    items = tensors.of_arrays(gather, item_spec, (None, None))
    return trajectories.to_tf_agents_trajectory(items)


def passed(
    gather: Callable[[], Nest],
    item_spec: Nest,
    sample_batch_size: int | None,
    num_steps: int | None,
    sequence_preprocess_fn: Callable[[Any], Any] | None,
) -> Any:
    """Returns a dataset that ends when all rows were seen once.

    Args:
        gather: Returns all rows, leaves `[B, T, ...]`, when an iteration begins.
        item_spec: What items look like, as our specs.
        sample_batch_size: Number of streams that go side by side; None for one after
            the other, without that dimension.
        num_steps: Rows in an element, without overlap; None for single rows, without
            that dimension. What is left at the end of a stream is a shorter element,
            or dropped where streams go side by side, as in TF-Agents.
        sequence_preprocess_fn: Applied to the rows of each stream before.
    """

    @_tf.autograph.experimental.do_not_convert
    def streams(_: Any) -> Any:
        items = gathered(gather, item_spec)
        shape = _tf.shape(_tf.nest.flatten(items)[0], out_type=_tf.int64)[:2]
        ids = _tf.reshape(_tf.range(shape[0] * shape[1]), shape)
        return _rows(items, _BufferInfo(ids, ()))

    dataset = _tf.data.Dataset.range(1).flat_map(streams)
    if sequence_preprocess_fn is not None:
        dataset = mapped(dataset, sequence_preprocess_fn)
    if sample_batch_size is None:
        return dataset.flat_map(_windows(num_steps, drop_remainder=False))
    dataset = dataset.batch(sample_batch_size).map(_swapped)
    dataset = dataset.flat_map(_windows(num_steps, drop_remainder=True))
    return dataset if num_steps is None else dataset.map(_swapped)


def mapped(dataset: Any, sequence_preprocess_fn: Callable[[Any], Any]) -> Any:
    """Returns the dataset with the items, but not the infos, of a function."""

    def preprocessed(items: Any, info: Any) -> tuple[Any, Any]:
        return sequence_preprocess_fn(items), info

    return dataset.map(preprocessed)


def _rows(*element: Any) -> Any:
    return _tf.data.Dataset.from_tensor_slices(element)


def _windows(num_steps: int | None, drop_remainder: bool) -> Callable[..., Any]:
    def windows(*element: Any) -> Any:
        return _rows(*element).batch(num_steps, drop_remainder)

    return _rows if num_steps is None else windows


def _swapped(*element: Any) -> Any:
    return tensors.swap_outer_dims(element)
