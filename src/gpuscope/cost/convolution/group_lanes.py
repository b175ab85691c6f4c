"""Float32 convolutions of one group at a time, on the vector lanes, channels first.

For a group alone cuDNN takes small tiles, 32 positions by 32 channels of 64 threads each, whatever
the size (`implicit_convolve_sgemm`, `..._nchwkcrs_nchw_tilesize32x32x8_...`): 30 of 34 recorded
passes of an H200 (cuDNN 9.19; groups of 3 to 512 channels). A step of its main loop takes 8 of what
is summed over: a wait where a multiprocessor has a tile or less, and so much more for each further
tile. Some of them want the images of a group side by side: two copies by a transposing kernel of
512 threads (`genericTranspose_kernel`), where there are several images.
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.convolution.shape import ConvShape, Pass
from gpuscope.cost.convolution.stream import stream
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_TILE = 32
_DEEP = 8


def lanes_s(work: Work, rows: int, columns: int, depth: int) -> float:
    """Time of a product in tiles of 32 x 32.

    Args:
        work: the convolution.
        rows, columns, depth: of the implicit product.
    """
    get = work.constants.value
    tiles = ceil(rows / _TILE) * ceil(columns / _TILE)
    wait, step = (get(f"convolution.lanes.{n}_cycles") for n in ("wait", "step"))
    cycles = ceil(depth / _DEEP) * (wait + step * tiles / work.units)
    return get("convolution.lanes.floor_s") + cycles / work.clock_hz


def lanes(
    work: Work, shape: ConvShape, which: Pass, specs: tuple[TensorSpec, TensorSpec, TensorSpec]
) -> Kernel:
    """The kernel of one group, forward or the data gradient.

    Args:
        work: the convolution.
        shape: of the group.
        which: the pass.
        specs: its operands and its result.
    """
    first, second, out = specs
    took = lanes_s(work, *shape.product(which))
    name = f"conv_{'fprop' if which == 'forward' else 'dgrad'}_lanes"
    read = float(first.nbytes + second.nbytes)
    kernel = stream(work, name, read, out.nbytes, first.dtype, out.numel)
    duration = max(took, kernel.duration_s)
    rows, columns, _ = shape.product(which)
    return kernel.lasting(
        duration,
        flops=shape.flops,
        compute_s=took,
        limiter="compute",
        kind="convolution",
        grid=ceil(rows / _TILE) * ceil(columns / _TILE),
        block=64,
        waves=ceil(rows / _TILE) * ceil(columns / _TILE) / (work.units * 16.0),
    )
