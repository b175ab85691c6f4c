"""Attention with one query a head (decoding): how the keys are split, and what a block takes.

cuDNN's kernel for compute capability 9.0 (`sm80_flash_fprop_wmma_f16_knob_35_16x128xD`) gives each
block one head's share of the keys, 128 at a time; heads wider than 128 take two blocks, one for
each half of the values. Its time on the busiest multiprocessor is

    start + norm4( steps * (turns * alone + blocks * shared), bytes / bandwidth )

where *steps* are the 128-key steps of a block, *turns* how often the multiprocessor's shared memory
is filled with blocks (K and V tiles of 128 keys), *alone* the latency of a step that neighbours
hide, and *shared* what each block adds to the multiprocessor. Constants by
benchmarks/fit/attention_wide.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gpuscope.cost.attention.rates import added_mask, product_peak
from gpuscope.cost.attention.tiles import FEW_CORES, dims
from gpuscope.cost.registry import Constants, Work
from gpuscope.cost.types import Kernel, Origin
from gpuscope.document.text import Text

_KEYS = 128
"""Keys of one step."""

_RESIDENT = {64: 6, 128: 3, 256: 2}
"""Blocks that share a multiprocessor, by head width: tiles of 128 keys in shared memory."""


@dataclass(frozen=True, slots=True)
class DecodeRates:
    """Constants of the kernel for one head width.

    Attributes:
        start_s, cold_s: start, and what the first loads add where nothing is in the L2.
        alone_s, shared_s: see the module.
        mask_s, mask_odd_s: a step's latency with a mask, and more where the mask's rows are no
            multiple of 16 bytes.
        bandwidth_efficiency: share of the memory bandwidth that K and V are streamed at.
        l2_ratio: bandwidth over the memory's where K and V are in the L2.
    """

    start_s: float
    alone_s: float
    shared_s: float
    mask_s: float
    mask_odd_s: float
    cold_s: float
    bandwidth_efficiency: float
    l2_ratio: float


def decode_width(head_dim: int) -> int:
    """Head width that the kernel is built for."""
    return next((width for width in (64, 128) if head_dim <= width), 256)


def decode_rates(constants: Constants, width: int) -> DecodeRates:
    """The constants for a head width, those of an H200 where nothing was measured."""
    base = f"attention.decode.d{width}."
    return DecodeRates(
        start_s=constants.value(base + "start_s"),
        alone_s=constants.value(base + "alone_s"),
        shared_s=constants.value(base + "shared_s"),
        mask_s=constants.value(base + "mask_s"),
        mask_odd_s=constants.value(base + "mask_odd_s"),
        cold_s=constants.value(base + "cold_s"),
        bandwidth_efficiency=constants.value(base + "bandwidth_efficiency")
        * constants.value("bandwidth.reach"),
        l2_ratio=constants.value(base + "l2_ratio"),
    )


def decode_splits(units: int, groups: int, keys: int) -> int:
    """How many ways the keys are split: a power of two that about fills the device twice.

    Read off the grids of cuDNN's decode kernels for 2 to 3,000 groups and 100 to 32,768 keys.

    Args:
        units: multiprocessors.
        groups: batch times key heads.
        keys: of one head.
    """
    if keys <= 512:
        return 1
    fill = 2 * units // max(groups, 1)
    splits = _power_of_two(fill)
    splits = splits if splits >= 4 else 1
    return max(1, min(splits, _power_of_two(ceil(keys / _KEYS))))


def _power_of_two(n: int) -> int:
    """The largest that is not above `n`; 1 at least."""
    return 1 << max(n.bit_length() - 1, 0)


def decode_blocks(groups: int, splits: int, width: int) -> int:
    """Blocks of the grid."""
    return groups * splits * (2 if width > 128 else 1)


def decode_s(
    rates: DecodeRates,
    width: int,
    units: int,
    bandwidth: float,
    *,
    blocks: int,
    keys: int,
    splits: int,
    read_bytes: float,
    hot: bool,
    masked: bool,
) -> tuple[float, float, float]:
    """Seconds of the main kernel, of its steps alone, and of its memory traffic alone.

    Args:
        rates: constants for this width.
        width: of a head, as the kernel computes it.
        units: multiprocessors.
        bandwidth: of the memory, bytes/s.
        blocks, splits: the grid, and how many ways the keys are split.
        keys: of one head.
        read_bytes: of K and V, all heads.
        hot: K and V are likely in the L2.
        masked: scores are added to; rows of 2-byte elements.
    """
    if units <= FEW_CORES:  # large cores stream keys and values, block after block
        memory = read_bytes / (bandwidth * rates.bandwidth_efficiency)
        return rates.start_s + (0.0 if hot else rates.cold_s) + memory, 0.0, memory
    steps = ceil(ceil(keys / _KEYS) / splits)
    each = ceil(blocks / units)
    alone = rates.alone_s
    if masked:
        alone += rates.mask_s + (rates.mask_odd_s if keys % 8 else 0.0)
    waiting = steps * (alone * ceil(each / _RESIDENT[width]) + rates.shared_s * each)
    share = rates.l2_ratio if hot else rates.bandwidth_efficiency
    memory = read_bytes / (bandwidth * share)
    high, low = max(waiting, memory), min(waiting, memory)
    joined = high * (1.0 + (low / high) ** 4) ** 0.25
    return rates.start_s + (0.0 if hot else rates.cold_s) + joined, waiting, memory


def decode_kernels(
    work: Work, backend: str, useful: float, read: float, written: float
) -> tuple[Kernel, ...]:
    """Kernels of one query a head: K and V stream once; what the splits found is then joined.

    Args:
        backend: whose kernel it is.
        useful: FLOPs.
        read, written: bytes.
    """
    q, k = work.op.inputs[:2]
    constants = work.constants
    batch, _, _, d = dims(q)
    width = decode_width(d)
    groups = batch * dims(k)[1]
    sk = k.shape[-2]
    splits = decode_splits(work.units, groups, sk)
    blocks = decode_blocks(groups, splits, width)
    hot = len(work.hot) > 2 and work.hot[1] and work.hot[2]
    duration, waiting, memory = decode_s(
        decode_rates(constants, width),
        width,
        work.units,
        work.bandwidth,
        blocks=blocks,
        keys=sk,
        splits=splits,
        read_bytes=read,
        hot=hot,
        masked=added_mask(work) is not None,
    )
    start = constants.value("attention.decode.start_s")
    spread = constants.spread(f"attention.decode.d{width}.bandwidth_efficiency")
    peak, dtype = product_peak(work, q.dtype)
    origin: Origin = "calibrated" if constants.calibrated else "estimated"
    main = Kernel(
        name=f"{backend}_fwd_decode_{d}",
        kind="attention",
        op=work.op.index,
        duration_s=duration,
        low_s=duration / (1 + spread),
        high_s=duration * (1 + spread),
        flops=useful,
        read_bytes=read,
        written_bytes=written,
        least_bytes=read + written,
        grid=blocks,
        block=128,
        tile=(16, 128, d),
        waves=blocks / (work.units * 2.0),
        limiter="memory" if memory > waiting and memory > start else "latency",
        dtype=dtype,
        compute_s=useful / peak,
        memory_s=memory,
        origin=origin,
        note=Text("keys split {splits} ways", splits=splits) if splits > 1 else "",
    )
    return (main,) if splits == 1 else (main, _combine(work, splits, written))


def _combine(work: Work, splits: int, written: float) -> Kernel:
    """Joins what the splits found, each with float32 sums."""
    q = work.op.inputs[0]
    batch, heads, _, _ = dims(q)
    seconds = work.constants.value("attention.combine_s")
    return Kernel(
        name="attention_combine",
        kind="attention",
        op=work.op.index,
        duration_s=seconds,
        low_s=seconds * 0.8,
        high_s=seconds * 1.3,
        read_bytes=float(q.numel * splits * 4),
        written_bytes=written,
        least_bytes=written,
        grid=batch * heads,
        block=128,
        waves=0.1,
        limiter="latency",
        dtype=product_peak(work, q.dtype)[1],
        memory_s=seconds,
        origin="calibrated" if work.constants.calibrated else "estimated",
    )
