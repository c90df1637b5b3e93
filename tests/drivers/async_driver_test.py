"""How AsyncDriver overlaps policy and environments, and that nothing else differs."""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import errors
from parallel_envs import time_step as ts
from parallel_envs.batch.environment_batch import EnvironmentBatch
from parallel_envs.drivers import AsyncDriver, PyDriver
from parallel_envs.specs import nest
from parallel_envs.testing import environments
from parallel_envs.trajectory import PolicyStep, Trajectory, Transition
from tests import batches

FIRST, MID, LAST = 0, 1, 2
Make = Callable[[batches.Constructors], EnvironmentBatch]
Streams = dict[int, list[Any]]


@pytest.fixture(params=batches.FEW)
def make(request: pytest.FixtureRequest) -> Make:
    """One way to make a batch."""
    return batches.MODES[request.param]


def counting(*lengths: int) -> list[Callable[[], Any]]:
    """Returns constructors of rows with episodes of these lengths."""
    return [
        functools.partial(environments.Counting, index, length)
        for index, length in enumerate(lengths)
    ]


def here(*lengths: int) -> EnvironmentBatch:
    """Returns such a batch in this process."""
    return pe.BatchedPyEnvironment([construct() for construct in counting(*lengths)])


def act(time_step: ts.TimeStep) -> Any:
    """Action 0 in each row."""
    return np.zeros(len(time_step.step_type), np.int64)


def row_of(value: Any, place: int) -> Any:
    """Returns one row of a nest; a leaf whose size varies is a list."""
    if isinstance(value, dict):
        return {key: row_of(own, place) for key, own in value.items()}  # pyright: ignore
    if isinstance(value, tuple):
        rows = [row_of(own, place) for own in value]  # pyright: ignore
        return type(value)(*rows) if hasattr(value, "_fields") else tuple(rows)  # pyright: ignore
    return np.asarray(value[place])


class Recorder:
    """An observer of both drivers: what each row was seen to do, as bytes."""

    def __init__(self) -> None:
        self.streams: Streams = defaultdict(list)
        self.sizes: list[int] = []

    def __call__(self, step: Any, env_ids: Any = None) -> None:
        num_rows = len(step[0].step_type if isinstance(step, Transition) else step[0])
        if env_ids is None:
            env_ids = np.arange(num_rows, dtype=np.int32)
        assert env_ids.dtype == np.int32
        assert env_ids.shape == (num_rows,)
        self.sizes.append(num_rows)
        for place, row in enumerate(env_ids.tolist()):
            self.streams[row].append(batches.frozen([row_of(step, place)]))


def assert_same_beginnings(found: Streams, expected: Streams) -> None:
    """Checks that each row is the same as far as both were stepped."""
    assert found.keys() == expected.keys()
    # Some rows may have been much faster than others, but not all of them.
    lengths = {row: min(len(found[row]), len(expected[row])) for row in found}
    assert max(lengths.values()) >= 8
    for row, length in lengths.items():
        assert found[row][:length] == expected[row][:length]


class Watching(pe.PyPolicy):
    """Acts by what it sees, differently in each row, and has infos and a state."""

    def __init__(self, env: pe.PyEnvironment) -> None:
        state = {
            "age": pe.ArraySpec((), np.int64),
            "total": (pe.ArraySpec((2,), "f4"),),
        }
        info = {"age": pe.ArraySpec((), np.int64), "so_far": (pe.ArraySpec((), "f4"),)}
        super().__init__(env.time_step_spec(), env.action_spec(), state, info)

    def _action(
        self, time_step: ts.TimeStep, policy_state: Any, seed: int | None = None
    ) -> PolicyStep:
        (total,) = policy_state["total"]
        reward = np.asarray(time_step.reward)
        state = {"age": policy_state["age"] + 1, "total": (total + reward[:, None],)}
        rows = [
            pe.specs.sample(
                self.action_spec,
                np.random.default_rng([int(age), int(abs(own) * 8) % 97, int(kind)]),
            )
            for age, own, kind in zip(
                policy_state["age"], total[:, 0], time_step.step_type, strict=True
            )
        ]
        leaves = zip(*map(pe.specs.flatten, rows), strict=True)
        action = nest.pack(self.action_spec, [np.stack(leaf) for leaf in leaves])
        info = {"age": policy_state["age"], "so_far": (total[:, 0],)}
        return PolicyStep(action, state, info)


@functools.cache
def seen_by_py_driver(kind: str, is_transition: bool) -> Streams:
    recorder = Recorder()
    with batches.MODES["batched"](batches.KINDS[kind]) as env:
        observers: Any = ([], [recorder]) if is_transition else ([recorder], [])
        PyDriver(env, Watching(env), *observers, max_steps=16 * env.batch_size).run()
    return recorder.streams


@pytest.mark.parametrize("kind", ["drawing", "tree", "batched"])
@pytest.mark.parametrize("is_transition", [False, True])
def test_each_row_is_seen_as_py_driver_shows_it(
    make: Make, kind: str, is_transition: bool
) -> None:
    recorder = Recorder()

    with make(batches.KINDS[kind]) as env:
        observers: Any = ([], [recorder]) if is_transition else ([recorder], [])
        AsyncDriver(env, Watching(env), *observers, max_steps=16 * env.batch_size).run()

    assert_same_beginnings(recorder.streams, seen_by_py_driver(kind, is_transition))


@pytest.mark.parametrize("rows_per_action", [1, 2, 3, 4, 5])
def test_rows_of_a_batched_environment_wait_for_each_other(
    rows_per_action: int,
) -> None:
    recorder = Recorder()

    with pe.ParallelPyEnvironment(batches.KINDS["batched"]) as env:
        AsyncDriver(
            env,
            Watching(env),
            [recorder],
            max_steps=90,
            rows_per_action=rows_per_action,
        ).run()

    assert_same_beginnings(recorder.streams, seen_by_py_driver("batched", False))


def test_a_replay_buffer_gets_the_same_from_both_drivers(make: Make) -> None:
    contents: list[Any] = []
    for kind in (AsyncDriver, PyDriver):
        with make(counting(2, 3, 4, 5)) as env:
            buffer = pe.ReplayBuffer(capacity=99, num_streams=4)
            kind(env, Watching(env), [buffer.add_batch], max_steps=60).run()
            steps: Streams = defaultdict(list)
            for step in buffer.iterate():
                row = int(step.observation[0, 0])
                steps[row].append(batches.frozen([row_of(step, 0)]))
            contents.append(steps)

    assert_same_beginnings(*contents)


@pytest.mark.parametrize(("num_rows", "size"), [(1, 1), (2, 1), (5, 2), (8, 4)])
def test_half_of_the_rows_are_received_at_a_time(num_rows: int, size: int) -> None:
    recorder = Recorder()

    with here(*[3] * num_rows) as env:
        AsyncDriver(env, act, [recorder], max_steps=8 * num_rows).run()

    assert set(recorder.sizes[:-1]) == {size}
    assert recorder.sizes[-1] == num_rows - size or num_rows == 1


@hypothesis.given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    max_steps=st.integers(0, 40),
    max_episodes=st.integers(0, 10),
    on_boundary=st.booleans(),
)
def test_with_all_rows_at_a_time_it_is_py_driver(
    lengths: list[int], max_steps: int, max_episodes: int, on_boundary: bool
) -> None:
    hypothesis.assume(max_steps or max_episodes)
    limits: Any = (max_steps, max_episodes, on_boundary)
    found, expected = Recorder(), Recorder()
    sync, asynchronous = here(*lengths), here(*lengths)

    time_step, _ = PyDriver(sync, act, [expected], (), (), *limits).run()
    last, _ = AsyncDriver(
        asynchronous, act, [found], (), *limits, rows_per_action=len(lengths)
    ).run()

    assert found.streams == expected.streams
    assert batches.frozen([last]) == batches.frozen([time_step])


@hypothesis.given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    rows_per_action=st.integers(1, 5),
    max_steps=st.integers(1, 40),
)
def test_a_run_goes_at_most_b_minus_1_steps_past_its_limit(
    lengths: list[int], rows_per_action: int, max_steps: int
) -> None:
    hypothesis.assume(rows_per_action <= len(lengths))
    steps = pe.metrics.EnvironmentSteps()

    AsyncDriver(
        here(*lengths),
        act,
        [steps],
        max_steps=max_steps,
        rows_per_action=rows_per_action,
    ).run()

    # A first action of all rows is at most B steps.
    assert max_steps <= steps.result() < max_steps + len(lengths)


@pytest.mark.parametrize("on_boundary", [True, False])
def test_episodes_count_at_their_boundary_or_at_their_last_step(
    on_boundary: bool,
) -> None:
    boundaries: list[bool] = []
    ends: list[bool] = []

    def observe(step: Trajectory, env_ids: Any) -> None:
        boundaries.extend(step.is_boundary())
        ends.extend(step.is_last())

    with here(2, 3, 4) as env:
        AsyncDriver(
            env,
            act,
            [observe],
            max_episodes=5,
            end_episode_on_boundary=on_boundary,
        ).run()

    counted = boundaries if on_boundary else ends
    assert 5 <= sum(counted) <= 7


def test_a_run_ends_with_all_rows_at_rest_and_the_next_goes_on(make: Make) -> None:
    recorder, whole = Recorder(), Recorder()
    with make(counting(2, 3, 4, 5)) as env:
        driver = AsyncDriver(env, Watching(env), [recorder], max_steps=15)

        time_step, policy_state = driver.run()
        assert batches.frozen([time_step]) == batches.frozen([env.current_time_step()])
        time_step, policy_state = driver.run(time_step, policy_state)
        PyDriver(env, Watching(env), [recorder], max_steps=15).run(
            time_step, policy_state
        )
    with here(2, 3, 4, 5) as env:
        PyDriver(env, Watching(env), [whole], max_steps=60).run()

    assert_same_beginnings(recorder.streams, whole.streams)


def test_without_a_time_step_runs_go_on_where_the_environment_stands() -> None:
    recorder = Recorder()
    times: list[list[int]] = [[], [], []]

    def note(step: Trajectory, env_ids: Any = range(3)) -> None:
        for row, observation in zip(env_ids, step.observation, strict=True):
            times[int(row)].append(int(observation[2]))

    with pe.ParallelPyEnvironment(counting(99, 99, 99)) as env:
        driver = AsyncDriver(env, act, [recorder, note], max_steps=7)
        driver.run()
        driver.run()
        env.step(np.zeros(3, np.int64))
        seen = [len(stream) for stream in times]
        PyDriver(env, act, [note], max_steps=3).run()
        driver.run()

    for stream, count in zip(times, seen, strict=True):
        # One step was made between the drivers' own.
        skipped = [n for n in range(len(stream) + 1) if n != count]
        assert stream == skipped


def test_what_observers_and_callers_get_is_their_own() -> None:
    steps: list[Trajectory] = []

    def spoil(step: Trajectory, env_ids: Any) -> None:
        steps.append(step)
        step.observation[...] = -1
        step.action[...] = -1
        step.reward[...] = -1

    recorder, expected = Recorder(), Recorder()
    with here(2, 3, 4, 5) as env:
        driver = AsyncDriver(env, Watching(env), [recorder, spoil], max_steps=30)
        time_step, _ = driver.run()
        time_step.observation[...] = -1
    with here(2, 3, 4, 5) as env:
        PyDriver(env, Watching(env), [expected], max_steps=60).run()

    for row, stream in recorder.streams.items():
        assert stream == expected.streams[row][: len(stream)]


# Policies.


class Remembering(pe.PyPolicy):
    """A row's state is how many actions it chose in this episode."""

    def __init__(self, env: pe.PyEnvironment) -> None:
        spec = pe.ArraySpec((), np.int64)
        super().__init__(env.time_step_spec(), env.action_spec(), spec)

    def _get_initial_state(self, batch_size: int | None) -> Any:
        rows = super()._get_initial_state(batch_size)
        return {"rows": rows, "all": np.zeros(7), "count": 0}

    def _action(
        self, time_step: ts.TimeStep, policy_state: Any, seed: int | None = None
    ) -> PolicyStep:
        assert policy_state["rows"].tolist() == time_step.observation[:, 2].tolist()
        state = {
            "rows": policy_state["rows"] + 1,
            "all": policy_state["all"] + 1,
            "count": policy_state["count"] + 1,
        }
        return PolicyStep(act(time_step), state)


def test_a_state_belongs_to_its_row_and_begins_anew_with_its_episode(
    make: Make,
) -> None:
    transitions: list[Transition] = []

    def note(transition: Transition, env_ids: Any) -> None:
        transitions.append(transition)

    with make(counting(2, 3, 4, 5)) as env:
        driver = AsyncDriver(env, Remembering(env), [], [note], max_steps=50)
        time_step, state = driver.run()

    assert state["rows"].tolist() == time_step.observation[:, 2].tolist()
    for before, policy_step, _ in transitions:
        own = policy_step.state["rows"]
        assert own.tolist() == before.observation[:, 2].tolist()
    # The first answer, about all rows, is told in two parts, and so is the end.
    assert state["count"] == len(transitions) - 1
    assert state["all"].tolist() == [state["count"]] * 7


def test_a_policy_may_make_its_state_by_itself() -> None:
    class Own:
        def action(self, time_step: Any, policy_state: Any = ()) -> PolicyStep:
            old = policy_state if len(policy_state) else 0 * time_step.reward
            return PolicyStep(act(time_step), old + 1, {"old": old})

    def ignore(transition: Transition, env_ids: Any) -> None:
        pass

    own: Any = Own()
    recorder, expected = Recorder(), Recorder()
    with here(9, 9, 9) as env:
        AsyncDriver(env, own, [recorder], [ignore], max_steps=40).run()
    with here(9, 9, 9) as env:
        PyDriver(env, own, [expected], max_steps=60).run()

    assert_same_beginnings(recorder.streams, expected.streams)


class Choosy(environments.Counting):
    """Takes as many numbers as one likes, and says how many they were."""

    def action_spec(self) -> Any:
        return {"picks": pe.ArraySpec((None,), np.int64)}

    def _step(self, action: Any) -> ts.TimeStep:
        return super()._step(action)._replace(reward=np.float32(len(action["picks"])))


class Picking(pe.PyPolicy):
    """Picks t + 1 numbers, and tells them."""

    def __init__(self, env: pe.PyEnvironment) -> None:
        info_spec = [pe.ArraySpec((None,), np.int64)]
        super().__init__(env.time_step_spec(), env.action_spec(), (), info_spec)

    def _action(
        self, time_step: ts.TimeStep, policy_state: Any, seed: int | None = None
    ) -> PolicyStep:
        picks: list[Any] = [np.arange(t + 1) for t in time_step.observation[:, 2]]
        return PolicyStep({"picks": picks}, (), [[-own for own in picks]])


def test_actions_and_infos_may_vary_in_size(make: Make) -> None:
    with make([functools.partial(Choosy, n, 3 + n) for n in range(3)]) as env:
        seen: list[Trajectory] = []
        driver = AsyncDriver(env, Picking(env), [lambda t, _: seen.append(t)], (), 30)
        driver.run()

    for step in seen:
        for place, t in enumerate(step.observation[:, 2]):
            assert step.action["picks"][place].tolist() == list(range(t + 1))
            assert step.policy_info[0][place].tolist() == [-n for n in range(t + 1)]
            if step.step_type[place] != LAST:
                assert step.reward[place] == t + 1


def test_answers_of_another_type_keep_their_values() -> None:
    kinds = itertools.chain([np.int32], itertools.repeat(np.int64))
    seen: list[Trajectory] = []

    def answer(time_step: ts.TimeStep) -> PolicyStep:
        action = act(time_step).astype(next(kinds))
        return PolicyStep(action, (), {"big": action + 2 ** (8 * action.itemsize - 2)})

    with here(9, 9) as env:
        AsyncDriver(env, answer, [lambda t, _: seen.append(t)], max_steps=6).run()

    assert seen[-1].policy_info["big"].tolist() == [2**62]


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"p": np.float32(1)}, r"policy_info\['p'\]: expected a row for each of 3 env"),
        ({"p": np.zeros(2)}, r"policy_info\['p'\]: .* got float64 of shape \(2,\)"),
    ],
)
def test_an_info_without_rows_is_refused(info: Any, message: str) -> None:
    def answer(time_step: ts.TimeStep) -> PolicyStep:
        return PolicyStep(act(time_step), (), info)

    with here(9, 9, 9) as env, pytest.raises(ValueError, match=message):
        AsyncDriver(env, answer, [], max_steps=6).run()


def test_an_action_that_does_not_fit_is_the_environments_error() -> None:
    with here(9, 9, 9) as env:
        driver = AsyncDriver(env, lambda _: np.zeros(2, np.int64), [], max_steps=6)
        with pytest.raises(ValueError, match=r"action: expected int64 of shape \(3,\)"):
            driver.run()


# Overlapping.


class Gated(environments.Counting):
    """Steps once a named pipe is written to, and then writes to another one."""

    def __init__(self, index: int, folder: pathlib.Path) -> None:
        super().__init__(index, length=99)
        self._folder = folder

    def _step(self, action: Any) -> ts.TimeStep:
        (self._folder / f"gate-{self.index}").read_bytes()
        step = super()._step(action)
        (self._folder / f"done-{self.index}").write_bytes(b"!")
        return step


def with_gates(folder: pathlib.Path, *indices: int) -> list[Callable[[], Any]]:
    for index in indices:
        os.mkfifo(folder / f"gate-{index}")
        os.mkfifo(folder / f"done-{index}")
    return [
        functools.partial(Gated, index, folder)
        if index in indices
        else functools.partial(environments.Counting, index, 99)
        for index in range(4)
    ]


def test_half_of_the_rows_step_while_the_policy_works(tmp_path: pathlib.Path) -> None:
    makers = with_gates(tmp_path, 2, 3)
    calls: list[list[int]] = []

    def policy(time_step: ts.TimeStep) -> Any:
        calls.append(sorted(time_step.observation[:, 0].tolist()))
        if len(calls) == 2:
            # Both begin and end within this very call.
            for index in (2, 3):
                (tmp_path / f"gate-{index}").write_bytes(b"!")
                (tmp_path / f"done-{index}").read_bytes()
        return act(time_step)

    with pe.ParallelPyEnvironment(makers) as env:
        AsyncDriver(env, policy, [], max_steps=3).run()

    # That reached its limit before a third call.
    assert calls == [[0, 1, 2, 3], [0, 1]]


def test_a_slow_row_holds_nobody_and_its_step_is_not_lost(
    tmp_path: pathlib.Path,
) -> None:
    makers = with_gates(tmp_path, 0)
    counts = np.zeros(4, np.int64)
    steps = pe.metrics.EnvironmentSteps()

    def observe(step: Trajectory, env_ids: Any) -> None:
        counts[env_ids] += 1
        if steps.result() == 40:  # The limit, so that this is the last but one call.
            assert counts[0] == 0
            (tmp_path / "gate-0").write_bytes(b"!")
            (tmp_path / "done-0").read_bytes()

    with pe.ParallelPyEnvironment(makers) as env:
        time_step, _ = AsyncDriver(
            env, act, [steps, observe], max_steps=40, rows_per_action=1
        ).run()

    assert counts[0] == 1
    assert counts.sum() == 43
    assert time_step.observation[:, 2].tolist() == counts.tolist()


# Failures.


@pytest.mark.parametrize("who", ["observer", "policy", "environment"])
def test_after_an_error_the_next_run_resets(who: str) -> None:
    fails = [True]
    seen: list[list[int]] = []

    def fail_once() -> None:
        if fails and fails.pop():
            raise KeyError("full")

    def policy(time_step: ts.TimeStep) -> Any:
        if who == "policy" and len(time_step.step_type) < 4:
            fail_once()
        return act(time_step)

    def observe(step: Trajectory, env_ids: Any) -> None:
        if who == "observer":
            fail_once()
        seen.append(step.step_type.tolist())

    last: Any = functools.partial(environments.Counting, 3, 3)
    if who == "environment":
        last = functools.partial(environments.RaisingInStep, 3, 9, 2)
    expected: Any = errors.WorkerError if who == "environment" else KeyError
    with pe.ParallelPyEnvironment([*counting(3, 3, 3), last]) as env:
        driver = AsyncDriver(env, policy, [observe], max_steps=200)
        with pytest.raises(expected):
            driver.run()
        if who == "environment":
            env.set_attr("at", [0, 0, 0, 99])

        seen.clear()
        time_step, _ = driver.run()

        assert seen[0] == [FIRST, FIRST]
        assert len(time_step.step_type) == 4
        env.step(np.zeros(4, np.int64))


def test_a_repaired_row_says_last_and_then_first() -> None:
    kinds: dict[int, list[int]] = defaultdict(list)

    def observe(step: Trajectory, env_ids: Any) -> None:
        for row, kind in zip(env_ids.tolist(), step.step_type.tolist(), strict=True):
            kinds[row].append(kind)

    makers = [*counting(3, 3), functools.partial(environments.Dying, 2, 9, 2)]
    with pe.ParallelPyEnvironment(makers, max_restarts=99) as env:
        driver = AsyncDriver(env, act, [observe], max_steps=40)
        driver.run()
        assert env.failures

    for stream in kinds.values():
        assert stream[0] == FIRST
        for before, after in itertools.pairwise(stream):
            assert (after == FIRST) == (before == LAST)


# What is refused.


@pytest.mark.parametrize(
    "make_env",
    [
        environments.Counting,
        lambda: pe.wrappers.TimeLimit(here(3, 3), 2),
    ],
)
def test_what_has_no_send_and_recv_is_refused(make_env: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"env: expected a batch .* PyDriver steps any"):
        AsyncDriver(make_env(), act, [], max_steps=1)


@pytest.mark.parametrize("name", ["observers", "transition_observers"])
def test_an_observer_of_one_argument_is_refused_by_its_position(name: str) -> None:
    seen: list[Any] = []
    arguments: dict[str, Any] = {"observers": [], name: [print, seen.append]}

    with pytest.raises(
        TypeError, match=rf"^{name}\[1\]: .* two arguments, .* got append\("
    ):
        AsyncDriver(here(3), act, max_steps=1, **arguments)


@pytest.mark.parametrize(
    ("count", "error", "message"),
    [
        (0, ValueError, "rows_per_action: expected 1 to 2, the rows .* got 0"),
        (3, ValueError, "rows_per_action: expected 1 to 2, the rows .* got 3"),
        (0.5, TypeError, r"rows_per_action: expected an int or None, got 0\.5"),
    ],
)
def test_more_rows_than_there_are_cannot_be_received(
    count: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        AsyncDriver(here(3, 3), act, [], max_steps=1, rows_per_action=count)


def test_a_run_without_a_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="max_steps and max_episodes: expected at"):
        AsyncDriver(here(3), act, [])


@pytest.mark.parametrize("driver", [pe.AsyncDriver, pe.PyDriver])
def test_another_driver_goes_on_where_one_was_broken_off(driver: Any) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    def act(time_step: Any) -> Any:
        return np.zeros(np.shape(time_step.step_type), np.int64)

    with pe.ParallelPyEnvironment([environments.Counting] * 4, num_workers=2) as env:
        with pytest.raises(KeyboardInterrupt):
            pe.AsyncDriver(env, act, [interrupt], max_steps=9).run()
        assert env.num_outstanding > 0

        time_step, _ = driver(env, act, [], max_steps=9).run()

    assert time_step.observation.shape == (4, 3)
