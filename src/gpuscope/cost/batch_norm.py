"""Batch norm, forward and backward, in both memory layouts.

Which kernels run depends on types and layout (aten/src/ATen/native/Normalization.cpp): float32
batch norm goes to cuDNN in one kernel; mixed types (bfloat16 data with float32 weights) to ATen's
own three. In NCHW a block walks one channel, so few channels cannot fill the device and the time is
that of one block; channels-last kernels cut along pixels as well.
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine, reads
from gpuscope.cost.batch_norm_last import channels_last, cut_kernel, last_kernel, shares_sums
from gpuscope.cost.channel_blocks import walk
from gpuscope.cost.channel_walk import (
    KEPT_BYTES,
    channel_walk,
    float_weights,
    shape_of,
    small_kernel,
)
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

_FORWARD = (
    "aten::native_batch_norm",
    "aten::_native_batch_norm_legit",
    "aten::_native_batch_norm_legit_functional",
    "aten::_native_batch_norm_legit_no_training",
    "aten::cudnn_batch_norm",
    "aten::_batch_norm_with_update",
    "aten::miopen_batch_norm",
    "aten::_batch_norm_no_update",
    "aten::_batch_norm_with_update_functional",
    "aten::batch_norm",
    "aten::native_batch_norm_functional",
)
_BACKWARD = (
    "aten::native_batch_norm_backward",
    "aten::cudnn_batch_norm_backward",
    "aten::batch_norm_backward",
    "aten::miopen_batch_norm_backward",
)


def _library(work: Work, spec: TensorSpec) -> bool:
    """Whether cuDNN takes it: never bfloat16, float16 only with float32 weights."""
    if work.op.name in ("aten::cudnn_batch_norm", "aten::cudnn_batch_norm_backward"):
        return True
    if spec.dtype == "bfloat16" or len(spec.shape) < 3:
        return False
    return spec.dtype == "float32" or float_weights(work)


def _training(work: Work) -> bool:
    if "no_training" in work.op.name or "no_update" in work.op.name:
        return False
    given = work.op.args.get("training", work.op.args.get("train", True))
    return bool(given)


def _transform(work: Work, spec: TensorSpec, read: float, hot: float) -> Kernel:
    """Normalise with known statistics: a block for each channel of each image."""
    batch, channels, pixels = shape_of(spec)
    if channels_last(spec):
        if not _library(work, spec):
            return last_kernel(work, "transform", spec, read, hot, float(spec.nbytes))
        # cuDNN's: 13 blocks an image, whatever its size (read off the recorded grids).
        blocks, steps = batch * 13, ceil(channels * pixels / (13 * 512))
        return _steps(
            work, "batch_norm_inference_channels_last", spec, read, hot, blocks, 512, steps
        )
    threads = min(512, max(64, 1 << max(ceil(pixels / 4) - 1, 0).bit_length()))
    # At most 2^18 blocks; each then works on several images (Normalization.cuh).
    images = min(batch, max(1, 2**18 // max(channels, 1)))
    steps = ceil(pixels / threads) * ceil(batch / images)
    return _steps(work, "batch_norm_transform", spec, read, hot, channels * images, threads, steps)


def _steps(
    work: Work,
    name: str,
    spec: TensorSpec,
    read: float,
    hot: float,
    grid: int,
    threads: int,
    steps: int,
) -> Kernel:
    """Blocks whose threads take value after value, each loaded when the one before is done."""
    get = work.constants.value
    m = machine(work)
    waves = grid / (m.units * max(1, (m.threads_per_unit or 2048) // threads))
    chain = get("normalization.batch.transform.base_s")
    # Warps that wait for their turn make a step longer.
    chain += steps * min(waves, 1.0) * get("normalization.batch.transform.step_s")
    return kernel(
        work,
        Launch(
            name,
            "normalization",
            read,
            hot,
            float(spec.nbytes),
            items=spec.numel,
            cycles=get("normalization.batch.transform.cycles"),
            grid=grid,
            block=threads,
            chain_s=chain * max(waves, 1.0) / ceil(max(waves, 1e-9)),
            loads=steps * get("normalization.batch.transform.load"),
            dtype=spec.dtype,
            family="normalization.batch",
            note=Text("one value of a thread is under way at a time"),
        ),
    )


@kernel_model(*_FORWARD)
def batch_norm(work: Work) -> tuple[Kernel, ...]:
    """Statistics of each channel (training), then scale and shift."""
    spec = work.op.inputs[0]
    if not spec.numel or spec.device != "device":
        return ()
    batch, channels, pixels = shape_of(spec)
    read = reads(work, (0,))
    size, values = float(spec.nbytes), float(batch * pixels)
    if not _training(work):
        narrow = spec.dtype != "float32" and not float_weights(work)
        made = _transform(work, spec, read.cold, read.hot)
        if _library(work, spec):
            return (made,)
        wide = kernel(
            work,
            Launch(
                "copy", "normalization", written_bytes=4096.0, chain_s=1.2e-6 if narrow else 0.2e-6
            ),
        )
        return wide, small_kernel(work, "batch_norm_invstd"), made
    last = channels_last(spec)
    if _library(work, spec):
        if last:
            return (
                small_kernel(work, "memset"),
                cut_kernel(
                    work,
                    "batch_norm_library_channels_last",
                    "nhwc.library",
                    spec,
                    read.cold,
                    read.hot + size,
                    size,
                ),
            )
        return (
            channel_walk(
                work,
                "batch_norm_library",
                "library",
                values,
                channels,
                2,
                read.cold,
                read.hot + size,
                size,
            ),
        )
    near = size <= machine(work).l2_bytes  # what the statistics have just read
    apply = _transform(work, spec, 0.0 if near else size, size if near else 0.0)
    if last:
        stats = last_kernel(work, "statistics", spec, read.cold, read.hot, 0.0)
        clear = (small_kernel(work, "fill"),) * shares_sums(spec)
        return *clear, stats, small_kernel(work, "batch_norm_update"), apply
    stats = channel_walk(
        work,
        "batch_norm_statistics",
        "statistics",
        values,
        channels,
        4,
        read.cold,
        read.hot,
        0.0,
        way=walk(batch, pixels),
    )
    return stats, small_kernel(work, "batch_norm_update"), apply


@kernel_model(*_BACKWARD)
def batch_norm_backward(work: Work) -> tuple[Kernel, ...]:
    """Sums of the gradient, then the input's gradient, both passes over gradient and input."""
    spec = max(work.op.inputs[:2], key=lambda t: t.numel)
    if not spec.numel or spec.device != "device":
        return ()
    batch, channels, pixels = shape_of(spec)
    read = reads(work, (0, 1))
    size, values = float(spec.nbytes), float(batch * pixels)
    last = any(channels_last(t) for t in work.op.inputs[:2])
    if _library(work, spec):
        if last:
            return (
                small_kernel(work, "memset"),
                cut_kernel(
                    work,
                    "batch_norm_library_backward_channels_last",
                    "nhwc.library_backward",
                    spec,
                    read.cold,
                    read.hot + read.total,
                    size,
                ),
            )
        return (
            channel_walk(
                work,
                "batch_norm_library_backward",
                "library_backward",
                values,
                channels,
                2,
                read.cold,
                read.hot + read.total,
                size,
                again=2 * values * spec.itemsize > KEPT_BYTES,
            ),
        )
    if last:
        reduce = last_kernel(work, "backward_reduce", spec, read.cold, read.hot, 0.0)
        near = read.total <= machine(work).l2_bytes
        apply = last_kernel(
            work,
            "backward_apply",
            spec,
            0.0 if near else read.total,
            read.total if near else 0.0,
            size,
        )
        return *(small_kernel(work, "fill"),) * shares_sums(spec), reduce, apply
    return (
        channel_walk(
            work,
            "batch_norm_backward",
            "backward",
            values,
            channels,
            4,
            read.cold,
            read.hot + read.total,
            size,
            way=walk(batch, pixels),
            again=True,
        ),
    )


@kernel_model(
    "aten::batch_norm_stats",
    "aten::batch_norm_gather_stats_with_counts",
    "aten::batch_norm_elemt",
    "aten::batch_norm_backward_reduce",
    "aten::batch_norm_backward_elemt",
)
def synchronised_batch_norm(work: Work) -> tuple[Kernel, ...]:
    """The pieces of synchronised batch norm: statistics, or an elementwise pass."""
    spec = max(work.inputs, key=lambda t: t.numel, default=None)
    if spec is None or not spec.numel:
        return ()
    batch, channels, pixels = shape_of(spec)
    read = reads(work)
    if work.op.name.endswith("elemt"):
        return (_transform(work, spec, read.cold, read.hot),)
    if len(spec.shape) < 3:
        return (small_kernel(work, "batch_norm_gather"),)
    return (
        channel_walk(
            work,
            "batch_norm_statistics",
            "statistics",
            float(batch * pixels),
            channels,
            4,
            read.cold,
            read.hot,
            0.0,
            way=walk(batch, pixels),
        ),
    )
