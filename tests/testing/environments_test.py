from __future__ import annotations

import multiprocessing
import pickle
import signal
from typing import Any

import numpy as np
import pytest

from parallel_envs.specs import checks
from parallel_envs.testing import environments

ACTION = np.int64(4)


def step_once(make: Any) -> None:
    env = make()
    env.reset()
    env.step(ACTION)


def exit_code_of(make: Any) -> int | None:
    """Returns how a process of its own ends that steps the environment once."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=step_once, args=(make,))
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.parametrize(("end", "discount"), [("termination", 0), ("truncation", 1)])
def test_counting_tells_index_episode_and_time(end: Any, discount: float) -> None:
    env = environments.Counting(index=7, length=2, end=end)

    steps = [env.reset(), *(env.step(ACTION) for _ in range(3))]

    assert [step.observation.tolist() for step in steps] == [
        [7, 0, 0],
        [7, 0, 1],
        [7, 0, 2],
        [7, 1, 0],
    ]
    assert [float(step.reward) for step in steps] == [0, 1, 2, 0]
    assert [float(step.discount) for step in steps] == [1, 1, discount, 1]
    assert [int(step.step_type) for step in steps] == [0, 1, 2, 0]
    assert env.last_action == ACTION
    assert env.get_info() == {"episode": 1, "t": 0}


def test_counting_comes_back_to_a_state() -> None:
    env = environments.Counting()
    env.reset()
    state = env.get_state()
    after = env.step(ACTION)
    env.reset()

    env.set_state(state)

    assert env.current_time_step().observation.tolist() == [0, 0, 0]
    assert env.step(ACTION).observation.tolist() == after.observation.tolist()


def test_drawing_depends_on_its_seed_and_goes_on_at_each_reset() -> None:
    one, two, other = (environments.Drawing() for _ in range(3))

    answers = [one.seed(1), two.seed(1), other.seed(2)]
    draws = [[env.reset().observation.tolist() for _ in range(3)] for env in (one, two)]

    assert answers == [1, 1, 2]
    assert draws[0] == draws[1]
    assert len({tuple(draw) for draw in draws[0]}) == 3
    assert other.reset().observation.tolist() not in draws[0]


def test_image_shows_the_time_and_renders_nothing_else() -> None:
    env = environments.Image(height=2, width=3)
    env.reset()

    observation = env.step(ACTION).observation

    assert observation.shape == (2, 3, 3)
    assert (observation == 1).all()
    assert np.array_equal(env.render(), observation)
    with pytest.raises(
        NotImplementedError, match="expected \"rgb_array\", got 'human'"
    ):
        env.render("human")


def test_observations_of_variable_size_grow_with_time() -> None:
    env = environments.VariableSize()

    sizes = [env.reset().observation.size, env.step(ACTION).observation.size]

    assert sizes == [0, 1]


def test_nested_observations_fit_their_spec() -> None:
    env = environments.Nested()

    assert checks.check_arrays_nest(env.reset().observation, env.observation_spec())


def test_constructor_raises() -> None:
    with pytest.raises(RuntimeError, match="index 3 cannot be made"):
        environments.RaisingInConstructor(3)


def test_reset_raises_at_the_episode_asked_for() -> None:
    env = environments.RaisingInReset(at=1)
    env.reset()

    with pytest.raises(ValueError, match="bad episode 1"):
        env.reset()


@pytest.mark.parametrize("at", [1, 2])
def test_step_raises_at_the_time_asked_for(at: int) -> None:
    env = environments.RaisingInStep(at=at)
    env.reset()
    for _ in range(at - 1):
        env.step(ACTION)

    with pytest.raises(ValueError, match=f"bad state {at - 1}"):
        env.step(ACTION)


def test_step_raises_system_exit() -> None:
    with pytest.raises(SystemExit, match="3"):
        step_once(environments.RaisingSystemExit)


@pytest.mark.parametrize(
    ("make", "exit_code"),
    [(environments.Exiting, 3), (environments.Dying, -signal.SIGKILL)],
)
def test_step_ends_the_process(make: Any, exit_code: int) -> None:
    assert exit_code_of(make) == exit_code


def hang(is_stepping: Any) -> None:
    env = environments.Hanging()
    env.reset()
    is_stepping.set()
    env.step(ACTION)


def test_step_of_hanging_does_not_come_back() -> None:
    context = multiprocessing.get_context("spawn")
    is_stepping = context.Event()
    process = context.Process(target=hang, args=(is_stepping,))
    process.start()
    assert is_stepping.wait(60)

    process.join(0.2)  # Waiting for longer would show no more.

    assert process.exitcode is None
    process.kill()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


def test_environments_pickle() -> None:
    env = environments.WritingIntoOldSteps()
    env.reset()

    again = pickle.loads(pickle.dumps(env))

    assert again.step(ACTION).observation.tolist() == [0, 0, 1]
