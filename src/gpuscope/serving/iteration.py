"""What one iteration costs, as a function of a batch's exact sums.

    device = dense(tokens) + head(sequences) + prefill attention(sum of query-key pairs)
             + decode attention(sequences, sum of keys) + communication(tokens)

`dense` and `communication` are priced on a grid of token counts by the kernel models and
interpolated; attention likewise on grids of pairs, and of sequences and keys. A rank's kernels
follow each other as those of a replayed graph do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, inf, sqrt

from gpuscope.cost.engine import cost_program
from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.hardware import Calibration, Cluster, calibration_for
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.types import Op, ProcessGroup, Program
from gpuscope.serving.operators import Block, dense, experts_blocks
from gpuscope.serving.quantization import Quantization

TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Grid of token counts; beyond it time grows as between the last two."""

LENGTHS = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Grid of prompts whose attention is priced."""

KEYS = (128, 512, 2048, 8192, 32768, 131072)
SUMS = (
    "_c10d_functional::all_reduce",
    "symm_mem::one_shot_all_reduce",
    "symm_mem::two_shot_all_reduce_",
)
"""Ways to sum over ranks; engines have kernels of their own for short ones, as PyTorch does."""

SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Grid of decoding: keys of a sequence, sequences."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Straight pieces between points; through nothing below the first."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __call__(self, x: float) -> float:
        """The value at x; the last piece goes on for ever."""
        at = min(max(bisect_right(self.x, x) - 1, 0), len(self.x) - 2)
        low, high = self.x[at], self.x[at + 1]
        return self.y[at] + (self.y[at + 1] - self.y[at]) * (x - low) / (high - low)


def rising(x: Sequence[float], y: Sequence[float]) -> Curve:
    """A curve that never falls: more work never takes less time."""
    kept: list[float] = []
    for value in y:
        kept.append(max(value, kept[-1] if kept else 0.0))
    return Curve(tuple(float(v) for v in x), tuple(kept))


@dataclass(frozen=True, slots=True)
class IterationCost:
    """Seconds of one iteration of one replica.

    Attributes:
        dense_s: by tokens. prefill_s: by query-key pairs (0 for none). head_s: by sampled rows.
        link_s: by tokens. decode: curves by keys of a sequence, one for each of `SEQUENCES`.
        graph_sizes: decode batches that have a graph: a batch is rounded up.
        scale: on all device time, fitted for an engine.
        spread: relative 80 % half-width of device time.
    """

    dense_s: Curve
    head_s: Curve
    link_s: Curve
    prefill_s: Curve
    decode: tuple[Curve, ...]
    graph_sizes: tuple[int, ...] = ()
    scale: float = 1.0
    spread: float = 0.15
    _known: tuple[dict[int, float], dict[int, float]] = field(
        init=False, repr=False, compare=False, default_factory=lambda: ({}, {})
    )  # of tokens, of sampled rows: the same few come again and again

    def decode_attention_s(self, sequences: int, keys: float) -> float:
        """Reading that many keys in all, for so many sequences."""
        if not sequences:
            return 0.0
        each = keys / sequences
        at = min(max(bisect_right(SEQUENCES, sequences) - 1, 0), len(SEQUENCES) - 2)
        low, high = SEQUENCES[at], SEQUENCES[at + 1]
        piece = min(max(bisect_right(KEYS, each) - 1, 0), len(KEYS) - 2)  # the same of both curves
        least, most = KEYS[piece], KEYS[piece + 1]
        share = (each - least) / (most - least)
        y, z = self.decode[at].y, self.decode[at + 1].y
        a = y[piece] + (y[piece + 1] - y[piece]) * share
        b = z[piece] + (z[piece + 1] - z[piece]) * share
        seconds = a + (b - a) * (sequences - low) / (high - low)
        return seconds if seconds > 0.0 else 0.0

    def rounded(self, sequences: int) -> int:
        """The captured size that a decode batch runs as."""
        at = bisect_right(self.graph_sizes, sequences - 1)
        return self.graph_sizes[at] if at < len(self.graph_sizes) else sequences

    def device_s(
        self, prefill: int, pairs: float, sampled: int, sequences: int, keys: float
    ) -> float:
        """Device time of an iteration.

        Args:
            prefill: prompt tokens worked on.
            pairs: of their queries and keys.
            sampled: prompts that end in it.
            sequences: that decode.
            keys: that these read, in all.
        """
        tokens = prefill + sequences if prefill else self.rounded(sequences)
        if not tokens:
            return 0.0
        by_tokens, by_rows = self._known
        rows = sampled + sequences or 1
        if tokens not in by_tokens:
            by_tokens[tokens] = self.dense_s(tokens) + self.link_s(tokens)
        if rows not in by_rows:
            by_rows[rows] = self.head_s(rows)
        seconds = by_tokens[tokens] + by_rows[rows]
        if prefill:
            seconds += self.prefill_s(pairs)
        return self.scale * (seconds + self.decode_attention_s(sequences, keys))


@lru_cache(maxsize=64)
def iteration_cost(
    size: TransformerSize,
    kept: Quantization,
    cluster: Cluster,
    tp: int = 1,
    ep: int = 1,
    cache_bytes: float = 2.0,
    calibration: Calibration | None = None,
) -> IterationCost:
    """Price a model's iterations on `tp` devices of a cluster."""
    made = _Priced(size, kept, cluster, tp, ep, cache_bytes, calibration)
    return IterationCost(
        dense_s=rising(TOKENS, [made.blocks_s(tokens) for tokens in TOKENS]),
        head_s=rising(TOKENS[:12], [made.head_s(rows) for rows in TOKENS[:12]]),
        link_s=rising(TOKENS, [made.link_s(tokens) for tokens in TOKENS]),
        prefill_s=rising(
            [n * (n + 1) / 2 for n in LENGTHS], [made.prefill_s(length) for length in LENGTHS]
        ),
        decode=tuple(rising(KEYS, [made.decode_s(n, keys) for keys in KEYS]) for n in SEQUENCES),
        spread=made.spread,
    )


class _Priced:
    """One rank's kernels, through the kernel models."""

    def __init__(
        self,
        size: TransformerSize,
        kept: Quantization,
        cluster: Cluster,
        tp: int,
        ep: int,
        cache_bytes: float,
        calibration: Calibration | None,
    ) -> None:
        self.size, self.tp, self.cluster, self.cache_bytes = size, tp, cluster, cache_bytes
        self.device = cluster.device
        self.calibration = calibration or calibration_for(self.device)
        self.constants = Constants(self.calibration)
        self.block = Block(size, kept, tp, ep)
        self.layers = list(experts_blocks(size))
        self.spread = 0.0

    def blocks_s(self, tokens: int) -> float:
        """All blocks, attention and communication left out."""
        kinds = {experts: self.layers.count(experts) for experts in set(self.layers)}
        return sum(
            count * self._run(self.block.layer(tokens, experts)) for experts, count in kinds.items()
        )

    def head_s(self, rows: int) -> float:
        """Output layer and choice of tokens."""
        return self._run(self.block.head(rows))

    def _run(self, ops: tuple[Op, ...]) -> float:
        costed = cost_program(
            Program("iteration", ops), self.device, self.calibration, cluster=self.cluster
        )
        spread = sqrt(costed.device_spread**2 + costed.common_spread**2)
        self.spread = max(self.spread, spread)
        kernels = [kernel for op in costed.ops for kernel in op.kernels]
        return sum(kernel.duration_s for kernel in kernels) + len(kernels) * costed.kernel_gap_s

    def link_s(self, tokens: int) -> float:
        """Two sums over ranks a block, by the quickest way that engines have."""
        if self.tp == 1:
            return 0.0
        x = dense(tokens, self.size.hidden)
        group = ProcessGroup("tp", "tp", tuple(range(self.tp)))
        quickest = inf
        for name in SUMS:
            if name.startswith("symm") and self.cluster.scale_up_domain_devices < self.tp:
                continue
            work = Work(
                Op(0, name, inputs=(x,), outputs=(x,), group=0),
                self.device,
                self.constants,
                cluster=self.cluster,
                group=group,
                rank=0,
            )
            model = model_for(name)
            if model is not None:
                quickest = min(quickest, sum(kernel.duration_s for kernel in model(work)))
        return 2.0 * self.size.layers * quickest

    def prefill_s(self, length: int) -> float:
        """Attention of a whole prompt, all blocks."""
        size = self.size
        heads = ceil(size.heads / self.tp)
        if size.latent is not None:
            wide, kv = size.latent.plain_head + size.latent.rope_head, heads
        else:
            wide, kv = size.head, ceil(size.kv_heads / self.tp)
        q, k = dense(1, heads, length, wide), dense(1, kv, length, wide)
        op = Op(0, "gpuscope::attention", inputs=(q, k, k), outputs=(q,), args={"causal": True})
        return size.layers * self._kernels_s(op)

    def decode_s(self, sequences: int, keys: int) -> float:
        """Attention of a decode step, all blocks."""
        size = self.size
        if size.latent is not None:
            return size.layers * self._latent_s(sequences * keys)
        heads, kv = ceil(size.heads / self.tp), ceil(size.kv_heads / self.tp)
        dtype = "float8_e4m3fn" if self.cache_bytes == 1 else "bfloat16"
        q = dense(sequences, heads, 1, size.head)
        k = dense(sequences, kv, keys, size.head, dtype=dtype)
        op = Op(0, "gpuscope::attention", inputs=(q, k, k), outputs=(q,))
        return size.layers * self._kernels_s(op)

    def _latent_s(self, keys: int) -> float:
        """One latent a token, read once for all heads (FlashMLA): the slower of bytes and FLOPs."""
        latent = self.size.latent
        assert latent is not None
        wide = latent.key_rank + latent.rope_head
        get = self.constants.value
        share = get("attention.decode.d128.bandwidth_efficiency") * get("bandwidth.reach")
        memory = keys * wide * self.cache_bytes / (self.device.memory_bandwidth_bytes_per_s * share)
        flops = 2.0 * keys * ceil(self.size.heads / self.tp) * (wide + latent.key_rank)
        compute = flops / (0.6 * self.device.peak_flops_per_s("bfloat16"))
        return max(memory, compute) + get("attention.decode.start_s") + get("attention.combine_s")

    def _kernels_s(self, op: Op) -> float:
        model = model_for(op.name)
        assert model is not None
        return sum(kernel.duration_s for kernel in model(Work(op, self.device, self.constants)))
