"""How ATen's own kernels of batch norm walk one channel, channels first.

A block of 512 threads has one channel: as many threads across as an image has pixels, rounded up to
a power of two and 512 at most, the rest along the images (`getNumThreads`, `reduce` in
ATen/native/cuda/Normalization.cuh). So 576 pixels cost two steps an image, the second almost empty,
and 144 cost as much as 256.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

MOST_THREADS = 512
"""Of a block (`MAX_BLOCK_SIZE`)."""

_WARP = 32


@dataclass(frozen=True, slots=True)
class Walk:
    """One channel's way through a block.

    Attributes:
        steps: values that a thread takes, one after the other.
        lanes: values of all warps that have any, the idle lanes of theirs among them.
    """

    steps: int
    lanes: int


def walk(images: int, pixels: int) -> Walk:
    """The way through a channel of `images` times `pixels` values."""
    across = min(MOST_THREADS, max(_WARP, 1 << max(pixels - 1, 0).bit_length()))
    down = MOST_THREADS // across
    steps = ceil(images / down) * ceil(pixels / across)
    return Walk(steps, images * ceil(pixels / _WARP) * _WARP)
