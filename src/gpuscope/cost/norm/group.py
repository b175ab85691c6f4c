"""Group norm, forward and backward: moments of each group, then elementwise passes.

Of rows without pixels (an LSTM's heads, say) ATen has kernels of its own
(aten/src/ATen/native/cuda/group_norm_kernel.cu, `GroupNorm1dForward`, `GroupNorm1dBackward`): no
factors of each channel, and the gradient's sums are a block for each group of a row.
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine, reads, written
from gpuscope.cost.copy.model import made_contiguous
from gpuscope.cost.norm.channel_walk import channel_walk, shape_of, small_kernel
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

_WHOLE_BLOCK = 512
"""Values from which a block of group norm's sums has so many threads; else it is one warp
(`kCUDABlockReduceNumThreads`, group_norm_kernel.cu)."""

_FEW_ROWS = 128
"""Batches up to which a thread walks all rows of a channel of the weight's gradient; above, 16
rows of threads share them, two rows each at a turn (`GammaBetaBackwardCUDAKernel2`)."""


@kernel_model("aten::native_group_norm", "aten::group_norm")
def group_norm(work: Work) -> tuple[Kernel, ...]:
    """Moments of each group, per-channel factors, then an elementwise pass."""
    spec = work.op.inputs[0]
    if not spec.numel or spec.device != "device":
        return ()
    get = work.constants.value
    batch, channels, pixels = shape_of(spec)
    groups = _groups(work, channels)
    read = reads(work, (0,))
    kernels = list(made_contiguous(work, 0))
    cold, hot = read.cold, read.hot
    if read.total + written(work) > machine(work).l2_bytes:
        cold, hot = read.total, 0.0  # what is written last has pushed it out
    values = channels // max(groups, 1) * pixels
    kernels += [
        channel_walk(
            work,
            "group_norm_moments",
            "group_moments",
            float(values),
            batch * groups,
            4 if values >= _WHOLE_BLOCK else 32,
            cold,
            hot,
            0.0,
            block=_WHOLE_BLOCK if values >= _WHOLE_BLOCK else 32,
        ),
        *(small_kernel(work, "group_norm_factors"),) * (pixels > 1),
        kernel(
            work,
            Launch(
                "group_norm_apply",
                "normalization",
                float(spec.nbytes),
                0.0,
                written(work),
                items=spec.numel,
                cycles=get("normalization.group.apply_cycles"),
                grid=max(1, ceil(spec.numel / 512)),
                dtype=spec.dtype,
                family="normalization.batch",
            ),
        ),
    ]
    return tuple(kernels)


@kernel_model("aten::native_group_norm_backward")
def group_norm_backward(work: Work) -> tuple[Kernel, ...]:
    """Sums of each channel, small factors, the input's gradient, then weight and bias."""
    spec = work.op.inputs[1]
    if not spec.numel or spec.device != "device":
        return ()
    get = work.constants.value
    batch, channels, pixels = shape_of(spec)
    read = reads(work, (0, 1))
    alone = pixels == 1
    values = channels // max(_groups(work, channels), 1) if alone else pixels
    sums = channel_walk(
        work,
        "group_norm_sums",
        "group_sums",
        float(values),
        batch * (channels // values if alone else channels),
        4 if values >= _WHOLE_BLOCK else 32,
        read.cold,
        read.hot,
        0.0,
        block=_WHOLE_BLOCK if values >= _WHOLE_BLOCK else 32,
    )
    apply = kernel(
        work,
        Launch(
            "group_norm_grad_input",
            "normalization",
            read.total,
            0.0,
            float(spec.nbytes),
            items=spec.numel,
            cycles=get("normalization.group.grad_cycles"),
            grid=max(1, ceil(spec.numel / 512)),
            dtype=spec.dtype,
            family="normalization.batch",
        ),
    )
    weight = _weight(work, batch, channels, read.total if alone else float(batch * channels * 8))
    small = (small_kernel(work, "group_norm_factors"),) * (0 if alone else 2)
    return *made_contiguous(work, 0, 1), sums, *small, apply, weight


def _weight(work: Work, batch: int, channels: int, read_bytes: float) -> Kernel:
    """Gradients of weight and bias, summed over the batch."""
    get = work.constants.value
    if batch <= _FEW_ROWS:
        cut, chain_s = (256, 256), batch * get("normalization.group.weight_step_s")
    else:
        cut, chain_s = (32, 512), ceil(batch / 32) * get("normalization.group.weight_turn_s")
    return kernel(
        work,
        Launch(
            "group_norm_grad_weight",
            "normalization",
            read_bytes,
            0.0,
            float(channels * 8),
            grid=max(1, ceil(channels / cut[0])),
            block=cut[1],
            chain_s=chain_s,
        ),
    )


def _groups(work: Work, channels: int) -> int:
    given = work.op.args.get("group", work.op.args.get("num_groups", 32))
    return int(given) if isinstance(given, int) else min(32, channels)
