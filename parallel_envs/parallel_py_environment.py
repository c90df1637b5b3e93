"""A batch of environments in worker processes."""

from __future__ import annotations

import functools
import importlib.util
import math
import operator
import os
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from parallel_envs.batch.environment_batch import EnvironmentBatch
from parallel_envs.batch.environment_handle import EnvironmentHandle
from parallel_envs.batch.environment_rows import EnvironmentRows
from parallel_envs.batch.local_rows import LocalRows
from parallel_envs.batch.row_server import RowServer
from parallel_envs.batch.worker_rows import WorkerRows
from parallel_envs.process import facilities
from parallel_envs.process.nursery_handle import refuse_other_threads

_CONTEXTS = (None, "forkserver", "spawn", "fork")


class ParallelPyEnvironment(EnvironmentBatch):
    """Runs environments in processes of their own, and steps them as one batch.

    >>> import numpy as np
    >>> from parallel_envs.testing import environments
    >>> with ParallelPyEnvironment([environments.Counting] * 2) as env:
    ...     time_step = env.reset()
    ...     time_step = env.step(np.zeros(2, np.int64))
    >>> time_step.reward
    array([1., 1.], dtype=float32)

    Constructors travel by value: lambdas, closures and classes of a script or notebook
    work, and no `if __name__ == "__main__"` guard is needed. The first four arguments
    are those of TF-Agents' class.
    """

    def __init__(
        self,
        env_constructors: Sequence[Callable[[], Any]],
        start_serially: bool = True,
        blocking: bool = False,
        flatten: bool = False,
        *,
        num_workers: int | None = None,
        shared_memory: bool = True,
        copy: bool = True,
        context: str | None = None,
        preload: Sequence[str] = (),
        start_timeout: float | None = None,
        step_timeout: float | None = None,
        max_restarts: int = 0,
        base_seed: int | None = None,
        affinity: str | Sequence[int | Collection[int]] | None = None,
        validate: bool = True,
    ) -> None:
        """Makes the environments, each in its worker, and waits until all are there.

        Args:
            env_constructors: Each returns a `PyEnvironment`, also a batched one, or an
                environment of another library that `parallel_envs.adapters` knows.
            start_serially: Whether constructors run one after another, in list order,
                so that their times add up.
            blocking: Whether environments are stepped one after another.
            flatten: Taken for TF-Agents' users, and without effect.
            num_workers: Processes over which the constructors are spread, neighbours
                together. None is one each; more than constructors is as many. 0 keeps
                all environments in this process.
            shared_memory: Whether values travel through memory that all map, or, if
                False, through sockets.
            copy: Whether the arrays that `reset` and `step` return are the caller's
                own. False returns views on a ring of 4 buffers, which costs nothing:
                they hold until the fourth call of `reset` or `step` after.
            context: How workers start. None or "forkserver": forked from a clean
                process, started for this batch. "spawn": each an interpreter of its
                own. "fork": from a fork of this very process, whose constructors then
                need not be picklable.
            preload: Names of modules that the clean process imports before it forks,
                so that workers need not. They must not start threads. Without effect
                where there is no such process: elsewhere than on Linux.
            start_timeout: Seconds that one constructor may take, from its own start,
                and that the clean process may take to be ready, with `preload`. A
                process that takes longer is killed, which is a `WorkerTimeoutError`, or
                repaired. None sets no limit.
            step_timeout: The same for a step, a reset, or a method that is asked for by
                name, of one environment, from when it reaches its worker.
            max_restarts: How many failures of one environment are repaired, be it that
                its process dies, that it is late, or that it raises: the row then says
                LAST with reward 0, discount 1.0 and the last observation once more, and
                in the next step FIRST, of a new environment. A failure in a reset gives
                that FIRST directly. Each is logged, and kept in `failures`. Those past
                the limit, so with 0 all, are raised as `WorkerError`; `reset` goes on.
            base_seed: Seeds all rows before the first reset, as `seed(base_seed)` does,
                and what replaces them with seeds derived from theirs; where a row has
                no `seed` that is no error. The global generators of `random` and
                `numpy.random` in a worker are seeded from it, too, before each
                constructor runs; those of this process never are.
            affinity: The cores that workers run on: a list with a core, or several, for
                the first worker, the second and so on, in turn if there are more
                workers. "auto" gives each one core of those that this process may use,
                in turn. None leaves it to the system.
            validate: False checks only structure and shape of actions, and casts what
                environments return.

        Raises:
            TypeError, ValueError: If an argument is wrong; no process was started then
                (but for a module of `preload` that turns out to start threads).
            ValueError: If the environments' specs differ, naming row, path and both.
            RuntimeError: If `context` is "fork" and other threads run.
            WorkerError: If an environment could not be made. Nothing is left behind.
        """
        constructors = _checked_constructors(env_constructors)
        for name, value in {
            "start_serially": start_serially,
            "blocking": blocking,
            "flatten": flatten,
            "shared_memory": shared_memory,
            "copy": copy,
            "validate": validate,
        }.items():
            _check_bool(name, value)
        workers = _checked_num_workers(num_workers, len(constructors))
        _check_context(context, workers)
        modules = _checked_preload(preload, context, workers)
        start_limit = _checked_timeout("start_timeout", start_timeout, workers)
        step_limit = _checked_timeout("step_timeout", step_timeout, workers)
        cores = _checked_affinity(affinity, workers)
        restarts = _checked_integer("max_restarts", max_restarts)
        seed = None if base_seed is None else _checked_integer("base_seed", base_seed)

        def make_rows() -> RowServer:
            if workers == 0:
                return LocalRows(EnvironmentRows(constructors, validate=validate))
            return WorkerRows(
                constructors,
                num_workers=workers,
                context=context or "forkserver",
                preload=modules,
                affinity=cores,
                start_serially=start_serially,
                blocking=blocking,
                shared_memory=shared_memory,
                validate=validate,
                start_timeout=start_limit,
                step_timeout=step_limit,
                wait_for_all=restarts > 0,
            )

        super().__init__(
            make_rows,
            num_constructors=len(constructors),
            validate=validate,
            copy=copy,
            max_restarts=restarts,
            base_seed=seed,
        )

    @property
    def envs(self) -> list[EnvironmentHandle]:
        """One handle for each constructor's environment."""
        return [
            EnvironmentHandle(
                functools.partial(self._ask_one, index),
                description.action_spec,
                description.time_step_spec,
            )
            for index, description in enumerate(self._rows.descriptions)
        ]

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process id of each row's worker, B entries; `()` in this process."""
        pids = self._rows.worker_pids
        return tuple(
            pid
            for pid, (first, end) in zip(pids, self._spans, strict=False)
            for _ in range(first, end)
        )

    def start(self) -> None:
        """Does nothing: the constructor has started the environments.

        It is there because TF-Agents has it.
        """

    def _ask_one(self, index: int, name: str, *arguments: Any) -> Callable[[], Any]:
        self._rows.check_open()
        with self._lock:
            self._complete()
            promise = self._rows.ask(index, name, *arguments)

        def answer() -> Any:
            with self._lock:
                try:
                    return promise()
                except BaseException as error:
                    self._judge(error)
                    raise

        return answer


def _checked_constructors(constructors: Any) -> tuple[Callable[[], Any], ...]:
    if not _is_sequence(constructors):
        raise TypeError(
            "env_constructors: expected a list of callables, got "
            f"{constructors!r:.200}. Write [{_name(constructors)}] * 8 for eight."
        )
    if len(constructors) == 0:
        raise ValueError("env_constructors: expected at least one, got none.")
    for position, constructor in enumerate(constructors):
        if not callable(constructor):
            raise TypeError(
                f"env_constructors[{position}]: expected a callable that makes an "
                f"environment, got {constructor!r:.200}. An environment itself cannot "
                "be sent to a process: pass its class, or a lambda that makes it."
            )
    return tuple(constructors)


def _name(thing: Any) -> str:
    return getattr(thing, "__name__", "constructor")


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name}: expected True or False, got {value!r}.")


def _checked_num_workers(num_workers: Any, num_constructors: int) -> int:
    if num_workers is None:
        return num_constructors
    return min(
        _checked_integer("num_workers", num_workers, "None or "), num_constructors
    )


def _checked_integer(name: str, value: Any, besides: str = "") -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise TypeError(
            f"{name}: expected {besides}an int of at least 0, got {value!r:.200}."
        )
    if number < 0:
        raise ValueError(f"{name}: expected at least 0, got {value}.")
    return number


def _checked_timeout(name: str, seconds: Any, num_workers: int) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, (bool, np.bool_)) or not isinstance(
        seconds, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"{name}: expected None or seconds, got {seconds!r}.")
    if not 0 < seconds < math.inf:
        raise ValueError(
            f"{name}: expected a finite number of seconds above 0, or None for no "
            f"limit, got {seconds}."
        )
    if num_workers == 0:
        raise ValueError(
            f"{name}: expected None, since num_workers=0 starts no process that could "
            f"be ended, got {seconds}."
        )
    # An integer may be larger than any float.
    return float(min(seconds, 10**300) if isinstance(seconds, int) else seconds)  # pyright: ignore[reportUnknownArgumentType]


def _check_context(context: Any, num_workers: int) -> None:
    if context not in _CONTEXTS:
        kind = ValueError if isinstance(context, str) else TypeError
        raise kind(
            f'context: expected None, "forkserver", "spawn" or "fork", got {context!r}.'
        )
    if context is not None and num_workers == 0:
        raise ValueError(
            f"context: expected None, since num_workers=0 starts no process, got "
            f"{context!r}."
        )
    if context == "fork":
        if facilities.is_portable():
            raise ValueError(
                'context: expected None or "spawn", got "fork", which needs Linux.'
            )
        refuse_other_threads()


def _checked_affinity(affinity: Any, num_workers: int) -> list[frozenset[int]]:
    if affinity is None:
        return []
    if num_workers == 0:
        raise ValueError(
            "affinity: expected None, since num_workers=0 starts no process, got "
            f"{affinity!r}."
        )
    if not hasattr(os, "sched_setaffinity"):
        raise ValueError(
            f"affinity: expected None, since {sys.platform} cannot tell a process on "
            f"which cores to run, got {affinity!r}."
        )
    usable = sorted(os.sched_getaffinity(0))
    entries = usable if isinstance(affinity, str) and affinity == "auto" else affinity
    if isinstance(entries, str) or not hasattr(entries, "__len__") or not len(entries):
        raise TypeError(
            f'affinity: expected None, "auto" or a list of cores, got {affinity!r}.'
        )
    return [_checked_cores(entry, usable) for entry in entries]


def _checked_cores(entry: Any, usable: Sequence[int]) -> frozenset[int]:
    cores = list(entry) if hasattr(entry, "__len__") else [entry]
    found = {_checked_integer("affinity", core, "cores, each ") for core in cores}
    if not found or not found.issubset(usable):
        raise ValueError(
            f"affinity: expected cores that this process may use, {list(usable)}, got "
            f"{entry!r}."
        )
    return frozenset(found)


def _checked_preload(
    preload: Any, context: str | None, num_workers: int
) -> tuple[str, ...]:
    items: list[Any] = list(preload) if _is_list_or_tuple(preload) else [preload, None]
    modules = tuple(name for name in items if isinstance(name, str))
    if len(modules) != len(items):
        raise TypeError(f"preload: expected a list of module names, got {preload!r}.")
    if modules and (num_workers == 0 or context in ("spawn", "fork")):
        raise ValueError(
            f"preload: expected no modules, got {list(modules)}: only workers forked "
            'from a clean process (context=None or "forkserver") can use them.'
        )
    for name in modules:
        if name == "__main__" or not _is_there(name.partition(".")[0]):
            raise ValueError(
                f"preload: expected names of modules to import, got {name!r}."
            )
    return modules


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_list_or_tuple(value: object) -> bool:
    return isinstance(value, (list, tuple))
