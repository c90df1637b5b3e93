"""Do environments that wait do so at the same time, each in a process of its own?

They wait for 2 ms a step. The limit is what a bare `time.sleep(0.002)` takes in the
same run, for a batch of any size. Exits with 1 if a batch is far from it.

    python tests/benchmarks/waiting.py
"""

from __future__ import annotations

import time

import guarding
import simulated


def main() -> None:
    guard = guarding.Guard()
    for num_envs, least in ((8, 0.6), (32, 0.4), (128, 0.1)):
        print(f"{num_envs} processes")
        with simulated.start("sleep-2ms", num_envs) as env:
            found = guarding.medians(
                {
                    "sleep(0.002)": lambda: time.sleep(0.002),
                    "step": simulated.stepping(env),
                },
                seconds=0.5,
            )
        guard.check("sleep / step", found["sleep(0.002)"] / found["step"], least=least)
    guard.exit()


if __name__ == "__main__":
    main()
