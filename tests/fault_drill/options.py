"""Random options of a batch."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from tests.fault_drill import world


@dataclasses.dataclass(frozen=True)
class Options:
    """What a batch is made with.

    Attributes:
        rows: Of each constructor.
        is_batched: Whether its environment has them side by side.
        durations: Limits of episodes by a wrapper, None for none.
        structure: Of actions.
        is_portable: Whether it does without what only Linux has.
        arguments: Those of `ParallelPyEnvironment`.
    """

    rows: list[range]
    is_batched: list[bool]
    durations: list[int | None]
    structure: world.Structure
    is_portable: bool
    arguments: dict[str, Any]

    @property
    def has_processes(self) -> bool:
        return self.arguments["num_workers"] != 0

    @property
    def is_slow(self) -> bool:
        """Whether each worker is an interpreter of its own."""
        return self.is_portable or self.arguments.get("context") == "spawn"


def random_options(chance: random.Random) -> Options:
    is_portable = chance.random() < 0.08
    context = "spawn" if chance.random() < 0.06 else None
    if not is_portable and context is None:
        context = chance.choice([None, None, None, "forkserver", "forkserver", "fork"])
    is_slow = is_portable or context == "spawn"
    num_constructors = chance.randint(1, 2 if is_slow else 5)
    sizes = [
        chance.choice([None, None, None, 1, 2, 3]) for _ in range(num_constructors)
    ]
    ends = [sum(size or 1 for size in sizes[: n + 1]) for n in range(len(sizes))]
    arguments: dict[str, Any] = {
        "start_serially": chance.random() < 0.5,
        "blocking": chance.random() < 0.2,
        "shared_memory": chance.random() < 0.7,
        "validate": chance.random() < 0.8,
        "base_seed": chance.choice([None, chance.randrange(1000)]),
        "max_restarts": chance.choice([10_000] * 6 + [3, 1, 0]),
        "num_workers": chance.choice([None, None, None, 1, 2, 2, 3]),
    }
    if not is_slow and chance.random() < 0.12:
        arguments["num_workers"] = 0
    else:
        arguments["context"] = context
        arguments["step_timeout"] = chance.choice([0.3, 0.4, 0.5])
        arguments["start_timeout"] = 8.0 if is_slow else 2.0
    return Options(
        rows=[range(end - (n or 1), end) for n, end in zip(sizes, ends, strict=True)],
        is_batched=[size is not None for size in sizes],
        durations=[
            chance.choice([None, 2, 5]) if size is None else None for size in sizes
        ],
        structure=chance.choice(world.STRUCTURES),
        is_portable=is_portable,
        arguments=arguments,
    )
