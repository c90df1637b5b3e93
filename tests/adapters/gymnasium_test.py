"""Environments of Gymnasium, beside the same environments without the adapter."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from parallel_envs import time_step as ts
from parallel_envs.adapters import from_gymnasium
from parallel_envs.adapters import gymnasium as adapter
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import array_spec, nest
from parallel_envs.testing import conformance

REGISTERED = ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1"]


class Sampling(gymnasium.Env[Any, Any]):
    """Observations are samples of a space; ends by itself after `length` steps."""

    def __init__(
        self,
        observation_space: Any = None,
        action_space: Any = None,
        length: int = 5,
        terminated: bool = True,
        truncated: bool = False,
        reward: Any = 1.0,
    ) -> None:
        self.observation_space = observation_space or spaces.Discrete(9)
        self.action_space = action_space or spaces.Discrete(2)
        self.length = length
        self.ends = terminated, truncated
        self.reward = reward
        self.seeds: list[Any] = []
        self.actions: list[Any] = []
        self.num_closed = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.actions.clear()
        return self.observation_space.sample(), {"reset": len(self.seeds)}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        assert self.action_space.contains(action)
        self.actions.append(action)
        terminated, truncated = (
            self.ends if len(self.actions) == self.length else (False, False)
        )
        observation = self.observation_space.sample()
        return observation, self.reward, terminated, truncated, {"action": action}

    def close(self) -> None:
        self.num_closed += 1


class Rewarding(Sampling):
    reward_space = spaces.Box(-1, 1, (2,), np.float64)


NESTED = spaces.Dict(
    {
        "buttons": spaces.MultiBinary(3),
        "arm": spaces.Tuple([spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)]),
        "say": spaces.Text(4),
        "items": spaces.Sequence(spaces.Box(0, 1, (2,), np.float32)),
    }
)


class TestCartPoleConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return from_gymnasium(gymnasium.make("CartPole-v1"))


class TestPendulumConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return from_gymnasium(gymnasium.make("Pendulum-v1", max_episode_steps=10))


class TestBlackjackConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return from_gymnasium(gymnasium.make("Blackjack-v1"))


class TestNestedConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        space = copy.deepcopy(NESTED)
        fixed = spaces.Dict(buttons=space["buttons"], arm=space["arm"])
        return from_gymnasium(Sampling(fixed, fixed))


class TestVectorRewardConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return from_gymnasium(Rewarding(reward=np.array([0.5, 1.0])))


def expected_steps(
    env: gymnasium.Env[Any, Any], seed: int, actions: list[Any]
) -> list[ts.TimeStep]:
    """Returns what the adapter should give, by Gymnasium's own loop."""
    observation, _ = env.reset(seed=seed)
    steps = [ts.restart(observation)]
    ended = False
    for action in actions:
        if ended:
            observation, _ = env.reset()
            steps.append(ts.restart(observation))
            ended = False
            continue
        observation, reward, terminated, truncated, _ = env.step(action)
        ended = terminated or truncated
        kind = ts.StepType.LAST if ended else ts.StepType.MID
        discount = np.float32(not terminated)
        steps.append(ts.TimeStep(kind, np.float32(reward), discount, observation))
    return steps


@pytest.mark.parametrize("name", REGISTERED)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), num_steps=st.integers(1, 250))
def test_episodes_are_those_of_gymnasium(name: str, seed: int, num_steps: int) -> None:
    env = from_gymnasium(gymnasium.make(name))
    bare = gymnasium.make(name)
    bare.action_space.seed(seed)
    actions = [bare.action_space.sample() for _ in range(num_steps)]

    env.seed(seed)
    steps = [env.reset()] + [env.step(action) for action in actions]

    for step, expected in zip(steps, expected_steps(bare, seed, actions), strict=True):
        np.testing.assert_equal(step, expected)


@given(st.lists(st.integers(0, 1), max_size=40))
@settings(max_examples=20, deadline=None)
def test_any_actions_give_the_episodes_of_gymnasium(actions: list[int]) -> None:
    env = from_gymnasium(gymnasium.make("CartPole-v1"))

    env.seed(3)
    steps = [env.reset()] + [env.step(action) for action in actions]

    bare = gymnasium.make("CartPole-v1")
    np.testing.assert_equal(steps, expected_steps(bare, 3, actions))


@pytest.mark.parametrize("seed", range(20))
def test_nested_actions_and_observations_reach_the_other_side(seed: int) -> None:
    observations, actions = copy.deepcopy(NESTED), copy.deepcopy(NESTED)
    bare = Sampling(observations, actions, length=100)
    env = from_gymnasium(bare)
    actions.seed(seed)
    sample = actions.sample()
    env.seed(seed)

    first = env.reset()
    second = env.step(adapter.gymnasium_spaces.adapt(actions, "").read(sample))

    np.testing.assert_equal(bare.actions, [sample])
    observations.seed(seed)
    for step in (first, second):
        expected = observations.sample()
        assert step.observation["buttons"].tolist() == expected["buttons"].tolist()
        assert step.observation["arm"][1] == expected["arm"][1]
        assert "".join(map(chr, step.observation["say"])) == expected["say"]
        np.testing.assert_equal(
            step.observation["items"], np.reshape(expected["items"], (-1, 2))
        )


@pytest.mark.parametrize(
    ("terminated", "truncated", "discount"),
    [(True, False, 0.0), (False, True, 0.9), (True, True, 0.0)],
)
def test_a_termination_has_discount_0_and_a_truncation_that_of_any_step(
    terminated: bool, truncated: bool, discount: float
) -> None:
    bare = Sampling(length=2, terminated=terminated, truncated=truncated)
    env = from_gymnasium(bare, discount=0.9)

    first, middle, last, again = (env.step(0) for _ in range(4))

    assert first.discount == 1.0
    assert middle.is_mid()
    assert middle.discount == np.float32(0.9)
    assert last.is_last()
    assert last.discount == np.float32(discount)
    assert again.is_first()


def test_the_time_limit_of_gymnasium_is_a_truncation() -> None:
    env = from_gymnasium(gymnasium.make("Pendulum-v1", max_episode_steps=3))

    steps = [env.step(np.zeros(1, np.float32)) for _ in range(5)]

    assert [int(step.step_type) for step in steps] == [0, 1, 1, 2, 0]
    assert steps[3].discount == 1.0


@pytest.mark.parametrize(
    "reward", [1, 1.0, np.float64(1), np.float32(1), True, np.array(1.0)]
)
def test_a_reward_is_a_float32_scalar(reward: Any) -> None:
    env = from_gymnasium(Sampling(reward=reward))
    env.reset()

    step = env.step(0)

    assert step.reward.dtype == np.float32
    assert step.reward.shape == ()
    assert step.reward == 1.0


def test_a_reward_space_gives_the_shape_of_rewards_through_wrappers() -> None:
    bare = Rewarding(reward=np.array([0.5, 1.0]), length=2)
    env = from_gymnasium(gymnasium.wrappers.TimeLimit(bare, 9))

    steps = [env.step(0) for _ in range(3)]

    assert env.reward_spec() == array_spec.ArraySpec((2,), np.float32)
    assert [step.reward.tolist() for step in steps] == [[0, 0], [0.5, 1], [0.5, 1]]
    assert {step.reward.dtype for step in steps} == {np.dtype(np.float32)}
    assert {step.discount.shape for step in steps} == {()}
    assert steps[2].discount == 0.0


@pytest.mark.parametrize(
    ("kind", "reward", "expected", "found"),
    [
        (Sampling, np.zeros(3), r"\(\)", r"\(3,\)"),
        (Rewarding, np.zeros(3), r"\(2,\)", r"\(3,\)"),
        (Rewarding, 0.0, r"\(2,\)", r"\(\)"),
    ],
)
def test_a_reward_of_another_shape_is_refused(
    kind: Any, reward: Any, expected: str, found: str
) -> None:
    env = from_gymnasium(kind(reward=reward))
    env.reset()

    with pytest.raises(
        ValueError, match=f"reward: expected shape {expected}, got .* of shape {found}"
    ):
        env.step(0)


@pytest.mark.parametrize("returned", [None, 5, (0, 1.0, False, {})])
def test_what_step_and_reset_must_return_is_said(returned: Any) -> None:
    bare: Any = Sampling()
    env = from_gymnasium(bare)
    env.reset()

    def respond(*_: Any, **__: Any) -> Any:
        return returned

    bare.step = bare.reset = respond

    with pytest.raises(TypeError) as step_error:
        env.step(0)
    with pytest.raises(TypeError) as reset_error:
        env.reset()

    assert str(step_error.value) == (
        "step: expected the environment to return (observation, reward, terminated, "
        f"truncated, info), got {returned!r}."
    )
    assert str(reset_error.value) == (
        "reset: expected the environment to return (observation, info), got "
        f"{returned!r}."
    )


@pytest.mark.parametrize("reward", ["1.5", b"1.5", 1.5j, {}, None])
def test_a_reward_that_is_no_number_is_refused(reward: Any) -> None:
    env = from_gymnasium(Sampling(reward=reward))
    env.reset()

    with pytest.raises(
        ValueError, match=f"reward: expected a number, got {re.escape(repr(reward))}"
    ):
        env.step(0)


def test_a_reward_that_is_nan_is_refused() -> None:
    env = from_gymnasium(Sampling(reward=np.nan))
    env.reset()

    with pytest.raises(ValueError, match="got nan, which is or has nan"):
        env.step(0)


def test_a_seed_is_used_by_the_next_reset_only() -> None:
    bare = Sampling()
    env = from_gymnasium(bare)

    seed: Any = np.uint32(5)

    assert env.seed(seed) == 5
    env.reset()
    env.reset()

    assert bare.seeds == [5, None]
    assert type(bare.seeds[0]) is int


def test_without_a_seed_the_generators_go_on() -> None:
    bare = Sampling()
    env = from_gymnasium(bare)

    env.seed(5)
    env.seed(None)
    env.reset()

    assert bare.seeds == [None]


def test_infos_are_those_of_the_last_step() -> None:
    env = from_gymnasium(Sampling(length=2))
    infos: list[Any] = [env.get_info()]

    for action in (0, 1, 0, 0):
        env.step(action)
        infos.append(env.get_info())

    assert infos == [{}, {"reset": 1}, {"action": 1}, {"action": 0}, {"reset": 2}]


class Drawn(Sampling):
    def __init__(self, render_mode: str) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.full((4, 6, 3), 7, np.uint8)


def test_render_returns_the_picture_of_an_environment_made_for_it() -> None:
    env = from_gymnasium(gymnasium.wrappers.TimeLimit(Drawn("rgb_array"), 9))

    picture = env.render()

    assert picture.dtype == np.uint8
    assert picture.shape == (4, 6, 3)


def test_render_says_what_to_pass_to_make() -> None:
    env = from_gymnasium(gymnasium.make("CartPole-v1"))

    with pytest.raises(NotImplementedError, match="render_mode='rgb_array' to gymnas"):
        env.render()


def test_other_render_modes_are_refused() -> None:
    env = from_gymnasium(Drawn("rgb_array"))

    with pytest.raises(NotImplementedError, match="got mode 'human'"):
        env.render("human")


def test_an_environment_made_for_a_window_has_no_picture() -> None:
    env = from_gymnasium(Drawn("human"))

    with pytest.raises(NotImplementedError, match="one made with render_mode='human'"):
        env.render()


@pytest.mark.parametrize("call", ["get_state", "set_state"])
def test_there_is_no_state_to_read_or_write(call: str) -> None:
    env = from_gymnasium(Sampling())

    with pytest.raises(NotImplementedError, match=call):
        getattr(env, call)(*([None] if call == "set_state" else []))


def test_close_closes_the_environment() -> None:
    bare = Sampling()

    with from_gymnasium(bare):
        pass

    assert bare.num_closed == 1


def test_attributes_are_found_through_wrappers() -> None:
    bare = Sampling(length=7)
    env = from_gymnasium(gymnasium.wrappers.TimeLimit(bare, 9))

    assert env.length == 7
    assert env.unwrapped is bare
    assert env.wrapped_env().unwrapped is bare
    with pytest.raises(AttributeError, match="x"):
        _ = env.x
    with pytest.raises(AttributeError, match="has no attribute '_secret'"):
        _ = env._secret


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_an_adapted_environment_can_be_copied(duplicate: Any) -> None:
    env = duplicate(from_gymnasium(gymnasium.make("CartPole-v1").unwrapped))

    assert env.reset().is_first()


def test_specs_of_an_adapted_environment_can_be_pickled() -> None:
    spec = from_gymnasium(gymnasium.make("CartPole-v1")).time_step_spec()

    assert pickle.loads(pickle.dumps(spec)) == spec


def test_an_unknown_space_is_named_when_the_environment_is_adapted() -> None:
    bare = Sampling(action_space=spaces.Dict(g=spaces.Graph(spaces.Discrete(2), None)))

    with pytest.raises(TypeError, match=r"^action\['g'\]: expected one of"):
        from_gymnasium(bare)


def test_an_observation_of_another_dtype_is_left_for_the_checks() -> None:
    bare = Sampling(spaces.Box(0, 1, (2,), np.float32))
    env = from_gymnasium(bare)
    bare.observation_space = spaces.Box(0, 1, (2,), np.float64, seed=1)

    assert nest.flatten(env.reset().observation)[0].dtype == np.float64


def test_vector_environments_are_refused() -> None:
    vector = gymnasium.vector.SyncVectorEnv([Sampling])

    with pytest.raises(TypeError, match="expected a single environment of Gymnasium"):
        from_gymnasium(vector)  # type: ignore[arg-type]
    vector.close()


def test_environments_that_reset_themselves_are_refused() -> None:
    wrapper: Any = getattr(gymnasium.wrappers, "Autoreset", None)
    wrapper = wrapper or gymnasium.wrappers.AutoResetWrapper

    with pytest.raises(ValueError, match=r"with the wrapper Auto\w+. Take it off"):
        from_gymnasium(gymnasium.wrappers.TimeLimit(wrapper(Sampling()), 9))


def test_what_is_no_environment_of_gymnasium_is_refused() -> None:
    with pytest.raises(TypeError, match="expected an environment of Gymnasium, got 3"):
        from_gymnasium(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("discount", [-0.1, 1.1, np.nan])
def test_a_discount_out_of_range_is_refused(discount: float) -> None:
    with pytest.raises(ValueError, match=r"discount: expected a number in \[0, 1\]"):
        from_gymnasium(Sampling(), discount)
