"""Portions, metrics, logs and summaries of an actor."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parallel_envs import metrics
from parallel_envs import time_step as ts
from parallel_envs.batched_py_environment import BatchedPyEnvironment
from parallel_envs.drivers import Actor
from parallel_envs.scripted_py_policy import ScriptedPyPolicy
from parallel_envs.summaries import read_scalars
from parallel_envs.testing.environments import Counting
from parallel_envs.trajectory import Trajectory


def act(time_step: ts.TimeStep) -> Any:
    """A policy as a function: action 0 in each row."""
    return np.zeros(np.shape(time_step.step_type), np.int64)


def test_runs_go_on_where_the_last_one_ended() -> None:
    seen: list[Trajectory] = []
    actor = Actor(Counting(length=3), act, steps_per_run=2, observers=[seen.append])

    actor.run()
    actor.run()

    assert [step.observation.tolist() for step in seen] == [
        [0, 0, 0],
        [0, 0, 1],
        [0, 0, 2],
        [0, 0, 3],
        [0, 1, 0],
    ]


def test_a_run_of_episodes_fills_the_metrics() -> None:
    env = BatchedPyEnvironment([Counting(0, 2), Counting(1, 2)])
    measured = metrics.collect_metrics(10)
    actor = Actor(env, act, episodes_per_run=4, metrics=measured)

    actor.run()

    results = {metric.name: metric.result() for metric in actor.metrics}
    assert results == {
        "NumberOfEpisodes": 4,
        "EnvironmentSteps": 8,
        "AverageReturn": 3,
        "AverageEpisodeLength": 2,
    }


def test_reset_begins_a_new_episode_and_a_new_state_of_the_policy() -> None:
    env = Counting(length=9)
    policy = ScriptedPyPolicy(None, env.action_spec(), [(1, 5), (9, 0)])
    seen: list[Trajectory] = []
    actor = Actor(env, policy, steps_per_run=2, observers=[seen.append])

    actor.run()
    actor.reset()
    actor.run()

    assert [step.observation.tolist()[1:] for step in seen] == [
        [0, 0],
        [0, 1],
        [1, 0],
        [1, 1],
    ]
    assert [step.action for step in seen] == [5, 0, 5, 0]


def test_the_state_of_the_policy_is_kept_from_run_to_run() -> None:
    env = Counting(length=9)
    policy = ScriptedPyPolicy(None, env.action_spec(), [(1, 5), (1, 6), (9, 0)])
    seen: list[Trajectory] = []
    actor = Actor(env, policy, steps_per_run=1, observers=[seen.append])

    for _ in range(3):
        actor.run()

    assert [step.action for step in seen] == [5, 6, 0]


def test_observers_are_called_in_order_and_a_metric_among_them_once() -> None:
    class Count(metrics.EnvironmentSteps):
        def call(self, trajectory: Trajectory, env_ids: Any = None) -> None:
            super().call(trajectory, env_ids)
            calls.append(self.name)

    def first(trajectory: Trajectory) -> None:
        calls.append("first")

    def third(trajectory: Trajectory) -> None:
        calls.append("third")

    calls: list[str] = []
    shared, other = Count("shared"), Count("other")
    observers = [first, shared, third]
    actor = Actor(
        Counting(), act, steps_per_run=1, observers=observers, metrics=[shared, other]
    )

    actor.run()

    assert calls == ["first", "shared", "third", "other"]
    assert shared.result() == 1


def test_transition_and_info_observers_are_called() -> None:
    transitions: list[Any] = []
    infos: list[Any] = []

    actor = Actor(
        Counting(),
        act,
        steps_per_run=2,
        transition_observers=[transitions.append],
        info_observers=[infos.append],
    )
    actor.run()

    assert [next_step.reward for _, _, next_step in transitions] == [1, 2]
    assert infos == [{"episode": 0, "t": 1}, {"episode": 0, "t": 2}]


def test_episodes_can_end_with_their_last_step() -> None:
    seen: list[Trajectory] = []
    actor = Actor(
        Counting(length=3),
        act,
        episodes_per_run=1,
        observers=[seen.append],
        end_episode_on_boundary=False,
    )

    actor.run()

    assert len(seen) == 3


def test_run_and_log_logs_the_metrics_on_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    measured = [metrics.EnvironmentSteps(), metrics.NumberOfEpisodes()]
    actor = Actor(Counting(length=2), act, None, 3, metrics=measured, name="eval")

    with caplog.at_level(logging.INFO, logger="parallel_envs.drivers.actor"):
        actor.run_and_log()

    assert caplog.messages == ["eval: EnvironmentSteps = 3, NumberOfEpisodes = 1"]


def test_summaries_are_written_when_the_train_step_has_grown_by_the_interval(
    tmp_path: Path,
) -> None:
    train_step = 0
    with Actor(
        Counting(length=9),
        act,
        train_step=lambda: train_step,
        steps_per_run=2,
        metrics=[metrics.EnvironmentSteps()],
        summary_dir=tmp_path,
        summary_interval=10,
    ) as actor:
        for train_step in (0, 9, 10, 15, 20):  # noqa: B007 (the function reads it)
            actor.run()

    tag = "Metrics/EnvironmentSteps"
    assert read_scalars(tmp_path) == [(tag, 0, 2), (tag, 10, 6), (tag, 20, 10)]


def test_without_a_train_step_summaries_stand_at_the_steps_of_the_environment(
    tmp_path: Path,
) -> None:
    env = BatchedPyEnvironment([Counting(0, 2), Counting(1, 2)])
    with Actor(
        env,
        act,
        steps_per_run=4,
        metrics=[metrics.NumberOfEpisodes()],
        summary_dir=tmp_path,
        summary_interval=8,
    ) as actor:
        for _ in range(5):
            actor.run()

    tag = "Metrics/NumberOfEpisodes"
    assert read_scalars(tmp_path) == [(tag, 4, 2), (tag, 12, 6), (tag, 20, 10)]


def test_summaries_carry_the_actors_name_and_the_reference_metrics(
    tmp_path: Path,
) -> None:
    steps, episodes = metrics.EnvironmentSteps(), metrics.NumberOfEpisodes()
    with Actor(
        Counting(length=2),
        act,
        train_step=5,
        episodes_per_run=3,
        metrics=[steps, episodes],
        reference_metrics=[episodes],
        summary_dir=tmp_path,
        name="collect",
    ) as actor:
        actor.run()

    assert read_scalars(tmp_path) == [
        ("Metrics/collect/EnvironmentSteps", 5, 6),
        ("collect/Metrics/EnvironmentSteps/NumberOfEpisodes", 3, 6),
        ("Metrics/collect/NumberOfEpisodes", 5, 3),
        ("collect/Metrics/NumberOfEpisodes/NumberOfEpisodes", 3, 3),
    ]


def test_what_is_written_can_be_read_before_the_actor_is_closed(tmp_path: Path) -> None:
    actor = Actor(
        Counting(),
        act,
        steps_per_run=1,
        metrics=[metrics.EnvironmentSteps()],
        summary_dir=tmp_path,
    )

    actor.run()

    assert read_scalars(tmp_path) == [("Metrics/EnvironmentSteps", 1, 1)]
    actor.close()
    actor.close()


def test_an_interval_of_0_leaves_writing_to_the_caller(tmp_path: Path) -> None:
    with Actor(
        Counting(),
        act,
        steps_per_run=1,
        metrics=[metrics.EnvironmentSteps()],
        summary_dir=tmp_path,
        summary_interval=0,
    ) as actor:
        actor.run()
        actor.run()
        actor.write_metric_summaries()

    assert read_scalars(tmp_path) == [("Metrics/EnvironmentSteps", 2, 2)]


def test_a_result_that_is_not_one_number_is_left_out_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Names(metrics.EnvironmentSteps):
        def result(self) -> Any:
            return "many"

    with Actor(
        Counting(),
        act,
        steps_per_run=1,
        metrics=[Names(), metrics.NumberOfEpisodes()],
        summary_dir=tmp_path,
    ) as actor:
        actor.run()

    assert [tag for tag, _, _ in read_scalars(tmp_path)] == ["Metrics/NumberOfEpisodes"]
    assert caplog.messages == [
        "Metrics/EnvironmentSteps: expected one number, got 'many' at 1."
    ]


class LastPicture(metrics.EnvironmentSteps):
    """The number of steps as a grey value."""

    def result(self) -> Any:
        return np.full((2, 2, 1), super().result(), np.uint8)


def test_pictures_of_image_metrics_are_written_and_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    picture = LastPicture("picture")
    with (
        caplog.at_level(logging.INFO, logger="parallel_envs.drivers.actor"),
        Actor(
            Counting(),
            act,
            steps_per_run=2,
            metrics=[metrics.EnvironmentSteps()],
            image_metrics=[picture],
            summary_dir=tmp_path,
        ) as actor,
    ):
        actor.run_and_log()

    (path,) = tmp_path.iterdir()
    assert actor.image_metrics == [picture]
    assert b"Metrics/picture" in path.read_bytes()
    assert caplog.messages == ["EnvironmentSteps = 2"]


class Variable:
    """Holds a number as a `tf.Variable` does."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value


def test_a_train_step_can_be_a_variable(tmp_path: Path) -> None:
    train_step = Variable(0)
    with Actor(
        Counting(),
        act,
        train_step,
        steps_per_run=1,
        metrics=[metrics.EnvironmentSteps()],
        summary_dir=tmp_path,
    ) as actor:
        train_step.value = 3000
        actor.run()

    assert actor.train_step is train_step
    assert read_scalars(tmp_path) == [("Metrics/EnvironmentSteps", 3000, 1)]


def test_a_train_step_that_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match=r"train_step: expected an int, .* got 'now'"):
        Actor(Counting(), act, "now", steps_per_run=1)


def test_an_actor_without_a_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="max_steps and max_episodes"):
        Actor(Counting(), act)


def test_without_a_directory_nothing_is_written() -> None:
    actor = Actor(Counting(), act, steps_per_run=1, metrics=metrics.eval_metrics())

    actor.run()
    actor.write_metric_summaries()

    assert actor.summary_writer is None
