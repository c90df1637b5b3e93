"""Every byte arrives: nests of any dtype and shape, from environments and to them."""

from __future__ import annotations

import collections
import functools
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.specs import nest
from tests import batches

NUM_ROWS = 2
NUM_STEPS = 2

DTYPES = [*"?bhilBHILefdFD", "S3", "U2", "M8[s]", "m8[ns]", ">i4", ">f8"]
SHAPES = [(), (0,), (3,), (2, 0, 3), (2, 3), (None,), (None, 2), (2, None)]


class Pair(NamedTuple):
    """A named tuple of nests."""

    left: Any
    right: Any


def specs(shapes: list[Any]) -> st.SearchStrategy[pe.ArraySpec]:
    return st.builds(pe.ArraySpec, st.sampled_from(shapes), st.sampled_from(DTYPES))


def nests(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Returns nests of few leaves in containers of every kind, also empty ones."""

    def containers(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        named = st.dictionaries(st.sampled_from(["b", "a", "ä", "c d"]), items)
        return st.one_of(
            named,
            named.map(lambda pairs: collections.OrderedDict(reversed(pairs.items()))),
            st.lists(items, max_size=3).map(tuple),
            st.lists(items, max_size=2),
            st.builds(Pair, items, items),
        )

    return st.recursive(leaves, containers, max_leaves=5)


class Problem(NamedTuple):
    """Specs, and a seed for the bytes that have to travel."""

    observation_spec: Any
    action_spec: Any
    reward_spec: Any
    seed: int


problems = st.builds(
    Problem,
    nests(specs(SHAPES)),
    nests(specs(SHAPES)),
    specs([(), (2,)]),
    st.integers(0, 2**32),
)


def random_bytes(spec: pe.ArraySpec, generator: np.random.Generator) -> Any:
    """Returns an array of any bits that its dtype may have, NaN with payloads too."""
    shape = tuple(
        int(generator.integers(0, 4)) if size is None else size for size in spec.shape
    )
    count = int(np.prod(shape)) * spec.dtype.itemsize
    raw = np.frombuffer(generator.bytes(count), np.uint8)
    if spec.dtype.kind == "b":
        raw = raw % 2
    elif spec.dtype.kind == "U":  # Code points end at 0x10ffff.
        raw = (raw.view(np.uint32) % 0x80).view(np.uint8)
    return raw.view(spec.dtype).reshape(shape)


class Script(NamedTuple):
    """What the environments of a batch return, and what they are given."""

    time_steps: list[list[ts.TimeStep]]  # [row][t]
    actions: list[list[Any]]  # [row][t]


def scripted(problem: Problem) -> Script:
    generator = np.random.default_rng(problem.seed)

    def values(spec: Any) -> Any:
        structure = nest.Structure(spec, "spec")
        return structure.pack(
            [random_bytes(leaf, generator) for leaf in structure.specs]
        )

    def time_step(t: int) -> ts.TimeStep:
        reward, observation = (
            values(problem.reward_spec),
            values(problem.observation_spec),
        )
        discount = random_bytes(pe.ArraySpec((), np.float32), generator)
        return ts.TimeStep(np.array(t > 0, np.int32), reward, discount, observation)

    return Script(
        [[time_step(t) for t in range(NUM_STEPS + 1)] for _ in range(NUM_ROWS)],
        [
            [values(problem.action_spec) for _ in range(NUM_STEPS)]
            for _ in range(NUM_ROWS)
        ],
    )


class Scripted(pe.PyEnvironment):
    """Returns the time steps that it is given, and keeps the actions."""

    def __init__(self, problem: Problem, time_steps: list[ts.TimeStep]) -> None:
        super().__init__()
        self._problem, self._time_steps = problem, time_steps
        self.received: list[Any] = []

    def observation_spec(self) -> Any:
        return self._problem.observation_spec

    def action_spec(self) -> Any:
        return self._problem.action_spec

    def reward_spec(self) -> Any:
        return self._problem.reward_spec

    def _reset(self) -> ts.TimeStep:
        return self._time_steps[0]

    def _step(self, action: Any) -> ts.TimeStep:
        self.received.append(action)
        return self._time_steps[len(self.received)]


def stacked(spec: Any, rows: list[Any]) -> Any:
    """Returns a batch as a caller would write it: a list where sizes vary."""
    structure = nest.Structure(spec, "spec")
    leaves = zip(*(structure.flatten(row) for row in rows), strict=True)
    return structure.pack(
        [
            # Without a dtype, stack swaps the bytes of what is not of this machine.
            list(leaf) if leaf_spec.is_variable else np.stack(leaf, dtype=leaf[0].dtype)
            for leaf_spec, leaf in zip(structure.specs, leaves, strict=True)
        ]
    )


# Forks of this process: they start quickest, and values travel the same in all.
WAYS: dict[str, dict[str, Any]] = {
    "no workers": {"num_workers": 0},
    "shared memory": {"context": "fork"},
    "sockets": {"context": "fork", "shared_memory": False},
}


@pytest.mark.parametrize("way", WAYS)
@hypothesis.settings(max_examples=25)
@hypothesis.given(problem=problems)
def test_every_byte_arrives(way: str, problem: Problem) -> None:
    script = scripted(problem)
    spec = ts.time_step_spec(problem.observation_spec, problem.reward_spec)
    constructors = [
        functools.partial(Scripted, problem, steps) for steps in script.time_steps
    ]

    with pe.ParallelPyEnvironment(constructors, **WAYS[way]) as batch:
        returned = [batch.reset()]
        for t in range(NUM_STEPS):
            actions = [own[t] for own in script.actions]
            returned.append(batch.step(stacked(problem.action_spec, actions)))
        received = batch.get_attr("received")

    assert batches.frozen(returned) == batches.frozen(
        [stacked(spec, [own[t] for own in script.time_steps]) for t in range(3)]
    )
    assert batches.frozen(received) == batches.frozen(script.actions)
