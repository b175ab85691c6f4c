from __future__ import annotations

import pytest

from gpuscope.cost.norm.batch_last import tiles


@pytest.mark.parametrize(
    ("channels", "rows", "together", "blocks", "steps"),
    [
        # As recorded on an H200, grid for grid.
        (256, 512, True, 8, 8),
        (256, 512, False, 16, 4),
        (2048, 784, True, 64, 13),
        (2048, 784, False, 256, 4),
        (1024, 3136, True, 32 * 13, 4),
        (64, 200704, True, 256, 25),
        (512, 12544, False, 16 * 49, 4),
        (320, 16384, True, 640, 4),
    ],
)
def test_channels_last_kernels_are_cut_as_the_library_cuts_them(
    channels: int, rows: int, together: bool, blocks: int, steps: int
) -> None:
    grid, threads, walked, _ = tiles(channels, rows, together)
    assert (grid, threads, walked) == (blocks, 512, steps)
