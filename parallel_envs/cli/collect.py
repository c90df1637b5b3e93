"""The main job: environments, a policy, the driver and a replay in one process tree."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence

from parallel_envs.cli import environments, flags, policies, run_folder, usage
from parallel_envs.cli.settings import Settings

_SUMMARY = """\
usage: parallel-envs collect --env=NAME [flags]

Steps many environments in parallel with a policy, keeps each step in a replay buffer on
disk, and writes TensorBoard files. Ctrl-C ends it and keeps what was collected;
--resume goes on with it. --flagfile=FILE reads flags from a file, one on each line."""

_EXAMPLES = """\
Examples:
  parallel-envs collect --env=CartPole-v1 --num_envs=8 --num_steps=20000
  parallel-envs collect --env=my_package.my_module:make_env --policy=my_policy:make
  parallel-envs collect --resume --logdir=runs/cartpole --num_steps=40000"""

# Their names when they are imported, both brought by one extra.
_NEEDED = ("rich", "tensorboardX")


def help_text() -> str:
    """Returns what the command does, and its flags."""
    return "\n\n".join([_SUMMARY, flags.help_text(), _EXAMPLES])


def main(arguments: Sequence[str]) -> int:
    """Collects, and returns the exit code.

    Raises:
        UsageError: If something was asked for that cannot be done.
        RunError: If the run has failed.
    """
    settings, given = flags.parse(arguments)
    _check_packages()
    with _opened_folder(settings) as folder:
        settings = _agreed(settings, given, folder)
        constructor = environments.constructor(settings.env or "")
        maker = policies.find(settings.policy)
        # Needs the packages that were looked for.
        from parallel_envs.cli import collection

        return collection.run(settings, folder, constructor, maker)


def _check_packages() -> None:
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            raise usage.UsageError(
                f"the package {package!r} is not installed: "
                "pip install 'parallel_envs[collect]'"
            )


def _opened_folder(settings: Settings) -> run_folder.RunFolder:
    if settings.logdir is not None:
        return run_folder.RunFolder(settings.logdir, resume=settings.resume)
    if settings.resume:
        raise usage.UsageError("--resume: expected --logdir, to know which run.")
    _check_has_env(settings)
    environments.constructor(settings.env or "")  # Or runs/ would be made for nothing.
    path = run_folder.default_path(settings.env or "")
    return run_folder.RunFolder(path, resume=False)


def _agreed(
    settings: Settings, given: frozenset[str], folder: run_folder.RunFolder
) -> Settings:
    """Returns the settings, together with those of the run that is gone on with."""
    if folder.config is None:
        _check_has_env(settings)
        return settings
    stored = folder.config["settings"]
    merged = settings.filled_up(given, stored)
    differing = [
        f"--{name}={stored[name]} there, {getattr(merged, name)} here"
        for name in ("env", "num_envs")
        if _plain_name(getattr(merged, name)) != _plain_name(stored[name])
    ]
    if differing:
        raise usage.UsageError(
            f"--resume: the run in {folder.path} has other settings: "
            f"{'; '.join(differing)}."
        )
    return dataclasses.replace(merged, env=stored["env"])


def _check_has_env(settings: Settings) -> None:
    if not settings.env:
        raise usage.UsageError("--env: expected a name, as in --env=CartPole-v1.")


def _plain_name(value: object) -> str:
    return str(value).removeprefix("gymnasium:")
