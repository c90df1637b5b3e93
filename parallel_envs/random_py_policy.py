"""A policy that draws its actions from their spec."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import py_policy, trajectory
from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec, checks, nest, sampling

Nest = nest.Nest

_NUM_DRAWN = 4096  # Elements drawn at a time; more where one call needs more.


class RandomPyPolicy(py_policy.PyPolicy):
    """Draws each action uniformly from its spec, or from what a mask allows."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep | None,
        action_spec: Nest,
        policy_state_spec: Nest = (),
        info_spec: Nest = (),
        seed: int | None = None,
        outer_dims: Sequence[int] | None = None,
        observation_and_action_constraint_splitter: py_policy.Splitter | None = None,
    ) -> None:
        """Makes a policy with a random generator of its own.

        Args:
            time_step_spec: See `PyPolicy`; may be None.
            action_spec: What to draw from. An unbounded spec stands for all values of
                its dtype.
            policy_state_spec: See `PyPolicy`; the state is handed back as it came.
            info_spec: Infos are drawn like actions.
            seed: Of the generator; None for one that differs each time.
            outer_dims: Dimensions before those of the spec; None for those of the time
                step that is asked about.
            observation_and_action_constraint_splitter: Takes an observation and
                returns what a policy sees of it, and a mask with a last dimension of
                as many elements as there are actions, true where one is allowed.

        Raises:
            TypeError: If a leaf of `action_spec` is not an `ArraySpec`, with its path.
            ValueError: If there is a splitter, and the action is not a single bounded
                integer of shape `()` or `(1,)`.
        """
        super().__init__(
            time_step_spec,
            action_spec,
            policy_state_spec,
            info_spec,
            observation_and_action_constraint_splitter,
        )
        checks.spec_structure(action_spec, "action_spec")
        if observation_and_action_constraint_splitter is not None:
            _check_can_be_masked(action_spec)
        self._outer_dims = None if outer_dims is None else tuple(outer_dims)
        self._rng = np.random.default_rng(seed)
        is_masked = observation_and_action_constraint_splitter is not None
        self._drawn_specs = (() if is_masked else action_spec, info_spec)
        self._draws = _Draws(self._drawn_specs, self._rng)

    def _action(
        self, time_step: ts.TimeStep, policy_state: Nest, seed: int | None = None
    ) -> trajectory.PolicyStep:
        outer_dims = self._outer_dims
        if outer_dims is None:
            outer_dims = np.asarray(time_step.step_type).shape
        if seed is None:
            rng = self._rng
            action, info = self._draws.next(outer_dims)
        else:
            rng = np.random.default_rng(seed)
            action, info = sampling.sample(self._drawn_specs, rng, outer_dims)
        splitter = self.observation_and_action_constraint_splitter
        if splitter is not None:
            _, mask = splitter(time_step.observation)
            action = _sample_allowed(
                self.action_spec, np.asarray(mask), outer_dims, rng
            )
        return trajectory.PolicyStep(action, policy_state, info)


class _Draws:
    """Rows drawn in advance, since drawing one costs as much as drawing a hundred."""

    def __init__(self, specs: Nest, rng: np.random.Generator) -> None:
        self._specs = specs
        self._rng = rng
        self._structure = nest.Structure(specs, "policy_step")
        self._leaves: list[Any] = []
        self._num_left = 0

    def next(self, outer_dims: tuple[int, ...]) -> Nest:
        """Returns rows that nobody else gets, leaves `[*outer_dims, ...]`."""
        num_rows = math.prod(outer_dims)
        if num_rows > self._num_left:
            self._draw(num_rows)
        rows = slice(self._num_left - num_rows, self._num_left)
        self._num_left -= num_rows
        return self._structure.pack(
            [leaf[rows].reshape(outer_dims + leaf.shape[1:]) for leaf in self._leaves]
        )

    def _draw(self, num_rows: int) -> None:
        """Draws at least `num_rows`, and drops the rows that were left."""
        specs = self._structure.specs
        if any(spec.is_variable for spec in specs):
            self._num_left = num_rows  # So that the sizes vary from call to call.
        else:
            row_size = sum(math.prod(spec.shape) for spec in specs)
            self._num_left = max(num_rows, _NUM_DRAWN // max(1, row_size))
        drawn = sampling.sample(self._specs, self._rng, (self._num_left,))
        self._leaves = self._structure.flatten(drawn)


def _check_can_be_masked(action_spec: Nest) -> None:
    if not (
        isinstance(action_spec, array_spec.BoundedArraySpec)
        and action_spec.shape in ((), (1,))
        and np.issubdtype(action_spec.dtype, np.integer)
    ):
        raise ValueError(
            "action_spec: expected a single BoundedArraySpec of integers of shape () "
            f"or (1,), since a mask of allowed actions is used, got {action_spec!r}."
        )


def _sample_allowed(
    spec: array_spec.BoundedArraySpec,
    mask: npt.NDArray[Any],
    outer_dims: tuple[int, ...],
    rng: np.random.Generator,
) -> npt.NDArray[Any]:
    minimum, maximum = int(spec.minimum.min()), int(spec.maximum.max())
    expected = (*outer_dims, maximum - minimum + 1)
    if mask.shape != expected:
        raise ValueError(
            f"mask of allowed actions: expected shape {expected}, got {mask.shape}."
        )
    allowed = mask.astype(bool)
    num_allowed: npt.NDArray[np.int64] = allowed.sum(axis=-1, dtype=np.int64)
    if not num_allowed.all():
        row = np.argwhere(num_allowed == 0)[0].tolist()
        raise ValueError(f"mask of allowed actions: none is allowed in row {row}.")
    # The chosen one is where the count of allowed ones first passes the number drawn.
    drawn = rng.integers(0, num_allowed, num_allowed.shape)
    index = (np.cumsum(allowed, axis=-1) > np.expand_dims(drawn, -1)).argmax(axis=-1)
    return (index + minimum).astype(spec.dtype).reshape(outer_dims + spec.shape)
