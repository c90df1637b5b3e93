"""Writes what an environment returns into its rows of the batch's arrays.

A value that does not fit is refused with its path. What counts as fitting: Python and
numpy scalars, any byte order and any strides become the spec's dtype; an array of
another dtype or shape does not. Nothing is broadcast or reshaped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec, casting, nest

Array = npt.NDArray[Any]
Rows = int | slice
_Write = Callable[[Rows, Any], None]

# Handed out by the functions in `time_step`, and nobody can write into them.
_CONSTANTS = (
    ts.StepType.FIRST,
    ts.StepType.MID,
    ts.StepType.LAST,
    ts.restart(()).discount,
    ts.termination((), 0.0).discount,
)


class MisfitError(ValueError):
    """A value does not fit its spec."""


class TimeStepStructure:
    """The leaves of a time step in one order: step type, reward, discount, observation.

    Attributes:
        specs: The spec of each leaf.
        paths: Where each leaf is, for messages.
        fixed: Positions of the leaves that have one shape, and so live in arrays.
        variable: Positions of the others, which travel as values.
        rewards: Positions of the leaves of the reward.
        discounts: Positions of the leaves of the discount.
        is_plain: Whether each field is a single leaf.
        simple_keys: The keys of an observation that is a dict of arrays, in the order
            of the leaves, or none where it is a single array; None where the time step
            is anything else, or has a leaf whose size varies.
    """

    def __init__(self, time_step_spec: ts.TimeStep) -> None:
        self._fields = [
            nest.Structure(getattr(time_step_spec, field), field)
            for field in ts.TimeStep._fields
        ]
        self.specs = [spec for field in self._fields for spec in field.specs]
        self.paths = [path for field in self._fields for path in field.paths]
        self.fixed, self.variable = split_variable(self.specs)
        _, self._flat_reward, self._flat_discount, self._flat_observation = (
            field.flatten for field in self._fields
        )

        num_rewards, num_discounts = (len(f.specs) for f in self._fields[1:3])
        self.rewards = range(1, 1 + num_rewards)
        self.discounts = range(1 + num_rewards, 1 + num_rewards + num_discounts)
        self._has_plain_fields = self.paths[:3] == list(ts.TimeStep._fields[:3])
        self.is_plain = self.paths == list(ts.TimeStep._fields)
        self._pack_observation = self._fields[3].pack
        self.simple_keys = None
        if self._has_plain_fields and not self.variable:
            self.simple_keys = _simple_keys(time_step_spec.observation)

    def flatten(self, time_step: Any) -> list[Any]:
        """Returns the leaves of a time step.

        Raises:
            MisfitError: If it is no time step, or differs in structure.
        """
        try:
            step_type, reward, discount, observation = time_step
            return [
                step_type,
                *self._flat_reward(reward),
                *self._flat_discount(discount),
                *self._flat_observation(observation),
            ]
        except (TypeError, ValueError) as error:
            if not isinstance(time_step, tuple) or len(time_step) != 4:  # pyright: ignore[reportUnknownArgumentType]
                raise MisfitError(
                    f"expected a TimeStep, got {time_step!r:.200}: return what "
                    "time_step.restart(), transition() or termination() makes."
                ) from None
            raise MisfitError(str(error)) from None

    def writable(self, time_step: Any, num_rows: int) -> list[Array]:
        """Returns the leaves of a batch of time steps that can be written into.

        Raises:
            ValueError: If a leaf is no array of its shape and dtype, or read-only, or
                one whose size varies.
        """
        # Or TF-Agents', where that is what `step` returns.
        if getattr(time_step, "_fields", None) != ts.TimeStep._fields:
            raise ValueError(
                "out: expected a TimeStep of arrays, as step() returns it, got "
                f"{type(time_step).__name__}."
            )
        try:
            leaves = self.flatten(time_step)
        except MisfitError as error:
            raise ValueError(f"out: {error}") from None
        for leaf, spec, path in zip(leaves, self.specs, self.paths, strict=True):
            shape = (num_rows, *spec.shape)
            if not _is_writable(leaf, shape, spec.dtype):
                raise ValueError(
                    f"out: {path}: expected a writable array, {spec.dtype} of shape "
                    f"{shape}, got {_described(leaf)}."
                )
        if len({id(leaf) for leaf in leaves}) < len(leaves):
            raise ValueError("out: expected an array for each leaf, got one twice.")
        return leaves

    def pack(self, leaves: Sequence[Any], make: Callable[..., Any]) -> Any:
        """Returns `make(step_type, reward, discount, observation)` with the leaves."""
        if self.is_plain:
            return make(*leaves)
        if self._has_plain_fields:
            return make(*leaves[:3], self._pack_observation(leaves[3:]))
        start = 0
        fields: list[Any] = []
        for field in self._fields:
            end = start + len(field.specs)
            fields.append(field.pack(leaves[start:end]))
            start = end
        return make(*fields)


class RowWriter:
    """Writes time steps into rows, and keeps the values that fit into no array.

    Attributes:
        has_extras: Whether there are leaves of such values.
    """

    def __init__(
        self,
        structure: TimeStepStructure,
        buffers: Sequence[Sequence[Array]],
        num_rows: int,
        *,
        validate: bool,
        remembers: bool = False,
    ) -> None:
        """Composes the writing functions.

        Args:
            structure: The time step of one row.
            buffers: In each for each fixed leaf an array `[num_rows, ...]`.
            num_rows: Rows served here.
            validate: Whether arrays of another dtype are refused; else they are cast.
            remembers: Whether nobody else writes into the arrays, so that a constant
                that was the last one written to a place need not be written again.
        """
        self._flatten = structure.flatten
        self._extras: dict[int, list[Any]] = {
            position: [None] * num_rows for position in structure.variable
        }
        self.has_extras = bool(self._extras)
        self._is_plain = structure.is_plain
        self._remembers = remembers
        self._writers = [
            self._compose(
                structure, dict(zip(structure.fixed, arrays, strict=True)), validate
            )
            for arrays in buffers
        ]
        self.use(0)

    def use(self, buffer: int) -> None:
        """Has what is written from now on go to one of the buffers."""
        self._single, self._batched = self._writers[buffer]

    def take_extras(self, rows: slice = slice(None)) -> dict[int, list[Any]] | None:
        """Returns for each variable leaf what each row last wrote; None where none.

        Each is an array of its own, which nobody writes into again.
        """
        return {n: values[rows] for n, values in self._extras.items()} or None

    def write(self, row: int, time_step: Any) -> None:
        """Writes one time step; raises MisfitError, with the path, if it is wrong."""
        if self._is_plain and time_step.__class__ is ts.TimeStep:
            # The commonest case by far, and this runs for each row at each step.
            step_type, reward, discount, observation = self._single
            step_type(row, time_step[0])
            reward(row, time_step[1])
            discount(row, time_step[2])
            observation(row, time_step[3])
            return
        leaves = self._flatten(time_step)
        for write, leaf in zip(self._single, leaves, strict=True):
            write(row, leaf)

    def write_block(self, rows: slice, time_step: Any) -> None:
        """Writes the time step of a batched environment into all of its rows."""
        leaves = self._flatten(time_step)
        for write, leaf in zip(self._batched, leaves, strict=True):
            write(rows, leaf)

    def _compose(
        self, structure: TimeStepStructure, arrays: dict[int, Array], validate: bool
    ) -> tuple[list[_Write], list[_Write]]:
        """Returns what writes a leaf of one row, and of several, by position."""
        single: list[_Write] = []
        batched: list[_Write] = []
        for position, spec in enumerate(structure.specs):
            path = structure.paths[position]
            fit = _Fit(spec, path, validate)
            if position in arrays:
                array = arrays[position]
                single.append(_array_writer(array, fit, remembers=self._remembers))
                batched.append(_block_writer(arrays[position], fit))
            else:
                values = self._extras[position]
                single.append(_value_writer(values, fit))
                batched.append(_values_writer(values, fit, path))
        return single, batched


def _simple_keys(observation_spec: nest.Nest) -> tuple[Any, ...] | None:
    if isinstance(observation_spec, array_spec.ArraySpec):
        return ()
    if type(observation_spec) is not dict:
        return None
    own = cast("dict[Any, Any]", observation_spec)
    are_arrays = all(isinstance(spec, array_spec.ArraySpec) for spec in own.values())
    return tuple(sorted(own)) if own and are_arrays else None


def _is_writable(leaf: Any, shape: tuple[Any, ...], dtype: np.dtype[Any]) -> bool:
    if not isinstance(leaf, np.ndarray):
        return False
    array = cast("Array", leaf)
    return (array.shape, array.dtype) == (shape, dtype) and array.flags.writeable


def _described(leaf: Any) -> str:
    if not isinstance(leaf, np.ndarray):
        return f"{leaf!r:.200}"
    array = cast("Array", leaf)
    kind = "" if array.flags.writeable else "read-only "
    return f"{kind}{array.dtype} of shape {array.shape}"


def without_mask(value: Any) -> Any:
    """Returns `value`; ValueError if it is an array some of whose values are masked."""
    if np.any(getattr(value, "mask", False)) and isinstance(value, np.ndarray):
        raise ValueError("expected values, got a masked array")
    return value  # pyright: ignore[reportUnknownVariableType]


def split_variable(
    leaf_specs: Sequence[array_spec.ArraySpec],
) -> tuple[list[int], list[int]]:
    """Returns the positions of leaves of one size, and those of all others.

    Python objects count as variable: a pointer means nothing to another process.
    """
    variable = [
        position
        for position, spec in enumerate(leaf_specs)
        if spec.is_variable or spec.dtype.hasobject
    ]
    fixed = [n for n in range(len(leaf_specs)) if n not in set(variable)]
    return fixed, variable


def buffers_of(outputs: Sequence[Array], size: int) -> list[list[Array]]:
    """Returns arrays that stand one set of `size` after another, as sets."""
    return [list(outputs[n : n + size]) for n in range(0, len(outputs), size)]


def rows_of(leaf: Any, num_rows: int, path: str) -> Any:
    """Returns `leaf`, whose size varies, if it holds a value for each row.

    Raises:
        ValueError: If it does not, naming the path.
    """
    try:
        found = len(leaf)
    except TypeError:
        found = f"{leaf!r:.200}"
    if found != num_rows:
        raise ValueError(
            f"{path}: expected {num_rows} arrays, one for each row, since their sizes "
            f"vary, got {found}."
        )
    return leaf


class _Fit:
    """What a leaf has to look like."""

    def __init__(self, spec: array_spec.ArraySpec, path: str, validate: bool) -> None:
        self.shape, self.dtype = spec.shape, spec.dtype
        self._path, self._validate = path, validate

    def conform(self, value: Any, batch: tuple[int, ...] = ()) -> Array:
        """Returns `value` as an array of shape `(*batch, *shape)`."""
        shape = (*batch, *self.shape)
        try:
            array = casting.as_dtype(without_mask(value), self.dtype)
        except ValueError:  # A ragged list, or masked.
            raise self._misfit(shape, f"{value!r:.200}") from None
        fits = len(array.shape) == len(shape) and all(
            expected in (None, found)
            for expected, found in zip(shape, array.shape, strict=True)
        )
        if fits and (array.dtype == self.dtype or not self._validate):
            with contextlib.suppress(TypeError, ValueError):  # No number, a dict say.
                return array.astype(self.dtype, copy=False)
        raise self._misfit(shape, f"{array.dtype} of shape {array.shape}")

    def _misfit(self, shape: tuple[int | None, ...], found: str) -> MisfitError:
        return MisfitError(
            f"{self._path} does not fit its spec: expected {self.dtype} of shape "
            f"{shape}, got {found}."
        )


def _array_writer(array: Array, fit: _Fit, *, remembers: bool) -> _Write:
    shape, dtype, scalar = fit.shape, fit.dtype, fit.dtype.type
    constants = {id(constant) for constant in _CONSTANTS} if remembers else set[int]()
    nothing = object()  # Unlike None, no environment returns it.
    written: list[Any] = [nothing] * len(array)

    def write_scalar(row: Any, value: Any) -> None:
        if value is written[row]:
            return  # The same constant as in the last step is there already.
        if type(value) is scalar or (
            type(value) is np.ndarray and value.dtype == dtype and value.shape == shape
        ):
            array[row] = value
        else:
            array[row] = fit.conform(value)
        written[row] = value if id(value) in constants else nothing

    def write(row: Any, value: Any) -> None:
        if type(value) is np.ndarray and value.dtype == dtype and value.shape == shape:
            array[row] = value
        else:
            array[row] = fit.conform(value)

    return write_scalar if shape == () else write


def _block_writer(array: Array, fit: _Fit) -> _Write:
    def write(rows: Any, value: Any) -> None:
        array[rows] = fit.conform(value, (rows.stop - rows.start,))

    return write


def _value_writer(values: list[Any], fit: _Fit) -> _Write:
    def write(row: Any, value: Any) -> None:
        values[row] = np.array(fit.conform(value), fit.dtype)

    return write


def _values_writer(values: list[Any], fit: _Fit, path: str) -> _Write:
    def write(rows: Any, value: Any) -> None:
        try:
            own = rows_of(value, rows.stop - rows.start, path)
        except ValueError as error:
            raise MisfitError(str(error)) from None
        values[rows] = [np.array(fit.conform(row), fit.dtype) for row in own]

    return write
