"""A batch written to a real server of Reverb."""

from __future__ import annotations

import collections
import operator
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.replay_buffers import reverb_replay_buffer, reverb_utils
from tf_agents.specs import tensor_spec

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from parallel_envs.testing import environments

reverb: Any = pytest.importorskip(
    "reverb", reason="Reverb has releases for TensorFlow up to 2.15 only"
)

FIRST, MID, LAST = 0, 1, 2
LENGTHS = (3, 5, 1)  # Actions in the episodes of each row.
TABLES = ["ours", "row-0", "row-1", "row-2"]


@pytest.fixture
def client() -> Iterator[reverb.Client]:
    server = reverb.Server([reverb.Table.queue(name, 1_000) for name in TABLES])
    yield reverb.Client(f"localhost:{server.port}")
    server.stop()


def kinds(row: int, t: int) -> tuple[int, int]:
    """The step type of a row, and the next one: so many actions, and the boundary."""
    place = t % (LENGTHS[row] + 1)
    step_types = [FIRST, *[MID] * (LENGTHS[row] - 1), LAST, FIRST]
    return step_types[place], step_types[place + 1]


def step(t: int) -> pe.Trajectory:
    """Step t of a batch in which observations tell row and step."""
    step_types = np.array([kinds(row, t) for row in range(len(LENGTHS))], np.int32)
    numbers = (100 * np.arange(1, len(LENGTHS) + 1) + t).astype(np.float32)
    return pe.Trajectory(
        step_type=step_types[:, 0],
        observation={"x": np.stack([numbers, -numbers], axis=1)},
        action=np.full(len(LENGTHS), t, np.int64),
        policy_info=(),
        next_step_type=step_types[:, 1],
        reward=numbers,
        discount=np.ones(len(LENGTHS), np.float32),
    )


def at(batch: Any, rows: Any) -> Any:
    """One row of the batch, or some."""
    return tf.nest.map_structure(operator.itemgetter(rows), batch)


def items(client: reverb.Client, table: str) -> list[list[np.ndarray]]:
    size = client.server_info()[table].current_size
    samples = client.sample(table, size, emit_timesteps=False) if size else []
    return [sample.data for sample in samples]


def by_row(every: list[list[np.ndarray]]) -> dict[int, list[list[np.ndarray]]]:
    """The items of each row, which their first observation tells."""
    rows = collections.defaultdict(list)
    for item in every:
        leaves = tf.nest.flatten(item)
        observations = next(leaf for leaf in leaves if leaf.ndim == 2)
        rows[int(observations[0, 0]) // 100 - 1].append(leaves)
    return rows


@pytest.mark.parametrize(
    "settings",
    [
        {"sequence_length": 2},
        {"sequence_length": 3, "stride_length": 3},
        {"sequence_length": 3, "pad_end_of_episodes": True},
        {
            "sequence_length": 3,
            "pad_end_of_episodes": True,
            "tile_end_of_episodes": True,
        },
    ],
)
def test_each_row_is_written_as_tf_agents_observer_writes_it_alone(
    client: reverb.Client, settings: dict[str, Any]
) -> None:
    theirs = [
        reverb_utils.ReverbAddTrajectoryObserver(client, name, **settings)
        for name in TABLES[1:]
    ]
    with adapter.ReverbAddTrajectoryObserver(client, "ours", **settings) as ours:
        for t in range(14):
            ours(step(t))
            for row, observer in enumerate(theirs):
                observer(at(step(t), row))
    for observer in theirs:
        observer.close()

    rows = by_row(items(client, "ours"))

    assert len(rows) >= 2
    for row, name in enumerate(TABLES[1:]):
        expected = [tf.nest.flatten(item) for item in items(client, name)]
        tf.nest.map_structure(np.testing.assert_array_equal, rows[row], expected)


def test_a_dataset_of_tf_agents_reads_what_a_driver_wrote() -> None:
    table = reverb.Table(
        "uniform",
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=1_000,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )
    server = reverb.Server([table])
    with pe.ParallelPyEnvironment([environments.Counting] * 3, num_workers=0) as env:
        policy = pe.RandomPyPolicy(env.time_step_spec(), env.action_spec(), seed=1)
        spec = adapter.to_tf_agents_trajectory(
            pe.from_transition(
                adapter.to_tf_agents_spec(env.time_step_spec()),
                pe.PolicyStep(adapter.to_tf_agents_spec(env.action_spec())),
                adapter.to_tf_agents_spec(env.time_step_spec()),
            )
        )
        buffer = reverb_replay_buffer.ReverbReplayBuffer(
            tensor_spec.from_spec(spec), "uniform", 2, local_server=server
        )
        with adapter.ReverbAddTrajectoryObserver(buffer.py_client, "uniform", 2) as to:
            pe.PyDriver(env, policy, [to], max_steps=30).run()
            to.flush()

    experience, _ = next(iter(buffer.as_dataset(4, num_steps=2)))

    assert buffer.get_table_info().current_size > 20
    assert experience.observation.shape == (4, 2, 3)
    before, after = experience.next_step_type[:, 0], experience.step_type[:, 1]
    np.testing.assert_array_equal(before, after)
    server.stop()


def test_rows_that_come_in_another_order_stay_apart(client: reverb.Client) -> None:
    with adapter.ReverbAddTrajectoryObserver(client, "ours", 2) as observer:
        for t in range(3):
            for env_ids in ([2], [1, 0]):
                observer(at(step(t), env_ids), env_ids)

    starts = [item[1][0, 0] for item in items(client, "ours")]
    assert sorted(starts) == [100, 101, 200, 201, 300]


def test_an_async_driver_can_feed_it(client: reverb.Client) -> None:
    constructors = [environments.Counting] * 3
    with pe.ParallelPyEnvironment(constructors, num_workers=0) as env:
        policy = pe.RandomPyPolicy(env.time_step_spec(), env.action_spec(), seed=1)
        with adapter.ReverbAddTrajectoryObserver(client, "ours", 2) as observer:
            pe.AsyncDriver(env, policy, [observer], max_steps=30).run()

    assert len(items(client, "ours")) > 20


def test_a_single_environment_is_taken_as_well(client: reverb.Client) -> None:
    with adapter.ReverbAddTrajectoryObserver(client, "ours", 2) as observer:
        for t in range(4):
            observer(at(step(t), 1))

    assert len(items(client, "ours")) == 3


def test_flush_brings_all_items_to_the_server(client: reverb.Client) -> None:
    with adapter.ReverbAddTrajectoryObserver(client, "ours", 1) as observer:
        observer(step(0))

        observer.flush()

        assert client.server_info()["ours"].current_size == 3


def test_reset_drops_what_is_not_written(client: reverb.Client) -> None:
    with adapter.ReverbAddTrajectoryObserver(client, "ours", 2) as observer:
        observer(step(0))
        observer.reset(write_cached_steps=False)
        observer(step(1))

    assert items(client, "ours") == []


def test_reset_cannot_write_what_is_too_short(client: reverb.Client) -> None:
    with adapter.ReverbAddTrajectoryObserver(client, "ours", 2) as observer:
        observer(step(0))

        with pytest.raises(ValueError, match="not enough steps remain in the cache"):
            observer.reset()


def test_reset_fills_up_where_it_may(client: reverb.Client) -> None:
    with adapter.ReverbAddTrajectoryObserver(
        client, "ours", 3, pad_end_of_episodes=True
    ) as observer:
        observer(step(0))
        observer.reset()

    assert sorted(by_row(items(client, "ours"))) == [0, 1, 2]


def test_it_is_used_again_after_it_was_closed(client: reverb.Client) -> None:
    observer = adapter.ReverbAddTrajectoryObserver(client, "ours", 1)
    observer(step(0))
    observer.close()
    observer.close()

    with pytest.raises(ValueError, match="Could not obtain writer"):
        observer(step(1))
    observer.open()
    observer(step(1))
    observer.close()

    assert len(items(client, "ours")) == 6


def test_a_batch_of_another_size_is_refused(client: reverb.Client) -> None:
    with adapter.ReverbAddTrajectoryObserver(client, "ours", 2) as observer:
        observer(step(0))

        with pytest.raises(ValueError, match="expected 3 rows as before, got 2"):
            observer(at(step(1), [0, 1]))


@pytest.mark.parametrize(
    "env_ids", [[0, 1], [0, 1, 2, 3], [0.0, 1.0, 2.0], [[0]] * 3, 1]
)
def test_numbers_that_are_not_of_the_rows_are_refused_unwritten(
    client: reverb.Client, env_ids: Any
) -> None:
    with adapter.ReverbAddTrajectoryObserver(client, "ours", 1) as observer:
        with pytest.raises(ValueError, match="env_ids: expected 3 integers"):
            observer(step(0), env_ids)
        observer.flush()

    assert items(client, "ours") == []


def test_wrong_arguments_are_refused(client: reverb.Client) -> None:
    with pytest.raises(
        TypeError, match=r"expected a reverb\.Client, got 'localhost:1'"
    ):
        adapter.ReverbAddTrajectoryObserver("localhost:1", "ours", 2)
    with pytest.raises(ValueError, match="Must set `pad_end_of_episodes=True`"):
        adapter.ReverbAddTrajectoryObserver(
            client, "ours", 2, tile_end_of_episodes=True
        )


def test_the_signature_and_the_client_are_told(client: reverb.Client) -> None:
    with adapter.ReverbAddTrajectoryObserver(client, ["ours"], 2) as observer:
        assert observer.py_client is client
        assert observer.get_table_signature() is None


def test_without_reverb_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "reverb", None)
    monkeypatch.delitem(
        sys.modules, "parallel_envs.adapters.tf_agents.reverb", raising=False
    )

    with pytest.raises(ImportError, match=r"pip install 'parallel_envs\[reverb\]'"):
        _ = adapter.ReverbAddTrajectoryObserver
