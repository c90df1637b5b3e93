"""The members of our batch as TF-Agents' users know them, with TF-Agents' classes."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tf_agents.environments import parallel_py_environment, py_environment
from tf_agents.policies import random_py_policy
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as tf_time_step

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from parallel_envs.testing import environments
from tests.tf_agents import scenes, ways

ZEROS = np.zeros(3, np.int64)


@pytest.fixture
def env() -> Iterator[Any]:
    constructors = [functools.partial(scenes.Tunable, i, i + 2) for i in range(3)]
    with adapter.ParallelPyEnvironment(constructors) as env:
        yield env


@pytest.fixture(params=ways.WAYS)
def make(request: pytest.FixtureRequest) -> ways.Make:
    return ways.WAYS[request.param]


def test_it_is_an_environment_of_both_libraries(env: Any) -> None:
    assert isinstance(env, py_environment.PyEnvironment)
    assert isinstance(env, pe.ParallelPyEnvironment)
    assert (env.batched, env.batch_size, len(env.envs)) == (True, 3, 3)


def test_it_takes_the_arguments_of_tf_agents_class_by_position_and_name() -> None:
    constructors = [environments.Counting] * 2

    for arguments, options in [
        ((constructors, True, False, True), {}),
        ((constructors,), {"start_serially": False, "blocking": True}),
        ((), {"env_constructors": constructors, "flatten": True}),
    ]:
        with adapter.ParallelPyEnvironment(*arguments, **options) as env:
            assert env.start() is None
            assert env.reset().observation.shape == (2, 3)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in vars(parallel_py_environment.ParallelPyEnvironment)
        if not name.startswith("_")
    ],
)
def test_it_has_each_public_name_of_tf_agents_class(env: Any, name: str) -> None:
    assert hasattr(env, name)


def test_specs_and_time_steps_are_tf_agents(env: Any) -> None:
    time_step = env.reset()

    specs = env.time_step_spec()
    assert type(specs) is type(time_step) is tf_time_step.TimeStep
    assert type(env.current_time_step()) is tf_time_step.TimeStep
    assert specs.observation == env.observation_spec()
    assert specs.reward == env.reward_spec() == array_spec.ArraySpec((), np.float32)
    assert specs.discount == env.discount_spec()
    assert env.action_spec() == array_spec.BoundedArraySpec((), np.int64, 0, 9)
    batched = array_spec.add_outer_dims_nest(specs, (3,))
    assert array_spec.check_arrays_nest(time_step, batched)
    np.testing.assert_array_equal(time_step.is_first(), [True] * 3)


def test_a_handle_steps_its_environment_alone(env: Any) -> None:
    env.reset()
    handle = env.envs[1]

    first = handle.reset()
    promise = handle.step(np.int64(4), blocking=False)
    second, third = handle.step(np.int64(5)), promise()

    for time_step in (first, second, third, handle.call("current_time_step")()):
        assert type(time_step) is tf_time_step.TimeStep
    assert (float(third.reward), float(second.reward)) == (1, 2)
    assert handle.last_action == 5
    assert handle.render().shape == (2, 3, 3)
    assert handle.render(blocking=False)().shape == (2, 3, 3)


def test_a_handle_has_specs_of_tf_agents(env: Any) -> None:
    handle = env.envs[0]

    assert handle.time_step_spec() == env.time_step_spec()
    assert handle.observation_spec() == env.observation_spec()
    assert handle.action_spec() == env.action_spec()
    assert type(handle.time_step_spec()) is tf_time_step.TimeStep


def test_a_handle_gives_access_calls_and_attributes(env: Any) -> None:
    handle = env.envs[2]

    assert handle.access("gravity") == handle.gravity == 9.81
    assert handle.access("_rng").random() == np.random.default_rng(2).random()
    assert handle.call("scaled", 2.0, offset=1.0)() == 5
    assert handle.scaled(3.0) == 6
    # Promises may be asked in any order.
    promises = [handle.call("scaled", float(n)) for n in range(4)]
    assert [promise() for promise in reversed(promises)] == [6, 4, 2, 0]


def test_errors_of_handles_have_their_types_and_cost_nothing(env: Any) -> None:
    env.reset()
    handle = env.envs[1]

    assert not hasattr(handle, "levity")
    with pytest.raises(AttributeError, match=r"environment 1.*levity"):
        handle.access("levity")
    with pytest.raises(pe.errors.WorkerError, match=r"environment 1 raised KeyError"):
        handle.call("failing")()

    assert env.step(ZEROS).observation.shape == (3, 2, 3, 3)


def test_calls_and_attributes_of_all_rows(make: ways.Make) -> None:
    constructors = [functools.partial(scenes.Tunable, i) for i in range(3)]
    with make(constructors) as env:
        env.reset()

        env.set_attr("gravity", [1.0, 2.0, 3.0])

        assert env.get_attr("gravity") == [1.0, 2.0, 3.0]
        assert env.call("scaled", 2.0, offset=1.0) == [1, 3, 5]
        assert env.seed([4, 5, 6]) == [5, 6, 7]
        assert len(set(env.seed(1))) == 3
        with pytest.raises(ValueError, match="seed: expected 3 seeds"):
            env.seed([1, 2])


def test_pictures_are_stacked_and_screens_are_refused(make: ways.Make) -> None:
    with make([scenes.Tunable] * 3) as env:
        env.reset()
        env.step(ZEROS)

        picture = env.render("rgb_array")

        assert (picture.shape, picture.dtype) == ((3, 2, 3, 3), np.uint8)
        np.testing.assert_array_equal(env.render(), picture)
        with pytest.raises(NotImplementedError, match=r"rgb_array.*human"):
            env.render("human")
        env.step(ZEROS)


def test_infos_are_stacked_where_they_agree(make: ways.Make) -> None:
    with make(scenes.staggered(2, 3, 5)) as env:
        env.reset()
        for _ in range(3):
            env.step(ZEROS)

        info = env.get_info()

    assert info.keys() == {"episode", "t"}
    np.testing.assert_array_equal(info["t"], [0, 3, 3])
    np.testing.assert_array_equal(info["episode"], [1, 0, 0])


def test_infos_that_differ_are_a_list(make: ways.Make) -> None:
    dying = functools.partial(environments.Dying, at=1)
    with make([environments.Counting, dying], max_restarts=1) as env:
        env.reset()
        env.step(ZEROS[:2])

        assert env.get_info() == [{"episode": 0, "t": 1}, {"crashed": True}]


def test_infos_of_later_rows_are_not_lost(make: ways.Make) -> None:
    dying = functools.partial(environments.Dying, at=1)
    with make([dying, environments.Counting], max_restarts=1) as env:
        env.reset()
        env.step(ZEROS[:2])

        assert env.get_info() == [{"crashed": True}, {"episode": 0, "t": 1}]


def test_states_come_back(make: ways.Make) -> None:
    with make(scenes.staggered(2, 3, 5)) as env:
        env.reset()
        env.step(ZEROS)
        state = env.get_state()
        expected = env.step(ZEROS)
        env.step(ZEROS)

        env.set_state(state)

        found = env.step(ZEROS)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_each_row_resets_by_itself_or_as_it_was_told(make: ways.Make) -> None:
    constructors = [
        functools.partial(environments.Counting, length=2),
        scenes.ResettingItself,
    ]
    with make(constructors) as env:
        env.reset()

        types = [env.step(ZEROS[:2]).step_type for _ in range(4)]

        assert not env.should_reset(env.current_time_step())
    assert np.transpose(types).tolist() == [[1, 2, 0, 1], [1, 2, 0, 1]]


def test_views_are_never_handed_out() -> None:
    constructors = [environments.Counting] * 2
    with adapter.ParallelPyEnvironment(constructors, copy=False) as env:
        kept = env.reset()
        before = copy.deepcopy(kept)
        for _ in range(8):
            env.step(ZEROS[:2])

    for found, expected in zip(kept, before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_steps_are_written_into_arrays_of_the_caller(env: Any) -> None:
    env.reset()
    out = env.step(ZEROS)
    other = pe.TimeStep(*map(np.empty_like, out))

    assert env.step(ZEROS, out=out) is out
    np.testing.assert_array_equal(out.reward, [2, 2, 2])
    assert env.step(ZEROS, out=other) is other
    np.testing.assert_array_equal(other.reward, [0, 3, 3])
    with pytest.raises(ValueError, match="out: expected a TimeStep of arrays"):
        env.step(ZEROS, out=tuple(out))


def test_rows_are_sent_to_and_received_from_by_themselves(env: Any) -> None:
    env.reset()

    env.send([1, 2], [0, 2])
    time_step, ids = env.recv(2)

    assert type(time_step) is tf_time_step.TimeStep
    assert sorted(ids) == [0, 2]
    assert type(env.current_time_step()) is tf_time_step.TimeStep
    np.testing.assert_array_equal(env.current_time_step().step_type, [1, 0, 1])
    assert env.call("current_time_step")[0].step_type == 1


def test_the_asynchronous_driver_drives_it(env: Any) -> None:
    rows: list[int] = []
    policy = adapter.from_tf_agents_policy(
        random_py_policy.RandomPyPolicy(env.time_step_spec(), env.action_spec(), seed=1)
    )
    driver = pe.AsyncDriver(
        env, policy, [lambda step, ids: rows.extend(ids)], max_steps=20
    )

    time_step, _ = driver.run()

    assert len(rows) >= 20
    assert time_step.observation.shape == (3, 2, 3, 3)


def test_a_killed_worker_is_an_end_and_a_new_beginning(make: ways.Make) -> None:
    dying = functools.partial(environments.Dying, at=2)
    with make([environments.Endless, dying], max_restarts=1) as env:
        steps = [env.reset()] + [env.step(ZEROS[:2]) for _ in range(3)]

    assert all(type(step) is tf_time_step.TimeStep for step in steps)
    assert np.transpose([step.step_type for step in steps])[1].tolist() == [0, 1, 2, 0]


def test_it_is_closed_any_number_of_times_and_says_that_it_is(make: ways.Make) -> None:
    env = make([environments.Counting])
    env.reset()

    env.close()
    env.close()

    with pytest.raises(pe.errors.ClosedError, match="closed"):
        env.step(ZEROS[:1])
    assert env.observation_spec() == array_spec.ArraySpec((3,), np.int64)


def test_it_cannot_be_pickled_or_copied(make: ways.Make) -> None:
    with make([environments.Counting]) as env:
        for function in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                function(env)


def test_leaves_whose_size_varies_are_refused_by_path(make: ways.Make) -> None:
    message = r"time_step\.observation: expected a fixed shape, got \(None,\)"

    with pytest.raises(ValueError, match=message):
        make([environments.VariableSize])


@pytest.mark.parametrize(
    ("constructors", "error", "message"),
    [
        ([], ValueError, "env_constructors"),
        ([3], TypeError, r"env_constructors\[0\]"),
        ([environments.Counting, environments.Nested], ValueError, "environment 1"),
        ([environments.RaisingInConstructor], RuntimeError, "environment 0 raised"),
    ],
    ids=["none", "no function", "other specs", "raising"],
)
def test_wrong_constructors_are_refused(
    make: ways.Make, constructors: Any, error: Any, message: str
) -> None:
    if error is RuntimeError:
        error = pe.errors.WorkerError

    with pytest.raises(error, match=message):
        make(constructors)
