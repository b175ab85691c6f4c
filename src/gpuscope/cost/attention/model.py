"""Attention: one fused kernel forward, a few backward, a split kernel for decoding.

FlashAttention (Dao 2022, 2023) keeps scores on chip: the grid is query blocks x heads x batch,
each block walks over the keys (`attention_tiles`). Traffic is Q, K, V and the output once per head,
K and V re-read by each query block from L2. With one query (decoding) it is bound by reading K and
V once; splitting along the keys (flash-decoding) fills the machine (`attention_decode`).

A kernel's time is `start + tiles * tile_s + blocks * block_s` on the busiest multiprocessor
(`unit_load`), or its memory traffic where that takes longer. The constants are fitted by
benchmarks/fit/attention.py; `block_s` is kept as an efficiency of the peak rate
(`attention_rates`), so that it carries to other devices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpuscope.cost.attention.choice import implementation
from gpuscope.cost.attention.decode import decode_kernels
from gpuscope.cost.attention.helpers import efficient_helpers, stream, tiny
from gpuscope.cost.attention.rates import (
    Rates,
    built_width,
    core_share,
    filled_share,
    product_peak,
    rates_of,
)
from gpuscope.cost.attention.tiles import (
    FEW_CORES,
    attention_flops,
    dims,
    pairs,
    queries_and_keys,
    seen,
    tile_shape,
    unit_load,
)
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel, Limiter
from gpuscope.document.text import Text

_CORE_TILE = 512
"""Rows of queries and of keys in a step of a large core (MaxText, configs/base.yml: sa_block_q,
sa_block_kv and those of the backward pass)."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """One main kernel, forward or backward.

    Attributes:
        useful: FLOPs.
        read, written, least: bytes; of them those that any kernel would move.
    """

    work: Work
    backend: str
    backward: bool
    useful: float
    read: float
    written: float
    least: float


def _main_kernel(run: _Pass) -> Kernel:
    work, backend = run.work, run.backend
    q, _ = queries_and_keys(work)
    d = q.shape[-1]
    width = built_width(d, backend)
    rates, tile = _rates(run, d), _tile(run, d)
    peak, dtype = product_peak(work, q.dtype)
    own, walked, total, tiles = _load(work, tile)
    step_flops = (10.0 if run.backward else 4.0) * tile[0] * tile[1] * width
    block_s = step_flops / (peak / work.units * rates.efficiency)
    block_s += rates.score_s * tile[0] * tile[1]
    compute = own * rates.tile_s + walked * block_s
    memory = (run.read + run.written) / (
        work.bandwidth * 0.85 * work.constants.value("bandwidth.reach")
    )
    duration = rates.start_s + rates.cold_s + max(compute, memory)
    limiter: Limiter = "memory"
    if compute >= memory:
        limiter = "compute" if dtype == "float32" else "tensor_core"
    if duration < 2 * rates.start_s:
        limiter = "latency"
    return Kernel(
        name=f"{backend}_{'bwd' if run.backward else 'fwd'}_{tile[0]}x{tile[1]}x{width}",
        kind="attention",
        op=work.op.index,
        duration_s=duration,
        low_s=duration / (1 + rates.spread),
        high_s=duration * (1 + rates.spread),
        flops=run.useful,
        read_bytes=run.read,
        written_bytes=run.written,
        least_bytes=run.least,
        grid=min(tiles, work.units) if backend == "cudnn" else tiles,
        block=384 if backend == "cudnn" else 128,
        tile=(tile[0], tile[1], width),
        waves=tiles / work.units,
        limiter=limiter,
        dtype=dtype,
        compute_s=total * block_s / work.units,
        memory_s=memory,
        origin="calibrated" if work.constants.calibrated else "estimated",
        note=Text("head dimension padded") if d != width else "",
    )


def _tile(run: _Pass, head_dim: int) -> tuple[int, int, bool]:
    """`tile_shape`; a large core's is as large as asked for."""
    tile_q, tile_k, by_key = tile_shape(run.backend, head_dim, run.backward)
    if run.work.units <= FEW_CORES:
        asked = run.work.op.args.get("core_rows")
        tile_q = tile_k = asked if isinstance(asked, int) else _CORE_TILE
    return tile_q, tile_k, by_key


def _rates(run: _Pass, head_dim: int) -> Rates:
    """Of the kernel on this device; systolic arrays are filled and fed otherwise."""
    work = run.work
    direction = "backward" if run.backward else "forward"
    rates = rates_of(work, run.backend, direction, head_dim, _drops(work))
    if work.units <= FEW_CORES:
        # The next tile's operands come while this one is worked on (Pallas pipelines its grid).
        rates = replace(rates, tile_s=0.0)
    if work.device.warp_size is None:
        filled = min(rates.efficiency, filled_share(work, head_dim))
        rates = replace(rates, efficiency=filled, score_s=rates.score_s * core_share(work))
    return rates


def _load(work: Work, tile: tuple[int, int, bool]) -> tuple[float, float, float, int]:
    """`unit_load`, and the tiles of the grid; sequences in a row are rows of their own."""
    q, k = queries_and_keys(work)
    batch, heads, rows, _ = dims(q)
    causal, sequences, window, ahead = seen(work)
    tile_q, tile_k, by_key = tile
    heads_in_all, sq, sk = batch * heads * sequences, rows / sequences, k.shape[-2] / sequences
    own, walked, total = unit_load(
        heads_in_all, sq, sk, causal, tile_q, tile_k, work.units, by_key=by_key,
        window=window, ahead=ahead / sequences,
    )  # fmt: skip
    if work.device.warp_size is None and work.units > FEW_CORES:
        walked = total / work.units  # a compiler spreads a head over arrays; no block owns one
    each = math.ceil(sk / tile_k) if by_key else math.ceil(sq / tile_q)
    return own, walked, total, math.ceil(heads_in_all * each)


def _drops(work: Work) -> bool:
    """Whether scores are dropped at random."""
    return float(work.op.args.get("dropout_p") or 0.0) > 0  # type: ignore[arg-type]


@kernel_model("gpuscope::attention")
def attention(work: Work) -> tuple[Kernel, ...]:
    """Forward pass; a split kernel and its combine step when there is one query a head."""
    q, k, v = work.op.inputs[:3]
    _, _, sq, d = dims(q)
    backend = implementation(work, d)
    useful = attention_flops(q, k, v, *seen(work))
    read = float(sum(t.touched_bytes for t in work.inputs))
    if sq == 1 and backend != "efficient":
        return decode_kernels(work, backend, useful, read, float(work.op.outputs[0].nbytes))
    # The log-sum-exp is written only where a backward pass will want it.
    written = float(sum(t.nbytes for t in work.op.outputs))
    main = _main_kernel(_Pass(work, backend, False, useful, read, written, read + written))
    if backend != "cudnn":
        return (main,)
    extras = (tiny(work, "unpack_philox"),) if _drops(work) else ()
    return (*extras, tiny(work, "memset"), main)


@kernel_model("gpuscope::attention_backward")
def attention_backward(work: Work) -> tuple[Kernel, ...]:
    """Row sums of dO * O, the main kernel (five products), dQ's conversion, shared heads' sums."""
    grad, q, k, v, out = work.op.inputs[:5]
    batch, heads, sq, d = dims(q)
    backend = implementation(work, d)
    useful = 2.0 * (pairs(sq, k.shape[-2], *seen(work)) * batch * heads)
    useful *= 3 * d + 2 * v.shape[-1]
    accumulate = float(q.numel * 4)
    inputs = float(sum(t.touched_bytes for t in (q, k, v, grad)))
    written = float(sum(t.nbytes for t in work.outputs))
    moved = inputs + accumulate, written + accumulate, inputs + float(out.nbytes) + written
    main = _main_kernel(_Pass(work, backend, True, useful, *moved))
    if backend == "efficient":
        return (*efficient_helpers(work), main)
    dot = stream(work, "attention_dot_do_o", float(out.nbytes + grad.nbytes), accumulate, "dot")
    convert = stream(work, "attention_convert_dq", accumulate, float(q.nbytes), "convert")
    if backend == "flash":
        return (dot, main, convert)
    shared = heads // max(dims(k)[1], 1)
    sums = tuple(
        stream(work, "attention_reduce_heads", float(t.nbytes * shared), float(t.nbytes), "reduce")
        for t in (k, v)
        if shared > 1
    )
    return (tiny(work, "memset"), dot, main, convert, *sums)
