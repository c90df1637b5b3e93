"""Steps the environments of a worker one after another.

The loop exists twice: in Python, and compiled (row_loop.c), which gives the same and
takes half of the time for each row. The compiled one is used where it was built, and
where every row is that of one environment whose time steps are simple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parallel_envs import time_step as ts
from parallel_envs.batch.failure import Failure
from parallel_envs.batch.row_writer import Array, TimeStepStructure
from parallel_envs.batch.slot import Faults, Slot
from parallel_envs.process import facilities, worker
from parallel_envs.process.control_block import Progress
from parallel_envs.specs import nest

Loop = Callable[[int, list[nest.Nest]], list[Failure]]
"""Steps every row: takes the number of a buffer, and an action for each row."""


def compiled_loop(
    slots: list[Slot],
    structure: TimeStepStructure,
    buffers: Sequence[Sequence[Array]],
    progress: Progress | None,
    faults: Faults,
    *,
    is_timed: bool,
) -> Loop | None:
    """Returns the compiled loop; None where it is not built, or not meant for these.

    Args:
        slots: One for each row. The loop sees what they are filled with later.
        structure: The time step of one row.
        buffers: As in `RowWriter`.
        progress: Where to note which slot is at it; None for nowhere.
        faults: What environments may raise.
        is_timed: Whether to note as well when each began.
    """
    keys = structure.simple_keys
    if _row_loop is None or keys is None or any(slot.is_batched for slot in slots):
        return None
    words, part, began = (None, -1, -1) if progress is None else progress.place
    loop = _row_loop.RowLoop(
        slots=slots,
        buffers=[list(arrays) for arrays in buffers],
        keys=keys or None,
        time_step_type=ts.TimeStep,
        faults=faults,
        copies=worker.copies,
        words=words,
        part=part,
        began=began if is_timed else -1,
    )
    return loop.step


_row_loop = facilities.compiled("parallel_envs.batch._row_loop")
