"""One of our replay buffers where code asks for one of TF-Agents."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs.adapters.tf_agents import datasets, library, passes, tensors
from parallel_envs.replay.replay_buffer import ReplayBuffer
from parallel_envs.specs import array_spec, batching, checks, nest

_Base: Any = library.part("replay_buffers.replay_buffer").ReplayBuffer
_tf: Any = importlib.import_module("tensorflow")

Nest = nest.Nest


class TFAgentsReplayBuffer(_Base):
    """A `ReplayBuffer` of TF-Agents whose rows are kept by one of ours.

    It goes where `TFUniformReplayBuffer` goes: `add_batch` is an observer of drivers of
    either library, those that run as graphs of TensorFlow too, and `as_dataset` feeds
    agents and learners. What differs:

    - Samples are windows as our buffer draws them. None goes over the end of an episode
      and none starts in the boundary between two.
    - `ids` is the key of the window's first row, at each of its steps. `probabilities`
      is `()` in `as_dataset`, since they need a count at each draw; in `get_next` it is
      there, and like `ids` has an entry for each step.
    - `num_parallel_calls` changes nothing: Python draws one batch at a time.
    - It can wait for rows, and it lies outside of TensorFlow: in NumPy's memory, saved
      and loaded by `buffer.save` and `buffer.load`, not by TensorFlow's checkpoints.

    It is made of two things:

        buffer = TFAgentsReplayBuffer(
            agent.collect_data_spec,
            pe.ReplayBuffer(capacity=100_000, num_streams=env.batch_size),
        )
    """

    def __init__(
        self, data_spec: Nest, buffer: ReplayBuffer, *, timeout: float | None = 0.0
    ) -> None:
        """Stands for `buffer`, which still belongs to the caller.

        Args:
            data_spec: One item as a nest of specs, for example
                `agent.collect_data_spec`.
            buffer: Keeps the rows; a stream for each row of the batch.
            timeout: Seconds that `as_dataset` waits while there are not enough rows;
                None waits for ever.

        Raises:
            TypeError: If `buffer` is no `ReplayBuffer` of ours.
            ValueError: If `buffer` has items that are not of `data_spec`.
        """
        if not isinstance(buffer, ReplayBuffer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"buffer: expected a parallel_envs.ReplayBuffer, got {buffer!r:.200}."
            )
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            data_spec, buffer.capacity * buffer.num_streams
        )
        item_spec = datasets.agreed_spec(buffer.item_spec, data_spec)
        # In an object, since a `tf.Module` makes its own containers of those that are
        # its attributes.
        self._rows = _Rows(buffer, item_spec)
        self._timeout = timeout

    @property
    def buffer(self) -> ReplayBuffer:
        """Our buffer."""
        return self._rows.buffer

    @_tf.autograph.experimental.do_not_convert
    def add_batch(self, items: Nest, streams: npt.ArrayLike | None = None) -> Any:
        """Adds one row to each stream, or rows to the streams that are named.

        Args:
            items: A nest as in `data_spec`, for example the `Trajectory` of either
                library, of arrays or tensors, leaves `[num_streams, ...]`; `[B, ...]`
                with `streams`.
            streams: The stream of each row, integers `[B]`; `AsyncDriver` tells them.

        Returns:
            In a graph the operation that adds them, else None.

        Raises:
            ValueError: If the items are not of `data_spec`, with the path of the leaf.
        """
        if _tf.executing_eagerly():
            return self._rows.add(items, streams)
        if streams is None:
            streams = np.arange(self.buffer.num_streams)
        return _tf.numpy_function(
            self._rows.add_leaves, [streams, *self._rows.structure.flatten(items)], []
        )

    @_tf.autograph.experimental.do_not_convert
    def _num_frames(self) -> Any:
        return _tf.numpy_function(lambda: np.int64(len(self.buffer)), [], _tf.int64)

    def _get_next(
        self, sample_batch_size: int | None, num_steps: int | None, time_stacked: bool
    ) -> Any:
        draw = functools.partial(
            self._rows.draw,
            1 if sample_batch_size is None else sample_batch_size,
            1 if num_steps is None else num_steps,
        )
        items, info = datasets.drawn(
            draw, self._rows.item_spec, sample_batch_size, num_steps, True
        )
        if num_steps is None or time_stacked:
            return items, info
        axis = 0 if sample_batch_size is None else 1
        infos = tensors.unstacked(info, axis)
        return tensors.unstacked(items, axis), type(info)(*zip(*infos, strict=True))

    def _as_dataset(
        self,
        sample_batch_size: int | None,
        num_steps: int | None,
        sequence_preprocess_fn: Callable[[Any], Any] | None,
        num_parallel_calls: int | None,
    ) -> Any:
        del num_parallel_calls  # Python draws one batch at a time.
        dataset = self.buffer.as_dataset(
            sample_batch_size,
            num_steps,
            data_spec=self._rows.item_spec,
            timeout=self._timeout,
        )
        if sequence_preprocess_fn is None:
            return dataset
        if num_steps is None:
            raise ValueError(
                "sequence_preprocess_fn: expected num_steps with it, since it is given "
                "windows of so many steps, got num_steps=None."
            )
        return datasets.preprocessed(dataset, sequence_preprocess_fn, sample_batch_size)

    def _single_deterministic_pass_dataset(
        self,
        sample_batch_size: int | None,
        num_steps: int | None,
        sequence_preprocess_fn: Callable[[Any], Any] | None,
        num_parallel_calls: int | None,
    ) -> Any:
        del num_parallel_calls  # There is nothing to compute for an element.
        return passes.passed(
            self._rows.gather,
            self._rows.item_spec,
            sample_batch_size,
            num_steps,
            sequence_preprocess_fn,
        )

    def _gather_all(self) -> Any:
        return passes.gathered(self._rows.gather, self._rows.item_spec)

    @_tf.autograph.experimental.do_not_convert
    def _clear(self) -> Any:
        if _tf.executing_eagerly():
            return self.buffer.clear()
        return _tf.numpy_function(self.buffer.clear, [], [])


class _Rows:
    """A buffer of items of a known spec.

    Attributes:
        buffer: Keeps them.
        item_spec: What they look like, as our specs.
        structure: The same, to take items apart.
    """

    def __init__(self, buffer: ReplayBuffer, item_spec: Nest) -> None:
        self.buffer = buffer
        self.item_spec = item_spec
        self.structure = checks.spec_structure(item_spec, "items")
        self._batch_spec = functools.lru_cache(
            functools.partial(batching.add_outer_dim, _with_tuples(item_spec))
        )

    def add(self, items: Nest, streams: npt.ArrayLike | None = None) -> None:
        """Adds items of whichever containers in those of `item_spec`, or in tuples."""
        size = self.buffer.num_streams if streams is None else len(np.asarray(streams))
        items = checks.validate(self._batch_spec(size), items, "items")
        self.buffer.add_batch(items, streams)

    def add_leaves(self, streams: npt.NDArray[Any], *leaves: Any) -> None:
        """Adds items that were taken apart."""
        self.add(self.structure.pack(leaves), streams)

    def draw(
        self, batch_size: int, num_steps: int
    ) -> tuple[Nest, npt.NDArray[np.int64], float]:
        """Returns what `datasets.Draw` says."""
        items, info = self.buffer.sample(batch_size, num_steps, with_info=True)
        return items, info.keys, info.probabilities[0]

    def gather(self) -> Nest:
        """Returns all rows, leaves `[num_streams, T, ...]`.

        Raises:
            ValueError: If streams have different numbers of rows.
        """
        every = [self.structure.flatten(rows) for rows in self.buffer.gather_all()]
        if not every:
            return nest.map_structure(self._nothing, self.item_spec)
        lengths = [len(leaves[0]) for leaves in every]
        lengths += [0] * (self.buffer.num_streams - len(every))
        if len(set(lengths)) > 1:
            raise ValueError(
                "The rows of all streams are gathered side by side, [B, T, ...], which "
                f"needs streams of one length, and there are {min(lengths)} to "
                f"{max(lengths)} rows in each. buffer.gather_all() gives them apart."
            )
        return self.structure.pack(
            [np.stack(leaves) for leaves in zip(*every, strict=True)]
        )

    def _nothing(self, spec: array_spec.ArraySpec) -> npt.NDArray[Any]:
        return np.empty((self.buffer.num_streams, 0, *spec.shape), spec.dtype)


def _with_tuples(spec: Nest) -> Nest:
    """Returns the nest with tuples for lists, which our buffers take for leaves."""
    kind: Any = Mapping
    if isinstance(spec, kind):
        return {key: _with_tuples(item) for key, item in spec.items()}
    kind = (list, tuple)
    if isinstance(spec, kind):
        items = tuple(map(_with_tuples, spec))
        return spec._make(items) if hasattr(spec, "_fields") else items
    return spec
