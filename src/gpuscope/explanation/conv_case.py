"""One convolution as PyTorch issues it, forward and backward, with its products and times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from gpuscope.cost.convolution.model import products
from gpuscope.cost.convolution.product import ConvProduct
from gpuscope.cost.convolution.shape import ConvShape, conv_shape
from gpuscope.cost.matmul.gemm import Plan, plan
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.explanation.neighbours import Priced, Sizes
from gpuscope.explanation.operators import (
    Precision,
    Target,
    channels_last,
    dense,
    kernels_of,
    learned,
    total_s,
    whole,
    work_on,
)
from gpuscope.explanation.tiling import Tiled, tiled
from gpuscope.program.types import Op, TensorSpec

DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16")
"""What convolutions exist in."""


@dataclass(frozen=True)
class Filter:
    """What a convolution is, apart from the sizes of its tensors.

    Attributes:
        on: the device.
        dtype: of tensors and arithmetic.
        kernel, stride, padding, dilation: the same in both directions.
        groups: channel groups; 0 for depthwise, as many as there are input channels.
        nhwc: tensors are stored channels-last.
        backward: the gradients are asked for, too.
    """

    on: Target
    dtype: Precision
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    groups: int = 1
    nhwc: bool = False
    backward: bool = False

    def case(self, sizes: Sizes) -> ConvCase:
        """The convolution of these sizes."""
        return ConvCase(self, sizes["N"], sizes["C"], sizes["H"], sizes["W"], sizes["K"])

    def price(self, sizes: Sizes) -> Priced:
        """Time of all kernels, with the forward product."""
        found = self.case(sizes)
        return Priced(found.duration_s, found.flops, found.tiled)

    def groups_of(self, channels: int) -> int:
        """Groups of a convolution with so many input channels."""
        return self.groups or channels


@dataclass(frozen=True)
class ConvCase:
    """A convolution with sizes: images, channels, height, width, filters.

    Raises:
        InvalidValueError: groups that do not divide the channels, or no output position.
    """

    filter: Filter
    n: int
    c: int
    h: int
    w: int
    k: int

    def __post_init__(self) -> None:
        for name, value in zip("NCHWK", (self.n, self.c, self.h, self.w, self.k), strict=True):
            whole(name, value)
        groups = self.filter.groups_of(self.c)
        if self.c % groups or self.k % groups:
            raise InvalidValueError(
                Text(
                    "{groups} groups do not divide {c} input and {k} output channels.",
                    groups=groups,
                    c=self.c,
                    k=self.k,
                ),
                Text("Each group has as many of both."),
                Text("Type a common divisor: --groups 1"),
            )
        if min(self.rows_out, self.columns_out) < 1:
            spread = self.filter.dilation * (self.filter.kernel - 1) + 1
            raise InvalidValueError(
                Text(
                    "A filter {spread} wide does not fit on {h} x {w} with padding {padding}.",
                    spread=spread,
                    h=self.h,
                    w=self.w,
                    padding=self.filter.padding,
                ),
                Text("There would be no output position."),
                Text(
                    "Type: --padding {spread}, or a larger image.",
                    spread=-(-(spread - min(self.h, self.w)) // 2),
                ),
            )

    def _out(self, size: int) -> int:
        f = self.filter
        return (size + 2 * f.padding - f.dilation * (f.kernel - 1) - 1) // f.stride + 1

    @property
    def rows_out(self) -> int:
        """Height of the result."""
        return self._out(self.h)

    @property
    def columns_out(self) -> int:
        """Width of the result."""
        return self._out(self.w)

    def _tensor(self, *shape: int, storage: int) -> TensorSpec:
        stored = self.filter.dtype.stored
        n, c, h, w = shape
        if self.filter.nhwc:
            return channels_last(n, c, h, w, dtype=stored, storage=storage)
        return dense(n, c, h, w, dtype=stored, storage=storage)

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The operators: forward, and backward where that is asked for."""
        f = self.filter
        groups = f.groups_of(self.c)
        x = self._tensor(self.n, self.c, self.h, self.w, storage=0)
        weight = self._tensor(self.k, self.c // groups, f.kernel, f.kernel, storage=1)
        y = self._tensor(self.n, self.k, self.rows_out, self.columns_out, storage=2)
        args = {
            "stride": (f.stride, f.stride),
            "padding": (f.padding, f.padding),
            "dilation": (f.dilation, f.dilation),
            "transposed": False,
            "output_padding": (0, 0),
            "groups": groups,
        }
        forward = Op(0, "aten::convolution", inputs=(x, weight), outputs=(y,), args=args)
        if not f.backward:
            return (forward,)
        grad = replace(y, storage=3)
        backward = Op(
            1,
            "aten::convolution_backward",
            inputs=(grad, x, weight),
            outputs=(replace(x, storage=4), replace(weight, storage=5)),
            args={**args, "output_mask": (True, True, False)},
            phase="backward",
        )
        return forward, backward

    @cached_property
    def works(self) -> tuple[Work, ...]:
        """The operators on the device, their inputs not in L2."""
        return tuple(work_on(op, self.filter.on, self.filter.dtype.settings) for op in self.ops)

    @cached_property
    def kernels(self) -> tuple[tuple[Kernel, ...], ...]:
        """What each operator launches."""
        return tuple(kernels_of(work) for work in self.works)

    @property
    def duration_s(self) -> float:
        """All kernels one after the other."""
        return sum(total_s(each) for each in self.kernels)

    @cached_property
    def shape(self) -> ConvShape:
        """As the cost models see it."""
        op = self.ops[0]
        return conv_shape(op, op.inputs[0], op.inputs[1], op.outputs[0])

    @property
    def flops(self) -> float:
        """Useful FLOPs of all passes."""
        return self.shape.flops * (3 if self.filter.backward else 1)

    @cached_property
    def products(self) -> tuple[tuple[Work, ConvProduct, TensorSpec], ...]:
        """The products of all passes with their results; none if it is depthwise."""
        return tuple((work, product, out) for work in self.works for product, out in products(work))

    @cached_property
    def tiled(self) -> Tiled | None:
        """The forward product, tiled; None if it is depthwise."""
        return self.tiled_at(0) if self.products else None

    def tiled_at(self, at: int) -> Tiled:
        """The product of one pass, tiled: forward, data gradient, weight gradient."""
        work, product, out = self.products[at]
        bare = plan(product.problem, product.machine)
        slow = product.slowed(bare)
        planned_s = total_s(product.kernels(work, slow, out))
        found = tiled(
            self.filter.on.device,
            product.problem,
            product.machine,
            bare,
            planned_s,
            slow.duration_s - bare.duration_s,
            product.flops,
            learned(work),
        )
        return replace(found, plan=slow)

    def time_s(self, found: Plan) -> float:
        """The forward product's kernels under another plan."""
        work, product, out = self.products[0]
        return learned(work) * total_s(product.kernels(work, product.slowed(found), out))
