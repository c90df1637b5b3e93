"""Several environments that read actions from, and write time steps to, rows.

This is what a worker serves, and what a batch in this process steps itself, so that
both give the same to the bit.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from typing import Any

import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs.batch.row_writer import (
    MisfitError,
    RowWriter,
    TimeStepStructure,
    split_variable,
)
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.worker import Report, leave_if_copy
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import nest

_LOGGER = logging.getLogger(__name__)

Array = npt.NDArray[Any]
Constructor = Callable[[], Any]


class Command(enum.IntEnum):
    """What a round asks of every row."""

    STEP = 0
    RESET = 1


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


class Failure:
    """What went wrong with some rows.

    It may travel: the exception then arrives as a `RemoteError`.

    Attributes:
        rows: Rows it concerns, counted from the first one served here; in
            construction, the position of the constructor.
        doing: What was asked of them.
        error: The exception.
    """

    def __init__(
        self, rows: Sequence[int], doing: str, error: BaseException | RemoteError
    ) -> None:
        self.rows = tuple(rows)
        self.doing = doing
        self.error = error

    @property
    def is_misfit(self) -> bool:
        """Whether the environment returned what does not fit its spec."""
        return isinstance(self.exception, MisfitError)

    @property
    def exception(self) -> BaseException | None:
        """The exception itself; None where it could not travel."""
        if isinstance(self.error, RemoteError):
            return self.error.rebuild()
        return self.error

    @property
    def told(self) -> RemoteError:
        """The exception as text."""
        if isinstance(self.error, RemoteError):
            return self.error
        return RemoteError.of(self.error)

    def __reduce__(self) -> tuple[Any, ...]:
        return Failure, (self.rows, self.doing, self.told)


@dataclasses.dataclass(frozen=True)
class Factory:
    """Makes the environments of one worker.

    Attributes:
        constructors: Called in order, in the process that will step the environments.
        first: Position of the first of them among all constructors.
        validate: As in `RowWriter`.
    """

    constructors: tuple[Constructor, ...]
    first: int
    validate: bool

    def __call__(self) -> EnvironmentRows:
        """Returns the environments; a failure to make one is told by `introduction`."""
        environments: list[PyEnvironment] = []
        for position, constructor in enumerate(self.constructors, self.first):
            try:
                env = as_py_environment(constructor())
                Description.of(env)
                environments.append(env)
            except (Exception, SystemExit) as error:
                failure = Failure([position], "construction", error)
                rows = EnvironmentRows(environments, validate=self.validate)
                rows.close_quietly()
                rows.failure = failure
                return rows
        return EnvironmentRows(environments, validate=self.validate)


class EnvironmentRows:
    """Serves environments through rows of arrays; a `Servant`.

    Attributes:
        environments: In the order of their rows.
        failure: Why they could not be made, or None.
    """

    def __init__(
        self,
        environments: Sequence[PyEnvironment],
        *,
        validate: bool,
        threads: futures.Executor | None = None,
    ) -> None:
        """Takes over environments.

        Args:
            environments: They are closed with this object.
            validate: As in `RowWriter`.
            threads: Steps environments at the same time where given.
        """
        self.environments = list(environments)
        self.failure: Failure | None = None
        self._validate = validate
        self._map: Callable[..., Iterable[Failure | None]]
        self._map = map if threads is None else threads.map
        self._slots: list[_Slot] = []

    def introduction(self) -> list[Description] | Report:
        """Returns a description of each environment, or why there are none."""
        if self.failure is not None:
            return Report((self.failure,))
        return [Description.of(env) for env in self.environments]

    def attach(self, inputs: list[Array], outputs: list[Array]) -> None:
        """Takes the rows of the arrays for the fixed leaves of actions and steps."""
        descriptions = [Description.of(env) for env in self.environments]
        num_rows = sum(description.num_rows for description in descriptions)
        structure = TimeStepStructure(descriptions[0].time_step_spec)
        self._actions = _Actions(descriptions[0].action_spec, inputs)
        self._writer = RowWriter(structure, outputs, num_rows, validate=self._validate)
        self._slots, first = [], 0
        for env, description in zip(self.environments, descriptions, strict=True):
            rows = slice(first, first + description.num_rows)
            is_batched = description.batch_size is not None
            self._slots.append(_Slot(env, rows, is_batched, self._writer))
            first = rows.stop

    def round(self, command: int, extras: Any = None) -> Report | None:
        """Steps or resets every environment.

        Args:
            command: A `Command`.
            extras: For each variable leaf of the action, by position, one value a row.

        Returns:
            A report with a `Failure` for each environment that failed, and with the
            values of variable leaves; None where there is neither.
        """
        if command == Command.RESET:
            failures = tuple(filter(None, self._map(_Slot.reset, self._slots)))
        else:
            actions = self._actions.of(self._slots, extras)
            failures = tuple(filter(None, self._map(_Slot.step, self._slots, actions)))
        extras = self._writer.take_extras()
        return Report(failures, extras) if failures or extras else None

    def request(self, name: str, *arguments: Any) -> Any:
        """Does what a method of `requests.py` says, on one environment."""
        index, *rest = arguments
        return _REQUESTS[name](self.environments[index], *rest)

    def close(self) -> None:
        """Closes every environment, also if one of them raises.

        Raises:
            Exception, SystemExit: The first that was raised.
        """
        errors: list[Exception | SystemExit] = []
        for env in self.environments:
            try:
                env.close()
            except (Exception, SystemExit) as error:
                errors.append(error)
        self.environments.clear()
        if errors:
            raise errors[0]

    def close_quietly(self) -> None:
        """Closes every environment; what is raised is logged."""
        try:
            self.close()
        except (Exception, SystemExit):
            _LOGGER.warning("An environment raised in close().", exc_info=True)


class _Slot:
    """One environment and its rows."""

    def __init__(
        self, env: PyEnvironment, rows: slice, is_batched: bool, writer: RowWriter
    ) -> None:
        self.rows = rows
        self.is_batched = is_batched
        self._step, self._reset = env.step, env.reset
        self._place: Any = rows if is_batched else rows.start
        self._write: Any = writer.write_block if is_batched else writer.write

    def step(self, action: nest.Nest) -> Failure | None:
        try:
            time_step = self._step(action)
            leave_if_copy()
            self._write(self._place, time_step)
        # An interrupt is not the environment's fault: it goes to whoever steps it.
        except (Exception, SystemExit) as error:
            return self._failure("step", error)
        return None

    def reset(self) -> Failure | None:
        try:
            time_step = self._reset()
            leave_if_copy()
            self._write(self._place, time_step)
        except (Exception, SystemExit) as error:
            return self._failure("reset", error)
        return None

    def _failure(self, doing: str, error: BaseException) -> Failure:
        leave_if_copy(error)
        return Failure(range(self.rows.start, self.rows.stop), doing, error)


class _Actions:
    """Takes a batch of actions apart into one action for each environment."""

    def __init__(self, action_spec: nest.Nest, arrays: list[Array]) -> None:
        structure = nest.Structure(action_spec, "action")
        self._pack = structure.pack
        self._fixed, self._variable = split_variable(structure.specs)
        self._num_leaves = len(structure.specs)
        self._arrays = arrays

    def of(
        self, slots: Sequence[_Slot], extras: dict[int, list[Any]] | None
    ) -> list[nest.Nest]:
        """Returns the actions: numpy scalars, or copies that environments may keep."""
        leaves: list[Any] = [None] * self._num_leaves
        for position, array in zip(self._fixed, self._arrays, strict=True):
            leaves[position] = array.copy()
        for position in self._variable:
            assert extras is not None, "a variable action travels as a value"
            leaves[position] = extras[position]
        pack = self._pack
        return [
            pack(
                [
                    leaf[slot.rows if slot.is_batched else slot.rows.start]
                    for leaf in leaves
                ]
            )
            for slot in slots
        ]


def as_py_environment(value: Any) -> PyEnvironment:
    """Returns what a constructor returned, adapted if another library's."""
    if isinstance(value, PyEnvironment):
        return value
    # By name: adapters know batches, so batches do not know adapters.
    recognition = importlib.import_module("parallel_envs.adapters.recognition")
    return recognition.as_py_environment(value)


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
    "get_attr": getattr,
    "get_info": _info,
    "look_up": _look_up,
    "set_attr": _set_attr,
    **{
        name: _method(name)
        for name in ("seed", "render", "get_state", "set_state", "step", "reset")
    },
}
