from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallel_envs import time_step as ts
from parallel_envs.random_py_policy import RandomPyPolicy
from parallel_envs.specs import array_spec, batching, checks
from parallel_envs.testing import environments

DICE = array_spec.BoundedArraySpec((), np.int64, 1, 6)


def first_step(batch_size: int | None = None) -> ts.TimeStep:
    return ts.restart(np.zeros(3), batch_size)


def split(observation: Any) -> tuple[Any, Any]:
    return observation["seen"], observation["mask"]


def masked_step(mask: Any) -> ts.TimeStep:
    mask = np.asarray(mask)
    batch_size = len(mask) if mask.ndim == 2 else None
    return ts.restart({"seen": np.zeros(1), "mask": mask}, batch_size)


@given(
    batch_sizes=st.lists(st.none() | st.integers(1, 40), min_size=1, max_size=6),
    size=st.integers(0, 2000),
)
def test_actions_fit_their_spec_in_every_batch(
    batch_sizes: list[int | None], size: int
) -> None:
    action_spec = {
        "dice": DICE,
        "steer": array_spec.BoundedArraySpec((size,), np.float32, -1, 1),
    }
    policy = RandomPyPolicy(None, action_spec, seed=0)

    for batch_size in batch_sizes:
        action = policy.action(first_step(batch_size)).action

        outer_dims = () if batch_size is None else (batch_size,)
        expected = batching.add_outer_dims_nest(action_spec, outer_dims)
        assert checks.check_arrays_nest(action, expected)


def test_all_values_come_up_and_none_too_often() -> None:
    policy = RandomPyPolicy(None, DICE, seed=1)

    drawn = np.array([policy.action(first_step(8)).action for _ in range(2000)])

    counts = np.bincount(drawn.ravel(), minlength=7)[1:]
    assert counts.sum() == 16000
    assert (abs(counts - 16000 / 6) < 300).all()


def test_rows_and_calls_differ() -> None:
    spec = array_spec.BoundedArraySpec((), np.int64)
    policy = RandomPyPolicy(None, spec)

    drawn = np.array([policy.action(first_step(8)).action for _ in range(1000)])

    assert len(np.unique(drawn)) == drawn.size


def test_the_same_seed_gives_the_same_actions_and_no_seed_others() -> None:
    spec = array_spec.BoundedArraySpec((4,), np.int64)
    policies = [RandomPyPolicy(None, spec, seed=seed) for seed in (3, 3, None, None)]

    one, again, other, another = [
        np.stack([policy.action(first_step()).action for _ in range(5)])
        for policy in policies
    ]

    assert np.array_equal(one, again)
    assert not np.array_equal(other, another)
    assert not np.array_equal(one, other)


def test_seed_of_a_call_decides_that_call_only() -> None:
    spec = array_spec.BoundedArraySpec((4,), np.int64)
    policy, undisturbed = (RandomPyPolicy(None, spec, seed=3) for _ in range(2))

    one = policy.action(first_step(), seed=7).action
    again = policy.action(first_step(), seed=7).action

    assert np.array_equal(one, again)
    following = policy.action(first_step()).action
    assert np.array_equal(following, undisturbed.action(first_step()).action)


def test_actions_belong_to_the_caller() -> None:
    policy = RandomPyPolicy(None, DICE, seed=0)
    undisturbed = RandomPyPolicy(None, DICE, seed=0)

    for _ in range(3):
        action = policy.action(first_step(2)).action

        assert np.array_equal(action, undisturbed.action(first_step(2)).action)
        action[:] = 99


def test_outer_dims_may_be_given() -> None:
    policy = RandomPyPolicy(None, DICE, outer_dims=[2, 3])

    assert policy.action(first_step()).action.shape == (2, 3)


def test_sizes_that_may_vary_do() -> None:
    policy = RandomPyPolicy(None, array_spec.ArraySpec((None,), np.int32), seed=0)

    sizes = {policy.action(first_step()).action.shape for _ in range(50)}

    assert len(sizes) > 1


def test_state_is_handed_back_and_info_is_drawn() -> None:
    policy = RandomPyPolicy(None, DICE, (), info_spec={"dice": DICE})

    step = policy.action(first_step(4), policy_state="s")

    assert step.state == "s"
    assert step.info["dice"].shape == (4,)


@given(
    mask=st.lists(
        st.lists(st.booleans(), min_size=6, max_size=6).filter(any),
        min_size=1,
        max_size=5,
    ),
    shape=st.sampled_from([(), (1,)]),
)
def test_only_what_the_mask_allows_is_done(
    mask: list[list[bool]], shape: tuple[int, ...]
) -> None:
    policy = RandomPyPolicy(
        None,
        DICE.replace(shape=shape),
        observation_and_action_constraint_splitter=split,
    )

    batch = policy.action(masked_step(mask)).action
    single = policy.action(masked_step(mask[0])).action

    chosen: list[int] = batch.ravel().tolist()
    assert batch.shape == (len(mask), *shape)
    assert batch.dtype == np.int64
    assert all(row[value - 1] for row, value in zip(mask, chosen, strict=True))
    assert single.shape == shape
    assert mask[0][int(single.item()) - 1]


def test_allowed_actions_are_equally_likely() -> None:
    policy = RandomPyPolicy(
        None, DICE, seed=0, observation_and_action_constraint_splitter=split
    )
    step = masked_step(np.tile([0, 1, 0, 0, 1, 1], (6000, 1)))

    counts = np.bincount(policy.action(step).action, minlength=7)[1:]

    assert counts[[0, 2, 3]].tolist() == [0, 0, 0]
    assert (abs(counts[[1, 4, 5]] - 2000) < 200).all()


def test_mask_that_allows_nothing_or_has_another_shape_is_refused() -> None:
    policy = RandomPyPolicy(
        None, DICE, observation_and_action_constraint_splitter=split
    )

    with pytest.raises(ValueError, match=r"none is allowed in row \[1\]"):
        policy.action(masked_step([[1] * 6, [0] * 6]))
    with pytest.raises(ValueError, match=r"expected shape \(2, 6\), got \(2, 5\)"):
        policy.action(masked_step([[1] * 5, [1] * 5]))


@pytest.mark.parametrize(
    "action_spec",
    [
        {"a": DICE},
        DICE.replace(shape=(2,)),
        array_spec.ArraySpec((), np.int32),
        array_spec.BoundedArraySpec((), np.float32, 0, 1),
    ],
    ids=repr,
)
def test_mask_needs_a_single_bounded_integer(action_spec: Any) -> None:
    with pytest.raises(ValueError, match="action_spec: expected a single BoundedArr"):
        RandomPyPolicy(
            None, action_spec, observation_and_action_constraint_splitter=split
        )


def test_it_drives_an_environment_of_nests() -> None:
    env = environments.Nested()
    policy = RandomPyPolicy(env.time_step_spec(), env.action_spec())
    time_step = env.reset()

    while not time_step.is_last():
        time_step = env.step(policy.action(time_step).action)

    assert checks.check_arrays_nest(env.last_action, env.action_spec())


def test_an_action_spec_that_is_none_is_refused_by_path() -> None:
    with pytest.raises(TypeError) as caught:
        RandomPyPolicy(None, {"steer": DICE, "brake": 3})

    assert str(caught.value) == (
        "action_spec['brake']: expected an ArraySpec, got int 3."
    )
