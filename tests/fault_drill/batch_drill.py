"""One batch that is used at random while its environments fail as planned."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs.process import facilities
from parallel_envs.py_environment import PyEnvironment
from tests.fault_drill import faults, world
from tests.fault_drill.checker import Row, StreamChecker
from tests.fault_drill.faults import Fault
from tests.fault_drill.faulty_environment import PICTURE_SHAPE, Setting, make
from tests.fault_drill.ledger import Ledger
from tests.fault_drill.options import random_options
from tests.fault_drill.plan import Diary, Event, Plan
from tests.fault_drill.tally import Tally

_STEPS_OF_A_BATCH = (20, 120)
_CLOSE_SECONDS = 9.0  # Three for environments, the rest for a machine that is busy.
_SLACK_SECONDS = 6.0  # The same, for calls in which nothing goes wrong.
_BACK_OFF_SECONDS = 5.0


class BatchDrill:
    """The use of one batch, from its start to its end."""

    def __init__(
        self, seed: str, diary: Diary, killer: pathlib.Path, tally: Tally
    ) -> None:
        self._name, self._diary, self._killer = seed, diary, killer
        self._tally = tally
        self._chance = random.Random(f"use {seed}")
        self._options = random_options(self._chance)
        self._num_events = self._num_records = self._num_rounds = 0
        self._is_disturbed = True  # A batch that has not been reset is like it.
        self._promises: list[tuple[int, int, Callable[[], Any]]] = []
        self._last_call = "start"

    def __str__(self) -> str:
        return (
            f"seed {self._name}, round {self._num_rounds}, {self._last_call}, "
            f"{self._options}, {self._diary.events()[-5:]}"
        )

    def run(self) -> None:
        arguments, rows = self._options.arguments, self._options.rows
        self._max_restarts: int = arguments["max_restarts"]
        casts = not arguments["validate"]
        everyone = range(len(rows))
        self._ledger = Ledger(rows, [everyone] * len(rows), casts=casts)
        self._tally.num_batches += 1
        env = self._made()
        if env is None:
            return
        self._env = env
        groups = _groups(env, rows)
        records = env.failures
        self._ledger = Ledger(rows, groups, casts=casts)
        self._ledger.note(self._diary.events())
        self._ledger.account(records, self._max_restarts, of_start=True)
        self._num_records = len(records)
        self._ledger.settle(env.worker_pids)
        known = [
            Row(row, own, duration)
            for own, duration in zip(rows, self._options.durations, strict=True)
            for row in own
        ]
        self._checker = StreamChecker(known, self._options.structure)
        try:
            for _ in range(self._chance.randint(*_STEPS_OF_A_BATCH)):
                self._use()
                if self._is_hopeless:
                    break
        finally:
            self._tally.num_restarts += sum(r.is_repaired for r in env.failures)
            self._tally.num_unexplained += self._ledger.num_unexplained
            self._close()

    def _made(self) -> pe.ParallelPyEnvironment | None:
        """Returns a batch, or None where one of its constructors fails."""
        options = self._options
        plan = Plan(self._name, options.has_processes, options.is_slow)
        constructors: list[Callable[[], PyEnvironment]] = []
        for position, own in enumerate(options.rows):
            is_batched = options.is_batched[position]
            duration = options.durations[position]
            setting = Setting(
                plan,
                self._diary,
                self._killer,
                position,
                own,
                is_batched,
                options.structure,
                duration,
            )
            constructors.append(functools.partial(make, setting))
        with pytest.MonkeyPatch.context() as patch:
            if options.is_portable:
                patch.setenv(facilities.VARIABLE, "1")
            start = functools.partial(
                pe.ParallelPyEnvironment, constructors, **options.arguments
            )
            env, error = self._timed("start", start)
        self._read()
        if error is not None:
            self._ledger.check_error(error)
        return env

    def _use(self) -> None:
        chance = self._chance
        if chance.random() < 0.04:
            self._kill()
        if self._is_disturbed:
            if self._num_rounds and chance.random() < 0.3:
                with pytest.raises(RuntimeError, match="Call reset"):
                    self._env.step(self._actions()[1])
            self._reset()
        elif chance.random() < 0.04:
            self._reset()
        else:
            self._step()
        if self._is_disturbed:
            return
        for name, probability in {
            "get_info": 0.3,
            "render": 0.05,
            "tell": 0.05,
            "seed": 0.03,
            "promise": 0.08,
            "keep": 0.08,
        }.items():
            if chance.random() < probability:
                self._last_call = name
                getattr(self, f"_{name}")()

    @property
    def _is_hopeless(self) -> bool:
        """Whether nothing but errors is left to see."""
        return sum(not r.is_repaired for r in self._env.failures[-9:]) > 8

    def _reset(self) -> None:
        self._round("reset", self._env.reset, None)

    def _step(self) -> None:
        numbers, actions = self._actions()
        self._round("step", lambda: self._env.step(actions), numbers)

    def _actions(self) -> tuple[list[int], Any]:
        size = self._env.batch_size
        numbers = [self._chance.randrange(world.MAX_NUMBER) for _ in range(size)]
        return numbers, world.actions_of(self._options.structure, numbers)

    def _round(
        self, name: str, call: Callable[[], Any], numbers: list[int] | None
    ) -> None:
        ledger, checker = self._ledger, self._checker
        self._tally.num_steps += 1
        self._num_rounds += 1
        old = list(ledger.open)
        time_step, error = self._timed(name, call)
        records = self._read()
        ledger.account(records, self._max_restarts)
        if error is not None:
            self._fail(error, records)
            return
        if any(not record.is_repaired for record in records):
            raise AssertionError(f"{records} were not raised.")
        if numbers is None:
            checker.check_reset(time_step, ledger.losable)
        else:
            checker.check_step(numbers, time_step, ledger.losable)
        if numbers is not None and not self._is_disturbed:
            ledger.check_lost(checker.crashed | checker.unsure, old)
        self._is_disturbed = False
        ledger.settle(self._env.worker_pids or (os.getpid(),), old)

    def _fail(self, error: pe.WorkerError, records: list[Any]) -> None:
        if all(record.is_repaired for record in records) and self._max_restarts:
            raise AssertionError(f"{error} was not repaired: {records}.") from error
        self._ledger.check_error(error)
        self._checker.disturb()
        self._is_disturbed = True

    def _get_info(self) -> None:
        infos = self._request("get_info", self._env.get_info)
        if infos is not None:
            self._checker.check_infos(infos, self._ledger.losable)

    def _render(self) -> None:
        pictures = self._request("render", self._env.render)
        if pictures is not None:
            assert pictures.shape == (self._env.batch_size, *PICTURE_SHAPE)
            expected = np.arange(self._env.batch_size)[:, None, None, None]
            assert (pictures == expected).all(), pictures

    def _tell(self) -> None:
        question = self._chance.randrange(1000)
        answers = self._request("call", lambda: self._env.call("tell", question))
        if answers is not None:
            assert answers == [(n, question) for n in range(len(answers))], answers

    def _seed(self) -> None:
        size = self._env.batch_size
        base = self._chance.randrange(2**31)
        seeds = pe.spread_seeds(base, size)
        given = self._chance.choice([base, seeds])
        answer = self._request("seed", lambda: self._env.seed(given))
        assert answer is None or answer == seeds, (answer, seeds)

    def _promise(self) -> None:
        position = self._chance.randrange(len(self._options.rows))
        question = self._chance.randrange(1000)
        handle = self._env.envs[position]
        promise = self._request("call", lambda: handle.call("tell", question))
        if promise is not None:
            self._promises.append((position, question, promise))

    def _keep(self) -> None:
        """Asks for what was promised, or not."""
        while self._promises:
            position, question, promise = self._promises.pop()
            if self._chance.random() < 0.5:
                continue
            # It may have failed long ago, and its environment be replaced since.
            answer, _ = self._timed("promise", promise)
            self._ledger.account(self._read(), self._max_restarts)
            assert answer in (None, (position, question)), answer

    def _request(self, place: str, call: Callable[[], Any]) -> Any:
        """Returns the answer to a request; None where it has failed, as it must."""
        old = list(self._ledger.open)
        answer, error = self._timed(place, call)
        records = self._read()
        self._ledger.account(records, self._max_restarts)
        new = [event for event in self._ledger.open if event not in old]
        if error is not None:
            self._ledger.check_error(error)
            if any(not record.is_repaired for record in records):
                self._is_disturbed = True
                self._checker.disturb()
        elif place != "seed" and not self._promises:
            mute = [e for e in new if e.place == place and e.fault is Fault.RAISES]
            if mute and not callable(answer):
                raise AssertionError(f"{place} returned {answer} after {mute}.")
        if not (place == "seed" and error is None):
            self._ledger.drop(place)
        return answer

    def _kill(self) -> None:
        """Kills a worker, or the parent of all, now or during the next call."""
        pids = sorted(set(self._env.worker_pids))
        if not pids:
            return
        pid = self._chance.choice(pids)
        is_nursery = self._chance.random() < 0.15
        parent = _parent(pid) if is_nursery else None
        if parent is not None and parent != os.getpid():
            fault, target, lost = Fault.NURSERY_KILLED, parent, pids
        else:
            fault, target, lost = Fault.WORKER_KILLED, pid, [pid]
        rows = self._options.rows
        events: list[Event] = []
        for each in lost:
            position = next(
                n
                for n, own in enumerate(rows)
                if self._env.worker_pids[own.start] == each
            )
            number = self._tally.faults[fault]
            events.append(Event(position, -1, "outside", number, fault, target))
        self._tally.faults[fault] += 1
        self._ledger.note(events)
        if self._chance.random() < 0.5:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, 9)
        else:
            faults.ask_to_kill(self._killer, target, self._chance.random() * 0.02)

    def _timed(
        self, name: str, call: Callable[[], Any]
    ) -> tuple[Any, pe.WorkerError | None]:
        """Returns what a call returns or raises, if it does so in time."""
        self._last_call = name
        num_events, began = len(self._diary.events()), time.monotonic()
        result, error = None, None
        try:
            result = call()
        except pe.WorkerError as raised:
            error = raised
            self._tally.errors[type(raised).__name__] += 1
        seconds = time.monotonic() - began
        events = self._diary.events(num_events)
        arguments = self._options.arguments
        limits = [arguments.get(n, 0.0) for n in ("start_timeout", "step_timeout")]
        each = sum(limits) + _BACK_OFF_SECONDS
        limit = _SLACK_SECONDS + each * (1 + len(events))
        assert seconds < limit, f"{name} took {seconds:.1f} s with {events}."
        return result, error

    def _read(self) -> list[Any]:
        """Takes in what has happened; returns what the batch has told of it."""
        events = self._diary.events(self._num_events)
        self._num_events += len(events)
        self._tally.faults.update(event.fault for event in events)
        self._ledger.note(events)
        records = list(self._env.failures[self._num_records :]) if self._is_made else []
        self._num_records += len(records)
        return records

    @property
    def _is_made(self) -> bool:
        return hasattr(self, "_env")

    def _close(self) -> None:
        began = time.monotonic()
        self._env.close()
        if self._chance.random() < 0.3:
            self._env.close()
        seconds = time.monotonic() - began
        self._read()
        assert seconds < _CLOSE_SECONDS, f"close took {seconds:.1f} s."


def _groups(env: pe.ParallelPyEnvironment, rows: list[range]) -> list[list[int]]:
    """Returns for each constructor those whose environments share its process."""
    if not env.worker_pids:
        return [[position] for position in range(len(rows))]
    pids = [env.worker_pids[own.start] for own in rows]
    return [[n for n, pid in enumerate(pids) if pid == own] for own in pids]


def _parent(pid: int) -> int | None:
    """Returns the parent of a process; None where it is gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(status.rpartition(")")[2].split()[1])
