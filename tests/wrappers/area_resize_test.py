"""Pictures made smaller: every pixel is the mean of its area, exactly rounded."""

from __future__ import annotations

import importlib
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from parallel_envs.wrappers import area_resize

Picture = npt.NDArray[np.uint8]
Shape = tuple[int, int]


@pytest.mark.parametrize(
    ("old_shape", "new_shape"),
    [
        ((210, 160), (84, 84)),
        ((250, 160), (84, 84)),
        ((210, 160), (96, 64)),
        ((7, 5), (3, 4)),
        ((4, 6), (2, 3)),
        ((5, 5), (1, 1)),
    ],
)
def test_each_pixel_is_the_mean_of_its_area(old_shape: Shape, new_shape: Shape) -> None:
    picture = random_picture(old_shape)

    small = resized(picture, new_shape)

    for row, column in some_pixels(new_shape):
        assert small[row, column] == round(mean(picture, new_shape, row, column))


def test_a_picture_of_the_same_size_stays_as_it_is() -> None:
    picture = random_picture((9, 4))

    np.testing.assert_array_equal(resized(picture, (9, 4)), picture)


@pytest.mark.parametrize("value", [0, 255])
def test_the_darkest_and_the_brightest_picture_stay_so(value: int) -> None:
    picture = np.full((250, 160), value, np.uint8)

    assert set(resized(picture, (83, 79)).flat) == {value}


def test_opencv_differs_by_one_at_most_and_seldom() -> None:
    # Not at the top: it starts a thread, and other tests fork this process.
    opencv: Any = importlib.import_module("cv2")
    picture = random_picture((210, 160))

    theirs = opencv.resize(picture, (84, 84), interpolation=opencv.INTER_AREA)

    difference = np.abs(resized(picture, (84, 84)).astype(int) - theirs)
    assert difference.max() <= 1
    assert difference.mean() < 0.01


def test_one_object_resizes_one_picture_after_another() -> None:
    resize = area_resize.AreaResize((6, 6), (4, 3))
    first, second = random_picture((6, 6)), random_picture((6, 6), seed=1)
    out = np.empty((4, 3), np.uint8)

    for picture in (first, second, first):
        resize(picture, out)
        np.testing.assert_array_equal(out, resized(picture, (4, 3)))


def random_picture(shape: Shape, seed: int = 0) -> Picture:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def resized(picture: Picture, shape: Shape) -> Picture:
    out = np.empty(shape, np.uint8)
    height, width = picture.shape
    area_resize.AreaResize((height, width), shape)(picture, out)
    return out


def some_pixels(shape: Shape) -> list[tuple[int, int]]:
    corners = [(0, 0), (shape[0] - 1, shape[1] - 1)]
    generator = np.random.default_rng(0)
    inside = [tuple(generator.integers(0, shape)) for _ in range(50)]
    return corners + [(int(row), int(column)) for row, column in inside]


def mean(picture: Picture, shape: Shape, row: int, column: int) -> Fraction:
    total = Fraction(0)
    rows = overlaps(picture.shape[0], shape[0], row)
    columns = overlaps(picture.shape[1], shape[1], column)
    for old_row, height in rows.items():
        for old_column, width in columns.items():
            total += int(picture[old_row, old_column]) * height * width
    return total / (sum(rows.values()) * sum(columns.values()))


def overlaps(old: int, new: int, index: int) -> dict[int, Fraction]:
    """Returns how much of each old pixel is in one new pixel of a row."""
    size = Fraction(old, new)
    start, end = index * size, (index + 1) * size
    shares = {
        each: Fraction(min(end, each + 1) - max(start, each)) for each in range(old)
    }
    return {each: share for each, share in shares.items() if share > 0}
