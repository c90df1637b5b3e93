"""`send` and `recv`: rows that are stepped one by one."""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import parallel_envs as pe
from parallel_envs import errors
from parallel_envs import time_step as ts
from parallel_envs.batch.environment_batch import EnvironmentBatch
from parallel_envs.process import facilities
from parallel_envs.testing import environments
from tests import batches, waiting

FIRST, MID, LAST = 0, 1, 2
NUM_ROWS = 4
COUNTING = [functools.partial(environments.Counting, i, 3) for i in range(NUM_ROWS)]
Make = Callable[[batches.Constructors], EnvironmentBatch]

PROCESSES: dict[str, dict[str, Any]] = {
    "a worker each": {},
    "two workers": {"num_workers": 2},
    "sockets": {"shared_memory": False, "num_workers": 2},
    "views": {"copy": False, "num_workers": 2},
    "portable": {"num_workers": 2},
}
EVERYWHERE: dict[str, dict[str, Any]] = {**PROCESSES, "no workers": {"num_workers": 0}}


@pytest.fixture(params=batches.FEW)
def make(request: pytest.FixtureRequest) -> Make:
    """One way to make a batch: those in which rows travel by ways of their own."""
    return batches.MODES[request.param]


@pytest.fixture
def env(make: Make) -> Iterator[EnvironmentBatch]:
    """Four counting environments, reset, with episodes of 3 steps."""
    with make(COUNTING) as batch:
        batch.reset()
        yield batch


@pytest.fixture(params=EVERYWHERE)
def options(request: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if request.param == "portable":
        monkeypatch.setenv(facilities.VARIABLE, "1")
    return EVERYWHERE[request.param]


@pytest.fixture(params=PROCESSES)
def process_options(request: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if request.param == "portable":
        monkeypatch.setenv(facilities.VARIABLE, "1")
    return PROCESSES[request.param]


def zeros(count: int = NUM_ROWS) -> Any:
    return np.zeros(count, np.int64)


def told(time_step: ts.TimeStep, ids: Any) -> dict[int, tuple[int, float, Any]]:
    """Returns by row its step type, reward and observation."""
    return {
        int(row): (int(kind), float(reward), observation.tolist())
        for row, kind, reward, observation in zip(
            ids,
            time_step.step_type,
            time_step.reward,
            time_step.observation,
            strict=True,
        )
    }


def test_each_row_gives_its_own_stream(env: EnvironmentBatch) -> None:
    streams: dict[int, list[Any]] = {row: [] for row in range(NUM_ROWS)}

    env.send(zeros())
    for _ in range(20):
        time_step, ids = env.recv(2)
        assert ids.dtype == np.int32
        for row, step in told(time_step, ids).items():
            streams[row].append(step)
        env.send(zeros(2), ids)
    time_step, ids = env.recv()
    for row, step in told(time_step, ids).items():
        streams[row].append(step)

    assert sorted(ids) == [0, 1, 2, 3]
    assert sum(map(len, streams.values())) == 44
    for row, stream in streams.items():
        episode = [(FIRST, 0.0), (MID, 1.0), (MID, 2.0), (LAST, 3.0)]
        for number, step in enumerate(stream, start=1):
            kind, reward = episode[number % 4]
            assert step == (kind, reward, [row, number // 4, number % 4])


@pytest.mark.parametrize("kind", ["tree", "batched"])
def test_received_steps_are_those_of_a_round(make: Make, kind: str) -> None:
    generator = np.random.default_rng(5)
    with make(batches.KINDS[kind]) as sending, make(batches.KINDS[kind]) as stepping:
        spec = pe.specs.add_outer_dim(sending.action_spec(), sending.batch_size)
        sending.reset()
        stepping.reset()
        for _ in range(6):
            action = pe.specs.sample(spec, generator)

            sending.send(action)
            found, ids = sending.recv()
            expected = stepping.step(action)

            found = ordered(found, np.argsort(ids))
            assert batches.frozen([found]) == batches.frozen([expected])


def ordered(value: Any, places: Any) -> Any:
    """Returns the rows of a nest in another order."""
    if isinstance(value, np.ndarray):
        return value[places]  # pyright: ignore
    if isinstance(value, dict):
        return {key: ordered(own, places) for key, own in value.items()}  # pyright: ignore
    if isinstance(value, ts.TimeStep):
        return ts.TimeStep(*(ordered(own, places) for own in value))
    if isinstance(value, tuple):
        return tuple(ordered(own, places) for own in value)  # pyright: ignore
    return [value[place] for place in places]  # A leaf whose size varies.


def test_actions_go_to_the_rows_they_are_for(options: dict[str, Any]) -> None:
    with pe.ParallelPyEnvironment(COUNTING, **options) as env:
        env.reset()

        env.send(np.array([7, 5, 3]), [3, 1, 0])
        _, ids = env.recv()

        assert sorted(ids) == [0, 1, 3]
        assert [env.envs[n].last_action for n in range(4)] == [3, 5, None, 7]


def test_what_is_received_is_the_callers_own(options: dict[str, Any]) -> None:
    with pe.ParallelPyEnvironment(COUNTING, **options) as env:
        env.reset()
        steps: list[Any] = []
        for _ in range(6):
            env.send(zeros())
            steps.append(env.recv()[0])

        times = [sorted(step.observation[:, 2].tolist()) for step in steps]
        assert times == [[n % 4] * NUM_ROWS for n in range(1, 7)]


def test_views_of_a_round_hold_while_rows_are_sent(options: dict[str, Any]) -> None:
    with pe.ParallelPyEnvironment(COUNTING, **options) as env:
        view = env.reset()
        said = [leaf.tolist() for leaf in view]

        for _ in range(5):
            env.send(zeros())
            env.recv()

        assert [leaf.tolist() for leaf in view] == said


def test_a_round_follows_when_all_is_received(env: EnvironmentBatch) -> None:
    env.send(zeros(2), [0, 2])
    with pytest.raises(RuntimeError, match="step: 2 rows have an action whose step"):
        env.step(zeros())
    env.recv()

    time_step = env.step(zeros())

    assert time_step.observation[:, 2].tolist() == [2, 1, 2, 1]


@pytest.mark.parametrize("kind", ["tree", "batched"])
def test_the_current_time_step_is_what_each_row_said_last(
    make: Make, kind: str
) -> None:
    generator = np.random.default_rng(5)
    with make(batches.KINDS[kind]) as env:
        spec = pe.specs.add_outer_dim(env.action_spec(), env.batch_size)
        env.reset()
        said = env.step(pe.specs.sample(spec, generator))
        before = batches.frozen([said])
        first, last = [0, 1], list(range(env.batch_size))[2:]
        for rows in (first, last, last):
            action = pe.specs.sample(spec, generator)
            env.send(ordered(action, rows), rows)
            time_step, ids = env.recv()
            places = np.argsort(ids)
            assert batches.frozen(
                [ordered(env.current_time_step(), rows)]
            ) == batches.frozen([ordered(time_step, places)])

        assert batches.frozen([said]) == before
        latest = env.step(pe.specs.sample(spec, generator))
        assert env.current_time_step() is latest


def test_rows_under_way_are_at_what_they_said_before(env: EnvironmentBatch) -> None:
    env.send(zeros())
    env.recv()

    env.send(zeros(2), [1, 3])
    time_step = env.current_time_step()

    assert time_step.observation.tolist() == [[row, 0, 1] for row in range(NUM_ROWS)]


def test_a_reset_is_what_rows_have_said_last(env: EnvironmentBatch) -> None:
    env.send(zeros())
    env.recv(2)

    time_step = env.reset()

    assert env.current_time_step() is time_step


def test_reset_drops_what_is_under_way(env: EnvironmentBatch) -> None:
    for _ in range(3):
        env.send(zeros())
        assert env.reset().step_type.tolist() == [FIRST] * NUM_ROWS
        with pytest.raises(ValueError, match="expected at most 0 rows"):
            env.recv(1)

    env.send(zeros())
    time_step, ids = env.recv()
    assert {step[2][2] for step in told(time_step, ids).values()} == {1}


def test_nothing_can_be_sent_or_received(env: EnvironmentBatch) -> None:
    env.send(np.zeros(0, np.int64), [])
    time_step, ids = env.recv()

    assert ids.tolist() == []
    assert time_step.observation.shape == (0, 3)


@pytest.mark.parametrize(
    ("count", "env_ids", "message"),
    [
        (2, [0, 4], r"send: env_ids: expected rows from 0 to 3, got 4\."),
        (2, [-1, 0], r"send: env_ids: expected rows from 0 to 3, got -1\."),
        (2, [2, 2], r"send: env_ids: row 2 is there twice\."),
        (
            1,
            [1],
            r"send: row 1 has an action already: recv\(\) its step fir",
        ),
        (2, [2], r"action: expected int64 of shape \(1,\), got int64 of shape \(2,\)"),
    ],
)
def test_wrong_rows_are_refused_and_nothing_is_sent(
    env: EnvironmentBatch, count: int, env_ids: list[int], message: str
) -> None:
    env.send(zeros(1), [1])
    with pytest.raises(ValueError, match=message):
        env.send(zeros(count), env_ids)

    _, ids = env.recv()
    assert ids.tolist() == [1]


@pytest.mark.parametrize("env_ids", [[0.0], "0", [[0]], 0, [True]])
def test_what_is_no_list_of_rows_is_refused(
    env: EnvironmentBatch, env_ids: Any
) -> None:
    with pytest.raises(TypeError, match="send: env_ids: expected a list of row num"):
        env.send(zeros(1), env_ids)


@pytest.mark.parametrize(
    ("n", "error", "message"),
    [
        (3, ValueError, "recv: expected at most 2 rows, as many as have an action"),
        (-1, ValueError, "recv: n: expected at least 0, got -1"),
        (1.5, TypeError, r"recv: n: expected a number of rows, got 1\.5"),
    ],
)
def test_more_than_there_is_cannot_be_received(
    env: EnvironmentBatch, n: Any, error: type[Exception], message: str
) -> None:
    env.send(zeros(2), [0, 1])

    with pytest.raises(error, match=message):
        env.recv(n)

    assert sorted(env.recv()[1]) == [0, 1]


def test_a_reset_comes_first(make: Make) -> None:
    with make(COUNTING) as env, pytest.raises(RuntimeError, match=r"call reset\(\)"):
        env.send(zeros())


def test_rows_of_a_batched_environment_go_together(make: Make) -> None:
    with make(batches.KINDS["batched"]) as env:
        env.reset()
        with pytest.raises(ValueError, match="rows 0 to 1 are one batched environment"):
            env.send(np.zeros(2, np.int32), [1, 2])

        env.send(np.zeros(3, np.int32), [4, 2, 3])
        received = [int(env.recv(1)[1][0]) for _ in range(3)]

        assert sorted(received) == [2, 3, 4]


class Gated(environments.Counting):
    """Steps, from the second on, once a named pipe is written to."""

    def __init__(self, index: int, folder: pathlib.Path) -> None:
        super().__init__(index, length=99)
        self._path = folder / f"gate-{index}"

    def _step(self, action: Any) -> ts.TimeStep:
        with open(self._path, "rb") as gate:
            gate.read(1)
        return super()._step(action)


def test_the_first_that_are_done_are_received_first(tmp_path: pathlib.Path) -> None:
    gates = [tmp_path / f"gate-{n}" for n in range(3)]
    for gate in gates:
        os.mkfifo(gate)
    makers = [functools.partial(Gated, n, tmp_path) for n in range(3)]
    with pe.ParallelPyEnvironment(makers) as env:
        env.reset()
        env.send(zeros(3))

        order: list[int] = []
        for n in (2, 0, 1):
            gates[n].write_bytes(b"!")
            order += env.recv(1)[1].tolist()

    assert order == [2, 0, 1]


def test_a_slow_row_holds_nobody(tmp_path: pathlib.Path) -> None:
    gate = tmp_path / "gate-0"
    os.mkfifo(gate)
    makers = [functools.partial(Gated, 0, tmp_path), *COUNTING[1:]]
    with pe.ParallelPyEnvironment(makers) as env:
        env.reset()
        env.send(zeros())
        counts = dict.fromkeys(range(4), 0)
        for _ in range(60):
            _, ids = env.recv(1)
            counts[int(ids[0])] += 1
            env.send(zeros(1), ids)
        assert counts[0] == 0
        assert min(counts[1], counts[2], counts[3]) > 5

        gate.write_bytes(b"!")
        received: set[int] = set()
        while 0 not in received:
            _, ids = env.recv(3)
            received.update(ids.tolist())
            env.send(zeros(3), ids)


def test_infos_of_rows_under_way_are_not_waited_for(tmp_path: pathlib.Path) -> None:
    gate = tmp_path / "gate-0"
    os.mkfifo(gate)
    makers = [functools.partial(Gated, 0, tmp_path), *COUNTING[1:]]
    with pe.ParallelPyEnvironment(makers) as env:
        env.reset()
        env.send(zeros(2), [0, 1])
        env.recv(1)

        assert env.get_info() == [{}, *({"episode": 0, "t": t} for t in (1, 0, 0))]
        gate.write_bytes(b"!")
        env.recv(1)


class Crowded(environments.Counting):
    """Tells how many others step at the same time, by files in a folder."""

    def __init__(self, index: int, folder: pathlib.Path) -> None:
        super().__init__(index, length=99)
        self._folder = folder

    def _step(self, action: Any) -> ts.TimeStep:
        mine = self._folder / f"at-it-{self.index}"
        mine.touch()
        for _ in range(50):
            os.sched_yield()
        count = len(list(self._folder.iterdir()))
        mine.unlink()
        step = super()._step(action)
        return step._replace(reward=np.float32(count))


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("shared_memory", [True, False])
def test_no_more_than_so_many_step_at_a_time(
    tmp_path: pathlib.Path, limit: int, shared_memory: bool
) -> None:
    makers = [functools.partial(Crowded, n, tmp_path) for n in range(5)]
    with pe.ParallelPyEnvironment(
        makers, max_concurrency=limit, shared_memory=shared_memory
    ) as env:
        env.reset()
        env.send(zeros(5))
        counts: list[float] = []
        rows: list[int] = []
        for _ in range(40):
            time_step, ids = env.recv(1)
            counts += time_step.reward.tolist()
            rows += ids.tolist()
            env.send(zeros(1), ids)

    assert max(counts) <= limit
    assert set(rows) == set(range(5))


def test_calls_are_answered_between_steps(options: dict[str, Any]) -> None:
    with pe.ParallelPyEnvironment(COUNTING, **options) as env:
        env.reset()
        env.send(zeros())
        assert env.get_attr("index") == [0, 1, 2, 3]
        for _ in range(5):
            _, ids = env.recv(2)
            promise = env.envs[0].call("get_info")
            env.send(zeros(2), ids)
            assert promise()["episode"] >= 0
        env.recv()


# Faults.


FAULTS = {
    "raises": environments.RaisingInStep,
    "dies": environments.Dying,
    "misfits": environments.WrongReward,
}


@pytest.mark.parametrize("fault", ["raises", "dies"])
def test_a_failure_is_raised_where_its_row_is_received(
    process_options: dict[str, Any], fault: str
) -> None:
    makers = [*COUNTING, functools.partial(FAULTS[fault], 4, 9, 2)]
    with pe.ParallelPyEnvironment(makers, **process_options) as env:
        env.reset()
        env.send(zeros(5))
        env.recv()
        env.send(zeros(5))

        with pytest.raises(errors.WorkerError, match=r"environment 4 .*step") as info:
            env.recv()

        assert 4 in info.value.indices
        for call in (lambda: env.send(zeros(5)), env.recv):
            with pytest.raises(RuntimeError, match=r"Call reset\(\) first"):
                call()
        assert env.reset().step_type.tolist() == [FIRST] * 5
        env.send(zeros(5))
        assert sorted(env.recv()[1]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("max_restarts", [0, 1])
def test_a_failure_does_not_wait_for_rows_that_are_slow(
    tmp_path: pathlib.Path, shared_memory: bool, max_restarts: int
) -> None:
    gate = tmp_path / "gate-0"
    os.mkfifo(gate)
    makers = [
        functools.partial(Gated, 0, tmp_path),
        functools.partial(environments.RaisingInStep, 1, 9, 1),
    ]
    with pe.ParallelPyEnvironment(
        makers, shared_memory=shared_memory, max_restarts=max_restarts
    ) as env:
        env.reset()
        env.send(zeros(2))

        if max_restarts:
            assert told(*env.recv(1)) == {1: (LAST, 0.0, [1, 0, 0])}
        else:
            with pytest.raises(errors.WorkerError, match="environment 1 raised"):
                env.recv()
        gate.write_bytes(b"!")


@pytest.mark.parametrize("fault", ["raises", "dies", "misfits"])
def test_a_repaired_row_says_last_and_then_first(
    process_options: dict[str, Any], fault: str
) -> None:
    arguments = (2,) if fault == "misfits" else (2, 9, 2)
    makers = [*COUNTING[:2], functools.partial(FAULTS[fault], *arguments)]
    with pe.ParallelPyEnvironment(makers, max_restarts=99, **process_options) as env:
        first = env.reset()
        streams = {row: [int(kind)] for row, kind in enumerate(first.step_type)}
        env.send(zeros(3))
        crashed = 0
        while crashed < 2 or streams[2][-1] == LAST:
            time_step, ids = env.recv(1)
            row, kind = int(ids[0]), int(time_step.step_type[0])
            if row == 2 and kind == LAST:
                crashed += 1
                assert time_step.reward.tolist() == [0.0]
                assert time_step.discount.tolist() == [1.0]
                assert env.get_info()[2]["crashed"] is True
            streams[row].append(kind)
            env.send(zeros(1), ids)

    for stream in streams.values():
        _check_grammar(stream)


def _check_grammar(stream: list[int]) -> None:
    """Checks that a row says FIRST (MID)* LAST over and over."""
    for before, after in itertools.pairwise(stream):
        assert (after == FIRST) == (before == LAST)


def test_rows_that_share_a_lost_process_say_so_when_they_are_sent_to() -> None:
    makers = [*COUNTING[:2], functools.partial(environments.Dying, 2, 9, 2)]
    with pe.ParallelPyEnvironment(makers, max_restarts=1, num_workers=1) as env:
        env.reset()
        env.send(zeros(3))
        env.recv()
        env.send(zeros(1), [2])
        time_step, ids = env.recv()
        assert told(time_step, ids) == {2: (LAST, 0.0, [2, 0, 1])}

        env.send(zeros(3))
        time_step, ids = env.recv()

        assert told(time_step, ids) == {
            0: (LAST, 0.0, [0, 0, 1]),
            1: (LAST, 0.0, [1, 0, 1]),
            2: (FIRST, 0.0, [2, 0, 0]),
        }
        assert [record.index for record in env.failures] == [2]
        env.send(zeros(3))
        assert [int(kind) for kind in sorted(env.recv()[0].step_type)] == [0, 0, 1]


@pytest.mark.parametrize("is_given", [False, True], ids=["new arrays", "out"])
def test_rows_that_share_a_lost_process_say_so_when_all_are_stepped(
    is_given: bool,
) -> None:
    makers = [*COUNTING[:2], functools.partial(environments.Dying, 2, 9, 2)]
    with pe.ParallelPyEnvironment(makers, max_restarts=1, num_workers=1) as env:
        given = env.reset() if is_given else env.reset() and None
        env.send(zeros(3))
        env.recv()
        env.send(zeros(1), [2])
        env.recv()

        steps = [env.step(zeros(3), out=given).step_type.tolist() for _ in range(2)]
        env.send(zeros(2), [0, 1])
        kinds = env.recv()[0].step_type.tolist()

        assert steps == [[LAST, LAST, FIRST], [FIRST, FIRST, MID]]
        assert kinds == [MID, MID]


class Apart(pe.PyEnvironment):
    """Two rows, of which action 2 ends an episode; raises at action 9."""

    def __init__(self) -> None:
        super().__init__(handle_auto_reset=False)
        self._are_over = np.zeros(2, bool)

    @property
    def batched(self) -> bool:
        return True

    @property
    def batch_size(self) -> int:
        return 2

    def observation_spec(self) -> pe.ArraySpec:
        return pe.ArraySpec((), np.float32)

    def action_spec(self) -> pe.ArraySpec:
        return pe.ArraySpec((), np.int64)

    def _reset(self) -> ts.TimeStep:
        self._are_over[:] = False
        return ts.restart(np.zeros(2, np.float32), batch_size=2)

    def _step(self, action: Any) -> ts.TimeStep:
        if 9 in action:
            raise ValueError("nine")
        kinds = np.where(self._are_over, FIRST, np.where(action == 2, LAST, MID))
        self._are_over = kinds == LAST
        ones = np.ones(2, np.float32)
        return ts.TimeStep(kinds.astype(np.int32), ones, ones, ones)


@pytest.mark.parametrize("ways", list(itertools.product(["step", "recv"], repeat=2)))
def test_rows_of_a_batched_environment_are_made_anew_whatever_steps_them(
    ways: tuple[str, str],
) -> None:
    def stepped(way: str, *action: int) -> list[int]:
        if way == "step":
            return env.step(list(action)).step_type.tolist()
        env.send(list(action))
        time_step, ids = env.recv()
        return time_step.step_type[np.argsort(ids)].tolist()

    with pe.ParallelPyEnvironment([Apart], max_restarts=1, num_workers=1) as env:
        env.reset()
        assert stepped(ways[0], 2, 0) == [LAST, MID]
        assert stepped(ways[0], 0, 9) == [FIRST, LAST]
        assert stepped(ways[1], 0, 0) == [MID, FIRST]
        assert stepped(ways[0], 0, 0) == [MID, MID]


def test_a_worker_that_is_killed_while_idle_is_replaced(
    process_options: dict[str, Any],
) -> None:
    with pe.ParallelPyEnvironment(COUNTING, max_restarts=1, **process_options) as env:
        env.reset()
        pid = env.worker_pids[3]
        os.kill(pid, signal.SIGKILL)
        waiting.wait_for_end([pid])

        env.send(zeros(1), [3])
        time_step, ids = env.recv()

        assert told(time_step, ids) == {3: (LAST, 0.0, [3, 0, 0])}
        env.send(zeros(1), [3])
        time_step, ids = env.recv()
        assert told(time_step, ids) == {3: (FIRST, 0.0, [3, 0, 0])}


def test_a_row_that_takes_too_long_is_named(process_options: dict[str, Any]) -> None:
    makers = [*COUNTING, functools.partial(environments.Hanging, 4, 9, 1)]
    with pe.ParallelPyEnvironment(makers, step_timeout=0.3, **process_options) as env:
        env.reset()
        env.send(zeros(5))

        with pytest.raises(errors.WorkerTimeoutError, match=r"environment 4 was not"):
            env.recv()


def test_a_row_that_takes_too_long_is_replaced() -> None:
    makers = [*COUNTING[:2], functools.partial(environments.Hanging, 2, 9, 2)]
    with pe.ParallelPyEnvironment(
        makers, step_timeout=0.3, max_restarts=1, num_workers=2
    ) as env:
        env.reset()
        env.send(zeros(3))
        env.recv()
        env.send(zeros(1), [2])
        env.send(zeros(1), [0])

        kinds = [told(*env.recv(1)) for _ in range(2)]

        assert kinds[0].keys() == {0}
        assert kinds[1] == {2: (LAST, 0.0, [2, 0, 1])}


def test_an_answer_that_lies_unread_is_never_late() -> None:
    with pe.ParallelPyEnvironment(COUNTING, step_timeout=0.2) as env:
        env.reset()
        env.send(zeros())
        threading.Event().wait(0.5)

        assert sorted(env.recv()[1]) == [0, 1, 2, 3]


class RefusingToReset(environments.Counting):
    """Raises in its second reset, unless a file says that another one has."""

    def __init__(self, index: int, path: pathlib.Path) -> None:
        super().__init__(index, length=1)
        self._path = path

    def _reset(self) -> ts.TimeStep:
        if self.episode == 0 and not self._path.exists():
            self._path.touch()
            raise ValueError("no more episodes")
        return super()._reset()


def test_a_failed_reset_is_repaired_by_a_first_step(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    makers = [*COUNTING[:1], functools.partial(RefusingToReset, 1, tmp_path / "done")]
    with pe.ParallelPyEnvironment(makers, max_restarts=1, **options) as env:
        env.reset()
        env.send(zeros(1), [1])
        assert told(*env.recv()) == {1: (LAST, 1.0, [1, 0, 1])}

        env.send(zeros(2))
        steps = told(*env.recv())

        assert steps == {0: (MID, 1.0, [0, 0, 1]), 1: (FIRST, 0.0, [1, 0, 0])}
        assert env.get_info()[1]["crashed"] is True


def test_closing_ends_one_who_waits(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "gate-0")
    raised: list[BaseException] = []
    env = pe.ParallelPyEnvironment([functools.partial(Gated, 0, tmp_path)])
    env.reset()
    env.send(zeros(1))
    entered = threading.Event()

    def receive() -> None:
        entered.set()
        try:
            env.recv()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    entered.wait()
    env.close()
    thread.join(20)

    assert [type(error) for error in raised] == [errors.ClosedError]
    for call in (lambda: env.send(zeros(1)), env.recv):
        with pytest.raises(errors.ClosedError):
            call()


@hypothesis.settings(deadline=None, max_examples=8)
@hypothesis.given(data=st.data())
@pytest.mark.parametrize(
    "mode", ["two workers", "sockets", "no workers", "a worker each"]
)
def test_whatever_is_sent_and_received_no_step_is_lost(
    mode: str, data: st.DataObject
) -> None:
    with pe.ParallelPyEnvironment(COUNTING, **EVERYWHERE[mode]) as env:
        env.reset()
        numbers = dict.fromkeys(range(NUM_ROWS), 0)
        free, away = set(range(NUM_ROWS)), set[int]()
        for _ in range(data.draw(st.integers(1, 15))):
            sent = data.draw(st.permutations(sorted(free)))[
                : data.draw(st.integers(0, 4))
            ]
            env.send(zeros(len(sent)), sent)
            free.difference_update(sent)
            away.update(sent)
            count = data.draw(st.integers(0, len(away)))
            for row, (_, _, observation) in told(*env.recv(count)).items():
                numbers[row] += 1
                assert observation == [row, numbers[row] // 4, numbers[row] % 4]
                away.remove(row)
                free.add(row)
