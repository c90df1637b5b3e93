"""Seeds of environments, of their replacements, and of what is global."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import seeding
from parallel_envs import time_step as ts
from parallel_envs.batch.lineage import Lineage
from parallel_envs.testing import environments
from parallel_envs.testing.random_py_environment import RandomPyEnvironment


class DrawingGlobally(environments.Counting):
    """The observation is drawn from global generators when the environment is made."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._drawn = [index, random.getrandbits(60), int(np.random.randint(2**62))]

    def _observation(self) -> Any:
        return np.array(self._drawn, np.int64)


WAYS: dict[str, dict[str, Any]] = {
    "a worker each": {},
    "one worker": {"num_workers": 1},
    "two workers": {"num_workers": 2},
    "sockets": {"shared_memory": False},
    "blocking": {"blocking": True},
    "all at once": {"start_serially": False},
    "spawn": {"context": "spawn"},
    "fork": {"context": "fork"},
}


def draws(make: Any, **options: Any) -> list[list[int]]:
    """Returns what three environments drew for their first two episodes."""
    with pe.ParallelPyEnvironment([make] * 3, **options) as env:
        steps = [env.reset(), *(env.step(np.zeros(3, np.int64)) for _ in range(4))]
    return np.concatenate([steps[0].observation, steps[4].observation]).tolist()


def test_a_base_seed_gives_the_same_everywhere_and_differs_by_row() -> None:
    ways = {**WAYS, "no workers": {"num_workers": 0}}

    found = {way: draws(environments.Drawing, base_seed=7, **ways[way]) for way in ways}

    (rows,) = {tuple(map(tuple, each)) for each in found.values()}
    assert len(set(rows)) == 6


def test_a_base_seed_is_what_seed_would_spread() -> None:
    with pe.ParallelPyEnvironment([environments.Drawing] * 3) as env:
        env.seed(7)
        seeded = env.reset().observation.tolist()

    assert draws(environments.Drawing, base_seed=7)[:3] == seeded
    assert draws(environments.Drawing, base_seed=8)[:3] != seeded


def test_a_base_seed_seeds_the_global_generators_before_each_constructor() -> None:
    found = [draws(DrawingGlobally, base_seed=7, **way) for way in WAYS.values()]
    other = draws(DrawingGlobally, base_seed=8)

    assert all(each == found[0] for each in found)
    assert len({tuple(row[1:]) for row in found[0]}) == 3
    assert other != found[0]


def test_without_a_base_seed_global_generators_are_never_alike() -> None:
    found = [
        tuple(row[1:])
        for way in (*WAYS.values(), *WAYS.values())
        for row in draws(DrawingGlobally, **way)[:3]
    ]

    assert len(set(found)) == len(found)


def test_the_global_generators_of_this_process_are_left_alone() -> None:
    random.seed(1)
    np.random.seed(1)
    expected = random.Random(1).random(), np.random.RandomState(1).random_sample()

    with pe.ParallelPyEnvironment(
        [environments.RaisingInStep], num_workers=0, base_seed=7, max_restarts=3
    ) as env:
        env.reset()
        for _ in range(3):
            env.step(np.zeros(1, np.int64))

    assert (random.random(), np.random.random_sample()) == expected


def test_an_environment_that_cannot_be_seeded_is_no_error() -> None:
    makers = [environments.Counting, environments.Drawing, environments.Nested]

    with pe.ParallelPyEnvironment(makers[:1], base_seed=3) as env:
        assert env.reset().step_type.tolist() == [0]
        with pytest.raises(NotImplementedError):
            env.seed(4)


def test_a_seed_that_is_refused_is_an_error_at_the_start() -> None:
    class Refusing(environments.Drawing):
        def seed(self, seed: Any) -> int:
            raise ValueError("this is an odd seed")

    with pytest.raises(pe.WorkerError, match=r"environment 1 .*odd seed.* during seed"):
        pe.ParallelPyEnvironment([environments.Drawing, Refusing], base_seed=3)


def test_rows_of_batched_environments_have_seeds_of_their_own() -> None:
    class Batched(RandomPyEnvironment):
        given: list[int]

        def seed(self, seed: Any) -> Any:
            self.given = seed
            return seed

    def make() -> Batched:
        return Batched(pe.ArraySpec((), "f4"), batch_size=2, seed=0)

    with pe.ParallelPyEnvironment([make, make], base_seed=5) as env:
        given = env.get_attr("given")

    assert [*given[0], *given[1]] == pe.spread_seeds(5, 4)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (-1, ValueError, "expected at least 0, got -1"),
        (1.5, TypeError, r"expected an int of at least 0, got 1\.5"),
        ("7", TypeError, "expected an int of at least 0, got '7'"),
        (True, TypeError, "expected an int of at least 0, got True"),
    ],
)
@pytest.mark.parametrize("name", ["base_seed", "max_restarts"])
def test_what_is_no_count_is_refused(
    name: str, value: Any, kind: type[Exception], message: str
) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(kind, match=f"{name}: {message}"):
        pe.ParallelPyEnvironment([environments.Counting], **options)


def test_later_lives_are_derived_from_the_seeds_of_the_rows() -> None:
    lineage = Lineage(None, 3, seeds_globals=True)
    lineage.note_seed(0, 5)
    lineage.note_seed(1, [6, 7])
    lineage.note_seed(2, "not a number")

    for index in (0, 1, 1, 2):
        lineage.end_life(index)
    births = lineage.births()

    assert births[0].seeds == (seeding.derive_seed(5, 1),)
    assert births[1].seeds == ([seeding.derive_seed(s, 2) for s in (6, 7)],)
    assert births[2].seeds == ()
    assert [birth.global_seed for birth in births] == [None] * 3


def test_no_two_lives_are_seeded_alike() -> None:
    lineage = Lineage(3, 2, seeds_globals=True)
    seeds: list[int | None] = []

    for _ in range(50):
        seeds += [birth.global_seed for birth in lineage.births()]
        for index in range(2):
            lineage.end_life(index)

    assert len(set(seeds)) == 100


def test_environments_that_draw_from_globals_stay_apart_after_a_failure() -> None:
    class Failing(DrawingGlobally):
        def _step(self, action: Any) -> ts.TimeStep:
            raise ValueError("always")

    def run(**options: Any) -> list[list[int]]:
        makers = [functools.partial(Failing, index) for index in range(2)]
        with pe.ParallelPyEnvironment(
            makers, base_seed=1, max_restarts=9, **options
        ) as env:
            steps = [env.reset(), *(env.step(np.zeros(2, np.int64)) for _ in range(6))]
        return [row for step in steps[::2] for row in step.observation.tolist()]

    assert run() == run(num_workers=1)
    assert len(set(map(tuple, run()))) == 8
