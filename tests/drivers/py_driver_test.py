"""How PyDriver steps, counts, and hands on time steps and states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from parallel_envs import time_step as ts
from parallel_envs.batched_py_environment import BatchedPyEnvironment
from parallel_envs.drivers import PyDriver
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.py_policy import PyPolicy
from parallel_envs.random_py_policy import RandomPyPolicy
from parallel_envs.scripted_py_policy import ScriptedPyPolicy
from parallel_envs.specs import ArraySpec
from parallel_envs.testing.environments import Counting
from parallel_envs.trajectory import PolicyStep, Trajectory, Transition

MakeBatch = Callable[..., PyEnvironment]


def batched(*lengths: int) -> PyEnvironment:
    """Returns a batch of one row for each length of episodes, in this process."""
    return BatchedPyEnvironment(
        [Counting(index, length) for index, length in enumerate(lengths)]
    )


def parallel(*lengths: int) -> PyEnvironment:
    """Returns the same batch in worker processes."""

    def constructor(index: int, length: int) -> Callable[[], PyEnvironment]:
        return lambda: Counting(index, length)

    return ParallelPyEnvironment(
        [constructor(index, length) for index, length in enumerate(lengths)]
    )


@pytest.fixture(params=[batched, parallel])
def make_batch(request: pytest.FixtureRequest) -> MakeBatch:
    return request.param


def act(time_step: ts.TimeStep) -> Any:
    """A policy as a function: action 0 in each row."""
    return np.zeros(np.shape(time_step.step_type), np.int64)


class Remembering(PyPolicy):
    """Its state is how many actions it chose since the state was new."""

    def __init__(self, env: PyEnvironment) -> None:
        spec = ArraySpec((), np.int64)
        super().__init__(env.time_step_spec(), env.action_spec(), spec)
        self.states: list[Any] = []

    def _action(
        self, time_step: ts.TimeStep, policy_state: Any, seed: int | None = None
    ) -> PolicyStep:
        self.states.append(policy_state.tolist())
        return PolicyStep(act(time_step), policy_state + 1)


def step_types(seen: list[Trajectory]) -> list[list[int]]:
    return [np.asarray(step.step_type).tolist() for step in seen]


@pytest.mark.parametrize(("max_steps", "num_calls"), [(12, 3), (13, 5)])
def test_boundaries_are_observed_but_are_no_steps(
    make_batch: MakeBatch, max_steps: int, num_calls: int
) -> None:
    seen: list[Trajectory] = []

    with make_batch(3, 3, 3, 3) as env:
        policy = RandomPyPolicy(env.time_step_spec(), env.action_spec(), seed=0)
        PyDriver(env, policy, [seen.append], max_steps=max_steps).run()

    assert step_types(seen) == [[k] * 4 for k in (0, 1, 1, 2, 0)[:num_calls]]
    assert all(step.observation.shape == (4, 3) for step in seen)
    assert all(step.reward.shape == step.action.shape == (4,) for step in seen)
    assert seen[2].next_step_type.tolist() == [2, 2, 2, 2]


def test_steps_of_rows_with_episodes_of_different_lengths_are_summed(
    make_batch: MakeBatch,
) -> None:
    seen: list[Trajectory] = []

    with make_batch(1, 2) as env:
        time_step, _ = PyDriver(env, act, [seen.append], max_steps=7).run()

    # 2 + 1 + 1 + 1 + 2 steps.
    assert step_types(seen) == [[0, 0], [2, 1], [0, 2], [2, 0], [0, 1]]
    assert time_step.step_type.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("end_episode_on_boundary", "num_calls"), [(True, 5), (False, 4)]
)
def test_an_episode_counts_at_its_boundary_or_at_its_last_step(
    make_batch: MakeBatch, end_episode_on_boundary: bool, num_calls: int
) -> None:
    seen: list[Trajectory] = []

    with make_batch(2, 4) as env:
        # LAST comes with calls 2 and 5 in row 0, with call 4 in row 1.
        PyDriver(
            env,
            act,
            [seen.append],
            max_episodes=2,
            end_episode_on_boundary=end_episode_on_boundary,
        ).run()

    assert len(seen) == num_calls


def test_the_limit_that_is_reached_first_ends_the_run() -> None:
    env = Counting(length=3)
    seen: list[Trajectory] = []
    driver = PyDriver(env, act, [seen.append], max_steps=5, max_episodes=1)

    driver.run()
    driver.run()

    assert step_types(seen) == [0, 1, 1, 2, 0, 1, 1, 2]


def count_by_rows(
    lengths: list[int], max_steps: int, max_episodes: int, on_boundary: bool
) -> int:
    """Returns the number of calls, counting each row and call by itself."""
    calls = steps = episodes = 0
    while steps < (max_steps or 1e9) and episodes < (max_episodes or 1e9):
        for length in lengths:
            place = calls % (length + 1)  # `length` actions and a boundary.
            steps += place < length
            episodes += place == (length if on_boundary else length - 1)
        calls += 1
    return calls


@hypothesis.given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    max_steps=st.integers(0, 40),
    max_episodes=st.integers(0, 10),
    on_boundary=st.booleans(),
)
def test_counting_equals_a_count_row_by_row(
    lengths: list[int], max_steps: int, max_episodes: int, on_boundary: bool
) -> None:
    hypothesis.assume(max_steps or max_episodes)
    seen: list[Trajectory] = []

    PyDriver(
        batched(*lengths),
        act,
        [seen.append],
        max_steps=max_steps,
        max_episodes=max_episodes,
        end_episode_on_boundary=on_boundary,
    ).run()

    assert len(seen) == count_by_rows(lengths, max_steps, max_episodes, on_boundary)


def test_without_a_time_step_a_new_environment_is_reset_and_another_goes_on() -> None:
    env = Counting(length=9)
    seen: list[Trajectory] = []
    driver = PyDriver(env, act, [seen.append], max_steps=2)

    driver.run()
    time_step, _ = driver.run()

    assert [step.observation.tolist() for step in seen] == [
        [0, 0, 0],
        [0, 0, 1],
        [0, 0, 2],
        [0, 0, 3],
    ]
    assert time_step is env.current_time_step()


def test_a_given_time_step_is_where_the_run_starts() -> None:
    env = Counting(length=9)
    env.reset()
    seen: list[Trajectory] = []

    PyDriver(env, act, [seen.append], max_steps=1).run(env.step(0))

    assert seen[0].observation.tolist() == [0, 0, 1]
    assert seen[0].reward == 2


def test_transition_observers_get_the_state_that_the_policy_was_given() -> None:
    env = Counting(length=3)
    seen: list[Transition] = []
    driver = PyDriver(env, Remembering(env), [], [seen.append], max_steps=2)

    _, policy_state = driver.run()

    for time_step, action_step, next_time_step in seen:
        assert action_step.state == time_step.observation[2]
        assert next_time_step.observation[2] == time_step.observation[2] + 1
    assert len(seen) == 2
    assert policy_state == 2


def test_info_observers_get_what_the_environment_says_after_each_step() -> None:
    env = Counting(length=2)
    infos: list[Any] = []

    PyDriver(env, act, [], (), [infos.append], max_steps=3).run()

    assert infos == [
        {"episode": 0, "t": 1},
        {"episode": 0, "t": 2},
        {"episode": 1, "t": 0},
        {"episode": 1, "t": 1},
    ]


def test_observers_are_called_in_order_transitions_first_and_infos_last() -> None:
    calls: list[str] = []

    def note(name: str) -> Callable[[Any], None]:
        return lambda _: calls.append(name)

    PyDriver(
        Counting(),
        act,
        [note("a"), note("b")],
        [note("transition")],
        [note("info")],
        max_steps=1,
    ).run()

    assert calls == ["transition", "a", "b", "info"]


def test_the_state_begins_anew_with_each_episode_of_a_single_environment() -> None:
    env = Counting(length=2)
    policy = Remembering(env)
    driver = PyDriver(env, policy, [], max_episodes=1)

    time_step, policy_state = driver.run()
    driver.run(time_step, policy_state)

    assert policy.states == [0, 1, 2, 0, 1, 2]
    assert policy_state == 0


def test_the_state_begins_anew_in_the_rows_of_a_batch_whose_episode_does() -> None:
    env = batched(1, 3)
    policy = Remembering(env)

    PyDriver(env, policy, [], max_steps=8).run()

    assert policy.states == [[0, 0], [1, 1], [0, 2], [1, 3], [0, 0], [1, 1]]


class Keeping(Remembering):
    """Keeps the states that it returned."""

    def __init__(self, env: PyEnvironment) -> None:
        super().__init__(env)
        self.kept: list[Any] = []

    def _action(
        self, time_step: ts.TimeStep, policy_state: Any, seed: int | None = None
    ) -> PolicyStep:
        policy_step = super()._action(time_step, policy_state)
        self.kept.append(policy_step.state)
        return policy_step


def test_states_that_a_policy_keeps_are_not_written_into() -> None:
    env = batched(1, 3)
    policy = Keeping(env)

    PyDriver(env, policy, [], max_steps=7).run()

    kept = [state.tolist() for state in policy.kept]
    assert kept == [[1, 1], [2, 2], [1, 3], [2, 4], [1, 1]]


class Nested(Remembering):
    """Has a nest for a state: of rows, of one array for all, and of a plain number."""

    def _get_initial_state(self, batch_size: int | None) -> Any:
        rows = super()._get_initial_state(batch_size)
        return {"rows": rows, "all": np.zeros(5), "count": 0}

    def _action(
        self, time_step: ts.TimeStep, policy_state: Any, seed: int | None = None
    ) -> PolicyStep:
        rows = super()._action(time_step, policy_state["rows"]).state
        everyone, count = policy_state["all"] + 1, policy_state["count"] + 1
        state = {"rows": rows, "all": everyone, "count": count}
        return PolicyStep(act(time_step), state)


def test_parts_of_a_state_that_are_not_rows_are_left_to_the_policy() -> None:
    env = batched(1, 3)
    policy = Nested(env)

    _, state = PyDriver(env, policy, [], max_steps=7).run()

    assert policy.states == [[0, 0], [1, 1], [0, 2], [1, 3], [0, 0]]
    assert state["all"].tolist() == [5] * 5
    assert state["count"] == 5


def test_a_given_state_is_the_one_the_policy_starts_with() -> None:
    env = Counting(length=9)
    policy = Remembering(env)

    PyDriver(env, policy, [], max_steps=2).run(None, np.int64(40))

    assert policy.states == [40, 41]


def test_a_scripted_policy_needs_no_state_from_the_caller() -> None:
    env = Counting(length=9)
    script = [(1, 4), (2, 7)]
    policy = ScriptedPyPolicy(env.time_step_spec(), env.action_spec(), script)
    seen: list[Trajectory] = []

    PyDriver(env, policy, [seen.append], max_steps=3).run()

    assert [step.action for step in seen] == [4, 7, 7]


def test_a_policy_may_be_nothing_but_an_action() -> None:
    class Bare:
        def action(self, time_step: Any, policy_state: Any = ()) -> PolicyStep:
            return PolicyStep(1)

    bare: Any = Bare()
    seen: list[Any] = []

    PyDriver(Counting(), bare, [seen.append], max_steps=3).run()

    assert [step.action for step in seen] == [1, 1, 1]


def test_a_policy_info_reaches_the_observers() -> None:
    seen: list[Trajectory] = []

    def answer(time_step: ts.TimeStep) -> PolicyStep:
        return PolicyStep(act(time_step), (), {"log_probability": np.float32(-1)})

    PyDriver(Counting(), answer, [seen.append], max_steps=1).run()

    assert seen[0].policy_info == {"log_probability": -1}


def test_an_error_of_an_observer_comes_through_and_the_next_run_goes_on() -> None:
    seen: list[Trajectory] = []
    answers: Iterator[bool] = iter([False, True, False])

    def fail_once(step: Trajectory) -> None:
        if next(answers):
            raise KeyError("full")

    driver = PyDriver(Counting(length=9), act, [seen.append, fail_once], max_steps=2)
    with pytest.raises(KeyError, match="full"):
        driver.run()

    PyDriver(driver.env, act, [seen.append], max_steps=1).run()

    assert [step.observation[2] for step in seen] == [0, 1, 2]


@pytest.mark.parametrize("limits", [{}, {"max_steps": 0}, {"max_episodes": 0}])
def test_a_run_without_a_limit_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="max_steps and max_episodes: expected at"):
        PyDriver(Counting(), act, [], **limits)


@pytest.mark.parametrize("name", ["max_steps", "max_episodes"])
def test_a_negative_limit_is_refused_by_name(name: str) -> None:
    limits: dict[str, Any] = {"max_steps": 1, "max_episodes": 1, name: -1}

    with pytest.raises(ValueError, match=f"^{name}: expected 1 or more.* got -1"):
        PyDriver(Counting(), act, [], **limits)


@pytest.mark.parametrize("name", ["max_steps", "max_episodes"])
def test_a_limit_that_is_no_integer_is_refused_by_name(name: str) -> None:
    limits: dict[str, Any] = {name: 2.5}

    with pytest.raises(TypeError, match=f"^{name}: expected an int or None, got 2.5"):
        PyDriver(Counting(), act, [], **limits)
