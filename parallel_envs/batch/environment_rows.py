"""Several environments that read actions from, and write time steps to, rows.

This is what a worker serves, and what a batch in this process steps itself, so that
both give the same to the bit.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import inspect
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs.batch import row_loop
from parallel_envs.batch.failure import Failure
from parallel_envs.batch.row_writer import (
    RowWriter,
    TimeStepStructure,
    buffers_of,
    split_variable,
)
from parallel_envs.batch.slot import Faults, Slot
from parallel_envs.process import pickling
from parallel_envs.process.control_block import Progress
from parallel_envs.process.worker import Report, leave_if_copy
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import checks, nest

_LOGGER = logging.getLogger(__name__)

Array = npt.NDArray[Any]
Constructor = Callable[[], Any]

# An interrupt is not the environment's fault: it goes to whoever steps it. In a worker
# that is nobody, and only environments raise it there.
_FAULTS: Faults = (Exception, SystemExit)
_FAULTS_OF_A_WORKER: Faults = (BaseException,)


class Command(enum.IntEnum):
    """What a round asks of the rows."""

    STEP = 0
    RESET = 1
    START = 2  # Of some rows: those of new environments that are to start at once.

    def into(self, buffer: int) -> int:
        """Returns the number by which a round is asked for that writes to a buffer."""
        # As `value`, which is a property, and this runs at each step.
        return self._value_ + _NUM_COMMANDS * buffer


_NUM_COMMANDS = len(Command)


@dataclasses.dataclass(frozen=True)
class Description:
    """What the batch has to know of an environment before it can hold its rows.

    Attributes:
        action_spec: For one row.
        time_step_spec: For one row.
        batch_size: None for an environment that is not batched, so has one row.
    """

    action_spec: nest.Nest
    time_step_spec: ts.TimeStep
    batch_size: int | None

    @classmethod
    def of(cls, env: PyEnvironment) -> Description:
        """Returns what `env` says of itself."""
        size = env.batch_size if env.batched else None
        return cls(env.action_spec(), env.time_step_spec(), size)

    @property
    def num_rows(self) -> int:
        """How many rows the environment has."""
        return 1 if self.batch_size is None else self.batch_size


@dataclasses.dataclass(frozen=True)
class Birth:
    """What is decided for an environment before it is made.

    Attributes:
        global_seed: What the global generators of a worker's process get before the
            constructor runs; None leaves them alone.
        seeds: What the environment's `seed` gets, in a list of one, right after; empty
            where it is not called.
    """

    global_seed: int | None = None
    seeds: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class Factory:
    """Makes the environments of one worker; a `ServantFactory`.

    Attributes:
        constructors: Called in order, in the process that will step the environments.
        first: Position of the first of them among all constructors.
        validate: As in `RowWriter`.
        is_timed: Whether each environment has a time limit of its own.
    """

    constructors: tuple[Constructor, ...]
    first: int
    validate: bool
    is_timed: bool = False

    def __call__(self, progress: Progress, births: Sequence[Birth]) -> EnvironmentRows:
        """Returns the environments; a failure to make one is told by `introduction`."""
        rows = EnvironmentRows(
            self.constructors,
            validate=self.validate,
            first=self.first,
            progress=progress,
            is_timed=self.is_timed,
        )
        rows.renew(births)
        return rows


class EnvironmentRows:
    """Serves environments through rows of arrays; a `Servant`."""

    def __init__(
        self,
        constructors: Sequence[Constructor],
        *,
        validate: bool,
        first: int = 0,
        progress: Progress | None = None,
        is_timed: bool = False,
        threads: futures.Executor | None = None,
    ) -> None:
        """Makes nothing yet: `renew` does.

        Args:
            constructors: One for each environment, which is closed with this object.
            validate: As in `RowWriter`.
            first: Position of the first constructor among all.
            progress: Where to note which environment is being used.
            is_timed: Whether to note as well when each began.
            threads: Steps environments at the same time where given.
        """
        self._constructors = constructors
        self._first = first
        self._environments: list[PyEnvironment | None]
        self._environments = [None] * len(constructors)
        self._failure: Failure | None = None
        self._validate = validate
        self._begin = _nowhere if progress is None else progress.begin
        self._progress = progress if len(constructors) > 1 else None
        self._is_timed = is_timed
        self._faults = _FAULTS if progress is None else _FAULTS_OF_A_WORKER
        self._threads = threads
        self._slots: list[Slot] = []
        self._writer: RowWriter | None = None

    @classmethod
    def holding(
        cls,
        environments: Sequence[PyEnvironment],
        threads: futures.Executor | None = None,
    ) -> EnvironmentRows:
        """Returns what serves environments that are there already."""
        rows = cls([lambda: None] * len(environments), validate=True, threads=threads)
        rows._environments[:] = environments
        return rows

    @property
    def missing(self) -> list[int]:
        """Positions of the environments that are not there."""
        return [n for n, env in enumerate(self._environments) if env is None]

    @property
    def is_compiled(self) -> bool:
        """Whether steps are done by compiled code."""
        return self._loop is not None

    @property
    def environments(self) -> list[PyEnvironment]:
        """Those that are there, in the order of their rows."""
        return [env for env in self._environments if env is not None]

    def discard(self, positions: Iterable[int]) -> None:
        """Closes environments, which are then missing; what they raise is logged."""
        for position in positions:
            self._begin(position)
            self._discard(position)

    def renew(self, births: Sequence[Birth]) -> list[Description] | Report:
        """Makes all environments that are missing, up to a failure.

        Args:
            births: One for each constructor.

        Returns:
            As `introduction`.
        """
        self._failure = None
        for position, birth in enumerate(births):
            if self._environments[position] is None:
                self._begin(position)
                self._failure = self._make(position, birth)
            if self._failure is not None:
                break
        return self.introduction()

    def introduction(self) -> list[Description] | Report:
        """Returns a description of each environment, or why there are none."""
        if self._failure is not None:
            return Report((self._failure,))
        return [Description.of(env) for env in self.environments]

    def attach(self, inputs: list[Array], outputs: list[Array]) -> None:
        """Takes the rows of the arrays for the fixed leaves of actions and steps.

        Args:
            inputs: Of the actions.
            outputs: Of the time steps; several times where there is a ring of buffers.
        """
        descriptions = [Description.of(env) for env in self.environments]
        num_rows = sum(description.num_rows for description in descriptions)
        structure = TimeStepStructure(descriptions[0].time_step_spec)
        buffers = buffers_of(outputs, len(structure.fixed))
        first = 0
        for description in descriptions:
            rows = slice(first, first + description.num_rows)
            is_batched = description.batch_size is not None
            self._slots.append(Slot(rows, is_batched, self._faults))
            first = rows.stop
        self._loop = self._compiled_loop(structure, buffers)
        self._writer = RowWriter(
            structure,
            buffers,
            num_rows,
            validate=self._validate,
            remembers=self._loop is None and len(buffers) == 1,
        )
        for position in range(len(self._slots)):
            self._fill(position)
        self._actions = _Actions(descriptions[0].action_spec, inputs, self._slots)

    def round(self, command: int, extras: Any = None) -> Report | None:
        """Steps or resets every environment.

        Args:
            command: What a `Command` makes of the buffer.
            extras: For a step, for each variable leaf of the action, by position, one
                value a row. For a start, the positions here of the environments, and
                whether the next step is to reset each once more.

        Returns:
            A report with a `Failure` for each environment that failed, and with the
            values of variable leaves; None where there is neither.
        """
        assert self._writer is not None, "a round before the arrays were attached"
        buffer, command = divmod(command, _NUM_COMMANDS)
        self._writer.use(buffer)
        if command == Command.STEP:
            failures = self._step(buffer, self._actions.of(extras))
        elif command == Command.RESET:
            failures = self._map(Slot.reset, self._slots)
        else:
            slots: list[tuple[int, bool]] = extras
            started = [self._slots[slot].start(twice) for slot, twice in slots]
            failures = list(filter(None, started))
        if not failures and not self._writer.has_extras:
            return None
        return Report(tuple(failures), self._writer.take_extras())

    def rows_of(self, part: int) -> slice:
        """Returns the rows of one environment."""
        return self._slots[part].rows

    def part(self, part: int, command: int, extras: Any = None) -> Report | None:
        """Steps one environment.

        Args:
            part: Its position here.
            command: What `Command.STEP` makes of the buffer.
            extras: As in `round`, for the environment's rows only.

        Returns:
            As `round`, with the rows counted likewise, and the values of the
            environment's rows only.
        """
        assert self._writer is not None, "a step before the arrays were attached"
        buffer, _ = divmod(command, _NUM_COMMANDS)
        self._writer.use(buffer)
        slot = self._slots[part]
        failure = slot.step(self._actions.of_slot(slot, extras))
        values = self._writer.take_extras(slot.rows)
        failures = () if failure is None else (failure,)
        return Report(failures, values) if failures or values else None

    def request(self, name: str, *arguments: Any) -> Any:
        """Does what is asked for by name, most of it on one environment."""
        if name == "renew":
            return self.renew(*arguments)
        if name == "close":
            return self.discard(*arguments)
        position, *rest = arguments
        self._begin(position)
        return _REQUESTS[name](self._environments[position], *rest)

    def close(self) -> None:
        """Closes every environment; what they raise is logged."""
        for position in range(len(self._environments)):
            self._discard(position)

    def _compiled_loop(
        self, structure: TimeStepStructure, buffers: Sequence[Sequence[Array]]
    ) -> row_loop.Loop | None:
        if self._threads is not None:
            return None
        return row_loop.compiled_loop(
            self._slots,
            structure,
            buffers,
            self._progress,
            self._faults,
            is_timed=self._is_timed,
        )

    def _step(self, buffer: int, actions: list[nest.Nest]) -> list[Failure]:
        if self._loop is not None:
            return self._loop(buffer, actions)
        return self._map(Slot.step, self._slots, actions)

    def _map(self, function: Callable[..., Failure | None], *of: Any) -> list[Failure]:
        each: Any = map if self._threads is None else self._threads.map
        return [failure for failure in each(function, *of) if failure is not None]

    def _make(self, position: int, birth: Birth) -> Failure | None:
        if birth.global_seed is not None:
            random.seed(birth.global_seed)
            np.random.seed(birth.global_seed)
        env: PyEnvironment | None = None
        try:
            env = as_py_environment(self._constructors[position]())
            _check_travels(Description.of(env))
            for seed in birth.seeds:
                _seed(env, seed, is_optional=True)
        except self._faults as error:
            leave_if_copy(error)
            if env is not None:
                self._close(env)
            return Failure([self._first + position], "construction", error)
        leave_if_copy()
        self._environments[position] = env
        if self._slots:
            self._fill(position)
        return None

    def _discard(self, position: int) -> None:
        env, self._environments[position] = self._environments[position], None
        if env is not None:
            self._close(env)

    def _close(self, env: PyEnvironment) -> None:
        try:
            env.close()
        except self._faults:
            _LOGGER.warning("An environment raised in close().", exc_info=True)
        leave_if_copy()

    def _fill(self, position: int) -> None:
        env = self._environments[position]
        assert env is not None, "a slot for nothing"
        assert self._writer is not None, "a slot without rows"
        begin = self._progress and functools.partial(
            self._progress.begin if self._is_timed else self._progress.note, position
        )
        self._slots[position].fill(env, self._writer, begin)


class _Actions:
    """Takes a batch of actions apart into one action for each environment."""

    def __init__(
        self, action_spec: nest.Nest, arrays: list[Array], slots: Sequence[Slot]
    ) -> None:
        structure = nest.Structure(action_spec, "action")
        self._pack = structure.pack
        self._is_bare = structure.paths == ("action",)
        self._fixed, self._variable = split_variable(structure.specs)
        self._num_leaves = len(structure.specs)
        self._arrays = arrays
        self._num_slots = len(slots)
        # Where each slot is a row, leaves fall apart into rows by themselves.
        has_blocks = any(slot.is_batched for slot in slots)
        self._places = [slot.place for slot in slots] if has_blocks else None
        self._has_scalars = self._is_bare and not self._variable and not has_blocks
        self._has_scalars = self._has_scalars and arrays[0].ndim == 1

    def of(self, extras: dict[int, list[Any]] | None) -> list[nest.Nest]:
        """Returns the actions: numpy scalars, or copies that environments may keep."""
        if self._has_scalars:
            return list(self._arrays[0])
        leaves: list[Any] = [None] * self._num_leaves
        for position, array in zip(self._fixed, self._arrays, strict=True):
            leaves[position] = array.copy()
        for position in self._variable:
            assert extras is not None, "a variable action travels as a value"
            leaves[position] = extras[position]
        if self._places is not None:
            leaves = [[leaf[place] for place in self._places] for leaf in leaves]
        if self._is_bare:
            return list(leaves[0])
        pack = self._pack
        rows = zip(*leaves, strict=True) if leaves else [()] * self._num_slots
        return [pack(row) for row in rows]

    def of_slot(self, slot: Slot, extras: dict[int, list[Any]] | None) -> nest.Nest:
        """Returns the action of one slot; `extras` are those of its rows only."""
        leaves: list[Any] = [None] * self._num_leaves
        for position, array in zip(self._fixed, self._arrays, strict=True):
            leaves[position] = array[slot.rows].copy()
        for position in self._variable:
            assert extras is not None, "a variable action travels as a value"
            leaves[position] = extras[position]
        if not slot.is_batched:
            leaves = [leaf[0] for leaf in leaves]
        return leaves[0] if self._is_bare else self._pack(leaves)


def as_py_environment(value: Any) -> PyEnvironment:
    """Returns what a constructor returned, adapted if another library's."""
    if isinstance(value, PyEnvironment):
        return value
    # By name: adapters know batches, so batches do not know adapters.
    recognition = importlib.import_module("parallel_envs.adapters.recognition")
    return recognition.as_py_environment(value)


def _check_travels(description: Description) -> None:
    """Raises TypeError where specs are none, or cannot be sent.

    Here, where it is known whose they are.
    """
    checks.spec_structure(description.action_spec, "action")
    checks.spec_structure(description.time_step_spec, "time_step")
    pickling.dumps(description)


def _nowhere(part: int | None = None) -> None:
    """Notes nothing: nobody asks where this process is."""


def _get_attr(env: Any, name: str) -> Any:
    # Wrappers forward public names only.
    return getattr(_owner(env, name) if name.startswith("_") else env, name)


def _set_attr(env: Any, name: str, value: Any) -> None:
    setattr(_owner(env, name), name, value)


def _owner(env: Any, name: str) -> Any:
    """Returns the innermost-wrapped object that has `name`, else `env` itself.

    Wrappers forward what they do not have, so that reading finds an attribute anywhere;
    setting it on the wrapper would leave the environment as it was.
    """
    inner: Any = env
    seen: list[Any] = []
    while inner is not None and not any(inner is other for other in seen):
        if name in getattr(inner, "__dict__", ()) or _has_class_attribute(inner, name):
            return inner
        seen.append(inner)
        inner = _wrapped(inner)
    return env


def _wrapped(env: Any) -> Any:
    if _has_class_attribute(env, "wrapped_env"):
        return env.wrapped_env()
    own: dict[str, Any] = getattr(env, "__dict__", {})
    return own.get("_env", own.get("env"))


def _has_class_attribute(env: object, name: str) -> bool:
    return hasattr(type(env), name)


def _info(env: PyEnvironment) -> Any:
    try:
        info = env.get_info()
    except NotImplementedError:
        return {}
    return {} if info is None else info


def _seed(env: PyEnvironment, seed: Any, is_optional: bool = False) -> Any:
    try:
        return env.seed(seed)
    except NotImplementedError:
        if not is_optional:
            raise


def _look_up(env: Any, name: str) -> tuple[bool, Any]:
    """Returns whether `name` is a method, and the value of what is none."""
    value = getattr(env, name)
    return (True, None) if inspect.isroutine(value) else (False, value)


def _call(env: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return getattr(env, name)(*args, **kwargs)


def _method(name: str) -> Callable[..., Any]:
    def call_method(env: Any, *arguments: Any) -> Any:
        return getattr(env, name)(*arguments)

    return call_method


_REQUESTS: dict[str, Callable[..., Any]] = {
    "call": _call,
    "get_attr": _get_attr,
    "get_info": _info,
    "look_up": _look_up,
    "seed": _seed,
    "set_attr": _set_attr,
    **{
        name: _method(name)
        for name in ("render", "get_state", "set_state", "step", "reset")
    },
}
