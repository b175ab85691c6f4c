"""Pictures read at given places (`grid_sample`): PyTorch's own kernels and cuDNN's.

A place of a bilinear one is made of four pixels of every channel, and its gradient adds to them
atomically. Neighbours of a grid with rows and columns (a warp, a flow) lie side by side in the
picture, too, so that the lanes of a warp share sectors. Places in one line (points drawn on a mask,
samples of a volume) are in no order: every lane has sectors and atomic additions of its own, at
15 ps a value forward and 55 ps backward on an H200, whichever the library (148 calls with places
anywhere in and in order of the picture).

PyTorch's (ATen/native/cuda/GridSampler.cu): a thread a place, which goes through all channels; for
a bicubic one through 16 pixels of each, one after the other.
cuDNN's (`bilinear_sampler_fw_4d`): a thread a place and four channels. PyTorch takes it for
bilinear, zeros around and aligned corners (ATen/native/GridSampler.cpp), unless there are more than
1,024 channels or the values are bfloat16 (`cond_cudnn_grid_sampler`, GridSamplerUtils.h); a capture
without a GPU sees the operator of the other. Its gradients in 16 bits swap words of two values
until none came between; what is lost on maps of few pixels is not modelled.
"""

from __future__ import annotations

from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, kernel, machine, reads, written
from gpuscope.cost.copy.model import fill_kernel
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_THREADS, _WARP, _LINE_BYTES = 256, 32, 128
_CHANNELS, _MOST_CHANNELS = 4, 1024
_TAPS, _BICUBIC = 4, 2


def grid_sample(work: Work) -> tuple[Kernel, ...]:
    """The kernels of a forward pass or of a gradient."""
    name = work.op.name.rpartition("::")[2]
    back = name.endswith("backward")
    picture, grid = work.op.inputs[1:3] if back and "cudnn" not in name else work.op.inputs[:2]
    if by_library(work, picture):
        return _library(work, picture, grid, back)
    values = work.op.inputs[0] if back else work.outputs[0]
    channels = values.shape[1]
    way = "forward" if not back else "backward" if values.itemsize >= 4 else "backward_half"
    get, blocks = work.constants.value, ceil(prod(grid.shape[:3]) / _THREADS)
    cycles = _cycles(work, picture, grid, way, blocks)
    bicubic = work.op.args.get("interpolation_mode", 0) == _BICUBIC
    each = f"bicubic_{way.removesuffix('_half')}" if bicubic else way
    chain_s = get("copy.pixel.base_s") + channels * get(f"copy.grid.{each}_s")
    body = _body(work, name, values, cycles, blocks, chain_s)
    return (fill_kernel(work, work.outputs[0]), body) if back else (body,)


def by_library(work: Work, picture: TensorSpec) -> bool:
    """Whether cuDNN takes it."""
    if "cudnn" in work.op.name:
        return True
    args = work.op.args
    return (
        work.device.vendor == "NVIDIA"
        and not args.get("interpolation_mode", 0)
        and not args.get("padding_mode", 0)
        and bool(args.get("align_corners", False))
        and picture.dtype in ("float16", "float32", "float64")
        and picture.shape[1] <= _MOST_CHANNELS
        and picture.numel < 2**31
    )


def _library(work: Work, picture: TensorSpec, grid: TensorSpec, back: bool) -> tuple[Kernel, ...]:
    """cuDNN's; before a gradient it clears, a thread a value."""
    way, get = "backward" if back else "forward", work.constants.value
    channels, places = picture.shape[1], prod(grid.shape[1:3])
    values = TensorSpec(
        (picture.shape[0], channels, places), (channels * places, places, 1), picture.dtype
    )
    across = max(1, _THREADS // ceil(channels / _CHANNELS))
    blocks = ceil(places / across) * picture.shape[0]
    cycles = _cycles(work, picture, grid, way, blocks)
    if back and picture.itemsize < 4:
        cycles = get("copy.grid.library_half_cycles")
    chain_s = get("copy.pixel.base_s") + _CHANNELS * get(f"copy.grid.{way}_s")
    body = _body(work, f"cudnn_grid_sampler_{way}", values, cycles, blocks, chain_s)
    if not back:
        return (body,)
    clear = kernel(
        work,
        Launch(
            "cudnn_scale_packed",
            "copy",
            written_bytes=float(picture.nbytes),
            items=picture.numel,
            cycles=get("copy.grid.clear_cycles"),
            grid=max(1, ceil(picture.numel / _THREADS)),
            block=_THREADS,
            streaming=True,
            dtype=picture.dtype,
        ),
    )
    return clear, body


def _cycles(work: Work, picture: TensorSpec, grid: TensorSpec, way: str, blocks: int) -> float:
    """Clocks a value: more for places in no order.

    Those are the L2's, which few blocks have to themselves.
    """
    get = work.constants.value
    near = get(f"copy.grid.{way}_cycles")
    if min(grid.shape[1:3]) > 1 or picture.is_channels_last:
        return near
    # Of a picture that is one pixel wide, neighbours to the side are outside.
    inside = prod(2 if n > 1 else 1 for n in picture.shape[2:]) / _TAPS
    apart = get(f"copy.grid.{way.removesuffix('_half')}_apart_cycles") * inside
    units = machine(work).units
    apart *= blocks / (units * ceil(blocks / units))
    if way != "forward":
        return max(apart, near * inside)
    # Lanes meet in the lines of a small picture.
    lines = max(prod(picture.shape[2:]) * picture.itemsize / _LINE_BYTES, 1.0)
    return max(apart * lines * (1.0 - (1.0 - 1.0 / lines) ** _WARP) / _WARP, near * inside)


def _body(
    work: Work, name: str, values: TensorSpec, cycles: float, blocks: int, chain_s: float
) -> Kernel:
    read = reads(work)
    return kernel(
        work,
        Launch(
            name,
            "copy",
            read.cold,
            read.hot,
            written(work),
            items=values.numel,
            cycles=cycles,
            grid=max(1, blocks),
            block=_THREADS,
            chain_s=chain_s,
            loads=0.0,
            dtype=values.dtype,
            family="copy.interpolate",
        ),
    )
