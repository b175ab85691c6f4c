"""The matrix product that a pass of a convolution is, plain or implicit, and what slows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, gcd

from gpuscope.cost.convolution.few import few_channels_s
from gpuscope.cost.convolution.groups import is_long
from gpuscope.cost.convolution.packed import packed_s
from gpuscope.cost.convolution.padding import rounded, stepped
from gpuscope.cost.convolution.shape import ConvShape, Pass
from gpuscope.cost.convolution.stream import stream
from gpuscope.cost.matmul.gemm import Machine, Plan, Problem, machine_for, plan, rate_and_unit
from gpuscope.cost.matmul.model import Operand, gemm_kernels
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.hardware import rate_name
from gpuscope.program.types import TensorSpec

FAMILY = {
    "forward": "convolution.forward",
    "data_gradient": "convolution.data_gradient",
    "weight_gradient": "convolution.weight_gradient",
}
_LAYOUT = {"forward": "NT", "data_gradient": "NN", "weight_gradient": "TN"}
_PACKED = 64
"""Channels of a tile that narrow groups share (grids of 4 and 8 groups of 4, 8 and 16 channels)."""

FEW_CHANNELS = 8
"""Fewer input channels than a 16-byte copy holds."""

_MANY_TAPS = 16
"""Taps that kernels of the device's own generation are still chosen for."""

HUGE_WINDOW = 81
"""Taps of a filter beyond which it is as large as the picture, and few tiles walk it."""

_SHORT = {"forward": "fprop", "data_gradient": "dgrad", "weight_gradient": "wgrad"}


@dataclass(frozen=True, slots=True)
class ConvProduct:
    """One pass of a convolution as the matrix product that it is.

    Attributes:
        which: the pass.
        problem, machine: what runs where.
        family: the calibration's name of the pass.
        plain: a 1x1 filter over data that lie as an ordinary product wants them.
        partial_bytes: partial results, one an image, that a kernel of its own adds up; else 0.
        slow: factor on the arithmetic: of channels fewer than a copy holds, of kernels that are
            not of the device's own generation.
        padded: odd numbers of channels are padded first.
        flops: the useful ones.
    """

    which: Pass
    problem: Problem
    machine: Machine
    family: str
    plain: bool
    partial_bytes: float
    slow: float
    flops: float
    padded: bool = False

    def slowed(self, found: Plan) -> Plan:
        """A plan of the product with its arithmetic slowed."""
        if self.slow == 1.0:
            return found
        extra_s = found.compute_s * (self.slow - 1.0)
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


def plain_product(
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
        whole=weight and batch > 1 and work.device.vendor == "NVIDIA",
    )
    machine = machine_for(work.device, work.constants, dtype, "matmul", aligned)
    # Kernels for the instructions of compute capability 8 in 67 of 86 recorded TF32 passes.
    older = dtype == "tf32" and which == "forward"
    slow = work.constants.value("convolution.plain.tf32") if older else 1.0
    return ConvProduct(which, problem, machine, FAMILY[which], True, partial, slow, problem.flops)


def implicit_product(
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
        k = ceil(k * stepped(deep, first.spec.itemsize, which) / deep)
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
        whole=(which != "weight_gradient" and sizes.taps <= _MANY_TAPS and len(out.shape) < 5)
        or (pads and (shape.groups > 1 or _is_huge(work, sizes, which, dtype))),
    )
    family = FAMILY[which]
    machine = machine_for(work.device, work.constants, dtype, family)
    if dtype == "float32" and which != "weight_gradient" and len(first.spec.shape) == 4:
        machine = replace(machine, walks={})  # a kernel of products alone
    made = ConvProduct(which, problem, machine, family, False, 0.0, 1.0, shape.flops, pads)
    if sizes.channels_in // sizes.groups < FEW_CHANNELS:
        made = _of_few_channels(work, made, shape, first.spec)
    return _of_older_kernels(work, made, shape, sizes, first.spec)


def _is_huge(work: Work, sizes: ConvShape, which: Pass, dtype: str) -> bool:
    """Whether a forward pass is one whose filter is of the picture's size (`huge_window_s`)."""
    return which == "forward" and sizes.taps > HUGE_WINDOW and not is_long(work, dtype)


def huge_window_s(work: Work, shape: ConvShape, itemsize: float) -> float:
    """Time of a forward pass whose filter is of the picture's size: a gradient's gradient.

    Few tiles, each of which walks all taps, 64 bytes of channels a step (128 where there are so
    many), and waits for every one of them. Of 64 recorded passes of 100 to 3,249 taps half
    precision's take 0.2 to 0.4 µs a step, TF32's 0.07 to 0.5, where it does not turn to Fourier
    transforms.

    Args:
        work: the convolution.
        shape: its sizes, as they are multiplied.
        itemsize: bytes of an element.
    """
    get = work.constants.value
    deep = 128 if shape.channels_in * itemsize > 64 and itemsize <= 2 else 64
    steps = shape.taps * ceil(shape.channels_in * itemsize / deep)
    tiles = ceil(shape.images * shape.positions_out / 128) * ceil(shape.channels_out / 128)
    names = ("convolution.huge.single.step_s",) if itemsize > 2 else ()
    a_step_s = get(*names, "convolution.huge.step_s") * max(tiles / work.units, 1.0)
    return get("convolution.stream.floor_s") + steps * a_step_s


def _of_few_channels(
    work: Work, made: ConvProduct, shape: ConvShape, spec: TensorSpec
) -> ConvProduct:
    """The product where input channels are fewer than a copy holds.

    They are padded to a copy's width, and short rows make every copy a small one.
    """
    dtype, machine = made.problem.dtype, made.machine
    slow = work.constants.value(
        f"{made.family}.{rate_name(dtype)}.few_channels", "convolution.few_channels"
    )
    if made.which == "weight_gradient":
        # Before the choice of slices: what is slow is worth cutting.
        tile_s, step_s = machine.tile_s_per_k * slow, machine.step_s * slow
        return replace(made, machine=replace(machine, tile_s_per_k=tile_s, step_s=step_s))
    plain = made.which == "forward" and shape.groups == 1 and len(spec.shape) == 4
    found_s = few_channels_s(work, shape, dtype, spec.itemsize) if made.padded and plain else None
    if found_s is not None:
        slow = found_s / plan(made.problem, machine).compute_s
    return replace(made, slow=slow)


def _of_older_kernels(
    work: Work, made: ConvProduct, shape: ConvShape, sizes: ConvShape, spec: TensorSpec
) -> ConvProduct:
    """The product where groups, long or large filters or volumes fall to kernels of earlier days.

    Args:
        work: the convolution.
        made: the product at the pace of today's.
        shape, sizes: of the convolution, and as they are multiplied.
        spec: its first operand.
    """
    get, which, dtype, slow = work.constants.value, made.which, made.problem.dtype, made.slow
    if made.padded and shape.groups > 1:
        found = plan(made.problem, made.machine)
        more_s = packed_s(work, shape, which, dtype) - found.duration_s
        return replace(made, slow=1.0 + more_s / found.compute_s)
    if made.padded and _is_huge(work, sizes, which, dtype):
        found = plan(made.problem, made.machine)
        more_s = huge_window_s(work, sizes, spec.itemsize) - found.duration_s
        return replace(made, slow=1.0 + more_s / found.compute_s)
    if dtype == "float32" and shape.groups > 1:
        slow *= get("convolution.grouped.float32")  # a launch, or a slice, for each group
    if which != "weight_gradient" and is_long(work, dtype):
        key = f"{made.family}.{rate_name(dtype)}.long_s"
        chain_s = shape.product(which)[2] * get(key, f"{made.family}.long_s")
        slow = max(slow, chain_s / plan(made.problem, made.machine).compute_s)
    elif made.padded and len(spec.shape) > 4 and (shape.taps > 1 or which != "weight_gradient"):
        # And so was most of what takes three dimensions, the less the fewer channels there are.
        narrow = min(sizes.channels_in, sizes.channels_out)
        few = "few" if narrow < FEW_CHANNELS else "narrow" if narrow < _PACKED else rate_name(dtype)
        slow *= get(f"convolution.volumes.{few}", "convolution.volume")
    elif made.padded and sizes.taps > _MANY_TAPS and slow == 1.0 and which != "weight_gradient":
        # So were those for large filters, which also keep few multiprocessors busy.
        slow *= (sizes.taps / _MANY_TAPS) ** get(f"{made.family}.many_taps")
    return replace(made, slow=slow)
