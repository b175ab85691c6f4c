"""Distances between all pairs of rows (`torch.cdist`), where no product makes them.

Forward a block of 256 threads adds up one pair, so that time is how fast blocks come and go; the
gradient of either side is written for every pair and value first, and added up after
(aten/src/ATen/native/cuda/DistanceKernel.cu). Seconds: five recorded sizes of an H200
(validation/recordings/h200/functions.jsonl.gz, "cdist").
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gpuscope.cost.bandwidth import machine, timed
from gpuscope.cost.reduction.model import reduce_kernels
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import Op, TensorSpec, row_major

_THREADS = 256


@kernel_model("aten::_cdist_forward")
def cdist(work: Work) -> tuple[Kernel, ...]:
    """A block for each pair."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    get, width = work.constants.value, work.op.inputs[0].shape[-1]
    pairs = work.outputs[0].numel
    block_s = get("cdist.block_s") + ceil(width / _THREADS - 0.5) * get("cdist.round_s")
    return (_lasting(work, "cdist", pairs * block_s, pairs, _THREADS),)


def each_pair(op: Op) -> TensorSpec:
    """What the gradient keeps of each pair: [.., N, M, width]."""
    grad, x = op.inputs[0], op.inputs[1]
    shape = (*grad.shape, x.shape[-1])
    return TensorSpec(shape, row_major(shape), x.dtype)


@kernel_model("aten::_cdist_backward")
def cdist_backward(work: Work) -> tuple[Kernel, ...]:
    """The gradient of each pair, and their sums."""
    pairs = each_pair(work.op)
    if not pairs.numel:
        return ()
    seconds = pairs.numel * work.constants.value("cdist.value_s")
    blocks = ceil(pairs.numel / 1024)
    made = _lasting(work, "cdist_backward", seconds, blocks, 1024)
    over = replace(work, op=replace(work.op, inputs=(pairs,)), hot=(False,))
    sums = reduce_kernels(over, pairs, (len(pairs.shape) - 2,), name="sum")
    return made, *sums


def _lasting(work: Work, name: str, seconds: float, grid: int, block: int) -> Kernel:
    seconds += machine(work).floor_s
    return replace(timed(work, name, "reduction", seconds, 1, block, "cdist"), grid=grid)
