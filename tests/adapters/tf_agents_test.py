"""Where TF-Agents is not installed; tests/tf_agents is about where it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tf_agents", "tensorflow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
import parallel_envs as pe
"""


def run(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT + program],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return result.stdout.strip()


@pytest.mark.parametrize(
    "use",
    [
        "pe.adapters.tf_agents",
        "pe.adapters.to_tf_agents",
        "pe.adapters.from_tf_agents",
        "import parallel_envs.adapters.tf_agents",
        "from parallel_envs.adapters.tf_agents import ParallelPyEnvironment",
        "it = pe.ReplayBuffer(3); it.add(0.0); it.as_dataset()",
    ],
)
def test_a_missing_tf_agents_is_named_with_the_command_that_installs_it(
    use: str,
) -> None:
    message = run(
        f"try: {use}\nexcept ImportError as error: print(error.name, '|', error)"
    )

    assert message == (
        "tf_agents | the package 'tf_agents' is not installed: "
        "pip install 'parallel_envs[tf-agents]'"
    )


def test_everything_else_works_without_it() -> None:
    told = run(
        "from parallel_envs.testing import environments\n"
        "pe.specs, pe.wrappers, pe.metrics, pe.replay, pe.suites, pe.testing\n"
        "with pe.ParallelPyEnvironment([environments.Counting] * 2) as env:\n"
        "    policy = pe.RandomPyPolicy(env.time_step_spec(), env.action_spec())\n"
        "    seen = []\n"
        "    pe.PyDriver(env, policy, [seen.append], max_steps=6).run()\n"
        "    loaded = [name for name in sys.modules if name.startswith('tf_agents.')]\n"
        "    print(len(seen), loaded)"
    )

    assert told == "3 []"
