"""Which values are among others (`isin`): compared each with each, or sorted together."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.cost.copy.model import copy_kernel, fill_kernel
from gpuscope.cost.indexing.sort import key_sort
from gpuscope.cost.pointwise.elementwise import elementwise
from gpuscope.cost.reduction.model import reduce_kernels
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

FEW = 10.0
"""Sought values, up to this times a power of the number of values, are compared with all of them
(ATen/native/TensorCompare.cpp, `isin_Tensor_Tensor_out`)."""


@kernel_model("aten::isin")
def isin(work: Work) -> tuple[Kernel, ...]:
    """Few: the result is cleared, all pairs compared, joined by value, and copied over."""
    if len(work.inputs) < 2 or not work.outputs or not work.outputs[0].numel:
        return elementwise(work, name="isin")
    values, sought = work.inputs[:2]
    found = work.outputs[0]
    if sought.numel >= FEW * values.numel**0.145:
        count = values.numel + sought.numel
        return *key_sort(work, count, int(values.itemsize), 8), *elementwise(work, name="isin")
    pairs = replace(found, shape=(found.numel, sought.numel), stride=(sought.numel, 1))
    equal = replace(fill_kernel(work, pairs), name="eq", kind="pointwise")
    joined = reduce_kernels(work, pairs, (1,), name="any", hot=True) if pairs.numel > 1 else ()
    return fill_kernel(work, found), equal, *joined, copy_kernel(work, found, found, True)
