from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_envs import time_step as ts
from parallel_envs.scripted_py_policy import ScriptedPyPolicy
from parallel_envs.specs import array_spec

MOVE = array_spec.BoundedArraySpec((2,), np.float32, -1, 1)
JUMP = array_spec.BoundedArraySpec((), np.int32, 0, 9)
STEP = ts.restart(np.zeros(1))


def play(policy: ScriptedPyPolicy, num_steps: int, state: Any = ()) -> list[int]:
    actions: list[int] = []
    for _ in range(num_steps):
        step = policy.action(STEP, state)
        actions.append(int(step.action))
        state = step.state
    return actions


@pytest.mark.parametrize("state", [(), None, (0, 0), [0, 0]], ids=repr)
def test_actions_come_as_often_and_in_the_order_the_script_says(state: Any) -> None:
    policy = ScriptedPyPolicy(None, JUMP, [(1, 5), (0, 6), (-1, 7), (3, 8), (1, 9)])

    assert play(policy, 5, state) == [5, 8, 8, 8, 9]


def test_the_state_tells_where_in_the_script_it_is() -> None:
    policy = ScriptedPyPolicy(None, JUMP, [(2, 5), (1, 6)])

    assert play(policy, 1, policy.get_initial_state()) == [5]
    assert play(policy, 2, state=(0, 1)) == [5, 6]
    assert policy.get_initial_state(batch_size=3) == (0, 0)


def test_episode_longer_than_the_script_is_refused() -> None:
    policy = ScriptedPyPolicy(None, JUMP, [(1, 5), (0, 6)])

    with pytest.raises(ValueError, match="episode is longer than the script"):
        play(policy, 2)


def test_empty_script_is_over_at_once() -> None:
    with pytest.raises(ValueError, match="episode is longer than the script"):
        ScriptedPyPolicy(None, JUMP, []).action(STEP)


def test_leaves_may_be_lists_and_become_arrays_of_the_spec() -> None:
    spec = {"move": MOVE, "jump": JUMP}
    policy = ScriptedPyPolicy(None, spec, [(1, {"move": [0.1, -1], "jump": 3})])

    action = policy.action(STEP).action

    assert action["move"].dtype == np.float32
    assert action["move"].tolist() == np.array([0.1, -1], np.float32).tolist()
    assert action["jump"].dtype == np.int32


def test_rows_of_a_batch_do_the_same_with_arrays_of_their_own() -> None:
    policy = ScriptedPyPolicy(None, MOVE, [(2, [0.5, 1])])
    step = ts.restart(np.zeros((3, 1)), batch_size=3)

    first = policy.action(step)
    first.action[0] = 7

    assert first.action.shape == (3, 2)
    assert policy.action(step, first.state).action.tolist() == [[0.5, 1]] * 3


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ({"move": [0, 0]}, r"action_script\[1\]: action: expected a dict with keys"),
        ({"move": [0], "jump": 0}, r"action\['move'\] .* \(2,\), got .* \(1,\)"),
        ({"move": [0, 2], "jump": 0}, r"action\['move'\] .* at most 1"),
        ({"move": [0, 0], "jump": 0.5}, r"action\['jump'\] .* int32 .* got float64"),
        ({"move": [0, 0], "jump": 2**40}, r"action\['jump'\] .* int32 .* got int64"),
        ({"move": [0, 0], "jump": 10}, r"action\['jump'\] .* at most 9, got 10"),
    ],
)
def test_action_that_does_not_fit_is_refused_when_the_policy_is_made(
    action: Any, text: str
) -> None:
    good = {"move": [0, 0], "jump": 0}

    with pytest.raises(ValueError, match=text):
        ScriptedPyPolicy(None, {"move": MOVE, "jump": JUMP}, [(1, good), (1, action)])
