"""Which pairs of queries and keys attention computes, and which tiles of them its blocks walk.

FLOPs are 4 * B * H * Sq * Sk * D forward (two products) and 10 backward (five products, scores
recomputed); a causal mask halves both (minus the diagonal), and a window leaves of each query's
keys the last few. Tiles without a pair are not walked (FlashAttention, flash_fwd_kernel.h:
`n_block_min`, `n_block_max`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gpuscope.cost.registry import Work
from gpuscope.program.types import TensorSpec

FEW_CORES = 8
"""Devices with so few compute units have large cores (TPU, Trainium), no multiprocessors."""


class Seen(NamedTuple):
    """What a query sees of the keys in its row.

    Attributes:
        causal: none after its own.
        sequences: that lie in each row one after the other, each of which sees only itself
            (`gpuscope.program.capture.nested`).
        window: keys at most, its own the last; 0: all.
        ahead: keys before the first query's own: the causal mask's corner is the last query and
            key.
    """

    causal: bool
    sequences: float = 1.0
    window: int = 0
    ahead: int = 0


def seen(work: Work) -> Seen:
    """What the operator's mask leaves."""
    args = work.op.args
    causal, sequences, window = bool(args.get("causal")), args.get("sequences"), args.get("window")
    q, k = queries_and_keys(work)
    return Seen(
        causal,
        float(sequences) if isinstance(sequences, (int, float)) else 1.0,
        window if isinstance(window, int) else 0,
        max(0, k.shape[-2] - q.shape[-2]) if causal and args.get("to_end") else 0,
    )


def queries_and_keys(work: Work) -> tuple[TensorSpec, TensorSpec]:
    """Two of the operator's inputs, forward or backward."""
    inputs = work.op.inputs
    return (inputs[1], inputs[2]) if work.op.name.endswith("backward") else (inputs[0], inputs[1])


def dims(q: TensorSpec) -> tuple[int, int, int, int]:
    """Batch, heads, rows and width of a head."""
    shape = (1,) * (4 - len(q.shape)) + tuple(q.shape)
    return math.prod(shape[:-3]), shape[-3], shape[-2], shape[-1]


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
    batch, heads, sq, d = dims(q)
    sk, dv = k.shape[-2], v.shape[-1]
    return 2.0 * batch * heads * pairs(sq, sk, causal, sequences, window, ahead) * (d + dv)


def pairs(
    sq: int, sk: int, causal: bool, sequences: float = 1.0, window: int = 0, ahead: int = 0
) -> float:
    """Query-key pairs that are computed in a row."""
    if ahead:  # the last rows of a square
        whole, before = (pairs(n, n, causal, sequences, window) for n in (sk, ahead))
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
