"""What one iteration costs, as a function of a batch's exact sums.

    device = dense(tokens) + head(sequences) + prefill attention(sum of query-key pairs)
             + near attention(the same, of no more than a reach of keys a query)
             + decode attention(sequences, sum of keys) + communication(tokens)

Of ranks that attend to requests of their own it is the slowest one's, and what they do together:
routed experts and the way there and back, by the tokens of all (`together_s`).

`dense` and `communication` are priced on a grid of token counts by the kernel models and
interpolated; attention likewise on grids of pairs, and of sequences and keys. A rank's kernels
follow each other as those of a replayed graph do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from gpuscope.capturing import kept_figures
from gpuscope.document.plain import plain
from gpuscope.hardware import Calibration, Cluster
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.serving.prices import Priced, pairs
from gpuscope.serving.quantization import Quantization

TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Grid of token counts; beyond it time grows as between the last two."""

JOINT = (*TOKENS, 32768, 65536, 131072)
"""The same, of tokens of several ranks."""

LENGTHS = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Grid of prompts whose attention is priced."""

KEYS = (128, 256, 512, 1024, 2048, 4096, 8192, 32768, 131072)
SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Grid of decoding: keys of a sequence, sequences."""


Sums = tuple[int, float, int, int, float]
"""Of a batch: prompt tokens, their query-key pairs, prompts that end in it, sequences that decode,
keys that these read."""


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


NOTHING = Curve((0.0, 1.0), (0.0, 0.0))


def rising(x: Sequence[float], y: Sequence[float]) -> Curve:
    """A curve that never falls: more work never takes less time."""
    kept: list[float] = []
    for value in y:
        kept.append(max(value, kept[-1] if kept else 0.0))
    return Curve(tuple(float(v) for v in x), tuple(kept))


@dataclass(frozen=True, slots=True)
class Stages:
    """Layers on devices of their own.

    Attributes:
        layers: of each stage.
        hop_s: from one to the next, by tokens.
    """

    layers: tuple[int, ...]
    hop_s: Curve


@dataclass(frozen=True, slots=True)
class IterationCost:
    """Seconds of one iteration of one replica.

    Attributes:
        dense_s: by tokens. prefill_s: by query-key pairs (0 for none). head_s: by sampled rows.
        link_s: by tokens. decode: curves by keys of a sequence, one for each of `SEQUENCES`.
        near_s: by pairs of which a query has no more than `reach`: windows, chosen keys; by tokens
            where that is 1, as linear attention goes. reach: 0: there is no such block.
        launches: kernels of an iteration with prompts, where each is launched by the host.
        mixtures: blocks with experts.
        joint_s: by tokens of all ranks that attend apart; `ranks` of them, 1 for none.
        graph_sizes: decode batches that have a graph: a batch is rounded up.
        stages: that the layers are cut into; None: they are not.
        scale: on all device time, fitted for an engine.
        spread: relative 80 % half-width of device time.
    """

    dense_s: Curve
    head_s: Curve
    link_s: Curve
    prefill_s: Curve
    decode: tuple[Curve, ...]
    near_s: Curve = NOTHING
    reach: int = 0
    launches: int = 0
    mixtures: int = 0
    joint_s: Curve = NOTHING
    ranks: int = 1
    stages: Stages | None = None
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
        return self.scale * self._own_s(tokens, (prefill, pairs, sampled, sequences, keys))

    def together_s(self, batches: Sequence[Sums]) -> float:
        """Device time of an iteration of all ranks, those without work included.

        Where all fit a captured size, each runs as the largest does (vllm/v1/worker/dp_utils.py);
        a rank without work runs one token.
        """
        tokens = [max(prefill + sequences, 1) for prefill, _, _, sequences, _ in batches]
        most = max(tokens)
        if self.graph_sizes and most <= self.graph_sizes[-1]:
            tokens = [self.rounded(most)] * len(tokens)
        slowest = max(map(self._own_s, tokens, batches))
        return self.scale * (slowest + self.joint_s(sum(tokens)))

    def _own_s(self, tokens: int, batch: Sums) -> float:
        """Of a batch that runs as so many tokens, not scaled."""
        prefill, pairs, sampled, sequences, keys = batch
        by_tokens, by_rows = self._known
        rows = sampled + sequences or 1
        if tokens not in by_tokens:
            by_tokens[tokens] = self.dense_s(tokens) + self.link_s(tokens)
        if rows not in by_rows:
            by_rows[rows] = self.head_s(rows)
        seconds = by_tokens[tokens] + by_rows[rows]
        if prefill:
            seconds += self.prefill_s(pairs)
            if self.reach:
                seconds += self.near_s(min(pairs, float(prefill * self.reach)))
        return seconds + self.decode_attention_s(sequences, keys)


@lru_cache(maxsize=64)
def iteration_cost(
    size: TransformerSize,
    kept: Quantization,
    cluster: Cluster,
    tp: int = 1,
    ep: int = 1,
    cache_bytes: float = 2.0,
    calibration: Calibration | None = None,
    dp: int = 1,
    pp: int = 1,
) -> IterationCost:
    """Price a model's iterations on `tp` devices of a cluster, in `dp` groups that attend apart.

    With `pp` stages on so many devices each, it is the time of all stages one after the other.

    What a command keeps is taken, where the device's constants are the catalogue's.
    """

    if tp == pp == 1 < cluster.n_devices:  # no link is used
        alone = Cluster.of(cluster.device)
        return iteration_cost(size, kept, alone, tp, ep, cache_bytes, calibration, dp)
    if pp > 1:  # the same layers, and hops between them
        whole = iteration_cost(size, kept, cluster, tp, ep, cache_bytes, calibration, dp)
        made = Priced(size, kept, cluster, tp, ep, cache_bytes, calibration, dp)
        return replace(whole, stages=_stages_of(made, pp))

    def make() -> IterationCost:
        return _cost_of(Priced(size, kept, cluster, tp, ep, cache_bytes, calibration, dp))

    if calibration is not None:
        return make()
    split = {"tp": tp, "ep": ep, "dp": dp, "cache_bytes": cache_bytes}
    about = {"weights": plain(kept), "on": plain(cluster), **split}
    return kept_figures(IterationCost, size, WorkloadOptions(task="decode"), cluster, about, make)


def stage_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage: what does not divide goes to those before the last, from its end on
    (vllm/distributed/utils.py, get_pp_indices; SGLang has the same)."""
    made = [layers // stages] * stages
    for at in range(2, layers % stages + 2):
        made[-at] += 1
    return tuple(made)


def _stages_of(made: Priced, pp: int) -> Stages:
    hops = rising(TOKENS, [made.hop_s(tokens) for tokens in TOKENS])
    return Stages(stage_layers(made.size.layers, pp), hops)


def _cost_of(made: Priced) -> IterationCost:
    near = (
        rising([pairs(n, made.reach) for n in LENGTHS], [made.near_s(n) for n in LENGTHS])
        if made.reach
        else NOTHING
    )
    return IterationCost(
        dense_s=rising(TOKENS, [made.blocks_s(tokens) for tokens in TOKENS]),
        head_s=rising(TOKENS[:12], [made.head_s(rows) for rows in TOKENS[:12]]),
        link_s=rising(TOKENS, [made.link_s(tokens) for tokens in TOKENS]),
        prefill_s=rising(
            [n * (n + 1) / 2 for n in LENGTHS], [made.prefill_s(length) for length in LENGTHS]
        ),
        near_s=near,
        reach=made.reach,
        launches=made.launches(),
        mixtures=made.mixtures,
        joint_s=rising(JOINT, [made.joint_s(n) for n in JOINT]) if made.dp > 1 else NOTHING,
        ranks=made.dp,
        decode=tuple(rising(KEYS, [made.decode_s(n, keys) for keys in KEYS]) for n in SEQUENCES),
        spread=made.spread,
    )
