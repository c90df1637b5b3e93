"""The command as people run it, on CartPole, in processes of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest

from parallel_envs import summaries, trajectory
from parallel_envs.replay import ReplayBuffer

COMMAND = [sys.executable, "-m", "parallel_envs"]
CARTPOLE = ["collect", "--env=CartPole-v1", "--num_envs=2", "--num_workers=1"]
ENDLESS = [*CARTPOLE, "--num_steps=1000000000", "--logdir=run", "--save_every=0.3"]

MODULE = """
import os
import pathlib
import signal
import threading

import gymnasium
import numpy as np

from parallel_envs import py_policy, trajectory


def make_env():
    return gymnasium.make("CartPole-v1", max_episode_steps=5)


def hopeless_env():
    raise RuntimeError("no licence")


def push_right(time_step_spec, action_spec):
    return lambda time_step: np.ones(time_step.step_type.shape, action_spec.dtype)


class Counting(py_policy.PyPolicy):
    def __init__(self, time_step_spec, action_spec, seed=None):
        super().__init__(time_step_spec, action_spec)
        print("seed", seed)

    def _action(self, time_step, policy_state, seed=None):
        return trajectory.PolicyStep(np.zeros(time_step.step_type.shape, np.int64))


def failing(time_step_spec, action_spec):
    def act(time_step):
        act.calls += 1
        if act.calls > 20:
            raise KeyError("weights")
        return np.zeros(time_step.step_type.shape, np.int64)

    act.calls = 0
    return act


def unfit(time_step_spec, action_spec):
    return lambda time_step: np.full(time_step.step_type.shape, 7)


class Plain:
    # What a policy is at least, of no class of ours.

    def __init__(self, time_step_spec, action_spec):
        pass

    def action(self, time_step, policy_state):
        return trajectory.PolicyStep(np.ones(time_step.step_type.shape, np.int64))


class Stepless(Plain):
    def action(self, time_step, policy_state):
        return np.ones(time_step.step_type.shape, np.int64)


def bare(time_step):
    return 0


made = Plain(None, None)


def two_arguments(time_step_spec, action_spec):
    return lambda time_step, policy_state: 0


class Jammed(gymnasium.Wrapper):
    def step(self, action):
        self.num_steps = getattr(self, "num_steps", 0) + 1
        if self.num_steps > 5:
            raise RuntimeError("motor jammed")
        return self.env.step(action)


def jammed_env():
    return Jammed(make_env())


made_envs = []


def differing_env():
    made_envs.append(1)
    return gymnasium.make(["CartPole-v1", "Pendulum-v1"][len(made_envs) % 2])


def nothing(time_step_spec, action_spec):
    return 3


class Mortal(gymnasium.Wrapper):
    # Each process makes 14 steps, and ends in the next one.

    num_steps = 0

    def step(self, action):
        self.num_steps += 1
        if self.num_steps == 15:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.env.step(action)


def mortal_env():
    return Mortal(make_env())


def hang():
    pathlib.Path("hung").touch()
    threading.Event().wait()


class HangingOnce(gymnasium.Wrapper):
    num_steps = 0

    def step(self, action):
        self.num_steps += 1
        if self.num_steps == 3 and not pathlib.Path("hung").exists():
            hang()
        return self.env.step(action)


def hanging_env():
    return HangingOnce(make_env())


def pondering(time_step_spec, action_spec):
    def act(time_step):
        act.calls += 1
        if act.calls == 3:
            hang()
        return np.zeros(time_step.step_type.shape, np.int64)

    act.calls = 0
    return act
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "my_module.py").write_text(MODULE)
    return tmp_path


def test_run_leaves_a_replay_summaries_and_event_files(folder: pathlib.Path) -> None:
    ended = run(folder, *CARTPOLE, "--num_steps=500", "--logdir=run", "--seed=1")

    assert ended.returncode == 0, ended.stderr
    summary = read_json(folder / "run" / "summary.json")
    buffer = load(folder / "run")
    rows = list(buffer.iterate_episodes(complete=False))
    num_steps = sum(int((row.step_type != 2).sum()) for row in rows)
    assert summary["outcome"] == "finished"
    assert num_steps == summary["steps"] in (500, 501)
    assert len(buffer) == summary["replay_rows"]
    assert buffer.num_episodes() == summary["episodes"] > 5
    assert isinstance(buffer.sample(1), trajectory.Trajectory)
    points = summaries.read_scalars(folder / "run")
    last = {tag: (step, value) for tag, step, value in points}
    assert last["Metrics/NumberOfEpisodes"] == (num_steps, summary["episodes"])
    assert last["Metrics/AverageReturn"][1] == pytest.approx(  # pyright: ignore[reportUnknownMemberType]
        summary["return"]["last_100_mean"]
    )


def test_output_that_is_no_terminal_is_plain(folder: pathlib.Path) -> None:
    ended = run(folder, *CARTPOLE, "--num_steps=100", "--logdir=run")

    assert "\x1b" not in ended.stdout + ended.stderr
    assert "left" not in ended.stderr
    assert len(ended.stderr.splitlines()) == 2
    assert re.search(r"^steps +10[01]$", ended.stdout, re.MULTILINE)
    assert re.search(r"^speed +[\d,]+ steps/s while stepping$", ended.stdout, re.M)
    summary = read_json(folder / "run" / "summary.json")
    num_resets = summary["replay_rows"] - summary["steps"]
    assert f"rows: {summary['steps']} steps and {num_resets} resets, " in ended.stdout
    for name in ("episodes", "return", "length", "start", "policy", "environments"):
        assert re.search(rf"^{name} ", ended.stdout, re.MULTILINE)


def test_run_without_a_stderr_is_quiet(folder: pathlib.Path) -> None:
    command = " ".join([*COMMAND, *CARTPOLE, "--num_steps=100", "--logdir=run"])

    ended = subprocess.run(
        ["sh", "-c", f"{command} 2>&-"], cwd=folder, capture_output=True, text=True
    )

    assert ended.returncode == 0, ended.stdout
    assert read_json(folder / "run" / "summary.json")["outcome"] == "finished"
    assert re.search(r"^steps +10[01]$", ended.stdout, re.MULTILINE)


def test_reader_who_has_enough_of_the_summary_is_no_failure(
    folder: pathlib.Path,
) -> None:
    with start(folder, *CARTPOLE, "--num_steps=100", "--logdir=run") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        stderr = process.stderr.read()

    assert process.returncode == 0, stderr
    assert len(stderr.splitlines()) == 2


def test_table_that_cannot_be_printed_is_all_that_is_lost(
    folder: pathlib.Path,
) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [*COMMAND, *CARTPOLE, "--num_steps=100", "--logdir=run"],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[2:] == [
        "parallel-envs collect: only the table could not be printed: No space left on "
        "device. The replay is saved in run/replay, and summary.json beside it tells "
        "the same."
    ]
    assert len(load(folder / "run")) > 100


@pytest.mark.parametrize("num_steps_before", [0, 200])
def test_disk_that_takes_no_more_is_told_with_what_is_kept(
    folder: pathlib.Path, num_steps_before: int
) -> None:
    if num_steps_before:
        flags = [f"--num_steps={num_steps_before}", "--logdir=run", "--num_envs=2"]
        run(folder, "collect", "--env=CartPole-v1", "--num_workers=0", *flags)
    command = [*COMMAND, *CARTPOLE, "--num_steps=10000", "--logdir=run", "--resume"]
    small = f"ulimit -f 100; exec {' '.join(command)}"  # Each file, in KiB or half.

    ended = subprocess.run(
        ["sh", "-c", small], cwd=folder, capture_output=True, text=True
    )

    last = ended.stderr.splitlines()[-1]
    assert ended.returncode == 1
    assert last.startswith("parallel-envs collect: cannot write to run: File too large")
    if num_steps_before:
        kept = r"The first 20[01] steps are saved, [\d,]+ steps after them are lost"
        assert last.endswith("goes on: parallel-envs collect --resume --logdir=run")
        assert len(load(folder / "run")) > 200
    else:
        kept = r"Nothing was saved, 10,00[01] steps are lost"
        assert not (folder / "run" / "replay" / "manifest.json").exists()
    assert re.search(kept, last)


def test_terminal_shows_a_bar(folder: pathlib.Path) -> None:
    arguments = [*CARTPOLE, "--num_steps=3000", "--logdir=run"]

    output = run_in_terminal(folder, *arguments)

    assert re.search(r"[\d,]+/3,000 [\d,]+ steps/s [\d,]+ episodes return \S+", output)
    assert "━" in output


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_signal_keeps_what_was_collected_and_resume_goes_on(
    folder: pathlib.Path, number: int, code: int
) -> None:
    with start(folder, *ENDLESS, "--seed=3") as process:
        wait_until_it_saves(folder / "run")
        workers = children_of(process.pid)

        process.send_signal(number)
        stdout, stderr = process.communicate()

    assert process.returncode == code, stderr
    assert "Traceback" not in stderr
    assert "Interrupted" in stderr
    assert "steps/s" in stdout
    assert workers
    assert not any(is_running(pid) for pid in workers)
    before = read_json(folder / "run" / "summary.json")
    assert before["outcome"] == "interrupted"
    assert len(load(folder / "run")) == before["replay_rows"] > 0

    limit = before["steps"] + 200
    ended = run(folder, "collect", "--resume", "--logdir=run", f"--num_steps={limit}")

    assert ended.returncode == 0, ended.stderr
    after = read_json(folder / "run" / "summary.json")
    assert limit <= after["steps"] <= limit + 1
    assert after["episodes"] > before["episodes"]
    assert len(load(folder / "run")) == after["replay_rows"] > before["replay_rows"]
    steps = [step for _, step, _ in summaries.read_scalars(folder / "run")]
    assert steps == sorted(steps)
    assert steps[-1] == after["steps"]


def test_no_two_points_are_at_one_step(folder: pathlib.Path) -> None:
    flags = ["--summary_interval=100", "--logdir=run"]
    run(folder, *CARTPOLE, *flags, "--num_steps=200")

    ended = run(folder, *CARTPOLE, *flags, "--num_steps=400", "--resume")

    assert ended.returncode == 0, ended.stderr
    points = summaries.read_scalars(folder / "run")
    steps = [step for tag, step, _ in points if tag == "Metrics/NumberOfEpisodes"]
    assert steps == sorted(set(steps))
    assert steps[-1] in (400, 401)


def test_interruption_of_imports_is_one_line(folder: pathlib.Path) -> None:
    # The policy's module is the last that is imported before signals are listened to.
    (folder / "slow.py").write_text("print('importing', flush=True)\nwhile True: pass")
    with start(folder, *CARTPOLE, "--policy=slow:f", "--logdir=run") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"

        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()

    assert (process.returncode, stderr) == (130, "parallel-envs: interrupted.\n")
    assert not (folder / "run").exists()


def test_many_signals_leave_a_replay_that_can_be_loaded(folder: pathlib.Path) -> None:
    with start(folder, *ENDLESS) as process:
        wait_until_it_saves(folder / "run")

        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            select.select([], [], [], 0.002)
        _, stderr = process.communicate()

    assert "Traceback" not in stderr
    assert process.returncode == 130
    ended = run(folder, "collect", "--resume", "--logdir=run", "--num_episodes=1")
    assert (ended.returncode, ended.stdout) == (0, "")


def test_killed_run_goes_on_from_what_was_saved_last(folder: pathlib.Path) -> None:
    with start(folder, *ENDLESS) as process:
        wait_until_it_saves(folder / "run")

        process.kill()

    saved = load(folder / "run")
    limit = len(saved) + 200
    ended = run(folder, "collect", "--resume", "--logdir=run", f"--num_steps={limit}")
    assert ended.returncode == 0, ended.stderr
    assert limit <= read_json(folder / "run" / "summary.json")["steps"] <= limit + 1
    assert len(load(folder / "run")) > len(saved)


def test_finished_run_says_so_and_is_not_overwritten(folder: pathlib.Path) -> None:
    run(folder, *CARTPOLE, "--num_episodes=3", "--logdir=run")
    before = read_json(folder / "run" / "progress.json")

    again = run(folder, *CARTPOLE, "--num_episodes=3", "--logdir=run", "--resume")
    anew = run(folder, *CARTPOLE, "--num_episodes=3", "--logdir=run")
    others = run(
        folder,
        "collect",
        "--env=Acrobot-v1",
        "--num_envs=3",
        "--logdir=run",
        "--resume",
    )

    assert (again.returncode, again.stdout) == (0, "")
    assert "is finished" in again.stderr
    assert_is_refused(anew, "--logdir=run holds a run already: add --resume to go on")
    assert_is_refused(
        others,
        "--env=CartPole-v1 there, Acrobot-v1 here; --num_envs=2 there, 3 here.",
    )
    assert read_json(folder / "run" / "progress.json") == before


def test_names_of_functions_are_found_in_the_working_directory(
    folder: pathlib.Path,
) -> None:
    names = ["--env=my_module:make_env", "--policy=my_module:push_right"]

    ended = run(folder, "collect", *names, "--num_episodes=4", "--num_envs=2")

    assert ended.returncode == 0, ended.stderr
    (path,) = (folder / "runs").iterdir()
    assert path.name.startswith("my_module-make_env-2")
    assert read_json(path / "summary.json")["episode_length"]["max"] == 5
    actions = [row.action[0] for row in load(path).iterate()]
    assert set(actions) == {1}


def test_files_that_lie_here_hide_nothing_that_is_installed(
    folder: pathlib.Path,
) -> None:
    for name in ("random", "tree", "cloudpickle", "numpy", "gymnasium"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise ImportError('a stray one')")
    script = folder / "bin" / "parallel-envs"
    script.parent.mkdir()
    script.write_text("from parallel_envs.cli import main\nmain.run()\n")
    names = ["--env=my_module:make_env", "--policy=my_module:push_right"]

    ended = subprocess.run(
        [sys.executable, script, "collect", *names, "--num_steps=20", "--num_envs=2"],
        cwd=folder,
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 0, ended.stderr


def test_policy_may_be_anything_that_has_an_action(folder: pathlib.Path) -> None:
    flags = ["--policy=my_module:Plain", "--num_steps=20", "--logdir=run"]

    ended = run(folder, *CARTPOLE, *flags)

    assert ended.returncode == 0, ended.stderr
    assert {row.action[0] for row in load(folder / "run").iterate()} == {1}


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("unfit", "--policy=my_module:unfit returned what does not fit: action: exp"),
        ("Stepless", "--policy=my_module:Stepless: expected action() to return a Po"),
    ],
)
def test_action_that_does_not_fit_is_told_to_be_of_the_policy(
    folder: pathlib.Path, policy: str, message: str
) -> None:
    ended = run(folder, *CARTPOLE, f"--policy=my_module:{policy}", "--logdir=run")

    assert ended.returncode == 1
    assert message in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_policy_class_is_given_a_seed_that_resuming_changes(
    folder: pathlib.Path,
) -> None:
    flags = ["--policy=my_module:Counting", "--seed=5", "--num_workers=0"]
    first = run(folder, *CARTPOLE, *flags, "--num_steps=50", "--logdir=a")
    same = run(folder, *CARTPOLE, *flags, "--num_steps=50", "--logdir=b")

    more = run(folder, "collect", "--resume", "--num_steps=99", "--logdir=a")

    seeds = [seed_in(ended.stdout) for ended in (first, same, more)]
    assert seeds[0] == seeds[1] != seeds[2]
    rows = [
        [row.observation.tolist() for row in load(folder / f).iterate()] for f in "ab"
    ]
    assert rows[0][:20] == rows[1][:20]


def test_replay_keeps_the_latest_rows_of_a_capacity(folder: pathlib.Path) -> None:
    flags = ["--num_steps=300", "--replay_capacity=40", "--logdir=run"]

    ended = run(folder, *CARTPOLE, *flags)

    assert "the latest 40 rows" in ended.stderr
    assert re.search(r"^replay +the latest 40 of 3\d\d rows, ", ended.stdout, re.M)
    assert len(load(folder / "run")) == 40


def test_failure_of_the_policy_is_told_and_keeps_what_was_collected(
    folder: pathlib.Path,
) -> None:
    flags = ["--policy=my_module:failing", "--logdir=run", "--num_workers=0"]

    ended = run(folder, *CARTPOLE, *flags)

    assert ended.returncode == 1
    assert "the policy my_module:failing raised KeyError('weights')" in ended.stderr
    assert 'raise KeyError("weights")' in ended.stderr
    assert_ends_with_hint_and_message(ended, "the policy my_module:failing raised Key")
    assert len(load(folder / "run")) == 40
    assert read_json(folder / "run" / "summary.json")["outcome"] == "failed"


@pytest.mark.parametrize("num_workers", [0, 1])
def test_failure_of_an_environment_keeps_what_was_collected_and_ends_with_a_message(
    folder: pathlib.Path, num_workers: int
) -> None:
    flags = ["--env=my_module:jammed_env", f"--num_workers={num_workers}"]

    ended = run(folder, "collect", *flags, "--num_envs=2", "--logdir=run")

    assert ended.returncode == 1
    assert len(load(folder / "run")) == 2 * (5 + 1)  # The boundary is a row too.
    assert 'raise RuntimeError("motor jammed")' in ended.stderr
    assert_ends_with_hint_and_message(ended, "raised RuntimeError('motor jammed')")


def test_run_goes_on_when_processes_die_and_tells_how_many_did(
    folder: pathlib.Path,
) -> None:
    flags = ["--env=my_module:mortal_env", "--num_envs=2", "--max_restarts=50"]

    ended = run(folder, "collect", *flags, "--num_steps=200", "--logdir=run")

    assert ended.returncode == 0, ended.stderr
    summary = read_json(folder / "run" / "summary.json")
    num_lost = summary["failures"]["died"]
    assert summary["outcome"] == "finished"
    assert num_lost == num_cut_short(load(folder / "run")) >= 2 * 6
    assert summary["failures"] == failures(died=num_lost, repaired=num_lost)
    assert tells_of_failures(ended, rf"{num_lost} \({num_lost} died\), all repaired")
    points = summaries.read_scalars(folder / "run")
    last = {tag: (step, value) for tag, step, value in points}
    assert last["Metrics/Failures"] == (summary["steps"], num_lost)


def test_run_goes_on_when_an_environment_hangs(folder: pathlib.Path) -> None:
    flags = ["--env=my_module:hanging_env", "--num_envs=1", "--max_restarts=1"]
    limits = ["--step_timeout=2", "--start_timeout=60"]

    ended = run(folder, "collect", *flags, *limits, "--num_steps=50", "--logdir=run")

    assert ended.returncode == 0, ended.stderr
    summary = read_json(folder / "run" / "summary.json")
    assert summary["failures"] == failures(late=1, repaired=1)
    assert num_cut_short(load(folder / "run")) == 1
    assert tells_of_failures(ended, r"1 \(1 late\), all repaired")
    assert summary["seconds"]["environments"] > 2


def test_environment_that_is_not_made_in_time_ends_the_run(
    folder: pathlib.Path,
) -> None:
    (folder / "slow.py").write_text("import my_module\ndef f(): my_module.hang()")

    ended = run(folder, "collect", "--env=slow:f", "--num_envs=1", "--start_timeout=1")

    assert ended.returncode == 1
    assert "was not done with construction after 1 s (start_timeout)" in ended.stderr


def test_resumed_run_counts_all_failures_and_may_be_told_to_repair_none(
    folder: pathlib.Path,
) -> None:
    flags = ["--env=my_module:mortal_env", "--num_envs=1", "--max_restarts=50"]
    run(folder, "collect", *flags, "--num_steps=100", "--logdir=run")
    before = read_json(folder / "run" / "summary.json")["failures"]
    resumed = ["collect", "--resume", "--logdir=run"]

    more = run(folder, *resumed, "--num_steps=150")
    after = read_json(folder / "run" / "summary.json")["failures"]
    none = run(folder, *resumed, "--num_steps=200", "--max_restarts=0")

    assert (more.returncode, none.returncode) == (0, 1), more.stderr + none.stderr
    assert after["total"] >= before["total"] + 3
    all_of_them = after["total"] + 1
    told = rf"{all_of_them} \({all_of_them} died\), {after['total']} repaired"
    assert tells_of_failures(none, told)
    assert_ends_with_hint_and_message(none, "environment 0 died during step")
    points = summaries.read_scalars(folder / "run")
    counts = [count for tag, _, count in points if tag == "Metrics/Failures"]
    assert counts == sorted(counts)
    assert counts[-1] == all_of_them


def test_run_without_failures_says_nothing_of_them(folder: pathlib.Path) -> None:
    ended = run(folder, *CARTPOLE, "--num_steps=100", "--logdir=run")

    assert read_json(folder / "run" / "summary.json")["failures"] == failures()
    assert "failures" not in ended.stdout
    points = summaries.read_scalars(folder / "run")
    assert "Metrics/Failures" not in {tag for tag, _, _ in points}


def test_run_resumed_in_this_process_has_no_limits_of_processes(
    folder: pathlib.Path,
) -> None:
    limits = ["--start_timeout=60", "--step_timeout=60", "--context=spawn"]
    run(folder, *CARTPOLE, *limits, "--num_steps=20", "--logdir=run")
    resumed = ["collect", "--resume", "--logdir=run", "--num_workers=0"]

    ended = run(folder, *resumed, "--num_steps=40")
    refused = run(folder, *resumed, "--num_steps=60", "--step_timeout=60")

    assert ended.returncode == 0, ended.stderr
    assert_is_refused(refused, "--step_timeout: expected None, since num_workers=0")


@pytest.mark.parametrize(
    ("name", "at_fault"),
    [
        ("--env=my_module:hanging_env", "environments"),
        ("--policy=my_module:pondering", "policy"),
    ],
)
def test_time_of_a_hang_that_is_interrupted_is_told_where_it_went(
    folder: pathlib.Path, name: str, at_fault: str
) -> None:
    with start(folder, *CARTPOLE, name, "--num_envs=1", "--logdir=run") as process:
        wait_until_there_is(folder / "hung")
        select.select([], [], [], 1.0)  # The time that is to be told.

        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()

    assert process.returncode == 130, stderr
    summary = read_json(folder / "run" / "summary.json")
    assert summary["seconds"][at_fault] > 1
    assert summary["steps"] == len(load(folder / "run")) == 2


def test_failure_of_an_environment_is_told(folder: pathlib.Path) -> None:
    ended = run(folder, "collect", "--env=my_module:hopeless_env", "--logdir=run")

    assert ended.returncode == 1
    assert "raised RuntimeError('no licence') during construction" in ended.stderr
    assert "--resume" not in ended.stderr
    assert not (folder / "run").exists()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_environments_that_differ_are_a_failure(
    folder: pathlib.Path, num_workers: int
) -> None:
    flags = ["--env=my_module:differing_env", f"--num_workers={num_workers}"]

    ended = run(folder, "collect", *flags, "--num_envs=4", "--logdir=run")

    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert re.match(
        "parallel-envs collect: environment 1 has other specs than environment 0: ",
        ended.stderr,
    )
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "parallel-envs: no command was given"),
        (
            ["colect"],
            "expected a command (collect, bench, tune), got 'colect'. Did you mean",
        ),
        (
            ["xyz"],
            "parallel-envs: expected a command (collect, bench, tune), got 'xyz'.",
        ),
        (["collect"], "parallel-envs collect: --env: expected a name, as in --env="),
        ([*CARTPOLE, "--num_env=2"], "no flag --num_env. Did you mean --num_envs?"),
        ([*CARTPOLE, "--num_steps=1e4"], "--num_steps=1e4: expected an integer."),
        ([*CARTPOLE, "--num_envs=0"], "--num_envs=0: 0 is not a positive integer"),
        ([*CARTPOLE, "--save_every=nan"], "--save_every=nan: expected seconds."),
        ([*CARTPOLE, "--save_every=x"], "--save_every=x: expected a number."),
        ([*CARTPOLE, "--resume=5"], "--resume=5: expected true or false."),
        ([*CARTPOLE, "--context=thread"], "one of <forkserver|spawn|fork>"),
        ([*CARTPOLE, "CartPole-v1"], "expected flags, as in --name=value, got 'Cart"),
        ([*CARTPOLE, "--seed"], "Missing value for flag --seed"),
        ([*CARTPOLE, "--num_workers=0", "--context=fork"], "--context: expected None"),
        (
            [*CARTPOLE, "--num_workers=0", "--start_timeout=9"],
            "--start_timeout: expected None, since num_workers=0",
        ),
        (
            [*CARTPOLE, "--num_workers=0", "--step_timeout=9"],
            "--step_timeout: expected None, since num_workers=0",
        ),
        ([*CARTPOLE, "--start_timeout=0"], "--start_timeout: expected"),
        ([*CARTPOLE, "--start_timeout=nan"], "--start_timeout: expected"),
        ([*CARTPOLE, "--step_timeout=-1"], "--step_timeout: expected"),
        ([*CARTPOLE, "--step_timeout=x"], "--step_timeout=x: expected a number."),
        ([*CARTPOLE, "--max_restarts=-1"], "--max_restarts=-1: -1 is not a non-neg"),
        ([*CARTPOLE, "--max_restarts=x"], "--max_restarts=x: expected an integer."),
        ([*CARTPOLE, "--preload=nowhere"], "--preload: expected names of modules to"),
        ([*CARTPOLE, "--logdir=my_module.py/x"], "--logdir=my_module.py/x: Not a dir"),
        ([*CARTPOLE, "--logdir=my_module.py"], "--logdir=my_module.py: File exists"),
        ([*CARTPOLE, "--logdir="], "--logdir: expected the name of a folder, got ''"),
        ([*CARTPOLE, "--resume"], "--resume: expected --logdir, to know which run."),
        (["collect", "--resume", "--logdir=new"], "--env: expected a name"),
        (["collect", "--env=cartpole-v1"], "--env: there is no 'cartpole-v1'"),
        (["collect", "--env=a b"], "--env: expected a form such as 'CartPole-v1'"),
        (["collect", "--env=nowhere:f"], "--env: there is no package 'nowhere'"),
        (["collect", "--env=my_module:f"], "there is no 'f' in the module 'my_module'"),
        (["collect", "--env=my_module.x:f"], "No module named 'my_module.x'"),
        (["collect", "--env=my_module:X-v0"], "Environment `X` doesn't exist"),
        ([*CARTPOLE, "--policy=greedy"], "expected module:function or random, got 'gr"),
        ([*CARTPOLE, "--policy=nowhere:f"], "the module 'nowhere' cannot be imported"),
        ([*CARTPOLE, "--policy=my_module:fail"], "the nearest is 'failing'"),
        (
            [*CARTPOLE, "--policy=my_module:np"],
            "expected my_module:np to be a function",
        ),
        (["collect", "--env=my_module.py:make_env"], "write 'my_module:make_env'"),
        (
            ["collect", "--env=os:getcwd", "--num_envs=2"],
            "collect: --env: os:getcwd: expected a PyEnvironment, or an environment of "
            "Gymnasium or TF-Agents, got '/",
        ),
        ([*CARTPOLE, "--preload=__main__"], "--preload: expected names of modules to"),
        ([*CARTPOLE, "--preload=rich,.b"], "--preload: expected names of modules to"),
        (
            [*CARTPOLE, "--policy=my_module:bare"],
            "got my_module:bare(time_step). Did you mean a function that returns it?",
        ),
        (
            [*CARTPOLE, "--policy=my_module:made"],
            "Did you mean a function that returns it?",
        ),
        ([*CARTPOLE, "--policy=./my_module.py:bare"], "write 'my_module:bare'"),
        (
            [*CARTPOLE, "--policy=my_module:two_arguments"],
            "expected a function of one argument, the time step, got <lambda>(time_",
        ),
        (
            [*CARTPOLE, "--policy=my_module:nothing"],
            "expected my_module:nothing to ret",
        ),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else "",  # pyright: ignore
)
def test_what_cannot_be_done_is_one_line_and_code_2(
    folder: pathlib.Path, arguments: list[str], message: str
) -> None:
    ended = run(folder, *arguments)

    assert_is_refused(ended, message)


@pytest.mark.parametrize("package", ["rich", "tensorboardX", "gymnasium"])
def test_missing_package_is_named_with_the_command_that_installs_it(
    folder: pathlib.Path, package: str
) -> None:
    extra = "gymnasium" if package == "gymnasium" else "collect"
    program = (
        "import importlib.util, sys; found = importlib.util.find_spec; "
        f"sys.modules[{package!r}] = None; "
        "importlib.util.find_spec = lambda name, *rest: "
        f"None if name == {package!r} else found(name, *rest); "
        "from parallel_envs.cli import main; sys.exit(main.main(sys.argv[1:]))"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, *CARTPOLE],
        cwd=folder,
        capture_output=True,
        text=True,
    )

    assert_is_refused(ended, f"'{package}' is not installed: pip install")
    assert f"parallel_envs[{extra}]" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "num_flags"), [(["--help"], 17 + 6 + 11), (["collect", "--help"], 17)]
)
def test_help_tells_our_flags_and_no_others(
    folder: pathlib.Path, arguments: list[str], num_flags: int
) -> None:
    ended = run(folder, *arguments)

    assert (ended.returncode, ended.stderr) == (0, "")
    flags = re.findall(r"^  --(\w+)", ended.stdout, re.MULTILINE)
    assert {"env", "num_envs", "num_steps", "policy", "logdir", "resume"} < set(flags)
    assert len(flags) == num_flags
    assert "--num_envs=8 " in ended.stdout


def run(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, capture_output=True, text=True
    )


@contextlib.contextmanager
def start(folder: pathlib.Path, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """Starts the command, and ends it where a test fails before it has ended."""
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def run_in_terminal(folder: pathlib.Path, *arguments: str) -> str:
    """Returns what the command writes to a terminal of 120 columns."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "COLUMNS": "120", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environ,
    )
    os.close(theirs)
    output = b""
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                output += os.read(ours, 65536)
            except OSError:  # How a terminal says that nobody has it open.
                break
    os.close(ours)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode())


def wait_until_it_saves(logdir: pathlib.Path) -> None:
    """Returns when there is a replay; the run must be told to save often."""
    wait_until_there_is(logdir / "replay" / "manifest.json")


def wait_until_there_is(path: pathlib.Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, "It has not begun to step."
        select.select([], [], [], 0.02)


def children_of(pid: int) -> list[int]:
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def load(logdir: pathlib.Path) -> ReplayBuffer:
    manifest = read_json(logdir / "replay" / "manifest.json")["body"]["facts"]
    buffer = ReplayBuffer(manifest["capacity"], manifest["num_streams"])
    buffer.load(logdir / "replay")
    return buffer


def num_cut_short(buffer: ReplayBuffer) -> int:
    """Returns how many episodes a failure has ended, and checks that all are whole."""
    count = 0
    for episode in buffer.iterate_episodes():
        num_steps = int((episode.step_type != 2).sum())  # A boundary is a row too.
        assert [*episode.step_type[:num_steps]] == [0, *[1] * (num_steps - 1)]
        assert [*episode.next_step_type[:num_steps]] == [*[1] * (num_steps - 1), 2]
        *rewards, last_reward = episode.reward[:num_steps]
        # Each step that CartPole makes itself is worth 1.
        assert set(rewards) <= {1}
        if last_reward == 0:
            assert episode.discount[num_steps - 1] == 1
            count += 1
    return count


def failures(**counts: int) -> dict[str, int]:
    """Returns what summary.json says of failures; all kinds but the given are 0."""
    kinds = {"died": 0, "late": 0, "raised": 0, "repaired": 0, **counts}
    return {**kinds, "total": kinds["died"] + kinds["late"] + kinds["raised"]}


def tells_of_failures(ended: subprocess.CompletedProcess[str], words: str) -> bool:
    return re.search(rf"^failures +{words}$", ended.stdout, re.MULTILINE) is not None


def read_json(path: pathlib.Path) -> Any:
    return json.loads(path.read_text())


def seed_in(text: str) -> str:
    found = re.search(r"^seed (\d+)$", text, re.MULTILINE)
    assert found is not None
    return found.group(1)


def assert_ends_with_hint_and_message(
    ended: subprocess.CompletedProcess[str], message: str
) -> None:
    before, _, last = ended.stderr.rpartition("\nparallel-envs collect: ")
    assert before.endswith("with it: parallel-envs collect --resume --logdir=run")
    assert message in last
    assert "Traceback" not in last


def assert_is_refused(ended: subprocess.CompletedProcess[str], message: str) -> None:
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert message in ended.stderr
