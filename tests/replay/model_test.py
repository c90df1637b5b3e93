"""A buffer does what lists do: random calls on both, then their content is compared."""

from __future__ import annotations

import collections
import tempfile
from typing import Any

import hypothesis
import numpy as np
from hypothesis import stateful
from hypothesis import strategies as st

from parallel_envs import replay

FIRST, MID, LAST = 0, 1, 2
NUM_STREAMS = 3
Row = tuple[int, int, int]  # Number, step type, and how often its stream had ended.


class Model:
    """The reference: a list for each stream."""

    def __init__(self, capacity: int) -> None:
        self.rows = [
            collections.deque[Row](maxlen=capacity) for _ in range(NUM_STREAMS)
        ]
        self.ended = [0] * NUM_STREAMS

    def windows(self, num_steps: int) -> list[list[int]]:
        found: list[list[int]] = []
        for stream in map(list, self.rows):
            for start in range(len(stream) - num_steps + 1):
                window = stream[start : start + num_steps]
                inner = all(kind != LAST for _, kind, _ in window[:-1])
                if (
                    inner
                    and all(kind != FIRST for _, kind, _ in window[1:])
                    and len({ended for _, _, ended in window}) == 1
                ):
                    found.append([number for number, _, _ in window])
        return found


class ReplayMachine(stateful.RuleBasedStateMachine):
    @stateful.initialize(capacity=st.integers(1, 7))
    def start(self, capacity: int) -> None:
        self.capacity = capacity
        self.buffer = replay.ReplayBuffer(capacity, NUM_STREAMS, seed=0)
        self.model = Model(capacity)
        self.saved = Model(capacity)
        self.count = 0
        self.keys: dict[int, int] = {}
        self.saved_keys: dict[int, int] = {}
        self.directory = tempfile.TemporaryDirectory()
        self.buffer.save(self.directory.name)

    def item(self, numbers: Any, kinds: Any) -> dict[str, Any]:
        numbers = np.asarray(numbers)
        return {
            "number": numbers,
            "step_type": np.asarray(kinds, np.int32),
            "nest": (np.stack([numbers, -numbers], axis=-1), ()),
        }

    def put(self, stream: int, kind: int) -> int:
        self.count += 1
        row = (self.count, kind, self.model.ended[stream])
        self.model.rows[stream].append(row)
        return self.count

    @stateful.rule(
        kinds=st.lists(st.sampled_from([0, 1, 1, 1, 2]), min_size=3, max_size=3)
    )
    def add_in_step(self, kinds: list[int]) -> None:
        numbers = [self.put(stream, kind) for stream, kind in enumerate(kinds)]
        self.buffer.add_batch(self.item(numbers, kinds))

    @stateful.rule(
        rows=st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 1, 1, 2])), max_size=9
        )
    )
    def add_to_streams(self, rows: list[tuple[int, int]]) -> None:
        numbers = [self.put(stream, kind) for stream, kind in rows]
        kinds = [kind for _, kind in rows]
        self.buffer.add_batch(
            self.item(np.array(numbers, np.int64), kinds),
            streams=[stream for stream, _ in rows],
        )

    @stateful.rule(
        stream=st.integers(0, 2),
        kind=st.integers(0, 2),
        key=st.none() | st.integers(0, 5),
    )
    def add_one(self, stream: int, kind: int, key: int | None) -> None:
        if key is None or key not in self.keys:
            number = self.put(stream, kind)
        else:
            number = self.count + 1  # It must not be stored.
        returned = self.buffer.add(self.item(number, kind), stream, key=key)
        if key is not None:
            assert returned == key
            self.remember(key)

    def remember(self, key: int) -> None:
        self.keys.setdefault(key, 0)
        if len(self.keys) > self.capacity * NUM_STREAMS:
            del self.keys[next(iter(self.keys))]

    @stateful.rule(stream=st.integers(0, 2))
    def end(self, stream: int) -> None:
        self.buffer.end_stream(stream)
        self.model.ended[stream] += 1

    @stateful.rule()
    def clear(self) -> None:
        self.buffer.clear()
        self.keys.clear()
        for stream in range(NUM_STREAMS):
            self.model.rows[stream].clear()
            self.model.ended[stream] += 1

    @stateful.rule()
    def save(self) -> None:
        self.buffer.save(self.directory.name)
        self.saved = copied(self.model, self.capacity)
        self.saved_keys = dict(self.keys)

    @stateful.rule()
    def load(self) -> None:
        self.buffer = replay.ReplayBuffer(self.capacity, NUM_STREAMS)
        self.buffer.load(self.directory.name)
        self.model = copied(self.saved, self.capacity)
        self.keys = dict(self.saved_keys)

    @stateful.rule(num_steps=st.integers(1, 5))
    def sample(self, num_steps: int) -> None:
        windows = self.model.windows(num_steps)
        try:
            items = self.buffer.sample(20, num_steps)
        except ValueError:
            assert not windows
            return
        assert all(number in windows for number in items["number"].tolist())
        np.testing.assert_array_equal(items["nest"][0][..., 1], -items["number"])

    @stateful.invariant()
    def every_window_is_there_in_order(self) -> None:
        assert len(self.buffer) == sum(map(len, self.model.rows))
        for num_steps in (1, 2, 4):
            found = [w["number"].tolist() for w in self.buffer.iterate(num_steps)]
            assert found == self.model.windows(num_steps)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.directory.cleanup()


def copied(model: Model, capacity: int) -> Model:
    copy = Model(capacity)
    for own, rows in zip(copy.rows, model.rows, strict=True):
        own.extend(rows)
    copy.ended = list(model.ended)
    return copy


TestReplay = ReplayMachine.TestCase
TestReplay.settings = hypothesis.settings(
    max_examples=25, stateful_step_count=20, deadline=None
)
