"""Convolutions with ``cudnn.benchmark``: the kernels that trying them all out would choose.

In a process of its own: PyTorch keeps the plan of a shape, so one that ran without ``benchmark``
would be used again.  The same points are in the family ``convolution`` without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from convolution import OTHERS, RESNET50, conv_point
from harness import Point


def points(quick: bool) -> Iterator[Point]:
    """A sample of shapes at batch 64; ``quick`` keeps two."""
    for shape in (RESNET50[::2] + OTHERS[::2])[: 2 if quick else None]:
        for dtype, layout in (("bf16", "nhwc"), ("tf32", "nchw")):
            for direction in ("fwd", "dgrad", "wgrad"):
                if shape[0] > 3:
                    yield conv_point(shape, 64, dtype, layout, direction, benchmark=True)
