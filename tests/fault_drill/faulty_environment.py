"""The environment of the drill: it says where it is, and fails as planned."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import nest
from parallel_envs.wrappers import time_limit
from tests.fault_drill import faults, world
from tests.fault_drill.plan import Diary, Event, Place, Plan
from tests.fault_drill.world import Who

PICTURE_SHAPE = (2, 3, 3)


@dataclasses.dataclass(frozen=True)
class Setting:
    """What an environment is made from.

    Attributes:
        plan: What goes wrong.
        diary: Where it is written down.
        killer: Pipe of the process that kills on demand.
        position: Of the constructor.
        rows: The numbers of its rows in the batch.
        is_batched: Whether it has them side by side, and not one without a batch.
        structure: Of actions.
        duration: Steps to which a wrapper limits episodes; None for no limit.
    """

    plan: Plan
    diary: Diary
    killer: pathlib.Path
    position: int
    rows: range
    is_batched: bool
    structure: world.Structure
    duration: int | None


def make(setting: Setting) -> PyEnvironment:
    """Returns an environment, with its limit."""
    env = FaultyEnvironment(setting)
    if setting.duration is None:
        return env
    return time_limit.TimeLimit(env, setting.duration)


class FaultyEnvironment(PyEnvironment):
    """Says in its observation which row it is, in which life, episode and step."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._setting = setting
        self._counts: collections.Counter[str] = collections.Counter()
        self._life = setting.diary.begin_life(setting.position)
        self._who: list[Who] = [Who(row, self._life, -1, 0, -1) for row in setting.rows]
        self._heard: list[Any] = [None] * len(setting.rows)
        self._has_ended = [False] * len(setting.rows)
        self._meet("constructor")

    @property
    def batched(self) -> bool:
        return self._setting.is_batched

    @property
    def batch_size(self) -> int | None:
        return len(self._setting.rows) if self._setting.is_batched else None

    def observation_spec(self) -> nest.Nest:
        return world.observation_spec(self._setting.structure)

    def action_spec(self) -> nest.Nest:
        return world.action_spec(self._setting.structure)

    def seed(self, seed: Any) -> Any:
        self._meet("seed")
        seeds = seed if self.batched else [seed]
        self._who = [
            who._replace(seed=int(own))
            for who, own in zip(self._who, seeds, strict=True)
        ]
        return seed

    def get_info(self) -> Any:
        self._meet("get_info")
        infos = [{"who": tuple(who)} for who in self._who]
        return infos if self.batched else infos[0]

    def render(self, mode: str = "rgb_array") -> npt.NDArray[Any]:
        self._meet("render")
        pictures = [np.full(PICTURE_SHAPE, who.row, np.uint8) for who in self._who]
        return np.stack(pictures) if self.batched else pictures[0]

    def tell(self, question: int) -> tuple[int, int]:
        self._meet("call")
        return self._setting.position, question

    def close(self) -> None:
        self._meet("close")

    def _reset(self) -> ts.TimeStep:
        fault = self._meet("reset")
        steps = [self._reset_row(row) for row in range(len(self._who))]
        return faults.spoiled(fault, self._time_step(steps))

    def _step(self, action: nest.Nest) -> ts.TimeStep:
        fault = self._meet("step")
        structure = self._setting.structure
        own = action
        steps: list[tuple[Any, Any, Any]] = []
        for row in range(len(self._who)):
            if self.batched:
                own = world.action_of_row(structure, action, row)
            is_over = self.batched and self._has_ended[row]
            steps.append(self._reset_row(row) if is_over else self._step_row(row, own))
        return faults.spoiled(fault, self._time_step(steps))

    def _meet(self, place: Place) -> faults.Fault | None:
        """Does what is planned for this moment, and returns it."""
        setting, count = self._setting, self._counts[place]
        self._counts[place] += 1
        fault = setting.plan.fault(setting.position, self._life, place, count)
        if fault is not None:
            where = (setting.position, self._life, place, count)
            setting.diary.note(Event(*where, fault, os.getpid()))
            faults.commit(fault, setting.killer)
        return fault

    def _reset_row(self, row: int) -> tuple[Any, Any, Any]:
        who = self._who[row]
        self._who[row] = who._replace(episode=who.episode + 1, t=0)
        nothing = world.actions_of(self._setting.structure, [0])
        self._heard[row] = world.action_of_row(self._setting.structure, nothing, 0)
        self._has_ended[row] = False
        return ts.StepType.FIRST, np.float32(0.0), np.float32(1.0)

    def _step_row(self, row: int, action: Any) -> tuple[Any, Any, Any]:
        who = self._who[row] = self._who[row]._replace(t=self._who[row].t + 1)
        self._heard[row] = action
        is_last = self._has_ended[row] = who.t >= world.length_of(who)
        step_type = ts.StepType.LAST if is_last else ts.StepType.MID
        return step_type, world.reward_of(who), world.discount_of(who, is_last)

    def _time_step(self, steps: list[tuple[Any, Any, Any]]) -> ts.TimeStep:
        who = np.array(self._who, np.int64)
        if not self.batched:
            observation = {"who": who[0], "heard": self._heard[0]}
            return ts.TimeStep(*steps[0], observation)
        heard = world.stacked(self._setting.structure, self._heard)
        step_types, rewards, discounts = zip(*steps, strict=True)
        return ts.TimeStep(
            np.array(step_types, np.int32),
            np.array(rewards, np.float32),
            np.array(discounts, np.float32),
            {"who": who, "heard": heard},
        )
