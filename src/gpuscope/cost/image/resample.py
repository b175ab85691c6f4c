"""Interpolation, unfolding and grid sampling of images (pooling: see `pooling`; gradients of
bilinear interpolation: `resample_gradient`).

One thread an output (forward) or an input (backward) element; index arithmetic and the window's
loads set the time rather than memory.
"""

from __future__ import annotations

from math import ceil, inf, prod

from gpuscope.cost.bandwidth import SECTOR_BYTES, Launch, Machine, kernel, machine, reads, written
from gpuscope.cost.copy.model import copy_kernel, fill_kernel, made_contiguous
from gpuscope.cost.image.grid_sample import grid_sample
from gpuscope.cost.image.resample_gradient import bilinear_backward, nearest_backward
from gpuscope.cost.image.resample_planes import WAYS, by_planes
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec


def _pixelwise(
    work: Work, name: str, key: str, items: int, cycles: float, dtype: str, last: bool
) -> Kernel:
    get = work.constants.value
    read = reads(work)
    # Interpolation kernels go on through several values a thread (UpSampleNearest2d.cu).
    block, each = (512, 3) if key == "interpolate" else (256, 1)
    factor = get(f"copy.{key}.channels_last") if last else 1.0
    return kernel(
        work,
        Launch(
            name,
            "copy",
            read.cold,
            read.hot,
            written(work),
            items=items,
            cycles=cycles * factor,
            grid=max(1, ceil(items / (block * each))),
            block=block,
            streaming=True,
            chain_s=get("copy.pixel.base_s"),
            dtype=dtype,
            family=f"copy.{key}",
        ),
    )


def _method(name: str) -> str:
    for method in ("nearest", "bilinear", "trilinear", "bicubic", "linear"):
        if method in name:
            return method
    return "grid"


@kernel_model(
    "aten::upsample_nearest1d",
    "aten::upsample_nearest2d",
    "aten::upsample_nearest3d",
    "aten::_upsample_nearest_exact1d",
    "aten::_upsample_nearest_exact2d",
    "aten::_upsample_nearest_exact3d",
    "aten::upsample_linear1d",
    "aten::upsample_bilinear2d",
    "aten::upsample_trilinear3d",
    "aten::upsample_bicubic2d",
    "aten::_upsample_bilinear2d_aa",
    "aten::_upsample_bicubic2d_aa",
    "aten::grid_sampler_2d",
    "aten::grid_sampler_3d",
    "aten::cudnn_grid_sampler",
    "aten::affine_grid_generator",
)
def interpolate(work: Work) -> tuple[Kernel, ...]:
    """Each output from its nearest inputs."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out = work.outputs[0]
    name = work.op.name.rpartition("::")[2].lstrip("_")
    method = _method(name)
    if name == "upsample_bilinear2d" and work.op.inputs[0].shape == out.shape:
        return (copy_kernel(work, work.op.inputs[0], out),)
    if name == "upsample_bilinear2d" and not out.is_channels_last:
        return (_bilinear(work, out),)
    if name in ("grid_sampler_2d", "cudnn_grid_sampler"):
        return grid_sample(work)
    if (way := name.removeprefix("upsample_")) in WAYS:
        return by_planes(work, way)
    cycles = work.constants.value(f"copy.interpolate.{method}_cycles")
    return (
        _pixelwise(work, name, "interpolate", out.numel, cycles, out.dtype, out.is_channels_last),
    )


def _outgrown(m: Machine, nbytes: float) -> float:
    """Share of loads that go to memory since what is written pushes out what is still to be read.

    Recorded on an H200: none with 21 MB of both, a third with 42, three quarters with 84.
    """
    if not m.l2_bytes:
        return 1.0
    return min(max((nbytes / m.l2_bytes - 0.55) / 1.05, 0.0), 1.0)


def _bilinear(work: Work, out: TensorSpec) -> Kernel:
    """Bilinear, NCHW: a thread a pixel goes through all planes of the batch, one after the other.

    `upsample_bilinear2d_out_frame` (ATen/native/cuda/UpSampleBilinear2d.cu) has 1,024 threads a
    block and as many threads as one plane has pixels, so that few pixels in many planes leave the
    device idle. What is stored may be what is loaded next, as far as the compiler knows, so each
    plane waits for its loads: a trip to the L2, or to memory where the data outgrow it, for every
    sector that no plane before has brought (planes of one pixel share it).
    """
    get, read, m = work.constants.value, reads(work), machine(work)
    planes, pixels = prod(out.shape[:2]), prod(out.shape[2:])
    far = 1.0 if read.cold else _outgrown(m, read.total + written(work))
    latency = m.l2_latency_s + far * (m.latency_s - m.l2_latency_s)
    fresh = min(1.0, read.total / planes / SECTOR_BYTES)
    waits_s = get("copy.interpolate.plane_s") + fresh * get("copy.interpolate.load") * latency
    blocks = ceil(pixels / 1024)
    # Or it takes as long as the arithmetic of the blocks that a multiprocessor has at once.
    together = min(pixels, 1024) * min(ceil(blocks / m.units), 2)
    works_s = together * get("copy.interpolate.plane_cycles") * m.units / (m.clocks_per_s or inf)
    return kernel(
        work,
        Launch(
            "upsample_bilinear2d",
            "copy",
            read.cold,
            read.hot,
            written(work),
            grid=blocks,
            block=1024,
            chain_s=get("copy.pixel.base_s") + planes * max(waits_s, works_s),
            dtype=out.dtype,
            family="copy.interpolate",
        ),
    )


@kernel_model(
    "aten::upsample_nearest1d_backward",
    "aten::upsample_nearest2d_backward",
    "aten::upsample_nearest3d_backward",
    "aten::_upsample_nearest_exact1d_backward",
    "aten::_upsample_nearest_exact2d_backward",
    "aten::_upsample_nearest_exact3d_backward",
    "aten::upsample_linear1d_backward",
    "aten::upsample_bilinear2d_backward",
    "aten::upsample_trilinear3d_backward",
    "aten::upsample_bicubic2d_backward",
    "aten::_upsample_bilinear2d_aa_backward",
    "aten::_upsample_bicubic2d_aa_backward",
    "aten::grid_sampler_2d_backward",
    "aten::grid_sampler_3d_backward",
    "aten::cudnn_grid_sampler_backward",
)
def interpolate_backward(work: Work) -> tuple[Kernel, ...]:
    """Nearest gathers the gradients of an input's copies; the others scatter them atomically."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out, grad = work.outputs[0], work.op.inputs[0]
    name = work.op.name.rpartition("::")[2].lstrip("_")
    if name == "upsample_bilinear2d_backward":
        return bilinear_backward(work)
    if name in ("grid_sampler_2d_backward", "cudnn_grid_sampler_backward"):
        return grid_sample(work)
    if (way := name.removeprefix("upsample_").removesuffix("_backward")) in WAYS:
        return by_planes(work, way)
    method = _method(name)
    last = out.is_channels_last
    if method == "nearest":
        return nearest_backward(work)
    cycles = 1.5 * work.constants.value(f"copy.interpolate.{method}_cycles")
    body = _pixelwise(work, name, "interpolate", grad.numel, cycles, out.dtype, last)
    return fill_kernel(work, out), body


@kernel_model("aten::im2col", "aten::im2col_backward")
def pieces(work: Work) -> tuple[Kernel, ...]:
    """Windows of an image written out: a launch an image, a thread a window and channel.

    The thread goes through its window with 64-bit arithmetic for every value (`im2col_kernel`,
    ATen/native/cuda/im2col.cuh): 16 x 16 patches of a picture of 224 are 588 threads of one block,
    47 us an image on an H200, of 128 images one after the other.
    """
    if not work.outputs or not work.outputs[0].numel:
        return ()
    x, out = work.op.inputs[0], work.outputs[0]
    images = x.shape[0] if len(x.shape) == 4 else 1
    taps = max(out.shape[-2] // max(x.shape[-3], 1), 1)
    threads = out.numel // images // taps
    read = reads(work)
    get = work.constants.value
    one = kernel(
        work,
        Launch(
            "im2col",
            "copy",
            read.cold / images,
            read.hot / images,
            out.nbytes / images,
            items=threads,
            cycles=get("copy.pieces.thread_cycles") + taps * get("copy.pieces.tap_cycles"),
            grid=max(1, ceil(threads / 1024)),
            block=1024,
            streaming=True,
            chain_s=get("copy.pixel.base_s"),
            loads=0.0,
            dtype=out.dtype,
            family="copy.interpolate",
        ),
    )
    return (one,) * images


@kernel_model("aten::col2im")
def joined_pieces(work: Work) -> tuple[Kernel, ...]:
    """The sum of all windows at each pixel: a thread a pixel goes through those that hold it.

    `col2im_device` (ATen/native/cuda/im2col.cuh) has two loops, of 64-bit divisions; the inner one
    is unrolled by four, which four rounds or more take. Lanes of a warp go on until the one with
    most windows is done.
    """
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out, get, read = work.outputs[0], work.constants.value, reads(work)
    high, wide = (_windows(work, dim) for dim in (0, 1))
    most = ceil(wide)
    rolled = most < _ROLLED
    row = get("copy.windows.visit_cycles") * most
    row_s = get("copy.windows.visit_s") * most
    if not rolled:
        row = get("copy.windows.unrolled_cycles") + get("copy.windows.more_cycles") * most
        row_s = get("copy.windows.unrolled_s")
    return (
        kernel(
            work,
            Launch(
                "col2im",
                "copy",
                read.cold,
                read.hot,
                written(work),
                items=out.numel,
                cycles=get("copy.windows.thread_cycles") + high * row,
                grid=max(1, ceil(out.numel / 512)),
                block=512,
                chain_s=get("copy.windows.base_s") + high * row_s,
                loads=0.0,
                dtype=out.dtype,
                family="copy.interpolate",
            ),
        ),
    )


_ROLLED = 4


def _windows(work: Work, dim: int) -> float:
    """Windows that hold a pixel, along one dimension."""

    def given(name: str, usual: int) -> int:
        value = work.op.args.get(name, usual)
        found = value[dim] if isinstance(value, (tuple, list)) else value
        return int(found) if isinstance(found, int) else usual

    extent = (given("kernel_size", 1) - 1) * given("dilation", 1) + 1
    return extent / max(given("stride", 1), 1)


@kernel_model(
    "aten::reflection_pad1d",
    "aten::reflection_pad2d",
    "aten::reflection_pad3d",
    "aten::replication_pad1d",
    "aten::replication_pad2d",
    "aten::replication_pad3d",
    "aten::reflection_pad1d_backward",
    "aten::reflection_pad2d_backward",
    "aten::replication_pad2d_backward",
)
def rearrange(work: Work) -> tuple[Kernel, ...]:
    """Each element from one other place; gradients are added up atomically, on zeros.

    A thread divides its place in 64 bits (ATen/native/cuda/ReflectionPad.cu, ReplicationPad.cu).
    """
    if not work.outputs or not work.outputs[0].numel or work.op.view:
        return ()
    out = work.outputs[0]
    items = max(out.numel, work.op.inputs[0].numel)
    name = work.op.name.rpartition("::")[2]
    back = name.endswith("backward")
    way = "reflected" if "reflection" in name else "replicated"
    if back:
        way = "added" if out.itemsize >= 4 else "swapped"
    read = reads(work)
    body = kernel(
        work,
        Launch(
            name,
            "copy",
            read.cold,
            read.hot,
            written(work),
            items=items,
            cycles=work.constants.value(f"copy.padded.{way}_cycles"),
            grid=max(1, ceil(items / 256)),
            block=256,
            streaming=True,
            dtype=out.dtype,
            family="copy.interpolate",
        ),
    )
    before = made_contiguous(work, 0)
    return (fill_kernel(work, out), *before, body) if back else (*before, body)
