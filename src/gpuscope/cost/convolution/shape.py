"""Sizes of a convolution, and the matrix products that its three passes are.

A convolution is an implicit matrix product (Chetlur et al. 2014, cuDNN): forward has M = images x
output positions, N = output channels, K = input channels x filter taps; the data gradient swaps
the channels; the weight gradient sums over all positions (K = images x output positions). Every
pass has the same 2 x positions x channels in x channels out x taps / groups FLOPs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Literal

from gpuscope.program.types import Op, TensorSpec

Pass = Literal["forward", "data_gradient", "weight_gradient"]


def gradients_asked(op: Op) -> tuple[bool, bool, bool]:
    """Which gradients a backward pass is for: of the input, the filter, the bias."""
    mask = op.args.get("output_mask")
    if isinstance(mask, (tuple, list)) and len(mask) == 3:
        return bool(mask[0]), bool(mask[1]), bool(mask[2])
    count = len(op.outputs)
    return count > 0, count > 1, count > 2


@dataclass(frozen=True, slots=True)
class ConvShape:
    """One convolution, seen from its forward pass.

    Attributes:
        images: batch size.
        channels_in, channels_out: of all groups together.
        positions_in, positions_out: spatial positions of input and output.
        taps: filter positions (3 x 3 is 9).
        groups: channel groups.
        strides: product of the strides of all dimensions.
        channels_last: it runs on channels-last data.
    """

    images: int
    channels_in: int
    channels_out: int
    positions_in: int
    positions_out: int
    taps: int
    groups: int
    strides: int
    channels_last: bool

    @property
    def depthwise(self) -> bool:
        """One input channel a group, and as many groups as channels."""
        return self.groups > 1 and self.groups == self.channels_in

    @property
    def flops(self) -> float:
        """2 per multiply-add, the same for each of the three passes."""
        per_position = self.channels_in * self.channels_out * self.taps / self.groups
        return 2.0 * self.images * self.positions_out * per_position

    def packed(self, channels: int) -> ConvShape:
        """Groups taken together until they have so many channels.

        Tensor-core kernels work on whole tiles of channels; narrow groups share one, and what lies
        between a group's inputs and another's outputs is multiplied by zeros.
        """
        narrow = min(self.channels_in, self.channels_out) // self.groups
        together = max(
            d
            for d in range(1, self.groups + 1)
            if self.groups % d == 0 and (d == 1 or d * narrow <= channels)
        )
        return replace(self, groups=self.groups // together)

    def product(self, which: Pass) -> tuple[int, int, int]:
        """(M, N, K) of one group's implicit matrix product.

        A strided data gradient reads each tap for one in `strides` positions only: its K is
        reduced so that the FLOPs stay those of the forward pass.
        """
        c_in, c_out = self.channels_in // self.groups, self.channels_out // self.groups
        if which == "forward":
            return self.images * self.positions_out, c_out, c_in * self.taps
        if which == "data_gradient":
            share = self.positions_out / max(self.positions_in, 1)
            depth = max(ceil(c_out * self.taps * min(share, 1.0)), 1)
            return self.images * self.positions_in, c_in, depth
        return c_out, c_in * self.taps, self.images * self.positions_out


def conv_shape(op: Op, x: TensorSpec, weight: TensorSpec, y: TensorSpec) -> ConvShape:
    """Sizes of a convolution from its input, weight and output (or its gradient).

    A transposed convolution is the data gradient of an ordinary one: its input plays the output
    and its output the input, so that `positions_out` belongs to `x`.
    """
    groups = _integer(op.args.get("groups", 1))
    transposed = bool(op.args.get("transposed", False))
    small, large = (x, y) if transposed else (y, x)
    return ConvShape(
        images=x.shape[0],
        channels_in=large.shape[1],
        channels_out=small.shape[1],
        positions_in=prod(large.shape[2:]),
        positions_out=prod(small.shape[2:]),
        taps=prod(weight.shape[2:]),
        groups=groups,
        strides=prod(_integers(op.args.get("stride", ()))),
        channels_last=lies_channels_last(x) or lies_channels_last(weight),
    )


def channels_innermost(spec: TensorSpec) -> tuple[int, ...]:
    """Dimensions from the innermost out where channels lie last."""
    return (1, *range(len(spec.shape) - 1, 1, -1), 0)


def lies_channels_last(spec: TensorSpec) -> bool:
    """Whether the strides of a 4-D or 5-D tensor rise from channels over pixels to images.

    As `suggest_memory_format` of ATen has it: a slice of channels-last data does, a tensor of one
    channel and one pixel does not.
    """
    if len(spec.shape) not in (4, 5) or spec.stride[1] == 0:
        return False
    least = 0
    for dim in channels_innermost(spec):
        stride = spec.stride[dim]
        if spec.shape[dim] == 0 or stride < least or (dim == 0 and least == spec.stride[1]):
            return False
        least = stride * max(spec.shape[dim], 1)
    return True


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 1


def _integers(value: object) -> Sequence[int]:
    return [v for v in value if isinstance(v, int)] if isinstance(value, (tuple, list)) else []
