"""Atari games as agents see them, compared with Gymnasium's own preprocessing."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import ale_py
import gymnasium
import numpy as np
import numpy.typing as npt
import pytest
from ale_py import roms

from parallel_envs import time_step as ts
from parallel_envs.adapters import from_gymnasium
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.testing import conformance
from parallel_envs.wrappers import AtariPreprocessing, FrameStack

NOOP, FIRE = 0, 1
# Ours are means rounded exactly. OpenCV's are off by one in a few pixels in a million
# where little is on the screen, and in two in ten thousand in the busiest games.
MOST_PIXELS_OFF_BY_ONE = 1e-3


def emulator(game: str = "breakout") -> Any:
    library: Any = ale_py
    library.ALEInterface.setLoggerMode(library.LoggerMode.Error)
    ale = library.ALEInterface()
    ale.loadROM(roms.get_rom_path(game))
    return ale


def breakout(**kwargs: Any) -> AtariPreprocessing:
    return AtariPreprocessing(emulator(), **kwargs)


def steps(env: PyEnvironment, actions: Any) -> list[ts.TimeStep]:
    return [env.reset(), *(env.step(action) for action in actions)]


def steps_to_the_end(env: PyEnvironment, action: int = FIRE) -> list[ts.TimeStep]:
    found = [env.reset()]
    while not found[-1].is_last():
        found.append(env.step(action))
    return found


class TestConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return breakout(max_episode_frames=30)


class TestConformanceWithLives(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return breakout(protocol="dqn2015", max_episode_frames=400)


def theirs(game: str, sticky: float, full: bool, **kwargs: Any) -> Any:
    env: Any = gymnasium.make(
        f"ALE/{game}-v5",
        frameskip=1,
        repeat_action_probability=sticky,
        full_action_space=full,
    )
    return gymnasium.wrappers.AtariPreprocessing(env, **kwargs)


@pytest.mark.parametrize("lives", [False, True])
@pytest.mark.parametrize("sticky", [0.0, 0.25])
@pytest.mark.parametrize("game", ["Breakout", "Seaquest", "AirRaid"])
def test_the_same_seed_and_actions_give_what_gymnasium_gives(
    game: str, sticky: float, lives: bool
) -> None:
    rest: dict[str, Any] = {"terminal_on_life_loss": lives, "noop_max": 30}
    gym_env = theirs(game, sticky, full=True, **rest)
    env = AtariPreprocessing(
        theirs(game, 0.5, full=False).unwrapped,
        repeat_action_probability=sticky,
        **rest,
    )
    env.seed(2**31 + 7)
    ours = env.reset()
    expected, _ = gym_env.reset(seed=2**31 + 7)
    off_by_one: list[float] = []

    for action in np.random.default_rng(0).integers(0, 18, 300):
        off_by_one.append(checked_difference(ours.observation, expected))
        ours = env.step(action)
        expected, reward, terminated, truncated, info = gym_env.step(action)
        assert ours.reward == reward
        assert env.get_info() == {key: info[key] for key in env.get_info()}
        assert ours.is_last() == (terminated or truncated)
        if ours.is_last():
            # Its picture of a last step is of frames before, and after a lost life it
            # cannot go on with the game: there a new one begins for both.
            assert ours.discount == 0.0
            env.end_game()
            ours = env.reset()
            expected, _ = gym_env.reset()

    assert np.mean(off_by_one) < MOST_PIXELS_OFF_BY_ONE


def test_a_stack_is_that_of_gymnasium() -> None:
    wrappers: Any = gymnasium.wrappers  # `FrameStack` until 0.29.
    stack = getattr(wrappers, "FrameStackObservation", None) or wrappers.FrameStack
    gym_env = stack(theirs("Pong", 0.0, full=False, noop_max=30), 4)
    env = FrameStack(
        AtariPreprocessing(
            emulator("pong"),
            repeat_action_probability=0.0,
            full_action_set=False,
            noop_max=30,
        ),
        num_frames=4,
        axis=0,
    )
    env.seed(5)
    ours = env.reset()
    expected, _ = gym_env.reset(seed=5)

    for action in np.random.default_rng(0).integers(0, 6, 100):
        checked_difference(ours.observation, expected)
        ours = env.step(action)
        expected, reward, *_ = gym_env.step(action)
        assert ours.reward == reward


def checked_difference(found: npt.NDArray[Any], expected: Any) -> float:
    """Returns the share of pixels that differ, none by more than one."""
    difference = np.abs(found.astype(int) - np.asarray(expected))
    assert difference.shape == found.shape
    assert difference.max() <= 1
    return float(difference.mean())


@pytest.mark.parametrize("adapted", [False, True])
def test_environments_around_an_emulator_are_taken_and_closed(adapted: bool) -> None:
    class Closing(gymnasium.Wrapper[Any, Any, Any, Any]):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    game: Any = gymnasium.make("ALE/Pong-v5")
    inside = Closing(game)

    with AtariPreprocessing(from_gymnasium(inside) if adapted else inside) as env:
        assert env.reset().is_first()

    assert inside.closed == 1


def test_the_protocols_differ_as_the_papers_do() -> None:
    machado, dqn = breakout(), breakout(protocol="dqn2015")

    assert machado.action_spec().maximum == 17
    assert dqn.action_spec().maximum == 3
    assert dqn.get_action_meanings() == ["NOOP", "FIRE", "RIGHT", "LEFT"]
    assert machado.ale.getFloat("repeat_action_probability") == 0.25
    assert dqn.ale.getFloat("repeat_action_probability") == 0.0
    assert len({frame_of_first(machado) for _ in range(5)}) == 1
    assert len({frame_of_first(dqn) for _ in range(9)}) > 1
    assert not steps_to_the_end(machado)[-1].discount
    assert machado.get_info()["lives"] == 0
    assert not steps_to_the_end(dqn)[-1].discount
    assert dqn.get_info()["lives"] == 4


def test_each_part_of_a_protocol_can_be_changed() -> None:
    env = breakout(protocol="dqn2015", noop_max=0, terminal_on_life_loss=False)

    assert frame_of_first(env) == 0
    steps_to_the_end(env)
    assert env.get_info()["lives"] == 0
    assert env.action_spec().maximum == 3


def test_a_game_starts_with_1_to_noop_max_frames_of_nothing() -> None:
    env = breakout(noop_max=3)

    frames = {frame_of_first(env) for _ in range(40)}

    assert frames == {1, 2, 3}


def test_a_lost_life_ends_an_episode_and_not_the_game() -> None:
    env = breakout(protocol="dqn2015")
    last = steps_to_the_end(env)[-1]
    frame = env.get_info()["episode_frame_number"]

    first = env.step(FIRE)

    assert last.discount == 0.0
    assert not env.game_over
    assert first.is_first()
    assert env.get_info()["lives"] == 4
    assert env.get_info()["episode_frame_number"] == frame


def test_after_the_last_life_a_new_game_starts() -> None:
    env = breakout(protocol="dqn2015")
    while not env.game_over:
        steps_to_the_end(env)

    assert env.current_time_step().is_last()
    assert env.step(FIRE).is_first()
    assert env.get_info()["lives"] == 5
    assert env.get_info()["episode_frame_number"] <= 30


@pytest.mark.parametrize("how", ["reset", "end_game", "seed"])
def test_a_new_game_can_be_had_at_any_time(how: str) -> None:
    env = breakout(protocol="dqn2015", noop_max=0)
    steps_to_the_end(env)
    if how == "reset":
        env.step(NOOP)
        env.step(NOOP)
    elif how == "end_game":
        env.end_game()
    else:
        env.seed(3)

    env.reset()

    assert env.get_info()["lives"] == 5
    assert env.get_info()["episode_frame_number"] == 0


def test_the_limit_of_frames_is_a_truncation() -> None:
    env = breakout(max_episode_frames=10)

    episode = steps_to_the_end(env, NOOP)

    assert len(episode) == 4
    assert episode[-1].discount == 1.0
    assert env.game_over
    assert env.get_info()["episode_frame_number"] == 10
    assert steps_to_the_end(env, NOOP)[-1].discount == 1.0


def test_the_limit_of_frames_counts_over_all_lives() -> None:
    env = breakout(protocol="dqn2015", max_episode_frames=300)

    ends: list[float] = []
    while not env.game_over:
        ends.append(float(steps_to_the_end(env)[-1].discount))

    assert len(ends) > 1
    assert ends == [0.0] * (len(ends) - 1) + [1.0]
    assert env.step(FIRE).is_first()
    assert env.get_info()["lives"] == 5


def test_there_may_be_no_limit_of_frames() -> None:
    env = breakout(max_episode_frames=None)

    assert env.ale.getInt("max_num_frames_per_episode") == 0


@pytest.mark.parametrize("frame_skip", [1, 2, 4])
def test_an_action_is_held_for_frame_skip_frames(frame_skip: int) -> None:
    env = breakout(frame_skip=frame_skip)
    env.reset()

    env.step(NOOP)

    assert env.get_info()["episode_frame_number"] == frame_skip


@pytest.mark.parametrize(("frame_skip", "num_shown"), [(1, 1), (2, 2), (4, 2)])
def test_the_picture_has_the_brighter_pixels_of_the_last_two_frames(
    frame_skip: int, num_shown: int
) -> None:
    env = breakout(
        frame_skip=frame_skip, screen_size=160, repeat_action_probability=0.0
    )
    single = breakout(frame_skip=1, screen_size=160, repeat_action_probability=0.0)
    env.seed(0)
    single.seed(0)

    held = [action for action in (FIRE, 2, 3, 4, 5) for _ in range(frame_skip)]
    frames = [step.observation for step in steps(single, held)]
    *_, found = steps(env, [FIRE, 2, 3, 4, 5])

    # Pooled before it is resized, so the brighter of two means may be darker.
    pooled = np.max(frames[-num_shown:], axis=0)
    assert (found.observation >= pooled).all()
    assert (found.observation == pooled).mean() > 0.99


def test_an_episode_that_ends_early_shows_its_last_frame() -> None:
    env = breakout(max_episode_frames=5, screen_size=160)
    single = breakout(frame_skip=1, max_episode_frames=5, screen_size=160)
    for each in (env, single):
        each.seed(0)

    last = steps_to_the_end(env, FIRE)[-1]

    expected = steps_to_the_end(single, FIRE)[-1]
    np.testing.assert_array_equal(last.observation, expected.observation)


def test_rewards_are_added_or_clipped() -> None:
    actions = np.random.default_rng(0).integers(0, 18, 400)
    plain, clipped = (
        AtariPreprocessing(emulator("seaquest"), clip_rewards=clip)
        for clip in (False, True)
    )
    plain.seed(0)
    clipped.seed(0)

    rewards = [step.reward for step in steps(plain, actions)]

    assert max(rewards) >= 20
    assert [step.reward for step in steps(clipped, actions)] == list(np.sign(rewards))


def test_seeds_differ_and_one_gives_the_same_game_again() -> None:
    actions = np.random.default_rng(0).integers(0, 18, 60)

    def played(env: AtariPreprocessing, seed: int) -> npt.NDArray[Any]:
        assert env.seed(seed) == seed
        return np.stack([step.observation for step in steps(env, actions)])

    env = breakout(noop_max=30)
    first, second, again = (played(env, seed) for seed in (1, 2, 1))

    assert (first == again).all()
    assert (first != second).any()


def test_a_seed_can_be_taken_back() -> None:
    env = breakout()
    env.seed(1)

    assert env.seed(None) is None
    env.reset()


def test_a_state_travels_to_another_object_that_plays_on_alike() -> None:
    actions = np.random.default_rng(0).integers(0, 4, 120)
    env, other = breakout(protocol="dqn2015"), breakout(protocol="dqn2015")
    steps(env, actions[:40])
    state = pickle.loads(pickle.dumps(env.get_state()))
    expected = [env.step(action) for action in actions]
    steps(other, actions[:7])

    other.set_state(state)
    found = [other.step(action) for action in actions]

    for one, two in zip(found, expected, strict=True):
        assert one.step_type == two.step_type
        assert one.reward == two.reward
        np.testing.assert_array_equal(one.observation, two.observation)
    assert {int(step.step_type) for step in found} == {0, 1, 2}


def test_a_state_of_the_last_step_is_followed_by_a_first() -> None:
    env = breakout(max_episode_frames=8)
    steps_to_the_end(env)
    state = env.get_state()
    env.reset()

    env.set_state(state)

    assert env.current_time_step().is_last()
    assert env.step(NOOP).is_first()


def test_pictures_are_those_of_the_emulator() -> None:
    env = breakout()
    env.reset()

    picture = env.render()

    assert picture.shape == (210, 160, 3)
    assert picture.dtype == np.uint8
    assert picture.max() > 0


@pytest.mark.parametrize("mode", ["human", "ansi"])
def test_other_modes_of_rendering_are_refused(mode: str) -> None:
    with pytest.raises(NotImplementedError, match=f"'rgb_array', got '{mode}'"):
        breakout().render(mode)


def test_mode_and_difficulty_are_kept_when_the_game_is_loaded_again() -> None:
    ale = emulator()
    ale.setMode(8)
    ale.setDifficulty(1)

    env = AtariPreprocessing(ale, protocol="dqn2015")
    env.seed(0)
    env.reset()

    state = ale.cloneState()
    assert (state.getCurrentMode(), state.getDifficulty()) == (8, 1)


def test_a_batch_in_processes_is_the_same_as_a_loop() -> None:
    actions = np.random.default_rng(0).integers(0, 18, (30, 2))
    singles = [breakout(noop_max=30) for _ in range(2)]
    for index, single in enumerate(singles):
        single.seed(index)

    with ParallelPyEnvironment([lambda: breakout(noop_max=30)] * 2) as env:
        env.seed([0, 1])
        found = steps(env, actions)

    for row, single in enumerate(singles):
        for batch, step in zip(found, steps(single, actions[:, row]), strict=True):
            np.testing.assert_array_equal(batch.observation[row], step.observation)
            assert batch.reward[row] == step.reward


def test_an_emulator_without_a_game_is_refused() -> None:
    empty: Any = ale_py.ALEInterface()

    with pytest.raises(
        ValueError, match=r"with a game, got one without\. Call ale\.lo"
    ):
        AtariPreprocessing(empty)


@pytest.mark.parametrize("env", [None, "Pong", object()])
def test_something_without_an_emulator_is_refused(env: Any) -> None:
    with pytest.raises(TypeError, match="expected an ALEInterface of ale_py or an env"):
        AtariPreprocessing(env)


def test_an_environment_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected an ALEInterface .*CartPole"):
        AtariPreprocessing(gymnasium.make("CartPole-v1"))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"protocol": "dqn2013"}, "one of 'machado2018', 'dqn2015', got 'dqn2013'"),
        ({"frame_skip": 0}, "frame_skip: expected at least 1 frame, got 0"),
        ({"screen_size": 0}, "screen_size: expected at least 1 pixel, got 0"),
        ({"screen_size": 161}, r"at most the screen, \(210, 160\), got \(161, 161\)"),
        ({"noop_max": -1}, "noop_max: expected at least 0, got -1"),
        ({"max_episode_frames": 0}, "max_episode_frames: expected at least 1 frame"),
        ({"repeat_action_probability": 1.5}, r"number in \[0, 1\], got 1\.5"),
    ],
)
def test_an_argument_out_of_range_is_refused(
    kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        breakout(**kwargs)


def test_a_number_of_frames_that_is_no_integer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"frame_skip: expected a number of .* 4\.0"):
        breakout(frame_skip=4.0)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="non-negative"):
        breakout().seed(-1)


def frame_of_first(env: AtariPreprocessing) -> int:
    env.end_game()
    env.reset()
    return env.get_info()["episode_frame_number"]


def test_layers_that_have_no_effect_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inside = gymnasium.make("ALE/Pong-v5", max_episode_steps=20)
    with contextlib.closing(AtariPreprocessing(inside)):
        assert "TimeLimit inside of it will have no effect" in caplog.text
    caplog.clear()
    with contextlib.closing(AtariPreprocessing(gymnasium.make("ALE/Pong-v5"))):
        assert not caplog.text
