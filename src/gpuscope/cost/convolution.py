"""Convolutions: implicit matrix products, depthwise kernels, layout conversions, bias.

The forward pass, the data gradient and the weight gradient are matrix products (see
`conv_shape`) whose operands are read where they lie: a patch is never written out. Tensor-core
kernels want channels innermost, so channels-first tensors are converted by kernels of their own.
Depthwise convolutions have too little arithmetic per byte for matrix units and stream through
vector lanes. A bias is added, and its gradient summed, by separate kernels, as PyTorch does.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from gpuscope.cost.conv_shape import ConvShape, Pass, conv_shape
from gpuscope.cost.gemm import Problem, machine_for, plan, rate_and_unit
from gpuscope.cost.matmul import Operand, compute_dtype, gemm_kernels, operand
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel, Limiter
from gpuscope.program.types import TensorSpec

_FAMILY = {
    "forward": "convolution.forward",
    "data_gradient": "convolution.data_gradient",
    "weight_gradient": "convolution.weight_gradient",
}
_SHORT = {"forward": "fprop", "data_gradient": "dgrad", "weight_gradient": "wgrad"}


@kernel_model(
    "aten::convolution", "aten::_convolution", "aten::cudnn_convolution",
    "aten::convolution_overrideable",
)  # fmt: skip
def convolution(work: Work) -> tuple[Kernel, ...]:
    """Forward pass of an ordinary or a transposed convolution, with its bias."""
    x, weight = work.op.inputs[:2]
    y = work.op.outputs[0]
    if y.numel == 0:
        return ()
    shape = conv_shape(work.op, x, weight, y)
    which: Pass = "data_gradient" if work.op.args.get("transposed") else "forward"
    kernels = _pass(work, shape, which, _operand(work, 0), _operand(work, 1), y)
    biased = len(work.op.inputs) > 2 and len(work.op.inputs[2].shape) == 1
    if biased and not shape.depthwise:
        kernels.append(_stream(work, "elementwise_add_bias", y.nbytes, y.nbytes, y.dtype, y.numel))
    return tuple(kernels)


@kernel_model("aten::convolution_backward", "aten::convolution_backward_overrideable")
def convolution_backward(work: Work) -> tuple[Kernel, ...]:
    """Gradients of the input, the weight and the bias: those that `output_mask` asks for."""
    grad, x, weight = work.op.inputs[:3]
    wants_x, wants_weight, wants_bias = _mask(work)
    shape = conv_shape(work.op, x, weight, grad)
    transposed = bool(work.op.args.get("transposed"))
    kernels: list[Kernel] = []
    if wants_x:
        which: Pass = "forward" if transposed else "data_gradient"
        kernels += _pass(work, shape, which, _operand(work, 0), _operand(work, 2), x)
    if wants_weight:
        first, second = _operand(work, 0), _operand(work, 1)
        kernels += _pass(work, shape, "weight_gradient", first, second, weight)
    if wants_bias:
        kernels.append(_stream(work, "reduce_bias", grad.nbytes, 0, grad.dtype, grad.numel))
    return tuple(kernels)


def _operand(work: Work, position: int) -> Operand:
    return operand(work, work.op.inputs[position], position)


def _mask(work: Work) -> tuple[bool, bool, bool]:
    mask = work.op.args.get("output_mask")
    if isinstance(mask, (tuple, list)) and len(mask) == 3:
        return bool(mask[0]), bool(mask[1]), bool(mask[2])
    count = len(work.op.outputs)
    return count > 0, count > 1, count > 2


def _pass(
    work: Work, shape: ConvShape, which: Pass, first: Operand, second: Operand, out: TensorSpec
) -> list[Kernel]:
    """Kernels of one pass, conversions included."""
    dtype = compute_dtype(work, first.spec.dtype, "tf32_cudnn", True)
    if shape.depthwise:
        return [_depthwise(work, shape, which, first.spec, second.spec, out)]
    matrix = rate_and_unit(work.device, dtype)[1] == "matrix"
    if shape.channels_last or not matrix or work.device.vendor != "NVIDIA":
        return _implicit(work, shape, which, dtype, first, second, out)
    if _is_plain_product(shape, which, first.spec):
        return _plain_product(work, shape, which, dtype, first, second, out)
    turned = [
        _convert(work, operand.spec, "nchw_to_nhwc")
        for operand in (first, second)
        if prod(operand.spec.shape[2:]) > 1
    ]
    kernels = turned + _implicit(work, shape, which, dtype, first, second, out, converted=True)
    if prod(out.shape[2:]) > 1:
        kernels.append(_convert(work, out, "nhwc_to_nchw"))
    return kernels


def _is_plain_product(shape: ConvShape, which: Pass, activation: TensorSpec) -> bool:
    """Whether a 1x1 filter lets an ordinary product work on channels-first data as it lies.

    Positions are then the dense dimension; their bytes must suit the kernels' copies.
    """
    row_bytes = shape.positions_in * activation.itemsize
    least = 16 if which == "weight_gradient" else 4
    return shape.taps == 1 and shape.strides == 1 and shape.groups == 1 and row_bytes % least == 0


def _plain_product(
    work: Work, shape: ConvShape, which: Pass, dtype: str, first: Operand, second: Operand,
    out: TensorSpec,
) -> list[Kernel]:  # fmt: skip
    """One product an image; the weight gradient leaves one partial result an image to add up."""
    weight = which == "weight_gradient"
    positions = shape.positions_out
    aligned = next(a for a in (16, 8, 4, 2, 1) if positions * first.spec.itemsize % a == 0)
    channels = (shape.channels_in, shape.channels_out)
    rows, depth = channels[::-1] if which == "forward" else channels
    m, n, k = (rows, depth, positions) if weight else (rows, positions, depth)
    partial = 4.0 * shape.images * out.numel if weight else 0.0
    problem = Problem(
        m=m, n=n, k=k, batch=shape.images, dtype=dtype, a_bytes=float(first.spec.nbytes),
        b_bytes=float(second.spec.nbytes), c_bytes=partial or float(out.nbytes),
        item_bytes=first.spec.itemsize, out_bytes=4.0 if weight else out.itemsize,
        aligned=aligned, hot_a=first.hot, hot_b=second.hot,
    )  # fmt: skip
    machine = machine_for(work.device, work.constants, dtype, "matmul", aligned)
    found = plan(problem, machine)
    name = f"conv_{_SHORT[which]}_1x1_gemm_{dtype}_{found.tile.name}"
    kernels = gemm_kernels(work, problem, machine, found, name, "convolution", "convolution.plain")
    if weight:
        kernels += (_stream(work, "reduce_wgrad", partial, out.nbytes, out.dtype, out.numel),)
    return list(kernels)


def _implicit(
    work: Work, shape: ConvShape, which: Pass, dtype: str, first: Operand, second: Operand,
    out: TensorSpec, converted: bool = False,
) -> list[Kernel]:  # fmt: skip
    """The implicit product on channels-last data; `converted` data is fresh in the L2."""
    m, n, k = shape.product(which)
    fresh = work.l2_bytes / 2 if converted else 0.0
    problem = Problem(
        m=m, n=n, k=k, batch=shape.groups, dtype=dtype, a_bytes=float(first.spec.nbytes),
        b_bytes=float(second.spec.nbytes), c_bytes=float(out.nbytes),
        item_bytes=first.spec.itemsize, out_bytes=out.itemsize,
        hot_a=first.hot or first.spec.nbytes < fresh,
        hot_b=second.hot or second.spec.nbytes < fresh,
    )  # fmt: skip
    family = _FAMILY[which]
    machine = machine_for(work.device, work.constants, dtype, family)
    found = plan(problem, machine)
    name = f"conv_{_SHORT[which]}_{dtype}_{found.tile.name}"
    return list(
        gemm_kernels(
            work, problem, machine, found, name, "convolution", family, flops=shape.flops
        )
    )


def _convert(work: Work, spec: TensorSpec, name: str) -> Kernel:
    """A kernel that turns one layout into the other through shared memory.

    Bound by bytes for 4-byte elements, by elements for smaller ones.
    """
    kernel = _stream(work, name, spec.nbytes, spec.nbytes, spec.dtype, spec.numel)
    if work.device.clock_hz is None:
        return kernel
    a_clock = work.constants.get("convolution.convert.elements_per_clock_per_unit", 2.3)
    elements_s = spec.numel / (a_clock * work.device.clock_hz * work.units)
    if elements_s <= kernel.memory_s:
        return kernel
    scale = (kernel.duration_s - kernel.memory_s + elements_s) / kernel.duration_s
    return replace(
        kernel, duration_s=kernel.duration_s * scale, low_s=kernel.low_s * scale,
        high_s=kernel.high_s * scale, compute_s=elements_s,
    )  # fmt: skip


def _depthwise(
    work: Work, shape: ConvShape, which: Pass, first: TensorSpec, second: TensorSpec,
    out: TensorSpec,
) -> Kernel:  # fmt: skip
    """One channel at a time on the vector lanes."""
    kernel = _stream(
        work, f"conv_depthwise_{_SHORT[which]}", first.nbytes + second.nbytes, out.nbytes,
        first.dtype, max(first.numel, out.numel), f"convolution.depthwise.{which}",
    )  # fmt: skip
    lanes, _ = rate_and_unit(work.device, "float32")
    share = work.constants.get(f"convolution.depthwise.{which}.efficiency", 0.15)
    compute = shape.flops / (lanes * share)
    floor = kernel.duration_s - kernel.memory_s
    longest = max(compute, kernel.memory_s)
    limiter: Limiter = "compute" if compute > kernel.memory_s else kernel.limiter
    spread = work.constants.spread(f"convolution.depthwise.{which}.efficiency", 0.5)
    duration = floor + longest
    return replace(
        kernel, duration_s=duration, low_s=duration / (1 + spread),
        high_s=duration * (1 + spread), flops=shape.flops, compute_s=compute, limiter=limiter,
        kind="convolution",
    )  # fmt: skip


def _stream(
    work: Work, name: str, read: float, written: float, dtype: str, numel: int,
    key: str = "convolution.stream",
) -> Kernel:  # fmt: skip
    """A kernel that only moves bytes: bias, conversions."""
    constants = work.constants
    floor = constants.get(f"{key}.floor_s", work.device.launch_latency_s or 2.5e-6)
    efficiency = constants.get(f"{key}.bandwidth_efficiency", 0.75)
    memory = (read + written) / (work.bandwidth * efficiency)
    duration = floor + memory
    spread = constants.spread(f"{key}.bandwidth_efficiency", 0.3)
    grid = max(1, -(-numel // 1024))
    return Kernel(
        name=name, kind="pointwise", op=work.op.index, duration_s=duration,
        low_s=duration / (1 + spread), high_s=duration * (1 + spread),
        flops=float(numel) if "bias" in name else 0.0, read_bytes=float(read),
        written_bytes=float(written), least_bytes=float(read + written), grid=grid, block=256,
        waves=grid / (work.units * 8.0), limiter="memory" if memory > floor else "latency",
        dtype=dtype, memory_s=memory,
        origin="calibrated" if constants.calibrated else "estimated",
    )  # fmt: skip
