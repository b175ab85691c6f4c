"""Pooling of images and its gradients: one thread an output (forward) or an input (backward).

Bound by instructions, not by bytes: each thread first finds out where it is, by four or five
divisions (of 64-bit numbers in average pooling), then goes through its window, one load after the
other (ATen/native/cuda/AveragePool2d.cu, DilatedMaxPool2d.cu). So the time is a part for each
element and a part for each visit of a window, whatever the dtype; the first is most of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, prod

from gpuscope.cost.bandwidth import SECTOR_BYTES, Launch, kernel, reads, written
from gpuscope.cost.copy.model import fill_kernel
from gpuscope.cost.image.pool_last import pool_last
from gpuscope.cost.reduction.model import reduce_kernels
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_PLANE_THREADS = (32, 8)
"""Along a row and a column of an adaptively pooled plane (AdaptiveAveragePooling.cu)."""

_SCATTERED_CYCLES = 0.5
"""Clocks of a multiprocessor a load of a sector of its own: a warp's 32 at 64 bytes a clock."""


def _sizes(work: Work, name: str, dims: int) -> tuple[int, ...]:
    """An argument, one number for each dimension; empty if it is not given."""
    given = work.op.args.get(name)
    if isinstance(given, int):
        return (given,) * dims
    known = (
        tuple(s for s in given if isinstance(s, int)) if isinstance(given, (tuple, list)) else ()
    )
    return known * dims if len(known) == 1 else known


def _window(work: Work, large: TensorSpec, small: TensorSpec) -> float:
    """Elements of a window inside the image; without a kernel size the sizes' ratio."""
    dims = max(len(large.shape) - 2, 1)
    taps = _sizes(work, "kernel_size", dims)
    if len(taps) == dims:
        return float(prod(min(t, s) for t, s in zip(taps, large.shape[-dims:], strict=True)))
    return max(large.numel / max(small.numel, 1), 1.0)


def _apart(work: Work, large: TensorSpec, small: TensorSpec) -> int:
    """Elements between what neighbouring threads read first."""
    if small.shape[-1] == 1:
        return prod(large.shape[2:])
    steps = _sizes(work, "stride", max(len(large.shape) - 2, 1))
    return steps[-1] if steps else max(large.shape[-1] // small.shape[-1], 1)


def _kind(work: Work) -> str:
    return "max" if "max" in work.op.name else "avg"


def _pooled(
    work: Work, way: str, items: TensorSpec, visits: float, positions: Iterable[int]
) -> Kernel:
    """A thread for each of `items`, which makes so many visits one after the other.

    Args:
        work: the operator.
        way: "pool" or "pool_backward".
        items: what there is a thread for.
        visits: of windows or their elements, a thread.
        positions: of the inputs that are read.
    """
    get, read = work.constants.value, reads(work, positions)
    last = "last" if items.is_channels_last else "first"
    key = f"copy.{way}.{_kind(work)}.{last}"
    block = 256 if _kind(work) == "max" else 1024
    visit_cycles = get(f"{key}.visit_cycles")
    if way == "pool" and last == "first":
        # Neighbouring threads read a stride apart, or a plane where each has its own.
        apart = _apart(work, work.op.inputs[0], items) * items.itemsize
        visit_cycles = max(visit_cycles, min(1.0, apart / SECTOR_BYTES) * _SCATTERED_CYCLES)
    lanes, grid = items.numel, max(1, ceil(items.numel / block))
    if key == "copy.pool_backward.max.first" and len(items.shape) == 4:
        # Blocks of their own for each plane, whatever of the last one is empty.
        planes, pixels = prod(items.shape[:2]), prod(items.shape[2:])
        lanes, grid = planes * ceil(pixels / 32) * 32, planes * ceil(pixels / block)
    return kernel(
        work,
        Launch(
            work.op.name.rpartition("::")[2],
            "copy",
            read.cold,
            read.hot,
            written(work),
            items=lanes,
            cycles=get(f"{key}.thread_cycles") + visits * visit_cycles,
            grid=grid,
            block=block,
            chain_s=get("copy.pool.base_s"),
            loads=get("copy.pool.load") + (visits - 1.0) * get("copy.pool.next_load"),
            dtype=items.dtype,
            family=f"copy.{way}",
        ),
    )


@kernel_model(
    "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices",
    "aten::max_pool2d",
    "aten::avg_pool2d",
    "aten::avg_pool3d",
    "aten::avg_pool1d",
    "aten::max_pool1d",
    "aten::max_pool1d_with_indices",
    "aten::fractional_max_pool2d",
)
def pool(work: Work) -> tuple[Kernel, ...]:
    """Each output reduces its window."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out = work.outputs[0]
    visits = _window(work, work.op.inputs[0], out)
    if _kind(work) == "max" and len(out.shape) == 4 and out.is_channels_last:
        return (pool_last(work, "pool", out, visits, [0]),)
    return (_pooled(work, "pool", out, visits, (0,)),)


@kernel_model(
    "aten::max_pool2d_with_indices_backward",
    "aten::max_pool3d_with_indices_backward",
    "aten::avg_pool2d_backward",
    "aten::avg_pool3d_backward",
)
def pool_backward(work: Work) -> tuple[Kernel, ...]:
    """Each input collects the gradients of the windows that it is in; its values are not read."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out, grad = work.outputs[0], work.op.inputs[0]
    visits = max(1.0, _window(work, out, grad) * grad.numel / out.numel)
    chosen = [i for i, t in enumerate(work.op.inputs) if i == 0 or t.dtype == "int64"]
    if _kind(work) == "max" and len(out.shape) == 4 and out.is_channels_last:
        return fill_kernel(work, out), pool_last(work, "pool_backward", out, visits, chosen)
    body = _pooled(work, "pool_backward", out, visits, chosen)
    return (fill_kernel(work, out), body) if _kind(work) == "max" else (body,)


@kernel_model(
    "aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool3d",
    "aten::adaptive_avg_pool2d",
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_max_pool2d",
    "aten::adaptive_max_pool3d",
    "aten::adaptive_max_pool1d",
)
def adaptive_pool(work: Work) -> tuple[Kernel, ...]:
    """Pooling to a given size; to one pixel it is a mean over the pixels."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    spec, out = work.op.inputs[0], work.outputs[0]
    rank = len(spec.shape)
    if prod(out.shape[2:]) == 1 and rank >= 4 and "max" not in work.op.name:
        return reduce_kernels(
            work, spec, tuple(range(2, rank)), name="mean", out_bytes=written(work)
        )
    visits = spec.numel / out.numel
    if rank == 4 and spec.is_channels_last and "max" not in work.op.name:
        return (pool_last(work, "pool", out, visits, [0], "adaptive"),)
    return (_planes(work, "pool", spec, out, visits),)


@kernel_model(
    "aten::_adaptive_avg_pool2d_backward",
    "aten::_adaptive_avg_pool3d_backward",
    "aten::adaptive_max_pool2d_backward",
    "aten::adaptive_max_pool3d_backward",
)
def adaptive_pool_backward(work: Work) -> tuple[Kernel, ...]:
    """The gradient spread over each pooled region."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    grad, out = work.op.inputs[0], work.outputs[0]
    return (_planes(work, "pool_backward", out, out, max(1.0, grad.numel / out.numel)),)


def _planes(work: Work, way: str, large: TensorSpec, walked: TensorSpec, visits: float) -> Kernel:
    """A block of 256 threads a plane, 32 along a row and 8 down, that walks all of `walked`."""
    get, read = work.constants.value, reads(work, (0,))
    height, width = (1, *walked.shape)[-2:] if len(walked.shape) > 2 else (1, walked.shape[-1])
    across, down = _PLANE_THREADS
    steps = ceil(height / down) * ceil(width / across)
    planes = prod(large.shape[:2])
    return kernel(
        work,
        Launch(
            work.op.name.rpartition("::")[2].lstrip("_"),
            "copy",
            read.cold,
            read.hot,
            written(work),
            items=planes * steps * across * down,
            cycles=get("copy.pool.plane.thread_cycles")
            + max(visits, 1.0) * get("copy.pool.plane.visit_cycles"),
            grid=planes,
            block=across * down,
            chain_s=get("copy.pool.plane.base_s"),
            loads=steps * max(visits, 1.0) * get("copy.pool.load"),
            dtype=walked.dtype,
            family=f"copy.{way}",
        ),
    )
