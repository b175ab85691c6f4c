"""Figures of `explain attention`: the score matrix in tiles, paths, prefill and decoding."""

from __future__ import annotations

from math import ceil

from gpuscope.cost.attention.tiles import tile_shape
from gpuscope.document.blocks import (
    Axis,
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Explorer,
    HeatMap,
    Lines,
    Mark,
    Output,
    Part,
    Series,
    Slider,
    Table,
)
from gpuscope.document.quantities import Percent
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError
from gpuscope.explanation.attention_case import Attention
from gpuscope.explanation.limits import kernel_limiter
from gpuscope.explanation.neighbours import octaves

_MOST_TILES = 40
"""Tiles of the score matrix drawn in a row or column; more are drawn in groups."""

_LONGEST = 131_072
"""Longest context of the curves."""


def implementation(case: Attention) -> str:
    """Whose kernel it is: "cudnn", "flash", "efficient"; "math" where none is fused."""
    return case.main.name.split("_")[0] if case.fused else "math"


def tile_of(case: Attention) -> tuple[int, int]:
    """Query rows and keys of a block's step, forward."""
    rows, keys, _ = tile_shape(implementation(case), case.head_dim, False)
    return rows, keys


def score_map(case: Attention) -> HeatMap:
    """Which tiles of the score matrix are computed under the mask."""
    tile_q, tile_k = tile_of(case)
    rows, columns = ceil(case.seq / tile_q), ceil(case.kv_seq / tile_k)
    group = max(1, ceil(max(rows, columns) / _MOST_TILES))
    q, k = tile_q * group, tile_k * group
    values = []
    for top in range(0, case.seq, q):
        bottom = min(top + q, case.seq) - 1
        row = []
        for left in range(0, case.kv_seq, k):
            right = min(left + k, case.kv_seq) - 1
            row.append(0.0 if right <= top else 2.0 if left > bottom else 1.0)
        values.append(tuple(row) if case.causal else (0.0,) * len(row))
    done = sum(cell < 2 for row in values for cell in row) / sum(len(row) for row in values)
    return HeatMap(
        Text("The score matrix in tiles"),
        Axis(Text("keys, {k} a column", k=k)),
        Axis(Text("queries, {q} a row", q=q)),
        tuple(values),
        classes=(Text("computed"), Text("on the diagonal, partly masked"), Text("skipped")),
        roles=("tensor", "tail", "idle"),
        note=Text(
            "A block owns a row and walks along it, keeping running sums of the softmax on chip; "
            "{done} of the tiles are computed.",
            done=Percent(done),
        ),
    )


def paths(case: Attention) -> tuple[Table, Bars]:
    """Every implementation that takes these sizes: time, and what crosses memory."""
    found: list[tuple[str, Attention]] = []
    for name in ("cudnn", "flash", "efficient", "math"):
        try:
            found.append((name, case.other(backend=name)))
        except GpuscopeError:
            continue
    mine = implementation(case)
    rows: list[tuple[Cell, ...]] = []
    bars = []
    marked = []
    least = case.duration_s
    for name, other in found:
        if name == mine:
            marked.append(len(rows))
        scores = 0.0
        if name == "math":
            scores = _score_bytes(other)
        time = other.duration_s
        rows.append(
            (name, float(len(other.every_kernel)), other.moved_bytes, scores, time, time / least)
        )
        if name in (mine, "math"):
            rest = max(other.moved_bytes - scores, 0.0)
            bars.append(
                Bar(
                    name,
                    (
                        Part(Text("Q, K, V, output and others"), rest, "memory"),
                        Part(Text("scores"), scores, "waste"),
                    ),
                )
            )
    table = Table(
        Text("The ways to compute it"),
        (
            Column(Text("path")),
            Column(Text("kernels"), "count"),
            Column(Text("device memory traffic"), "bytes"),
            Column(Text("of it scores"), "bytes"),
            Column(Text("time"), "s"),
            Column(Text("time, now = 1"), "ratio"),
        ),
        tuple(rows),
        tuple(marked),
        Text(
            "math writes and reads the scores (queries x keys for each head) several times, in "
            "float32 for half-precision inputs; fused kernels never write them."
        ),
    )
    bars_ = Bars(Text("Bytes that cross device memory"), "bytes", tuple(bars))
    return table, bars_


def score_matrix_bytes(case: Attention) -> float:
    """One score matrix of all heads, in the dtype that the math path computes in."""
    size = 4.0 if case.dtype.stored != "float64" else 8.0
    return case.batch * case.heads * case.seq * case.kv_seq * size


def _score_bytes(case: Attention) -> float:
    """Bytes of scores that cross device memory: kernels that handle tensors of their size."""
    pairs = case.batch * case.heads * case.seq * case.kv_seq
    total = 0.0
    for op, kernels in zip(case.ops, case.kernels, strict=True):
        specs = [*op.inputs, *op.outputs]
        own = sum(spec.nbytes for spec in specs)
        scores = sum(spec.nbytes for spec in specs if spec.numel == pairs)
        if own:
            total += scores / own * sum(k.read_bytes + k.written_bytes for k in kernels)
    return total


def _fits(case: Attention) -> bool:
    own = sum(spec.nbytes for spec in (*case.qkv, case.qkv[0]))
    return own <= case.on.device.memory_usable_bytes


def prefill_and_decode(case: Attention) -> tuple[Block, ...]:
    """Intensity and time over the context, for whole prompts and for one query."""
    longest = max(case.kv_seq, case.seq)
    lengths = octaves(longest, 128, max(_LONGEST, longest), 1)
    whole, one, whole_at, one_at = [], [], [], []
    for length in lengths:
        prompt = case.other(seq=length, kv_seq=length, backward=False, backend="auto")
        step = prompt.other(seq=1, causal=False)
        if _fits(prompt) and length > 1:
            whole.append(prompt)
            whole_at.append(float(length))
        if _fits(step):
            one.append(step)
            one_at.append(float(length))
    ridge = _ridge(case)
    intensity = Lines(
        Text("Arithmetic intensity over the context"),
        Axis(Text("keys of a sequence"), log=True),
        Axis(Text("intensity"), "flop/byte", log=True),
        (
            Series(
                Text("prefill: as many queries"),
                tuple(whole_at),
                tuple(c.flops / c.moved_bytes for c in whole),
                role="tensor",
            ),
            Series(
                Text("decoding: one query"),
                tuple(one_at),
                tuple(c.flops / c.moved_bytes for c in one),
                role="memory",
            ),
        ),
        (Mark(Text("ridge: below it memory is the limit"), y=ridge),),
        Text(
            "Prefill uses each key once for every query; decoding reads the whole cache for one "
            "query, whatever the length."
        ),
    )
    times = Lines(
        Text("Time over the context"),
        Axis(Text("keys of a sequence"), log=True),
        Axis(Text("time"), "s", log=True),
        (
            Series(
                Text("prefill"), tuple(whole_at), tuple(c.duration_s for c in whole), role="tensor"
            ),
            Series(
                Text("decoding, a step"),
                tuple(one_at),
                tuple(c.duration_s for c in one),
                role="memory",
            ),
            Series(
                Text("decoding: K and V once at full bandwidth"),
                tuple(one_at),
                tuple(_cache_s(c) for c in one),
                role="reference",
            ),
        ),
        _now(case),
    )
    return intensity, times


def _now(case: Attention) -> tuple[Mark, ...]:
    if case.backward or case.seq not in (1, case.kv_seq):
        return ()
    return (Mark(Text("now"), float(case.kv_seq), case.duration_s, "good"),)


def _cache_s(case: Attention) -> float:
    return (case.qkv[1].nbytes + case.qkv[2].nbytes) / case.on.device.memory_bandwidth_bytes_per_s


def _ridge(case: Attention) -> float:
    device = case.on.device
    return device.peak_flops_per_s(case.dtype.name) / device.memory_bandwidth_bytes_per_s


def sharing(case: Attention) -> Table:
    """What sharing heads of K and V changes: the cache, prefill, decoding."""
    rows: list[tuple[Cell, ...]] = []
    marked = []
    for kv_heads in _divisors(case.heads):
        prompt = case.other(
            kv_heads=kv_heads,
            seq=max(case.seq, case.kv_seq),
            kv_seq=max(case.seq, case.kv_seq),
            backward=False,
            backend="auto",
            causal=True,
        )
        step = prompt.other(seq=1, causal=False)
        if not _fits(step):
            continue
        if kv_heads == case.kv_heads:
            marked.append(len(rows))
        token = 2 * kv_heads * case.head_dim * case.qkv[1].itemsize
        name = Text("multi-head")
        if kv_heads == 1:
            name = Text("multi-query")
        elif kv_heads < case.heads:
            name = Text("grouped-query")
        rows.append(
            (
                float(kv_heads),
                name,
                token,
                token * step.kv_seq * case.batch,
                step.duration_s,
                step.flops / step.moved_bytes,
                prompt.duration_s if _fits(prompt) else None,
            )
        )
    return Table(
        Text("Sharing heads of K and V"),
        (
            Column(Text("K and V heads"), "count"),
            Column(Text("called")),
            Column(Text("cache of a token, this layer"), "bytes"),
            Column(Text("cache read by a step"), "bytes"),
            Column(Text("decoding, a step"), "s"),
            Column(Text("its intensity"), "flop/byte"),
            Column(Text("causal prefill"), "s"),
        ),
        tuple(rows),
        tuple(marked) if rows else (),
        Text("The arithmetic stays the same; the cache, and with it a decoding step, shrink."),
    )


def _divisors(heads: int) -> list[int]:
    every = [d for d in range(1, heads + 1) if heads % d == 0]
    return every if len(every) <= 8 else [d for d in every if d in every[:4] or d in every[-4:]]


def explorer(case: Attention) -> Explorer:
    """Sliders for the phase, the heads of K and V, the batch and the context."""
    longest = max(case.seq, case.kv_seq)
    lengths = octaves(longest, 128, max(_LONGEST, longest), 1)
    batches = tuple(sorted({1, 4, 16, 64, case.batch}))
    shared = tuple(
        sorted(
            {1, case.heads, case.kv_heads, max(case.heads // 4, 1)} & set(_divisors(case.heads))
            | {case.kv_heads}
        )
    )
    points = [
        _point(case, phase, kv_heads, batch, length)
        for phase in ("prefill", "decode")
        for kv_heads in shared
        for batch in batches
        for length in lengths
    ]
    times, speeds, intensities, limits = zip(*points, strict=True)
    return Explorer(
        Text("Move the sizes"),
        (
            Slider("phase", Text("phase"), ("prefill", "decode"), start=1 if case.decode else 0),
            _slider("kv_heads", Text("K and V heads"), shared, case.kv_heads),
            _slider("batch", Text("sequences"), batches, case.batch),
            _slider("length", Text("context"), lengths, longest),
        ),
        (
            Output("time", Text("time"), "s", times, role="tensor"),
            Output("speed", Text("speed"), "flop/s", speeds, plotted=False),
            Output("intensity", Text("intensity"), "flop/byte", intensities, plotted=False),
            Output("limit", Text("set by"), "", limits, plotted=False),
        ),
        x="length",
        log_x=True,
        log_y=True,
        reading=Text(
            "{phase}, {batch} sequences of {length}, {kv_heads} heads of K and V: {time}, {speed}, "
            "{intensity}; set by {limit}."
        ),
        note=Text("Nothing is shown where the tensors do not fit in memory. Prefill is causal."),
    )


_Point = tuple[float | None, float | None, float | None, Text | None]


def _point(case: Attention, phase: str, kv_heads: int, batch: int, length: int) -> _Point:
    decode = phase == "decode"
    one = case.other(
        seq=1 if decode else length,
        kv_seq=length,
        kv_heads=kv_heads,
        batch=batch,
        causal=not decode,
        backward=False,
        backend="auto",
    )
    if not _fits(one) or (not one.fused and score_matrix_bytes(one) > 8e9):
        return None, None, None, None
    time = one.duration_s
    return (
        time,
        one.flops / time,
        one.flops / one.moved_bytes,
        kernel_limiter(one.main, case.on.device),
    )


def _slider(key: str, label: Text, stops: tuple[int, ...], now: int) -> Slider:
    return Slider(key, label, tuple(float(s) for s in stops), start=stops.index(now))
