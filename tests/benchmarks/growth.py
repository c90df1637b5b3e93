"""Does the time of a batch grow in proportion to its rows, and to its processes?

Environments do nothing. For rows in 2 processes, and for a process each, the
microseconds that one more costs among many are put beside those that it costs among
few. Exits with 1 if one more is far dearer among many.

    python tests/benchmarks/growth.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import guarding
import simulated

import parallel_envs as pe

_ROWS = (64, 256, 1024)
_PROCESSES = (16, 64, 256)


def main() -> None:
    guard = guarding.Guard()
    print("rows in 2 processes")
    guard.check(
        "dearer among many rows",
        _ratio_of_slopes(
            _ROWS, lambda size: simulated.start("null", size, num_workers=2)
        ),
        least=0.3,
        most=3.0,
    )
    print("processes")
    guard.check(
        "dearer among many processes",
        _ratio_of_slopes(_PROCESSES, lambda size: simulated.start("null", size)),
        least=0.3,
        most=4.0,
    )
    guard.exit()


def _ratio_of_slopes(
    sizes: Sequence[int], start: Callable[[int], pe.ParallelPyEnvironment]
) -> float:
    envs = {f"{size}": start(size) for size in sizes}
    try:
        few, some, many = guarding.medians(
            {name: simulated.stepping(env) for name, env in envs.items()}
        ).values()
    finally:
        for env in envs.values():
            env.close()
    first, second, third = sizes
    return ((many - some) / (third - second)) / ((some - few) / (second - first))


if __name__ == "__main__":
    main()
