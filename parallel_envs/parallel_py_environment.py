"""A batch of environments in worker processes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from parallel_envs import time_step as ts
from parallel_envs.batch import arguments
from parallel_envs.batch.environment_batch import EnvironmentBatch
from parallel_envs.batch.environment_handle import EnvironmentHandle
from parallel_envs.batch.environment_rows import Description, EnvironmentRows
from parallel_envs.batch.local_rows import LocalRows
from parallel_envs.batch.row_server import RowServer
from parallel_envs.batch.worker_rows import WorkerRows
from parallel_envs.specs import nest


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
        max_concurrency: int | None = None,
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
            max_concurrency: How many environments step or reset at a time; None for as
                many as there are workers. Those that wait begin as others are done.
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
        constructors = arguments.checked_constructors(env_constructors)
        for name, value in {
            "start_serially": start_serially,
            "blocking": blocking,
            "flatten": flatten,
            "shared_memory": shared_memory,
            "copy": copy,
            "validate": validate,
        }.items():
            arguments.check_bool(name, value)
        workers = arguments.checked_num_workers(num_workers, len(constructors))
        arguments.check_context(context, workers)
        modules = arguments.checked_preload(preload, context, workers)
        start_limit = arguments.checked_timeout("start_timeout", start_timeout, workers)
        step_limit = arguments.checked_timeout("step_timeout", step_timeout, workers)
        concurrency = arguments.checked_concurrency(max_concurrency)
        cores = arguments.checked_affinity(affinity, workers)
        restarts = arguments.checked_integer("max_restarts", max_restarts)
        seed = (
            None
            if base_seed is None
            else arguments.checked_integer("base_seed", base_seed)
        )

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
                max_concurrency=1 if blocking else concurrency,
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
                functools.partial(self._specs_of, description),
                self._time_step_type,
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

    def _specs_of(self, description: Description) -> tuple[nest.Nest, ts.TimeStep]:
        """Returns the specs of an action and of a time step, as a handle tells them."""
        return description.action_spec, description.time_step_spec

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
