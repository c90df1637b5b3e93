"""Atari games by name."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest

from parallel_envs import suites
from parallel_envs.parallel_py_environment import ParallelPyEnvironment


def test_a_game_is_preprocessed_and_stacked() -> None:
    env: Any = suites.load("ale:Pong")

    first = env.reset()
    step = env.step(0)

    assert first.observation.shape == step.observation.shape == (84, 84, 4)
    assert first.observation.dtype == np.uint8
    assert env.action_spec().maximum == 17
    assert env.get_info()["episode_frame_number"] == 4


def test_arguments_go_to_the_preprocessing_and_the_stack() -> None:
    env: Any = suites.load(
        "ale:SpaceInvaders",
        protocol="dqn2015",
        noop_max=0,
        screen_size=42,
        num_frames=2,
        stack_axis=0,
    )

    assert env.reset().observation.shape == (2, 42, 42)
    assert env.action_spec().maximum == 5


def test_a_game_can_begin_with_fire() -> None:
    env: Any = suites.load("ale:Breakout", fire_on_reset=True)

    env.reset()

    assert env.get_info()["episode_frame_number"] == 8


def test_mode_and_difficulty_are_those_asked_for() -> None:
    env: Any = suites.load("ale:Breakout", mode=8, difficulty=1, protocol="dqn2015")

    state = env.ale.cloneState()

    assert (state.getCurrentMode(), state.getDifficulty()) == (8, 1)


def test_a_constructor_travels() -> None:
    make = suites.constructor("ale:Pong", screen_size=42)

    again = pickle.loads(pickle.dumps(make))

    assert again == make
    assert again().observation_spec() == make().observation_spec()


def test_games_run_in_processes_and_their_chances_differ() -> None:
    make = suites.constructor("ale:Breakout", screen_size=21, noop_max=30)

    with ParallelPyEnvironment([make] * 3) as env:
        env.reset()
        step = env.step(np.ones(3, np.int64))
        frames = [info["episode_frame_number"] for info in env.get_info()]

    assert step.observation.shape == (3, 21, 21, 4)
    assert len(set(frames)) > 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ale:pong", r"no game 'pong' in ale_py; the nearest \w+ 'Pong'"),
        ("ale:Pong-v5", "the nearest .*'Pong'"),
        ("ale:space_invaders", "the nearest .*'SpaceInvaders'"),
        ("ale:Qzx", r"no game 'Qzx' in ale_py\."),
    ],
)
def test_an_unknown_game_is_refused_at_once_with_the_nearest(
    name: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        suites.constructor(name)


def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "parallel_envs.suites.ale_suite", raising=False)
    monkeypatch.setitem(sys.modules, "ale_py", None)

    with pytest.raises(ImportError, match=r"'ale_py' .*'parallel_envs\[atari\]'"):
        suites.constructor("ale:Pong")
