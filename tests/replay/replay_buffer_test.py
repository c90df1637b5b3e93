from __future__ import annotations

import collections
import threading
from typing import Any

import numpy as np
import pytest

from parallel_envs import errors, replay
from parallel_envs.specs.array_spec import ArraySpec
from parallel_envs.trajectory import Trajectory

FIRST, MID, LAST = 0, 1, 2


def rows(observations: list[int], step_type: int = MID) -> dict[str, Any]:
    """A batch with a row for each observation."""
    return {
        "observation": np.array(observations),
        "step_type": np.full(len(observations), step_type, np.int32),
    }


def episodes(*lengths: int, capacity: int = 100) -> replay.ReplayBuffer:
    """One stream with these episodes, observations counting up; 0 leaves one open."""
    buffer = replay.ReplayBuffer(capacity, seed=0)
    t = 0
    for length in lengths:
        for step in range(length):
            kind = FIRST if step == 0 else LAST if step == length - 1 else MID
            buffer.add_batch(rows([t], kind))
            t += 1
    return buffer


def observed(buffer: replay.ReplayBuffer, num_steps: int) -> list[tuple[int, ...]]:
    return [tuple(w["observation"].tolist()) for w in buffer.iterate(num_steps)]


def trajectory(
    observation: int, step_type: int, next_step_type: int, reward: float
) -> Trajectory:
    return Trajectory(
        step_type=np.int32(step_type),
        observation={"x": np.int64(observation)},
        action=np.int64(observation * 10),
        policy_info=(),
        next_step_type=np.int32(next_step_type),
        reward=np.float32(reward),
        discount=np.float32(0 if next_step_type == LAST else 1),
    )


def trajectories() -> replay.ReplayBuffer:
    """An episode of three steps with its boundary, and the first step of the next."""
    buffer = replay.ReplayBuffer(20, seed=0)
    buffer.add(trajectory(0, FIRST, MID, 1))
    buffer.add(trajectory(1, MID, MID, 2))
    buffer.add(trajectory(2, MID, LAST, 4))
    buffer.add(trajectory(3, LAST, FIRST, 99))
    buffer.add(trajectory(100, FIRST, MID, 7))
    return buffer


def test_a_full_stream_keeps_its_last_steps_and_no_pair_reaches_over_the_seam() -> None:
    buffer = replay.ReplayBuffer(5)
    for t in range(12):
        buffer.add_batch(rows([t]))

    pairs = observed(buffer, 2)

    assert len(buffer) == 5
    assert pairs == [(7, 8), (8, 9), (9, 10), (10, 11)]


def test_windows_have_last_only_at_the_end_and_first_only_at_the_start() -> None:
    buffer = episodes(3, 2, 4)

    assert observed(buffer, 2) == [(0, 1), (1, 2), (3, 4), (5, 6), (6, 7), (7, 8)]
    assert observed(buffer, 3) == [(0, 1, 2), (5, 6, 7), (6, 7, 8)]
    assert len(observed(buffer, 1)) == 9


def test_a_first_step_without_a_last_before_it_starts_a_new_run() -> None:
    buffer = replay.ReplayBuffer(10)
    for t, kind in enumerate([FIRST, MID, FIRST, MID]):
        buffer.add_batch(rows([t], kind))

    assert observed(buffer, 2) == [(0, 1), (2, 3)]


def test_items_without_step_type_have_no_episodes() -> None:
    buffer = replay.ReplayBuffer(10)
    for t in range(4):
        buffer.add(np.array([t, t]))

    assert [w.tolist() for w in buffer.iterate(3)] == [
        [[0, 0], [1, 1], [2, 2]],
        [[1, 1], [2, 2], [3, 3]],
    ]
    assert buffer.num_episodes() == 0
    assert [len(run) for run in buffer.iterate_episodes(complete=False)] == [4]


def test_an_ended_stream_is_not_joined_with_what_comes_later() -> None:
    buffer = replay.ReplayBuffer(10, num_streams=2)
    buffer.add_batch(rows([0, 10]))
    buffer.end_stream(0)
    buffer.add_batch(rows([1, 11]))

    assert observed(buffer, 2) == [(10, 11)]


def test_streams_may_be_fed_in_any_order_and_at_any_pace() -> None:
    buffer = replay.ReplayBuffer(10, num_streams=3)

    buffer.add_batch(rows([20, 0]), streams=[2, 0])
    buffer.add_batch(rows([21]), streams=[2])
    buffer.add_batch(rows([10, 22, 1]), streams=np.array([1, 2, 0], np.int32))

    assert observed(buffer, 1) == [(0,), (1,), (10,), (20,), (21,), (22,)]
    assert observed(buffer, 3) == [(20, 21, 22)]


def test_a_stream_named_twice_in_a_batch_gets_its_rows_in_order() -> None:
    buffer = replay.ReplayBuffer(10, num_streams=2)

    buffer.add_batch(rows([0, 10, 1, 2, 11]), streams=[0, 1, 0, 0, 1])

    assert observed(buffer, 2) == [(0, 1), (1, 2), (10, 11)]


def test_an_empty_batch_adds_nothing() -> None:
    buffer = replay.ReplayBuffer(10)

    buffer.add_batch(rows([]), streams=[])

    assert len(buffer) == 0


def test_samples_are_uniform_over_all_windows() -> None:
    buffer = episodes(9, 2, 5, 3, capacity=16)
    want = collections.Counter(observed(buffer, 3))

    draws = buffer.sample(20_000, 3)["observation"]

    counts = collections.Counter(tuple(window) for window in draws.tolist())
    assert counts.keys() == want.keys()
    # Chi-square with k - 1 degrees of freedom, here 7: above 29.9 in one of 10,000
    # runs if the draws are uniform, and the seed is fixed.
    expected = 20_000 / len(want)
    assert sum((n - expected) ** 2 / expected for n in counts.values()) < 29.9


def test_rare_windows_are_found_and_drawn_uniformly() -> None:
    buffer = episodes(*[2] * 2000, 4, 4, capacity=10_000)

    draws = buffer.sample(4000, 4)["observation"][:, 0]

    starts, counts = np.unique(draws, return_counts=True)
    assert starts.tolist() == [4000, 4004]
    # Five standard deviations of a binomial: one seed in 1.7 million.
    assert abs(counts[0] - 2000) < 5 * np.sqrt(4000 / 4)


def test_the_same_seed_draws_the_same_samples() -> None:
    first, second = episodes(50), episodes(50)

    samples = [b.sample(30, 4)["observation"] for b in (first, second)]

    np.testing.assert_array_equal(samples[0], samples[1])


def test_info_tells_key_stream_and_probability_of_each_sample() -> None:
    buffer = replay.ReplayBuffer(10, num_streams=2, seed=0)
    keys = {
        (stream, t): buffer.add(np.int64(stream * 10 + t), stream)
        for stream in range(2)
        for t in range(3)
    }

    items, info = buffer.sample(40, 2, with_info=True)

    assert info.probabilities.tolist() == [1 / 4] * 40
    assert len(set(keys.values())) == 6
    for first, key, stream in zip(items[:, 0], info.keys, info.streams, strict=True):
        assert stream == first // 10
        assert key == keys[int(stream), int(first % 10)]


def test_samples_and_windows_are_the_callers_own() -> None:
    buffer = replay.ReplayBuffer(10)
    given = np.array([1.0, 2.0])
    buffer.add({"x": given, "y": [np.arange(3)]})

    given[:] = 0
    sample, window = buffer.sample(1), next(buffer.iterate(1))
    for array in (sample["x"], sample["y"][0][0], window["x"], window["y"][0]):
        array[:] = 7

    item = next(buffer.iterate(1))
    assert item["x"].tolist() == [[1.0, 2.0]]
    assert item["y"][0].tolist() == [0, 1, 2]


def test_without_a_window_of_the_length_the_error_says_what_there_is() -> None:
    buffer = episodes(3, 2)

    with pytest.raises(
        ValueError,
        match="no window of 4 steps: 5 steps are stored in 1 of 1 streams, and the "
        "longest run within one episode has 3",
    ):
        buffer.sample(1, 4)


def test_an_empty_buffer_says_that_it_is_empty() -> None:
    buffer = replay.ReplayBuffer(10)

    with pytest.raises(ValueError, match="no window of 1 steps: the buffer is empty"):
        buffer.sample(1)
    with pytest.raises(ValueError, match="no item of 3 steps: the buffer is empty"):
        buffer.sample_nstep(1, 3, 0.9)
    assert list(buffer.iterate()) == []
    assert list(buffer.iterate_nstep(1, 0.9)) == []
    assert list(buffer.iterate_episodes()) == []
    assert len(buffer) == buffer.num_episodes() == 0


def test_trajectories_come_back_as_such_and_no_window_starts_at_a_boundary() -> None:
    buffer = trajectories()

    singles = list(buffer.iterate(1))
    pairs = [t.observation["x"].tolist() for t in buffer.iterate(2)]

    assert all(isinstance(t, Trajectory) and t.policy_info == () for t in singles)
    assert [t.observation["x"].item() for t in singles] == [0, 1, 2, 100]
    assert pairs == [[0, 1], [1, 2], [2, 3]]
    assert 3 not in buffer.sample(500).observation["x"]


def test_n_step_items_of_trajectories_use_the_rewards_that_follow() -> None:
    buffer = trajectories()

    items = list(buffer.iterate_nstep(2, 0.5))

    got = [
        (
            item["observation"]["x"].item(),
            item["action"].item(),
            item["return"].item(),
            item["bootstrap"].item(),
            item["next_observation"]["x"].item(),
        )
        for item in items
    ]
    assert got == [(0, 0, 2.0, 0.25, 2), (1, 10, 4.0, 0.0, 3), (2, 20, 4.0, 0.0, 3)]


def test_n_step_items_stop_at_the_end_and_keep_a_time_limits_bootstrap() -> None:
    buffer = replay.ReplayBuffer(50)
    steps = [(0, FIRST, 0, 1), (1, MID, 1, 1), (2, LAST, 1, 1)]
    steps += [(10, FIRST, 0, 1), (11, MID, 5, 1), (12, MID, 5, 0.5), (13, MID, 5, 1)]
    for observation, kind, reward, discount in steps:
        item = rows([observation], kind)
        item["reward"] = np.array([reward], np.float32)
        item["discount"] = np.array([discount], np.float32)
        buffer.add_batch(item)

    got = {
        int(i["observation"]): (
            float(i["return"]),
            float(i["bootstrap"]),
            int(i["next_observation"]),
        )
        for i in buffer.iterate_nstep(3, 0.5)
    }

    # Nothing starts at 11 or 12: three steps are not there, nor is an end.
    assert got == {
        0: (1.5, 0.25, 2),
        1: (1.0, 0.5, 2),
        10: (5 + 0.5 * 5 + 0.5 * 0.25 * 5, 0.125 * 0.5, 13),
    }


def test_sampled_n_step_items_are_those_that_iteration_gives_each_equally_often() -> (
    None
):
    buffer = trajectories()

    items = buffer.sample_nstep(3000, 2, 0.5)

    starts, counts = np.unique(items["observation"]["x"], return_counts=True)
    assert starts.tolist() == [0, 1, 2]
    assert (abs(counts - 1000) < 5 * np.sqrt(3000 * 2 / 9)).all()
    assert items["return"].shape == (3000,)
    assert items["return"].dtype == np.float32
    chosen = items["observation"]["x"] == 1
    assert set(items["next_observation"]["x"][chosen].tolist()) == {3}


@pytest.mark.parametrize("missing", ["observation", "reward", "discount"])
def test_n_step_items_need_the_fields_they_are_made_from(missing: str) -> None:
    buffer = replay.ReplayBuffer(10)
    item = {"observation": 0, "reward": 0.0, "discount": 1.0, "step_type": 1}
    del item[missing]
    for _ in range(3):
        buffer.add(item)

    with pytest.raises(ValueError, match=f"need a field '{missing}'"):
        buffer.sample_nstep(1, 1, 0.9)


def test_episodes_are_counted_and_yielded_whole() -> None:
    buffer = episodes(4, 3, 5, capacity=10)
    buffer.add_batch(rows([12], FIRST))

    whole = [e["observation"].tolist() for e in buffer.iterate_episodes()]
    parts = [e["observation"].tolist() for e in buffer.iterate_episodes(complete=False)]

    assert whole == [[4, 5, 6], [7, 8, 9, 10, 11]]
    assert parts == [[3], [4, 5, 6], [7, 8, 9, 10, 11], [12]]
    assert buffer.num_episodes() == 2


def test_an_episode_of_trajectories_is_complete_with_and_without_its_boundary() -> None:
    buffer = replay.ReplayBuffer(20)
    buffer.add(trajectory(0, FIRST, MID, 1))
    buffer.add(trajectory(1, MID, LAST, 1))
    assert buffer.num_episodes() == 1

    buffer.add(trajectory(2, LAST, FIRST, 0))

    assert buffer.num_episodes() == 1
    episode = next(buffer.iterate_episodes())
    assert episode.observation["x"].tolist() == [0, 1, 2]


def test_what_is_overwritten_during_an_iteration_is_left_out() -> None:
    buffer = replay.ReplayBuffer(4)
    for t in range(4):
        buffer.add(np.int64(t))
    walk = buffer.iterate(1)
    seen = [next(walk).item()]

    buffer.add(np.int64(4))
    buffer.add(np.int64(5))
    seen += [window.item() for window in walk]

    assert seen == [0, 2, 3]


def test_a_key_seen_before_stores_nothing() -> None:
    buffer = replay.ReplayBuffer(10, num_streams=2)

    keys = [buffer.add(np.int64(t), t % 2, key=key) for t, key in enumerate([5, 6, 5])]

    assert keys == [5, 6, 5]
    assert [w.item() for w in buffer.iterate()] == [0, 1]
    assert buffer.stats()["duplicates"] == 1


def test_an_item_that_is_refused_does_not_use_up_its_key() -> None:
    buffer = replay.ReplayBuffer(10)
    buffer.add(np.int64(0), key=0)
    with pytest.raises(ValueError, match="items"):
        buffer.add(np.float64(1), key=1)

    buffer.add(np.int64(1), key=1)

    assert len(buffer) == 2


def test_keys_made_by_the_buffer_are_never_given_twice() -> None:
    buffer = replay.ReplayBuffer(3, num_streams=2)
    keys = [buffer.add(np.int64(0), stream) for _ in range(10) for stream in range(2)]

    buffer.clear()
    keys += [buffer.add(np.int64(0), stream) for _ in range(10) for stream in range(2)]

    assert len(set(keys)) == 40
    assert max(keys) < 0


def test_leaves_of_varying_size_are_lists_of_arrays() -> None:
    buffer = replay.ReplayBuffer(10, num_streams=2, seed=0)
    for t in range(3):
        tokens = [np.arange(t), np.arange(5 + t)]
        buffer.add_batch({"tokens": tokens, "t": np.array([t, t])})

    windows = list(buffer.iterate(2))
    sample = buffer.sample(4, 3)

    assert [[len(x) for x in w["tokens"]] for w in windows] == [
        [0, 1],
        [1, 2],
        [5, 6],
        [6, 7],
    ]
    assert len(sample["tokens"]) == 4
    assert {tuple(map(len, w)) for w in sample["tokens"]} == {(0, 1, 2), (5, 6, 7)}
    assert sample["tokens"][0][1].dtype == np.arange(1).dtype


def test_bytes_grow_with_the_rows_and_not_beyond_the_capacity() -> None:
    buffer = replay.ReplayBuffer(1000, num_streams=2)
    image = np.zeros((2, 100, 100), np.uint8)
    sizes: list[int] = []
    for _ in range(3000):
        buffer.add_batch(image)
        sizes.append(buffer.nbytes)

    assert sizes[0] < 0.6 * sizes[-1]
    assert sizes[999] == sizes[-1]
    assert 2 * 1000 * 10_000 <= sizes[-1] <= 1.05 * 2 * 1000 * 10_000


def test_bytes_of_varying_leaves_are_those_of_the_arrays_held() -> None:
    buffer = replay.ReplayBuffer(2)
    buffer.add([np.zeros(1000)])
    before = buffer.nbytes
    buffer.add([np.zeros(10)])
    buffer.add([np.zeros(10)])

    assert before - buffer.nbytes == 8 * (1000 - 20)


def test_clear_forgets_rows_keys_and_what_items_look_like() -> None:
    buffer = replay.ReplayBuffer(10)
    buffer.add({"a": 1}, key=3)

    buffer.clear()
    assert len(buffer) == 0
    assert buffer.nbytes < 10_000
    buffer.add({"b": 1.5}, key=3)

    assert next(buffer.iterate())["b"].tolist() == [1.5]


def test_stats_count_what_went_in_and_out() -> None:
    buffer = episodes(4, 5, capacity=6)
    buffer.sample(7, 2)
    buffer.sample(2)

    stats = buffer.stats()

    assert stats.pop("nbytes") == buffer.nbytes
    assert stats == {
        "steps": 6,
        "episodes": 1,
        "inserts": 9,
        "samples": 9,
        "duplicates": 0,
    }


def test_after_close_everything_says_that_the_buffer_was_closed() -> None:
    with episodes(4) as buffer:
        walk = buffer.iterate()
        next(walk)
    buffer.close()

    for call in (
        lambda: buffer.add_batch(rows([1])),
        lambda: buffer.sample(1),
        lambda: len(buffer),
        lambda: buffer.nbytes,
        lambda: next(walk),
        lambda: buffer.save("nowhere"),
    ):
        with pytest.raises(errors.ClosedError, match="replay buffer was closed"):
            call()


def test_threads_may_add_and_sample_at_once() -> None:
    buffer = replay.ReplayBuffer(50, num_streams=4, seed=0)
    buffer.add_batch(np.zeros(4, np.int64))
    failures: list[BaseException] = []

    def add() -> None:
        try:
            for t in range(1, 400):
                buffer.add_batch(np.full(4, t))
        except BaseException as error:
            failures.append(error)

    adder = threading.Thread(target=add)
    adder.start()
    while adder.is_alive():
        items = buffer.sample(8, min(2, len(buffer) // 4))
        assert (np.diff(items, axis=1) == 1).all()
    adder.join()

    assert not failures
    assert len(buffer) == 200


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"capacity": 0}, ValueError, "capacity: expected at least 1, got 0"),
        ({"capacity": 1.5}, TypeError, "capacity: expected an integer, got 1[.]5"),
        ({"capacity": True}, TypeError, "capacity: expected an integer, got True"),
        ({"num_streams": -1}, ValueError, "num_streams: expected at least 1, got -1"),
        ({"seed": "x"}, TypeError, "seed: expected an integer, got 'x'"),
        ({"seed": -3}, ValueError, "seed: expected at least 0, got -3"),
    ],
)
def test_bad_settings_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        replay.ReplayBuffer(**{"capacity": 10, **arguments})


def test_rows_and_items_in_the_wrong_method_are_refused_with_the_right_one() -> None:
    buffer = replay.ReplayBuffer(10)

    with pytest.raises(ValueError, match=r"1 row .*\(\)\. One item goes in with add"):
        buffer.add_batch({"observation": 3})
    with pytest.raises(
        ValueError,
        match=r"For 8 rows make the buffer with num_streams=8, or pass streams= with 8 "
        r"numbers; one item goes in with add\(\)\.",
    ):
        buffer.add_batch({"observation": np.zeros(8)})
    with pytest.raises(ValueError, match=r"step_type .* A batch goes in with add_bat"):
        buffer.add({"step_type": np.zeros(8, np.int32)})
    buffer.add({"observation": np.zeros(3)})
    with pytest.raises(ValueError, match=r"\(8, 3\)\. A batch goes in with add_batch"):
        buffer.add({"observation": np.zeros((8, 3))})
    with pytest.raises(ValueError, match=r"of shape \(4,\)\.$"):
        buffer.add({"observation": np.zeros(4)})


def test_bad_arguments_are_refused_by_name() -> None:
    buffer = replay.ReplayBuffer(10, num_streams=2)

    with pytest.raises(ValueError, match="batch_size: expected at least 1, got 0"):
        buffer.sample(0)
    with pytest.raises(TypeError, match="num_steps: expected an integer, got '2'"):
        buffer.iterate("2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n: expected at least 1, got 0"):
        buffer.iterate_nstep(0, 0.9)
    with pytest.raises(ValueError, match=r"gamma: expected 0 to 1, got 1\.1"):
        buffer.sample_nstep(1, 1, 1.1)
    with pytest.raises(TypeError, match="gamma: expected a number, got None"):
        buffer.sample_nstep(1, 1, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"streams: expected numbers from 0 to 1, got"):
        buffer.add_batch(rows([1]), streams=[2])
    with pytest.raises(ValueError, match=r"streams: expected one dimension.*\(1, 1\)"):
        buffer.add_batch(rows([1]), streams=[[0]])
    with pytest.raises(TypeError, match="streams: expected integers"):
        buffer.add_batch(rows([1]), streams=[0.5])
    with pytest.raises(ValueError, match="stream: expected numbers from 0 to 1"):
        buffer.end_stream(-1)
    with pytest.raises(TypeError, match="key: expected an integer, got 'a'"):
        buffer.add(1, key="a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="key: expected 0 to 2"):
        buffer.add(1, key=-1)


def test_a_batch_that_is_refused_leaves_the_buffer_as_it_was() -> None:
    buffer = replay.ReplayBuffer(10, num_streams=2)
    buffer.add_batch(rows([0, 10]))
    bad = rows([1, 11])
    bad["step_type"] = np.array([1, 3], np.int32)

    with pytest.raises(ValueError, match=r"items\['step_type'\]: expected 0 \(FIRST\)"):
        buffer.add_batch(bad)

    assert observed(buffer, 1) == [(0,), (10,)]


def test_all_rows_are_gathered_by_stream_with_their_boundaries() -> None:
    buffer = replay.ReplayBuffer(capacity=3, num_streams=3)
    for t in range(4):
        buffer.add_batch(rows([t, 10 + t], LAST if t == 2 else MID), streams=[0, 2])

    gathered = [stream["observation"].tolist() for stream in buffer.gather_all()]

    assert gathered == [[1, 2, 3], [11, 12, 13]]


def test_nothing_is_gathered_from_an_empty_buffer() -> None:
    assert replay.ReplayBuffer(capacity=3).gather_all() == []


def test_the_buffer_tells_what_items_look_like() -> None:
    buffer = replay.ReplayBuffer(capacity=3)
    before = buffer.item_spec

    buffer.add({"image": np.zeros((4, 4), np.uint8), "words": [np.zeros(3, np.int16)]})

    assert before is None
    assert buffer.item_spec == {
        "image": ArraySpec((4, 4), np.uint8),
        "words": ArraySpec((None,), np.int16),
    }
