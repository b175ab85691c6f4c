"""Batch norm, forward and backward, in both memory layouts.

Which kernels run depends on types and layout (aten/src/ATen/native/Normalization.cpp): float32
batch norm goes to cuDNN in one kernel; mixed types (bfloat16 data with float32 weights) to ATen's
own three. In NCHW a block walks one channel, so few channels cannot fill the device and the time is
that of one block; channels-last kernels cut along pixels as well.
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine, reads
from gpuscope.cost.norm.batch_last import channels_last, last_kernel, shares_sums
from gpuscope.cost.norm.batch_persistent import persistent_kernel
from gpuscope.cost.norm.channel_blocks import walk
from gpuscope.cost.norm.channel_walk import (
    KEPT_BYTES,
    Traffic,
    blocks_kernel,
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
    """Whether cuDNN takes it (Normalization.cpp, `_batch_norm_impl_index`).

    Never bfloat16, float16 only with float32 weights, and none without weights.
    """
    if work.op.name in ("aten::cudnn_batch_norm", "aten::cudnn_batch_norm_backward"):
        return True
    plain = any(name in work.op.args and work.op.args[name] is None for name in ("weight", "bias"))
    if plain or spec.dtype == "bfloat16" or len(spec.shape) < 3 or spec.numel >= 2**31:
        return False
    return spec.dtype == "float32" or float_weights(work)


def _training(work: Work) -> bool:
    if "no_training" in work.op.name or "no_update" in work.op.name:
        return False
    given = work.op.args.get("training", work.op.args.get("train", True))
    return bool(given)


def _transform(work: Work, spec: TensorSpec, moved: Traffic) -> Kernel:
    """Normalise with known statistics: a block for each channel of each image."""
    batch, channels, pixels = shape_of(spec)
    if channels_last(spec):
        if not _library(work, spec):
            return last_kernel(work, "transform", spec, moved)
        steps, blocks = _library_cut(channels * pixels)
        name = "batch_norm_inference_channels_last"
        return _steps(work, name, spec, moved, (batch * blocks, 512), steps)
    threads = min(512, max(64, 1 << max(ceil(pixels / 4) - 1, 0).bit_length()))
    # At most 2^18 blocks; each then works on several images (Normalization.cuh).
    images = min(batch, max(1, 2**18 // max(channels, 1)))
    steps = ceil(pixels / threads) * ceil(batch / images)
    return _steps(work, "batch_norm_transform", spec, moved, (channels * images, threads), steps)


def _library_cut(values: int) -> tuple[int, int]:
    """Steps of a block of cuDNN's inference kernel for channels last, and blocks of an image.

    About an eighth of the image a block, a power of two from 16 to 256 steps of 512 values: so all
    13 recorded grids.
    """
    passes = ceil(values / 512)
    steps = min(max(1 << (max(passes // 8, 1).bit_length() - 1), 16), 256)
    return min(steps, passes), ceil(passes / steps)


def _steps(
    work: Work, name: str, spec: TensorSpec, moved: Traffic, cut: tuple[int, int], steps: int
) -> Kernel:
    """Blocks whose threads take value after value, each loaded when the one before is done."""
    get = work.constants.value
    m = machine(work)
    waves = cut[0] / (m.units * max(1, (m.threads_per_unit or 2048) // cut[1]))
    chain = get("normalization.batch.transform.base_s")
    # Warps that wait for their turn make a step longer.
    chain += steps * min(waves, 1.0) * get("normalization.batch.transform.step_s")
    return blocks_kernel(
        work,
        name,
        spec,
        moved,
        get("normalization.batch.transform.cycles"),
        cut,
        chain * max(waves, 1.0) / ceil(max(waves, 1e-9)),
        steps * get("normalization.batch.transform.load"),
        note=Text("one value of a thread is under way at a time"),
    )


@kernel_model(*_FORWARD)
def batch_norm(work: Work) -> tuple[Kernel, ...]:
    """Statistics of each channel (training), then scale and shift."""
    spec = work.op.inputs[0]
    if not spec.numel or spec.device != "device":
        return ()
    read = reads(work, (0,))
    size = float(spec.nbytes)
    if not _training(work):
        return _inference(work, spec, Traffic(read.cold, read.hot, size))
    if _library(work, spec):
        if channels_last(spec):
            once = Traffic(read.cold, read.hot, size)
            return _persistent(work, spec, once, backward=False)
        return _by_cudnn(work, spec, "", Traffic(read.cold, read.hot + size, size))
    near = size <= machine(work).l2_bytes  # what the statistics have just read
    apply = _transform(work, spec, Traffic(0.0 if near else size, size if near else 0.0, size))
    once = Traffic(read.cold, read.hot)
    if channels_last(spec):
        stats = last_kernel(work, "statistics", spec, once)
        clear = (small_kernel(work, "fill"),) * shares_sums(spec)
        return *clear, stats, small_kernel(work, "batch_norm_update"), apply
    return _statistics(work, spec, once), small_kernel(work, "batch_norm_update"), apply


def _inference(work: Work, spec: TensorSpec, moved: Traffic) -> tuple[Kernel, ...]:
    """Scale and shift by what training left."""
    made = _transform(work, spec, moved)
    if _library(work, spec):
        return (made,)
    narrow = spec.dtype != "float32" and not float_weights(work)
    chain_s = 1.2e-6 if narrow else 0.2e-6
    wide = kernel(work, Launch("copy", "normalization", written_bytes=4096.0, chain_s=chain_s))
    return wide, small_kernel(work, "batch_norm_invstd"), made


def _persistent(
    work: Work, spec: TensorSpec, once: Traffic, *, backward: bool
) -> tuple[Kernel, ...]:
    """cuDNN's channels-last kernel, and what clears the counters of its barriers."""
    return small_kernel(work, "memset"), persistent_kernel(work, spec, once, backward=backward)


def _by_cudnn(
    work: Work, spec: TensorSpec, way: str, moved: Traffic, again: bool = False
) -> tuple[Kernel, ...]:
    """One kernel of cuDNN's, which reads its data twice; `way`: "" or "_backward"."""
    batch, channels, pixels = shape_of(spec)
    values = float(batch * pixels)
    name, key = f"batch_norm_library{way}", f"library{way}"
    return (channel_walk(work, name, key, values, channels, 2, *moved.parts, again=again),)


def _statistics(work: Work, spec: TensorSpec, moved: Traffic) -> Kernel:
    """Mean and deviation of each channel, channels first."""
    batch, channels, pixels = shape_of(spec)
    return channel_walk(
        work,
        "batch_norm_statistics",
        "statistics",
        float(batch * pixels),
        channels,
        4,
        *moved.parts,
        way=walk(batch, pixels),
    )


@kernel_model(*_BACKWARD)
def batch_norm_backward(work: Work) -> tuple[Kernel, ...]:
    """Sums of the gradient, then the input's gradient, both passes over gradient and input."""
    spec = max(work.op.inputs[:2], key=lambda t: t.numel)
    if not spec.numel or spec.device != "device":
        return ()
    batch, channels, pixels = shape_of(spec)
    read = reads(work, (0, 1))
    size, values = float(spec.nbytes), float(batch * pixels)
    twice = Traffic(read.cold, read.hot + read.total, size)
    last = any(channels_last(t) for t in work.op.inputs[:2])
    if _library(work, spec):
        if last:
            return _persistent(work, spec, Traffic(read.cold, read.hot, size), backward=True)
        more = 2 * values * spec.itemsize > KEPT_BYTES
        return _by_cudnn(work, spec, "_backward", twice, again=more)
    if last:
        reduce = last_kernel(work, "backward_reduce", spec, Traffic(read.cold, read.hot))
        near = read.total <= machine(work).l2_bytes
        moved = Traffic(0.0 if near else read.total, read.total if near else 0.0, size)
        apply = last_kernel(work, "backward_apply", spec, moved)
        return *(small_kernel(work, "fill"),) * shares_sums(spec), reduce, apply
    return (
        channel_walk(
            work,
            "batch_norm_backward",
            "backward",
            values,
            channels,
            4,
            *twice.parts,
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
    read = reads(work)
    if work.op.name.endswith("elemt"):
        return (_transform(work, spec, Traffic(read.cold, read.hot, float(spec.nbytes))),)
    if len(spec.shape) < 3:
        return (small_kernel(work, "batch_norm_gather"),)
    return (_statistics(work, spec, Traffic(read.cold, read.hot)),)
