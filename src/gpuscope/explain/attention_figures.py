"""Figures of `explain attention`: the score matrix in tiles, paths, prefill and decoding."""

from __future__ import annotations

from math import ceil

from gpuscope.cost.attention import tile_shape
from gpuscope.errors import GpuscopeError
from gpuscope.explain.attention_case import Attention
from gpuscope.explain.limits import limiter
from gpuscope.explain.neighbours import octaves
from gpuscope.explain.numbers import percent
from gpuscope.explain.types import (
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
    Words,
)

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
        Words("The score matrix in tiles", "分块后的分数矩阵"),
        Axis(Words(f"keys, {k} a column", f"键，每列 {k} 个")),
        Axis(Words(f"queries, {q} a row", f"查询，每行 {q} 个")),
        tuple(values),
        classes=(Words("computed", "计算"),
                 Words("on the diagonal, partly masked", "对角线，部分屏蔽"),
                 Words("skipped", "跳过")),
        roles=("tensor", "tail", "idle"),
        note=Words(
            f"A block owns a row and walks along it, keeping running sums of the softmax on chip;"
            f" {percent(done)} of the tiles are computed.",
            f"每个线程块负责一行并沿行推进，softmax 的累计量留在片上；"
            f"共计算 {percent(done)} 的分块。",
        ),
    )  # fmt: skip


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
        rows.append((
            name, float(len(other.every_kernel)), other.moved_bytes, scores, time, time / least,
        ))  # fmt: skip
        if name in (mine, "math"):
            rest = max(other.moved_bytes - scores, 0.0)
            bars.append(
                Bar(name, (
                    Part(Words("Q, K, V, output and others", "Q、K、V、输出等"), rest, "memory"),
                    Part(Words("scores", "分数矩阵"), scores, "waste"),
                ))
            )  # fmt: skip
    table = Table(
        Words("The ways to compute it", "可用的实现"),
        (
            Column(Words("path", "实现")), Column(Words("kernels", "内核数"), "count"),
            Column(Words("device memory traffic", "显存访问"), "bytes"),
            Column(Words("of it scores", "其中分数矩阵"), "bytes"),
            Column(Words("time", "时间"), "s"),
            Column(Words("time, now = 1", "时间，当前 = 1"), "ratio"),
        ),
        tuple(rows), tuple(marked),
        Words(
            "math writes and reads the scores (queries x keys for each head) several times, in"
            " float32 for half-precision inputs; fused kernels never write them.",
            "math 要多次读写分数矩阵（每个头为 查询 x 键），半精度输入也用 float32；"
            "融合内核从不写出它。",
        ),
    )  # fmt: skip
    bars_ = Bars(Words("Bytes that cross device memory", "显存访问量"), "bytes", tuple(bars))
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
        Words("Arithmetic intensity over the context", "计算强度随上下文长度变化"),
        Axis(Words("keys of a sequence", "每序列的键数"), log=True),
        Axis(Words("intensity", "计算强度"), "flop/byte", log=True),
        (
            Series(Words("prefill: as many queries", "预填充：查询数相同"), tuple(whole_at),
                   tuple(c.flops / c.moved_bytes for c in whole), role="tensor"),
            Series(Words("decoding: one query", "解码：一个查询"), tuple(one_at),
                   tuple(c.flops / c.moved_bytes for c in one), role="memory"),
        ),
        (Mark(Words("ridge: below it memory is the limit", "屋脊点：低于它受显存限制"), y=ridge),),
        Words(
            "Prefill uses each key once for every query; decoding reads the whole cache for one"
            " query, whatever the length.",
            "预填充中每个键被所有查询使用；解码时为一个查询读遍整个缓存，与长度无关。",
        ),
    )  # fmt: skip
    times = Lines(
        Words("Time over the context", "时间随上下文长度变化"),
        Axis(Words("keys of a sequence", "每序列的键数"), log=True),
        Axis(Words("time", "时间"), "s", log=True),
        (
            Series(Words("prefill", "预填充"), tuple(whole_at),
                   tuple(c.duration_s for c in whole), role="tensor"),
            Series(Words("decoding, a step", "解码一步"), tuple(one_at),
                   tuple(c.duration_s for c in one), role="memory"),
            Series(Words("decoding: K and V once at full bandwidth", "解码：满带宽读一遍 K、V"),
                   tuple(one_at), tuple(_cache_s(c) for c in one), role="reference"),
        ),
        _now(case),
    )  # fmt: skip
    return intensity, times


def _now(case: Attention) -> tuple[Mark, ...]:
    if case.backward or case.seq not in (1, case.kv_seq):
        return ()
    return (Mark(Words("now", "当前"), float(case.kv_seq), case.duration_s, "good"),)


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
            kv_heads=kv_heads, seq=max(case.seq, case.kv_seq), kv_seq=max(case.seq, case.kv_seq),
            backward=False, backend="auto", causal=True,
        )  # fmt: skip
        step = prompt.other(seq=1, causal=False)
        if not _fits(step):
            continue
        if kv_heads == case.kv_heads:
            marked.append(len(rows))
        token = 2 * kv_heads * case.head_dim * case.qkv[1].itemsize
        name = Words("multi-head", "多头（MHA）")
        if kv_heads == 1:
            name = Words("multi-query", "多查询（MQA）")
        elif kv_heads < case.heads:
            name = Words("grouped-query", "分组查询（GQA）")
        rows.append((
            float(kv_heads), name, token, token * step.kv_seq * case.batch, step.duration_s,
            step.flops / step.moved_bytes, prompt.duration_s if _fits(prompt) else None,
        ))  # fmt: skip
    return Table(
        Words("Sharing heads of K and V", "共享 K、V 头"),
        (
            Column(Words("K and V heads", "KV 头数"), "count"), Column(Words("called", "名称")),
            Column(Words("cache of a token, this layer", "每词元缓存（本层）"), "bytes"),
            Column(Words("cache read by a step", "每步读取的缓存"), "bytes"),
            Column(Words("decoding, a step", "解码一步"), "s"),
            Column(Words("its intensity", "其计算强度"), "flop/byte"),
            Column(Words("causal prefill", "因果预填充"), "s"),
        ),
        tuple(rows), tuple(marked) if rows else (),
        Words("The arithmetic stays the same; the cache, and with it a decoding step, shrink.",
              "运算量不变；缓存变小，解码一步也随之变快。"),
    )  # fmt: skip


def _divisors(heads: int) -> list[int]:
    every = [d for d in range(1, heads + 1) if heads % d == 0]
    return every if len(every) <= 8 else [d for d in every if d in every[:4] or d in every[-4:]]


def explorer(case: Attention) -> Explorer:
    """Sliders for the phase, the heads of K and V, the batch and the context."""
    longest = max(case.seq, case.kv_seq)
    lengths = octaves(longest, 128, max(_LONGEST, longest), 1)
    batches = tuple(sorted({1, 4, 16, 64, case.batch}))
    shared = tuple(sorted({1, case.heads, case.kv_heads, max(case.heads // 4, 1)}
                          & set(_divisors(case.heads)) | {case.kv_heads}))  # fmt: skip
    points = [
        _point(case, phase, kv_heads, batch, length)
        for phase in ("prefill", "decode") for kv_heads in shared for batch in batches
        for length in lengths
    ]  # fmt: skip
    times, speeds, intensities, limits = zip(*points, strict=True)
    return Explorer(
        Words("Move the sizes", "拖动尺寸试试"),
        (
            Slider("phase", Words("phase", "阶段"), ("prefill", "decode"),
                   start=1 if case.decode else 0),
            _slider("kv_heads", Words("K and V heads", "KV 头数"), shared, case.kv_heads),
            _slider("batch", Words("sequences", "序列数"), batches, case.batch),
            _slider("length", Words("context", "上下文长度"), lengths, longest),
        ),
        (
            Output("time", Words("time", "时间"), "s", times, role="tensor"),
            Output("speed", Words("speed", "速度"), "flop/s", speeds, plotted=False),
            Output("intensity", Words("intensity", "计算强度"), "flop/byte", intensities,
                   plotted=False),
            Output("limit", Words("set by", "受限于"), "", limits, plotted=False),
        ),
        x="length", log_x=True, log_y=True,
        reading=Words(
            "{phase}, {batch} sequences of {length}, {kv_heads} heads of K and V: {time}, {speed},"
            " {intensity}; set by {limit}.",
            "{phase}，{batch} 条长 {length} 的序列，{kv_heads} 个 KV 头：{time}，{speed}，"
            "{intensity}；受限于{limit}。",
        ),
        note=Words("Nothing is shown where the tensors do not fit in memory. Prefill is causal.",
                   "放不进显存的组合不显示。预填充为因果注意力。"),
    )  # fmt: skip


_Point = tuple[float | None, float | None, float | None, Words | None]


def _point(case: Attention, phase: str, kv_heads: int, batch: int, length: int) -> _Point:
    decode = phase == "decode"
    one = case.other(
        seq=1 if decode else length, kv_seq=length, kv_heads=kv_heads, batch=batch,
        causal=not decode, backward=False, backend="auto",
    )  # fmt: skip
    if not _fits(one) or (not one.fused and score_matrix_bytes(one) > 8e9):
        return None, None, None, None
    time = one.duration_s
    return (
        time, one.flops / time, one.flops / one.moved_bytes,
        limiter(one.main.limiter, case.on.device),
    )  # fmt: skip


def _slider(key: str, label: Words, stops: tuple[int, ...], now: int) -> Slider:
    return Slider(key, label, tuple(float(s) for s in stops), start=stops.index(now))
