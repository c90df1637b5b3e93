from __future__ import annotations

from parallel_envs.replay.seen_keys import SeenKeys


def test_the_oldest_keys_are_forgotten() -> None:
    keys = SeenKeys(3, range(5))

    assert keys.to_list() == [2, 3, 4]
    assert 1 not in keys
    assert 4 in keys
