"""Curves of a collective: time and bandwidth over size, time over ranks, the way at each size."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from gpuscope.cost.collective_ways import OPERATIONS
from gpuscope.explain.collective_case import Case
from gpuscope.explain.types import (
    Axis,
    Column,
    Explorer,
    Lines,
    Mark,
    Output,
    Role,
    Series,
    Slider,
    Table,
    Words,
)

SMALLEST, LARGEST = 2**10, 2**33
_PER_OCTAVE = 2
_MOST_RANKS = 64

ALGORITHMS = {
    "ring": Words("ring", "环"), "tree": Words("tree", "树"), "chain": Words("chain", "链"),
    "pairs": Words("pairs", "两两直发"), "pat": Words("PAT", "PAT"),
    "nvls": Words("NVLS (the switch adds)", "NVLS（交换机求和）"),
    "nvls_tree": Words("NVLS tree", "NVLS 树"),
    "collnet": Words("CollNet (the fabric adds)", "CollNet（网络求和）"),
    "torus": Words("torus", "环面"), "hierarchical": Words("hierarchical", "分层"),
}  # fmt: skip
"""Names of the algorithms."""

_SIZE = Axis(Words("size of the message", "消息大小"), "bytes", log=True)
_ROLES: dict[str, Role] = {"LL": "launch", "LL128": "shared", "Simple": "communication"}


@dataclass(frozen=True, slots=True)
class Reign:
    """A range of sizes over which one way is the fastest.

    Attributes:
        low_bytes, high_bytes: from and to; the outermost ends are those of the search.
        algorithm, protocol: the way.
    """

    low_bytes: float
    high_bytes: float
    algorithm: str
    protocol: str


def reigns(case: Case) -> tuple[Reign, ...]:
    """Which way is the fastest at which size, from 1 KiB to 8 GiB, by rising size."""

    def way_at(nbytes: float) -> tuple[str, str]:
        way = case.ways(nbytes)[0]
        return way.algorithm, way.protocol.name

    ends: list[float] = [SMALLEST]
    names = [way_at(SMALLEST)]
    for low, high in pairwise(_sizes()):
        if way_at(low) == way_at(high):
            continue
        before, after = low, high
        for _ in range(40):
            middle = (before * after) ** 0.5
            before, after = (middle, after) if way_at(middle) == way_at(low) else (before, middle)
        ends.append(after)
        names.append(way_at(high))
    ends.append(LARGEST)
    return tuple(
        Reign(low, high, *name) for (low, high), name in zip(pairwise(ends), names, strict=True)
    )


def even_bytes(case: Case) -> float:
    """The size at which the way that is taken spends as long waiting as moving."""
    return case.taken.latency_s * case.size_bytes / case.taken.moving_s


def _sizes() -> tuple[float, ...]:
    octaves = LARGEST.bit_length() - SMALLEST.bit_length()
    return tuple(SMALLEST * 2 ** (n / _PER_OCTAVE) for n in range(octaves * _PER_OCTAVE + 1))


def time_over_size(case: Case) -> Lines:
    """Time of the fastest way, and of each protocol with its better algorithm."""
    sizes = _sizes()
    protocols = list(dict.fromkeys(w.protocol.name for w in case.ways()))
    best: dict[str, list[float]] = {name: [] for name in protocols}
    for nbytes in sizes:
        for name in protocols:
            best[name].append(
                min(w.time_s for w in case.ways(nbytes) if w.protocol.name == name)
            )  # fmt: skip
    series = tuple(
        Series(Words(name, name), sizes, tuple(best[name]), role=_ROLES.get(name, "other"))
        for name in protocols
    )
    here = float(case.size_bytes)
    marks = [Mark(Words("this message", "本消息"), here, case.taken.time_s, "good")]
    even = even_bytes(case)
    if SMALLEST <= even <= LARGEST:
        said = Words("alpha = beta", "alpha = beta")
        marks.append(Mark(said, x=even))
    marks += [
        Mark(
            Words(f"{a.protocol} → {b.protocol}", f"{a.protocol} → {b.protocol}"),
            x=a.high_bytes,
        )
        for a, b in pairwise(reigns(case)) if a.protocol != b.protocol
    ]  # fmt: skip
    return Lines(
        Words("Time over size, by protocol", "各协议的时间随大小变化"), _SIZE,
        Axis(Words("time", "时间"), "s", log=True), series, tuple(marks),
        Words(
            "Flat on the left: latency, whatever the size. Straight on the right: bytes over rate. "
            "NCCL takes the lowest, or nearly so. At alpha = beta the way that is taken waits as "
            "long as it moves.",
            "左侧平坦：与大小无关的延迟；右侧直线：字节数除以速率。NCCL 取最低的，或接近最低的。"
            "alpha = beta 处，所选方式的延迟与搬运时间相等。",
        ),
    )  # fmt: skip


def bandwidth_over_size(case: Case) -> Lines:
    """Bus bandwidth over size against what the narrowest way allows."""
    sizes = _sizes()
    rates = tuple(case.bus_bytes_per_s(nbytes, case.time_s(nbytes)) for nbytes in sizes)
    here = case.bus_bytes_per_s(case.size_bytes, case.taken.time_s)
    roof = case.roof_bytes_per_s
    return Lines(
        Words("Bus bandwidth over size", "总线带宽随大小变化"), _SIZE,
        Axis(Words("bus bandwidth", "总线带宽"), "bytes/s"),
        (Series(Words("reached", "达到"), sizes, rates, role="communication"),),
        (
            Mark(Words("this message", "本消息"), float(case.size_bytes), here, "good"),
            Mark(Words("what the links allow", "链路允许的上限"), y=roof),
        ),
        Words(
            "Small messages leave the links empty: join them into buckets.",
            "小消息用不满链路：应合并成桶一起发送。",
        ),
    )  # fmt: skip


def rank_counts(case: Case) -> tuple[int, ...]:
    """Powers of two up to 64, or to four times the ranks of a larger cluster, and the ranks."""
    most = max(_MOST_RANKS, 4 * case.ranks)
    found = {case.ranks}
    count = 2
    while count <= most:
        found.add(count)
        count *= 2
    return tuple(n for n in sorted(found) if case.at(ranks=n) is not None)


def time_over_ranks(case: Case) -> Lines | None:
    """Time of this message over the number of ranks; None where only one number can be."""
    counts = rank_counts(case)
    if len(counts) < 2:
        return None
    cases = [found for n in counts if (found := case.at(ranks=n)) is not None]
    inside = max((c.ranks for c in cases if c.group.domains == 1), default=0)
    here = float(case.ranks)
    marks = [Mark(Words("these ranks", "当前 rank 数"), here, case.taken.time_s, "good")]
    if inside and any(c.group.domains > 1 for c in cases):
        marks.append(Mark(Words("largest scale-up domain", "最大的节点内互联域"), x=float(inside)))
    ranks = tuple(float(c.ranks) for c in cases)
    return Lines(
        Words("The same message among more ranks", "同样的消息，更多 rank"),
        Axis(Words("ranks", "rank 数"), "count", log=True),
        Axis(Words("time", "时间"), "s"),
        (
            Series(Words("whole time", "总时间"), ranks, tuple(c.taken.time_s for c in cases),
                   role="communication"),
            Series(Words("latency part", "延迟部分"), ranks,
                   tuple(c.taken.latency_s for c in cases), role="launch"),
        ),
        tuple(marks),
        Words(
            "Right of the domain's edge the fabric carries what the links carried.",
            "超出节点内互联域后，数据要走更慢的节点间网络。",
        ) if len(marks) > 1 else None,
    )  # fmt: skip


def ways_by_size(case: Case) -> Table:
    """Which way is taken at which size."""
    found = reigns(case)
    rows = []
    for reign in found:
        low, high = case.ways(reign.low_bytes)[0], case.ways(reign.high_bytes)
        last = next(
            w for w in high
            if (w.algorithm, w.protocol.name) == (reign.algorithm, reign.protocol)
        )  # fmt: skip
        rows.append(
            (reign.low_bytes, reign.high_bytes, ALGORITHMS[reign.algorithm], reign.protocol,
             low.time_s, last.time_s)
        )  # fmt: skip
    here = [n for n, r in enumerate(found) if r.low_bytes <= case.size_bytes <= r.high_bytes]
    return Table(
        Words("What is taken at which size", "不同大小选用的方式"),
        (
            Column(Words("from", "从"), "bytes"), Column(Words("to", "到"), "bytes"),
            Column(Words("algorithm", "算法")), Column(Words("protocol", "协议")),
            Column(Words("time at first", "起点时间"), "s"),
            Column(Words("time at last", "终点时间"), "s"),
        ),
        tuple(rows), tuple(here[:1]),
    )  # fmt: skip


def explorer(case: Case) -> Explorer:
    """Size, ranks and operation as sliders; time and bus bandwidth follow."""
    sizes = tuple(sorted({float(2**n) for n in range(10, 34)} | {float(case.size_bytes)}))
    counts = rank_counts(case)
    times: list[float | None] = []
    rates: list[float | None] = []
    taken: list[str | Words | None] = []
    for operation in OPERATIONS:
        for ranks in counts:
            other = case.at(operation, ranks)
            for nbytes in sizes:
                if other is None:
                    times, rates, taken = [*times, None], [*rates, None], [*taken, None]
                    continue
                way = other.ways(nbytes)[0]
                times.append(way.time_s)
                rates.append(other.bus_bytes_per_s(nbytes, way.time_s))
                name, protocol = ALGORITHMS[way.algorithm], way.protocol.name
                taken.append(Words(f"{name.en}, {protocol}", f"{name.zh}，{protocol}"))
    return Explorer(
        Words("Size, ranks and operation", "大小、rank 数与操作"),
        (
            Slider("op", Words("operation", "操作"), OPERATIONS,
                   start=OPERATIONS.index(case.operation)),
            Slider("ranks", Words("ranks", "rank 数"), tuple(float(n) for n in counts), "count",
                   counts.index(case.ranks)),
            Slider("size", Words("size", "大小"), sizes, "bytes",
                   sizes.index(float(case.size_bytes))),
        ),
        (
            Output("time", Words("time", "时间"), "s", tuple(times), role="communication"),
            Output("rate", Words("bus bandwidth", "总线带宽"), "bytes/s", tuple(rates),
                   plotted=False, role="reference"),
            Output("way", Words("taken", "所选方式"), "", tuple(taken), plotted=False),
        ),
        "size", log_x=True, log_y=True,
        reading=Words(
            "{op} of {size} among {ranks} ranks: {time} ({way}), bus bandwidth {rate}.",
            "{ranks} 个 rank 间 {size} 的 {op}：{time}（{way}），总线带宽 {rate}。",
        ),
    )  # fmt: skip
