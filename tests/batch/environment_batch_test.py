"""What holds for every batch: run on each implementation and way of travelling."""

from __future__ import annotations

import copy
import functools
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.batch.environment_batch import EnvironmentBatch
from parallel_envs.specs import nest
from parallel_envs.testing import environments
from tests import batches

Make = Callable[[batches.Constructors], EnvironmentBatch]
NUM_ROWS = 3


@pytest.fixture(params=batches.MODES.values(), ids=list(batches.MODES))
def make(request: pytest.FixtureRequest) -> Make:
    """One way to make a batch."""
    return request.param


@pytest.fixture
def env(make: Make) -> Iterator[EnvironmentBatch]:
    """Three counting environments with episodes of 3 steps."""
    with make(
        [functools.partial(environments.Counting, i) for i in range(NUM_ROWS)]
    ) as batch:
        yield batch


def zeros(count: int = NUM_ROWS) -> Any:
    return np.zeros(count, np.int64)


def record(batch: EnvironmentBatch, num_steps: int = 9) -> list[Any]:
    """Returns everything that a batch returned, as structure and bytes."""
    generator = np.random.default_rng(5)
    spec = pe.specs.add_outer_dim(batch.action_spec(), batch.batch_size)
    actions = [pe.specs.sample(spec, generator) for _ in range(num_steps)]
    with batch:
        steps = [batch.reset(), *(batch.step(action) for action in actions)]
        return batches.frozen(steps)


@functools.cache
def expected_of(kind: str) -> list[Any]:
    return record(batches.MODES["batched"](batches.KINDS[kind]))


@pytest.mark.parametrize("kind", batches.KINDS)
@pytest.mark.parametrize("mode", [*batches.MODES, *batches.STARTS])
def test_every_implementation_returns_the_same_to_the_bit(mode: str, kind: str) -> None:
    make = {**batches.MODES, **batches.STARTS}[mode]

    recorded = record(make(batches.KINDS[kind]))

    assert recorded == expected_of(kind)


def test_rows_step_and_reset_each_by_itself(make: Make) -> None:
    lengths = (1, 2, 3)

    with make(
        [functools.partial(environments.Counting, i, n) for i, n in enumerate(lengths)]
    ) as batch:
        kinds = [
            batch.reset().step_type,
            *(batch.step(zeros()).step_type for _ in "12345"),
        ]

    assert np.stack(kinds, axis=1).tolist() == [
        [0, 2, 0, 2, 0, 2],
        [0, 1, 2, 0, 1, 2],
        [0, 1, 1, 2, 0, 1],
    ]


def test_the_step_after_the_last_resets_and_ignores_its_action(
    env: EnvironmentBatch,
) -> None:
    env.reset()

    steps = [env.step(np.full(NUM_ROWS, i)) for i in (1, 2, 3, 4, 5)]

    assert [step.step_type[0] for step in steps] == [1, 1, 2, 0, 1]
    assert steps[2].observation.tolist() == [[0, 0, 3], [1, 0, 3], [2, 0, 3]]
    assert steps[3].observation.tolist() == [[0, 1, 0], [1, 1, 0], [2, 1, 0]]
    assert env.get_attr("last_action") == [5, 5, 5]


def test_step_before_reset_starts_an_episode(env: EnvironmentBatch) -> None:
    time_step = env.step(zeros())

    assert time_step.step_type.tolist() == [0, 0, 0]


def test_what_is_returned_is_the_callers_own(env: EnvironmentBatch) -> None:
    kept = [env.reset(), *(env.step(zeros()) for _ in range(4))]

    observations = [step.observation for step in kept]
    assert [o[0, 2] for o in observations] == [0, 1, 2, 3, 0]
    assert not any(
        np.shares_memory(a, b)
        for i, a in enumerate(observations)
        for b in observations[:i]
    )
    observations[-1][...] = 77
    assert env.step(zeros()).observation.tolist() == [[0, 1, 1], [1, 1, 1], [2, 1, 1]]


def test_an_environment_that_reuses_its_arrays_does_not_change_old_steps(
    make: Make,
) -> None:
    with make([environments.WritingIntoOldSteps] * 2) as batch:
        kept = [batch.reset(), *(batch.step(zeros(2)) for _ in range(3))]

    assert [step.observation[1, 2] for step in kept] == [0, 1, 2, 3]


def test_variable_leaves_come_as_a_list_of_arrays(make: Make) -> None:
    with make([environments.VariableSize] * 2) as batch:
        kept = [batch.reset(), *(batch.step(zeros(2)) for _ in range(3))]

    assert {type(step.observation) for step in kept} == {list}
    for t, observation in enumerate(step.observation for step in kept):
        assert [row.tolist() for row in observation] == [list(range(t))] * 2
        assert {row.dtype for row in observation} == {np.dtype(np.int64)}


class Keeping(environments.Counting):
    """Keeps the very actions it was given, and folds them into the observation."""

    def __init__(self) -> None:
        super().__init__(length=9)
        self.kept: list[Any] = []

    def action_spec(self) -> Any:
        return {
            "one": pe.BoundedArraySpec((), np.int16, 0, 9),
            "many": pe.ArraySpec((2,), np.float32),
        }

    def _step(self, action: Any) -> ts.TimeStep:
        self.kept.append(action)
        return super()._step(action)

    def kinds(self) -> list[str]:
        return [type(self.kept[0][key]).__name__ for key in ("one", "many")]


def test_environments_get_scalars_and_arrays_that_they_may_keep(make: Make) -> None:
    with make([Keeping] * 2) as batch:
        batch.reset()
        for i in range(3):
            many = np.full((2, 2), i, np.float32)
            batch.step({"one": [i, i + 1], "many": many})
        kept = batch.get_attr("kept")
        kinds = batch.call("kinds")

    assert [int(action["one"]) for action in kept[1]] == [1, 2, 3]
    assert [action["many"].tolist() for action in kept[0]] == [[0, 0], [1, 1], [2, 2]]
    assert kinds == [["int16", "ndarray"]] * 2


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            np.zeros(2, np.int64),
            r"action: expected int64 of shape \(3,\), got int64 of shape \(2,\)",
        ),
        (
            np.zeros((3, 1), np.int64),
            r"expected int64 of shape \(3,\), got int64 of shape \(3, 1\)",
        ),
        (3, r"expected int64 of shape \(3,\), got int64 of shape \(\)"),
        (
            [0.0, 0.5, 0.0],
            r"action: expected values of int64, got 0\.5 in row 1 \(float64\)",
        ),
        ([0, 12, 0], r"action: expected values from 0 to 9, got 12 in row 1"),
        ([0, 0, -1], r"expected values from 0 to 9, got -1 in row 2"),
        (["a", "b", "c"], r"expected int64 of shape \(3,\), got <U1"),
        ([[0], [0, 1], [0]], r"action: expected an array of shape \(3,\)"),
        ({"a": zeros()}, r"action: expected int64 of shape \(3,\), got object"),
        (None, r"expected int64 of shape \(3,\), got object"),
        ([np.nan, 0, 0], "expected values of int64, got nan in row 0"),
        ([1 + 1j, 0, 0], r"expected int64 of shape \(3,\), got complex128"),
    ],
)
def test_an_action_that_does_not_fit_moves_no_environment(
    env: EnvironmentBatch, action: Any, message: str
) -> None:
    env.reset()

    with pytest.raises(ValueError, match=message):
        env.step(action)

    assert env.step(zeros()).observation[:, 2].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "action",
    [
        [1, 2, 3],
        (1, 2, 3),
        np.array([1, 2, 3], np.int8),
        np.array([1, 2, 3], ">i8"),
        np.array([1.0, 2.0, 3.0]),
        np.arange(1, 7)[::2] // 2 + 1,
        [np.int32(1), 2, 3],
    ],
)
def test_an_action_is_cast_where_no_value_changes(
    env: EnvironmentBatch, action: Any
) -> None:
    env.reset()

    env.step(action)

    assert env.get_attr("last_action") == [1, 2, 3]


def test_a_part_missing_in_a_nested_action_is_named(make: Make) -> None:
    with make([environments.Nested] * 2) as batch:
        batch.reset()

        with pytest.raises(
            ValueError, match=r"action: expected a dict with keys \['jump', 'move'\]"
        ):
            batch.step({"move": np.zeros((2, 2), np.float32)})


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            environments.WrongShape,
            r"environment 0: observation\['cam'\]\['rgb'\] does not fit its spec: "
            r"expected uint8 of shape \(5, 5, 3\), got uint8 of shape \(1, 5, 5, 3\)\.",
        ),
        (environments.WrongDtype, r"expected uint8 of shape .*, got float64 of shape"),
        (
            environments.WrongStructure,
            r"environment 0: observation: expected a dict.*goal",
        ),
    ],
)
def test_an_observation_that_does_not_fit_is_named_by_path(
    make: Make, kind: Any, message: str
) -> None:
    with make([kind] * 2) as batch:
        with pytest.raises(pe.WorkerError, match=message) as caught:
            batch.reset()

        assert isinstance(caught.value, ValueError)
        assert caught.value.indices == (0, 1)


def test_a_reward_of_another_dtype_is_refused(make: Make) -> None:
    with make([environments.WrongReward] * 2) as batch:
        batch.reset()

        with pytest.raises(pe.WorkerError, match=r"environment 0: reward does not fit"):
            batch.step(zeros(2))


def test_an_exception_names_row_and_cause_and_needs_a_reset(make: Make) -> None:
    constructors = [
        environments.Counting,
        functools.partial(environments.RaisingInStep, 1, 3, 2),
        functools.partial(environments.Counting, 2),
    ]
    with make(constructors) as batch:
        batch.reset()
        batch.step(zeros())

        with pytest.raises(
            pe.WorkerError,
            match=r"environment 1 raised ValueError\('bad state 1'\) during step",
        ) as caught:
            batch.step(zeros())

        assert caught.value.indices == (1,)
        assert caught.value.exitcode is None
        assert isinstance(caught.value.__cause__, ValueError)
        assert "_fail" in caught.value.remote_traceback
        with pytest.raises(RuntimeError, match=r"Call reset\(\) first"):
            batch.step(zeros())
        again = batch.reset()
        assert again.observation.tolist() == [[0, 1, 0], [1, 1, 0], [2, 1, 0]]
        assert batch.step(zeros()).observation[:, 2].tolist() == [1, 1, 1]


def test_system_exit_in_an_environment_is_an_error_like_others(make: Make) -> None:
    with make([environments.RaisingSystemExit] * 2) as batch:
        batch.reset()

        with pytest.raises(pe.WorkerError, match=r"raised SystemExit\(3\)") as caught:
            batch.step(zeros(2))

        assert caught.value.indices == (0, 1)


def test_an_exception_in_reset_is_told_and_the_next_reset_works(make: Make) -> None:
    with make(
        [functools.partial(environments.RaisingInReset, i) for i in range(2)]
    ) as batch:
        with pytest.raises(pe.WorkerError, match=r"bad episode 0.*during reset"):
            batch.reset()

        assert batch.reset().observation[:, 1].tolist() == [1, 1]


def test_specs_that_differ_are_refused_by_row_and_path(make: Make) -> None:
    class Other(environments.Nested):
        def observation_spec(self) -> Any:
            return {**super().observation_spec(), "goal": pe.ArraySpec((2,), np.int32)}

    with pytest.raises(
        ValueError, match=r"environment 1 has other specs.*observation\['goal'\]"
    ) as caught:
        make([environments.Nested, Other])

    assert "(2,)" in str(caught.value)
    assert "()" in str(caught.value)


def test_bounds_of_observations_are_joined(make: Make) -> None:
    class Bounded(environments.Counting):
        def observation_spec(self) -> Any:
            return pe.BoundedArraySpec((3,), np.int64, -self.index, 10 + self.index)

    with make([functools.partial(Bounded, i) for i in (1, 5)]) as batch:
        spec = batch.observation_spec()

    assert spec == pe.BoundedArraySpec((3,), np.int64, -5, 15)


def test_bounds_of_actions_that_differ_are_refused(make: Make) -> None:
    class Other(environments.Counting):
        def action_spec(self) -> Any:
            return pe.BoundedArraySpec((), np.int64, 0, 5, "action")

    with pytest.raises(ValueError, match=r"environment 1 has other specs.*action"):
        make([environments.Counting, Other])


def test_specs_of_rewards_and_discounts_are_handed_on(make: Make) -> None:
    class Pairs(environments.Counting):
        def reward_spec(self) -> Any:
            return pe.ArraySpec((2,), np.float64, "reward")

        def discount_spec(self) -> Any:
            return pe.BoundedArraySpec((), np.float32, 0.0, 0.5, "discount")

        def _reset(self) -> ts.TimeStep:
            return super()._reset()._replace(reward=np.zeros(2))

        def _step(self, action: Any) -> ts.TimeStep:
            return super()._step(action)._replace(reward=np.array([self.t, -1.0]))

    with make([Pairs] * 2) as batch:
        batch.reset()
        time_step = batch.step(zeros(2))
        reward_spec, discount_spec = batch.reward_spec(), batch.discount_spec()
        time_step_spec = batch.time_step_spec()

    assert time_step.reward.tolist() == [[1, -1]] * 2
    assert time_step.reward.dtype == np.float64
    assert (time_step_spec.reward, time_step_spec.discount) == (
        reward_spec,
        discount_spec,
    )
    assert discount_spec.maximum == 0.5


def test_seeds_reach_their_rows(make: Make) -> None:
    with make([environments.Drawing] * 2) as batch:
        assert batch.seed([11, 12]) == [11, 12]
        first = batch.reset().observation

    expected = [np.random.default_rng(s).integers(0, 2**31, 4) for s in (11, 12)]
    assert first.tolist() == np.stack(expected).tolist()


def test_one_seed_is_spread_and_none_draws_new_ones(make: Make) -> None:
    with make([environments.Drawing] * 2) as batch:
        assert batch.seed(7) == pe.spread_seeds(7, 2)
        assert batch.seed(None) != batch.seed(None)

        with pytest.raises(ValueError, match=r"seed: expected 2 seeds.*got 3"):
            batch.seed([1, 2, 3])


def test_what_an_environment_does_not_implement_is_said_and_costs_nothing(
    env: EnvironmentBatch,
) -> None:
    env.reset()

    with pytest.raises(NotImplementedError, match=r"environment 0 raised.*seed"):
        env.seed([1, 2, 3])
    with pytest.raises(NotImplementedError, match=r"environment 0 raised.*render"):
        env.render()
    with pytest.raises(NotImplementedError, match="Only rgb_array gives pictures"):
        env.render("human")
    assert env.step(zeros()).observation[:, 2].tolist() == [1, 1, 1]


def test_render_stacks_pictures(make: Make) -> None:
    with make(
        [functools.partial(environments.Image, i, 9, 4, 5) for i in range(2)]
    ) as batch:
        batch.reset()
        batch.step(zeros(2))
        pictures = batch.render()

    assert pictures.shape == (2, 4, 5, 3)
    assert pictures.dtype == np.uint8
    assert (pictures == 1).all()


def test_infos_states_calls_and_attributes(env: EnvironmentBatch) -> None:
    env.reset()
    env.step(zeros())
    state = env.get_state()
    env.step(zeros())

    assert env.get_info() == [{"episode": 0, "t": 2}] * NUM_ROWS
    env.set_state(state)
    assert env.step(zeros()).observation[:, 2].tolist() == [2, 2, 2]
    env.set_attr("length", [4, 5, 6])
    assert env.get_attr("length") == [4, 5, 6]
    assert env.call("get_info") == [{"episode": 0, "t": 2}] * NUM_ROWS


def test_infos_are_empty_where_there_are_none(make: Make) -> None:
    class Silent(environments.Counting):
        def get_info(self) -> Any:
            return None

    with make([Silent] * 2) as batch:
        batch.reset()

        assert batch.get_info() == [{}, {}]


def test_a_missing_attribute_is_an_attribute_error_and_costs_nothing(
    env: EnvironmentBatch,
) -> None:
    env.reset()

    with pytest.raises(AttributeError, match=r"environment 0 raised.*nonsense"):
        env.get_attr("nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        env.call("nonsense", 3)
    assert env.step(zeros()).observation[:, 2].tolist() == [1, 1, 1]


def test_lists_of_the_wrong_length_are_refused(env: EnvironmentBatch) -> None:
    with pytest.raises(
        ValueError, match=r"set_attr\('length'\): values: expected 3.*got 2"
    ):
        env.set_attr("length", [1, 2])
    with pytest.raises(ValueError, match=r"set_state: state: expected 3.*got 1"):
        env.set_state([None])


def test_attributes_are_set_where_they_are_found_through_wrappers(make: Make) -> None:
    with make(
        [
            lambda: pe.wrappers.TimeLimit(
                pe.wrappers.TimeLimit(environments.Counting(), 9), 8
            )
        ]
        * 2
    ) as batch:
        batch.set_attr("index", [5, 6])

        assert batch.reset().observation[:, 0].tolist() == [5, 6]
        assert batch.get_attr("index") == [5, 6]


def test_batched_environments_lie_side_by_side(make: Make) -> None:
    class Pair(pe.PyEnvironment):
        """Two rows that show their last actions."""

        @property
        def batched(self) -> bool:
            return True

        @property
        def batch_size(self) -> int:
            return 2

        def __init__(self, first: int) -> None:
            super().__init__()
            self.first = first

        def observation_spec(self) -> Any:
            return pe.ArraySpec((2,), np.int64)

        def action_spec(self) -> Any:
            return pe.BoundedArraySpec((), np.int64, 0, 9)

        def seed(self, seed: Any) -> Any:
            return seed

        def get_info(self) -> Any:
            return [{"row": self.first}, {"row": self.first + 1}]

        def _seen(self, last: Any) -> Any:
            return np.stack([np.array([self.first, self.first + 1]), last], axis=1)

        def _reset(self) -> ts.TimeStep:
            return ts.restart(self._seen(np.zeros(2, np.int64)), batch_size=2)

        def _step(self, action: Any) -> ts.TimeStep:
            return ts.transition(self._seen(action), np.ones(2, np.float32))

    with make([functools.partial(Pair, 0), functools.partial(Pair, 2)]) as batch:
        assert batch.batch_size == 4
        assert batch.seed([1, 2, 3, 4]) == [1, 2, 3, 4]
        first = batch.reset()
        second = batch.step([5, 6, 7, 8])
        infos = batch.get_info()
        firsts = batch.get_attr("first")

    assert first.step_type.tolist() == [0, 0, 0, 0]
    assert second.observation.tolist() == [[0, 5], [1, 6], [2, 7], [3, 8]]
    assert infos == [{"row": i} for i in range(4)]
    assert firsts == [0, 2]


def test_current_time_step_is_what_was_returned_last(env: EnvironmentBatch) -> None:
    with pytest.raises(ValueError, match="no current time step"):
        env.current_time_step()

    returned = env.reset()

    assert env.current_time_step() is returned


def test_after_close_calls_say_so_and_specs_stay(env: EnvironmentBatch) -> None:
    env.reset()

    env.close()
    env.close()

    for call in (env.reset, functools.partial(env.step, zeros()), env.get_info):
        with pytest.raises(pe.ClosedError, match="closed"):
            call()
    assert env.observation_spec().shape == (3,)
    assert env.batch_size == NUM_ROWS


def test_every_environment_is_closed_once(make: Make, tmp_path: Any) -> None:
    class Closing(environments.Counting):
        def close(self) -> None:
            with open(tmp_path / str(self.index), "a") as file:
                file.write("closed\n")
            raise SystemExit if self.index == 1 else OSError("cannot")

    batch = make([functools.partial(Closing, i) for i in range(NUM_ROWS)])

    batch.close()
    batch.close()

    assert [(tmp_path / str(i)).read_text() for i in range(NUM_ROWS)] == [
        "closed\n"
    ] * 3


def test_a_batch_cannot_be_copied_or_pickled(env: EnvironmentBatch) -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            attempt(env)


def test_threads_take_turns(env: EnvironmentBatch) -> None:
    env.reset()
    seen: list[int] = []

    def step() -> None:
        for _ in range(20):
            seen.append(int(env.step(zeros()).step_type.sum()))

    threads = [threading.Thread(target=step) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # Rows stay in step with each other, whoever steps them.
    assert len(seen) == 60
    assert {kind % NUM_ROWS for kind in seen} == {0}


def test_object_leaves_travel_as_values(make: Make) -> None:
    class Saying(environments.Counting):
        def observation_spec(self) -> Any:
            return {"text": pe.ArraySpec((), object), "word": pe.ArraySpec((), "U8")}

        def _observation(self) -> Any:
            return {"text": np.array(f"step {self.t}", object), "word": f"w{self.t}"}

    with make([Saying] * 2) as batch:
        batch.reset()
        observation = batch.step(zeros(2)).observation

    assert [text.item() for text in observation["text"]] == ["step 1", "step 1"]
    assert observation["word"].tolist() == ["w1", "w1"]


def test_nests_keep_their_containers(make: Make) -> None:
    with make([environments.Nested] * 2) as batch:
        observation = batch.reset().observation
        spec = batch.observation_spec()

    nest.assert_same_structure(spec, observation, "observation")
    assert isinstance(observation["joints"], tuple)
    assert observation["nothing"] == {}


@pytest.mark.parametrize("wrong", [1.5, "12"])
def test_what_is_no_list_is_named(env: EnvironmentBatch, wrong: Any) -> None:
    with pytest.raises(TypeError, match="seed: expected an int, None or a list"):
        env.seed(wrong)
    with pytest.raises(
        TypeError, match=r"set_attr\('length'\): values: expected a list"
    ):
        env.set_attr("length", wrong)
    with pytest.raises(TypeError, match="set_state: state: expected a list"):
        env.set_state(wrong)


def test_none_is_no_scalar_whatever_was_there_before(make: Make) -> None:
    class Forgetting(environments.Counting):
        """Returns a reward of None in its second step."""

        def _step(self, action: Any) -> ts.TimeStep:
            time_step = super()._step(action)
            return time_step._replace(reward=None) if self.t == 2 else time_step

    with make([Forgetting] * 2) as batch:
        batch.reset()
        batch.step(zeros(2))

        with pytest.raises(pe.WorkerError, match="environment 0: reward does not fit"):
            batch.step(zeros(2))


def test_infos_are_snapshots(make: Make) -> None:
    class Reusing(environments.Counting):
        """Writes into one dict, and hands out that one."""

        def __init__(self) -> None:
            super().__init__()
            self.info: dict[str, int] = {}

        def get_info(self) -> dict[str, int]:
            self.info["t"] = self.t
            return self.info

    with make([Reusing] * 2) as batch:
        batch.reset()
        infos = batch.get_info()
        batch.step(zeros(2))
        batch.get_info()

    assert infos == [{"t": 0}] * 2


@pytest.mark.parametrize(
    "picture", [None, np.zeros((4, 4, 3)), [np.zeros((4, 4, 3), np.uint8)] * 2, "x"]
)
def test_what_is_no_picture_is_refused(make: Make, picture: Any) -> None:
    class Drawing(environments.Counting):
        def render(self, mode: str = "rgb_array") -> Any:
            return picture

    with (
        make([Drawing] * 2) as batch,
        pytest.raises(ValueError, match="environment 0: expected a picture"),
    ):
        batch.render()


def test_pictures_of_different_sizes_are_refused(make: Make) -> None:
    constructors = [
        functools.partial(environments.Image, 0, 9, size, 4) for size in (4, 5)
    ]

    with (
        make(constructors[:1]) as one,
        make([constructors[0], lambda: Larger()]) as batch,
    ):
        assert one.render().shape == (1, 4, 4, 3)
        with pytest.raises(
            ValueError, match=r"environment 1: .*shape \(4, 4, 3\), got uint8 of .*\(5"
        ):
            batch.render()


class Larger(environments.Image):
    """Says its pictures are 4 by 4, and renders larger ones."""

    def __init__(self) -> None:
        super().__init__(1, 9, 4, 4)

    def render(self, mode: str = "rgb_array") -> Any:
        return np.zeros((5, 4, 3), np.uint8)


def test_masked_values_are_refused(env: EnvironmentBatch) -> None:
    env.reset()

    with pytest.raises(ValueError, match="masked"):
        env.step(np.ma.MaskedArray(zeros(), [True, False, False]))
    env.step(np.ma.MaskedArray(zeros(), False))


def test_an_integer_that_a_float_cannot_hold_is_refused(make: Make) -> None:
    with make([environments.Nested] * 2) as batch:
        batch.reset()

        with pytest.raises(ValueError, match=r"action\['move'\].*16777217"):
            batch.step({"move": np.full((2, 2), 2**24 + 1), "jump": [False, False]})


def test_a_promise_that_failed_fails_again() -> None:
    for num_workers in (0, 1):
        with pe.ParallelPyEnvironment(
            [environments.Counting], num_workers=num_workers
        ) as batch:
            promise = batch.envs[0].call("nonsense")
            for _ in range(2):
                with pytest.raises(AttributeError, match="nonsense"):
                    promise()
