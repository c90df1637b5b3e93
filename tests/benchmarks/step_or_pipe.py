"""Is a step of a batch cheaper than a plain pipe to each process with the same values?

Each environment has a process of its own and does nothing. The plain side is the least
that a pool in Python can do: `multiprocessing` pipes, the action one way, observation,
reward, discount and step type the other, stacked. Exits with 1 if it is the cheaper.

    python tests/benchmarks/step_or_pipe.py
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import guarding
import numpy as np
import simulated

from parallel_envs.benchmarking.workloads import Simulation


def main() -> None:
    guard = guarding.Guard()
    for name in ("null", "image"):
        for num_envs in (8, 32):
            print(f"{name}, {num_envs} processes")
            with contextlib.ExitStack() as stack:
                # Forked first, while this process has nothing that they would inherit.
                pipes = _pipes(name, num_envs, stack)
                env = stack.enter_context(simulated.start(name, num_envs))
                found = guarding.medians(
                    {"pipes": pipes, "step": simulated.stepping(env)}
                )
            guard.check("pipes / step", found["pipes"] / found["step"], least=1.0)
    guard.exit()


def _pipes(
    name: str, num_envs: int, stack: contextlib.ExitStack
) -> Callable[[], object]:
    context = multiprocessing.get_context("fork")
    connections: list[Any] = []
    for _ in range(num_envs):
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(name, theirs), daemon=True)
        process.start()
        theirs.close()
        stack.callback(process.join)
        stack.callback(ours.send, None)
        connections.append(ours)
    batches = simulated.actions(num_envs)

    def step() -> Any:
        for connection, action in zip(connections, next(batches), strict=True):
            connection.send(action)
        rows = [connection.recv() for connection in connections]
        return [np.stack(leaves) for leaves in zip(*rows, strict=True)]

    return step


def _serve(name: str, connection: Connection[Any, Any]) -> None:
    simulation = Simulation(simulated.workload(name))
    while (action := connection.recv()) is not None:
        observation, reward, is_over = simulation.step(action)
        kind, discount = np.int32(1 + is_over), np.float32(not is_over)
        connection.send((kind, np.float32(reward), discount, observation))
        if is_over:
            simulation.reset()


if __name__ == "__main__":
    main()
