"""Batch norm and group norm, forward and backward, in both memory layouts.

Which kernels run depends on types and layout (aten/src/ATen/native/Normalization.cpp): float32
batch norm goes to cuDNN in one kernel; mixed types (bfloat16 data with float32 weights) to ATen's
own three. In NCHW a block walks one channel, so few channels cannot fill the device and the time is
that of one block; channels-last kernels cut along pixels as well.
"""

from __future__ import annotations

from math import ceil, prod

from gpuscope.cost.bandwidth import (
    Launch,
    first_dtype,
    kernel,
    machine,
    missed_share,
    reads,
    written,
)
from gpuscope.cost.channel_blocks import Walk, walk
from gpuscope.cost.copy import made_contiguous
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


def _shape(spec: TensorSpec) -> tuple[int, int, int]:
    """Batch, channels, pixels."""
    if len(spec.shape) < 2:
        return 1, spec.numel, 1
    return spec.shape[0], spec.shape[1], prod(spec.shape[2:])


def _library(work: Work, spec: TensorSpec) -> bool:
    """Whether cuDNN takes it: never bfloat16, float16 only with float32 weights."""
    if work.op.name in ("aten::cudnn_batch_norm", "aten::cudnn_batch_norm_backward"):
        return True
    if spec.dtype == "bfloat16" or len(spec.shape) < 3:
        return False
    return spec.dtype == "float32" or _float_weights(work)


def _float_weights(work: Work) -> bool:
    return {t.dtype for t in work.op.inputs if len(t.shape) == 1} == {"float32"}


def _training(work: Work) -> bool:
    if "no_training" in work.op.name or "no_update" in work.op.name:
        return False
    given = work.op.args.get("training", work.op.args.get("train", True))
    return bool(given)


_KEPT_BYTES = 128 * 1024
"""What a block of cuDNN's single-reading kernels keeps of its channel, in registers and shared
memory: 12,544 values of float32 and of their gradients, not 25,088; forward 25,088, not 50,176; in
float16 twice as many (kernel names of recorded steps)."""


def _paired(work: Work, key: str, values: float) -> bool:
    """Whether cuDNN works on pairs of half-precision values: where it keeps a channel, or last."""
    if "library" not in key or first_dtype(work) != "float16":
        return False
    kept = 2 * values * (2 if "backward" in key else 1)
    return "nhwc" in key or kept <= _KEPT_BYTES


def _channel_walk(
    work: Work,
    name: str,
    key: str,
    values: float,
    channels: int,
    resident: int,
    read: float,
    hot: float,
    out: float,
    block: int = 512,
    way: Walk | None = None,
    again: bool = False,
) -> Kernel:
    """A block a channel that walks `values` values of it, evenly or as `way` says.

    `again`: and walks them a second time, from the L2 unless all blocks' data outgrow it.

    Constants: clocks a value where blocks share a multiprocessor (`cycles`); dependent loads a step
    of `block` values (`load`) and seconds a value (`value_s`) where a block is alone; seconds a
    block (`base_s`).
    """
    get = work.constants.value
    pairs = get("normalization.batch.library.half") if _paired(work, key, values) else 1.0
    steps = way.steps if way else ceil(values / block)
    loads = steps * get(f"normalization.batch.{key}.load") * pairs
    second = 0.0
    if again:
        m = machine(work)
        missed = missed_share(m, (read + hot) / 2 / channels, channels, resident)
        second = loads * (m.l2_latency_s + missed * (m.latency_s - m.l2_latency_s))
    return kernel(
        work,
        Launch(
            name,
            "normalization",
            read,
            hot,
            out,
            items=(way.lanes if way else values) * channels,
            cycles=get(f"normalization.batch.{key}.cycles") * pairs,
            grid=channels,
            block=block,
            resident=resident,
            chain_s=get(f"normalization.batch.{key}.base_s")
            * (get("normalization.group.warp_base") if block == 32 else 1.0)
            + values * get(f"normalization.batch.{key}.value_s") * pairs
            + second,
            loads=loads,
            dtype=first_dtype(work),
            family="normalization.batch",
            note=Text("one block for each of {channels} channels", channels=channels),
        ),
    )


def _cut(
    work: Work, name: str, key: str, spec: TensorSpec, read: float, hot: float, out: float
) -> Kernel:
    """A channels-last kernel: blocks cut along channels and pixels."""
    get = work.constants.value
    channels = _shape(spec)[1]
    pixels = spec.numel // max(channels, 1)
    grid = ceil(channels / 32) * max(1, min(128, ceil(pixels / 256)))
    return kernel(
        work,
        Launch(
            name,
            "normalization",
            read,
            hot,
            out,
            items=spec.numel,
            cycles=get(f"normalization.batch.{key}.cycles")
            * (get("normalization.batch.library.half") if _paired(work, key, pixels) else 1.0),
            grid=max(grid, 1),
            block=512,
            streaming=True,
            chain_s=get(f"normalization.batch.{key}.base_s"),
            dtype=spec.dtype,
            family="normalization.batch",
        ),
    )


def _channels_last(spec: TensorSpec) -> bool:
    """Whether channels lie innermost, as they do in batches of plain rows."""
    return spec.is_channels_last or (len(spec.shape) == 2 and spec.is_contiguous)


def _tiles(channels: int, rows: int, together: bool) -> tuple[int, int, int, int]:
    """How a channels-last kernel cuts its work (`flexible_launch_configs`, Normalization.cuh).

    Args:
        channels: of the data.
        rows: values of a channel.
        together: the blocks of a channel add up their results: only from 8 of them on.

    Returns:
        (blocks, threads of each, dependent steps of a thread, blocks of a channel).
    """

    def power(n: int) -> int:
        return 1 << max(n, 1).bit_length() - 1

    across = min(power(channels), 32)
    down = min(power(ceil(rows / 16)), 512 // across)
    if across * down != 512:
        across = min(power(channels), 512 // down)
    deep = min(ceil(rows / (down * 16)), 128)
    if together and deep < 8:
        deep = 1
    steps = ceil(rows / (down * max(deep, 1) * 4))
    return ceil(channels / across) * max(deep, 1), across * down, steps, max(deep, 1)


def _shared(spec: TensorSpec) -> bool:
    """Whether several blocks share a channel's sums, through memory that is cleared first."""
    channels = _shape(spec)[1]
    return _tiles(channels, spec.numel // max(channels, 1), True)[3] > 1


def _last(work: Work, key: str, spec: TensorSpec, read: float, hot: float, out: float) -> Kernel:
    """One of ATen's channels-last kernels."""
    get = work.constants.value
    channels = _shape(spec)[1]
    rows = spec.numel // max(channels, 1)
    together = key in ("statistics", "backward_reduce")
    grid, block, steps, deep = _tiles(channels, rows, together)
    name = f"normalization.batch.nhwc.{key}"
    if spec.dtype == "float32":  # four values in one load
        name += ".float32"
    each = get(f"{name}.step_s")
    if key == "transform" and spec.dtype != "float32" and not _float_weights(work):
        each += get(f"{name}.narrow_s")  # factors are widened value by value
    chain = get(f"{name}.base_s") + steps * each
    if together and deep > 1:  # the last block of a channel reads what the others wrote
        chain += get("normalization.batch.nhwc.together_s")
    return kernel(
        work,
        Launch(
            f"batch_norm_{key}_channels_last",
            "normalization",
            read,
            hot,
            out,
            items=spec.numel,
            cycles=get(f"{name}.cycles"),
            grid=grid,
            block=block,
            chain_s=chain,
            loads=steps * get(f"{name}.load"),
            dtype=spec.dtype,
            family="normalization.batch",
            note=Text("{steps} steps of four values a thread", steps=steps),
        ),
    )


def _transform(work: Work, spec: TensorSpec, read: float, hot: float) -> Kernel:
    """Normalise with known statistics: a block for each channel of each image."""
    batch, channels, pixels = _shape(spec)
    if _channels_last(spec):
        if not _library(work, spec):
            return _last(work, "transform", spec, read, hot, float(spec.nbytes))
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


def _small(work: Work, name: str) -> Kernel:
    """A kernel over the channels only: its launch is all that counts."""
    return kernel(work, Launch(name, "normalization", written_bytes=4096.0, chain_s=0.2e-6))


@kernel_model(*_FORWARD)
def batch_norm(work: Work) -> tuple[Kernel, ...]:
    """Statistics of each channel (training), then scale and shift."""
    spec = work.op.inputs[0]
    if not spec.numel or spec.device != "device":
        return ()
    batch, channels, pixels = _shape(spec)
    read = reads(work, (0,))
    size, values = float(spec.nbytes), float(batch * pixels)
    if not _training(work):
        narrow = spec.dtype != "float32" and not _float_weights(work)
        made = _transform(work, spec, read.cold, read.hot)
        if _library(work, spec):
            return (made,)
        wide = kernel(
            work,
            Launch(
                "copy", "normalization", written_bytes=4096.0, chain_s=1.2e-6 if narrow else 0.2e-6
            ),
        )
        return wide, _small(work, "batch_norm_invstd"), made
    last = _channels_last(spec)
    if _library(work, spec):
        if last:
            return (
                _small(work, "memset"),
                _cut(
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
            _channel_walk(
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
        stats = _last(work, "statistics", spec, read.cold, read.hot, 0.0)
        clear = (_small(work, "fill"),) * _shared(spec)
        return *clear, stats, _small(work, "batch_norm_update"), apply
    stats = _channel_walk(
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
    return stats, _small(work, "batch_norm_update"), apply


@kernel_model(*_BACKWARD)
def batch_norm_backward(work: Work) -> tuple[Kernel, ...]:
    """Sums of the gradient, then the input's gradient, both passes over gradient and input."""
    spec = max(work.op.inputs[:2], key=lambda t: t.numel)
    if not spec.numel or spec.device != "device":
        return ()
    batch, channels, pixels = _shape(spec)
    read = reads(work, (0, 1))
    size, values = float(spec.nbytes), float(batch * pixels)
    last = any(_channels_last(t) for t in work.op.inputs[:2])
    if _library(work, spec):
        if last:
            return (
                _small(work, "memset"),
                _cut(
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
            _channel_walk(
                work,
                "batch_norm_library_backward",
                "library_backward",
                values,
                channels,
                2,
                read.cold,
                read.hot + read.total,
                size,
                again=2 * values * spec.itemsize > _KEPT_BYTES,
            ),
        )
    if last:
        reduce = _last(work, "backward_reduce", spec, read.cold, read.hot, 0.0)
        near = read.total <= machine(work).l2_bytes
        apply = _last(
            work,
            "backward_apply",
            spec,
            0.0 if near else read.total,
            read.total if near else 0.0,
            size,
        )
        return *(_small(work, "fill"),) * _shared(spec), reduce, apply
    return (
        _channel_walk(
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


_WHOLE_BLOCK = 512
"""Values from which a block of group norm's sums has so many threads; else it is one warp
(`kCUDABlockReduceNumThreads`, group_norm_kernel.cu)."""


@kernel_model("aten::native_group_norm", "aten::group_norm")
def group_norm(work: Work) -> tuple[Kernel, ...]:
    """Moments of each group, per-channel factors, then an elementwise pass."""
    spec = work.op.inputs[0]
    if not spec.numel or spec.device != "device":
        return ()
    get = work.constants.value
    batch, channels, pixels = _shape(spec)
    groups = _groups(work, channels)
    read = reads(work, (0,))
    kernels = list(made_contiguous(work, 0))
    cold, hot = read.cold, read.hot
    if read.total + written(work) > machine(work).l2_bytes:
        cold, hot = read.total, 0.0  # what is written last has pushed it out
    values = channels // max(groups, 1) * pixels
    kernels += [
        _channel_walk(
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
        _small(work, "group_norm_factors"),
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
    batch, channels, pixels = _shape(spec)
    read = reads(work, (0, 1))
    sums = _channel_walk(
        work,
        "group_norm_sums",
        "group_sums",
        float(pixels),
        batch * channels,
        4 if pixels >= _WHOLE_BLOCK else 32,
        read.cold,
        read.hot,
        0.0,
        block=_WHOLE_BLOCK if pixels >= _WHOLE_BLOCK else 32,
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
    weight = kernel(
        work,
        Launch(
            "group_norm_grad_weight",
            "normalization",
            float(batch * channels * 8),
            0.0,
            float(channels * 8),
            grid=max(1, ceil(channels / 256)),
            block=256,
            chain_s=batch * get("normalization.group.weight_step_s"),
        ),
    )
    small = _small(work, "group_norm_factors")
    return *made_contiguous(work, 0, 1), sums, small, small, apply, weight


def _groups(work: Work, channels: int) -> int:
    given = work.op.args.get("group", work.op.args.get("num_groups", 32))
    return int(given) if isinstance(given, int) else min(32, channels)


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
    batch, channels, pixels = _shape(spec)
    read = reads(work)
    if work.op.name.endswith("elemt"):
        return (_transform(work, spec, read.cold, read.hot),)
    if len(spec.shape) < 3:
        return (_small(work, "batch_norm_gather"),)
    return (
        _channel_walk(
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
