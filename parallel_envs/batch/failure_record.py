"""What a batch remembers of each failure."""

from __future__ import annotations

import dataclasses
from typing import Literal

Kind = Literal["died", "late", "raised"]


@dataclasses.dataclass(frozen=True)
class FailureRecord:
    """One failure of one environment.

    Attributes:
        index: First row of the environment at fault; for one that could never be made,
            the position of its constructor.
        indices: All rows whose environment was lost by it, those of other environments
            in the same process too.
        kind: "died" (its process ended), "late" (it was stopped at a time limit) or
            "raised" (an exception, or a value that does not fit).
        doing: "construction", "reset", "step", or what it was late with.
        message: What happened, as the sentence of an error.
        traceback: Where, as text; empty where that is unknown.
        exitcode: Of the process, or minus the signal; None where it lives.
        num_rounds: How many steps and resets the batch had done before.
        time: Seconds since the epoch.
        num_restarts: How many restarts the environment has now used up.
        is_repaired: False where the error was raised instead.
    """

    index: int
    indices: tuple[int, ...]
    kind: Kind
    doing: str
    message: str
    traceback: str = dataclasses.field(repr=False)
    exitcode: int | None
    num_rounds: int
    time: float
    num_restarts: int
    is_repaired: bool
