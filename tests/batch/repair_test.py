"""What a row says when its environment fails and is replaced."""

from __future__ import annotations

import functools
import os
import pathlib
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import errors
from parallel_envs import time_step as ts
from parallel_envs.process import facilities
from parallel_envs.testing import environments
from tests import waiting

FIRST, MID, LAST = 0, 1, 2

PROCESSES: dict[str, dict[str, Any]] = {
    "a worker each": {},
    "one worker": {"num_workers": 1},
    "two workers": {"num_workers": 2},
    "sockets": {"shared_memory": False, "num_workers": 2},
    "blocking": {"blocking": True},
    "spawn": {"context": "spawn"},
    "portable": {"num_workers": 2},
}
EVERYWHERE = {**PROCESSES, "no workers": {"num_workers": 0}}


@pytest.fixture(params=EVERYWHERE)
def options(request: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if request.param == "portable":
        monkeypatch.setenv(facilities.VARIABLE, "1")
    return {"max_restarts": 9, **EVERYWHERE[request.param]}


@pytest.fixture(params=PROCESSES)
def process_options(request: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if request.param == "portable":
        monkeypatch.setenv(facilities.VARIABLE, "1")
    return {"max_restarts": 9, **PROCESSES[request.param]}


class Faulty(environments.Counting):
    """Does something bad in step `at` of its first life; a file tells of that life."""

    def __init__(
        self, index: int, folder: pathlib.Path, fault: Callable[[], Any], at: int = 2
    ) -> None:
        super().__init__(index, length=4)
        self._file = folder / f"lived-{index}"
        self._fault, self._at = fault, at

    def _step(self, action: Any) -> ts.TimeStep:
        if self.t + 1 == self._at and not self._file.exists():
            self._file.touch()
            self._fault()
        return super()._step(action)


def raise_error() -> None:
    raise ValueError("bad state 7")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse_attempts(counter: pathlib.Path, refused: tuple[int, ...]) -> None:
    """Counts its calls in a file, whatever process they are from; some raise."""
    with counter.open("a") as file:
        file.write("x")
    if len(counter.read_text()) in refused:
        raise OSError("the port is taken")


def three(folder: pathlib.Path, fault: Callable[[], Any]) -> list[Callable[[], Any]]:
    """Returns constructors of which the second makes a faulty environment."""
    return [
        functools.partial(environments.Counting, 0, 4),
        functools.partial(Faulty, 1, folder, fault),
        functools.partial(environments.Counting, 2, 4),
    ]


def rollout(env: Any, num_steps: int) -> tuple[list[list[int]], list[list[int]]]:
    """Returns step types and what was counted, by row."""
    action = np.zeros(env.batch_size, np.int64)
    steps = [env.reset(), *(env.step(action) for _ in range(num_steps))]
    types = np.stack([step.step_type for step in steps], axis=1)
    counted = np.stack([step.observation[:, 2] for step in steps], axis=1)
    return types.tolist(), counted.tolist()


def test_an_exception_ends_the_episode_of_its_own_row(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    with pe.ParallelPyEnvironment(three(tmp_path, raise_error), **options) as env:
        types, counted = rollout(env, 5)
        failures = env.failures

    assert types[0] == types[2] == [FIRST, MID, MID, MID, LAST, FIRST]
    assert types[1] == [FIRST, MID, LAST, FIRST, MID, MID]
    assert counted[1] == [0, 1, 1, 0, 1, 2]
    (failure,) = failures
    assert (failure.index, failure.indices) == (1, (1,))
    assert (failure.kind, failure.doing, failure.exitcode) == ("raised", "step", None)
    assert (
        failure.message == "environment 1 raised ValueError('bad state 7') during step."
    )
    assert "raise_error" in failure.traceback
    assert (failure.num_rounds, failure.num_restarts) == (2, 1)
    assert failure.is_repaired


def test_a_death_ends_the_episodes_of_all_rows_of_the_process(
    process_options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    with pe.ParallelPyEnvironment(three(tmp_path, die), **process_options) as env:
        pids = env.worker_pids
        types, counted = rollout(env, 5)
        after = env.worker_pids
        (failure,) = env.failures

    lost = [row for row in range(3) if pids[row] == pids[1]]
    assert failure.indices == tuple(lost)
    assert (failure.index, failure.kind, failure.exitcode) == (1, "died", -9)
    for row in range(3):
        is_lost = row in lost
        expected = [FIRST, MID, LAST, FIRST, MID, MID]
        assert types[row] == (expected if is_lost else [FIRST, MID, MID, MID, LAST, 0])
        assert counted[row][:4] == ([0, 1, 1, 0] if is_lost else [0, 1, 2, 3])
        assert (pids[row] != after[row]) == is_lost


def test_a_death_between_two_steps_ends_the_episode(
    process_options: dict[str, Any],
) -> None:
    makers = [functools.partial(environments.Counting, i, 9) for i in range(3)]
    with pe.ParallelPyEnvironment(makers, **process_options) as env:
        env.reset()
        env.step(np.zeros(3, np.int64))
        lost = [row for row in range(3) if env.worker_pids[row] == env.worker_pids[1]]
        os.kill(env.worker_pids[1], signal.SIGKILL)
        started = time.monotonic()

        step = env.step(np.zeros(3, np.int64))
        seconds = time.monotonic() - started
        following = env.step(np.zeros(3, np.int64))

    assert seconds < 1.0
    for row in range(3):
        assert step.step_type[row] == (LAST if row in lost else MID)
        assert following.step_type[row] == (FIRST if row in lost else MID)
        assert following.observation[row, 2] == (0 if row in lost else 3)


def test_what_is_said_then_is_a_last_step_without_reward(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    with pe.ParallelPyEnvironment(three(tmp_path, raise_error), **options) as env:
        env.reset()
        before = env.step(np.zeros(3, np.int64))
        expected = before.observation[1].tolist()
        for leaf in before:
            leaf[...] = 9  # The caller may do as he likes with what he was given.

        crashed = env.step(np.zeros(3, np.int64))
        marks = [info.get("crashed") for info in env.get_info()]
        first = env.step(np.zeros(3, np.int64))
        later = env.get_info()

    assert [leaf[1].tolist() for leaf in crashed] == [LAST, 0.0, 1.0, expected]
    assert crashed.observation[[0, 2], 2].tolist() == [2, 2]
    assert marks == [None, True, None]
    assert [leaf[1].tolist() for leaf in first] == [FIRST, 0.0, 1.0, [1, 0, 0]]
    assert later == [
        {"episode": 0, "t": 3},
        {"episode": 0, "t": 0},
        {"episode": 0, "t": 3},
    ]


class FaultyInReset(environments.Counting):
    """Does something bad in the reset of an episode, in its first life."""

    def __init__(
        self, index: int, folder: pathlib.Path, fault: Callable[[], Any], episode: int
    ) -> None:
        super().__init__(index, length=2)
        self._file = folder / "lived"
        self._fault, self._bad = fault, episode

    def _reset(self) -> ts.TimeStep:
        time_step = super()._reset()
        if self.episode == self._bad and not self._file.exists():
            self._file.touch()
            self._fault()
        return time_step


@pytest.mark.parametrize("episode", [0, 1])
def test_a_failure_in_a_reset_gives_the_first_step_of_the_new_environment(
    options: dict[str, Any], tmp_path: pathlib.Path, episode: int
) -> None:
    fault = raise_error if options.get("num_workers") == 0 else die
    makers = [
        functools.partial(FaultyInReset, 0, tmp_path, fault, episode),
        functools.partial(environments.Counting, 1, 2),
    ]
    with pe.ParallelPyEnvironment(makers, **options) as env:
        shares = len(set(env.worker_pids)) == 1 and fault is die
        action = np.zeros(2, np.int64)
        steps, marks = [env.reset()], [[i.get("crashed") for i in env.get_info()]]
        for _ in range(4):
            steps.append(env.step(action))
            marks.append([i.get("crashed") for i in env.get_info()])
        doing = [failure.doing for failure in env.failures]

    assert [int(step.step_type[0]) for step in steps] == [0, 1, 2, 0, 1]
    assert [int(step.step_type[1]) for step in steps] == [0, 1, 2, 0, 1]
    at = 3 * episode
    expected: list[list[bool | None]] = [[None, None] for _ in range(5)]
    expected[at] = [True, True if shares else None]
    assert marks == expected
    assert doing == ["reset" if episode == 0 else "step"]


class Rows(pe.PyEnvironment):
    """Two rows that count side by side; the second is two steps ahead of the first."""

    def __init__(self, folder: pathlib.Path, fault: Callable[[], Any]) -> None:
        super().__init__()
        self._file, self._fault = folder / "lived", fault
        self._t = np.zeros(2, np.int64)

    @property
    def batched(self) -> bool:
        return True

    @property
    def batch_size(self) -> int:
        return 2

    def observation_spec(self) -> Any:
        return pe.ArraySpec((), np.int64, "t")

    def action_spec(self) -> Any:
        return pe.BoundedArraySpec((), np.int64, 0, 9)

    def _reset(self) -> ts.TimeStep:
        self._t = np.array([0, 2])
        return ts.restart(self._t.copy(), batch_size=2)

    def _step(self, action: Any) -> ts.TimeStep:
        # Ends at 4: the second row after two steps.
        over = self._t == 4
        self._t = np.where(over, 0, self._t + 1)
        if not self._file.exists() and over.any():
            self._file.touch()
            self._fault()
        kind = np.where(over, FIRST, np.where(self._t == 4, LAST, MID))
        ones = np.ones(2, np.float32)
        return ts.TimeStep(kind.astype(np.int32), ones * ~over, ones, self._t.copy())


def test_rows_of_one_environment_in_different_phases_keep_their_episodes_apart(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    makers = [functools.partial(Rows, tmp_path, raise_error)]
    with pe.ParallelPyEnvironment(makers, **options) as env:
        steps = [env.reset(), *(env.step(np.zeros(2, np.int64)) for _ in range(6))]

    types = np.stack([step.step_type for step in steps], axis=1).tolist()
    counted = np.stack([step.observation for step in steps], axis=1).tolist()
    assert types[0] == [FIRST, MID, MID, LAST, FIRST, MID, MID]
    assert types[1] == [FIRST, MID, LAST, FIRST, MID, MID, LAST]
    assert counted[0] == [0, 1, 2, 2, 0, 1, 2]
    assert counted[1] == [2, 3, 4, 2, 2, 3, 4]


def test_past_the_limit_the_error_is_raised_and_reset_goes_on(
    options: dict[str, Any],
) -> None:
    options["max_restarts"] = 2
    makers = [
        functools.partial(environments.RaisingInStep, 0, 9, at=2),
        functools.partial(environments.Counting, 1, 9),
    ]
    with pe.ParallelPyEnvironment(makers, **options) as env:
        types, _ = rollout(env, 7)
        with pytest.raises(
            pe.WorkerError, match=r"bad state 1.*max_restarts=2"
        ) as info:
            env.step(np.zeros(2, np.int64))
        with pytest.raises(RuntimeError, match=r"Call reset\(\) first"):
            env.step(np.zeros(2, np.int64))
        again = env.reset()
        failures = env.failures

    assert types[0] == [FIRST, MID, LAST, FIRST, MID, LAST, FIRST, MID]
    assert info.value.index == 0
    assert again.step_type.tolist() == [FIRST, FIRST]
    assert [failure.is_repaired for failure in failures] == [True, True, False]
    assert [failure.num_restarts for failure in failures] == [1, 2, 2]


def test_only_the_environment_at_fault_uses_up_a_restart(
    tmp_path: pathlib.Path,
) -> None:
    makers = [functools.partial(Faulty, i, tmp_path, die, at=i + 2) for i in range(2)]
    with pe.ParallelPyEnvironment(makers, num_workers=1, max_restarts=1) as env:
        types, _ = rollout(env, 7)
        failures = env.failures

    assert types[0] == types[1] == [0, 1, 2, 0, 1, 1, 2, 0]
    assert [failure.index for failure in failures] == [0, 1]
    assert [failure.num_restarts for failure in failures] == [1, 1]


def test_a_constructor_that_fails_is_tried_again_after_a_growing_pause(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    def make() -> pe.PyEnvironment:
        refuse_attempts(tmp_path / "attempts", (1, 2, 3))
        return environments.Counting(1)

    started = time.monotonic()
    with pe.ParallelPyEnvironment([environments.Counting, make], **options) as env:
        seconds = time.monotonic() - started
        first = env.reset()
        failures = env.failures

    assert first.observation[:, 0].tolist() == [0, 1]
    assert [failure.doing for failure in failures] == ["construction"] * 3
    assert {failure.index for failure in failures} == {1}
    assert seconds > 0.1 + 0.2


def test_a_constructor_that_always_fails_is_given_up(options: dict[str, Any]) -> None:
    options["max_restarts"] = 2
    makers = [environments.Counting, environments.RaisingInConstructor]

    with pytest.raises(pe.WorkerError, match="max_restarts=2") as info:
        pe.ParallelPyEnvironment(makers, **options)

    assert info.value.index == 1
    assert isinstance(info.value.__cause__, RuntimeError)


def test_a_process_that_is_lost_before_it_has_rows_is_replaced(
    process_options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    pid_file = tmp_path / "pid"

    def make_first() -> pe.PyEnvironment:
        pid_file.write_text(str(os.getpid()))
        return environments.Counting(0)

    def make_second() -> pe.PyEnvironment:
        # The first was made before this one, and in a process of its own.
        if int(pid_file.read_text()) != os.getpid():
            os.kill(int(pid_file.read_text()), signal.SIGKILL)
        return environments.Counting(1)

    makers = [make_first, make_second]
    process_options |= {"start_serially": True, "num_workers": 2}
    with pe.ParallelPyEnvironment(makers, **process_options) as env:
        first = env.reset()
        failures = env.failures

    assert first.observation[:, 0].tolist() == [0, 1]
    assert [(each.index, each.kind) for each in failures] == [(0, "died")]


def test_a_process_that_is_lost_when_it_is_first_seeded_is_replaced(
    process_options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    class Seeded(environments.Drawing):
        def seed(self, seed: Any = None) -> Any:
            if not (tmp_path / "tried").exists():
                (tmp_path / "tried").touch()
                die()
            return super().seed(seed)

    makers = [environments.Drawing, Seeded]
    with pe.ParallelPyEnvironment(makers, base_seed=1, **process_options) as env:
        env.reset()
        failures = env.failures

    assert [(each.index, each.kind) for each in failures] == [(1, "died")]


def test_without_restarts_what_is_lost_when_it_is_first_seeded_is_told() -> None:
    class Seeded(environments.Drawing):
        def seed(self, seed: Any = None) -> Any:
            die()

    with pytest.raises(pe.WorkerDiedError, match=r"during seed: .*SIGKILL") as info:
        pe.ParallelPyEnvironment([environments.Drawing, Seeded], base_seed=1)

    assert info.value.indices == (1,)


def test_a_replacement_that_cannot_be_made_is_tried_again(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    def make() -> pe.PyEnvironment:
        refuse_attempts(tmp_path / "attempts", (2, 3))
        return Faulty(0, tmp_path, raise_error)

    with pe.ParallelPyEnvironment([make, environments.Counting], **options) as env:
        types, _ = rollout(env, 3)
        doing = [failure.doing for failure in env.failures]

    assert types[0] == [FIRST, MID, LAST, FIRST]
    assert doing == ["step", "construction", "construction"]


def test_nests_and_leaves_of_varying_size_say_their_last_value(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    class Tree(Faulty):
        def observation_spec(self) -> Any:
            return {
                "size": pe.ArraySpec((None,), np.int64),
                "pair": (pe.ArraySpec((), np.int64), pe.ArraySpec((2,), np.float32)),
            }

        def _observation(self) -> Any:
            size = np.arange(self.t + self.index)
            return {"size": size, "pair": (self.t, np.full(2, self.t, np.float32))}

    makers = [
        functools.partial(Tree, 0, tmp_path, raise_error, at=9),
        functools.partial(Tree, 1, tmp_path, raise_error),
    ]
    with pe.ParallelPyEnvironment(makers, **options) as env:
        env.reset()
        env.step(np.zeros(2, np.int64))
        step = env.step(np.zeros(2, np.int64))
        first = env.step(np.zeros(2, np.int64))

    sizes = [[len(row) for row in each.observation["size"]] for each in (step, first)]
    assert sizes == [[2, 2], [3, 1]]
    assert step.observation["pair"][0].tolist() == [2, 1]
    assert step.observation["pair"][1].tolist() == [[2, 2], [1, 1]]


def test_a_value_that_does_not_fit_is_a_failure_like_others(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    class Misfit(Faulty):
        def _observation(self) -> Any:
            fits = self.t != 2 or (self._file.exists() and self.episode > 0)
            self._file.touch()
            return super()._observation() if fits else np.zeros(5)

    makers = [functools.partial(Misfit, 0, tmp_path, raise_error, at=0)]
    with pe.ParallelPyEnvironment(makers, **options) as env:
        types, counted = rollout(env, 3)
        (failure,) = env.failures

    assert types == [[FIRST, MID, LAST, FIRST]]
    assert counted == [[0, 1, 1, 0]]
    assert "observation does not fit its spec: expected int64 of shape (3,)" in (
        failure.message
    )


def test_the_seed_of_a_replacement_is_derived_and_never_repeats() -> None:
    class Failing(environments.Drawing):
        def _step(self, action: Any) -> ts.TimeStep:
            raise ValueError("always")

    def draws(**options: Any) -> list[list[int]]:
        makers = [Failing, functools.partial(environments.Drawing, 1)]
        with pe.ParallelPyEnvironment(makers, max_restarts=9, **options) as env:
            env.seed([5, 6])
            steps = [env.reset(), *(env.step(np.zeros(2, np.int64)) for _ in range(8))]
        return [step.observation[0].tolist() for step in steps]

    runs = [draws(), draws(num_workers=1), draws(num_workers=0), draws(blocking=True)]

    assert runs[0] == runs[1] == runs[2] == runs[3]
    starts = runs[0][::2]
    assert len({tuple(each) for each in starts}) == len(starts) == 5


def test_a_new_worker_after_a_reset_has_a_seed_of_its_own() -> None:
    with pe.ParallelPyEnvironment([environments.Drawing] * 2, base_seed=3) as env:
        before = env.reset().observation
        os.kill(env.worker_pids[1], signal.SIGKILL)
        with pytest.raises(pe.WorkerDiedError):
            env.step(np.zeros(2, np.int64))
        after = env.reset().observation

    assert before[1].tolist() != after[1].tolist()


def test_methods_reach_the_new_environment(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    with pe.ParallelPyEnvironment(three(tmp_path, raise_error), **options) as env:
        env.reset()
        for _ in range(2):
            env.step(np.zeros(3, np.int64))

        assert env.get_attr("t") == [2, 0, 2]
        assert env.envs[1].call("get_info")() == {"episode": -1, "t": 0}
        assert env.step(np.zeros(3, np.int64)).step_type.tolist() == [MID, FIRST, MID]


def test_a_death_in_a_method_is_raised_and_repaired_with_the_next_step(
    process_options: dict[str, Any],
) -> None:
    class Fragile(environments.Counting):
        def break_down(self) -> None:
            if self.index == 1:
                os._exit(4)

    makers = [functools.partial(Fragile, index, 9) for index in range(2)]
    with pe.ParallelPyEnvironment(makers, **process_options) as env:
        env.reset()
        env.step(np.zeros(2, np.int64))
        with pytest.raises(pe.WorkerDiedError, match="during call") as info:
            env.call("break_down")
        step = env.step(np.zeros(2, np.int64))

    assert 1 in info.value.indices
    assert step.step_type[1] == LAST
    assert step.observation[1].tolist() == [1, 0, 1]


def test_episodes_are_counted_as_if_nothing_had_happened(
    tmp_path: pathlib.Path,
) -> None:
    with pe.ParallelPyEnvironment(three(tmp_path, die), max_restarts=1) as env:
        policy = pe.RandomPyPolicy(env.time_step_spec(), env.action_spec(), seed=0)
        buffer = pe.ReplayBuffer(capacity=100, num_streams=3)
        returns = pe.metrics.EpisodeReturns(3)
        driver = pe.PyDriver(env, policy, [buffer.add_batch, returns], max_episodes=3)
        driver.run()
        finished = returns.finished()

    assert finished[0] == (1, 1.0)  # What was earned before the environment was lost.
    assert {row for row, _ in finished} == {0, 1, 2}
    assert [value for row, value in finished if row != 1] == [10.0, 10.0]


def test_without_restarts_a_failure_is_recorded_and_raised() -> None:
    with pe.ParallelPyEnvironment([environments.RaisingInStep]) as env:
        env.reset()
        with pytest.raises(pe.WorkerError):
            env.step(np.zeros(1, np.int64))
        (failure,) = env.failures

    assert (failure.kind, failure.is_repaired, failure.num_restarts) == (
        "raised",
        False,
        0,
    )


def test_what_is_lost_between_two_resets_is_recorded_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pe.ParallelPyEnvironment([environments.Counting] * 2) as env:
        env.reset()
        os.kill(env.worker_pids[1], signal.SIGKILL)
        waiting.wait_for_end(env.worker_pids[1:])
        env.reset()
        env.reset()
        (failure,) = env.failures

    assert (failure.index, failure.kind, failure.is_repaired) == (1, "died", True)
    assert failure.message in caplog.text


def test_each_repair_is_logged(
    options: dict[str, Any], tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pe.ParallelPyEnvironment(three(tmp_path, raise_error), **options) as env:
        rollout(env, 3)
        (failure,) = env.failures

    assert caplog.messages == [f"{failure.message} It is made anew."]


def test_a_record_tells_how_many_rounds_went_before(tmp_path: pathlib.Path) -> None:
    with pe.ParallelPyEnvironment(
        three(tmp_path, raise_error), max_restarts=1, num_workers=0
    ) as env:
        rollout(env, 3)
        (failure,) = env.failures

    assert failure.num_rounds == 1 + 1  # A reset and a step; the next step failed.


def test_info_of_a_row_whose_process_is_gone_is_empty_until_that_is_told(
    process_options: dict[str, Any],
) -> None:
    with pe.ParallelPyEnvironment(
        [environments.Counting] * 4, **process_options
    ) as env:
        env.reset()
        pids = env.worker_pids
        os.kill(pids[1], signal.SIGKILL)
        alive = [pid != pids[1] for pid in pids]

        infos = env.get_info()
        step = env.step(np.zeros(4, np.int64))
        crashed = [info.get("crashed", False) for info in env.get_info()]

    assert [bool(info) for info in infos] == alive
    assert [each == LAST for each in step.step_type] == [not each for each in alive]
    assert crashed == [not each for each in alive]


def test_all_environments_may_fail_at_once(process_options: dict[str, Any]) -> None:
    makers = [functools.partial(environments.Dying, index, 9, 2) for index in range(3)]
    with pe.ParallelPyEnvironment(makers, **process_options) as env:
        env.reset()
        env.step(np.zeros(3, np.int64))
        if len(set(env.worker_pids)) == 3:
            step = env.step(np.zeros(3, np.int64))
            following = env.step(np.zeros(3, np.int64))

            assert step.step_type.tolist() == [LAST] * 3
            assert following.step_type.tolist() == [FIRST] * 3
            assert len(env.failures) == 3


def test_the_loss_of_what_starts_workers_is_repaired() -> None:
    makers = [functools.partial(environments.Endless, i) for i in range(2)]
    with pe.ParallelPyEnvironment(makers, max_restarts=2) as env:
        env.reset()
        env.step(np.zeros(2, np.int64))
        status = pathlib.Path(f"/proc/{env.worker_pids[0]}/status").read_text()
        (nursery,) = [
            int(line.split()[1]) for line in status.splitlines() if line[:5] == "PPid:"
        ]
        os.kill(nursery, signal.SIGKILL)
        steps: list[list[int]] = []
        # Workers die a moment after it, and each with its own step done or not.
        while len(env.failures) < 2 or len(steps) < 3 or steps[-1] != [MID, MID]:
            steps.append(env.step(np.zeros(2, np.int64)).step_type.tolist())
        failures = env.failures

    for row in range(2):
        types = [step[row] for step in steps]
        assert types.count(LAST) >= 1
        last = types.index(LAST)
        assert types[: last + 2] == [MID] * last + [LAST, FIRST]
    assert {failure.kind for failure in failures} == {"died"}


def test_errors_are_of_the_kinds_that_they_are_said_to_be() -> None:
    assert issubclass(errors.WorkerTimeoutError, TimeoutError)
    assert issubclass(errors.WorkerDiedError, errors.WorkerError)
