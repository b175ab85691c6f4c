"""`torch._grouped_mm` of other types than bfloat16: CUDA takes it apart into a product per group.

The one kernel of CUTLASS is for bfloat16; for the rest the host reads where the groups end and
multiplies them one by one (aten/src/ATen/native/GroupedMMUtils.h, `_grouped_mm_fallback`). How many
rows each group has depends on data: an even share is taken, as elsewhere.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from gpuscope.program.capture.conversions import to_host
from gpuscope.program.capture.fakes import on_device

__all__ = ["run"]


def run(args: Any, kwargs: Any) -> torch.Tensor:
    """The products: rows by group, columns by group, or the sum over rows by group."""
    a, b = args[0], args[1]
    offsets = kwargs.get("offs", args[2] if len(args) > 2 else None)
    if offsets is None:
        made: torch.Tensor = torch.ops.aten.bmm.default(a, b)
        return made
    if on_device(offsets):
        to_host(offsets)
    groups = offsets.shape[0]
    both_flat = a.dim() == 2 and b.dim() == 2
    length = a.shape[1] if both_flat else a.shape[0] if a.dim() == 2 else b.shape[1]
    ends = list(pairwise(length * at // groups for at in range(groups + 1)))
    if both_flat:
        made = a.new_empty((groups, a.shape[0], b.shape[1]))
        parts = [(a[:, s:e], b[s:e], made[at]) for at, (s, e) in enumerate(ends)]
    elif a.dim() == 2:
        made = a.new_empty((a.shape[0], b.shape[2]))
        parts = [(a[s:e], b[at], made[s:e]) for at, (s, e) in enumerate(ends)]
    else:
        made = a.new_empty((a.shape[1], b.shape[1]))
        parts = [(a[at], b[:, s:e], made[:, s:e]) for at, (s, e) in enumerate(ends)]
    for left, right, out in parts:
        torch.ops.aten.mm.out(left, right, out=out)
    return made
