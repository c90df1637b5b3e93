"""A run of `collect`, from the start of the workers to the summary."""

from __future__ import annotations

import contextlib
import time
from importlib import metadata
from typing import Any, TypeGuard

from parallel_envs import errors
from parallel_envs.cli import (
    environments,
    equipment,
    failures,
    policies,
    progress,
    usage,
)
from parallel_envs.cli.equipment import Equipment
from parallel_envs.cli.interruptions import Interrupted, Interruptions
from parallel_envs.cli.recorder import Recorder
from parallel_envs.cli.report import Report
from parallel_envs.cli.run_folder import RunFolder
from parallel_envs.cli.settings import Settings
from parallel_envs.cli.stopwatch import Stopwatch
from parallel_envs.cli.timed_policy import TimedPolicy
from parallel_envs.drivers import PyDriver
from parallel_envs.summaries import SummaryWriter


def run(
    settings: Settings,
    folder: RunFolder,
    constructor: environments.Constructor,
    maker: policies.Maker,
) -> int:
    """Collects, saves, prints the summary, and returns the exit code.

    Raises:
        UsageError: If it turns out that settings do not fit.
        RunError: If an environment, the policy or the disk has failed. What was
            collected before is saved, if that can be.
    """
    if settings.is_reached(folder.num_steps, folder.num_episodes):
        usage.say(
            f"The run in {folder.path} is finished. A larger --num_steps or "
            "--num_episodes goes on with it."
        )
        return 0
    with Interruptions() as interruptions:
        try:
            _collect(settings, folder, constructor, maker, interruptions)
        except Interrupted:
            usage.say(_farewell(folder))
        except (usage.UsageError, usage.RunError):
            raise
        except Exception as error:
            if _is_of_disk(error):
                raise usage.RunError(_loss(error, folder)) from error
            raise failures.told(error) from error
        return interruptions.exit_code


def _collect(
    settings: Settings,
    folder: RunFolder,
    constructor: environments.Constructor,
    maker: policies.Maker,
    interruptions: Interruptions,
) -> None:
    stopwatch = Stopwatch()
    with contextlib.ExitStack() as stack:
        with progress.notice("Starting ..."), interruptions.obeyed():
            try:
                parts = equipment.start(settings, folder, constructor, maker, stack)
            except OSError as error:  # Not one of the run's folder.
                raise failures.told(error) from error
        usage.say(_announcement(settings, folder))
        usage.say(f"Replay: {parts.replay_description}.")
        folder.begin(_config(settings), parts.tally.to_json())
        recorder = Recorder(
            settings=settings,
            env=parts.env,
            buffer=parts.buffer,
            tally=parts.tally,
            folder=folder,
            writer=stack.enter_context(SummaryWriter(folder.path)),
            progress=progress.Progress(settings),
            interruptions=interruptions,
            stopwatch=stopwatch,
        )
        report, error = _run_and_report(parts, recorder)
        folder.write_summary(report.to_json())
    complaint = _print(report, folder) if report.num_steps else None
    _raise(error, folder)
    if complaint is not None:
        raise complaint


def _raise(error: BaseException | None, folder: RunFolder) -> None:
    """Raises what has ended the steps too early, if anything has."""
    if isinstance(error, Exception) and not _is_of_disk(error):
        hint = _how_to_go_on(folder) if folder.has_replay else ""
        raise failures.told(error, hint) from error
    if error is not None:
        raise error


def _print(report: Report, folder: RunFolder) -> usage.RunError | None:
    """Prints the report, and returns what has gone wrong with that."""
    try:
        report.print()
    except OSError as error:
        return usage.RunError(
            f"only the table could not be printed: {_reason(error)}. The replay is "
            f"saved in {folder.replay_path}, and summary.json beside it tells the same."
        )
    return None


def _run_and_report(
    parts: Equipment, recorder: Recorder
) -> tuple[Report, BaseException | None]:
    """Steps, saves, and returns how it went and what has ended it too early, if any."""
    num_steps_before = parts.tally.num_steps
    start = recorder.stopwatch.lap("start")
    error = _drive(parts, recorder)
    loop_seconds = time.perf_counter() - start
    recorder.interruptions.notice = (
        "Saving what was collected. Once more gives that up."
    )
    recorder.finish()
    report = Report(
        outcome=_outcome(error),
        tally=parts.tally,
        num_steps=parts.tally.num_steps - num_steps_before,
        loop_seconds=loop_seconds,
        seconds=recorder.stopwatch.seconds,
        rows=len(parts.buffer),
        inserted=parts.buffer.stats()["inserts"],
        nbytes=parts.buffer.nbytes,
    )
    return report, error


def _drive(parts: Equipment, recorder: Recorder) -> BaseException | None:
    """Steps until a limit is reached, and returns what has ended it before, if any."""
    settings, tally = recorder.settings, parts.tally
    if settings.is_reached(tally.num_steps, tally.num_episodes):
        return None
    driver = PyDriver(
        parts.env,
        TimedPolicy(parts.policy, settings.policy, recorder.stopwatch),
        [recorder],
        max_steps=_left(settings.num_steps, tally.num_steps),
        max_episodes=_left(settings.num_episodes, tally.num_episodes),
    )
    try:
        with recorder.progress, recorder.interruptions.obeyed():
            driver.run(parts.time_step)
    except Interrupted as error:
        return error
    except Exception as error:
        return failures.of_step(error, settings.policy)
    finally:
        # What was cut short: policy and recorder have told what they took.
        recorder.stopwatch.lap("environments")
    return None


def _left(limit: int | None, done: int) -> int | None:
    return None if limit is None else limit - done


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "finished"
    return "interrupted" if isinstance(error, Interrupted) else "failed"


def _announcement(settings: Settings, folder: RunFolder) -> str:
    workers = settings.num_envs
    if settings.num_workers is not None:
        workers = min(workers, settings.num_workers)
    where = {0: "this process", 1: "one process"}.get(workers, f"{workers} processes")
    verb = "Collecting"
    if folder.config is not None:
        verb = f"Going on after {folder.num_steps:,} steps"
    elif settings.resume:
        verb = "There is no run yet: collecting"
    return (
        f"{verb} with {settings.num_envs} {settings.env} in {where}, "
        f"into {folder.path}."
    )


def _is_of_disk(error: BaseException) -> TypeGuard[OSError]:
    # That a worker did not answer in time is an OSError too.
    return isinstance(error, OSError) and not isinstance(error, errors.WorkerError)


def _loss(error: OSError, folder: RunFolder) -> str:
    """Returns what could not be written, what is kept, and what can be done."""
    problem = f"cannot write to {error.filename or folder.path}: {_reason(error)}."
    lost = f"{folder.num_unsaved:,} steps"
    if not folder.has_replay:
        return (
            f"{problem} Nothing was saved, {lost} are lost. Make room there, or name "
            "another folder with --logdir."
        )
    kept = f"The first {folder.num_steps:,} steps are saved, {lost} after them are lost"
    if not folder.num_unsaved:
        kept = f"All {folder.num_steps:,} steps are saved"
    return f"{problem} {kept}. Make room there; then this goes on: {_command(folder)}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _farewell(folder: RunFolder) -> str:
    if folder.config is None:
        return "Interrupted before the first step."
    return f"Interrupted. {_how_to_go_on(folder)}"


def _how_to_go_on(folder: RunFolder) -> str:
    return f"What was collected is saved. This goes on with it: {_command(folder)}"


def _command(folder: RunFolder) -> str:
    return f"parallel-envs collect --resume --logdir={folder.path}"


def _config(settings: Settings) -> dict[str, Any]:
    packages = ("parallel-envs", "numpy", "gymnasium")
    versions = {}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {"settings": settings.to_json(), "versions": versions}
