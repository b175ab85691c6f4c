"""Attention: one fused kernel forward, a few backward, a split kernel for decoding.

FlashAttention (Dao 2022, 2023) keeps scores on chip: the grid is query blocks x heads x batch,
each block walks over the keys. FLOPs are 4 * B * H * Sq * Sk * D forward (two products) and 10
backward (five products, scores recomputed); a causal mask halves both (minus the diagonal), and a
window leaves of each query's keys the last few. Tiles without a pair are not walked
(FlashAttention, flash_fwd_kernel.h: `n_block_min`, `n_block_max`).
Traffic is Q, K, V and the output once per head, K and V re-read by each query block from L2.
With one query (decoding) it is bound by reading K and V once; splitting along the keys
(flash-decoding) fills the machine.

The tensor cores do not reach their matmul rate: softmax's exponentials run on the special
function units beside them, and FlashAttention-2's mma.sync instructions reach about half of
Hopper's wgmma rate (Shah et al. 2024, FlashAttention-3, figure 5). On compute capability 9.0 and
10.0 PyTorch therefore prefers cuDNN's kernels for half precision (sdp_utils.cpp,
`check_prefer_cudnn_attention`); elsewhere FlashAttention-2, and the memory-efficient kernel for
float32.

A kernel's time is `start + tiles * tile_s + blocks * block_s` on the busiest multiprocessor
(`unit_load`), or its memory traffic where that takes longer. The constants are fitted by
benchmarks/fit/attention.py; `block_s` is kept as an efficiency of the peak rate, so that it
carries to other devices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpuscope.cost.attention_decode import (
    decode_blocks,
    decode_rates,
    decode_s,
    decode_splits,
    decode_width,
)
from gpuscope.cost.attention_helpers import efficient_helpers, stream, tiny
from gpuscope.cost.bandwidth import machine
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.tiles import SYSTOLIC_SIDE
from gpuscope.cost.types import Kernel, Limiter, Origin
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Device
from gpuscope.hardware import device as device_named
from gpuscope.program.types import TensorSpec

#: Efficiency (share of the dtype's peak), tile_s and start_s where nothing was measured. Flash on
#: compute capability 8.x: Dao 2023, figures 5 and 6 (A100: 200 of 312 TFLOP/s forward, 170 back).
_HALF = ("float16", "bfloat16")

#: Heads wider than this neither cuDNN nor FlashAttention take (sdp_utils.cpp,
#: `check_head_dim_size_flash`; cuDNN frontend, scaled dot product attention, limits).
_WIDEST = 256

_FEW_CORES = 8
"""Devices with so few compute units have large cores (TPU, Trainium), no multiprocessors."""

_CORE_TILE = 512
"""Rows of queries and of keys in a step of such a core (MaxText, configs/base.yml: sa_block_q,
sa_block_kv and those of the backward pass)."""


def attention_flops(
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    causal: bool,
    sequences: float = 1.0,
    window: int = 0,
    ahead: int = 0,
) -> float:
    """FLOPs of one forward pass: scores and weighted sum, 2 per multiply-add.

    Shapes: q [B, H, Sq, D], k [B, Hkv, Sk, D], v [B, Hkv, Sk, Dv]. Of `sequences` that lie in
    each row one after the other each sees only itself; of a causal `window` a query sees so many
    keys at most. `ahead` of the keys come before the first query's own.
    """
    batch, heads, sq, d = _dims(q)
    sk, dv = k.shape[-2], v.shape[-1]
    return 2.0 * batch * heads * _pairs(sq, sk, causal, sequences, window, ahead) * (d + dv)


def _reach(work: Work) -> int:
    """Keys that a query sees at most, its own the last; 0 without a window."""
    found = work.op.args.get("window")
    return found if isinstance(found, int) else 0


def _ahead(work: Work) -> int:
    """Keys before the first query's own: the causal mask's corner is the last query and key."""
    if not (work.op.args.get("causal") and work.op.args.get("to_end")):
        return 0
    q, k = _queries_and_keys(work)
    return max(0, k.shape[-2] - q.shape[-2])


def _sequences(work: Work) -> float:
    """Sequences that lie in each row one after the other: `gpuscope.program.capture.nested`."""
    found = work.op.args.get("sequences")
    return float(found) if isinstance(found, (int, float)) else 1.0


def _dims(q: TensorSpec) -> tuple[int, int, int, int]:
    shape = (1,) * (4 - len(q.shape)) + tuple(q.shape)
    return math.prod(shape[:-3]), shape[-3], shape[-2], shape[-1]


def _pairs(
    sq: int, sk: int, causal: bool, sequences: float = 1.0, window: int = 0, ahead: int = 0
) -> float:
    """Query-key pairs that are computed in a row."""
    if ahead:  # the last rows of a square
        whole, before = (_pairs(n, n, causal, sequences, window) for n in (sk, ahead))
        return whole - before
    if not causal or sq == 1:
        keys = sk / sequences
        return float(sq) * (min(keys, window) if window else keys)
    n, more = min(sq, sk) / sequences, max(sq - sk, 0) / sequences
    if window and window < n:  # the first queries see what there is, all others the window
        return sequences * (window * (window + 1) / 2.0 + (n - window + more) * window)
    return sequences * (n * (n + 1) / 2.0 + more * sk / sequences)


def tile_shape(backend: str, head_dim: int, backward: bool) -> tuple[int, int, bool]:
    """Query rows and key rows of a block's step, and whether blocks own keys (not queries).

    Forward: a block owns query rows and walks over the keys. Backward: cuDNN and FlashAttention
    own key rows and walk over the queries. Read off the kernels' names and grids (cuDNN:
    `64x128x128_4x1x1`, 128 query rows a block; FlashAttention-2: `Kernel_traits<64, 128, 128>`).
    """
    if backend == "efficient":
        if backward:
            return (64, 64, True) if head_dim <= 64 else (128, 64, True)
        return (64, 64, False) if head_dim <= 64 else (64 if head_dim <= 128 else 32, 128, False)
    if backward:
        return (64, 128, True) if head_dim <= 128 else (64, 64, True)
    return (128, 64 if backend == "flash" and head_dim > 64 else 128, False)


def unit_load(
    heads: float,
    sq: float,
    sk: float,
    causal: bool,
    tile_q: int,
    tile_k: int,
    units: int,
    *,
    by_key: bool = False,
    window: int = 0,
    ahead: float = 0.0,
) -> tuple[float, float, float]:
    """What the busiest multiprocessor does.

    Args:
        heads: batch times query heads.
        by_key: blocks own key rows and walk the queries (backward).
        window: keys that a query sees at most; 0: all.
        ahead: keys before the first query's own, where it is causal.

    Returns:
        (tiles it owns, steps it walks, steps of the whole grid).
    """
    own, walk = (sk, sq) if by_key else (sq, sk)
    tile_own, tile_walk = (tile_k, tile_q) if by_key else (tile_q, tile_k)
    rows, steps = math.ceil(own / tile_own), math.ceil(walk / tile_walk)
    if not causal or sq == 1:
        total, longest = float(rows * steps), float(steps)
    else:
        each = [
            min(steps, math.ceil((min((i + 1) * tile_own, own) + ahead) / tile_walk))
            if not by_key
            else max(1, steps - int(max(0.0, i * tile_own - ahead) // tile_walk))
            for i in range(rows)
        ]
        if window:
            shift = -ahead if by_key else ahead
            blocks = ((i * tile_own, min((i + 1) * tile_own, own)) for i in range(rows))
            near = [
                _near(first + shift, end + shift, walk, tile_walk, window, by_key)
                for first, end in blocks
            ]
            each = [min(pair) for pair in zip(each, near, strict=True)]
        total, longest = float(sum(each)), float(max(each))
    tiles = heads * rows
    per_unit = math.ceil(tiles / units)
    if not causal or sq == 1:
        walked = per_unit * longest
    else:
        # Long and short tiles mix: near the average, at least the longest.
        walked = max(longest, total * heads / units + (longest / 2 if tiles > units else 0.0))
    return float(per_unit), walked, total * heads


def _near(first: float, end: float, walk: float, tile_walk: int, window: int, by_key: bool) -> int:
    """Steps of a block within a causal window: from the tile of the first pair to the last's.

    Its own rows are `first` to `end`, counted as those that it walks are.
    """
    if by_key:  # the last key of the tile is seen by window - 1 queries more
        start, stop = max(0.0, first), min(end + window - 1, walk)
    else:
        start, stop = max(0.0, first - window + 1), min(end, walk)
    return max(1, math.ceil(stop / tile_walk) - int(start // tile_walk))


def _rate(work: Work, dtype: str) -> tuple[float, str]:
    """Peak FLOP/s that attention's matrix products can use, and the dtype it is named by."""
    # The memory-efficient kernel does not round to tf32, whatever the switches say.
    if dtype == "float32" and work.device.supports("float32"):
        return work.device.peak_flops_per_s("float32", tensor_core=False), "float32"
    return work.device.peak_flops_per_s(dtype), dtype


def has_flash(device: Device) -> bool:
    """FlashAttention-2: compute capability 8.0 and later, and AMD's CDNA (its README)."""
    return device.vendor == "AMD" or (device.compute_capability or (0, 0)) >= (8, 0)


def implementation(work: Work, head_dim: int) -> str:
    """Whose kernel runs on this device: "cudnn", "flash" or "efficient".

    Raises:
        UnsupportedError: FlashAttention's alone was asked for, and it has none for this device.
    """
    ran = work.op.args.get("implementation")
    if ran is not None:  # a recording says which
        return str(ran)
    asked, only, _ = str(work.op.args.get("backend", "flash")).partition("_only")
    if only and asked == "flash" and not has_flash(work.device):
        raise UnsupportedError(
            Text("FlashAttention has no kernels for {device}.", device=work.device.name),
            Text("They begin with compute capability 8.0, and AMD's CDNA."),
            Text("Type: --attention sdpa, or --packing mask where examples are packed."),
        )
    half = work.op.inputs[0].dtype in _HALF
    if head_dim > _WIDEST:
        return "efficient"
    preferred = work.device.compute_capability in ((9, 0), (10, 0))
    alone = only or _ahead(work)  # no other kernel is asked for with such a mask
    if half and head_dim % 8 == 0 and not alone and (preferred or asked == "cudnn"):
        return "cudnn"
    return "flash" if asked == "flash" and half else "efficient"


@dataclass(frozen=True, slots=True)
class _Rates:
    """Constants of one main kernel: share of peak, seconds a tile and at the start, relative
    80 % half-width, seconds that mask and random numbers of a score take one multiprocessor,
    seconds that the first loads add where nothing is in the L2."""

    efficiency: float
    tile_s: float
    start_s: float
    spread: float
    score_s: float = 0.0
    cold_s: float = 0.0


def _mask(work: Work) -> TensorSpec | None:
    """What is added to the scores: the last of the inputs, beside those always given."""
    always = 6 if work.op.name.endswith("backward") else 3
    return work.op.inputs[-1] if len(work.op.inputs) > always else None


def _mask_s(work: Work, base: str, general: str) -> float:
    """Seconds that adding the mask to one score takes a multiprocessor; rows that do not start at
    multiples of 16 bytes are loaded element by element."""
    mask = _mask(work)
    if mask is None:
        return 0.0
    names = [f"{base}.mask_s", f"{base}.mask_odd_s"]
    if int(mask.shape[-1] * mask.itemsize) % 16:
        names.reverse()
    return work.constants.value(*names, f"{general}.mask_s")


def _width(head_dim: int, backend: str = "") -> int:
    """Elements of a head that the kernel computes: it is built for 64, 128 or 256 of them (cuDNN's
    for 192, too), and the memory-efficient one goes through wider heads in pieces (CUTLASS,
    41_fused_multi_head_attention: `kMaxK`, here 128)."""
    widths = (64, 128, 192, _WIDEST) if backend == "cudnn" else (64, 128, _WIDEST)
    built = next((width for width in widths if head_dim <= width), None)
    return built or 128 * math.ceil(head_dim / 128)


def _rates(work: Work, backend: str, direction: str, head_dim: int, drop: bool) -> _Rates:
    width = min(_width(head_dim, backend), _WIDEST)
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
        return _Rates(efficiency, *times, constants.spread(f"{general}.efficiency"))
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
    return _Rates(
        constants.value(fitted) * (1.0 if constants.own(fitted) else reach)
        if constants.known(fitted)
        else efficiency,
        constants.value(f"{key}.tile_s", f"{base}.tile_s", f"{general}.tile_s"),
        constants.value(f"{key}.start_s", f"{base}.start_s", f"{general}.start_s"),
        constants.spread(fitted, f"{general}.efficiency"),
        score_s,
        0.0 if hot else constants.value(f"{key}.cold_s", "attention.cold_s"),
    )


def _main_kernel(
    work: Work,
    backend: str,
    direction: str,
    useful: float,
    read: float,
    written: float,
    least: float,
) -> Kernel:
    q, k = _queries_and_keys(work)
    batch, heads, rows, d = _dims(q)
    sequences, causal = _sequences(work), bool(work.op.args.get("causal"))
    heads_in_all, sq, sk = batch * heads * sequences, rows / sequences, k.shape[-2] / sequences
    ahead = _ahead(work) / sequences
    backward = direction == "backward"
    drop = float(work.op.args.get("dropout_p") or 0.0) > 0  # type: ignore[arg-type]
    rates = _rates(work, backend, direction, d, drop)
    peak, dtype = _rate(work, q.dtype)
    tile_q, tile_k, by_key = tile_shape(backend, d, backward)
    if work.units <= _FEW_CORES:
        # The next tile's operands come while this one is worked on (Pallas pipelines its grid).
        asked = work.op.args.get("core_rows")
        tile_q = tile_k = asked if isinstance(asked, int) else _CORE_TILE
        rates = replace(rates, tile_s=0.0)
    if work.device.warp_size is None:
        filled = min(rates.efficiency, _filled(work, d))
        rates = replace(rates, efficiency=filled, score_s=rates.score_s * _core_share(work))
    own, walked, total = unit_load(
        heads_in_all, sq, sk, causal, tile_q, tile_k, work.units, by_key=by_key,
        window=_reach(work), ahead=ahead,
    )  # fmt: skip
    width = _width(d, backend)
    if work.device.warp_size is None and work.units > _FEW_CORES:
        walked = total / work.units  # a compiler spreads a head over arrays; no block owns one
    step_flops = (10.0 if backward else 4.0) * tile_q * tile_k * width
    block_s = step_flops / (peak / work.units * rates.efficiency)
    block_s += rates.score_s * tile_q * tile_k
    compute = own * rates.tile_s + walked * block_s
    reach = work.constants.value("bandwidth.reach")
    memory = (read + written) / (work.bandwidth * 0.85 * reach)
    duration = rates.start_s + rates.cold_s + max(compute, memory)
    limiter: Limiter = "memory"
    if compute >= memory:
        limiter = "compute" if dtype == "float32" else "tensor_core"
    if duration < 2 * rates.start_s:
        limiter = "latency"
    tiles = math.ceil(
        heads_in_all * math.ceil((sk if by_key else sq) / (tile_k if by_key else tile_q))
    )
    grid = min(tiles, work.units) if backend == "cudnn" else tiles
    return Kernel(
        name=f"{backend}_{'bwd' if backward else 'fwd'}_{tile_q}x{tile_k}x{width}",
        kind="attention",
        op=work.op.index,
        duration_s=duration,
        low_s=duration / (1 + rates.spread),
        high_s=duration * (1 + rates.spread),
        flops=useful,
        read_bytes=read,
        written_bytes=written,
        least_bytes=least,
        grid=grid,
        block=384 if backend == "cudnn" else 128,
        tile=(tile_q, tile_k, width),
        waves=tiles / work.units,
        limiter=limiter,
        dtype=dtype,
        compute_s=total * block_s / work.units,
        memory_s=memory,
        origin="calibrated" if work.constants.calibrated else "estimated",
        note=Text("head dimension padded") if d != width else "",
    )


def _core_share(work: Work) -> float:
    """Time of a core's vector units for what takes a multiprocessor of the measured GPU 1.

    A core of a TPU or Trainium is many multiprocessors wide.
    """
    on = machine(work)
    home = work.constants.calibration.measured_on
    clock_hz = device_named(home).clock_hz if home else None
    return clock_hz * work.units / on.clocks_per_s if clock_hz and on.clocks_per_s else 1.0


def _filled(work: Work, head_dim: int) -> float:
    """Share of the peak where a head fills part of a systolic array.

    The head is the depth or the width of every one of attention's products: one of 128 fills half
    of an array of 256 x 256.
    """
    reached = work.constants.value("matmul.bf16.efficiency")
    reached *= 1.0 if work.constants.calibrated else work.constants.value("gemm.reach")
    side = work.device.matrix_array_side or SYSTOLIC_SIDE
    return reached * min(1.0, head_dim / side)


def _queries_and_keys(work: Work) -> tuple[TensorSpec, TensorSpec]:
    inputs = work.op.inputs
    return (inputs[1], inputs[2]) if work.op.name.endswith("backward") else (inputs[0], inputs[1])


@kernel_model("gpuscope::attention")
def attention(work: Work) -> tuple[Kernel, ...]:
    """Forward pass; a split kernel and its combine step when there is one query a head."""
    q, k, v = work.op.inputs[:3]
    _, _, sq, d = _dims(q)
    backend = implementation(work, d)
    causal = bool(work.op.args.get("causal"))
    useful = attention_flops(q, k, v, causal, _sequences(work), _reach(work), _ahead(work))
    out = work.op.outputs[0]
    read = float(sum(t.touched_bytes for t in work.inputs))
    written = float(sum(t.nbytes for t in work.op.outputs))
    if sq == 1 and backend != "efficient":
        return _decode(work, backend, useful, read, float(out.nbytes))
    # The log-sum-exp is written only where a backward pass will want it.
    main = _main_kernel(work, backend, "forward", useful, read, written, read + written)
    if backend != "cudnn":
        return (main,)
    drop = float(work.op.args.get("dropout_p") or 0.0) > 0  # type: ignore[arg-type]
    extras = (tiny(work, "unpack_philox"),) if drop else ()
    return (*extras, tiny(work, "memset"), main)


def _decode(
    work: Work, backend: str, useful: float, read: float, written: float
) -> tuple[Kernel, ...]:
    """One query a head: K and V stream once; what the splits found is then joined."""
    q, k = work.op.inputs[:2]
    constants = work.constants
    batch, heads, _, d = _dims(q)
    width = decode_width(d)
    groups = batch * _dims(k)[1]
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
        masked=_mask(work) is not None,
    )
    start = constants.value("attention.decode.start_s")
    spread = constants.spread(f"attention.decode.d{width}.bandwidth_efficiency")
    peak, dtype = _rate(work, q.dtype)
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
    if splits == 1:
        return (main,)
    seconds = constants.value("attention.combine_s")
    combine = Kernel(
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
        dtype=dtype,
        memory_s=seconds,
        origin=origin,
    )
    return (main, combine)


@kernel_model("gpuscope::attention_backward")
def attention_backward(work: Work) -> tuple[Kernel, ...]:
    """Row sums of dO * O, the main kernel (five products), dQ's conversion, shared heads' sums."""
    grad, q, k, v, out = work.op.inputs[:5]
    batch, heads, sq, d = _dims(q)
    backend = implementation(work, d)
    causal = bool(work.op.args.get("causal"))
    seen = causal, _sequences(work), _reach(work), _ahead(work)
    pairs = _pairs(sq, k.shape[-2], *seen) * batch * heads
    useful = 2.0 * pairs * (3 * d + 2 * v.shape[-1])
    accumulate = float(q.numel * 4)
    inputs = float(sum(t.touched_bytes for t in (q, k, v, grad)))
    written = float(sum(t.nbytes for t in work.outputs))
    main = _main_kernel(
        work,
        backend,
        "backward",
        useful,
        inputs + accumulate,
        written + accumulate,
        inputs + float(out.nbytes) + written,
    )
    if backend == "efficient":
        return (*efficient_helpers(work), main)
    dot = stream(work, "attention_dot_do_o", float(out.nbytes + grad.nbytes), accumulate, "dot")
    convert = stream(work, "attention_convert_dq", accumulate, float(q.nbytes), "convert")
    if backend == "flash":
        return (dot, main, convert)
    shared = heads // max(_dims(k)[1], 1)
    sums = tuple(
        stream(work, "attention_reduce_heads", float(t.nbytes * shared), float(t.nbytes), "reduce")
        for t in (k, v)
        if shared > 1
    )
    return (tiny(work, "memset"), dot, main, convert, *sums)
