"""The compiled loop does what the one in Python does, to the bit."""

from __future__ import annotations

import contextlib
import functools
import gc
import pickle
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.batch import row_loop
from parallel_envs.batch.environment_rows import (
    Birth,
    Command,
    Description,
    EnvironmentRows,
)
from parallel_envs.batch.row_writer import TimeStepStructure
from parallel_envs.process import shared_arrays, worker
from parallel_envs.process.control_block import ControlBlock

compiled_module: Any = pytest.importorskip(
    "parallel_envs.batch._row_loop", reason="the compiled loop is not built here"
)
Step = Callable[[], Any]
ROWS = 3
PLAIN = pe.ArraySpec((2, 3), np.float32)
NESTED = {"b": pe.ArraySpec((), np.int64), "a": pe.ArraySpec((2,), np.uint8)}


class Scripted(pe.PyEnvironment):
    """Returns what it is told to, made anew, or raises it."""

    def __init__(self, spec: Any, script: Sequence[Step]) -> None:
        super().__init__(handle_auto_reset=False)
        self._spec, self._script = spec, iter(script)
        self.actions: list[Any] = []

    def observation_spec(self) -> Any:
        return self._spec

    def action_spec(self) -> Any:
        return pe.BoundedArraySpec((), np.int64, 0, 9)

    def _reset(self) -> ts.TimeStep:
        return ts.restart(pe.specs.zeros(self._spec))

    def _step(self, action: Any) -> Any:
        self.actions.append(action)
        return next(self._script)()


def _itself(env: Scripted) -> Scripted:
    return env


@pytest.fixture(params=["compiled", "python"])
def way(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(row_loop, "_row_loop", None)
    return request.param


class Batch:
    """Environments with rows of their own, in this process."""

    def __init__(
        self, spec: Any, scripts: Sequence[Sequence[Step]], **options: Any
    ) -> None:
        self.envs = [Scripted(spec, script) for script in scripts]
        self.rows = EnvironmentRows(
            [functools.partial(_itself, env) for env in self.envs],
            validate=True,
            **options,
        )
        self.rows.renew([Birth()] * len(scripts))
        structure = TimeStepStructure(Description.of(self.envs[0]).time_step_spec)
        self.actions = np.zeros(len(scripts), np.int64)
        self.outputs: list[npt.NDArray[Any]] = [
            np.zeros((len(scripts), *spec.shape), spec.dtype)
            for _ in range(2)
            for spec in structure.specs
        ]
        self.rows.attach([self.actions], self.outputs)
        self.rows.round(Command.RESET.into(0))

    def step(self, buffer: int = 0) -> list[tuple[tuple[int, ...], str, str]]:
        """Returns the failures: rows, what was done, and what was raised."""
        report = self.rows.round(Command.STEP.into(buffer))
        return [
            (each.rows, each.doing, repr(each.error))
            for each in (() if report is None else report.failures)
        ]


def both(spec: Any, scripts: Sequence[Sequence[Step]]) -> tuple[Batch, Batch]:
    compiled = Batch(spec, scripts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_loop, "_row_loop", None)
        plain = Batch(spec, scripts)
    assert compiled.rows.is_compiled
    assert not plain.rows.is_compiled
    return compiled, plain


def written(batch: Batch, failures: Sequence[Any]) -> list[bytes]:
    """Returns what stands in the rows, but for those that failed half-way."""
    failed = [row for rows, _, _ in failures for row in rows]
    return [np.delete(array, failed, axis=0).tobytes() for array in batch.outputs]


def foreign(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns an equal array whose dtype is an object of its own."""
    return pickle.loads(pickle.dumps(value))


OBSERVATIONS: list[Step] = [
    lambda: np.arange(6, dtype=np.float32).reshape(2, 3),
    lambda: foreign(np.full((2, 3), 2, np.float32)),
    lambda: np.arange(6, dtype=np.float32).reshape(3, 2).T,
    lambda: np.ones((2, 3), ">f4"),
    lambda: np.ones((2, 6), np.float32)[:, ::2],
    lambda: [[1.0, 2.0, 3.0]] * 2,
    lambda: np.ma.masked_array(np.ones((2, 3), np.float32)),
    lambda: np.ones((3, 2), np.float32),
    lambda: np.ones((1, 2, 3), np.float32),
    lambda: np.ones((2, 3), np.float64),
    lambda: np.ones((2, 3), np.int32),
    lambda: {"a": np.ones((2, 3), np.float32)},
    lambda: None,
]
REWARDS: list[Any] = [
    1.5,
    2,
    np.float32(3),
    np.float64(4),
    np.array(5, np.float32),
    np.ones(1),
    "x",
]


def _stepping(make: Callable[..., Any], *rest: Any) -> Callable[[Step], Step]:
    return lambda observation: lambda: make(observation(), *rest)


def _raw(reward: Any) -> Callable[[Step], Step]:
    return lambda observation: (
        lambda: ts.TimeStep(1, reward, np.float32(0.5), observation())
    )


def _raise(error: BaseException) -> Any:
    raise error


MAKERS: list[Callable[[Step], Step]] = [
    _stepping(ts.transition, 1.0),
    _stepping(ts.termination, 0.5),
    _stepping(ts.truncation, -0.5, 0.25),
    *map(_raw, REWARDS),
    lambda observation: lambda: (1, 0.0, 1.0, observation()),
    lambda _: lambda: None,
    lambda _: lambda: 1 / 0,
    lambda _: lambda: _raise(SystemExit(3)),
]
STEPS = st.tuples(st.sampled_from(MAKERS), st.sampled_from(OBSERVATIONS)).map(
    lambda drawn: drawn[0](drawn[1])
)


@hypothesis.settings(deadline=None)
@hypothesis.given(
    st.lists(st.lists(STEPS, min_size=4, max_size=4), min_size=1, max_size=4)
)
def test_both_write_the_same_and_fail_alike(scripts: list[list[Step]]) -> None:
    gone: set[Any] = set()
    compiled, plain = both(PLAIN, scripts)

    for number in range(4):
        failures = compiled.step(number % 2)

        assert failures == plain.step(number % 2)
        gone.update(failures)
        assert written(compiled, list(gone)) == written(plain, list(gone))
    assert [e.actions for e in compiled.envs] == [e.actions for e in plain.envs]


@pytest.mark.parametrize(
    "observation",
    [
        {"a": np.ones(2, np.uint8), "b": np.int64(-3)},
        {"b": np.array(4), "a": np.ones(2, np.uint8)},
        {"a": [1, 2], "b": 5},
        {"a": np.ones(2, np.uint8)},
        {"a": np.ones(2, np.uint8), "c": np.int64(1)},
        {"a": np.ones(2, np.uint8), "b": np.int64(1), "c": 1},
        {"a": np.ones(2, np.uint8), "b": np.ones(2, np.int64)},
    ],
)
def test_dicts_are_written_alike(observation: Any) -> None:
    script = [lambda: ts.transition(observation, 1.0)]
    compiled, plain = both(NESTED, [script] * ROWS)

    failures = compiled.step()

    assert failures == plain.step()
    assert written(compiled, failures) == written(plain, failures)


FIELDS = np.dtype([("a", "i4"), ("b", "f4")])
TURNED = np.dtype([("a", "f4"), ("b", "i4")])


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("M8[ns]", np.datetime64(5, "s")),
        ("m8[ns]", np.timedelta64(5, "s")),
        (">f4", np.float32(2)),
        (">i8", np.int64(2)),
        (">U3", np.str_("abc")),
        (FIELDS, np.array((1, 2), TURNED)[()]),
        (FIELDS, np.array((1, 2), FIELDS.newbyteorder())[()]),
        ("U3", np.str_("abc")),
        ("S3", np.bytes_(b"ab")),
        ("c8", np.complex64(1 + 2j)),
        ("?", np.bool_(True)),
        (np.longlong, np.longlong(3)),
    ],
)
def test_scalars_are_written_alike_whose_class_does_not_tell_their_bytes(
    dtype: Any, value: Any
) -> None:
    step = functools.partial(ts.transition, value, 1.0)
    compiled, plain = both(pe.ArraySpec((), dtype), [[step]] * ROWS)

    assert compiled.step() == plain.step() == []

    assert written(compiled, []) == written(plain, [])
    np.testing.assert_array_equal(
        compiled.outputs[3], np.array([value] * ROWS).astype(dtype)
    )


def test_an_interrupt_goes_to_the_caller(way: str) -> None:
    def interrupt() -> Any:
        raise KeyboardInterrupt("now")

    good: list[Step] = [lambda: ts.transition(np.ones((2, 3), np.float32), 1.0)]
    batch = Batch(PLAIN, [good, [interrupt], good])

    with pytest.raises(KeyboardInterrupt, match="now"):
        batch.step()

    assert [len(env.actions) for env in batch.envs] == [1, 1, 0]


def test_who_is_at_it_and_since_when_is_noted(way: str) -> None:
    with contextlib.closing(shared_arrays.MemoryFile.create()) as memory:
        memory.reserve(ControlBlock.size(1))
        control = ControlBlock(memory, 1)
        seen: list[tuple[int, float]] = []

        def look() -> Any:
            seen.append((control.part_of(0), control.began_at(0)))
            return ts.transition(np.ones((2, 3), np.float32), 1.0)

        progress = control.progress(0)
        batch = Batch(PLAIN, [[look]] * ROWS, progress=progress, is_timed=True)
        batch.step()

        parts, times = zip(*seen, strict=True)
        assert parts == (0, 1, 2)
        assert 0.0 < times[0] < times[1] < times[2]


def test_an_exception_has_its_traceback(way: str) -> None:
    batch = Batch(PLAIN, [[lambda: 1 / 0]])

    report = batch.rows.round(Command.STEP)

    assert report is not None
    assert "return next(self._script)()" in report.failures[0].told.traceback


def test_nothing_is_leaked(way: str) -> None:
    observation = np.ones((2, 3), np.float32)
    script = [lambda: ts.transition(observation, 1.0)] * 99
    batch = Batch(PLAIN, [script] * ROWS)
    batch.step()
    before = sys.getrefcount(observation)
    for _ in range(50):
        batch.step()
    after = sys.getrefcount(observation)
    outputs, env = weakref.ref(batch.outputs[0]), weakref.ref(batch.envs[0])
    del batch
    gc.collect()

    assert after <= before
    assert outputs() is None
    assert env() is None


def test_a_forked_copy_of_a_worker_is_noticed(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr(worker.os, "_exit", left.append)
    batch = Batch(PLAIN, [[lambda: ts.transition(np.ones((2, 3), np.float32), 1.0)]])
    worker.copies.append(1)
    try:
        batch.step()
    finally:
        worker.copies.clear()

    assert left == [0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": ()}, "must be list"),
        ({"keys": ["a"]}, "expected keys in a tuple"),
        ({"time_step_type": int}, "expected a class of tuples"),
        ({"buffers": [[np.zeros((1, 2))] * 3]}, "expected an array for each leaf"),
        ({"buffers": [[np.zeros((2, 2))] * 4]}, "expected a row for each slot"),
        ({"buffers": [[np.zeros((1, 4))[:, ::2]] * 4]}, "expected contiguous arrays"),
        ({"buffers": [[[0]] * 4]}, "expected contiguous arrays"),
        ({"words": np.zeros(2, np.int64), "part": 2}, "there is no such word"),
    ],
)
def test_what_it_is_made_of_is_checked(changes: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {
        "slots": [object()],
        "buffers": [[np.zeros((1, 2))] * 4],
        "keys": None,
        "time_step_type": ts.TimeStep,
        "faults": (Exception,),
        "copies": [],
        "words": None,
        "part": -1,
        "began": -1,
    }
    compiled_module.RowLoop(**whole)

    with pytest.raises((TypeError, ValueError, IndexError), match=message):
        compiled_module.RowLoop(**(whole | changes))
