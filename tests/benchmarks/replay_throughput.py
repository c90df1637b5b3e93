"""How many steps a second does the replay take in, and how many batches does it give?

Images of 84x84x3 bytes with reward, discount, step type and action; rows of 32 streams
are added at a time. Prints the machine, the versions, and the best of several rounds:
steps added, also into memory that is new, and batches drawn, beside a plain copy of as
many bytes.

    python tests/benchmarks/replay_throughput.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import guarding
import numpy as np

from parallel_envs import replay

_NUM_STREAMS = 32
_CAPACITY = 500
_EPISODE_STEPS = 200
_SAMPLES = 50
_ROUNDS = 5


def main() -> None:
    guarding.print_machine()
    buffer = replay.ReplayBuffer(_CAPACITY, _NUM_STREAMS, seed=0)
    steps = _NUM_STREAMS * _CAPACITY
    print(f"add, new memory    {steps / _seconds(lambda: _fill(buffer)):10.0f} steps/s")
    best = min(_seconds(lambda: _fill(buffer)) for _ in range(_ROUNDS))
    print(f"add, memory in use {steps / best:10.0f} steps/s")
    for batch_size, num_steps in ((16, 64), (256, 1)):
        _report_samples(buffer, batch_size, num_steps)


def _fill(buffer: replay.ReplayBuffer) -> None:
    images = np.full((_NUM_STREAMS, 84, 84, 3), 7, np.uint8)
    for t in range(_CAPACITY):
        buffer.add_batch(
            {
                "observation": images,
                "step_type": np.full(
                    _NUM_STREAMS, min(t % _EPISODE_STEPS, 1), np.int32
                ),
                "reward": np.zeros(_NUM_STREAMS, np.float32),
                "discount": np.ones(_NUM_STREAMS, np.float32),
                "action": np.zeros(_NUM_STREAMS, np.int64),
            }
        )


def _report_samples(
    buffer: replay.ReplayBuffer, batch_size: int, num_steps: int
) -> None:
    def sample() -> None:
        for _ in range(_SAMPLES):
            buffer.sample(batch_size, num_steps)

    images = buffer.sample(batch_size, num_steps)["observation"]

    def copy() -> None:
        for _ in range(_SAMPLES):
            images.copy()

    drawn = _SAMPLES / min(_seconds(sample) for _ in range(_ROUNDS))
    copied = _SAMPLES / min(_seconds(copy) for _ in range(_ROUNDS))
    print(
        f"sample({batch_size}, {num_steps}) {drawn:8.0f} batches/s, "
        f"{drawn * images.nbytes / 1e9:.1f} GB/s; plain copy {copied:.0f}"
    )


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
