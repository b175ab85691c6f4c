"""What of the machine's rates an attention kernel reaches.

The tensor cores do not reach their matmul rate: softmax's exponentials run on the special
function units beside them, and FlashAttention-2's mma.sync instructions reach about half of
Hopper's wgmma rate (Shah et al. 2024, FlashAttention-3, figure 5). Where nothing was measured the
share of the dtype's peak is that of compute capability 8.x (Dao 2023, figures 5 and 6: an A100
reaches 200 of 312 TFLOP/s forward, 170 back).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuscope.cost.attention.choice import WIDEST
from gpuscope.cost.bandwidth import machine
from gpuscope.cost.matmul.tiles import SYSTOLIC_SIDE
from gpuscope.cost.registry import Work
from gpuscope.hardware import device as device_named
from gpuscope.program.types import TensorSpec


@dataclass(frozen=True, slots=True)
class Rates:
    """Constants of one main kernel: share of peak, seconds a tile and at the start, relative
    80 % half-width, seconds that mask and random numbers of a score take one multiprocessor,
    seconds that the first loads add where nothing is in the L2."""

    efficiency: float
    tile_s: float
    start_s: float
    spread: float
    score_s: float = 0.0
    cold_s: float = 0.0


def rates_of(work: Work, backend: str, direction: str, head_dim: int, drop: bool) -> Rates:
    """The constants of a main kernel on a device of multiprocessors.

    Args:
        backend: whose kernel it is.
        direction: "forward" or "backward".
        head_dim: width of a head.
        drop: scores are dropped at random.
    """
    width = min(built_width(head_dim, backend), WIDEST)
    single = work.op.inputs[0].dtype == "float32"
    base = f"attention.{backend}.{direction}.d{width}"
    key = base + (".float32" if single else "")
    general = f"attention.{backend}.{direction}"
    constants = work.constants
    reach = 1.0 if constants.calibrated else constants.value("gemm.reach")
    efficiency = reach * constants.value(f"{general}.efficiency")
    # FlashAttention-2 was written for the products of compute capability 8, which 12 has again
    # (`mma.sync`): what it reaches on Hopper says nothing about the devices that use it, but holds
    # for those that have products of warp groups or of tensor memory beside.
    later = (9, 0) <= (work.device.compute_capability or (0, 0)) < (12, 0)
    if backend == "flash" and not later and not constants.own(f"{base}.efficiency"):
        times = constants.value(f"{general}.tile_s"), constants.value(f"{general}.start_s")
        return Rates(efficiency, *times, constants.spread(f"{general}.efficiency"))
    halves = f"{base}.half.efficiency"
    if backend == "efficient" and not single and (later or constants.own(halves)):
        efficiency = reach * constants.value(halves, f"{general}.efficiency")
    elif backend == "efficient" and not single:
        # Both were written for the instructions of compute capability 8: what these reach here.
        reached = "attention.flash.forward.d128.efficiency"
        if constants.own(reached):
            usual = constants.value("attention.flash.forward.efficiency")
            efficiency *= min(1.0, constants.value(reached) / usual)
    score_s = _mask_s(work, key, general)
    if drop:  # random numbers are drawn for every score, whatever else the kernel does
        shared = f"attention.dropout.{direction}.score_s"
        score_s += constants.value(f"{key}.dropout_s", shared)
    fitted = f"{key}.efficiency"
    hot = all(work.hot[:3]) and work.hot
    return Rates(
        constants.value(fitted) * (1.0 if constants.own(fitted) else reach)
        if constants.known(fitted)
        else efficiency,
        constants.value(f"{key}.tile_s", f"{base}.tile_s", f"{general}.tile_s"),
        constants.value(f"{key}.start_s", f"{base}.start_s", f"{general}.start_s"),
        constants.spread(fitted, f"{general}.efficiency"),
        score_s,
        0.0 if hot else constants.value(f"{key}.cold_s", "attention.cold_s"),
    )


def product_peak(work: Work, dtype: str) -> tuple[float, str]:
    """Peak FLOP/s that attention's matrix products can use, and the dtype it is named by."""
    # The memory-efficient kernel does not round to tf32, whatever the switches say.
    if dtype == "float32" and work.device.supports("float32"):
        return work.device.peak_flops_per_s("float32", tensor_core=False), "float32"
    return work.device.peak_flops_per_s(dtype), dtype


def added_mask(work: Work) -> TensorSpec | None:
    """What is added to the scores: the last of the inputs, beside those always given."""
    always = 6 if work.op.name.endswith("backward") else 3
    return work.op.inputs[-1] if len(work.op.inputs) > always else None


def _mask_s(work: Work, base: str, general: str) -> float:
    """Seconds that adding the mask to one score takes a multiprocessor; rows that do not start at
    multiples of 16 bytes are loaded element by element."""
    mask = added_mask(work)
    if mask is None:
        return 0.0
    names = [f"{base}.mask_s", f"{base}.mask_odd_s"]
    if int(mask.shape[-1] * mask.itemsize) % 16:
        names.reverse()
    return work.constants.value(*names, f"{general}.mask_s")


def built_width(head_dim: int, backend: str = "") -> int:
    """Elements of a head that the kernel computes: it is built for 64, 128 or 256 of them (cuDNN's
    for 192, too), and the memory-efficient one goes through wider heads in pieces (CUTLASS,
    41_fused_multi_head_attention: `kMaxK`, here 128)."""
    widths = (64, 128, 192, WIDEST) if backend == "cudnn" else (64, 128, WIDEST)
    built = next((width for width in widths if head_dim <= width), None)
    return built or 128 * math.ceil(head_dim / 128)


def core_share(work: Work) -> float:
    """Time of a core's vector units for what takes a multiprocessor of the measured GPU 1.

    A core of a TPU or Trainium is many multiprocessors wide.
    """
    on = machine(work)
    home = work.constants.calibration.measured_on
    clock_hz = device_named(home).clock_hz if home else None
    return clock_hz * work.units / on.clocks_per_s if clock_hz and on.clocks_per_s else 1.0


def filled_share(work: Work, head_dim: int) -> float:
    """Share of the peak where a head fills part of a systolic array.

    The head is the depth or the width of every one of attention's products: one of 128 fills half
    of an array of 256 x 256.
    """
    reached = work.constants.value("matmul.bf16.efficiency")
    reached *= 1.0 if work.constants.calibrated else work.constants.value("gemm.reach")
    side = work.device.matrix_array_side or SYSTOLIC_SIDE
    return reached * min(1.0, head_dim / side)
