"""Largest values of windows and their gradients, channels last: few threads with long ways.

`max_pool_forward_nhwc` and `max_pool_backward_nhwc` (ATen/native/cuda/DilatedMaxPool2d.cu) have
blocks of up to 1,024 threads over channels, columns and rows of a picture. Each thread takes two
columns and two rows (`BLOCK_STRIDE`) of up to four groups of channels, and goes through all their
windows, one visit after the other, with what it found so far in shared memory. Two pictures of
18 x 18 with 120 channels are four blocks, 24 us.
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, reads, written
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_MOST_THREADS, _WARP, _STRIDE, _GROUPS = 1024, 32, 2, 4
_RESIDENT = 2


def pool_last(
    work: Work, way: str, walked: TensorSpec, visits: float, chosen: list[int], of: str = "last"
) -> Kernel:
    """One kernel.

    Args:
        work: the operator.
        way: "pool" or "pool_backward".
        walked: whose elements the threads go through.
        visits: of windows or their elements, an element.
        chosen: positions of the inputs that are read.
        of: whose constants: of largest values, or of means of a given number.
    """
    get, read = work.constants.value, reads(work, chosen)
    pictures, channels, high, wide = walked.shape
    across = min(_power(channels), _WARP)
    columns = min(_power(wide), _MOST_THREADS // across)
    rows = min(_power(high), _MOST_THREADS // across // columns)
    across = min(_power(channels), _MOST_THREADS // columns // rows)
    strides = ceil(channels / (across * _GROUPS))
    groups = ceil(channels / (across * strides))
    parts = ceil(wide / (columns * _STRIDE)), ceil(high / (rows * _STRIDE))
    each = groups * ceil(ceil(wide / parts[0]) / columns) * ceil(ceil(high / parts[1]) / rows)
    grid, block = pictures * strides * parts[0] * parts[1], across * columns * rows
    key = f"copy.{way}.{of}"
    return kernel(
        work,
        Launch(
            work.op.name.rpartition("::")[2].lstrip("_"),
            "copy",
            read.cold,
            read.hot,
            written(work),
            items=walked.numel * across * groups * strides / channels,  # whole warps
            cycles=get(f"{key}.thread_cycles") + visits * get(f"{key}.visit_cycles"),
            grid=grid,
            block=block,
            resident=_RESIDENT,
            chain_s=get(f"{key}.base_s") + each * visits * get(f"{key}.visit_s"),
            loads=0.0,
            dtype=walked.dtype,
            family=f"copy.{way}",
        ),
    )


def _power(value: int) -> int:
    """Largest power of two up to `value`."""
    return 1 << max(value, 1).bit_length() - 1
