"""What does a step of an Atari game cost beyond the emulator?

Prints the machine, the versions, and the microseconds of CPU time that a step of Pong
takes: the four frames alone; with what any preprocessing of this kind must do (two grey
screens, one resize); `AtariPreprocessing`; `"ale:Pong"`, which stacks four of them; and
the same of Gymnasium. Medians of rounds that alternate between all of them.

    OMP_NUM_THREADS=1 python tests/benchmarks/atari.py
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import ale_py
import cv2
import gymnasium
import numpy as np
from ale_py import roms

from parallel_envs import suites
from parallel_envs.wrappers import AtariPreprocessing, area_resize

_STEPS = 500
_ROUNDS = 15
_SETTINGS: dict[str, Any] = {
    "repeat_action_probability": 0.0,
    "full_action_set": False,
    "noop_max": 30,
}

Run = Callable[[], None]


def _emulator() -> Any:
    library: Any = ale_py
    library.ALEInterface.setLoggerMode(library.LoggerMode.Error)
    ale = library.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path("pong"))
    ale.reset_game()
    return ale


def _frames(actions: list[int]) -> Run:
    ale = _emulator()
    held = [ale.getMinimalActionSet()[action] for action in actions]

    def run() -> None:
        for action in held:
            for _ in range(4):
                ale.act(action, 1.0)
            if ale.game_over():
                ale.reset_game()

    return run


def _least(actions: list[int]) -> Run:
    ale = _emulator()
    held = [ale.getMinimalActionSet()[action] for action in actions]
    first, second = np.empty((2, 210, 160), np.uint8)
    picture = np.empty((84, 84), np.uint8)
    resize = area_resize.AreaResize((210, 160), (84, 84))

    def run() -> None:
        for action in held:
            for _ in range(3):
                ale.act(action, 1.0)
            ale.getScreenGrayscale(first)
            ale.act(action, 1.0)
            ale.getScreenGrayscale(second)
            resize(second, picture)
            if ale.game_over():
                ale.reset_game()

    return run


def _ours(actions: list[int], env: Any) -> Run:
    env.seed(0)
    env.reset()

    def run() -> None:
        for action in actions:
            env.step(action)

    return run


def _gymnasiums(actions: list[int]) -> Run:
    wrappers: Any = gymnasium.wrappers
    game: Any = gymnasium.make(
        "ALE/Pong-v5",
        frameskip=1,
        repeat_action_probability=0.0,
        disable_env_checker=True,
    )
    env = wrappers.FrameStackObservation(wrappers.AtariPreprocessing(game), 4)
    env.reset(seed=0)

    def run() -> None:
        for action in actions:
            *_, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return run


def _microseconds(run: Run) -> float:
    # Not the time that passes: others may be using the machine.
    start = time.process_time()
    run()
    return (time.process_time() - start) / _STEPS * 1e6


def main() -> None:
    opencv: Any = cv2
    opencv.setNumThreads(1)
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.platform()}")
    packages = ("numpy", "ale-py", "gymnasium", "opencv-python-headless")
    versions = [f"{name} {metadata.version(name)}" for name in packages]
    print(f"Python {platform.python_version()}, {', '.join(versions)}")
    actions = [int(each) for each in np.random.default_rng(0).integers(0, 6, _STEPS)]
    runs = {
        "four frames": _frames(actions),
        "and two grey screens, one resize": _least(actions),
        "AtariPreprocessing": _ours(
            actions, AtariPreprocessing(_emulator(), **_SETTINGS)
        ),
        "ale:Pong": _ours(actions, suites.load("ale:Pong", **_SETTINGS)),
        "Gymnasium, stacked": _gymnasiums(actions),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(_ROUNDS):
        for name, run in runs.items():
            times[name].append(_microseconds(run))
    for name, found in times.items():
        print(f"{name:34} {statistics.median(found):7.1f}")


if __name__ == "__main__":
    main()
