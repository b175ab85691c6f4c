"""The bias of a convolution, which PyTorch adds, and whose gradient it sums, in its own kernels."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine
from gpuscope.cost.pointwise.elementwise import dependent_loads, iteration, offset_s
from gpuscope.cost.reduction.model import memset_kernel, reduce_kernels
from gpuscope.cost.reduction.plan import reduce_plan
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec


def add_bias(work: Work, y: TensorSpec) -> Kernel:
    """Add one value a channel, in place.

    The bias repeats along the positions, so that the kernel computes the place of every element:
    `elementwise_kernel` without vectors, bound by that arithmetic for 2-byte elements.
    """
    size = float(y.nbytes)
    near = 2 * size <= machine(work).l2_bytes
    cycles = work.constants.value("convolution.bias.cycles")
    steps = (0, 1, *(0 for _ in y.shape[2:]))
    plan = iteration((y, replace(y, stride=steps, storage=-1)), y)
    return kernel(
        work,
        Launch(
            "elementwise_add_bias",
            "pointwise",
            0.0 if near else size,
            size if near else 0.0,
            size,
            items=y.numel,
            cycles=cycles,
            grid=max(1, ceil(y.numel / 512)),
            streaming=True,
            chain_s=offset_s(work, plan),
            loads=dependent_loads(work, plan),
            dtype=y.dtype,
            family="convolution.bias",
        ),
    )


def sum_bias(work: Work, grad: TensorSpec) -> tuple[Kernel, ...]:
    """The gradient of the bias: the sum over images and positions.

    Channels first, images and positions do not merge into one dimension: a block of 512 threads
    walks a channel, element after element, and where few channels have many values (256 a thread)
    several blocks share one.
    """
    dims = (0, *range(2, len(grad.shape)))
    m = machine(work)
    near = grad.nbytes <= m.l2_bytes / 2
    if grad.is_channels_last or grad.shape[0] == 1 or grad.numel == grad.shape[0] * grad.shape[1]:
        return reduce_kernels(work, grad, dims, name="bias", hot=near)
    size = float(grad.nbytes)
    get = work.constants.value
    channels = grad.shape[1]
    plan = reduce_plan(
        channels, grad.numel // channels, True, m.units, m.threads_per_unit or 2048, grad.itemsize
    )
    main = kernel(
        work,
        Launch(
            "reduce_bias",
            "reduction",
            0.0 if near else size,
            size if near else 0.0,
            float(channels * grad.itemsize),
            items=grad.numel,
            cycles=get("convolution.bias.sum_cycles"),
            grid=plan.grid,
            block=plan.threads,
            chain_s=get("convolution.bias.sum_base_s")
            + plan.per_thread * get("convolution.bias.sum_step_s"),
            floor_s=get("reduction.shared.base_s") if plan.shared_by > 1 else 0.0,
            dtype=grad.dtype,
            family="convolution.bias",
        ),
    )
    return (memset_kernel(work), main) if plan.shared_by > 1 else (main,)
