"""Our replay buffer as a source of TF-Agents' learners, and as one of its buffers."""

from __future__ import annotations

import itertools
import pathlib
import re
import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.agents.dqn import dqn_agent
from tf_agents.drivers import dynamic_step_driver
from tf_agents.environments import tf_py_environment
from tf_agents.networks import sequential
from tf_agents.policies import random_tf_policy
from tf_agents.replay_buffers import replay_buffer as tf_replay_buffer
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import trajectory as tf_trajectory
from tf_agents.utils import common

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter

FIRST, MID, LAST = 0, 1, 2

DATA_SPEC = tf_trajectory.Trajectory(
    step_type=tf.TensorSpec((), tf.int32),
    observation=tf.TensorSpec((2,), tf.float32),
    action=tf.TensorSpec((), tf.int32),
    policy_info=(),
    next_step_type=tf.TensorSpec((), tf.int32),
    reward=tf.TensorSpec((), tf.float32),
    discount=tf.TensorSpec((), tf.float32),
)


def rows(t: int, num_streams: int = 2, cls: Any = pe.Trajectory) -> Any:
    """Step t of each stream; an episode is F M L, so the third row is the boundary."""
    numbers = (100 * np.arange(num_streams) + t).astype(np.float32)
    return cls(
        step_type=np.full(num_streams, t % 3, np.int32),
        observation=np.stack([numbers, numbers], axis=1),
        action=np.full(num_streams, t, np.int32),
        policy_info=(),
        next_step_type=np.full(num_streams, (t + 1) % 3, np.int32),
        reward=numbers,
        discount=np.ones(num_streams, np.float32),
    )


def filled(num_rows: int = 30, **settings: Any) -> pe.ReplayBuffer:
    buffer = pe.ReplayBuffer(capacity=100, num_streams=2, seed=1, **settings)
    for t in range(num_rows):
        buffer.add_batch(rows(t))
    return buffer


def in_tf_agents(num_rows: int = 0) -> adapter.TFAgentsReplayBuffer:
    buffer = pe.ReplayBuffer(capacity=8, num_streams=2, seed=1)
    wrapped = adapter.TFAgentsReplayBuffer(DATA_SPEC, buffer)
    for t in range(num_rows):
        wrapped.add_batch(rows(t, cls=tf_trajectory.Trajectory))
    return wrapped


def equal(one: Any, two: Any) -> None:
    tf.nest.map_structure(np.testing.assert_array_equal, one, two)


@pytest.mark.parametrize(
    ("batch_size", "num_steps", "outer"),
    [(4, 2, (4, 2)), (None, 2, (2,)), (4, None, (4,)), (None, None, ())],
)
def test_elements_are_pairs_of_known_shape(
    batch_size: int | None, num_steps: int | None, outer: tuple[int, ...]
) -> None:
    dataset = filled().as_dataset(batch_size, num_steps)

    experience, info = next(iter(dataset))

    assert isinstance(experience, tf_trajectory.Trajectory)
    assert isinstance(info, tf_uniform_replay_buffer.BufferInfo)
    for element in (dataset.element_spec[0], experience):
        assert element.observation.shape == (*outer, 2)
        assert element.reward.shape == outer
        assert (element.reward.dtype, element.action.dtype) == (tf.float32, tf.int32)
    assert (info.ids.shape, info.ids.dtype) == (outer, tf.int64)
    assert info.probabilities == ()


def test_elements_are_what_sample_draws() -> None:
    buffer, same = filled(), filled()
    items, info = same.sample(4, 2, with_info=True)

    experience, buffer_info = next(
        iter(buffer.as_dataset(4, 2, with_probabilities=True))
    )

    equal(tuple(experience), tuple(items))
    equal(buffer_info.ids[:, 0], info.keys)
    np.testing.assert_allclose(buffer_info.probabilities[:, 1], info.probabilities)


def test_other_items_come_in_their_own_containers() -> None:
    buffer = pe.ReplayBuffer(capacity=10)
    for t in range(3):
        buffer.add({"b": (np.int16(t),), "a": {"x": np.zeros((2, 3), np.uint8)}})

    items, _ = next(iter(buffer.as_dataset(5, 2)))

    assert list(items) == ["b", "a"]
    assert (items["b"][0].shape, items["b"][0].dtype) == ((5, 2), tf.int16)
    assert items["a"]["x"].shape == (5, 2, 2, 3)


def test_a_learner_that_starts_first_waits_for_rows() -> None:
    buffer = pe.ReplayBuffer(capacity=10, num_streams=2)
    iterator = iter(buffer.as_dataset(4, 2, data_spec=DATA_SPEC, timeout=60))
    collector = threading.Timer(
        0.2, lambda: [buffer.add_batch(rows(t)) for t in (0, 1)]
    )
    collector.start()

    experience, _ = next(iterator)

    np.testing.assert_array_equal(experience.action, [[0, 1]] * 4)
    collector.join()


def test_waiting_ends_with_what_is_missing() -> None:
    iterator = iter(filled(1).as_dataset(4, 2, timeout=0.1))

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="There is no window of 2 steps: 2 steps are stored in 2 of 2 streams",
    ):
        next(iterator)


def test_closing_the_buffer_ends_its_datasets() -> None:
    buffer = filled()
    iterator = iter(buffer.as_dataset(4, 2))
    next(iterator)

    buffer.close()

    with pytest.raises(tf.errors.UnknownError, match=r"The replay buffer was closed\."):
        list(iterator)  # Some elements were fetched before.


def test_closing_the_buffer_wakes_who_waits() -> None:
    buffer = pe.ReplayBuffer(capacity=10, num_streams=2)
    iterator = iter(buffer.as_dataset(4, 2, data_spec=DATA_SPEC, timeout=None))
    closing = threading.Timer(0.2, buffer.close)
    closing.start()

    with pytest.raises(tf.errors.UnknownError, match=r"The replay buffer was closed\."):
        next(iterator)
    closing.join()


def test_an_empty_buffer_needs_a_data_spec() -> None:
    buffer = pe.ReplayBuffer(capacity=10)

    with pytest.raises(ValueError, match="data_spec: nothing was added yet"):
        buffer.as_dataset(4, 2)


def test_a_data_spec_that_is_not_of_the_items_is_refused() -> None:
    other = DATA_SPEC._replace(reward=tf.TensorSpec((), tf.float64))

    with pytest.raises(ValueError, match=r"items\.reward: expected float64.*float32"):
        filled().as_dataset(4, 2, data_spec=other)


def test_a_leaf_whose_size_varies_is_refused_by_path() -> None:
    buffer = pe.ReplayBuffer(capacity=10)
    buffer.add({"words": [np.zeros(3)]})

    with pytest.raises(ValueError, match=r"items\['words'\]: expected a fixed shape"):
        buffer.as_dataset(4)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"sample_batch_size": 0},
            ValueError,
            "sample_batch_size: expected at least 1",
        ),
        ({"num_steps": 0}, ValueError, "num_steps: expected at least 1, got 0"),
        ({"timeout": -1}, ValueError, "timeout: expected at least 0 seconds, got -1"),
        ({"timeout": "x"}, TypeError, "timeout: expected seconds or None, got 'x'"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        filled().as_dataset(**arguments)


def in_both(num_rows: int) -> tuple[Any, Any]:
    theirs = tf_uniform_replay_buffer.TFUniformReplayBuffer(DATA_SPEC, 2, max_length=8)
    for t in range(num_rows):
        theirs.add_batch(rows(t, cls=tf_trajectory.Trajectory))
    return in_tf_agents(num_rows), theirs


@pytest.mark.parametrize("num_rows", [0, 5, 20])
def test_what_is_stored_is_what_tf_agents_buffer_stores(num_rows: int) -> None:
    ours, theirs = in_both(num_rows)

    assert isinstance(ours, tf_replay_buffer.ReplayBuffer)
    assert ours.num_frames().numpy() == theirs.num_frames().numpy()
    assert ours.capacity == theirs.capacity.numpy()
    equal(ours.gather_all(), theirs.gather_all())


@pytest.mark.parametrize(
    ("batch_size", "num_steps"),
    [(None, None), (None, 3), (None, 4), (2, None), (2, 3), (1, 2)],
)
def test_a_pass_visits_all_rows_in_tf_agents_order(
    batch_size: int | None, num_steps: int | None
) -> None:
    # Theirs mixes streams in a ring that has gone round, or not of whole windows.
    one, two = (
        list(buffer.as_dataset(batch_size, num_steps, single_deterministic_pass=True))
        for buffer in in_both(6)
    )

    assert len(one) > 1
    equal([items for items, _ in one], [items for items, _ in two])


def test_a_pass_over_no_rows_is_empty() -> None:
    dataset = in_tf_agents().as_dataset(2, 2, single_deterministic_pass=True)

    assert list(dataset) == []


def test_streams_of_different_lengths_cannot_be_gathered() -> None:
    buffer = in_tf_agents(2)
    one_row = tf.nest.map_structure(lambda leaf: leaf[:1], rows(2))
    buffer.add_batch(one_row, streams=[1])

    with pytest.raises(ValueError, match="there are 2 to 3 rows in each"):
        buffer.gather_all()


def test_clear_forgets_all_rows() -> None:
    buffer = in_tf_agents(5)

    buffer.clear()

    assert buffer.num_frames().numpy() == 0
    assert buffer.gather_all().observation.shape == (2, 0, 2)


@pytest.mark.parametrize(
    ("batch_size", "num_steps", "outer"),
    [(4, 2, (4, 2)), (None, 2, (2,)), (4, None, (4,)), (None, None, ())],
)
def test_get_next_gives_items_and_info(
    batch_size: int | None, num_steps: int | None, outer: tuple[int, ...]
) -> None:
    items, info = in_tf_agents(5).get_next(batch_size, num_steps)

    assert items.observation.shape == (*outer, 2)
    assert info.ids.shape == info.probabilities.shape == outer
    # Windows begin at 0, 1 and 3; only single steps begin at 4.
    expected = 1 / 6 if num_steps else 1 / 8
    np.testing.assert_allclose(info.probabilities, np.full(outer, expected), rtol=1e-6)


def test_get_next_gives_steps_apart_if_asked() -> None:
    items, info = in_tf_agents(5).get_next(4, 2, time_stacked=False)

    assert [step.observation.shape for step in items] == [(4, 2)] * 2
    np.testing.assert_array_equal(items[0].reward + 1, items[1].reward)
    np.testing.assert_array_equal(*info.ids)


def test_sequences_are_preprocessed_before_they_are_batched() -> None:
    def returns(sequence: Any) -> Any:
        total = tf.reduce_sum(sequence.reward) * tf.ones_like(sequence.reward)
        return sequence.replace(reward=total)

    dataset = in_tf_agents(3).as_dataset(4, 2, sequence_preprocess_fn=returns)
    every = in_tf_agents(3).as_dataset(
        sequence_preprocess_fn=returns, single_deterministic_pass=True
    )

    experience, _ = next(iter(dataset))
    assert set(experience.reward.numpy().ravel()) <= {1.0, 3.0, 201.0, 203.0}
    assert experience.reward.shape == (4, 2)
    assert [float(items.reward) for items, _ in every] == [3.0] * 3 + [303.0] * 3


def test_preprocessing_needs_sequences() -> None:
    with pytest.raises(ValueError, match="sequence_preprocess_fn: expected num_steps"):
        in_tf_agents(3).as_dataset(4, sequence_preprocess_fn=lambda items: items)


def test_nested_items_of_a_spec_that_an_agent_holds_are_trajectories() -> None:
    agent: Any = tf.Module()
    agent.spec = DATA_SPEC._replace(observation={"x": DATA_SPEC.observation})
    step = rows(1)._replace(observation={"x": rows(1).observation})
    buffer = pe.ReplayBuffer(capacity=8, num_streams=2)
    dataset = buffer.as_dataset(3, data_spec=agent.spec)
    wrapped = adapter.TFAgentsReplayBuffer(agent.spec, buffer)
    wrapped.add_batch(step)

    found = [next(iter(dataset))[0], wrapped.get_next(3)[0], wrapped.gather_all()]

    for items in found:
        assert isinstance(items, tf_trajectory.Trajectory)
        assert items.observation.keys() == {"x"}


@pytest.mark.parametrize("is_graph", [False, True])
def test_lists_are_nests_as_in_tf_agents(*, is_graph: bool) -> None:
    spec = DATA_SPEC._replace(observation=[DATA_SPEC.observation, DATA_SPEC.reward])
    wrapped = adapter.TFAgentsReplayBuffer(spec, pe.ReplayBuffer(8, 2))

    def add(x: Any, y: Any) -> None:
        step = rows(1, cls=tf_trajectory.Trajectory)._replace(observation=[x, y])
        wrapped.add_batch(step)

    # As many leaves as rows, which are not to be mistaken for each other.
    x, y = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([5.0, 6.0])
    (tf.function(add) if is_graph else add)(x, y)

    found = wrapped.gather_all().observation
    assert isinstance(found, list)
    equal(found, [x[:, None], y[:, None]])
    drawn = wrapped.get_next(3)[0].observation
    assert isinstance(drawn, list)
    assert [leaf.shape.as_list() for leaf in drawn] == [[3, 2], [3]]


def test_items_that_are_not_of_the_data_spec_are_refused_by_path() -> None:
    items = rows(0)._replace(observation=np.zeros((2, 3), np.float32))

    with pytest.raises(ValueError, match=r"items\.observation does not fit its spec"):
        in_tf_agents().add_batch(items)


def cartpoles() -> Any:
    return adapter.ParallelPyEnvironment(
        [pe.suites.constructor("CartPole-v1")] * 2, num_workers=0, base_seed=1
    )


def dqn(env: Any) -> dqn_agent.DqnAgent:
    network = sequential.Sequential(
        [tf.keras.layers.Dense(16, "relu"), tf.keras.layers.Dense(2)]
    )
    agent = dqn_agent.DqnAgent(
        tensor_spec.from_spec(env.time_step_spec()),
        tensor_spec.from_spec(env.action_spec()),
        q_network=network,
        optimizer=tf.keras.optimizers.legacy.Adam(1e-2),
        td_errors_loss_fn=common.element_wise_squared_loss,
    )
    agent.initialize()
    return agent


def weights(agent: dqn_agent.DqnAgent) -> list[np.ndarray]:
    return [variable.numpy() for variable in agent._q_network.trainable_weights]


def differ(one: np.ndarray, two: np.ndarray) -> bool:
    return not np.array_equal(one, two)


def learn(agent: dqn_agent.DqnAgent, dataset: Any) -> list[float]:
    train = common.function(agent.train)
    return [float(train(items).loss) for items, _ in itertools.islice(dataset, 5)]


def test_an_agent_learns_from_a_buffer_of_ours() -> None:
    with cartpoles() as env:
        agent = dqn(env)
        buffer = pe.ReplayBuffer(capacity=100, num_streams=2, seed=1)
        policy = adapter.from_tf_agents_policy(agent.collect_policy)
        pe.PyDriver(env, policy, [buffer.add_batch], max_steps=60).run()
    before = weights(agent)

    losses = learn(agent, buffer.as_dataset(16, num_steps=2).prefetch(3))

    assert np.isfinite(losses).all()
    assert all(map(differ, before, weights(agent)))


def test_an_agent_learns_from_what_a_graph_driver_has_added() -> None:
    with cartpoles() as env:
        agent = dqn(env)
        buffer = adapter.TFAgentsReplayBuffer(
            agent.collect_data_spec, pe.ReplayBuffer(capacity=100, num_streams=2)
        )
        tf_env = tf_py_environment.TFPyEnvironment(env)
        policy = random_tf_policy.RandomTFPolicy(
            agent.time_step_spec, agent.action_spec
        )
        driver = dynamic_step_driver.DynamicStepDriver(
            tf_env, policy, [buffer.add_batch], num_steps=60
        )
        driver.run()
        before = weights(agent)

        losses = learn(agent, buffer.as_dataset(16, 2, 3).prefetch(3))

    assert buffer.num_frames().numpy() >= 60
    assert np.isfinite(losses).all()
    assert all(map(differ, before, weights(agent)))


def test_rows_that_come_one_by_one_find_their_streams() -> None:
    with cartpoles() as env:
        buffer = adapter.TFAgentsReplayBuffer(
            dqn(env).collect_data_spec, pe.ReplayBuffer(capacity=100, num_streams=2)
        )

        def policy(time_step: Any) -> Any:
            return np.ones(len(time_step.step_type), np.int64)

        pe.AsyncDriver(env, policy, [buffer.add_batch], max_steps=60).run()

    assert len(buffer.buffer) == buffer.num_frames().numpy() >= 60
    assert {len(stream.reward) > 20 for stream in buffer.buffer.gather_all()} == {True}


def test_the_program_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    guide = pathlib.Path(__file__).parents[2] / "docs/guides/replay.md"
    program = re.search(r"^```py\n(.*?)^```$", guide.read_text("utf-8"), re.M | re.S)
    assert program is not None

    exec(program[1], {})

    assert capsys.readouterr().out.count("tf.Tensor(") == 10
