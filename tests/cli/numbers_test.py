from __future__ import annotations

from typing import Any

import pytest

from parallel_envs.cli import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (22.4163, "22.42"),
        (500.0, "500"),
        (-12345.6, "-12,346"),
        (0.00012345, "0.0001234"),
        (float("nan"), "-"),
        (float("inf"), "inf"),
        ([0.5, 2000.0], "[0.5, 2,000]"),
    ],
)
def test_numbers_have_four_digits_or_all_before_the_point(
    value: Any, text: str
) -> None:
    assert numbers.formatted(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (3 * 2**20, "3.0 MiB"),
        (5 * 2**50, "5120.0 TiB"),
    ],
)
def test_bytes_are_told_in_the_unit_that_suits_them(count: int, text: str) -> None:
    assert numbers.num_bytes(count) == text
