from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from parallel_envs import time_step as ts
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import array_spec
from parallel_envs.testing import environments

FIRST, MID, LAST = 0, 1, 2
ACTION = np.int64(0)


class Careless(environments.Counting):
    """Does not call `super().__init__()`."""

    def __init__(self) -> None:
        self.index, self.length, self.end = 0, 2, "termination"
        self.episode, self.t = -1, 0


class Batch(environments.Counting):
    """Says that it is batched, and not how many rows it has."""

    @property
    def batched(self) -> bool:
        return True


def pickled(env: PyEnvironment) -> PyEnvironment:
    return pickle.loads(pickle.dumps(env))


def ignore(*_: object) -> None:
    """A method that does nothing."""


def step_types(env: PyEnvironment, num_steps: int) -> list[int]:
    return [int(env.step(ACTION).step_type) for _ in range(num_steps)]


def test_step_after_the_end_of_an_episode_starts_another() -> None:
    env = environments.Counting(length=2)

    env.reset()

    assert step_types(env, 6) == [MID, LAST, FIRST, MID, LAST, FIRST]
    assert env.episode == 2


@pytest.mark.parametrize("make", [environments.Counting, Careless])
def test_step_before_reset_resets_and_ignores_its_action(make: Any) -> None:
    env = make()
    env.last_action = None

    time_step = env.step(ACTION)

    assert time_step.step_type == FIRST
    assert env.last_action is None


def test_step_that_resets_ignores_its_action() -> None:
    env = environments.Counting(length=1)
    env.reset()
    env.step(np.int64(1))

    env.step(np.int64(2))

    assert env.last_action == 1


def test_without_auto_reset_the_environment_is_stepped_after_the_end() -> None:
    class ResetsItself(environments.Counting):
        def __init__(self) -> None:
            super().__init__(length=1)
            PyEnvironment.__init__(self, handle_auto_reset=False)

        def _step(self, action: Any) -> ts.TimeStep:
            time_step = super()._step(action)
            return self._reset() if self.t == 2 else time_step

    env = ResetsItself()
    env.reset()
    env.step(ACTION)

    time_step = env.step(np.int64(7))

    assert time_step.step_type == FIRST
    assert env.last_action == 7


def test_should_reset_can_be_overridden() -> None:
    class Impatient(environments.Counting):
        def should_reset(self, current_time_step: ts.TimeStep) -> bool:
            return bool(current_time_step.observation[2] == 1)

    assert step_types(Impatient(length=9), 4) == [FIRST, MID, FIRST, MID]


def test_rows_of_a_batch_are_not_reset_from_outside() -> None:
    all_ended = ts.termination(np.zeros((2, 3)), [0.0, 0.0])

    assert Batch().should_reset(all_ended) is False
    assert environments.Counting().should_reset(ts.termination(0, 0.0)) is True


def test_current_time_step_is_what_was_returned_last() -> None:
    env = environments.Counting()

    assert env.reset() is env.current_time_step()
    assert env.step(ACTION) is env.current_time_step()


@pytest.mark.parametrize("make", [environments.Counting, Careless])
def test_there_is_no_current_time_step_before_the_first(make: Any) -> None:
    with pytest.raises(ValueError, match=r"no current time step before its first rese"):
        make().current_time_step()


@pytest.mark.parametrize("make", [environments.Counting, Careless])
@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_environments_pickle_and_copy_before_and_within_an_episode(
    make: Any, copied: Any
) -> None:
    fresh = copied(make())
    env = make()
    env.reset()
    env.step(ACTION)

    again = copied(env)

    assert fresh.step(ACTION).step_type == FIRST
    assert again.current_time_step().observation.tolist() == [0, 0, 1]
    assert again.step(ACTION).observation.tolist() == [0, 0, 2]


@pytest.mark.parametrize("name", ["step", "reset"])
def test_subclass_that_defines_step_or_reset_is_refused_when_it_is_defined(
    name: str,
) -> None:
    with pytest.raises(
        TypeError, match=rf"Mistaken defines {name}\(\): write _step\(\) and _reset\(\)"
    ):
        type("Mistaken", (environments.Counting,), {name: ignore})


def test_class_that_keeps_its_own_books_may_define_step() -> None:
    class Own(environments.Counting, defines_step=True):
        def step(self, action: Any) -> ts.TimeStep:
            return ts.restart(action)

    class Derived(Own):
        pass

    assert Derived().step(7).observation == 7
    with pytest.raises(TypeError, match="Again defines step"):
        type("Again", (Own,), {"step": ignore})


def test_class_without_reset_and_step_cannot_be_made() -> None:
    class Unfinished(PyEnvironment):
        def observation_spec(self) -> Any:
            return ()

        def action_spec(self) -> Any:
            return ()

    with pytest.raises(TypeError, match=r"_reset.*_step"):
        Unfinished()  # pyright: ignore[reportAbstractUsage]


def test_other_base_classes_are_initialised_too() -> None:
    class Mixin:
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.was_initialised = True

    class Both(environments.Counting, Mixin):
        pass

    env = Both()

    assert env.was_initialised
    assert env.step(ACTION).step_type == FIRST


def test_class_arguments_reach_other_base_classes() -> None:
    class Registered:
        def __init_subclass__(cls, *, label: str = "", **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            cls.label = label

    class Both(environments.Counting, Registered, label="x"):
        pass

    assert Both.label == "x"


def test_time_step_spec_is_made_of_the_other_specs() -> None:
    class Unusual(environments.Counting):
        def reward_spec(self) -> Any:
            return array_spec.ArraySpec((2,), np.float64, "reward")

        def discount_spec(self) -> Any:
            return array_spec.BoundedArraySpec((2,), np.float32, 0, 1, "discount")

    env = Unusual()

    assert env.time_step_spec() == ts.TimeStep(
        array_spec.ArraySpec((), np.int32),
        env.reward_spec(),
        env.discount_spec(),
        env.observation_spec(),
    )
    assert environments.Counting().time_step_spec() == ts.time_step_spec(
        env.observation_spec()
    )


def test_batched_environment_has_to_say_its_batch_size() -> None:
    assert environments.Counting().batch_size is None
    with pytest.raises(RuntimeError, match="Batch is batched: it has to override"):
        _ = Batch().batch_size


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("seed", (1,)),
        ("render", ()),
        ("get_info", ()),
        ("get_state", ()),
        ("set_state", (None,)),
    ],
)
def test_what_a_subclass_leaves_out_says_so(name: str, arguments: Any) -> None:
    class Plain(environments.Counting):
        get_info = PyEnvironment.get_info  # pyright: ignore[reportAssignmentType]
        get_state = PyEnvironment.get_state  # pyright: ignore[reportAssignmentType]
        set_state = PyEnvironment.set_state

    with pytest.raises(
        NotImplementedError, match=rf"Plain does not implement {name}\(\)"
    ):
        getattr(Plain(), name)(*arguments)


def test_with_statement_closes_and_hands_out_the_environment() -> None:
    class Closing(environments.Counting):
        num_closed = 0

        def close(self) -> None:
            self.num_closed += 1

    with pytest.raises(ZeroDivisionError), Closing() as env:
        raise ZeroDivisionError

    assert env.num_closed == 1


def test_close_does_nothing_by_default() -> None:
    env = Careless()

    env.close()
    env.close()

    assert env.step(ACTION).step_type == FIRST


def test_tf_agents_takes_an_environment_neither_for_a_function_nor_for_a_list() -> None:
    env = environments.Counting()

    assert not callable(env)
    assert not hasattr(env, "__len__")
