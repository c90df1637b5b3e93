"""Returns over n steps: Sutton and Barto, Reinforcement Learning, 2018, (7.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def n_step_returns(
    rewards: Array, discounts: Array, steps: npt.NDArray[np.int64], gamma: float
) -> tuple[Array, Array]:
    """Returns the discounted sums of rewards and what the value after them counts.

    Args:
        rewards: `[N, n, ...]`, in the order they were received.
        discounts: `[N, n]`, the environment's own, each received with its reward.
        steps: `[N]`, how many of the n count.
        gamma: The agent's discount for one step.

    Returns:
        The returns, `[N, ...]`, and the bootstrap factors, `[N]`, in the dtypes of
        rewards and discounts where those are floats, else float32. The factor is the
        product of all discounts and gammas: zero after a termination.
    """
    counts = np.less(np.arange(int(rewards.shape[1])), steps[:, np.newaxis])
    factors = np.cumprod(np.where(counts, gamma * discounts.astype(np.float64), 1), 1)
    weights = np.ones_like(factors)
    weights[:, 1:] = factors[:, :-1]
    weights[~counts] = 0
    returns = np.einsum("nt,nt...->n...", weights, rewards)
    return _cast(returns, rewards), _cast(factors[:, -1], discounts)


def _cast(values: Array, like: Array) -> Array:
    dtype = like.dtype if like.dtype.kind == "f" else np.dtype(np.float32)
    return values.astype(dtype)
