"""Convolutions: implicit matrix products, depthwise kernels, layout conversions, bias.

The forward pass, the data gradient and the weight gradient are matrix products (see
`conv_shape`) whose operands are read where they lie: a patch is never written out. Tensor-core
kernels want channels innermost, so channels-first tensors are converted by kernels of their own.
Depthwise convolutions have too little arithmetic per byte for matrix units and stream through
vector lanes. A bias is added, and its gradient summed, by separate kernels, as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd

from gpuscope.cost.conv_bias import add_bias, sum_bias
from gpuscope.cost.conv_convert import conversions, conversions_s
from gpuscope.cost.conv_depthwise import by_cudnn, depthwise
from gpuscope.cost.conv_direct import direct_gradient
from gpuscope.cost.conv_engine import engine_gradient
from gpuscope.cost.conv_few import few_channels_s
from gpuscope.cost.conv_groups import alone, is_long, one_by_one, part
from gpuscope.cost.conv_layout import made_dense
from gpuscope.cost.conv_padding import group_width, padding, rounded, spread_groups, stepped
from gpuscope.cost.conv_shape import ConvShape, Pass, conv_shape
from gpuscope.cost.conv_stream import stream
from gpuscope.cost.gemm import Machine, Plan, Problem, machine_for, plan, rate_and_unit
from gpuscope.cost.gemm import reduction_s as _reduction_s
from gpuscope.cost.matmul import Operand, compute_dtype, gemm_kernels, operand
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.hardware import rate_name
from gpuscope.program.types import TensorSpec

_FAMILY = {
    "forward": "convolution.forward",
    "data_gradient": "convolution.data_gradient",
    "weight_gradient": "convolution.weight_gradient",
}
_LAYOUT = {"forward": "NT", "data_gradient": "NN", "weight_gradient": "TN"}
_PACKED = 64
"""Channels of a tile that narrow groups share (grids of 4 and 8 groups of 4, 8 and 16 channels)."""

_FEW_CHANNELS = 8
"""Fewer input channels than a 16-byte copy holds."""

_MANY_TAPS = 16
"""Taps that kernels of the device's own generation are still chosen for."""

_SHORT = {"forward": "fprop", "data_gradient": "dgrad", "weight_gradient": "wgrad"}


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
    wants_x, wants_weight, wants_bias = _mask(work)
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
    if shape.depthwise:
        kernel = depthwise(work, shape, which, first.spec, second.spec, out)
        tiled = which == "weight_gradient" and not shape.channels_last
        if not tiled or not by_cudnn(work.op, shape, first.spec.dtype):
            return [kernel]
        before, after = conversions(work, first, second, out)
        return [*before, kernel, *after]
    if one_by_one(work, shape, which, compute_dtype(work, first.spec.dtype, "tf32_cudnn", True)):
        kernels = _each_group(work, shape, which, first, second, out)
    else:
        kernels = _as_product(work, shape, which, first, second, out)
    lies = not shape.channels_last and len(out.shape) < 5
    if which == "weight_gradient" and lies and work.device.vendor == "NVIDIA":
        direct = direct_gradient(work, shape, (first.spec, second.spec, out))
        return min(kernels, [direct], key=_total_s)
    return kernels


def _each_group(
    work: Work, shape: ConvShape, which: Pass, first: Operand, second: Operand, out: TensorSpec
) -> list[Kernel]:
    """Groups one after the other."""
    filters = (False, which != "weight_gradient", which == "weight_gradient")
    a, b, c = (
        part(t, shape.groups, of)
        for t, of in zip((first.spec, second.spec, out), filters, strict=True)
    )
    each = _as_product(work, alone(shape), which, Operand(a, first.hot), Operand(b, second.hot), c)
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
        wide = shape.groups * group_width(shape)
    before, after = conversions(work, first, second, out, wide, weights)
    return [*spread, *before, *kernels, *after]


def _first_alone(work: Work, shape: ConvShape, which: Pass, made: ConvProduct) -> bool:
    """Whether cuDNN has a pass for channels-first data alone: float32 but for few channels.

    Channels-last tensors are converted around it, as in 36 of 36 recorded passes; of up to 8
    channels forward and of weight gradients, which have kernels of their own, in 2 of 12.
    """
    if made.problem.dtype != "float32" or shape.groups > 1 or work.device.vendor != "NVIDIA":
        return False
    few = which == "forward" and shape.channels_in <= _FEW_CHANNELS
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
        plain = _plain_product(work, shape, which, dtype, first, second, out)
        if not turned or _is_whole(shape, which, first.spec):
            return plain, False
        made = _implicit(work, shape, which, dtype, first, second, out, turned)
        if _seconds(plain) < _seconds(made) + conversions_s(work, first, second, out):
            return plain, False
        return made, True
    made = _implicit(work, shape, which, dtype, first, second, out, turned)
    if turned and which == "forward" and _read_as_it_lies(shape, dtype, first.spec):
        direct = _implicit(work, shape, which, "float32", first, second, out)
        if _seconds(direct) < _seconds(made) + conversions_s(work, first, second, out):
            return direct, False
    return made, turned


def _read_as_it_lies(shape: ConvShape, dtype: str, activation: TensorSpec) -> bool:
    """Whether cuDNN has a kernel that reads channels-first data as they lie, on the vector lanes.

    Few channels or small pictures cost less so than three conversions around a tensor-core kernel:
    recorded for the forward pass (micro/small.jsonl.gz), of half precision only where channels
    are fewer than a copy holds. Of the gradients' many direct kernels the choice is not understood.
    """
    plain = shape.groups == 1 and len(activation.shape) == 4
    return plain and (dtype == "tf32" or shape.channels_in < _FEW_CHANNELS)


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
        wants = _mask(work)
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


def _is_whole(shape: ConvShape, which: Pass, activation: TensorSpec) -> bool:
    """Whether that product suits the kernels' copies of 16 bytes.

    Channels first, positions are the dense dimension; one pixel an image leaves the channels dense
    whatever the order. Else kernels of earlier generations do it, or it is converted: whichever
    is quicker, as far as 40 recorded passes tell.
    """
    if shape.channels_last or shape.positions_in == 1:
        return True
    return shape.positions_in * activation.itemsize % 16 == 0


@dataclass(frozen=True, slots=True)
class ConvProduct:
    """One pass of a convolution as the matrix product that it is.

    Attributes:
        which: the pass.
        problem, machine: what runs where.
        family: the calibration's name of the pass.
        plain: a 1x1 filter over data that lie as an ordinary product wants them.
        partial_bytes: partial results, one an image, that a kernel of its own adds up; else 0.
        few_channels: factor on the arithmetic: of channels fewer than a copy holds, of kernels
            that are not of the device's own generation.
        padded: odd numbers of channels are padded first.
        flops: the useful ones.
    """

    which: Pass
    problem: Problem
    machine: Machine
    family: str
    plain: bool
    partial_bytes: float
    few_channels: float
    flops: float
    padded: bool = False

    def slowed(self, found: Plan) -> Plan:
        """A plan of the product with the cost of few channels."""
        if self.few_channels == 1.0:
            return found
        # Channels are padded to a copy's width, and short rows make every copy a small one.
        extra_s = found.compute_s * (self.few_channels - 1.0)
        return replace(
            found, duration_s=found.duration_s + extra_s, compute_s=found.compute_s + extra_s
        )

    def kernels(self, work: Work, found: Plan, out: TensorSpec) -> list[Kernel]:
        """The kernels of a plan: the product, the sums over slices and images."""
        kind = "1x1_gemm_" if self.plain else ""
        name = f"conv_{_SHORT[self.which]}_{kind}{self.problem.dtype}_{found.tile.name}"
        kernels = list(
            gemm_kernels(
                work,
                self.problem,
                self.machine,
                found,
                name,
                "convolution",
                self.family,
                flops=self.flops,
            )
        )
        if self.partial_bytes:
            kernels.append(
                stream(work, "reduce_wgrad", self.partial_bytes, out.nbytes, out.dtype, out.numel)
            )
        return kernels


def _plain_product(
    work: Work,
    shape: ConvShape,
    which: Pass,
    dtype: str,
    first: Operand,
    second: Operand,
    out: TensorSpec,
) -> ConvProduct:
    """A 1x1 convolution as a product.

    Channels last, one product over all positions of all images. Channels first, one an image;
    the weight gradient then leaves one partial result an image, which are added up.
    """
    weight = which == "weight_gradient"
    channels = (shape.channels_in, shape.channels_out)
    rows, depth = channels[::-1] if which == "forward" else channels
    partial = 0.0
    if shape.channels_last or shape.positions_in == 1:
        m, n, k = shape.product(which)
        # Rows of both tensors, and of the weights, must suit the copies: the odder one decides.
        batch, layout, dense = 1, _LAYOUT[which], gcd(*channels)
    else:
        positions = shape.positions_out
        m, n, k = (rows, depth, positions) if weight else (rows, positions, depth)
        batch, layout = shape.images, "NT" if weight else "NN"
        dense = gcd(positions, shape.channels_in)
        partial = 4.0 * shape.images * out.numel if weight else 0.0
    aligned = next(a for a in (16, 8, 4, 2, 1) if dense * first.spec.itemsize % a == 0)
    problem = Problem(
        m=m,
        n=n,
        k=k,
        batch=batch,
        dtype=dtype,
        a_bytes=float(first.spec.nbytes),
        b_bytes=float(second.spec.nbytes),
        c_bytes=partial or float(out.nbytes),
        item_bytes=first.spec.itemsize,
        out_bytes=4.0 if partial else out.itemsize,
        layout=layout,
        aligned=aligned,
        hot_a=first.hot,
        hot_b=second.hot,
    )
    machine = machine_for(work.device, work.constants, dtype, "matmul", aligned)
    # Kernels for the instructions of compute capability 8 in 67 of 86 recorded TF32 passes.
    older = dtype == "tf32" and which == "forward"
    slow = work.constants.value("convolution.plain.tf32") if older else 1.0
    return ConvProduct(which, problem, machine, _FAMILY[which], True, partial, slow, problem.flops)


def _implicit(
    work: Work,
    shape: ConvShape,
    which: Pass,
    dtype: str,
    first: Operand,
    second: Operand,
    out: TensorSpec,
    converted: bool = False,
) -> ConvProduct:
    """The implicit product on channels-last data; `converted` data is fresh in the L2."""
    pads = work.device.vendor == "NVIDIA" and rate_and_unit(work.device, dtype)[1] == "matrix"
    sizes = rounded(shape, first.spec.itemsize) if pads else shape
    if pads and shape.groups > 1:
        sizes = shape.packed(_PACKED)
    m, n, k = sizes.product(which)
    if pads and which != "weight_gradient":
        # The main loop walks the channels tap by tap, in whole steps.
        deep = (sizes.channels_in if which == "forward" else sizes.channels_out) // sizes.groups
        k = ceil(k * stepped(deep, first.spec.itemsize) / deep)
    fresh = work.l2_bytes / 2 if converted else 0.0
    problem = Problem(
        m=m,
        n=n,
        k=k,
        batch=sizes.groups,
        dtype=dtype,
        a_bytes=float(first.spec.nbytes),
        b_bytes=float(second.spec.nbytes),
        c_bytes=float(out.nbytes),
        item_bytes=first.spec.itemsize,
        out_bytes=out.itemsize,
        hot_a=first.hot or first.spec.nbytes < fresh,
        hot_b=second.hot or second.spec.nbytes < fresh,
        whole=which != "weight_gradient" and sizes.taps <= _MANY_TAPS and len(out.shape) < 5,
    )
    family = _FAMILY[which]
    machine = machine_for(work.device, work.constants, dtype, family)
    if dtype == "float32" and which != "weight_gradient" and len(first.spec.shape) == 4:
        machine = replace(machine, small=None)  # a kernel of products alone
    slow = 1.0
    if sizes.channels_in // sizes.groups < _FEW_CHANNELS:
        slow = work.constants.value(
            f"{family}.{rate_name(dtype)}.few_channels", "convolution.few_channels"
        )
        if which == "weight_gradient":
            # Before the choice of slices: what is slow is worth cutting.
            machine = replace(
                machine, tile_s_per_k=machine.tile_s_per_k * slow, step_s=machine.step_s * slow
            )
            slow = 1.0
        elif pads and which == "forward" and shape.groups == 1 and len(first.spec.shape) == 4:
            found_s = few_channels_s(work, shape, dtype, first.spec.itemsize)
            if found_s is not None:
                slow = found_s / plan(problem, machine).compute_s
    get = work.constants.value
    half = first.spec.itemsize == 2
    if pads and shape.groups > 1 and (half or sizes.groups < shape.groups):
        # What packs groups was written for the instructions of compute capability 8.
        slow *= get(f"convolution.packed.{'half' if half else 'tf32'}")
    if dtype == "float32" and shape.groups > 1:
        slow *= get("convolution.grouped.float32")  # a launch, or a slice, for each group
    if which != "weight_gradient" and is_long(work, dtype):
        key = f"{family}.{rate_name(dtype)}.long_s"
        chain_s = shape.product(which)[2] * get(key, f"{family}.long_s")
        slow = max(slow, chain_s / plan(problem, machine).compute_s)
    elif pads and len(first.spec.shape) > 4:
        slow *= get("convolution.volume")  # and so was most of what takes three dimensions
    elif pads and sizes.taps > _MANY_TAPS and slow == 1.0 and which != "weight_gradient":
        # So were those for large filters, which also keep few multiprocessors busy.
        slow *= (sizes.taps / _MANY_TAPS) ** get(f"{family}.many_taps")
    return ConvProduct(which, problem, machine, family, False, 0.0, slow, shape.flops, pads)
