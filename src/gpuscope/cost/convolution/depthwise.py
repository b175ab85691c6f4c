"""Depthwise convolutions.

A depthwise convolution has too little arithmetic a byte for matrix units: one channel at a time, on
the vector lanes. Which kernel runs is read off PyTorch's source and off recorded names (H200, cuDNN
9.19). Channels first it is ATen's own, but for float16 where cuDNN has one that tiles in shared
memory; channels last it is cuDNN's. What each takes is in `depthwise_forms`.
"""

from __future__ import annotations

from dataclasses import fields, replace

from gpuscope.cost.convolution.depthwise_forms import (
    HOT_SHARE,
    SUM_S,
    Form,
    WalkForm,
    WeightForm,
    WindowForm,
    inside,
    native_weight_s,
    rows_weight_s,
    seconds,
    slices_of,
    walk_s,
    window_s,
)
from gpuscope.cost.convolution.direct import direct_gradient_s
from gpuscope.cost.convolution.shape import ConvShape, Pass
from gpuscope.cost.convolution.stream import stream
from gpuscope.cost.matmul.gemm import rate_and_unit
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel, Limiter
from gpuscope.program.types import Op, TensorSpec

_SHORT = {"forward": "fprop", "data_gradient": "dgrad", "weight_gradient": "wgrad"}

_FLOPS_A_CLOCK = 256.0
"""Of a multiprocessor whose clocks the constants count: 128 lanes of a multiply-add."""

_TILED_CHANNELS = 32
_TILED_WIDTH = 7
_MANY_CHANNELS, _WIDE_CHANNELS, _WIDE = 512, 256, 28
"""From `check_cudnn_depthwise_workload_with_filter` (ATen/native/Convolution.cpp)."""

_ROW_BYTES = 16
"""What a pixel's channels must be a multiple of for float32's weight gradient to have a kernel that
tiles channels-last data, and one that adds its parts up. Else, and where that is quicker, cuDNN's
direct kernel for groups runs: so in 42 of 52 recorded calls of filters up to 5 x 5."""

_OWN_SIDES = (1, 3, 5, 7)
"""Of the squares that kernels of their own know (`..._c1_k1_nhwc_specialized`)."""

_TILING_TAPS = 25
"""Largest filter of that kernel: beyond, grouped products take as long as the direct one."""


def depthwise(
    work: Work,
    shape: ConvShape,
    which: Pass,
    first: TensorSpec,
    second: TensorSpec,
    out: TensorSpec,
) -> Kernel:
    """One channel at a time on the vector lanes."""
    floor_s, rest_s, compute_s = _parts(work, shape, which, first, second, out)
    moved = first.nbytes + second.nbytes
    kernel = stream(
        work,
        f"conv_depthwise_{_SHORT[which]}",
        moved,
        out.nbytes,
        first.dtype,
        max(first.numel, out.numel),
    )
    duration = floor_s + rest_s
    limiter: Limiter = "memory" if kernel.memory_s > compute_s else "compute"
    spread = work.constants.spread(f"convolution.depthwise.{which}.scale")
    return replace(
        kernel,
        duration_s=duration,
        low_s=duration / (1 + spread),
        high_s=duration * (1 + spread),
        flops=shape.flops,
        compute_s=compute_s,
        memory_s=min(kernel.memory_s, rest_s),
        limiter=limiter if rest_s > floor_s / 2 else "latency",
        kind="convolution",
    )


def by_cudnn(op: Op, shape: ConvShape, dtype: str) -> bool:
    """Whether a depthwise convolution is cuDNN's: channels last, and some of float16."""
    if shape.channels_last:
        return True
    if dtype != "float16" or shape.channels_in < _TILED_CHANNELS:
        return False
    x, weight = _images(op)
    stride = _of(op, "stride", 1, len(x.shape) - 2)
    if set(_of(op, "dilation", 1, len(x.shape) - 2)) != {1} or len(x.shape) > 4:
        return False
    if len(x.shape) == 3 or x.shape[2] == 1:
        return stride[-1] == 1
    window, width = weight.shape[2:], x.shape[3]
    if window not in ((1, 1), (3, 3), (5, 5)) or width < _TILED_WIDTH or stride[0] != stride[1]:
        return False
    if stride[0] == 1 or (stride[0] == 2 and x.shape[0] == 1 and window != (1, 1)):
        return True
    many = x.shape[1] >= _MANY_CHANNELS or (x.shape[1] >= _WIDE_CHANNELS and width >= _WIDE)
    return stride[0] == 2 and window != (1, 1) and many


def _parts(
    work: Work,
    shape: ConvShape,
    which: Pass,
    first: TensorSpec,
    second: TensorSpec,
    out: TensorSpec,
) -> tuple[float, float, float]:
    """Floor, the rest of the duration, and its arithmetic alone."""
    device = work.device
    lanes, _ = rate_and_unit(device, "float32")
    clock_s = 1.0 / work.clock_hz
    cycle_s = _FLOPS_A_CLOCK / lanes
    moved = float(first.nbytes + second.nbytes + out.nbytes)
    near = bool(work.hot) and work.hot[0] and moved < work.l2_bytes / 2
    memory_s = moved * (HOT_SHARE if near else 1.0) / work.bandwidth
    cudnn = device.vendor == "NVIDIA" and by_cudnn(work.op, shape, first.dtype)
    way = "nhwc" if shape.channels_last else "tiled" if cudnn else "native"
    if which == "weight_gradient":
        return _weight_gradient(work, shape, way, out, memory_s, cycle_s, clock_s)
    results = float(out.numel)
    taps = taps_inside(work.op, shape, which)
    if which == "data_gradient" and way == "nhwc" and not has_own(work.op):
        return _walk(work, results, taps, memory_s, cycle_s)
    name = _name(work.op, shape, which, way, first)
    if name.startswith("native.window"):
        return _window(work, shape, which, name, results, memory_s, cycle_s)
    form = _form(work, name)
    rest_s, compute_s = seconds(form, results, taps, memory_s, cycle_s, clock_s)
    return form.floor_s, rest_s, compute_s


def _walk(
    work: Work, results: float, within: float, memory_s: float, cycle_s: float
) -> tuple[float, float, float]:
    """Floor, the rest, and the arithmetic of cuDNN's data gradient for any window."""
    form = WalkForm(
        *(
            work.constants.value(f"convolution.depthwise.nhwc.walk.{f.name}")
            for f in fields(WalkForm)
        )
    )
    took = walk_s(form, results, window_of(work.op)[0], within, work.units, cycle_s)
    return form.floor_s, max(took, memory_s), took


def _window(
    work: Work,
    shape: ConvShape,
    which: Pass,
    name: str,
    results: float,
    memory_s: float,
    cycle_s: float,
) -> tuple[float, float, float]:
    """Floor, the rest, and the arithmetic of ATen's kernels for any window."""
    form = WindowForm(
        *(
            work.constants.value(f"convolution.depthwise.{name}.{f.name}")
            for f in fields(WindowForm)
        )
    )
    # A gradient sums over all results of its channel.
    many = max(shape.channels_out // shape.channels_in, 1) if which == "data_gradient" else 1
    sizes = window_of(work.op)[0][0] * many, inside_of(work.op) * many, float(shape.taps * many)
    rest_s, compute_s = window_s(form, results, sizes, memory_s, work.units, cycle_s)
    return form.floor_s, rest_s, compute_s


def _weight_gradient(
    work: Work,
    shape: ConvShape,
    way: str,
    out: TensorSpec,
    memory_s: float,
    cycle_s: float,
    clock_s: float,
) -> tuple[float, float, float]:
    """Floor, the rest, and the arithmetic of a weight gradient."""
    get = work.constants.value
    key = "convolution.depthwise"
    sizes = shape.images, shape.positions_out
    if way == "native":
        names = ("floor_s", "step_cycles", "chain_cycles", "begin_cycles")
        own = WeightForm(*(get(f"{key}.native.weight_gradient.{n}") for n in names))
        took = native_weight_s(own, *sizes, out.numel, work.units, clock_s)
        return own.floor_s, max(took, memory_s), took
    half = _images(work.op)[0].itemsize <= 2
    shared_s = shape.images * (
        get(f"{key}.shared.image_s") + sizes[1] * get(f"{key}.shared.step_s")
    )
    if way == "nhwc" and half:
        form = _form(work, "nhwc.weight_gradient.half")
        taps = shape.taps
        rest_s = rows_weight_s(
            form, sizes[0], shape.channels_in, sizes[1], taps, memory_s, cycle_s, clock_s
        )
        summed = SUM_S * slices_of(shape.images, shape.channels_in) + get(f"{key}.sum_floor_s")
        if shared_s < form.floor_s + rest_s + summed:
            return get("convolution.stream.floor_s"), max(shared_s, memory_s), shared_s
        return form.floor_s, rest_s + summed, rest_s
    direct = (0.0, 0.0)
    if way == "nhwc":
        within = taps_inside(work.op, shape, "weight_gradient")
        direct = direct_gradient_s(work, shape, within, out.itemsize, True)
        if shape.channels_in * out.itemsize % _ROW_BYTES or shape.taps > _TILING_TAPS:
            return direct[0], max(direct[1], memory_s), direct[1]
    read = shape.images * shape.channels_in * max(shape.positions_in, shape.positions_out)
    rate = get(f"{key}.tiling.tap_cycles") / (2.0 if shape.strides > 1 else 1.0)
    took = read * shape.taps * rate * cycle_s
    floor_s = get(f"{key}.{way}.tiling.floor_s", f"{key}.tiling.floor_s")
    if way == "tiled" and shared_s < floor_s + took + memory_s:
        return get("convolution.stream.floor_s"), max(shared_s, memory_s), shared_s
    if way == "nhwc" and sum(direct) < floor_s + took + memory_s:
        return direct[0], max(direct[1], memory_s), direct[1]
    return floor_s, took + memory_s, took


def _form(work: Work, name: str) -> Form:
    get = work.constants.value
    names = ("floor_s", "cycles", "tap_cycles", "chain_cycles", "bandwidth_efficiency")
    return Form(*(get(f"convolution.depthwise.{name}.{n}") for n in names))


def _name(op: Op, shape: ConvShape, which: Pass, way: str, first: TensorSpec) -> str:
    """The form of a forward pass or data gradient."""
    if way == "tiled":
        return "tiled"
    window = _images(op)[1].shape[2:]
    side = window[0] if len(set(window)) == 1 else 0
    strided = ".strided" if which == "data_gradient" and shape.strides > 1 else ""
    if way == "native" and len(window) == 1:
        return f"native.line.{which}{strided}"
    if way == "native" and len(window) == 3:
        return f"native.volume.{which}.{'3' if side == 3 else 'any'}"
    if way == "native":
        if side not in (1, 3, 5):
            return f"native.window.{which}{strided}"
        return f"native.{which}.{max(side, 3)}{strided}"
    own = "3" if side == 3 else "any"
    if own == "any":
        strided = ""
    return f"nhwc.{which}.{own}{strided}.{'half' if first.itemsize <= 2 else 'single'}"


def taps_inside(op: Op, shape: ConvShape, which: Pass) -> float:
    """Taps of a result: those inside the image; a strided gradient asks all of them.

    So do ATen's kernels for volumes (`DepthwiseConv3d.cu`).
    """
    volume = len(_images(op)[0].shape) > 4
    if (which == "data_gradient" and shape.strides > 1) or volume or op.args.get("transposed"):
        return float(shape.taps)
    return inside_of(op)


def inside_of(op: Op) -> float:
    """Taps of a result of the forward pass that fall inside the image, in the mean."""
    x, weight = _images(op)
    n = len(x.shape) - 2
    stride, padding, dilation = (
        _of(op, name, default, n)
        for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    out = [
        max(1, (a + 2 * p - d * (k - 1) - 1) // s + 1)
        for a, k, s, p, d in zip(
            x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
        )
    ]
    return inside(x.shape[2:], out, weight.shape[2:], stride, padding, dilation)


def has_own(op: Op) -> bool:
    """Whether cuDNN has kernels for a filter over channels-last data: small squares, undilated."""
    window, dilation = window_of(op)
    return len(set(window)) == 1 and window[0] in _OWN_SIDES and max(dilation) == 1


def window_of(op: Op) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sides of a convolution's filter, and its dilations."""
    window = _images(op)[1].shape[2:]
    return window, _of(op, "dilation", 1, len(window))


def _images(op: Op) -> tuple[TensorSpec, TensorSpec]:
    """Input and weight of a convolution or of its gradients."""
    backward = "backward" in op.name
    return (op.inputs[1], op.inputs[2]) if backward else (op.inputs[0], op.inputs[1])


def _of(op: Op, name: str, default: int, dims: int) -> tuple[int, ...]:
    value = op.args.get(name)
    found = [v for v in value if isinstance(v, int)] if isinstance(value, (tuple, list)) else []
    found = found or [value if isinstance(value, int) else default]
    return tuple(found * dims if len(found) == 1 else found)[:dims]
