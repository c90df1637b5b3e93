"""Runs a test module of the installed TF-Agents with our classes in place of its own.

What it prints is JSON: for each test "passed", or the traceback. It is a program, since
the classes stay replaced:

    python tests/tf_agents/own_tests.py environments.parallel_py_environment_test

Nothing of TF-Agents' code is here: the module is imported from where it is installed.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import types
import unittest
from collections.abc import Iterator
from typing import Any

import numpy as np
from tf_agents.drivers import py_driver
from tf_agents.environments import batched_py_environment, parallel_py_environment
from tf_agents.system import system_multiprocessing

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from parallel_envs.adapters.tf_agents import process_py_environment

# As TF-Agents does. Else each of some twenty workers imports TensorFlow for its test.
_Parallel = functools.partial(adapter.ParallelPyEnvironment, context="fork")

REPLACED: dict[Any, dict[str, Any]] = {
    process_py_environment: {"ParallelPyEnvironment": _Parallel},
    parallel_py_environment: {
        "ParallelPyEnvironment": _Parallel,
        "ProcessPyEnvironment": adapter.ProcessPyEnvironment,
    },
    batched_py_environment: {
        "BatchedPyEnvironment": adapter.BatchedPyEnvironment,
        "unstack_actions": adapter.unstack_actions,
    },
    py_driver: {"PyDriver": pe.PyDriver},
}


def main() -> None:
    name, *options = sys.argv[1:]
    for module, replacements in REPLACED.items():
        for attribute, ours in replacements.items():
            setattr(module, attribute, ours)
    tests = importlib.import_module(f"tf_agents.{name}")
    if "--mended" in options:
        mend(tests)
    system_multiprocessing.enable_interactive_mode()
    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    json.dump(outcomes(suite), sys.stdout)


def outcomes(suite: unittest.TestSuite) -> dict[str, str]:
    """Runs tests, and returns for each "passed", or how it failed."""
    found = dict.fromkeys(map(_name, _tests(suite)), "passed")
    result = unittest.TestResult()
    suite.run(result)
    # Each class of TensorFlow's has a method which says that it is no test.
    for test, reason in result.skipped:
        found[_name(test)] = reason
    for test, traceback in (*result.failures, *result.errors):
        found[_name(test)] = traceback
    return {name: told for name, told in found.items() if told != "Not a test."}


def mend(tests: types.ModuleType) -> None:
    """Has the environments of a test module return what their specs say.

    Those of `tf_py_environment_test` declare observations of shape () and return a list
    of one, and one of them likewise with its first reward.
    """
    for each in list(vars(tests).values()):
        if isinstance(each, type) and "Mock" in each.__name__:
            each._reset = _fitting(each._reset)
            each._step = _fitting(each._step)


def _fitting(method: Any) -> Any:
    def fitted(env: Any, *arguments: Any) -> Any:
        time_step = method(env, *arguments)
        spec = env.time_step_spec()
        reshaped = [
            _reshaped(field, field_spec)
            for field, field_spec in zip(time_step, spec, strict=True)
        ]
        return type(time_step)(*reshaped)

    return fitted


def _reshaped(value: Any, spec: Any) -> Any:
    if isinstance(spec, dict):
        return {key: _reshaped(value[key], each) for key, each in spec.items()}
    return np.asarray(value, spec.dtype).reshape(spec.shape)


def _tests(suite: Any) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestCase):
            yield each
        else:
            yield from _tests(each)


def _name(test: unittest.TestCase) -> str:
    return f"{type(test).__name__}.{test._testMethodName}"


if __name__ == "__main__":
    main()
