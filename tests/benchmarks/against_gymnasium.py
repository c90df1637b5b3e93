"""Is a batch quicker than Gymnasium's AsyncVectorEnv, a process for each environment?

Both return copies. Exits with 1 if it is not clearly so.

    python tests/benchmarks/against_gymnasium.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager

import guarding
import gymnasium
import simulated

from parallel_envs.benchmarking.peers import gymnasium_form


def main() -> None:
    guard = guarding.Guard()
    for name in ("null", "image"):
        for num_envs, least in ((8, 1.1), (32, 1.5)):
            print(f"{name}, {num_envs} processes")
            with (
                _gymnasium(name, num_envs) as theirs,
                simulated.start(name, num_envs) as env,
            ):
                found = guarding.medians(
                    {"Gymnasium": theirs, "ours": simulated.stepping(env)}
                )
            ratio = found["Gymnasium"] / found["ours"]
            guard.check("Gymnasium / ours", ratio, least=least)
    guard.exit()


@contextmanager
def _gymnasium(name: str, num_envs: int) -> Generator[Callable[[], object], None, None]:
    make = functools.partial(gymnasium_form.make, simulated.workload(name))
    with closing(gymnasium.vector.AsyncVectorEnv([make] * num_envs)) as env:
        env.reset()
        batches = simulated.actions(num_envs)
        yield lambda: env.step(next(batches))


if __name__ == "__main__":
    main()
