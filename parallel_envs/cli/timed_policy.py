"""A policy whose time is measured, and whose errors say that they are its own."""

from __future__ import annotations

from parallel_envs import py_policy, trajectory
from parallel_envs import time_step as ts
from parallel_envs.cli import failures, usage
from parallel_envs.cli.stopwatch import Stopwatch
from parallel_envs.specs import nest

Nest = nest.Nest


class TimedPolicy(py_policy.PyPolicy):
    """Asks another policy, and tells a stopwatch when that has ended."""

    def __init__(
        self, policy: py_policy.PyPolicy, name: str, stopwatch: Stopwatch
    ) -> None:
        """Keeps the policy, and its name for errors."""
        super().__init__(None, ())
        self._policy = policy
        self._name = name
        self._stopwatch = stopwatch

    def action(
        self, time_step: ts.TimeStep, policy_state: Nest = (), seed: int | None = None
    ) -> trajectory.PolicyStep:
        """Returns what the policy answers.

        Raises:
            RunError: If it raises something, with the traceback of that, or if it
                answers with something else than a `PolicyStep`.
        """
        try:
            step = self._policy.action(time_step, policy_state)
        except Exception as error:
            raise _blame(self._name, error) from error
        finally:
            self._stopwatch.lap("policy")
        if not hasattr(step, "action"):
            raise usage.RunError(
                f"--policy={self._name}: expected action() to return a PolicyStep, got "
                f"{usage.one_line(repr(step))}."
            )
        return step

    def _action(
        self, time_step: ts.TimeStep, policy_state: Nest, seed: int | None = None
    ) -> trajectory.PolicyStep:
        return self.action(time_step, policy_state)

    def _get_initial_state(self, batch_size: int | None) -> Nest:
        return py_policy.initial_state(self._policy, batch_size)


def _blame(name: str, error: Exception) -> usage.RunError:
    error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
    message = f"the policy {name} raised {error!r}."
    return usage.RunError(message, failures.of_traceback(error))
