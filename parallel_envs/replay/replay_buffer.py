"""The replay buffer: many streams, drawn from uniformly, saved whole or not at all."""

from __future__ import annotations

import contextlib
import importlib
import operator
import os
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from parallel_envs import errors
from parallel_envs.replay import checkpoint, windows
from parallel_envs.replay.content import Content
from parallel_envs.replay.seen_keys import SeenKeys
from parallel_envs.replay.streams import Streams
from parallel_envs.specs.nest import Nest

Integers = npt.NDArray[np.int64]

_COUNTERS = ("inserts", "samples", "duplicates")


class SampleInfo(NamedTuple):
    """Where samples come from.

    Attributes:
        keys: int64 `[B]`, the key of the first row of each sample.
        probabilities: float64 `[B]`, how probable it was that this sample was drawn.
        streams: int64 `[B]`, the stream of each sample.
    """

    keys: Integers
    probabilities: npt.NDArray[np.float64]
    streams: Integers


class ReplayBuffer:
    """The last `capacity` steps of each of some streams.

    A *stream* is what one environment did, in order. An *item* is one step of it: a
    dict, tuple or named tuple of arrays, most often a `Trajectory`. The first item
    decides structure, dtypes and shapes. A leaf whose size varies from row to row is
    given and returned as a list of arrays.

    Items with a field `step_type` have episodes: a *window*, the consecutive steps that
    `sample` and `iterate` return, has LAST only at its end and FIRST only at its
    start. Items that also have `next_step_type` are trajectories: they hold the reward
    that follows, and the boundary row between two episodes (step_type LAST) starts no
    window.

    What is returned is the caller's own. Memory is taken as rows come, up to that of
    `capacity` rows for each stream. All methods may be called from any thread: one lock
    lets them in one after another. After `close` they raise `ClosedError`.

    >>> buffer = ReplayBuffer(capacity=100, num_streams=2, seed=1)
    >>> for t in range(3):
    ...     buffer.add_batch({"observation": np.array([t, 10 + t])})
    >>> [window["observation"].tolist() for window in buffer.iterate(num_steps=2)]
    [[0, 1], [1, 2], [10, 11], [11, 12]]
    >>> buffer.sample(4, num_steps=2)["observation"].shape
    (4, 2)
    """

    def __init__(
        self, capacity: int, num_streams: int = 1, *, seed: int | None = None
    ) -> None:
        """Makes an empty buffer.

        Args:
            capacity: Steps kept of each stream.
            num_streams: Number of streams.
            seed: Of the generator that samples are drawn with; None for an
                unpredictable one.
        """
        self._capacity = _positive(capacity, "capacity")
        self._num_streams = _positive(num_streams, "num_streams")
        self._generator = np.random.default_rng(_checked_seed(seed))
        # Told of new rows, for which `as_dataset` may wait.
        self._lock = threading.Condition(threading.Lock())
        self._is_closed = False
        self._content = self._new_content()
        self._seen = self._new_seen_keys()
        self._counters = dict.fromkeys(_COUNTERS, 0)

    @property
    def capacity(self) -> int:
        """Steps kept of each stream."""
        return self._capacity

    @property
    def num_streams(self) -> int:
        """Number of streams."""
        return self._num_streams

    @property
    def item_spec(self) -> Nest | None:
        """One item with an `ArraySpec` for each array; None before the first one."""
        with self._opened():
            return self._content.item_spec

    def add_batch(self, items: Nest, streams: npt.ArrayLike | None = None) -> None:
        """Adds one row to each stream, or rows to the streams that are named.

        Args:
            items: Leaves `[num_streams, ...]`, or `[B, ...]` with `streams`.
            streams: The stream of each row, integers `[B]`. The rows of a stream that
                is named more than once are added in their order.

        Raises:
            ValueError: If the items differ from the first ones, with the path of the
                leaf, or if a stream is out of range. Nothing is added then.
        """
        with self._opened():
            if streams is None:
                streams = np.arange(self._num_streams)
            to = self._checked_streams(streams, "streams")
            if len(to):
                self._content.append(items, to, num_rows=len(to))
                self._counters["inserts"] += len(to)
                self._lock.notify_all()

    def add(self, item: Nest, stream: int = 0, key: int | None = None) -> int:
        """Adds one row, unless its key was seen before, and returns its key.

        Args:
            item: One item. A leaf whose size varies is a list with one array.
            stream: Its stream.
            key: Integer from 0 to 2**63 - 1 that tells this item from all others, so
                that it may be sent again; None for a new key (a negative one). The last
                `capacity * num_streams` keys given are remembered.

        Raises:
            ValueError: As for `add_batch`.
        """
        with self._opened():
            to = self._checked_stream(stream)
            keys = None if key is None else np.array([_checked_key(key)])
            if keys is not None and int(keys[0]) in self._seen:
                self._counters["duplicates"] += 1
                return int(keys[0])
            stored = self._content.append(item, to, num_rows=None, keys=keys)
            self._counters["inserts"] += 1
            if keys is not None:
                self._seen.add(int(keys[0]))
            self._lock.notify_all()
            return int(stored[0])

    def end_stream(self, stream: int) -> None:
        """Ends a run: no window reaches from what is stored to the next row added."""
        with self._opened():
            self._content.index.end(int(self._checked_stream(stream)[0]))

    def sample(
        self, batch_size: int, num_steps: int = 1, *, with_info: bool = False
    ) -> Nest:
        """Returns windows drawn uniformly, with replacement, from all that there are.

        Args:
            batch_size: Number of windows, B.
            num_steps: Length of each, T.
            with_info: Whether to return the pair of items and `SampleInfo`. The
                probabilities need a count of all windows, which takes time in
                proportion to the number of rows stored.

        Returns:
            Leaves `[B, T, ...]`. A leaf whose size varies is a list of B lists of T
            arrays.

        Raises:
            ValueError: If no such window is stored.
        """
        batch_size = _positive(batch_size, "batch_size")
        num_steps = _positive(num_steps, "num_steps")
        with self._opened():
            starts = self._draw_windows(batch_size, num_steps)
            items = self._content.read_windows(starts, num_steps)
            if not with_info:
                return items
            keys = self._content.index.keys(*starts)
            probabilities = np.full(batch_size, self._probability(num_steps))
            return items, SampleInfo(keys, probabilities, starts.streams)

    def sample_nstep(self, batch_size: int, n: int, gamma: float) -> dict[str, Nest]:
        """Returns n-step items drawn uniformly, with replacement.

        Args:
            batch_size: Number of items, B.
            n: Steps that an item spans; fewer where the episode ends before.
            gamma: The agent's discount for one step.

        Returns:
            `observation` and `action` (where items have one) of a row; `return`, the
            discounted sum of the rewards of the steps; `bootstrap`, the product of all
            gammas and discounts, which the value of `next_observation` counts with.
            Leaves `[B, ...]`.

        Raises:
            ValueError: If no such item is stored, or if the rows lack `observation`,
                `reward` or `discount`.
        """
        batch_size = _positive(batch_size, "batch_size")
        n = _positive(n, "n")
        gamma = _checked_gamma(gamma)
        with self._opened():
            starts = self._draw(
                batch_size,
                lambda index: windows.with_horizon(index, n),
                f"item of {n} steps",
            )
            return self._content.read_n_step(starts, n, gamma)

    def iterate(self, num_steps: int = 1) -> Iterator[Nest]:
        """Yields every window once: stream after stream, oldest first, overlapping.

        Rows that are overwritten while the caller iterates are left out, and rows that
        are added meanwhile are not seen.

        Args:
            num_steps: Length of each window, T.

        Yields:
            Leaves `[T, ...]`; a leaf whose size varies is a list of T arrays.

        Raises:
            RuntimeError: If another content is loaded meanwhile.
        """
        num_steps = _positive(num_steps, "num_steps")
        with self._opened():
            index = self._content.index
            starts = windows.listed(index, windows.of_length(index, num_steps))

        def read(at: windows.Starts, _: int) -> Nest:
            return self._content.read_windows(at, num_steps, batched=False)

        return self._walk(starts, read)

    def iterate_nstep(self, n: int, gamma: float) -> Iterator[dict[str, Nest]]:
        """Yields every n-step item once, in the order of `iterate`.

        At the open end of a stream no item is shorter than n, since its reward is not
        all there yet. Arguments and entries are those of `sample_nstep`, without B.
        """
        n = _positive(n, "n")
        gamma = _checked_gamma(gamma)
        with self._opened():
            index = self._content.index
            starts = windows.listed(index, windows.with_horizon(index, n))

        def read(at: windows.Starts, _: int) -> dict[str, Nest]:
            return self._content.read_n_step(at, n, gamma, batched=False)

        return self._walk(starts, read)

    def iterate_episodes(self, complete: bool = True) -> Iterator[Nest]:
        """Yields episodes, in the order of `iterate`.

        Args:
            complete: Only those that are stored from FIRST to the end. False: also what
                is left of an episode that was partly overwritten, unfinished ones, and
                the runs of items without `step_type`.

        Yields:
            Leaves `[T, ...]`, T the length of the episode.
        """
        with self._opened():
            index = self._content.index
            starts, lengths = windows.episodes(index, complete=complete)

        def read(at: windows.Starts, number: int) -> Nest:
            length = int(lengths[number])
            return self._content.read_windows(at, length, batched=False)

        return self._walk(starts, read)

    def gather_all(self) -> list[Nest]:
        """Returns all rows there are, boundaries too, as they are at one moment.

        Returns:
            A nest for each stream that has rows, leaves `[T, ...]`, oldest first; a
            leaf whose size varies is a list of T arrays.
        """
        with self._opened():
            streams = np.flatnonzero(self._content.index.lengths)
            return [self._content.read_stream(stream) for stream in streams.tolist()]

    def as_dataset(
        self,
        sample_batch_size: int | None = None,
        num_steps: int | None = None,
        *,
        data_spec: Nest | None = None,
        timeout: float | None = 0.0,
        with_probabilities: bool = False,
    ) -> Any:
        """Returns an endless `tf.data.Dataset` of what `sample` draws.

        It is what the learners of TF-Agents take; needs `parallel_envs[tf-agents]`.

            dataset = buffer.as_dataset(64, num_steps=2).prefetch(3)
            experience, info = next(iter(dataset))
            agent.train(experience)

        Args:
            sample_batch_size: Number of windows, B; None for one, without that
                dimension.
            num_steps: Length of each, T; None for single steps, without that dimension.
            data_spec: One item as a nest of specs, ours or TF-Agents'; needed only
                before the first item is added.
            timeout: Seconds that a draw waits while there is no such window, as when
                the learner starts before those who collect; None waits for ever.
            with_probabilities: Whether to tell them, which needs a count at each draw.
                See `sample`.

        Returns:
            A dataset of pairs: items, in TF-Agents' `Trajectory` if they are
            trajectories, leaves `[B, T, ...]`; and TF-Agents' `BufferInfo`: `ids`
            `[B, T]`, the key of each sample at all of its steps, and `probabilities`
            float32 `[B, T]`, or `()`. Shapes and dtypes are known statically.

            TensorFlow makes errors of its own of what happens in a draw, with the text
            of ours: InvalidArgumentError if there is still no window, UnknownError once
            the buffer is closed. It may draw some elements in advance. It keeps the
            buffer as long as the program runs: `close` gives its memory back. While it
            waits, Ctrl-C does nothing, so that a limit is better than None.

        Raises:
            ImportError: If TF-Agents is not installed.
            ValueError: If nothing was added and there is no `data_spec`, if it is not
                that of the items, or if the size of a leaf varies.
        """
        batch_size, length = (
            1 if size is None else _positive(size, name)
            for size, name in (
                (sample_batch_size, "sample_batch_size"),
                (num_steps, "num_steps"),
            )
        )
        timeout = _checked_timeout(timeout)
        if length > self._capacity:
            raise ValueError(
                f"num_steps: expected at most the capacity, {self._capacity} steps, "
                f"got {length}."
            )

        def draw() -> tuple[Nest, Integers, float]:
            with self._opened():
                starts = self._draw_windows(batch_size, length, timeout)
                items = self._content.read_windows(starts, length)
                keys = self._content.index.keys(*starts)
                probability = self._probability(length) if with_probabilities else 0.0
                return items, keys, probability

        # By name: adapters know the replay, so the replay does not know adapters.
        datasets = importlib.import_module("parallel_envs.adapters.tf_agents.datasets")
        return datasets.sampled(
            draw,
            datasets.agreed_spec(self.item_spec, data_spec),
            sample_batch_size,
            num_steps,
            with_probabilities,
        )

    def num_episodes(self) -> int:
        """Returns the number of complete episodes."""
        with self._opened():
            return self._content.num_episodes

    def __len__(self) -> int:
        """Number of rows stored, of all streams."""
        with self._opened():
            return self._content.num_rows

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the rows and what is kept about them take."""
        with self._opened():
            return self._content.nbytes

    def stats(self) -> dict[str, int]:
        """Returns numbers about the buffer.

        `steps` and `episodes` (complete ones) stored; `nbytes`; since the start
        `inserts` (rows added), `samples` (windows and n-step items drawn) and
        `duplicates` (rows not stored because their key was seen).
        """
        with self._opened():
            return {
                "steps": self._content.num_rows,
                "episodes": self._content.num_episodes,
                "nbytes": self._content.nbytes,
                **self._counters,
            }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes content, counters and the generator's state into a directory.

        The directory holds the old or the new state at any moment, also if the program
        is killed (see `checkpoint`). The other methods wait until it is done.

        Args:
            path: The directory; made where it is not there.

        Raises:
            OSError: If the disk is full or refuses.
            TypeError: If the items have dict keys that are neither text nor integers.
        """
        with self._opened():
            facts = {
                "capacity": self._capacity,
                "num_streams": self._num_streams,
                "items": self._content.describe(),
                "counters": self._counters,
                "random_state": self._generator.bit_generator.state,
            }
            arrays = self._content.arrays()
            seen = np.array(self._seen.to_list(), np.int64)
            checkpoint.write(
                path, facts, {**arrays, "seen_keys": checkpoint.whole(seen)}
            )

    def load(self, path: str | os.PathLike[str]) -> None:
        """Takes over what `save` wrote, in the place of all that is here.

        The samples that follow are those that would have followed in the buffer that
        was saved. Capacity and number of streams stay those of this buffer. If it
        fails, this buffer is as it was.

        Args:
            path: The directory.

        Raises:
            FileNotFoundError: If there is no such directory.
            ValueError: If a file is missing or damaged, if the directory is of
                something else, or if the content does not fit in.

        Warns:
            UserWarning: If the buffer that was saved had another capacity or number of
                streams.
        """
        with self._opened():
            facts, arrays = checkpoint.read(path)
            content = self._new_content()
            try:
                content.restore(facts["items"], arrays)
            except ValueError as error:
                message = f"{os.fspath(path)} cannot be loaded: {error}"
                raise ValueError(message) from error
            self._generator.bit_generator.state = facts["random_state"]
            self._content = content
            self._seen = self._new_seen_keys(arrays["seen_keys"].tolist())
            self._counters = dict(facts["counters"])
            self._lock.notify_all()
            self._warn_of_other_settings(facts)

    def clear(self) -> None:
        """Forgets all rows, what items look like, and the keys that were seen."""
        with self._opened():
            self._forget()

    def close(self) -> None:
        """Gives the memory back. May be called again; all else raises `ClosedError`."""
        with self._lock:
            self._forget()
            self._is_closed = True
            self._lock.notify_all()

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(self, *unused_error: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _opened(self) -> Generator[None, None, None]:
        with self._lock:
            self._check_open()
            yield

    def _check_open(self) -> None:
        if self._is_closed:
            raise errors.ClosedError("The replay buffer was closed.")

    def _warn_of_other_settings(self, facts: Mapping[str, Any]) -> None:
        here = {"capacity": self._capacity, "num_streams": self._num_streams}
        differ = [
            f"{name} {facts[name]} (here {value})"
            for name, value in here.items()
            if facts[name] != value
        ]
        if differ:
            warnings.warn(
                f"The buffer was saved with {', '.join(differ)}; the content is kept, "
                "and the settings stay those of this buffer.",
                stacklevel=3,
            )

    def _new_content(self) -> Content:
        return Content(self._num_streams, self._capacity)

    def _new_seen_keys(self, keys: Iterable[int] = ()) -> SeenKeys:
        return SeenKeys(self._num_streams * self._capacity, keys)

    def _forget(self) -> None:
        self._content.clear()
        self._seen = self._new_seen_keys()

    def _checked_streams(self, streams: npt.ArrayLike, name: str) -> Integers:
        found = np.asarray(streams)
        if found.size and found.dtype.kind not in "iu":
            raise TypeError(f"{name}: expected integers, got {streams!r}.")
        if found.ndim != 1:
            raise ValueError(
                f"{name}: expected one dimension, got an array of shape {found.shape}."
            )
        if found.size and not 0 <= found.min() <= found.max() < self._num_streams:
            raise ValueError(
                f"{name}: expected numbers from 0 to {self._num_streams - 1}, got "
                f"{found.tolist()}."
            )
        return found.astype(np.int64)

    def _checked_stream(self, stream: int) -> Integers:
        return self._checked_streams([_integer(stream, "stream")], "stream")

    def _draw_windows(
        self, batch_size: int, num_steps: int, timeout: float | None = 0.0
    ) -> windows.Starts:
        return self._draw(
            batch_size,
            lambda index: windows.of_length(index, num_steps),
            f"window of {num_steps} steps",
            timeout,
        )

    def _draw(
        self,
        batch_size: int,
        accepting: Callable[[Streams], windows.Accepts],
        wanted: str,
        timeout: float | None = 0.0,
    ) -> windows.Starts:
        """Returns starts; while there are none it waits, and the lock is free."""

        def drawn() -> windows.Starts | None:
            self._check_open()
            index = self._content.index
            return windows.draw(index, accepting(index), batch_size, self._generator)

        starts = self._lock.wait_for(drawn, timeout)
        if starts is None:
            raise ValueError(
                f"There is no {wanted}: {_described(self._content.index)}."
            )
        self._counters["samples"] += batch_size
        return starts

    def _probability(self, num_steps: int) -> float:
        """Returns how probable it is that a draw is a given window."""
        index = self._content.index
        accepts = windows.of_length(index, num_steps)
        return 1 / len(windows.listed(index, accepts).rows)

    def _walk(
        self, starts: windows.Starts, read: Callable[[windows.Starts, int], Nest]
    ) -> Iterator[Nest]:
        index = self._content.index
        for number in range(len(starts.rows)):
            at = windows.Starts(*(column[number : number + 1] for column in starts))
            with self._opened():
                if self._content.index is not index:
                    raise RuntimeError("The buffer was loaded during an iteration.")
                if at.rows[0] < index.first[at.streams[0]]:
                    continue
                item = read(at, number)
            yield item


def _described(index: Streams) -> str:
    num_rows = int(index.lengths.sum())
    if not num_rows:
        return "the buffer is empty"
    longest = windows.runs(index)[1].max()
    return (
        f"{num_rows} steps are stored in {np.count_nonzero(index.lengths)} of "
        f"{index.num_streams} streams, and the longest run within one episode has "
        f"{longest}"
    )


def _integer(value: SupportsIndex, name: str) -> int:
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(
            f"{name}: expected an integer, got {value!r} of type "
            f"{type(value).__name__}."
        )
    return operator.index(value)


def _positive(value: SupportsIndex, name: str) -> int:
    number = _integer(value, name)
    if number < 1:
        raise ValueError(f"{name}: expected at least 1, got {number}.")
    return number


def _checked_seed(seed: SupportsIndex | None) -> int | None:
    if seed is None:
        return None
    number = _integer(seed, "seed")
    if number < 0:
        raise ValueError(f"seed: expected at least 0, got {number}.")
    return number


def _checked_key(key: SupportsIndex) -> int:
    number = _integer(key, "key")
    if not 0 <= number < 2**63:
        raise ValueError(f"key: expected 0 to 2**63 - 1, got {number}.")
    return number


def _checked_timeout(timeout: float | None) -> float | None:
    try:
        number = None if timeout is None else float(timeout)
    except (TypeError, ValueError):
        raise TypeError(
            f"timeout: expected seconds or None, got {timeout!r}."
        ) from None
    if number is not None and not number >= 0:
        raise ValueError(f"timeout: expected at least 0 seconds, got {number}.")
    return number if number is None else min(number, threading.TIMEOUT_MAX)


def _checked_gamma(gamma: float) -> float:
    try:
        number = float(gamma)
    except (TypeError, ValueError):
        raise TypeError(f"gamma: expected a number, got {gamma!r}.") from None
    if not 0 <= number <= 1:
        raise ValueError(f"gamma: expected 0 to 1, got {number}.")
    return number
