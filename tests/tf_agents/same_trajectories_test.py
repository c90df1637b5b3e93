"""Our `PyDriver` and TF-Agents' see the same, count the same, and end at the same."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tf_agents.drivers import py_driver
from tf_agents.policies import random_py_policy

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from tests.tf_agents import scenes

# None is a single environment, which is no batch.
SIZES = {"single": None, "batch of 1": 1, "batch of 4": 4}
Pair = tuple[Any, Any]


@pytest.fixture(scope="module", params=SIZES)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Yields an environment of ours, and the same as one of TF-Agents."""
    size = SIZES[request.param]
    if size is None:
        yield scenes.Wandering(), adapter.to_tf_agents(scenes.Wandering())
        return
    constructors = [functools.partial(scenes.Wandering, i) for i in range(size)]
    with (
        pe.ParallelPyEnvironment(constructors) as ours,
        adapter.ParallelPyEnvironment(constructors) as theirs,
    ):
        yield ours, theirs


class Log:
    """Writes down what observers are told, in the order they are told it."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def observer(self, kind: str) -> Callable[[Any], None]:
        return lambda told: self.entries.append((kind, plain(told)))


def plain(value: Any) -> Any:
    """Returns tuples of names, dtypes, shapes and numbers, to be compared."""
    if isinstance(value, tuple):
        return tuple(plain(part) for part in value)
    if isinstance(value, dict):
        return {key: np.asarray(part).tolist() for key, part in value.items()}
    if isinstance(value, list):  # Infos, a row each, which TF-Agents has stacked.
        return {key: [info[key] for info in value] for key in value[0]}
    array = np.asarray(value)
    return array.dtype.name, array.shape, array.tolist()


def collected(driver_of: Any, env: Any, policy: Any, log: Log, **limits: Any) -> Any:
    """Returns how two runs ended, the second of which goes on from the first."""
    env.seed(5 if not env.batched else list(range(env.batch_size)))
    driver = driver_of(
        env,
        policy,
        [log.observer("first"), log.observer("second")],
        [log.observer("transition")],
        [log.observer("info")],
        **limits,
    )
    middle = driver.run(env.reset(), ())
    end = driver.run(*middle)
    return plain(middle), plain(end)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_steps": 1},
        {"max_steps": 13},
        {"max_episodes": 1},
        {"max_episodes": 5},
        {"max_steps": 11, "max_episodes": 2},
        {"max_steps": 9, "max_episodes": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("at_boundary", [True, False])
def test_both_drivers_do_the_same(
    pair: Pair, limits: dict[str, int], at_boundary: bool
) -> None:
    ours, theirs = pair
    specs = theirs.time_step_spec(), theirs.action_spec()
    our_log, their_log = Log(), Log()
    options = {**limits, "end_episode_on_boundary": at_boundary}

    their_end = collected(
        py_driver.PyDriver,
        theirs,
        random_py_policy.RandomPyPolicy(*specs, seed=3),
        their_log,
        **options,
    )
    our_end = collected(
        pe.PyDriver,
        ours,
        adapter.from_tf_agents_policy(random_py_policy.RandomPyPolicy(*specs, seed=3)),
        our_log,
        **options,
    )

    assert our_log.entries == their_log.entries
    assert our_end == their_end
    kinds = [kind for kind, _ in our_log.entries[:4]]
    assert kinds == ["transition", "first", "second", "info"]


def test_the_rows_of_a_batch_end_at_different_steps(pair: Pair) -> None:
    ours, _ = pair
    log = Log()

    random = pe.RandomPyPolicy(ours.time_step_spec(), ours.action_spec(), seed=3)
    collected(pe.PyDriver, ours, random, log, max_steps=30)

    types = [told[0][2] for kind, told in log.entries if kind == "first"]
    if ours.batched and ours.batch_size > 1:
        assert any(len(set(row)) > 1 for row in types)
    assert 2 in np.ravel(types)


def test_our_driver_drives_an_environment_of_tf_agents_as_theirs_does(
    pair: Pair,
) -> None:
    _, theirs = pair
    specs = theirs.time_step_spec(), theirs.action_spec()
    logs = Log(), Log()

    ends = [
        collected(
            driver_of,
            theirs,
            random_py_policy.RandomPyPolicy(*specs, seed=3),
            log,
            max_steps=13,
        )
        for driver_of, log in zip((pe.PyDriver, py_driver.PyDriver), logs, strict=True)
    ]

    assert logs[0].entries == logs[1].entries
    assert ends[0] == ends[1]
