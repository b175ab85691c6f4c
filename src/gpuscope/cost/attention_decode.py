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

from gpuscope.cost.registry import Constants

_KEYS = 128
"""Keys of one step."""

_FEW_UNITS = 9
"""Devices with fewer compute units have large cores (TPU, Trainium), no multiprocessors."""

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
    if units < _FEW_UNITS:  # large cores stream keys and values, block after block
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
