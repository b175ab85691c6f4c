"""Interpolation whose threads go through all planes of a batch, one after the other.

`upsample_bicubic2d`, `upsample_linear1d` and `upsample_trilinear3d` with their gradients
(ATen/native/cuda/UpSampleBicubic2d.cu and beside it) have as many threads as one plane has pixels:
a picture of 28 x 28 is one block, whatever the batch and its channels, and every plane waits for
its loads. Their gradients add atomically what a pixel is made of. In 16 bits that is a compare and
swap of the word that holds two values (`gpuAtomicAdd`), tried again whenever another thread came
first: enlarged eight times, 400 us a plane. The gradient of volumes adds such halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, kernel, machine, reads, written
from gpuscope.cost.copy.model import fill_kernel
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_WARP = 32


@dataclass(frozen=True, slots=True)
class Way:
    """One kind of interpolation.

    Attributes:
        corners: pixels that one is made of.
        threads, backward_threads: of a block.
        cleared: the output is filled with zeros before.
        paired: 16-bit values are added as halves of a word (`fastAtomicAdd`), in twice the turns.
    """

    corners: int
    threads: int
    backward_threads: int
    cleared: bool
    paired: bool


WAYS = {
    "linear1d": Way(2, 512, 512, True, False),
    "bicubic2d": Way(16, 1024, 1024, True, False),
    "trilinear3d": Way(8, 512, 256, False, True),
}
"""By the operator's name; blocks and fills as recorded on an H200."""


def by_planes(work: Work, way: str) -> tuple[Kernel, ...]:
    """The kernels of a forward pass or of a gradient."""
    out, grad = work.outputs[0], work.op.inputs[0]
    back = work.op.name.endswith("backward")
    of, get = WAYS[way], work.constants.value
    large, small = (grad, out) if back else (out, grad)
    threads = of.backward_threads if back else of.threads
    pixels = prod(large.shape[2:])
    blocks = max(1, ceil(pixels / threads))
    m, read = machine(work), reads(work)
    fits = max((m.threads_per_unit or 2048) // threads, 1)
    beside = min(ceil(blocks / m.units), fits)
    clock_s = m.units / m.clocks_per_s if m.clocks_per_s else 0.0
    at_once = min(pixels, threads) * beside
    if back:
        plane_s = _added_s(work, of, large, small, at_once, clock_s)
    else:
        clocks = get(f"copy.planes.{way}_clocks")
        if large.is_channels_last:  # neighbours read far apart, but where they are made of the same
            enlarged = max(large.shape[-1] / small.shape[-1], 1.0)
            clocks += get("copy.planes.last_clocks") / enlarged
        plane_s = get("copy.planes.plane_s") + at_once * clocks * clock_s
    body = kernel(
        work,
        Launch(
            work.op.name.rpartition("::")[2],
            "copy",
            read.cold,
            read.hot,
            written(work),
            grid=blocks,
            block=threads,
            chain_s=get("copy.pixel.base_s") + prod(large.shape[:2]) * plane_s,
            loads=0.0,
            dtype=out.dtype,
            family="copy.interpolate",
        ),
    )
    return (fill_kernel(work, out), body) if back or of.cleared else (body,)


def _added_s(
    work: Work, of: Way, large: TensorSpec, small: TensorSpec, at_once: int, clock_s: float
) -> float:
    """Of a gradient, seconds a plane: additions of a warp to one address take turns."""
    get = work.constants.value
    sizes = list(zip(large.shape[2:], small.shape[2:], strict=True))
    across = max(sizes[-1][0] / max(sizes[-1][1], 1), 1.0)
    if len(sizes) > 1 and sizes[-1][0] < _WARP:  # rows of a warp that are made of the same one
        rows = _WARP / sizes[-1][0]
        across *= min(max(sizes[-2][0] / max(sizes[-2][1], 1), 1.0), rows)
    if small.itemsize >= 4 or of.paired:
        turns = of.corners * min(across, float(_WARP)) * at_once / _WARP
        turns *= 2.0 if small.itemsize < 4 else 1.0
        return get("copy.planes.plane_s") + turns * get("copy.planes.turn_clocks") * clock_s
    met = 2 * of.corners * prod(max(n / max(k, 1), 1.0) for n, k in sizes)
    first = of.corners * get("copy.planes.swap_s")
    return first + met * get("copy.planes.swap_again_s")
