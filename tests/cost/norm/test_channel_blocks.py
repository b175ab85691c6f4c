"""How a block walks one channel of an image batch."""

from __future__ import annotations

import pytest

from gpuscope.cost.norm.channel_blocks import MOST_THREADS, walk


@pytest.mark.parametrize(
    ("images", "pixels", "steps"),
    [
        (256, 9216, 256 * 18),  # 512 across, no remainder
        (256, 2304, 256 * 5),  # 4.5 rounded up
        (256, 576, 256 * 2),  # 64 threads of the second step have a value
        (256, 144, 128),  # 256 across and 2 down
        (16, 49, 2),  # 64 across and 8 down
        (1, 1, 1),
    ],
)
def test_steps_of_a_thread(images: int, pixels: int, steps: int) -> None:
    assert walk(images, pixels).steps == steps


def test_idle_warps_issue_nothing() -> None:
    assert walk(256, 576).lanes == 256 * 576
    assert walk(256, 144).lanes == 256 * 160
    assert walk(3, 1000).lanes <= walk(3, 1000).steps * MOST_THREADS
