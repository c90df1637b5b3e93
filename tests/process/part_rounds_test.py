"""Parts of workers' objects, asked for one by one, through memory and channels."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Generator, Iterator

import numpy as np
import pytest

from parallel_envs.process import facilities
from parallel_envs.process.part_rounds import PartOrder, PartRounds
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.shared_arrays import ArrayLayout
from parallel_envs.process.worker import Report
from parallel_envs.process.worker_handle import WorkerGone
from parallel_envs.process.worker_pool import WorkerPool
from tests.process import servants

LAYOUT = ArrayLayout([(4,), (4,)], [np.dtype(np.int64)] * 2)
SPANS = [(0, 2), (2, 4)]


class Parts:
    """Two workers with two parts each."""

    def __init__(self, pool: WorkerPool, *, in_memory: bool) -> None:
        self.pool, self.in_memory = pool, in_memory
        pool.start([0, 1])
        servants.make_all(pool)
        arrays = LAYOUT.new_arrays()
        if in_memory:
            arrays = pool.lay_out(LAYOUT, 1, SPANS)
        else:
            pool.lay_out_apart(LAYOUT, 1, SPANS)
        self.inputs, self.outputs = arrays
        self.attach()

    @property
    def rounds(self) -> PartRounds:
        assert self.pool.parts is not None
        return self.pool.parts

    def attach(self, *workers: int) -> None:
        for worker in workers or (0, 1):
            self.pool.answer(self.pool.attach(worker))

    def ask(self, values: dict[int, int], command: int = 10) -> None:
        orders: dict[int, PartOrder] = {}
        for part, value in values.items():
            self.inputs[part] = value
            own = None if self.in_memory else [self.inputs[part : part + 1]]
            orders[part] = PartOrder(own)
        self.rounds.ask(command, orders)

    def take(self, at_least: int, seconds: float = 20.0) -> dict[int, object]:
        """Returns what parts told; what they wrote is put into the outputs."""
        answers = self.rounds.take(at_least, time.monotonic() + seconds)
        for answer in answers:
            for values in answer.values or ():
                self.outputs[answer.part] = values[0]
        return {answer.part: answer.told for answer in answers}


def made(
    in_memory: bool = True, limit: float | None = None, at_a_time: int | None = None
) -> contextlib.AbstractContextManager[Parts]:
    @contextlib.contextmanager
    def make() -> Generator[Parts]:
        pool = WorkerPool(
            [servants.factory(servants.Adder)] * 2,
            num_parts=[2, 2],
            timeout=limit,
            max_concurrency=at_a_time,
        )
        with contextlib.closing(pool):
            yield Parts(pool, in_memory=in_memory)

    return make()


WAYS = ["memory", "channels", "portable"]


@pytest.fixture(params=WAYS)
def in_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "portable":
        monkeypatch.setenv(facilities.VARIABLE, "1")
    return request.param != "channels"


@pytest.fixture
def parts(in_memory: bool) -> Iterator[Parts]:
    with made(in_memory) as both:
        yield both


def test_parts_are_done_and_taken_by_themselves(parts: Parts) -> None:
    for number in range(1, 6):
        parts.ask({0: number, 3: 2 * number})

        assert parts.take(2) == {0: None, 3: None}
        assert parts.outputs.tolist() == [10 + number, 0, 0, 10 + 2 * number]
        assert parts.rounds.is_idle


def test_nothing_is_waited_for_where_nothing_is_wanted(parts: Parts) -> None:
    assert parts.take(0) == {}


def test_what_a_part_tells_comes_with_it(parts: Parts) -> None:
    parts.ask({0: servants.TELL, 1: servants.FAIL, 2: 1})

    told = parts.take(3)

    assert told[0] == Report(extras="sum 0")
    assert isinstance(told[1], RemoteError)
    assert "a round that fails" in told[1].summary
    assert told[2] is None


def test_a_lost_worker_answers_for_its_parts(parts: Parts) -> None:
    parts.ask({0: servants.DIE, 2: 5})

    told = parts.take(2)

    assert isinstance(told[0], WorkerGone)
    assert told[0].exitcode == -signal.SIGKILL
    assert told[2] is None
    parts.ask({1: 1})
    assert isinstance(parts.take(1)[1], WorkerGone)


def test_a_part_that_hangs_is_ended(in_memory: bool) -> None:
    with made(in_memory, limit=0.3) as parts:
        parts.ask({0: servants.HANG, 3: 1})

        told = parts.take(2)

        assert told[3] is None
        assert isinstance(told[0], WorkerGone)
        assert told[0].limit == 0.3


def test_nobody_looks_for_what_is_late_where_nothing_can_be(
    in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(rounds: PartRounds, part: int) -> bool:
        raise AssertionError(f"part {part} was looked at")

    with made(in_memory) as parts:
        monkeypatch.setattr(type(parts.rounds), "_is_undone", refuse)
        parts.ask({0: 1, 1: 2, 2: 3, 3: 4})

        told = parts.take(4)

        assert told == dict.fromkeys(range(4))


def test_what_is_dropped_is_not_heard_of_again(parts: Parts) -> None:
    for _ in range(5):
        parts.ask({0: servants.TELL, 1: 7, 2: servants.TELL})
        parts.pool.drop_parts()
        parts.pool.settle()

        parts.ask({0: 1, 2: 3})

        assert parts.take(2) == {0: None, 2: None}
        assert parts.outputs[[0, 2]].tolist() == [11, 13]


def test_what_waits_for_its_turn_is_lost_with_its_worker(in_memory: bool) -> None:
    with made(in_memory, at_a_time=1) as parts:
        parts.ask({0: servants.DIE, 1: 1, 2: 1, 3: 1})

        told = parts.take(4)

        assert [type(told[n]) for n in range(4)] == [
            WorkerGone,
            WorkerGone,
            type(None),
            type(None),
        ]


def test_a_replaced_worker_does_what_it_is_asked(parts: Parts) -> None:
    parts.ask({0: 1, 1: 1})
    parts.take(2)
    os.kill(parts.pool.pids[0], signal.SIGKILL)
    while not parts.pool.dead:
        parts.pool.pause(0.01)
    servants.replace_dead(parts.pool)

    parts.ask({0: 4, 1: 5})

    assert parts.take(2) == {0: None, 1: None}
    assert parts.outputs[:2].tolist() == [14, 15]


def test_rounds_and_parts_take_turns() -> None:
    with made() as parts:
        for number in range(1, 20):
            parts.ask({1: number})
            parts.take(1)
            parts.inputs[...] = 0
            assert parts.pool.round(0) is None
