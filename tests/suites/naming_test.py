"""Environments by name: what is found, what is refused, and when."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from parallel_envs import suites
from parallel_envs.adapters import gymnasium as adapter
from parallel_envs.process import pickling
from parallel_envs.testing import environments

COUNTING = "parallel_envs.testing.environments:Counting"


@pytest.fixture
def module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yields the name of a module that can be imported and has not been."""
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "makers.py").write_text(
        "import gymnasium\n"
        "from parallel_envs.testing.environments import Counting\n"
        "class Makers:\n"
        "    @staticmethod\n"
        "    def short(**kwargs): return Counting(length=2, **kwargs)\n"
        "def cart_pole(**kwargs): return gymnasium.make('CartPole-v1', **kwargs)\n"
        "def nothing(): pass\n"
        "number = 3\n"
        "gymnasium.register('Ours-v0', 'gymnasium.envs.classic_control:PendulumEnv')\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield "some_package.makers"
    for name in [name for name in sys.modules if name.startswith("some_package")]:
        del sys.modules[name]
    gymnasium.registry.pop("Ours-v0", None)


@pytest.mark.parametrize("name", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_a_name_of_gymnasium_needs_no_prefix(name: str) -> None:
    env = suites.load(name)

    assert isinstance(env, adapter.GymnasiumEnvironment)
    assert env.spec.id == "CartPole-v1"


def test_arguments_go_to_make_and_its_time_limit_is_a_truncation() -> None:
    env: Any = suites.load("Pendulum-v1", max_episode_steps=2, g=1.5)

    steps = [env.step(np.zeros(1, np.float32)) for _ in range(3)]

    assert env.unwrapped.g == 1.5
    assert [int(step.step_type) for step in steps] == [0, 1, 2]
    assert steps[2].discount == 1.0


def test_the_registered_time_limit_is_kept() -> None:
    env = suites.load("Pendulum-v1")

    steps = [env.step(np.zeros(1, np.float32)) for _ in range(201)]

    assert [int(step.step_type) for step in steps[-2:]] == [1, 2]
    assert steps[-1].discount == 1.0


def test_a_function_of_a_module_is_called_with_the_arguments() -> None:
    env = suites.load(COUNTING, index=3, length=2)

    assert isinstance(env, environments.Counting)
    assert (env.index, env.length) == (3, 2)


def test_what_a_function_returns_is_adapted(module: str) -> None:
    env = suites.load(f"{module}:cart_pole", max_episode_steps=1)

    assert [int(env.step(0).step_type) for _ in range(2)] == [0, 2]


def test_a_function_may_be_a_member_of_a_class(module: str) -> None:
    assert suites.load(f"{module}:Makers.short", index=4).reset().observation[0] == 4


@pytest.mark.parametrize("prefix", ["", "gymnasium:"])
def test_a_module_that_registers_is_imported_when_called(
    module: str, prefix: str
) -> None:
    make = suites.constructor(f"{prefix}{module}:Ours-v0")
    assert module not in sys.modules

    env = make()

    assert module in sys.modules
    assert env.action_spec().shape == (1,)


@pytest.mark.parametrize("name", ["CartPole-v1", COUNTING])
def test_a_constructor_can_be_pickled(name: str) -> None:
    make = suites.constructor(name)

    again = pickle.loads(pickle.dumps(make))

    assert again == make
    assert hash(again) == hash(make)
    assert again().reset().is_first()


def test_a_constructor_makes_a_new_environment_each_time() -> None:
    make = suites.constructor(COUNTING)

    assert make() is not make()


class Local(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)


def test_what_this_program_registered_can_be_made_where_it_is_not() -> None:
    registration: Any = gymnasium
    registration.register("OnlyHere-v0", Local)
    travelling = pickling.dumps(suites.constructor("OnlyHere-v0"))
    del gymnasium.registry["OnlyHere-v0"]

    env: Any = pickle.loads(travelling)()

    assert isinstance(env.unwrapped, Local)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "cartpole-v1",
            r"there is no 'cartpole-v1' in Gymnasium; the nearest \w+ 'Car",
        ),
        ("PENDULUM-V1", "the nearest are 'Pendulum-v1'"),
        ("CartPole", "the nearest are 'CartPole-v1'"),
        ("gymnasium:Pendulum-v7", "'Pendulum-v7' in Gymnasium; the nearest .*um-v1'"),
        ("ours/Qzx-v0", "in Gymnasium. What another package registers needs its mod"),
    ],
)
def test_an_unknown_name_is_refused_at_once_with_the_nearest(
    name: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        suites.constructor(name)


@pytest.mark.parametrize(
    "name",
    ["", " ", "CartPole v1", ":", "gymnasium:", ":make", "a:b:c", "gymnasium:a:b:c"],
)
def test_a_malformed_name_is_refused_with_the_forms(name: str) -> None:
    with pytest.raises(ValueError, match="expected a form such as 'CartPole-v1'"):
        suites.constructor(name)


@pytest.mark.parametrize("name", [None, 3, environments.Counting])
def test_a_name_that_is_no_string_is_refused(name: Any) -> None:
    with pytest.raises(TypeError, match="name: expected a string, got"):
        suites.constructor(name)


@pytest.mark.parametrize("prefix", ["dm_control", "bsuite", "envpool"])
def test_a_reserved_prefix_is_refused_with_those_that_exist(prefix: str) -> None:
    with pytest.raises(ValueError, match=f"'ale:' or 'module:.*'{prefix}' is re"):
        suites.constructor(f"{prefix}:Pong")


@pytest.mark.parametrize("name", ["no_such.module:make", "no_such:Name-v0"])
def test_a_package_that_is_not_there_is_refused_at_once(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"no package 'no_such' on sys.path"):
        suites.constructor(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("my_env.py:make", "my_env:make"),
        ("./envs/my_env.py:make", "envs.my_env:make"),
        ("/home/me/my_env.py:make", "my_env:make"),
    ],
)
def test_a_file_is_refused_with_the_name_of_its_module(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"name of a module, .*: write '{meant}'"):
        suites.constructor(name)


@pytest.mark.parametrize("name", ["ale_py:ALE/Pong-v5", "ALE/NoSuchGame-v5"])
def test_a_missing_atari_is_named_with_its_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)

    with pytest.raises(ImportError, match=r"'ale_py' .*'parallel_envs\[atari\]'"):
        suites.constructor(name)


def test_functions_of_the_main_program_are_refused() -> None:
    with pytest.raises(ValueError, match="Pass the function itself instead"):
        suites.constructor("__main__:make_env")


def test_an_unknown_function_is_refused_with_the_nearest(module: str) -> None:
    make = suites.constructor(f"{module}:cartpole")

    with pytest.raises(
        ValueError, match=r"no 'cartpole' in .*makers\.py\); the nearest is 'cart_"
    ):
        make()


def test_something_that_is_no_function_is_refused(module: str) -> None:
    with pytest.raises(TypeError, match=f"a function at '{module}:number', got 3"):
        suites.load(f"{module}:number")


def test_a_function_that_returns_no_environment_is_refused(module: str) -> None:
    with pytest.raises(TypeError, match=r"got None\. Does the constructor return the"):
        suites.load(f"{module}:nothing")


def test_a_package_that_an_environment_needs_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)

    with pytest.raises(ImportError, match=r"'mujoco' .*'parallel_envs\[mujoco\]'"):
        suites.constructor("Ant-v4")


def test_a_missing_gymnasium_is_named_with_its_extra() -> None:
    program = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from parallel_envs import suites\n"
        "try: suites.constructor('CartPole-v1')\n"
        "except ImportError as error: print(error)\n"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )

    assert "pip install 'parallel_envs[gymnasium]'" in result.stdout


def test_the_name_of_a_function_imports_no_gymnasium() -> None:
    program = (
        "import sys; from parallel_envs import suites\n"
        f"suites.constructor({COUNTING!r})\n"
        "print('gymnasium' in sys.modules)"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )

    assert result.stdout.strip() == "False"
