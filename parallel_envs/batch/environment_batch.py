"""What every batch of environments does, wherever its environments live."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from parallel_envs import errors, seeding
from parallel_envs import time_step as ts
from parallel_envs.batch import agreement
from parallel_envs.batch.action_writer import ActionWriter
from parallel_envs.batch.environment_rows import Command
from parallel_envs.batch.failure_record import FailureRecord
from parallel_envs.batch.lineage import Lineage
from parallel_envs.batch.repair import Repair
from parallel_envs.batch.row_server import INTERRUPTED, RowServer, first_rows
from parallel_envs.batch.row_writer import (
    TimeStepStructure,
    buffers_of,
    split_variable,
)
from parallel_envs.batch.traffic import Traffic
from parallel_envs.process.shared_arrays import ArrayLayout
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import nest

_RING_SIZE = 4
"""How many steps a view of one of them holds, where nothing is copied."""


class EnvironmentBatch(PyEnvironment, defines_step=True):
    """B environments that are stepped together; each row resets by itself.

    Row i of every leaf belongs to environment i; a constructor that returned a batched
    environment has several rows. One call runs at a time: a second thread waits its
    turn, and a call that waits when another thread closes ends with ClosedError.
    """

    # What a time step is made of: TF-Agents' class, where the batch is one of theirs.
    _time_step_type: Callable[..., ts.TimeStep] = ts.TimeStep

    def __init__(
        self,
        make_rows: Callable[[], RowServer],
        *,
        num_constructors: int,
        validate: bool,
        copy: bool = True,
        max_restarts: int = 0,
        base_seed: int | None = None,
    ) -> None:
        """Makes the environments and agrees on their specs.

        Args:
            make_rows: Makes what steps the rows; closed with this object.
            num_constructors: How many environments it has.
            validate: False checks structure and shape of actions only.
            copy: As in `ParallelPyEnvironment`.
            max_restarts: As in `ParallelPyEnvironment`.
            base_seed: As in `ParallelPyEnvironment`.

        Raises:
            ValueError: If the environments' specs differ, naming row and path.
            WorkerError: If an environment could not be made.
        """
        super().__init__()
        self._copies = copy
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._has_failed = self._was_interrupted = False
        self._rows = make_rows()
        self._finalizer = weakref.finalize(self, self._rows.close)
        self._lineage = Lineage(
            base_seed,
            num_constructors,
            # Those of this process are the caller's own business.
            seeds_globals=self._rows.has_processes,
        )
        self._repair = Repair(self._rows, self._lineage, max_restarts)
        self._traffic = Traffic(self._rows, self._repair)
        try:
            self._repair.make_missing()
            self._lay_out(validate, copy)
            if base_seed is not None:
                self._repair.seed(self._own_seeds(base_seed))
        except BaseException:
            self._finalizer()
            raise

    @property
    def batched(self) -> bool:
        """True: actions and time steps have a leading batch dimension."""
        return True

    @property
    def batch_size(self) -> int:
        """The number of rows, B."""
        return self._firsts[-1]

    @property
    def num_outstanding(self) -> int:
        """How many rows were sent an action whose step was not received."""
        return self._traffic.num_outstanding

    @property
    def returns_views(self) -> bool:
        """Whether `step` returns views, which later steps are written into."""
        return not self._copies

    @property
    def failures(self) -> tuple[FailureRecord, ...]:
        """What has gone wrong with environments so far, in the order it was told.

        A `parallel_envs.batch.failure_record.FailureRecord` each, also for what was
        raised and not repaired; what a method that was asked for by name raises is
        raised only.
        """
        return tuple(self._repair.failures)

    def observation_spec(self) -> nest.Nest:
        """Returns the nest of specs of one row's observation."""
        return self._time_step_spec.observation

    def action_spec(self) -> nest.Nest:
        """Returns the nest of specs of one row's action."""
        return self._action_spec

    def reward_spec(self) -> nest.Nest:
        """Returns the spec of one row's reward."""
        return self._time_step_spec.reward

    def discount_spec(self) -> nest.Nest:
        """Returns the spec of one row's discount."""
        return self._time_step_spec.discount

    def time_step_spec(self) -> ts.TimeStep:
        """Returns the specs of one row's time step."""
        return self._time_step_spec

    def reset(self) -> ts.TimeStep:
        """Starts a new episode in every row, and returns the FIRST steps.

        A row whose process is gone gets a new one before; so does one that is still at
        what Ctrl-C has interrupted 3 seconds later. Blocks until all rows have
        answered. Leaves are `[B, ...]` and the caller's own, unless `copy` is False; a
        leaf whose size varies is a list of B arrays.

        Raises:
            WorkerError: If an environment failed.
            ClosedError: If the batch is closed.
        """
        self._rows.check_open()
        with self._lock:
            return self._reset()

    def step(self, action: nest.Nest, out: ts.TimeStep | None = None) -> ts.TimeStep:
        """Steps every row; a row whose last step was LAST resets instead.

        Args:
            action: Leaves `[B, ...]`, as in `action_spec()`. Anything that numpy makes
                an array of, cast where no value changes. The action of a row that
                resets is ignored.
            out: A time step of arrays `[B, ...]` to write into, which is then returned.

        Returns:
            Leaves `[B, ...]`, the caller's own unless `copy` is False; a leaf whose
            size varies is a list of B arrays. Blocks until all rows have answered.

        Raises:
            ValueError: If the action or `out` does not fit; no environment has moved
                then.
            WorkerError: If an environment failed. The rows are then at different
                steps: until `reset`, further calls are refused.
            RuntimeError: If a call has failed and there was no `reset` since.
            ClosedError: If the batch is closed.
        """
        self._rows.check_open()
        with self._lock:
            return self._step(action, out)

    def send(
        self,
        action: nest.Nest,
        env_ids: Sequence[int] | npt.NDArray[np.integer[Any]] | None = None,
    ) -> None:
        """Sends actions to some rows, and does not wait for what follows; see `recv`.

        As in EnvPool. It waits only for an environment that is being made anew because
        it failed, and where `max_concurrency` environments step already the others
        begin in a later `recv`.

        Args:
            action: Leaves `[n, ...]`, as `step` takes them.
            env_ids: The n rows they are of; None for all B. The rows of a batched
                environment go together.

        Raises:
            ValueError: If the action does not fit, or a row is out of range, there
                twice, or has an action whose step was not received; nothing is sent.
            WorkerError: If a new environment cannot be made.
            RuntimeError: If there was no `reset`, or none since a call has failed.
            ClosedError: If the batch is closed.
        """
        self._rows.check_open()
        with self._lock:
            self._check_stepping("send")
            if self._current_time_step is None:
                raise RuntimeError("send: call reset() first.")
            rows = self._traffic.checked_rows(env_ids)
            extras = self._actions.write(action, rows)
            with self._judged():
                self._traffic.send(rows, extras)

    def recv(self, n: int | None = None) -> tuple[ts.TimeStep, npt.NDArray[np.int32]]:
        """Returns the next steps of the n rows that were done first, and their numbers.

        Blocks until so many rows that were sent to are done. A row that was done
        earlier is handed out earlier, so that none waits for ever.

        Args:
            n: How many rows; None for all that were sent to.

        Returns:
            Leaves `[n, ...]`, the caller's own; and the rows, int32 `[n]`. A leaf whose
            size varies is a list of n arrays.

        Raises:
            ValueError: If n is more than the rows that are outstanding.
            WorkerError: If an environment failed. Until `reset`, further calls are
                then refused.
            RuntimeError: If a call has failed and there was no `reset` since.
            ClosedError: If the batch is closed.
        """
        self._rows.check_open()
        with self._lock:
            self._check_stepping("recv")
            count = self._traffic.checked_count(n)
            with self._judged():
                leaves, rows = self._traffic.receive(count)
            return self._structure.pack(leaves, self._time_step_type), rows

    def current_time_step(self) -> ts.TimeStep:
        """Returns what each row said last, in a `reset`, a `step` or a `recv`.

        Raises:
            ValueError: If there was no `reset` yet.
        """
        if self._traffic.has_news:
            with self._lock:
                last: Any = self._current_time_step
                leaves = self._traffic.merged(self._structure.flatten(last))
                return self._structure.pack(leaves, self._time_step_type)
        return super().current_time_step()

    def should_reset(self, current_time_step: ts.TimeStep) -> bool:
        """Returns False: every row resets by itself."""
        return False

    def seed(self, seed: Sequence[Any] | int | None = None) -> list[Any]:
        """Seeds every row, from its next reset on.

        Args:
            seed: A list of B; or an int, which is spread over the rows as
                `spread_seeds` does; or None for seeds that nobody has had.

        Returns:
            What each row's own `seed` returned.

        Raises:
            ValueError: If a list has another length than B.
            WorkerNotImplementedError: If an environment has no `seed`.
        """
        own = self._own_seeds(seed)
        answers = self._ask_all("seed", [(each,) for each in own])
        for index, each in enumerate(own):
            self._lineage.note_seed(index, each)
        return self._by_row(answers)

    def render(self, mode: str = "rgb_array") -> npt.NDArray[Any]:
        """Returns a picture of every row, uint8 `[B, H, W, 3]`.

        Raises:
            NotImplementedError: If `mode` is not "rgb_array", or an environment cannot.
            WorkerValueError: If what comes is no picture, or of another size.
        """
        if mode != "rgb_array":
            raise NotImplementedError(
                f'render: expected mode="rgb_array", got {mode!r}. Only rgb_array '
                "gives pictures, which a batch can stack."
            )
        answers = self._ask_all("render", [(mode,)] * len(self._spans))
        pictures = [np.asarray(picture) for picture in self._by_row(answers)]
        for row, picture in enumerate(pictures):
            _check_picture(row, picture, pictures[0])
        return np.stack(pictures)

    def get_info(self) -> list[Any]:
        """Returns for each row what it says of its last step; `{}` where nothing.

        It is asked for now, so it costs nothing at each step. The info of a row that
        owes its last step to a failure that was repaired has `crashed`, which is True.
        Where there are restarts, a row whose process is gone has `{}`: the next step
        tells of it. So has a row that is at a step which `recv` has yet to give.

        Raises:
            WorkerError: If an environment failed.
        """
        self._rows.check_open()
        with self._lock:
            lost, crashed = self._repair.lost, self._repair.crashed
            # Those that are being made anew are not asked, and so not waited for.
            asked = [
                index
                for index, (first, end) in enumerate(self._spans)
                if not lost.issuperset(range(first, end))
                and index not in self._traffic.flying
            ]
            told = self._repair.ask_those_there("get_info", asked)
        infos = self._by_row([told.get(n, {}) for n in range(len(self._spans))])
        for row in crashed:
            own: Any = infos[row] if isinstance(infos[row], dict) else {}
            infos[row] = {"crashed": True} if row in lost else {**own, "crashed": True}
        return infos

    def get_state(self) -> list[Any]:
        """Returns the state of each constructor's environment."""
        return self._ask_all("get_state", [()] * len(self._spans))

    def set_state(self, state: Sequence[Any]) -> None:
        """Sets the state of each constructor's environment.

        Raises:
            ValueError: If there is not one state for each.
        """
        self._check_count("set_state: state", state)
        self._ask_all("set_state", [(each,) for each in state])

    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Calls a method of every environment, and returns the results.

        Args:
            name: A method of the environments, or of what they wrap.
            *args: The same for all.
            **kwargs: The same for all.

        Raises:
            WorkerAttributeError: If an environment has no such method.
            WorkerError: If the method raised.
        """
        arguments = (name, args, kwargs)
        return self._ask_all("call", [arguments] * len(self._spans))

    def get_attr(self, name: str) -> list[Any]:
        """Returns an attribute of every environment.

        Raises:
            WorkerAttributeError: If an environment has no such attribute.
            WorkerTypeError: If its value cannot be pickled.
        """
        return self._ask_all("get_attr", [(name,)] * len(self._spans))

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """Sets an attribute of every environment.

        Args:
            name: It is set where it is found, walking inwards through wrappers; on the
                outermost where it is found nowhere.
            values: One for each constructor.

        Raises:
            ValueError: If there is not one value for each.
            TypeError: If a value cannot be pickled, naming attribute and row.
        """
        self._check_count(f"set_attr({name!r}): values", values)
        self._ask_all("set_attr", [(name, value) for value in values])

    def close(self) -> None:
        """Closes every environment; may be called any number of times.

        Environments get 3 seconds for their own `close`; then their processes are
        ended. Raises nothing. A call that waits in another thread ends with
        ClosedError.
        """
        # In a forked child the lock may be held by a thread that is not there.
        if self._finalizer.alive and os.getpid() == self._owner:
            self._rows.interrupt()
            with self._lock:
                if self._finalizer.alive:  # Another thread may have been faster.
                    self._finalizer()
                    # They keep the shared memory.
                    del self._actions
                    self._repair.let_go()

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {self.batch_size} environments, "
            f"{'open' if self._finalizer.alive else 'closed'}>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled: it holds processes "
            "and memory. Pass a function that makes it instead."
        )

    def _reset(self) -> ts.TimeStep:
        self._has_failed = True
        self._traffic.drop()
        if self._was_interrupted:
            self._rows.end_busy(INTERRUPTED)
            self._was_interrupted = False
        self._repair.make_missing()
        return self._round(Command.RESET, None)

    def _step(self, action: nest.Nest, out: ts.TimeStep | None = None) -> ts.TimeStep:
        self._check_stepping("step")
        if num_rows := self._traffic.num_outstanding:
            raise RuntimeError(
                f"step: {num_rows} rows have an action whose step was not received. "
                "Call recv() or reset() first."
            )
        into = None if out is None else self._structure.writable(out, self.batch_size)
        time_step = self._round(Command.STEP, self._actions.write(action), into)
        return time_step if out is None else out

    def _check_stepping(self, name: str) -> None:
        if self._has_failed or not self._finalizer.alive:
            self._rows.check_open()  # It may have been closed meanwhile.
            raise RuntimeError(
                f"{name}: the last call failed or was interrupted, so the rows are at "
                "different steps. Call reset() first."
            )

    def _lay_out(self, validate: bool, copy: bool) -> None:
        """Agrees on the specs, and has arrays made for all fixed leaves."""
        descriptions = self._rows.descriptions
        self._action_spec, self._time_step_spec = agreement.agreed(descriptions)
        self._firsts = first_rows(descriptions)
        self._spans = list(zip(self._firsts, self._firsts[1:], strict=False))
        self._structure = TimeStepStructure(self._time_step_spec)
        actions = nest.Structure(self._action_spec, "action")
        inputs = [actions.specs[n] for n in split_variable(actions.specs)[0]]
        outputs = [self._structure.specs[n] for n in self._structure.fixed]
        num_rows = self._firsts[-1]
        layout = ArrayLayout(
            [(num_rows, *spec.shape) for spec in (*inputs, *outputs)],
            [spec.dtype for spec in (*inputs, *outputs)],
        )
        # One more for rows that are stepped one by one, between rounds.
        num_buffers = 1 if copy else _RING_SIZE + 1
        arrays = self._rows.attach(layout, len(inputs), num_buffers)
        self._actions = ActionWriter(
            self._action_spec, arrays[: len(inputs)], num_rows, validate=validate
        )
        buffers = buffers_of(arrays[len(inputs) :], len(outputs))
        self._traffic.lay_out(self._structure, self._spans)
        self._repair.lay_out(self._structure, buffers, copy=copy)

    def _round(
        self,
        command: Command,
        extras: dict[int, list[Any]] | None,
        out: list[Any] | None = None,
    ) -> ts.TimeStep:
        # As `_judged` does; written out, since this runs at each step.
        self._has_failed = True
        try:
            if command == Command.STEP and self._traffic.owes_steps:
                leaves = _put(self._traffic.step(extras), out)
            else:
                leaves = self._repair.round(command, extras, out)
        except BaseException as error:
            self._judge(error)
            raise
        self._has_failed = False
        time_step = self._structure.pack(leaves, self._time_step_type)
        self._current_time_step = time_step
        self._traffic.forget()
        return time_step

    @contextlib.contextmanager
    def _judged(self) -> Generator[None]:
        """Has whatever does not come to its end count as a failure of the rows."""
        # Set before, so that an interrupt, which leaves rows behind, counts as well.
        self._has_failed = True
        try:
            yield
        except BaseException as error:
            self._judge(error)
            raise
        self._has_failed = False

    def _ask_all(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Asks the environment of each constructor, and returns the answers."""
        return self._ask_some(name, dict(enumerate(arguments)))

    def _ask_some(
        self, name: str, arguments: Mapping[int, tuple[Any, ...]]
    ) -> list[Any]:
        self._rows.check_open()
        with self._lock:
            self._complete()
            try:
                return self._rows.ask_all(name, arguments)
            except BaseException as error:
                self._judge(error)
                raise

    def _judge(self, error: BaseException) -> None:
        """Notes an interrupt, and raises ClosedError for what comes of a close."""
        self._was_interrupted |= isinstance(error, KeyboardInterrupt)
        if isinstance(error, Exception) and not self._finalizer.alive:
            # A signal handler has closed in the middle of the call.
            raise errors.ClosedError("the environment is closed.") from error

    def _complete(self) -> None:
        """Waits for environments that are made anew, which is a part of their step."""
        has_failed, self._has_failed = self._has_failed, True
        self._repair.complete()
        self._has_failed = has_failed

    def _by_row(self, answers: Sequence[Any]) -> list[Any]:
        """Returns one entry for each row: a batched environment answers for many."""
        rows: list[Any] = []
        for index, ((first, end), answer) in enumerate(
            zip(self._spans, answers, strict=True)
        ):
            if not self._is_batched(index):
                rows.append(answer)
            elif _is_one_for_each(answer, end - first):
                rows += list(answer)
            else:
                rows += [answer] * (end - first)
        return rows

    def _is_batched(self, index: int) -> bool:
        return self._rows.descriptions[index].batch_size is not None

    def _own_seeds(self, seed: Sequence[Any] | int | None) -> list[Any]:
        """Returns what each constructor's environment is seeded with."""
        seeds = self._seeds(seed)
        return [
            seeds[first:end] if self._is_batched(index) else seeds[first]
            for index, (first, end) in enumerate(self._spans)
        ]

    def _seeds(self, seed: Sequence[Any] | int | None) -> list[Any]:
        if seed is None:
            entropy: Any = np.random.SeedSequence().entropy
            return seeding.spread_seeds(entropy, self.batch_size)
        _check_sequence_or_int("seed", seed)
        if isinstance(seed, (int, np.integer)):
            return seeding.spread_seeds(int(seed), self.batch_size)
        seeds = list(seed)
        if len(seeds) != self.batch_size:
            raise ValueError(
                f"seed: expected {self.batch_size} seeds, one for each row, got "
                f"{len(seeds)}."
            )
        return seeds

    def _check_count(self, what: str, values: Sequence[Any]) -> None:
        _check_sequence(what, "a list", values)
        if len(values) != len(self._spans):
            raise ValueError(
                f"{what}: expected {len(self._spans)}, one for each constructor, got "
                f"{len(values)}."
            )


def _put(leaves: list[Any], out: list[Any] | None) -> list[Any]:
    """Returns `out` with the leaves written into it; `leaves` where it is None."""
    for array, leaf in zip(out or (), leaves, strict=False):
        array[...] = leaf
    return out or leaves


def _check_picture(
    row: int, picture: npt.NDArray[Any], first: npt.NDArray[Any]
) -> None:
    """Raises WorkerValueError unless it is one, and as large as the first."""
    height, width = (*first.shape, 0, 0)[:2]
    if picture.dtype != np.uint8 or picture.shape != (height, width, 3):
        size = "H, W" if row == 0 else f"{height}, {width}"
        raise errors.WorkerValueError(
            [row],
            "render",
            [
                f": expected a picture from render(), uint8 of shape ({size}, 3), got "
                f"{picture.dtype} of shape {picture.shape}."
            ],
        )


def _check_sequence(what: str, expected: str, value: Any) -> None:
    if isinstance(value, str) or not hasattr(value, "__len__"):
        raise TypeError(f"{what}: expected {expected}, got {value!r:.200}.")


def _check_sequence_or_int(what: str, value: Any) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        _check_sequence(what, "an int, None or a list of seeds", value)
    elif value < 0:
        raise ValueError(f"{what}: expected at least 0, got {value}.")


def _is_one_for_each(answer: Any, count: int) -> bool:
    """Whether a batched environment answered for each of its rows."""
    return isinstance(answer, (list, tuple, np.ndarray)) and _length(answer) == count


def _length(sequence: Any) -> int:
    return len(sequence)
