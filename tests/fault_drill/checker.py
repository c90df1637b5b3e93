"""Says of the steps of a batch whether each row's are a sequence of episodes.

It knows what the environments say (`world`) and what a batch promises, and nothing of
how the batch is made:

    before             a step then says
    -----------------  -------------------------------------------------------------
    nothing, or LAST   FIRST: of the next episode, or of a later life
    FIRST or MID       the next t of the same episode, with its reward and discount
                       and the action that was given; LAST where the episode is over
    the same, lost     LAST: reward 0, discount 1, the last observation once more;
                       and FIRST, of a later life, after that

A row of several in one environment can be lost when it has just ended while others
have not: it says FIRST at once and they say LAST. When they say FIRST the environment
is reset as a whole, and that row says MID at the start of the next episode.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from parallel_envs import time_step as ts
from tests.fault_drill import world
from tests.fault_drill.world import Who

_FIRST, _MID, _LAST = (
    int(step_type)
    for step_type in (ts.StepType.FIRST, ts.StepType.MID, ts.StepType.LAST)
)


class StreamError(AssertionError):
    """A row says what it must not say."""


@dataclasses.dataclass(frozen=True)
class Row:
    """What is known of a row before it says anything.

    Attributes:
        number: Its number in the batch.
        siblings: The rows of the same environment, itself among them.
        duration: The step at which a wrapper ends its episodes; None for no limit.
    """

    number: int
    siblings: range
    duration: int | None = None


@dataclasses.dataclass(frozen=True)
class Said:
    """One step of one row."""

    step_type: int
    reward: float
    discount: float
    who: Who
    heard: Any


class StreamChecker:
    """Follows the rows of one batch, and raises `StreamError` at the first fault.

    Attributes:
        crashed: The rows that owe what they last said to a failure.
        unsure: Those of which that cannot be known.
        said: What each row last said; None where nothing.
    """

    def __init__(self, rows: Sequence[Row], structure: world.Structure) -> None:
        """Knows that nothing has been said so far."""
        self._rows = rows
        self._structure: world.Structure = structure
        self.said: list[Said | None] = [None] * len(rows)
        self.crashed: set[int] = set()
        self.unsure: set[int] = set()
        self._is_over = [False] * len(rows)  # The life of what it last said.
        self._is_held = [False] * len(rows)
        self._is_disturbed = False
        self._seeds: dict[tuple[int, int], int] = {}

    def disturb(self) -> None:
        """Notes that a call has failed: rows may have moved unseen until the reset."""
        self._is_disturbed = True

    def check_reset(self, time_step: ts.TimeStep, losable: Collection[int]) -> None:
        """Checks what `reset` returned.

        Args:
            time_step: Of the batch.
            losable: Rows for whose loss there is a cause.
        """
        self.crashed, self.unsure = set(), set()
        for row in self._rows:
            said = self._parse(time_step, row.number)
            is_new = self._check_first(row, said, row.number in losable)
            if row.number in losable or is_new:
                self.unsure.add(row.number)
            self._keep(row, said, is_over=False)
        self._is_held = [False] * len(self._rows)
        self._is_disturbed = False

    def check_step(
        self,
        numbers: Sequence[int],
        time_step: ts.TimeStep,
        losable: Collection[int],
    ) -> None:
        """Checks what `step` returned.

        Args:
            numbers: What the actions were made of, one for each row.
            time_step: Of the batch.
            losable: Rows for whose loss there is a cause.
        """
        held, self._is_held = self._is_held, [False] * len(self._rows)
        self.crashed, self.unsure = set(), set()
        restarted: set[int] = set()
        for row, number in zip(self._rows, numbers, strict=True):
            i = row.number
            said, before = self._parse(time_step, i), self.said[i]
            is_over = False
            if before is None or before.step_type == _LAST:
                was_over = self._is_over[i]
                is_new = self._check_first(row, said, i in losable)
                if is_new and not was_over:
                    self.crashed.add(i)
                    restarted.add(i)
                elif is_new and i in losable:
                    self.unsure.add(i)  # Lost once more, when it was reset or before.
                    restarted.add(i)
            elif self._is_repeated(before, said):
                self._require(i in losable, i, "is lost without a cause", before, said)
                self.crashed.add(i)
                is_over = True
            elif held[i]:
                self._check_held(row, before, said)
            else:
                self._check_next(row, before, said, number)
            self._keep(row, said, is_over)
        for i in restarted:
            self._is_held[i] = any(self._is_over[j] for j in self._rows[i].siblings)

    def check_infos(self, infos: Sequence[Any], losable: Collection[int] = ()) -> None:
        """Checks what `get_info` returned about the last step.

        Args:
            infos: Of all rows.
            losable: Rows that may be lost, and have nothing to tell then.
        """
        for row in self._rows:
            i, info, said = row.number, infos[row.number], self.said[row.number]
            is_marked = info.get("crashed", False)
            if i not in self.unsure and is_marked is not (i in self.crashed):
                raise StreamError(f"row {i}: crashed is {is_marked!r} after {said}.")
            if self._is_over[i]:
                expected = {"crashed": True}
            else:
                assert said is not None, "infos before the first reset"
                expected = {"who": tuple(said.who)}
                info = {k: v for k, v in info.items() if k != "crashed"}
                if not info and i in losable:
                    continue
                # A seed that was given since is not in what was said.
                info["who"] = (*info.get("who", ())[:4], said.who.seed)
            if info != expected:
                raise StreamError(f"row {i}: info {info}, expected {expected}.")

    def _parse(self, time_step: ts.TimeStep, i: int) -> Said:
        observation: Any = time_step.observation
        heard = world.action_of_row(self._structure, observation["heard"], i)
        return Said(
            int(time_step.step_type[i]),
            float(time_step.reward[i]),
            float(time_step.discount[i]),
            Who(*observation["who"][i].tolist()),
            world.frozen(heard),
        )

    def _keep(self, row: Row, said: Said, is_over: bool) -> None:
        i, who = row.number, said.who
        self._require(who.row == i, i, "says that it is another", self.said[i], said)
        self.said[i], self._is_over[i] = said, is_over
        if who.t == 0 and who.seed >= 0:
            self._check_seed(i, who)

    def _check_seed(self, i: int, who: Who) -> None:
        if (i, who.life) not in self._seeds:
            others = [s for (row, _), s in self._seeds.items() if row == i]
            if who.seed in others:
                raise StreamError(f"row {i}: a later life repeats a seed: {who}.")
        self._seeds[i, who.life] = who.seed

    def _check_first(self, row: Row, said: Said, is_losable: bool) -> bool:
        """Checks a FIRST; returns whether it is that of another life."""
        i, before, who = row.number, self.said[row.number], said.who
        plain = (said.step_type, said.reward, said.discount, who.t, said.heard)
        expected = (_FIRST, 0.0, 1.0, 0, world.frozen_action(self._structure, 0))
        self._require(plain == expected, i, "does not say FIRST", before, said)
        episodes = {0, 1} if len(row.siblings) > 1 else {0}
        if before is None:
            is_new = is_losable
        else:
            is_new = who.life > before.who.life
            is_back = who.life < before.who.life
            self._require(not is_back, i, "goes back to an earlier life", before, said)
            if not is_new:
                self._require(
                    not self._is_over[i], i, "goes on after its end", before, said
                )
                episodes = {before.who.episode + 1}
            elif not self._is_over[i]:
                self._require(is_losable, i, "is replaced, uncaused", before, said)
        fits = who.episode in episodes or (
            self._is_disturbed and who.episode > min(episodes)
        )
        self._require(fits, i, "is in a wrong episode", before, said)
        return is_new

    def _is_repeated(self, before: Said, said: Said) -> bool:
        same = dataclasses.replace(before, step_type=_LAST, reward=0.0, discount=1.0)
        return said == same

    def _check_held(self, row: Row, before: Said, said: Said) -> None:
        who = before.who._replace(episode=before.who.episode + 1, t=0)
        who = who._replace(seed=said.who.seed)
        nothing = world.frozen_action(self._structure, 0)
        expected = Said(_MID, 0.0, 1.0, who, nothing)
        self._require(
            said == expected, row.number, "does not wait for others", before, said
        )

    def _check_next(self, row: Row, before: Said, said: Said, number: int) -> None:
        who = before.who._replace(t=before.who.t + 1, seed=said.who.seed)
        is_at_end = who.t >= world.length_of(who)
        is_last = is_at_end or who.t == row.duration
        expected = Said(
            _LAST if is_last else _MID,
            float(world.reward_of(who)),
            float(world.discount_of(who, is_at_end)),
            who,
            world.frozen_action(self._structure, number),
        )
        self._require(
            said == expected, row.number, "does not go on as it must", before, said
        )

    def _require(
        self, is_right: bool, i: int, what: str, before: Said | None, said: Said
    ) -> None:
        if not is_right:
            raise StreamError(f"row {i} {what}:\n  before {before}\n  now    {said}")
