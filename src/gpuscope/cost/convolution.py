"""Convolutions: implicit matrix products, depthwise kernels, layout conversions, bias.

The forward pass, the data gradient and the weight gradient are matrix products (see
`conv_shape`) whose operands are read where they lie: a patch is never written out. Tensor-core
kernels want channels innermost, so channels-first tensors are converted by kernels of their own.
Depthwise convolutions have too little arithmetic per byte for matrix units and stream through
vector lanes. A bias is added, and its gradient summed, by separate kernels, as PyTorch does.
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.cost.conv_shape import ConvShape, Pass, conv_shape
from gpuscope.cost.gemm import Problem, machine_for, plan, rate_and_unit
from gpuscope.cost.matmul import compute_dtype, gemm_kernel
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
    kernels = _pass(work, shape, which, x, weight, y, (0, 1))
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
        kernels += _pass(work, shape, which, grad, weight, x, (0, 2))
    if wants_weight:
        kernels += _pass(work, shape, "weight_gradient", grad, x, weight, (0, 1))
    if wants_bias:
        kernels.append(_stream(work, "reduce_bias", grad.nbytes, 0, grad.dtype, grad.numel))
    return tuple(kernels)


def _mask(work: Work) -> tuple[bool, bool, bool]:
    mask = work.op.args.get("output_mask")
    if isinstance(mask, (tuple, list)) and len(mask) == 3:
        return bool(mask[0]), bool(mask[1]), bool(mask[2])
    count = len(work.op.outputs)
    return count > 0, count > 1, count > 2


def _pass(
    work: Work, shape: ConvShape, which: Pass, first: TensorSpec, second: TensorSpec,
    out: TensorSpec, at: tuple[int, int],
) -> list[Kernel]:  # fmt: skip
    """Kernels of one pass; `at` are the positions of `first` and `second` in the inputs."""
    dtype = compute_dtype(work, first.dtype, "tf32_cudnn", True)
    if shape.depthwise:
        return [_depthwise(work, shape, which, first, second, out)]
    hot = [i < len(work.hot) and work.hot[i] for i in at]
    m, n, k = shape.product(which)
    problem = Problem(
        m=m, n=n, k=k, batch=shape.groups, dtype=dtype, a_bytes=float(first.nbytes),
        b_bytes=float(second.nbytes), c_bytes=float(out.nbytes), item_bytes=first.itemsize,
        hot_a=hot[0], hot_b=hot[1],
    )  # fmt: skip
    convert = dtype != "float32" and not shape.channels_last and work.device.vendor == "NVIDIA"
    kernels = []
    if convert:
        problem = replace(problem, hot_a=True, hot_b=True)
        kernels += [_convert(work, spec, "nchw_to_nhwc") for spec in (first, second)]
    machine = machine_for(work.device, work.constants, dtype, _FAMILY[which])
    found = plan(problem, machine)
    name = f"conv_{_SHORT[which]}_{dtype}_{found.tile.name}"
    kernels.append(
        gemm_kernel(
            work, problem, machine, found, name, "convolution", _FAMILY[which],
            flops=shape.flops,
        )
    )  # fmt: skip
    if convert:
        kernels.append(_convert(work, out, "nhwc_to_nchw"))
    return kernels


def _convert(work: Work, spec: TensorSpec, name: str) -> Kernel:
    return _stream(work, name, spec.nbytes, spec.nbytes, spec.dtype, spec.numel)


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
