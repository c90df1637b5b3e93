"""What is taken for an environment, and what that imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import pytest

from parallel_envs.adapters import as_py_environment
from parallel_envs.adapters import gymnasium as adapter
from parallel_envs.testing import environments


def run(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )
    return result.stdout.strip()


def test_an_environment_is_returned_as_it_is() -> None:
    env = environments.Counting()

    assert as_py_environment(env) is env


def test_an_environment_of_gymnasium_is_adapted() -> None:
    bare = gymnasium.make("CartPole-v1")

    env = as_py_environment(bare)

    assert isinstance(env, adapter.GymnasiumEnvironment)
    assert env.wrapped_env() is bare


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, r"got 3 of <class 'int'>\."),
        (None, r"got None\. Does the constructor return the environment it makes\?"),
        (environments.Counting, r"got the class Counting\. Did you mean Counting\(\)"),
        (len, r"got <built-in function len>, a function\. Should it be called\?"),
    ],
)
def test_anything_else_is_a_type_error_with_a_hint(value: Any, message: str) -> None:
    expected = "expected a PyEnvironment, or an environment of Gymnasium or TF-Agents, "

    with pytest.raises(TypeError, match=expected + message):
        as_py_environment(value)


def test_a_vector_environment_is_refused_by_its_own_message() -> None:
    vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])

    with pytest.raises(TypeError, match="expected a single environment of Gymnasium"):
        as_py_environment(vector)
    vector.close()


def test_recognising_imports_no_library() -> None:
    imported = run(
        "import sys; from parallel_envs.adapters import as_py_environment\n"
        "from parallel_envs.testing.environments import Counting\n"
        "as_py_environment(Counting())\n"
        "try: as_py_environment(3)\n"
        "except TypeError: pass\n"
        "print('gymnasium' in sys.modules)"
    )

    assert imported == "False"


def test_an_adapter_is_imported_with_its_library_when_first_used() -> None:
    imported = run(
        "import sys; from parallel_envs import adapters; seen = []\n"
        "seen.append('gymnasium' in sys.modules); adapters.from_gymnasium\n"
        "seen.append('gymnasium' in sys.modules); print(seen)"
    )

    assert imported == "[False, True]"


def test_a_missing_library_is_named_with_the_command_that_installs_it() -> None:
    message = run(
        "import sys; sys.modules['gymnasium'] = None\n"
        "from parallel_envs import adapters\n"
        "try: adapters.from_gymnasium\n"
        "except ImportError as error: print(error.name, '|', error)"
    )

    assert message == (
        "gymnasium | the package 'gymnasium' is not installed: "
        "pip install 'parallel_envs[gymnasium]'"
    )


def test_an_unknown_name_is_an_attribute_error() -> None:
    from parallel_envs import adapters

    with pytest.raises(AttributeError, match="has no attribute 'from_nothing'"):
        _ = adapters.from_nothing
    assert "from_gymnasium" in dir(adapters)
