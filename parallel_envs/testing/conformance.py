"""The contract of an environment, as tests to inherit.

    class TestMyEnvironment(conformance.EnvironmentConformance):
        def make_environment(self):
            return MyEnvironment()

pytest runs this as it stands, and unittest if `unittest.TestCase` is a base class too.
The idea is that of dm_env's `test_utils.EnvironmentTestMixin`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Iterator

import numpy as np

from parallel_envs import contract, py_policy, random_py_policy
from parallel_envs import time_step as ts
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import array_spec, nest, sampling

Nest = nest.Nest


class EnvironmentConformance:
    """Tests that hold for every environment, single or batched.

    A subclass overrides `make_environment`, and what else does not suit.

    Attributes:
        ends_episodes: Whether an episode ends by itself within `max_steps`. Set it to
            False for an environment whose episodes need not end.
        max_steps: How long one test may step the environment.
    """

    ends_episodes: bool = True
    max_steps: int = 1000

    def make_environment(self) -> PyEnvironment:
        """Returns a new environment, which the test closes."""
        raise NotImplementedError("Override make_environment() in the test class.")

    def make_policy(self, env: PyEnvironment) -> py_policy.PyPolicy:
        """Returns what chooses the actions: random ones, the same in each run."""
        return random_py_policy.RandomPyPolicy(
            env.time_step_spec(), env.action_spec(), seed=0
        )

    def test_specs_are_specs_and_agree(self) -> None:
        with self.make_environment() as env, _as_failure():
            contract.check_specs(env)

    def test_specs_stay_the_same(self) -> None:
        with self.make_environment() as env:
            time_step_spec, action_spec = env.time_step_spec(), env.action_spec()
            for _ in self._steps(env, 10):
                pass

            assert env.time_step_spec() == time_step_spec, "time_step_spec() changed."
            assert env.action_spec() == action_spec, "action_spec() changed."

    def test_there_is_no_current_time_step_before_the_first_reset(self) -> None:
        with self.make_environment() as env:
            try:
                env.current_time_step()
            except ValueError:
                return
        raise AssertionError(
            "current_time_step() before the first reset: expected a ValueError."
        )

    def test_step_before_the_first_reset_resets(self) -> None:
        with self.make_environment() as env:
            policy = self.make_policy(env)
            action = policy.action(_like_first_step(env)).action

            time_step = env.step(action)

            with _as_failure():
                contract.TimeStepCheck(env)(time_step, None, "the first step()")

    def test_time_steps_fit_their_specs_and_make_episodes(self) -> None:
        with self.make_environment() as env:
            for time_step in self._steps(env, self.max_steps):
                if np.all(time_step.is_last()):
                    break

    def test_an_episode_follows_the_end_of_another(self) -> None:
        if not self.ends_episodes:
            return
        with self.make_environment() as env:
            ended = np.zeros(_outer_dims(env), np.bool_)
            for time_step in self._steps(env, self.max_steps):
                # `_steps` has checked that FIRST follows where the last one was LAST.
                if np.all(ended & ~np.asarray(time_step.is_last())):
                    return
                ended |= time_step.is_last()
        raise AssertionError(
            f"No episode ended within {self.max_steps} steps. Raise `max_steps`, or "
            "set `ends_episodes` to False if episodes need not end."
        )

    def test_reset_within_an_episode_starts_another(self) -> None:
        with self.make_environment() as env:
            for _ in self._steps(env, 1):
                pass

            time_step = env.reset()

            with _as_failure():
                contract.TimeStepCheck(env)(time_step, None, "the second reset()")

    def test_steps_stay_as_they_were_returned(self) -> None:
        with self.make_environment() as env:
            kept = [
                (time_step, copy.deepcopy(time_step))
                for time_step in self._steps(env, 10)
            ]

            for number, (time_step, as_returned) in enumerate(kept):
                _assert_equal(
                    time_step,
                    as_returned,
                    f"Time step {number} changed after it was returned. Return new "
                    "arrays each time",
                )

    def test_actions_stay_as_they_were_given(self) -> None:
        with self.make_environment() as env:
            policy = self.make_policy(env)
            time_step = env.reset()
            for _ in range(10):
                action = policy.action(time_step).action
                as_given = copy.deepcopy(action)

                time_step = env.step(action)

                _assert_equal(
                    action, as_given, "step() wrote into its action. Copy it first"
                )

    def test_the_same_seed_gives_the_same_steps(self) -> None:
        with self.make_environment() as one, self.make_environment() as other:
            for env in (one, other):
                try:
                    env.seed(_seeds(env))
                except NotImplementedError:
                    return  # An environment need not have a seed.

            pairs = zip(self._steps(one, 30), self._steps(other, 30), strict=True)

            for number, (time_step, again) in enumerate(pairs):
                _assert_equal(
                    again,
                    time_step,
                    f"Time step {number} differs between two environments with the "
                    "same seed",
                )

    def test_render_returns_a_picture(self) -> None:
        with self.make_environment() as env:
            env.reset()
            try:
                picture = np.asarray(env.render("rgb_array"))
            except NotImplementedError:
                return  # An environment need not render.

            spec = array_spec.ArraySpec((*_outer_dims(env), None, None, 3), np.uint8)
            with _as_failure():
                spec.validate(picture, 'render("rgb_array")')

    def test_close_may_be_called_twice(self) -> None:
        env = self.make_environment()
        env.reset()

        env.close()
        env.close()

    def _steps(self, env: PyEnvironment, num_steps: int) -> Iterator[ts.TimeStep]:
        """Resets, steps, and checks and yields all that is returned."""
        check = contract.TimeStepCheck(env)
        policy = self.make_policy(env)
        time_step = env.reset()
        with _as_failure():
            check(time_step, None, "reset()")
        yield time_step
        for number in range(1, num_steps + 1):
            previous = time_step
            time_step = env.step(policy.action(previous).action)
            with _as_failure():
                check(time_step, previous, f"step() number {number}")
            yield time_step


@contextlib.contextmanager
def _as_failure() -> Generator[None, None, None]:
    """Makes a broken contract a failed test, apart from errors of the environment."""
    try:
        yield
    except ValueError as error:
        raise AssertionError(str(error)) from None


def _outer_dims(env: PyEnvironment) -> tuple[int, ...]:
    return () if env.batch_size is None else (env.batch_size,)


def _like_first_step(env: PyEnvironment) -> ts.TimeStep:
    """Returns what a policy needs to choose an action before there is a time step."""
    observation = sampling.zeros(env.observation_spec(), _outer_dims(env))
    return ts.restart(observation, env.batch_size)


def _seeds(env: PyEnvironment) -> int | list[int]:
    if env.batch_size is None:
        return 7
    return list(range(env.batch_size))


def _assert_equal(found: Nest, expected: Nest, message: str) -> None:
    structure = nest.Structure(expected, "")
    for path, leaf, other in zip(
        structure.paths, structure.flatten(found), structure.specs, strict=True
    ):
        assert contract.is_same(leaf, other), (
            f"{message}: {path.lstrip('.')} was {other!r} and is {leaf!r}."
        )
