"""Attention: one fused kernel forward, a few backward, a split kernel for decoding.

FlashAttention (Dao 2022, 2023) keeps scores on chip: the grid is query blocks x heads x batch,
each block walks over the keys. FLOPs are 4 * B * H * Sq * Sk * D forward (two products) and 10
backward (five products, scores recomputed); a causal mask halves both (minus the diagonal).
Traffic is Q, K, V and the output once per head, K and V re-read by each query block from L2.
With one query (decoding) it is bound by reading K and V once; splitting along the keys
(flash-decoding) fills the machine.

The tensor cores do not reach their matmul rate: softmax's exponentials run on the special
function units beside them, and PyTorch ships FlashAttention-2, whose mma.sync instructions reach
about half of Hopper's wgmma rate (Shah et al. 2024, FlashAttention-3, figure 5).
"""

from __future__ import annotations

import math

from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel, Limiter
from gpuscope.program.types import TensorSpec

_FLOOR_S = 3.0e-6


def attention_flops(q: TensorSpec, k: TensorSpec, v: TensorSpec, causal: bool) -> float:
    """FLOPs of one forward pass: scores and weighted sum, 2 per multiply-add.

    Shapes: q [B, H, Sq, D], k [B, Hkv, Sk, D], v [B, Hkv, Sk, Dv].
    """
    batch, heads, sq, d = _dims(q)
    sk, dv = k.shape[-2], v.shape[-1]
    return 2.0 * batch * heads * _pairs(sq, sk, causal) * (d + dv)


def _dims(q: TensorSpec) -> tuple[int, int, int, int]:
    shape = (1,) * (4 - len(q.shape)) + tuple(q.shape)
    return math.prod(shape[:-3]), shape[-3], shape[-2], shape[-1]


def _pairs(sq: int, sk: int, causal: bool) -> float:
    """Query-key pairs that are computed."""
    if not causal or sq == 1:
        return float(sq) * sk
    n = min(sq, sk)
    return n * (n + 1) / 2.0 + max(sq - sk, 0) * float(sk)


def _tiled_pairs(sq: int, sk: int, causal: bool, tile_q: int, tile_k: int) -> float:
    """Pairs really computed: whole tiles, the diagonal's included."""
    blocks_q, blocks_k = math.ceil(sq / tile_q), math.ceil(sk / tile_k)
    if not causal:
        return float(blocks_q * blocks_k) * tile_q * tile_k
    total = sum(
        min(blocks_k, math.ceil(min((i + 1) * tile_q, sq) / tile_k)) for i in range(blocks_q)
    )
    return float(total) * tile_q * tile_k


def _rate(work: Work, dtype: str) -> tuple[float, str]:
    """Peak FLOP/s that attention's matrix products can use, and the dtype it is named by."""
    if dtype == "float32":
        if work.setting("tf32_matmul") and work.device.supports("tf32"):
            return work.device.peak_flops_per_s("tf32"), "tf32"
        return work.device.peak_flops_per_s("float32", tensor_core=False), "float32"
    return work.device.peak_flops_per_s(dtype), dtype


def _tiles(work: Work, head_dim: int, backend: str, backward: bool) -> tuple[int, int]:
    """Query and key tile (FlashAttention-2's choices by head dimension on sm80 and later)."""
    if backend != "flash":
        return (64, 64)
    if backward:
        return (64, 128) if head_dim <= 128 else (64, 64)
    if head_dim <= 64:
        return (128, 128)
    return (128, 64) if head_dim <= 192 else (64, 64)


def _kernel(
    work: Work, name: str, flops: float, useful: float, read: float, written: float,
    least: float, grid: int, tile: tuple[int, ...], key: str, dtype: str, peak: float,
) -> Kernel:  # fmt: skip
    constants = work.constants
    calibrated = constants.calibrated
    blocks_per_unit = constants.get(f"attention.{key}.blocks_per_unit", 2.0)
    slots = max(work.units * blocks_per_unit, 1.0)
    waves = grid / slots
    # Blocks are dealt out as slots free up: a partly filled last wave costs its share.
    filled = math.ceil(waves) / waves if waves > 1 else 1.0
    alone = min(grid / work.units, 1.0) if waves <= 1 else 1.0
    busy = alone if waves <= 1 else 1.0
    tail = 1.0 + (filled - 1.0) * constants.get("attention.tail_share", 0.6)
    efficiency = constants.get(f"attention.{key}.efficiency", 0.45)
    compute = flops / (peak * efficiency * max(busy, 1e-9)) * (tail if waves > 1 else 1.0)
    bandwidth = work.bandwidth * constants.get("attention.bandwidth_efficiency", 0.8)
    memory = (read + written) / bandwidth
    floor = constants.get(f"attention.{key}.floor_s", _FLOOR_S)
    duration = floor + max(compute, memory)
    limiter: Limiter = "tensor_core" if compute >= memory else "memory"
    if max(compute, memory) < floor:
        limiter = "latency"
    spread = constants.spread(f"attention.{key}.efficiency", 0.3)
    return Kernel(
        name=name, kind="attention", op=work.op.index, duration_s=duration,
        low_s=duration / (1 + spread), high_s=duration * (1 + spread), flops=useful,
        read_bytes=read, written_bytes=written, least_bytes=least, grid=grid, block=128,
        tile=tile, waves=waves, limiter=limiter, dtype=dtype, compute_s=compute,
        memory_s=memory, origin="calibrated" if calibrated else "estimated",
    )  # fmt: skip


@kernel_model("gpuscope::attention")
def attention(work: Work) -> tuple[Kernel, ...]:
    """Forward pass; a split kernel and its combine step when there is one query a head."""
    q, k, v = work.op.inputs[:3]
    causal = bool(work.op.args.get("causal"))
    backend = str(work.op.args.get("backend", "flash"))
    batch, heads, sq, d = _dims(q)
    sk = k.shape[-2]
    if backend == "math":
        backend = "efficient"
    peak, dtype = _rate(work, q.dtype)
    tile_q, tile_k = _tiles(work, d, backend, False)
    useful = attention_flops(q, k, v, causal)
    kv_bytes = k.touched_bytes + v.touched_bytes
    least = q.touched_bytes + kv_bytes + sum(t.nbytes for t in work.outputs)
    if sq <= 16 and backend == "flash":
        return _decode(work, q, k, v, useful, least, peak, dtype, backend)
    flops = _tiled_pairs(sq, sk, causal, tile_q, tile_k) * batch * heads * 2.0
    flops *= d + v.shape[-1]
    grid = math.ceil(sq / tile_q) * heads * batch
    width = "64" if d <= 64 else "128" if d <= 128 else "256"
    key = f"{backend}.forward.d{width}" if q.dtype != "float32" else "efficient.forward.float32"
    written = float(sum(t.nbytes for t in work.outputs))
    mask = sum(t.touched_bytes for t in work.inputs[3:])
    return (
        _kernel(
            work, f"{backend}_fwd_{d}", flops, useful, float(q.touched_bytes + kv_bytes + mask),
            written, float(least + mask), grid, (tile_q, tile_k, d), key, dtype, peak,
        ),
    )  # fmt: skip


def _decode(
    work: Work, q: TensorSpec, k: TensorSpec, v: TensorSpec, useful: float, least: float,
    peak: float, dtype: str, backend: str,
) -> tuple[Kernel, ...]:  # fmt: skip
    """Few queries: K and V stream once, split over enough blocks to fill the device."""
    constants = work.constants
    batch, heads, sq, d = _dims(q)
    kv_heads = _dims(k)[1]
    sk = k.shape[-2]
    tiles_k = math.ceil(sk / 256)
    alone = batch * heads
    splits = 1 if alone >= 0.8 * 2 * work.units else min(
        max(1, math.floor(2 * work.units / alone)), tiles_k, 128
    )  # fmt: skip
    grid = alone * splits
    # A block reads its keys for one query head; heads of one group re-read them through L2.
    kv_bytes = float(k.touched_bytes + v.touched_bytes)
    reread = kv_bytes * (heads / max(kv_heads, 1))
    hot = len(work.hot) > 2 and work.hot[1] and work.hot[2]
    fill = min(1.0, grid / work.units)
    stream = work.bandwidth * constants.get("attention.decode.bandwidth_efficiency", 0.75)
    l2_rate = work.bandwidth * constants.get("attention.decode.l2_ratio", 1.6)
    per_block = constants.get("attention.decode.block_bytes_per_s", 3.0e10)
    memory = max(
        (0.0 if hot else kv_bytes / stream), reread / l2_rate, reread / grid / per_block
    ) / max(fill, 0.05) ** 0.0
    floor = constants.get("attention.decode.floor_s", 5e-6)
    duration = floor + memory
    spread = constants.spread("attention.decode.bandwidth_efficiency", 0.3)
    main = Kernel(
        name=f"{backend}_fwd_splitkv_{d}" if splits > 1 else f"{backend}_fwd_{d}",
        kind="attention", op=work.op.index, duration_s=duration,
        low_s=duration / (1 + spread), high_s=duration * (1 + spread), flops=useful,
        read_bytes=kv_bytes + q.nbytes, written_bytes=float(sum(t.nbytes for t in work.outputs)),
        least_bytes=float(least), grid=grid, block=128, tile=(64, 256, d),
        waves=grid / (work.units * 2.0), limiter="memory" if memory > floor else "latency",
        dtype=dtype, compute_s=useful / peak, memory_s=memory,
        origin="calibrated" if constants.calibrated else "estimated",
        note=f"keys split {splits} ways" if splits > 1 else "",
    )  # fmt: skip
    if splits == 1:
        return (main,)
    combine_s = constants.get("attention.combine_s", 3.5e-6)
    combine = Kernel(
        name=f"{backend}_fwd_splitkv_combine", kind="attention", op=work.op.index,
        duration_s=combine_s, low_s=combine_s * 0.8, high_s=combine_s * 1.3,
        read_bytes=float(q.numel * splits * 4), written_bytes=float(q.nbytes),
        least_bytes=float(q.nbytes), grid=max(1, batch * heads * sq // 16), block=128,
        waves=0.1, limiter="latency", dtype=dtype, memory_s=combine_s,
        origin="calibrated" if constants.calibrated else "estimated",
    )  # fmt: skip
    return (main, combine)


@kernel_model("gpuscope::attention_backward")
def attention_backward(work: Work) -> tuple[Kernel, ...]:
    """Row sums of dO * O, the main kernel (five products), and dQ's conversion."""
    grad, q, k, v, out = work.op.inputs[:5]
    causal = bool(work.op.args.get("causal"))
    backend = str(work.op.args.get("backend", "flash"))
    backend = "efficient" if backend == "math" else backend
    batch, heads, sq, d = _dims(q)
    sk, dv = k.shape[-2], v.shape[-1]
    peak, dtype = _rate(work, q.dtype)
    tile_q, tile_k = _tiles(work, d, backend, True)
    pairs = _pairs(sq, sk, causal) * batch * heads
    useful = 2.0 * pairs * (3 * d + 2 * dv)
    flops = _tiled_pairs(sq, sk, causal, tile_q, tile_k) * batch * heads * 2.0 * (3 * d + 2 * dv)
    grid = math.ceil(sk / tile_k) * heads * batch
    width = "64" if d <= 64 else "128" if d <= 128 else "256"
    key = f"{backend}.backward.d{width}" if q.dtype != "float32" else "efficient.backward.float32"
    accumulate = float(math.ceil(sq / 128) * 128 * batch * heads * d * 4)
    inputs = sum(t.touched_bytes for t in (q, k, v, out, grad))
    written = float(sum(t.nbytes for t in work.outputs))
    least = float(inputs) + written
    pre = _stream(
        work, f"{backend}_bwd_dot_do_o", float(out.nbytes + grad.nbytes), accumulate, dtype
    )
    main = _kernel(
        work, f"{backend}_bwd_{d}", flops, useful, float(inputs) + accumulate,
        written + accumulate, least, grid, (tile_q, tile_k, d), key, dtype, peak,
    )  # fmt: skip
    if backend != "flash":
        return (pre, main)
    post = _stream(work, "flash_bwd_convert_dq", accumulate, float(q.nbytes), dtype)
    return (pre, main, post)


def _stream(work: Work, name: str, read: float, written: float, dtype: str) -> Kernel:
    """A plain memory-bound helper kernel."""
    constants = work.constants
    floor = constants.get("attention.helper_floor_s", 2.5e-6)
    memory = (read + written) / (work.bandwidth * 0.8)
    duration = floor + memory
    return Kernel(
        name=name, kind="attention", op=work.op.index, duration_s=duration,
        low_s=duration * 0.8, high_s=duration * 1.3, read_bytes=read, written_bytes=written,
        least_bytes=read + written, grid=max(1, int(read / 32768)), block=128,
        waves=max(0.01, read / 32768 / (work.units * 8)),
        limiter="memory" if memory > floor else "latency", dtype=dtype, memory_s=memory,
        origin="calibrated" if constants.calibrated else "estimated",
    )  # fmt: skip
