"""What drivers refuse when they are made, before the environment is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_envs.drivers import PyDriver
from parallel_envs.testing import environments


def act(time_step: object) -> Any:
    return np.int64(0)


@pytest.mark.parametrize(
    "env", [None, environments.Counting, lambda: environments.Counting()]
)
def test_something_else_than_an_environment_is_refused(env: Any) -> None:
    with pytest.raises(
        TypeError, match=r"env: expected an environment, got .*adapters"
    ):
        PyDriver(env, act, [], max_steps=1)


def test_something_else_than_a_policy_is_refused() -> None:
    policy: Any = 3

    with pytest.raises(TypeError, match=r"policy: expected .* got 3"):
        PyDriver(environments.Counting(), policy, [], max_steps=1)


@pytest.mark.parametrize(
    "name", ["observers", "transition_observers", "info_observers"]
)
def test_an_observer_that_cannot_be_called_is_refused_by_its_position(
    name: str,
) -> None:
    arguments: dict[str, Any] = {"observers": [], name: [print, 7]}

    with pytest.raises(TypeError, match=rf"^{name}\[1\]: expected .* got 7"):
        PyDriver(environments.Counting(), act, max_steps=1, **arguments)


def test_a_single_observer_without_a_list_is_refused() -> None:
    observers: Any = print

    with pytest.raises(TypeError, match=r"observers: expected a list .* into a list"):
        PyDriver(environments.Counting(), act, observers, max_steps=1)


def test_the_parts_can_be_read() -> None:
    env = environments.Counting()
    seen: list[Any] = []
    observers = [seen.append]

    driver = PyDriver(env, act, observers, [print], [repr], max_steps=1)

    assert driver.env is env
    assert driver.observers == observers
    assert driver.transition_observers == [print]
    assert driver.info_observers == [repr]
    assert driver.policy.action_spec == env.action_spec()


def test_an_observer_added_to_the_drivers_list_is_called_and_the_given_list_stays() -> (
    None
):
    observers: list[Any] = []
    seen: list[Any] = []
    driver = PyDriver(environments.Counting(), act, observers, max_steps=2)

    driver.observers.append(seen.append)
    driver.run()

    assert len(seen) == 2
    assert observers == []


def test_none_stands_for_no_observers() -> None:
    driver = PyDriver(environments.Counting(), act, None, None, None, max_steps=1)

    assert driver.observers == []
    assert driver.transition_observers == []
    assert driver.info_observers == []
