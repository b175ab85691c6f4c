"""Kernels of tensor cores that take the groups of a convolution together.

They multiply whole tiles: the channels of each group are spread to a power of two, of 4 or more,
and neighbouring groups share a tile of 64 channels (TF32's forward passes and data gradients: of
32), whose products of one group's inputs with another's outputs are thrown away. The time is that
of the tiles with their zeros. Read off 760 recorded launches of an H200 (cuDNN 9.19; groups of 1 to
256 channels, 1 to 961 taps), whose names tell how many groups a tile has (`_g1_` to `_g16_`):

* a tile's main loop takes a step for each tap and 64 channels, on a multiprocessor so many of a
  second as its peak allows times an efficiency, a quarter to a half;
* where fewer tiles run than multiprocessors, a step waits for its loads;
* weight gradients sum over positions, 64 a step, and have a tile a tap. They cut those sums until
  all multiprocessors have work; where half precision's groups are narrowest, by older kernels and
  no sums of fewer than 130 steps or so (70 launches of 1 to 8,500 steps).
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.convolution.shape import ConvShape, Pass
from gpuscope.cost.matmul.gemm import rate_and_unit
from gpuscope.cost.registry import Work

SIDE = 64
"""Results of a tile to either side, and the depth of a step."""

NARROWEST = 4
"""Channels that a group has at least in a tile."""

_TF32_PACK = 32
_EIGHT = 8
"""Channels of a group whose packing takes half precision's kernels longest."""


_UNCUT = 130
"""Steps that a sum is left whole up to where groups are narrowest."""


def width(shape: ConvShape) -> int:
    """Channels that each group has in a tile, of either activation."""
    wider = max(shape.channels_in, shape.channels_out) // shape.groups
    return max(NARROWEST, 1 << (wider - 1).bit_length())


def tiles(shape: ConvShape, which: Pass, dtype: str) -> tuple[float, float]:
    """Tiles of 64 x 64 results, and steps of each.

    Args:
        shape: of all groups.
        which: the pass.
        dtype: that it is computed in.
    """
    pack = _TF32_PACK if dtype == "tf32" and which != "weight_gradient" else SIDE
    each = width(shape)
    columns = max(each, pack)
    packs = ceil(shape.groups * each / columns)
    if which == "weight_gradient":
        a_pack = (columns / SIDE) ** 2
        return packs * a_pack * shape.taps, ceil(shape.images * shape.positions_out / SIDE)
    steps = shape.taps * columns / SIDE
    positions = shape.positions_out
    if which == "data_gradient":
        positions = shape.positions_in
        steps *= min(shape.positions_out / max(shape.positions_in, 1), 1.0)
    return ceil(shape.images * positions / SIDE) * packs * columns / SIDE, steps


def packed_s(work: Work, shape: ConvShape, which: Pass, dtype: str) -> float:
    """Time of such a kernel.

    Args:
        work: the convolution.
        shape: of all groups.
        which: the pass.
        dtype: that it is computed in.
    """
    count, steps = tiles(shape, which, dtype)
    form = f"convolution.packed.{'tf32' if dtype == 'tf32' else 'half'}"
    get = work.constants.value
    names = [f"{form}.{which}", form]
    floor_s, efficiency, chain = (
        get(*(f"{name}.{of}" for name in names)) for of in ("floor_s", "efficiency", "step_cycles")
    )
    a_unit = rate_and_unit(work.device, dtype)[0] / work.units
    step_s = 2.0 * SIDE**3 / (a_unit * efficiency)
    each = width(shape)
    if each >= 2 * (_TF32_PACK if dtype == "tf32" else SIDE):
        step_s *= get("convolution.packed.wide")  # larger tiles, which read less for each product
    elif each == _EIGHT and dtype != "tf32" and which != "weight_gradient":
        step_s *= get("convolution.packed.eight")
    chain_s = chain / work.clock_hz
    if which == "weight_gradient":
        if dtype != "tf32" and each == NARROWEST:
            step_s /= get("convolution.packed.narrow")
            chain_s *= min(steps, _UNCUT)
        return floor_s + max(count * steps * step_s / work.units, chain_s)
    return floor_s + steps * max(chain_s, ceil(count / work.units) * step_s)
