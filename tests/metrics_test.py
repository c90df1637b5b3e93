"""Metrics against a loop over rows, and against episodes that were counted by hand."""

from __future__ import annotations

import itertools
import logging
import math
import pickle
from collections.abc import Iterator
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from parallel_envs import metrics
from parallel_envs import trajectory as tr

FIRST, MID, LAST = 0, 1, 2


def step(step_type: Any, next_step_type: Any, reward: Any) -> tr.Trajectory:
    return tr.Trajectory(
        step_type=np.asarray(step_type, np.int32),
        observation=(),
        action=(),
        policy_info=(),
        next_step_type=np.asarray(next_step_type, np.int32),
        reward=np.asarray(reward, np.float32),
        discount=np.ones(np.shape(step_type), np.float32),
    )


def two_rows() -> list[tr.Trajectory]:
    """Row 0 has episodes of 2 and 1 actions, row 1 one of 3 that ends with a 2nd."""
    return [
        step([FIRST, FIRST], [MID, MID], [1, 10]),
        step([MID, MID], [LAST, MID], [2, 20]),
        step([LAST, MID], [FIRST, LAST], [0, 30]),
        step([FIRST, LAST], [LAST, FIRST], [4, 0]),
    ]


@st.composite
def streams(draw: st.DrawFn) -> list[tr.Trajectory]:
    """Steps of a few rows, each of which may start and be reset within an episode."""
    num_rows = draw(st.integers(1, 4))
    length = draw(st.integers(0, 30))
    nexts = {FIRST: [FIRST, MID, LAST], MID: [FIRST, MID, LAST], LAST: [FIRST, LAST]}
    now = draw(
        st.lists(st.sampled_from([0, 1, 2]), min_size=num_rows, max_size=num_rows)
    )
    steps: list[tr.Trajectory] = []
    for _ in range(length):
        then = [draw(st.sampled_from(nexts[step_type])) for step_type in now]
        reward = [draw(st.integers(-9, 9)) for _ in now]
        steps.append(step(now, then, reward))
        now = then
    return steps


def episodes_of(steps: list[tr.Trajectory]) -> list[tuple[int, float, int]]:
    """Returns (row, return, length) of whole episodes, in the order of their ends."""
    open_episodes: dict[int, tuple[float, int]] = {}
    ended: list[tuple[int, float, int]] = []
    for taken in steps:
        rows = zip(taken.step_type, taken.next_step_type, taken.reward, strict=True)
        for row, (now, then, reward) in enumerate(rows):
            if now == LAST:
                open_episodes[row] = (0.0, 0)
                continue
            if now == FIRST:
                open_episodes[row] = (0.0, 0)
            if row not in open_episodes:
                continue
            total, length = open_episodes[row]
            open_episodes[row] = (total + float(reward), length + 1)
            if then == LAST:
                ended.append((row, *open_episodes[row]))
    return ended


@hypothesis.given(streams(), st.integers(1, 6))
def test_metrics_equal_a_loop_over_rows(
    steps: list[tr.Trajectory], buffer_size: int
) -> None:
    average_return = metrics.AverageReturn(buffer_size=buffer_size)
    average_length = metrics.AverageEpisodeLength(buffer_size=buffer_size)
    num_steps = metrics.EnvironmentSteps()
    num_episodes = metrics.NumberOfEpisodes()
    num_rows = len(steps[0].step_type) if steps else 1
    episode_returns = metrics.EpisodeReturns(num_rows)

    for taken in steps:
        for metric in (average_return, average_length, num_steps, num_episodes):
            metric(taken)
        episode_returns(taken)

    episodes = episodes_of(steps)
    latest = episodes[-buffer_size:]
    assert episode_returns.finished() == [(row, total) for row, total, _ in episodes]
    assert average_return.data.tolist() == [total for _, total, _ in latest]
    assert average_length.data.tolist() == [length for _, _, length in latest]
    pairs = [
        (now, then)
        for taken in steps
        for now, then in zip(taken.step_type, taken.next_step_type, strict=True)
    ]
    assert num_steps.result() == sum(now != LAST for now, _ in pairs)
    assert num_episodes.result() == sum(
        now != LAST and then == LAST for now, then in pairs
    )


@hypothesis.given(streams(), st.data(), st.booleans())
def test_some_rows_at_a_time_are_counted_as_all_at_once(
    steps: list[tr.Trajectory], data: st.DataObject, is_size_known: bool
) -> None:
    num_rows = len(steps[0].step_type) if steps else 1
    size = num_rows if is_size_known else None
    at_once = every_metric(num_rows, None)
    by_rows = every_metric(num_rows, size)

    for taken in steps:
        for metric in at_once:
            metric(taken)
        order = np.array(data.draw(st.permutations(range(num_rows))), np.int32)
        for env_ids in np.split(order, [data.draw(st.integers(0, num_rows))]):
            part = tr.Trajectory(
                *(
                    leaf[env_ids] if isinstance(leaf, np.ndarray) else ()
                    for leaf in taken
                )
            )
            for metric in by_rows:
                metric(part, env_ids)

    for one, other in zip(at_once, by_rows, strict=True):
        assert results_of(one) == results_of(other)


def every_metric(num_rows: int, batch_size: int | None) -> list[Any]:
    return [
        metrics.EpisodeReturns(num_rows),
        metrics.AverageReturn(buffer_size=math.inf, batch_size=batch_size),
        metrics.AverageEpisodeLength(buffer_size=math.inf, batch_size=batch_size),
        metrics.EnvironmentSteps(),
        metrics.NumberOfEpisodes(),
    ]


def results_of(metric: Any) -> Any:
    """Returns all of it, but for the order of what ended at once."""
    if isinstance(metric, metrics.EpisodeReturns):
        return sorted(metric.finished())
    if isinstance(metric, metrics.StreamingMetric):
        return sorted(metric.data.tolist())
    return metric.result()


def test_rows_are_told_apart_after_steps_of_all_of_them() -> None:
    returns = metrics.EpisodeReturns(batch_size=2)

    returns(step([FIRST, FIRST], [MID, MID], [1, 10]))
    returns(step([MID], [LAST], [20]), np.array([1], np.int32))
    returns(step([MID], [LAST], [2]), np.array([0], np.int32))

    assert returns.finished() == [(1, 30.0), (0, 3.0)]


def test_speed_counts_the_rows_that_were_told() -> None:
    times: Iterator[float] = itertools.count(100.0, 0.5)
    speed = metrics.StepsPerSecond(clock=lambda: next(times))

    for env_ids in ([0, 1], [2], [3, 1]):
        kinds = [MID] * len(env_ids)
        speed(step(kinds, kinds, kinds), np.array(env_ids, np.int32))

    assert speed.result() == 3.0


@pytest.mark.parametrize(
    ("env_ids", "message"),
    [
        ([0, 3], r"env_ids: expected rows from 0 to 2, got \[0, 3\]"),
        ([0, -1], r"env_ids: expected rows from 0 to 2, got \[0, -1\]"),
        ([0], r"integers of the step types' shape \(2,\), got int64 of shape \(1,\)"),
        ([0.0, 1.0], r"integers of the step types' shape \(2,\), got float64 of"),
    ],
)
def test_wrong_rows_are_refused(env_ids: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metrics.EpisodeReturns(3)(step([MID] * 2, [MID] * 2, [0] * 2), env_ids)


def test_rows_after_a_single_environment_are_refused() -> None:
    average = metrics.AverageReturn()
    average(step(FIRST, MID, 1))

    with pytest.raises(ValueError, match="env_ids: expected None, since the steps bef"):
        average(step([MID], [MID], [1]), np.array([0]))


def test_averages_and_counts_of_two_rows() -> None:
    collected = metrics.collect_metrics(buffer_size=10)

    for taken in two_rows():
        for metric in collected:
            metric(taken)

    results = {metric.name: metric.result() for metric in collected}
    assert results == {
        "NumberOfEpisodes": 3,
        "EnvironmentSteps": 6,
        "AverageReturn": np.float32((3 + 60 + 4) / 3),
        "AverageEpisodeLength": 2,
    }


def test_returns_come_in_the_order_in_which_episodes_end() -> None:
    returns = metrics.EpisodeReturns(batch_size=2)

    for taken in two_rows():
        returns(taken)

    assert returns.finished() == [(0, 3.0), (1, 60.0), (0, 4.0)]
    assert returns.finished() == [(0, 3.0), (1, 60.0), (0, 4.0)]


def test_a_single_environment_is_row_0() -> None:
    returns = metrics.EpisodeReturns(batch_size=1)

    for taken in (step(FIRST, MID, 1), step(MID, LAST, 2), step(LAST, FIRST, 0)):
        returns(taken)

    assert returns.finished() == [(0, 3.0)]


def test_results_are_float32_zero_before_any_episode_ends() -> None:
    for metric in metrics.eval_metrics():
        metric(step([FIRST], [MID], [1]))

        assert metric.result() == 0.0
        assert metric.result().dtype == np.float32


def test_only_the_latest_episodes_of_the_buffer_are_averaged() -> None:
    average = metrics.AverageReturn(buffer_size=2)

    for reward in (100, 1, 2):
        average(step(FIRST, LAST, reward))

    assert average.result() == 1.5


def test_an_infinite_buffer_averages_all_episodes() -> None:
    average = metrics.AverageReturn(buffer_size=np.inf)

    for reward in range(101):
        average(step(FIRST, LAST, reward))

    assert average.result() == 50


def test_an_episode_whose_start_was_not_seen_is_left_out_of_averages() -> None:
    average, count = metrics.AverageReturn(), metrics.NumberOfEpisodes()

    for taken in (step(MID, LAST, 5), step(LAST, FIRST, 0), step(FIRST, LAST, 7)):
        average(taken)
        count(taken)

    assert average.result() == 7
    assert count.result() == 2


def test_a_boundary_starts_an_episode_and_its_reward_counts_for_none() -> None:
    average = metrics.AverageReturn()

    for taken in (step(LAST, FIRST, 100), step(MID, MID, 1), step(MID, LAST, 2)):
        average(taken)

    assert average.result() == 3


def test_padding_after_the_end_is_no_episode() -> None:
    average, length, count = (
        metrics.AverageReturn(),
        metrics.AverageEpisodeLength(),
        metrics.NumberOfEpisodes(),
    )

    for taken in (step(FIRST, LAST, 4), step(LAST, LAST, 0), step(LAST, FIRST, 0)):
        for metric in (average, length, count):
            metric(taken)

    assert (average.result(), length.result(), count.result()) == (4, 1, 1)


def test_vector_rewards_are_averaged_by_component() -> None:
    average, returns = metrics.AverageReturn(), metrics.EpisodeReturns(2)

    for metric in (average, returns):
        metric(step([FIRST, LAST], [MID, FIRST], [[1, 2], [50, 50]]))
        metric(step([MID, FIRST], [LAST, LAST], [[3, 4], [6, 8]]))

    assert average.result().tolist() == [5, 7]
    assert returns.finished() == [(0, [4, 6]), (1, [6, 8])]


def test_rewards_are_summed_in_double_precision() -> None:
    average = metrics.AverageReturn()

    average(step(FIRST, MID, 2**24))
    average(step(MID, MID, 1))
    average(step(MID, LAST, 1))

    assert average.result() == 2**24 + 2


def test_reset_forgets_values_and_episodes_that_have_begun() -> None:
    average, returns = metrics.AverageReturn(), metrics.EpisodeReturns(1)
    for metric in (average, returns):
        metric(step(FIRST, LAST, 1))
        metric(step(LAST, FIRST, 0))
        metric(step(FIRST, MID, 2))

        metric.reset()

        metric(step(MID, LAST, 3))
    assert average.result() == 0.0
    assert returns.finished() == []


def test_environment_steps_can_go_on_from_an_earlier_run() -> None:
    count = metrics.EnvironmentSteps()

    count.reset(1000)
    count(step([FIRST, LAST], [MID, FIRST], [0, 0]))

    assert count.result() == 1001


def test_speed_is_measured_from_the_first_call_to_the_last() -> None:
    times: Iterator[float] = itertools.count(100.0, 0.5)
    speed = metrics.StepsPerSecond(clock=lambda: next(times))
    before = speed.result()

    for _ in range(3):
        speed(step([FIRST, MID, LAST], [MID, MID, FIRST], [0, 0, 0]))

    assert before == 0.0
    assert speed.result() == 4.0  # Twice two steps in one second.


def test_speed_starts_again_after_reset() -> None:
    times: Iterator[float] = iter([0.0, 1.0, 50.0, 51.0])
    speed = metrics.StepsPerSecond(clock=lambda: next(times))
    for _ in range(2):
        speed(step([MID], [MID], [0]))

    speed.reset()
    for _ in range(2):
        speed(step([MID, MID], [MID, MID], [0, 0]))

    assert speed.result() == 2.0


def test_counter_counts_its_calls() -> None:
    counter = metrics.CounterMetric()

    counter()
    counter()

    assert counter.result() == 2


def test_log_says_prefix_name_and_result(caplog: pytest.LogCaptureFixture) -> None:
    count = metrics.EnvironmentSteps()

    with caplog.at_level(logging.INFO, logger="parallel_envs.metrics"):
        count.log()

    assert caplog.messages == ["Metrics/EnvironmentSteps = 0"]


def test_aggregate_is_the_mean_of_several_metrics() -> None:
    counts = [metrics.EnvironmentSteps(), metrics.EnvironmentSteps()]
    counts[0].reset(1)
    counts[1].reset(4)

    assert metrics.PyMetric.aggregate(counts) == 2.5


def test_tf_agents_names_are_the_same_classes() -> None:
    assert metrics.AverageReturnMetric is metrics.AverageReturn
    assert metrics.AverageEpisodeLengthMetric is metrics.AverageEpisodeLength


def test_a_pickled_metric_goes_on_where_it_was() -> None:
    average = metrics.AverageReturn()
    average(step([FIRST, FIRST], [MID, MID], [1, 2]))

    copy = pickle.loads(pickle.dumps(average))
    copy(step([MID, MID], [LAST, LAST], [3, 4]))

    assert copy.result() == 5
    assert average.result() == 0


def test_another_number_of_rows_is_refused() -> None:
    average = metrics.AverageReturn()
    average(step([FIRST] * 4, [MID] * 4, [0] * 4))

    with pytest.raises(
        ValueError, match=r"expected step types of shape \(4,\) as before, got \(2,\)"
    ):
        average(step([FIRST] * 2, [MID] * 2, [0] * 2))


def test_a_batch_of_another_size_than_said_is_refused() -> None:
    returns = metrics.EpisodeReturns(batch_size=3)

    with pytest.raises(
        ValueError, match=r"expected step types of shape \(\) or \(3,\), got \(2,\)"
    ):
        returns(step([FIRST] * 2, [MID] * 2, [0] * 2))


def test_a_time_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(\) or \(B,\), got \(2, 3\)"):
        metrics.AverageReturn()(step([[FIRST] * 3] * 2, [[MID] * 3] * 2, [[0] * 3] * 2))


def test_rewards_that_are_no_array_of_rows_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"trajectory.reward: expected numbers of shape \(2,\).*\(3,\)"
    ):
        metrics.AverageReturn()(step([FIRST] * 2, [MID] * 2, [0] * 3))


@pytest.mark.parametrize("buffer_size", [0, -1, 2.5])
def test_a_buffer_without_room_is_refused(buffer_size: float) -> None:
    with pytest.raises(ValueError, match=rf"buffer_size: .* got {buffer_size}"):
        metrics.AverageReturn(buffer_size=buffer_size)


def test_a_batch_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="batch_size: expected 1 or more, got 0"):
        metrics.EpisodeReturns(0)
