"""Gradients of interpolation by two neighbours each way, and by the nearest.

Bilinear: a thread a gradient, four atomic additions each.

`upsample_bilinear2d_backward_out_frame` and its channels-last form
(ATen/native/cuda/UpSampleBilinear2d.cu) give each element of the incoming gradient a thread, which
adds a share of it to four pixels. Lanes of a warp that add to one address take turns; enlarged four
times, four neighbours do. 16-bit values are added in pairs (`fastSpecializedAtomicAdd`, in
KernelUtils.cuh): lanes of even and of odd places take separate ways, and both halves of a word are
one address. Additions to one sector of the L2 follow each other, whoever makes them: enlarged
sixteen times, all threads that run at once add to a few hundred. And a warp is followed here,
addition by addition: in how many turns its lanes' words go, and how many sectors of the L2 each
turn touches.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, prod

from gpuscope.cost.bandwidth import SECTOR_BYTES, Launch, kernel, machine, reads, written
from gpuscope.cost.copy.model import copy_kernel, fill_kernel
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_WARP, _THREADS, _CORNERS = 32, 1024, 4

_WARPS = 12
"""Warps that are followed, spread over the whole."""

_WORD_BYTES = 4
"""What an atomic addition works on: one value, or a pair of 16-bit ones."""

_LEAST_SECTORS, _ONE_WORD = 1.75, 0.5
"""A turn that touches fewer takes as long, but one of a single word less (88 recorded gradients,
micro/cases.jsonl.gz)."""


def bilinear_backward(work: Work) -> tuple[Kernel, ...]:
    """Zeros, then the sums; a copy where nothing is enlarged."""
    grad, out = work.op.inputs[0], work.outputs[0]
    if grad.shape == out.shape:
        return fill_kernel(work, out), copy_kernel(work, grad, out)
    get, read = work.constants.value, reads(work)
    # What comes in decides the layout (`suggest_memory_format` of the gradient).
    last, half = grad.is_channels_last, out.itemsize < _WORD_BYTES
    lane = "pair" if half and last else "pair_first" if half else "value"
    lanes = _CORNERS * get(f"copy.atomic.{lane}_cycles")
    sector = get(f"copy.atomic.{'pair' if half else 'value'}_sector_cycles") / _WARP
    corners = bool(work.op.args.get("align_corners", False))
    turns = warp_sectors(out.shape, grad.shape[2:], last, corners, out.itemsize)
    way = "last" if last else "pair" if half else "value"
    waiting = _CORNERS * get(f"copy.atomic.{way}_clocks") * machine(work).units
    grid, units = max(1, ceil(grad.numel / _THREADS)), machine(work).units
    # The L2 is one for all: few blocks wait no longer for it than many.
    waiting *= grid / (ceil(grid / units) * units) / _sectors_at_once(work, out, grad, last)
    body = kernel(
        work,
        Launch(
            "upsample_bilinear2d_backward",
            "copy",
            read.cold,
            read.hot,
            written(work),
            items=grad.numel,
            cycles=max(lanes, turns * sector, waiting),
            grid=grid,
            block=_THREADS,
            streaming=True,
            chain_s=get("copy.pixel.base_s"),
            dtype=out.dtype,
            family="copy.interpolate",
        ),
    )
    return fill_kernel(work, out), body


def _sectors_at_once(work: Work, out: TensorSpec, grad: TensorSpec, last: bool) -> float:
    """Sectors that all resident threads together add to: what lies in one is added in turn."""
    m = machine(work)
    _, channels, high, wide = out.shape
    inner = channels if last else 1
    rows = m.units * max(m.threads_per_unit, _THREADS) / (grad.shape[3] * inner)
    rows = min(rows, grad.numel / (grad.shape[3] * inner))
    # Those rows of the gradient lie on so many of the output, one more a picture.
    met = rows * high / grad.shape[2] + max(rows / grad.shape[2], 1.0)
    return max(met * wide * inner * out.itemsize / SECTOR_BYTES, 1.0)


@lru_cache(maxsize=1024)
def warp_sectors(
    shape: tuple[int, ...], enlarged: tuple[int, ...], last: bool, corners: bool, itemsize: float
) -> float:
    """Sectors that the turns of a warp's additions touch, the mean of warps all over the gradient.

    Args:
        shape: of what is added to: images, channels, height, width.
        enlarged: height and width of the incoming gradient.
        last: channels are innermost in both.
        corners: the outermost pixels' centres are kept (`align_corners`).
        itemsize: bytes of a value.
    """
    total = prod(shape[:2]) * prod(enlarged)
    step = max(total // _WARPS // _WARP, 1) * _WARP
    firsts = range(step // 2 // _WARP * _WARP, total, step)
    found = 0.0
    for first in firsts:
        lanes = range(first, min(first + _WARP, total))
        places = [_places(lane, shape, enlarged, last, corners) for lane in lanes]
        found += sum(_turns([p[at] for p in places], itemsize) for at in range(_CORNERS))
    return found / len(firsts)


def _places(
    lane: int, shape: tuple[int, ...], enlarged: tuple[int, ...], last: bool, corners: bool
) -> tuple[int, ...]:
    """The four elements that a thread adds to."""
    _, channels, high, wide = shape
    inner = channels if last else 1
    rest, channel = divmod(lane, inner)
    rest, x = divmod(rest, enlarged[1])
    plane, y = divmod(rest, enlarged[0])
    top, left = _source(y, high, enlarged[0], corners), _source(x, wide, enlarged[1], corners)
    rows, columns = (top, min(top + 1, high - 1)), (left, min(left + 1, wide - 1))
    return tuple(((plane * high + r) * wide + c) * inner + channel for r in rows for c in columns)


def _source(at: int, size: int, enlarged: int, corners: bool) -> int:
    """The first pixel that one of the enlarged picture is made of (`UpSample.cuh`,
    `area_pixel_compute_source_index`)."""
    if corners:
        return int(at * (size - 1) / (enlarged - 1)) if enlarged > 1 else 0
    return min(int(max((at + 0.5) * size / enlarged - 0.5, 0.0)), size - 1)


def _turns(places: list[int], itemsize: float) -> float:
    """Sectors of all turns of one addition, each at least `_LEAST_SECTORS`."""
    pair = max(int(_WORD_BYTES / itemsize), 1)
    found = 0.0
    for half in range(pair):
        waiting = [place // pair for place in places if place % pair == half]
        while waiting:
            served = set(waiting)
            sectors = len({word * _WORD_BYTES // SECTOR_BYTES for word in served})
            found += max(sectors, _LEAST_SECTORS) if len(served) > 1 else _ONE_WORD
            for word in served:
                waiting.remove(word)
    return found


def nearest_backward(work: Work) -> tuple[Kernel, ...]:
    """A thread a pixel gathers the gradients of its copies, one load after the other.

    Planes first, as many threads as one picture of the batch has values, each of which goes through
    the batch (`upsample_nearest2d_backward_out_frame`, ATen/native/cuda/UpSampleNearest2d.cu);
    channels last, a thread a value.
    """
    out, grad = work.outputs[0], work.op.inputs[0]
    get, read, last = work.constants.value, reads(work), grad.is_channels_last
    pictures = 1 if last else max(out.shape[0], 1)
    threads, block = out.numel // pictures, 1024 if last else 512
    copies = grad.numel / out.numel
    met = max(copies, 1.0)
    wait_s = get("copy.nearest.picture_s") + met * get("copy.nearest.load_s")
    return (
        kernel(
            work,
            Launch(
                work.op.name.rpartition("::")[2].lstrip("_"),
                "copy",
                read.cold,
                read.hot,
                written(work),
                items=out.numel,
                cycles=get("copy.nearest.thread_cycles") + met * get("copy.nearest.load_cycles"),
                grid=max(1, ceil(threads / block)),
                block=block,
                chain_s=get("copy.nearest.base_s") + pictures * wait_s,
                loads=0.0,
                dtype=out.dtype,
                family="copy.interpolate",
            ),
        ),
    )
