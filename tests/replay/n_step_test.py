from __future__ import annotations

import numpy as np

from parallel_envs.replay import n_step


def test_only_the_steps_that_count_are_summed_and_discounted() -> None:
    rewards = np.array([[1, 2, 4], [1, 2, 4]], np.float32)
    discounts = np.array([[1, 0.5, 0], [1, 0.5, 0]], np.float32)

    returns, bootstrap = n_step.n_step_returns(
        rewards, discounts, np.array([3, 2]), gamma=0.5
    )

    assert returns.tolist() == [1 + 0.5 * 2 + 0.5 * 0.25 * 4, 1 + 0.5 * 2]
    assert bootstrap.tolist() == [0, 0.125]
    assert returns.dtype == bootstrap.dtype == np.float32


def test_rewards_may_be_vectors_and_integers() -> None:
    rewards = np.array([[[1, 10], [2, 20]]])

    returns, _ = n_step.n_step_returns(
        rewards, np.ones((1, 2)), np.array([2]), gamma=0.5
    )

    assert returns.tolist() == [[2, 20]]
    assert returns.dtype == np.float32
