"""Forward convolutions of fewer input channels than a copy holds, on tensor cores.

Channels are padded to a copy of 16 bytes, 8 of two bytes or 4 of four. Two sorts of kernels, read
off 75 recorded calls of an H200 (cuDNN 9.19; 1 to 6 channels, 9 to 1,024 taps):

* some read the image without shared memory (`..._indexed_wo_smem_...`): clocks for every result and
  for every tap of it;
* CUTLASS's tiles of 128 x 128 or 256 x 64 work out every tap's address: a step of the main loop,
  64 bytes deep, takes 1.15 µs whatever it holds, four times that of many channels.

float16 and TF32 have the first up to 9 x 9 taps, bfloat16 never; patches of images (16 x 16, 32 x
32) always take the second.
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.convolution.shape import ConvShape
from gpuscope.cost.registry import Work

_COPY_BYTES = 16
_STEP_BYTES = 64
_LARGEST = 81
"""Taps of the largest filter that kernels without shared memory take."""

_BETWEEN = range(10, 31)
"""Taps for which bfloat16 has still other kernels, on the vector lanes."""

_FIRST_LAYER = 49
"""Taps of the filter that float16 has a kernel of its own for."""

_NARROW = 64
"""Results' channels that the tile of 256 x 64 is taken for."""


def few_channels_s(work: Work, shape: ConvShape, dtype: str, itemsize: float) -> float | None:
    """Arithmetic of a forward pass of few input channels; None where other models hold.

    Args:
        work: the convolution.
        shape: its sizes.
        dtype: that it is computed in.
        itemsize: bytes of an element.
    """
    device, get = work.device, work.constants.value
    if device.clock_hz is None or dtype not in ("bfloat16", "float16", "tf32"):
        return None
    copies = ceil(shape.channels_in * itemsize / _COPY_BYTES)
    rows = shape.images * shape.positions_out
    if dtype != "bfloat16" and shape.taps <= _LARGEST:
        if dtype == "float16" and shape.taps == _FIRST_LAYER:
            return None
        columns = ceil(shape.channels_out / 32) * 32
        cycles = get("convolution.few.cycles") + get("convolution.few.tap_cycles") * (
            shape.taps * copies
        )
        return rows * columns * cycles / (device.clock_hz * work.units)
    if dtype == "bfloat16" and shape.taps in _BETWEEN:
        return None
    tile = (256, 64) if shape.channels_out <= _NARROW else (128, 128)
    blocks = ceil(rows / tile[0]) * ceil(shape.channels_out / tile[1])
    steps = ceil(shape.taps * copies * _COPY_BYTES / _STEP_BYTES)
    each = steps * get("convolution.few.step_s") + get("convolution.few.tile_s")
    return ceil(blocks / work.units) * each
