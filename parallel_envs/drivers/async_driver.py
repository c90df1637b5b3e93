"""The loop that steps some rows of a batch while a policy works on others."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from parallel_envs import py_policy, trajectory
from parallel_envs import time_step as ts
from parallel_envs.drivers import driver, limits
from parallel_envs.drivers.row_policy import RowPolicy
from parallel_envs.drivers.row_store import Rows, RowStore
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import nest

Nest = nest.Nest
EnvIds = npt.NDArray[np.int32]
RowObserver = Callable[[trajectory.Trajectory, EnvIds], object]
RowTransitionObserver = Callable[[trajectory.Transition, EnvIds], object]


class AsyncDriver(driver.Driver[RowObserver, RowTransitionObserver]):
    """Steps a batch by `send` and `recv`, so that policy and environments overlap.

    All rows are sent to first. Then those that are done first are received, half of
    them at a time; the policy chooses their actions, while the environments step the
    other half, and they are sent again: double buffering, as with EnvPool's `recv` and
    in Sample Factory. What is done first goes on first, so that slow rows hold up only
    themselves while they are fewer than half, and none is passed over.

    It pays where steps take unlike times, or where the policy takes long. Asking for
    rows by themselves costs 50 to 100 µs for each group: where environments are quicker
    than that, `PyDriver` is several times as fast.

    For each row the observers see what `PyDriver` would show them, the boundary from
    LAST to FIRST as well, and steps and episodes are counted as there. Rows come in
    other company at each call, so that an observer is told which they are:

        observer(trajectory, env_ids)       ReplayBuffer.add_batch, or a metric
    """

    def __init__(
        self,
        env: PyEnvironment,
        policy: py_policy.PolicyLike,
        observers: Sequence[RowObserver] | None,
        transition_observers: Sequence[RowTransitionObserver] | None = (),
        max_steps: int | None = None,
        max_episodes: int | None = None,
        end_episode_on_boundary: bool = True,
        *,
        rows_per_action: int | None = None,
    ) -> None:
        """Checks the parts; the environment is neither reset nor stepped yet.

        Args:
            env: A batch with `send` and `recv`, closed by whoever made it.
            policy: As in `PyDriver`; it is asked about some rows at a time.
            observers: Called with a `Trajectory`, its leaves `[n, ...]`, and the rows
                it is of, int32 `[n]`, while the environments step already. What they
                get is their own.
            transition_observers: Called, before those, with a `Transition` and the
                rows.
            max_steps: As in `PyDriver`.
            max_episodes: As in `PyDriver`.
            end_episode_on_boundary: As in `PyDriver`.
            rows_per_action: How many rows are received at a time, and the policy asked
                about, from 1 to B; None for half of them. With B all rows step
                together, as in `PyDriver`. Where k rows are far slower than the rest,
                at most B - k keeps the others going.

        Raises:
            TypeError: If `env` has no `send` and `recv`, `policy` is not a policy, an
                observer cannot be called with two arguments, or a number is not an
                integer.
            ValueError: If there is no limit, a negative one, or `rows_per_action` is
                out of range.
        """
        super().__init__(env, policy, observers, transition_observers)
        self._batch = _checked_batch(env)
        _check_take_env_ids("observers", self._observers)
        _check_take_env_ids("transition_observers", self._transition_observers)
        self._limits = limits.Limits(
            max_steps, max_episodes, end_episode_on_boundary=end_episode_on_boundary
        )
        num_rows = self._num_rows = self._batch.batch_size
        self._rows_per_action = _checked_count(rows_per_action, num_rows)
        self._structure = nest.Structure(env.time_step_spec(), "time_step")
        self._was_broken_off = False

    def run(
        self, time_step: ts.TimeStep | None = None, policy_state: Nest = ()
    ) -> tuple[ts.TimeStep, Nest]:
        """Steps until a limit is reached and all rows are at rest; blocks as `recv`.

        When a limit is reached nothing more is sent. What is outstanding is received
        and told to the observers, so that a run may go B - 1 steps past its limit.

        Args:
            time_step: Where the environment stands, all B rows of it. None goes on from
                `env.current_time_step()`, and resets an environment that has none, or
                where a run was broken off by an exception.
            policy_state: The policy's state there, `[B, ...]`; `()` for its initial
                one.

        Returns:
            The last time step of all B rows, and the policy's state there: to be handed
            to the next run, of this driver or of `PyDriver`. The state of a row begins
            anew with each episode. What has B rows in a state is kept by row, in NumPy
            arrays; anything else goes from one call of the policy to the next.

        Raises:
            WorkerError: If an environment failed; the next run resets.
        """
        if time_step is None:
            time_step = self._start()
        if driver.is_empty(policy_state):
            policy_state = self._initial_state()
        self._was_broken_off = True
        policy = RowPolicy(
            self._policy,
            self._env.action_spec(),
            self._num_rows,
            policy_state,
            tells_states=bool(self._transition_observers),
        )
        last = RowStore(self._structure, time_step, self._num_rows)
        self._exchange(last, policy, time_step)
        self._was_broken_off = False
        return last.all(), policy.state()

    def _start(self) -> ts.TimeStep:
        # Rows may be under way, or at different steps.
        return self._env.reset() if self._was_broken_off else self._current_time_step()

    def _exchange(
        self, last: RowStore, policy: RowPolicy, time_step: ts.TimeStep
    ) -> None:
        """Sends and receives until a limit is reached and nothing is outstanding."""
        blocks = _Blocks(_block_sizes(self._batch))
        tally = limits.Tally(self._limits)
        self._send(policy, time_step, np.arange(self._num_rows))
        num_outstanding = self._num_rows
        while num_outstanding:
            count = num_outstanding if tally.is_full else self._rows_per_action
            time_step, env_ids = self._batch.recv(min(count, num_outstanding))
            rows = env_ids.astype(np.intp)
            transition = trajectory.Transition(
                last.take(rows), policy.answers(rows), time_step
            )
            last.put(rows, time_step)
            _count(tally, transition)
            _begin_anew(policy, rows, time_step)
            num_outstanding -= len(rows)
            if not tally.is_full:
                ready = blocks.completed(rows)
                if ready is not rows:
                    time_step = last.take(ready)
                self._send(policy, time_step, ready)
                num_outstanding += len(ready)
            self._notify(transition, env_ids)

    def _send(self, policy: RowPolicy, time_step: ts.TimeStep, rows: Rows) -> None:
        if len(rows):
            policy_step = policy.action(time_step, rows)
            self._batch.send(policy_step.action, rows)
            policy.keep(policy_step, rows)

    def _notify(self, transition: trajectory.Transition, env_ids: EnvIds) -> None:
        for transition_observer in self._transition_observers:
            transition_observer(transition, env_ids)
        if self._observers:
            step = trajectory.from_transition(*transition)
            for observer in self._observers:
                observer(step, env_ids)


class _Batch(Protocol):
    @property
    def batch_size(self) -> int: ...

    def send(self, action: Nest, env_ids: Rows) -> None: ...

    def recv(self, n: int) -> tuple[ts.TimeStep, EnvIds]: ...


class _Blocks:
    """Tells when all rows of a batched environment were received: they go together."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = np.array(sizes)
        self._is_single = bool((self._sizes == 1).all())
        self._block_of = np.repeat(np.arange(len(sizes)), sizes)
        self._waiting: Rows = np.zeros(0, np.intp)

    def completed(self, rows: Rows) -> Rows:
        """Takes in rows that were received; returns those whose block is complete."""
        if self._is_single:
            return rows
        waiting = np.concatenate([self._waiting, rows])
        blocks = self._block_of[waiting]
        num_received = np.bincount(blocks, minlength=len(self._sizes))
        is_complete = (num_received == self._sizes)[blocks]
        self._waiting = waiting[~is_complete]
        return waiting[is_complete]


def _count(tally: limits.Tally, transition: trajectory.Transition) -> None:
    before = transition.time_step.step_type
    num_last = driver.count_last(transition.next_time_step.step_type)
    tally.add(len(before), driver.count_last(before), num_last)


def _begin_anew(policy: RowPolicy, rows: Rows, time_step: ts.TimeStep) -> None:
    is_first = np.equal(time_step.step_type, ts.StepType.FIRST)
    if np.count_nonzero(is_first):
        policy.begin_anew(rows[is_first])


def _checked_batch(env: Any) -> _Batch:
    # On the class: a wrapper finds those of the batch inside, and is passed by then.
    kind = cast(Any, type(env))
    if not (hasattr(kind, "send") and hasattr(kind, "recv")):
        raise TypeError(
            "env: expected a batch with send() and recv(), a ParallelPyEnvironment for "
            f"example, got {env!r}. PyDriver steps any environment. Wrappers go inside "
            "of a batch here: ParallelPyEnvironment([lambda: Wrapper(make_env())] * 8)."
        )
    return cast(_Batch, env)


def _check_take_env_ids(name: str, observers: Sequence[Callable[..., object]]) -> None:
    for position, observer in enumerate(observers):
        try:
            signature = inspect.signature(observer)
        except (TypeError, ValueError):  # Compiled functions may have none.
            continue
        try:
            signature.bind("step", "env_ids")
        except TypeError:
            raise TypeError(
                f"{name}[{position}]: expected something that can be called with two "
                "arguments, a step and the rows it is of, got "
                f"{getattr(observer, '__name__', repr(observer))}{signature}."
            ) from None


def _checked_count(rows_per_action: int | None, num_rows: int) -> int:
    if rows_per_action is None:
        return max(1, num_rows // 2)
    try:
        count = operator.index(rows_per_action)
    except TypeError:
        raise TypeError(
            f"rows_per_action: expected an int or None, got {rows_per_action!r}."
        ) from None
    if not 1 <= count <= num_rows:
        raise ValueError(
            f"rows_per_action: expected 1 to {num_rows}, the rows of the batch, got "
            f"{count}."
        )
    return count


def _block_sizes(batch: Any) -> list[int]:
    """Returns how many rows the environment of each constructor has."""
    num_rows = batch.batch_size
    if len(getattr(batch, "envs", range(num_rows))) == num_rows:
        return [1] * num_rows
    return [size or 1 for size in batch.get_attr("batch_size")]
