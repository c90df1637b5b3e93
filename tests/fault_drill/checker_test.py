"""The checker finds each kind of broken stream, and only those."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from parallel_envs import time_step as ts
from tests.fault_drill import world
from tests.fault_drill.checker import Row, StreamChecker, StreamError
from tests.fault_drill.world import Who

FIRST, MID, LAST = 0, 1, 2
ROWS = [Row(0, range(1)), Row(1, range(1, 2))]
TWO_OF_ONE = [Row(0, range(2), duration=2), Row(1, range(2))]
NUMBERS = [7, 9]


def step_of(*rows: tuple[int, float, float, Who, int]) -> ts.TimeStep:
    """Returns the step of a batch from (step type, reward, discount, who, action)."""
    step_types, rewards, discounts, who, numbers = zip(*rows, strict=True)
    return ts.TimeStep(
        np.array(step_types, np.int32),
        np.array(rewards, np.float32),
        np.array(discounts, np.float32),
        {"who": np.array(who), "heard": world.actions_of("nest", numbers)},
    )


def at_first(who: Who) -> tuple[int, float, float, Who, int]:
    return FIRST, 0.0, 1.0, who, 0


def after(
    who: Who, number: int, *, is_last: bool = False
) -> tuple[int, float, float, Who, int]:
    reward, discount = world.reward_of(who), world.discount_of(who, is_last)
    return (LAST if is_last else MID), float(reward), float(discount), who, number


def long_episode(row: int, life: int = 0) -> Who:
    """Returns the start of the first episode of that life with several steps."""
    starts = (Who(row, life, episode, 0, -1) for episode in range(100))
    return next(who for who in starts if world.length_of(who) > 4)


def at(who: Who, t: int) -> Who:
    return who._replace(t=t)


def begun(rows: list[Row] = ROWS) -> tuple[StreamChecker, Who, Who]:
    """Returns a checker that has seen FIRST and one MID of two rows."""
    checker = StreamChecker(rows, "nest")
    checker.disturb()  # The first episode that is seen may be any.
    one, two = long_episode(0), long_episode(1)
    checker.check_reset(step_of(at_first(one), at_first(two)), ())
    now = step_of(after(at(one, 1), 7), after(at(two, 1), 9))
    checker.check_step(NUMBERS, now, ())
    return checker, at(one, 1), at(two, 1)


def good_step(one: Who, two: Who) -> ts.TimeStep:
    return step_of(after(at(one, 2), 7), after(at(two, 2), 9))


def test_a_stream_without_faults_is_passed() -> None:
    checker = StreamChecker([Row(0, range(1))], "nest")
    checker.check_reset(step_of(at_first(Who(0, 0, 0, 0, -1))), ())
    num_lasts = episode = t = 0
    for _ in range(100):
        who = Who(0, 0, episode, t + 1, -1)
        is_last = who.t == world.length_of(who)
        checker.check_step([5], step_of(after(who, 5, is_last=is_last)), ())
        t += 1
        if is_last:
            episode, t, num_lasts = episode + 1, 0, num_lasts + 1
            again = step_of(at_first(Who(0, 0, episode, 0, -1)))
            checker.check_step([5], again, ())

    assert num_lasts > 5
    assert not checker.crashed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step_type", FIRST),
        ("step_type", LAST),
        ("reward", 0.0),
        ("reward", 1001.0),
        ("discount", 1.0),
        ("discount", 0.0),
    ],
)
def test_a_wrong_value_is_found(field: str, value: float) -> None:
    checker, one, two = begun()
    step = good_step(one, two)
    getattr(step, field)[1] = value

    with pytest.raises(StreamError, match="row 1 does not go on as it must"):
        checker.check_step(NUMBERS, step, ())


@pytest.mark.parametrize("t", [0, 1, 3])
def test_a_lost_or_doubled_step_is_found(t: int) -> None:
    checker, one, two = begun()
    step = step_of(after(at(one, 2), 7), after(at(two, t), 9))

    with pytest.raises(StreamError, match="row 1 does not go on as it must"):
        checker.check_step(NUMBERS, step, ())


def test_the_same_step_once_more_is_found() -> None:
    checker, one, two = begun()
    step = good_step(one, two)
    checker.check_step(NUMBERS, step, ())

    with pytest.raises(StreamError, match="row 0 does not go on as it must"):
        checker.check_step(NUMBERS, step, ())


def test_a_step_of_another_row_is_found() -> None:
    checker, one, two = begun()
    step = step_of(after(at(two, 2), 7), after(at(one, 2), 9))

    with pytest.raises(StreamError, match="row 0"):
        checker.check_step(NUMBERS, step, ())


@pytest.mark.parametrize("leaf", ["number", "arms"])
def test_an_action_that_did_not_arrive_is_found(leaf: str) -> None:
    checker, one, two = begun()
    step = good_step(one, two)
    heard: Any = copy.deepcopy(step.observation)["heard"]
    array = heard["number"] if leaf == "number" else heard["arms"][0]
    array[1] += 1

    with pytest.raises(StreamError, match="row 1 does not go on as it must"):
        checker.check_step(
            NUMBERS,
            step._replace(observation={**step.observation, "heard": heard}),
            (),
        )


def test_actions_of_two_rows_that_were_swapped_are_found() -> None:
    checker, one, two = begun()
    step = step_of(after(at(one, 2), 9), after(at(two, 2), 7))

    with pytest.raises(StreamError, match="row 0 does not go on as it must"):
        checker.check_step(NUMBERS, step, ())


def test_an_episode_that_goes_on_after_its_end_is_found() -> None:
    checker = StreamChecker([Row(0, range(1), duration=1)], "nest")
    who = Who(0, 0, 0, 0, -1)
    checker.check_reset(step_of(at_first(who)), ())

    with pytest.raises(StreamError, match="row 0 does not go on as it must"):
        checker.check_step([7], step_of(after(at(long_episode(0), 1), 7)), ())


def lose(checker: StreamChecker, one: Who, two: Who) -> None:
    """Has row 1 say LAST for a failure."""
    step = step_of(after(at(one, 2), 7), (LAST, 0.0, 1.0, two, 9))
    checker.check_step(NUMBERS, step, {1})


def test_a_loss_with_a_cause_is_passed_and_marked() -> None:
    checker, one, two = begun()

    lose(checker, one, two)

    assert checker.crashed == {1}
    checker.check_infos([{"who": tuple(at(one, 2))}, {"crashed": True}])
    again = step_of(after(at(one, 3), 7), at_first(Who(1, 3, 0, 0, -1)))
    checker.check_step(NUMBERS, again, ())
    assert checker.crashed == set()


def test_a_loss_without_a_cause_is_found() -> None:
    checker, one, two = begun()
    step = step_of(after(at(one, 2), 7), (LAST, 0.0, 1.0, two, 9))

    with pytest.raises(StreamError, match="row 1 is lost without a cause"):
        checker.check_step(NUMBERS, step, {0})


@pytest.mark.parametrize(
    ("reward", "discount", "t", "number"),
    [(1.0, 1.0, 1, 9), (0.0, 0.0, 1, 9), (0.0, 1.0, 2, 9), (0.0, 1.0, 1, 8)],
)
def test_a_loss_that_is_not_told_as_promised_is_found(
    reward: float, discount: float, t: int, number: int
) -> None:
    checker, one, two = begun()
    step = step_of(after(at(one, 2), 7), (LAST, reward, discount, at(two, t), number))

    with pytest.raises(StreamError, match="row 1 does not go on as it must"):
        checker.check_step(NUMBERS, step, {1})


def test_a_new_life_without_an_end_of_the_old_one_is_found() -> None:
    checker, one, _ = begun()
    step = step_of(after(at(one, 2), 7), at_first(Who(1, 1, 0, 0, -1)))

    with pytest.raises(StreamError, match="row 1 does not go on as it must"):
        checker.check_step(NUMBERS, step, {1})


@pytest.mark.parametrize(
    ("who", "text"),
    [
        (Who(1, 0, 99, 0, -1), "goes on after its end"),
        (Who(1, -1, 0, 0, -1), "goes back to an earlier life"),
        (Who(1, 1, 1, 0, -1), "is in a wrong episode"),
        (Who(1, 1, 0, 1, -1), "does not say FIRST"),
    ],
)
def test_a_wrong_start_after_a_loss_is_found(who: Who, text: str) -> None:
    checker, one, two = begun()
    lose(checker, one, two)
    step = step_of(after(at(one, 3), 7), at_first(who))

    with pytest.raises(StreamError, match=f"row 1 {text}"):
        checker.check_step(NUMBERS, step, ())


@pytest.mark.parametrize("marks", [(), (0, 1), (0,)])
def test_a_wrong_mark_is_found(marks: tuple[int, ...]) -> None:
    checker, one, two = begun()
    lose(checker, one, two)
    infos: list[Any] = [{"who": tuple(at(one, 2))}, {}]
    for row in marks:
        infos[row]["crashed"] = True

    with pytest.raises(StreamError, match="crashed is"):
        checker.check_infos(infos)


def test_a_mark_that_is_not_true_itself_is_found() -> None:
    checker, one, two = begun()
    lose(checker, one, two)

    with pytest.raises(StreamError, match="crashed is 1"):
        checker.check_infos([{"who": tuple(at(one, 2))}, {"crashed": 1}])


def test_an_info_of_another_step_is_found() -> None:
    checker, one, two = begun()

    with pytest.raises(StreamError, match="row 0: info"):
        checker.check_infos([{"who": tuple(at(one, 2))}, {"who": tuple(two)}])


@pytest.mark.parametrize(
    ("who", "text"),
    [
        (Who(1, 0, 99, 0, -1), "is in a wrong episode"),
        (Who(1, 1, 0, 0, -1), "is replaced, uncaused"),
    ],
)
def test_a_wrong_reset_is_found(who: Who, text: str) -> None:
    checker, one, _ = begun()
    step = step_of(at_first(one._replace(episode=one.episode + 1, t=0)), at_first(who))

    with pytest.raises(StreamError, match=f"row 1 {text}"):
        checker.check_reset(step, ())


def test_a_row_that_says_it_is_another_is_found() -> None:
    checker = StreamChecker([Row(0, range(1))], "nest")

    with pytest.raises(StreamError, match="row 0 says that it is another"):
        checker.check_reset(step_of(at_first(Who(1, 0, 0, 0, -1))), ())


def test_rows_of_one_environment_wait_for_each_other() -> None:
    checker, one, two = begun(TWO_OF_ONE)
    cut = (LAST, *after(at(one, 2), 7)[1:])
    checker.check_step(NUMBERS, step_of(cut, after(at(two, 2), 9)), ())
    lost = step_of(at_first(Who(0, 1, 0, 0, -1)), (LAST, 0.0, 1.0, at(two, 2), 9))
    checker.check_step(NUMBERS, lost, {0, 1})

    assert checker.crashed == {0, 1}
    waiting = (MID, 0.0, 1.0, Who(0, 1, 1, 0, -1), 0)
    checker.check_step(NUMBERS, step_of(waiting, at_first(Who(1, 1, 1, 0, -1))), ())
    assert checker.crashed == set()


def test_a_seed_that_is_given_to_two_lives_is_found() -> None:
    checker = StreamChecker([Row(0, range(1))], "nest")
    checker.check_reset(step_of(at_first(Who(0, 0, 0, 0, 17))), ())

    with pytest.raises(StreamError, match="a later life repeats a seed"):
        checker.check_reset(step_of(at_first(Who(0, 1, 0, 0, 17))), {0})
