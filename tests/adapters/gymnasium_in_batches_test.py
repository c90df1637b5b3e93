"""Environments of Gymnasium as rows of a batch, here and in worker processes."""

from __future__ import annotations

import operator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from parallel_envs import suites
from parallel_envs.adapters import from_gymnasium, gymnasium_spaces
from parallel_envs.batched_py_environment import BatchedPyEnvironment
from parallel_envs.errors import WorkerError
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import nest


def serial(makers: Any) -> PyEnvironment:
    return BatchedPyEnvironment([make() for make in makers])


def in_processes(makers: Any) -> PyEnvironment:
    return ParallelPyEnvironment(makers, preload=["gymnasium"])


@pytest.fixture(params=[serial, in_processes])
def batch(request: pytest.FixtureRequest) -> Any:
    return request.param


class Talking(gymnasium.Env[Any, Any]):
    """Observes what it was told; sizes vary from step to step."""

    observation_space = spaces.Dict(
        said=spaces.Text(9, min_length=0), items=spaces.Sequence(spaces.Discrete(5))
    )
    action_space = observation_space
    level = 0
    render_mode = "rgb_array"

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.t = 0
        return {"said": "", "items": ()}, {"level": self.level}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        assert self.action_space.contains(action)
        self.t += 1
        return action, float(self.t), self.t == 3, False, {"t": self.t}

    def render(self) -> Any:
        return np.full((2, 2, 3), self.level, np.uint8)

    def double(self, value: int) -> int:
        return 2 * value + self.level


def make_talking() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TimeLimit(Talking(), 9)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Blackjack-v1"])
def test_rows_are_what_each_environment_gives_alone(batch: Any, name: str) -> None:
    alone = [from_gymnasium(gymnasium.make(name)) for _ in range(3)]
    for seed, env in enumerate(alone):
        env.seed(seed)
    space: Any = alone[0].wrapped_env().action_space
    space.seed(0)

    with batch([lambda: gymnasium.make(name)] * 3) as env:
        env.seed([0, 1, 2])
        steps = [env.reset()]
        singles = [[each.reset() for each in alone]]
        for _ in range(60):
            actions = [space.sample() for _ in range(3)]
            steps.append(env.step(np.stack(actions)))
            pairs = zip(alone, actions, strict=True)
            singles.append([each.step(action) for each, action in pairs])

    for step, rows in zip(steps, singles, strict=True):
        for row, single in enumerate(rows):
            assert step.step_type[row] == single.step_type
            assert step.reward[row] == single.reward
            assert step.discount[row] == single.discount
            np.testing.assert_equal(
                nest.map_structure(operator.itemgetter(row), step.observation),
                single.observation,
            )


def test_text_and_sequences_are_leaves_of_varying_size(batch: Any) -> None:
    adapted = gymnasium_spaces.adapt(Talking.action_space, "action")
    words = [{"said": "ab", "items": (1, 2, 3)}, {"said": "", "items": ()}]
    rows = [adapted.read(word) for word in words]

    with batch([make_talking] * 2) as env:
        first = env.reset()
        step = env.step({key: [row[key] for row in rows] for key in rows[0]})

    assert [leaf.shape for leaf in first.observation["said"]] == [(0,), (0,)]
    assert ["".join(map(chr, leaf)) for leaf in step.observation["said"]] == ["ab", ""]
    assert [leaf.tolist() for leaf in step.observation["items"]] == [[1, 2, 3], []]


def test_attributes_calls_infos_and_pictures_reach_the_innermost() -> None:
    with ParallelPyEnvironment([make_talking] * 2) as env:
        env.set_attr("level", [5, 6])

        env.reset()

        assert list(env.get_attr("level")) == [5, 6]
        assert list(env.call("double", 4)) == [13, 14]
        assert env.get_info() == [{"level": 5}, {"level": 6}]
        assert env.render()[:, 0, 0, 0].tolist() == [5, 6]


class Wide(Talking):
    observation_space = spaces.Dict(eye=spaces.Box(0.0, 1.0, (2,), np.float32))

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        return {"eye": np.array([0.1, 0.2])}, {}


def test_an_observation_of_another_dtype_is_refused_by_its_path(batch: Any) -> None:
    with (
        batch([Wide]) as env,
        pytest.raises(WorkerError, match=r"observation\['eye'\].*float32.*float64"),
    ):
        env.reset()


class OnlyHere(Talking):
    pass


def test_names_work_in_workers_also_those_registered_by_this_program() -> None:
    registration: Any = gymnasium
    registration.register("OnlyHere-v0", OnlyHere, max_episode_steps=2)
    makers = [suites.constructor("OnlyHere-v0")] * 2
    del gymnasium.registry["OnlyHere-v0"]
    words = {"said": [np.zeros(0, np.uint32)] * 2, "items": [np.zeros(0, np.int64)] * 2}

    with ParallelPyEnvironment(makers) as env:
        steps = [env.reset(), env.step(words), env.step(words)]

    assert [step.step_type.tolist() for step in steps] == [[0, 0], [1, 1], [2, 2]]
    assert steps[-1].discount.tolist() == [1.0, 1.0]


def test_an_environment_that_cannot_be_adapted_is_named_with_its_row() -> None:
    class Drawing(Talking):
        action_space: Any = spaces.Dict(g=spaces.Graph(spaces.Discrete(2), None))

    with pytest.raises(WorkerError, match=r"environment 1 .*action\['g'\]: expected"):
        ParallelPyEnvironment([Talking, Drawing])
