"""Specs and time steps of TF-Agents, made of ours and the other way round."""

from __future__ import annotations

import collections
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from parallel_envs import time_step as ts
from parallel_envs.adapters.tf_agents import library
from parallel_envs.specs import array_spec, checks, nest

_nest_utils: Any = library.part("utils.nest_utils")
_array_spec: Any = library.part("specs.array_spec")
_time_step: Any = library.part("trajectories.time_step")
_tf: Any = importlib.import_module("tensorflow")

Nest = nest.Nest


def to_tf_agents_spec(spec: Nest, name: str = "spec") -> Nest:
    """Returns the nest with TF-Agents' `ArraySpec` and `BoundedArraySpec` as leaves.

    Args:
        spec: A nest of specs; a `TimeStep` becomes one of TF-Agents.
        name: What the paths in errors begin with.

    Raises:
        ValueError: If the size of a leaf may vary, which TF-Agents has no form for; it
            says which leaf.
    """
    converted = _mapped(_to_leaf, checks.spec_structure(spec, name))
    return to_tf_agents_time_step(converted) if _is_time_step(spec) else converted


def from_tf_agents_spec(spec: Nest, name: str = "spec") -> Nest:
    """Returns the nest with our `ArraySpec` and `BoundedArraySpec` as leaves.

    Args:
        spec: A nest of TF-Agents' array specs, or of tensor specs, as its TensorFlow
            policies have; a `TimeStep` becomes one of ours.
        name: What the paths in errors begin with.

    Raises:
        TypeError: If a leaf is no spec, with its path.
    """
    converted = _mapped(_from_leaf, nest.Structure(_unwrapped(spec), name))
    return from_tf_agents_time_step(converted) if _is_time_step(spec) else converted


def to_tf_agents_time_step(time_step: Any) -> Any:
    """Returns TF-Agents' `TimeStep` of the same arrays."""
    return relabelled(_time_step.TimeStep, time_step)


def from_tf_agents_time_step(time_step: Any) -> ts.TimeStep:
    """Returns our `TimeStep` of the same arrays."""
    return relabelled(ts.TimeStep, time_step)


def stacked_infos(infos: list[Any]) -> Any:
    """Returns what the rows of a batch say of a step: `[B, ...]` where they agree.

    As in TF-Agents' `BatchedPyEnvironment`: infos of one structure become one whose
    leaves are stacked. Where structures or shapes differ, it is a list of B infos.
    """
    try:
        # Else leaves that only some rows have would be dropped, or take others' names.
        for info in infos[1:]:
            _tf.nest.assert_same_structure(infos[0], info)
        return _nest_utils.stack_nested_arrays(infos)
    except (TypeError, ValueError):
        return infos


def unstacked_infos(info: Any, num_rows: int) -> Any:
    """Returns a list of what each row says, of what a batch of TF-Agents has stacked.

    What is not stacked is returned as it is.
    """
    leaves = nest.flatten(info)
    if leaves and all(np.shape(leaf)[:1] == (num_rows,) for leaf in leaves):
        return _nest_utils.unstack_nested_arrays(info)
    return info


# `relabelled(kind, items)`: a named tuple of another class, at half the cost of
# `kind(*items)`.
relabelled: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _mapped(convert: Callable[[Any, str], Any], structure: nest.Structure) -> Nest:
    """Returns the nest of a structure with each leaf converted, given its path."""
    leaves = zip(structure.specs, structure.paths, strict=True)
    return structure.pack([convert(leaf, path) for leaf, path in leaves])


def _unwrapped(spec: Nest) -> Nest:
    """Returns the nest in containers of Python.

    What is an attribute of a module of TensorFlow, as `collect_data_spec` is of an
    agent, comes in proxies where it has dicts or lists: a named tuple is none then.
    """
    found = getattr(spec, "__wrapped__", spec)
    if _is_a(found, Mapping):
        kind: Any = collections.OrderedDict
        items = {key: _unwrapped(item) for key, item in found.items()}
        return kind(items) if _is_a(found, kind) else items
    if _is_a(found, (list, tuple)):
        children = [_unwrapped(item) for item in found]
        if hasattr(found, "_fields"):
            return found._make(children)
        return children if _is_a(found, list) else tuple(children)
    return found


def _is_a(value: object, kind: Any) -> bool:
    """Is `isinstance`, which narrows no types: those of nests are not known."""
    return isinstance(value, kind)


def _is_time_step(value: Any) -> bool:
    return getattr(value, "_fields", None) == ts.TimeStep._fields


def _to_leaf(spec: array_spec.ArraySpec, path: str) -> Any:
    if spec.is_variable:
        raise ValueError(
            f"{path}: expected a fixed shape, got {spec.shape}: TF-Agents has no "
            "leaves whose size varies. Pad them in the environment, or leave them out."
        )
    # Its bounds are of numbers.
    if isinstance(spec, array_spec.BoundedArraySpec) and spec.dtype.kind in "iuf":
        return _array_spec.BoundedArraySpec(
            spec.shape, spec.dtype, spec.minimum, spec.maximum, spec.name
        )
    return _array_spec.ArraySpec(spec.shape, spec.dtype, spec.name)


def _from_leaf(spec: Any, path: str) -> array_spec.ArraySpec:
    if not (hasattr(spec, "shape") and hasattr(spec, "dtype")):
        raise TypeError(f"{path}: expected a spec of TF-Agents, got {spec!r:.200}.")
    shape = tuple(spec.shape)
    # That of a tensor spec is one of TensorFlow.
    dtype = np.dtype(getattr(spec.dtype, "as_numpy_dtype", spec.dtype))
    name = spec.name if isinstance(spec.name, str) else None
    if hasattr(spec, "minimum"):
        return array_spec.BoundedArraySpec(
            shape, dtype, spec.minimum, spec.maximum, name
        )
    return array_spec.ArraySpec(shape, dtype, name)
