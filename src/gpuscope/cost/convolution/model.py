"""Convolutions: implicit matrix products, depthwise kernels, layout conversions, bias.

The forward pass, the data gradient and the weight gradient are matrix products (see
`shape`) whose operands are read where they lie: a patch is never written out. Tensor-core
kernels want channels innermost, so channels-first tensors are converted by kernels of their own.
Depthwise convolutions have too little arithmetic per byte for matrix units and stream through
vector lanes. A bias is added, and its gradient summed, by separate kernels, as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.cost.convolution.bias import add_bias, sum_bias
from gpuscope.cost.convolution.choice import (
    depthwise_way,
    may_add_tiles,
    may_add_up,
    may_be_direct,
    may_sum_directly,
)
from gpuscope.cost.convolution.convert import conversions, conversions_s
from gpuscope.cost.convolution.depthwise import by_cudnn, depthwise, taps_inside
from gpuscope.cost.convolution.direct import direct_gradient
from gpuscope.cost.convolution.direct_results import direct_result
from gpuscope.cost.convolution.engine import engine_gradient
from gpuscope.cost.convolution.group_lanes import lanes
from gpuscope.cost.convolution.groups import alone, one_by_one, part, sliced
from gpuscope.cost.convolution.layout import made_dense
from gpuscope.cost.convolution.packed import width
from gpuscope.cost.convolution.padding import padding, spread_groups
from gpuscope.cost.convolution.product import (
    FEW_CHANNELS,
    HUGE_WINDOW,
    ConvProduct,
    implicit_product,
    plain_product,
)
from gpuscope.cost.convolution.shape import ConvShape, Pass, conv_shape, gradients_asked
from gpuscope.cost.convolution.transformed import fourier, transformed_gradient, winograd
from gpuscope.cost.convolution.wgrad_tiles import adds_tiles, tiles_gradient
from gpuscope.cost.matmul.gemm import plan, rate_and_unit
from gpuscope.cost.matmul.gemm import reduction_s as _reduction_s
from gpuscope.cost.matmul.model import Operand, compute_dtype, operand
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec


@kernel_model(
    "aten::convolution",
    "aten::_convolution",
    "aten::cudnn_convolution",
    "aten::convolution_overrideable",
)
def convolution(work: Work) -> tuple[Kernel, ...]:
    """Forward pass of an ordinary or a transposed convolution, with its bias."""
    x, weight = work.op.inputs[:2]
    y = work.op.outputs[0]
    if y.numel == 0:
        return ()
    shape = conv_shape(work.op, x, weight, y)
    which: Pass = "data_gradient" if work.op.args.get("transposed") else "forward"
    kernels = made_dense(work, shape.channels_last, (0, 1))
    kernels += _pass(work, shape, which, _operand(work, 0), _operand(work, 1), y)
    biased = len(work.op.inputs) > 2 and len(work.op.inputs[2].shape) == 1
    if biased and not (shape.depthwise and not by_cudnn(work.op, shape, x.dtype)):
        kernels.append(add_bias(work, y))
    return tuple(kernels)


@kernel_model("aten::convolution_backward", "aten::convolution_backward_overrideable")
def convolution_backward(work: Work) -> tuple[Kernel, ...]:
    """Gradients of the input, the weight and the bias: those that `output_mask` asks for."""
    grad, x, weight = work.op.inputs[:3]
    wants_x, wants_weight, wants_bias = gradients_asked(work.op)
    shape = conv_shape(work.op, x, weight, grad)
    transposed = bool(work.op.args.get("transposed"))
    read = (0,) * (wants_x or wants_weight) + (1,) * wants_weight + (2,) * wants_x
    kernels = made_dense(work, shape.channels_last, read)
    if wants_x:
        which: Pass = "forward" if transposed else "data_gradient"
        kernels += _pass(work, shape, which, _operand(work, 0), _operand(work, 2), x)
    if wants_weight:
        first, second = _operand(work, 0), _operand(work, 1)
        kernels += _pass(work, shape, "weight_gradient", first, second, weight)
    if wants_bias:
        kernels += sum_bias(work, grad)
    return tuple(kernels)


def _operand(work: Work, position: int) -> Operand:
    return operand(work, work.op.inputs[position], position)


def _pass(
    work: Work, shape: ConvShape, which: Pass, first: Operand, second: Operand, out: TensorSpec
) -> list[Kernel]:
    """Kernels of one pass, conversions included."""
    if shape.depthwise:
        return _channel_by_channel(work, shape, which, first, second, out)
    dtype = compute_dtype(work, first.spec.dtype, "tf32_cudnn", True)
    specs = first.spec, second.spec, out
    if which == "weight_gradient" and adds_tiles(work, shape, dtype, first.spec):
        return tiles_gradient(work, shape, specs)
    if one_by_one(work, shape, which, dtype):
        kernels = _each_group(work, shape, which, first, second, out)
    else:
        kernels = _as_product(work, shape, which, first, second, out)
    if which != "weight_gradient" and may_be_direct(work, shape, which, dtype):
        inside = taps_inside(work.op, shape, which)
        return min(kernels, [direct_result(work, shape, which, inside, specs)], key=_total_s)
    if which == "weight_gradient":
        return _weights(work, shape, dtype, (first, second), out, kernels)
    return kernels


def _weights(
    work: Work,
    shape: ConvShape,
    dtype: str,
    operands: tuple[Operand, Operand],
    out: TensorSpec,
    product: list[Kernel],
) -> list[Kernel]:
    """Kernels of the weights' gradient: the quickest of what cuDNN has beside the product."""
    grad, data = (o.spec for o in operands)
    if work.op.args.get("transposed"):
        grad, data = data, grad
    specs = grad, data, out
    waves = fourier(work.op, shape, data, dtype == "tf32")
    if waves is not None and work.device.vendor == "NVIDIA":
        return transformed_gradient(work, shape, waves, specs)
    ways = [product]
    if may_sum_directly(work, shape, dtype, len(out.shape)):
        ways.append([direct_gradient(work, shape, specs)])
    if may_add_tiles(work, shape, dtype, len(out.shape)):
        ways.append(tiles_gradient(work, shape, specs))
    squares = winograd(work.op, shape, data, grad)
    if squares is not None and work.device.vendor == "NVIDIA":
        before, after = conversions(work, *operands, out) if shape.channels_last else ([], [])
        ways.append([*before, *transformed_gradient(work, shape, squares, specs), *after])
    return min(ways, key=_total_s)


def _channel_by_channel(
    work: Work, shape: ConvShape, which: Pass, first: Operand, second: Operand, out: TensorSpec
) -> list[Kernel]:
    """A filter a channel: by kernels of its own, or by those for groups where there is none."""
    specs = first.spec, second.spec, out
    way = depthwise_way(work, shape, which, first.spec.itemsize)
    if way == "direct" and which == "weight_gradient":
        return [direct_gradient(work, shape, specs)]
    if way == "direct":
        return [direct_result(work, shape, which, taps_inside(work.op, shape, which), specs)]
    if way == "packed":
        return _as_product(work, shape, which, first, second, out)
    kernel = depthwise(work, shape, which, *specs)
    tiled = which == "weight_gradient" and not shape.channels_last
    if not tiled or not by_cudnn(work.op, shape, first.spec.dtype):
        return [kernel]
    before, after = conversions(work, first, second, out)
    return [*before, kernel, *after]


def _each_group(
    work: Work, shape: ConvShape, which: Pass, first: Operand, second: Operand, out: TensorSpec
) -> list[Kernel]:
    """Groups one after the other."""
    filters = (False, which != "weight_gradient", which == "weight_gradient")
    a, b, c = (
        part(t, shape.groups, of)
        for t, of in zip((first.spec, second.spec, out), filters, strict=True)
    )
    one = alone(shape)
    dtype = compute_dtype(work, first.spec.dtype, "tf32_cudnn", True)
    if dtype == "float32" and which != "weight_gradient" and not shape.channels_last:
        return [lanes(work, one, which, (a, b, c))] * shape.groups
    each = _as_product(work, one, which, Operand(a, first.hot), Operand(b, second.hot), c)
    if shape.channels_last and work.device.vendor == "NVIDIA":
        cut = [t for t, filters_ in zip((a, b, c), filters, strict=True) if not filters_]
        each += [sliced(work, t) for t in cut]
    return each * shape.groups


def _as_product(
    work: Work, shape: ConvShape, which: Pass, first: Operand, second: Operand, out: TensorSpec
) -> list[Kernel]:
    """The product that a pass is, with what lays its tensors out."""
    made, turned = _product(work, shape, which, first, second, out)
    found = made.slowed(plan(made.problem, made.machine))
    kernels = made.kernels(work, found, out)
    specs = first.spec, second.spec, out
    if _first_alone(work, shape, which, made):
        turned = shape.channels_last
        if which == "data_gradient":
            kernels = min(kernels, engine_gradient(work, shape, specs), key=_total_s)
    spread = spread_groups(work, shape, which, specs) if made.padded and shape.groups > 1 else []
    if not turned:
        padded = padding(work, shape, specs) if made.padded else []
        return [*spread, *padded, *kernels]
    wide, weights = 0, -1
    if spread:
        weights = 2 if which == "weight_gradient" else 1
        wide = shape.groups * width(shape)
    before, after = conversions(work, first, second, out, wide, weights)
    whole = [*spread, *before, *kernels, *after]
    if which == "data_gradient" and may_add_up(work, shape, made.problem.dtype, len(out.shape)):
        return min(whole, engine_gradient(work, shape, specs), key=_total_s)
    return whole


def _first_alone(work: Work, shape: ConvShape, which: Pass, made: ConvProduct) -> bool:
    """Whether cuDNN has a pass for channels-first data alone: float32 but for few channels.

    Channels-last tensors are converted around it, as in 36 of 36 recorded passes; of up to 8
    channels forward and of weight gradients, which have kernels of their own, in 2 of 12.
    """
    if made.problem.dtype != "float32" or shape.groups > 1 or work.device.vendor != "NVIDIA":
        return False
    few = which == "forward" and shape.channels_in <= FEW_CHANNELS
    return which != "weight_gradient" and not few


def _total_s(kernels: Sequence[Kernel]) -> float:
    return sum(k.duration_s for k in kernels)


def _product(
    work: Work, shape: ConvShape, which: Pass, first: Operand, second: Operand, out: TensorSpec
) -> tuple[ConvProduct, bool]:
    """The product that a pass is, and whether its tensors are converted for it first."""
    dtype = compute_dtype(work, first.spec.dtype, "tf32_cudnn", True)
    matrix = rate_and_unit(work.device, dtype)[1] == "matrix"
    turned = matrix and not shape.channels_last and work.device.vendor == "NVIDIA"
    if matrix and _may_be_plain(shape):
        plain = plain_product(work, shape, which, dtype, first, second, out)
        volume = which == "weight_gradient" and len(first.spec.shape) > 4
        if not turned or (not volume and _is_whole(shape, first.spec)) or shape.positions_in == 1:
            return plain, False
        made = implicit_product(work, shape, which, dtype, first, second, out, turned)
        if _seconds(plain) < _seconds(made) + conversions_s(work, first, second, out):
            return plain, False
        return made, True
    made = implicit_product(work, shape, which, dtype, first, second, out, turned)
    if turned and which == "forward" and _read_as_it_lies(shape, dtype, first.spec):
        direct = implicit_product(work, shape, which, "float32", first, second, out)
        if _seconds(direct) < _seconds(made) + conversions_s(work, first, second, out):
            return direct, False
    return made, turned


def _read_as_it_lies(shape: ConvShape, dtype: str, activation: TensorSpec) -> bool:
    """Whether cuDNN has a kernel that reads channels-first data as they lie, on the vector lanes.

    Few channels or small pictures cost less so than three conversions around a tensor-core kernel:
    recorded for the forward pass (micro/small.jsonl.gz), of half precision only where channels
    are fewer than a copy holds. Of the gradients' many direct kernels the choice is not understood.
    """
    plain = shape.groups == 1 and len(activation.shape) < 5 and shape.taps <= HUGE_WINDOW
    few = shape.channels_in < FEW_CHANNELS + (len(activation.shape) < 4)
    return plain and ((dtype == "tf32" and len(activation.shape) == 4) or few)


def _seconds(made: ConvProduct) -> float:
    """Time of a product, sums over slices included."""
    found = made.slowed(plan(made.problem, made.machine))
    split = _reduction_s(made.problem, made.machine, found.split) if found.split > 1 else 0.0
    return found.duration_s + split


def products(work: Work) -> tuple[tuple[ConvProduct, TensorSpec], ...]:
    """The products that a convolution's operator is, forward or backward, each with its result.

    Empty for depthwise convolutions, which are none.
    """
    op = work.op
    backward = len(op.inputs) > 2 and len(op.inputs[2].shape) == len(op.inputs[0].shape)
    transposed = bool(op.args.get("transposed"))
    if not backward:
        x, weight, y = *op.inputs[:2], op.outputs[0]
        shape = conv_shape(op, x, weight, y)
        which: Pass = "data_gradient" if transposed else "forward"
        asked = [(which, 0, 1, y)]
    else:
        grad, x, weight = op.inputs[:3]
        shape = conv_shape(op, x, weight, grad)
        data: Pass = "forward" if transposed else "data_gradient"
        wants = gradients_asked(work.op)
        asked = [(data, 0, 2, x)] * wants[0] + [("weight_gradient", 0, 1, weight)] * wants[1]
    if shape.depthwise:
        return ()
    return tuple(
        (_product(work, shape, which, _operand(work, i), _operand(work, j), out)[0], out)
        for which, i, j, out in asked
    )


def _may_be_plain(shape: ConvShape) -> bool:
    """Whether a 1x1 filter lets an ordinary product work on the data as they lie."""
    return shape.taps == 1 and shape.strides == 1 and shape.groups == 1


def _is_whole(shape: ConvShape, activation: TensorSpec) -> bool:
    """Whether that product suits the kernels' copies of 16 bytes.

    Channels first, positions are the dense dimension; one pixel an image leaves the channels dense
    whatever the order. Else kernels of earlier generations do it, or it is converted: whichever
    is quicker, as far as 40 recorded passes tell.
    """
    if shape.channels_last or shape.positions_in == 1:
        return True
    return shape.positions_in * activation.itemsize % 16 == 0
