"""Curves of a collective: time and bandwidth over size, time over ranks, the way at each size."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from gpuscope.cost.collective.ways import OPERATIONS
from gpuscope.document.blocks import (
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
)
from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.collective_case import CollectiveCase

SMALLEST, LARGEST = 2**10, 2**33
_PER_OCTAVE = 2
_MOST_RANKS = 64

ALGORITHMS = {
    "ring": Text("ring"),
    "tree": Text("tree"),
    "chain": Text("chain"),
    "pairs": Text("pairs"),
    "pat": verbatim("PAT"),
    "nvls": Text("NVLS (the switch adds)"),
    "nvls_tree": Text("NVLS tree"),
    "collnet": Text("CollNet (the fabric adds)"),
    "torus": Text("torus"),
    "mesh": Text("mesh of neighbours"),
    "hierarchical": Text("hierarchical"),
}
"""Names of the algorithms."""

_SIZE = Axis(Text("size of the message"), "bytes", log=True)
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


def reigns(case: CollectiveCase) -> tuple[Reign, ...]:
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


def even_bytes(case: CollectiveCase) -> float:
    """The size at which the way that is taken spends as long waiting as moving."""
    return case.taken.latency_s * case.size_bytes / case.taken.moving_s


def _sizes() -> tuple[float, ...]:
    octaves = LARGEST.bit_length() - SMALLEST.bit_length()
    return tuple(SMALLEST * 2 ** (n / _PER_OCTAVE) for n in range(octaves * _PER_OCTAVE + 1))


def time_over_size(case: CollectiveCase) -> Lines:
    """Time of the fastest way, and of each protocol with its better algorithm."""
    sizes = _sizes()
    protocols = list(dict.fromkeys(w.protocol.name for w in case.ways()))
    best: dict[str, list[float]] = {name: [] for name in protocols}
    for nbytes in sizes:
        for name in protocols:
            best[name].append(min(w.time_s for w in case.ways(nbytes) if w.protocol.name == name))
    series = tuple(
        Series(verbatim(name), sizes, tuple(best[name]), role=_ROLES.get(name, "other"))
        for name in protocols
    )
    here = float(case.size_bytes)
    marks = [Mark(Text("this message"), here, case.taken.time_s, "good")]
    even = even_bytes(case)
    if SMALLEST <= even <= LARGEST:
        said = verbatim("alpha = beta")
        marks.append(Mark(said, x=even))
    marks += [
        Mark(verbatim(f"{a.protocol} → {b.protocol}"), x=a.high_bytes)
        for a, b in pairwise(reigns(case))
        if a.protocol != b.protocol
    ]
    return Lines(
        Text("Time over size, by protocol"),
        _SIZE,
        Axis(Text("time"), "s", log=True),
        series,
        tuple(marks),
        Text(
            "Flat on the left: latency, whatever the size. Straight on the right: bytes over rate. "
            "NCCL takes the lowest, or nearly so. At alpha = beta the way that is taken waits as "
            "long as it moves."
        ),
    )


def bandwidth_over_size(case: CollectiveCase) -> Lines:
    """Bus bandwidth over size against what the narrowest way allows."""
    sizes = _sizes()
    rates = tuple(case.bus_bytes_per_s(nbytes, case.time_s(nbytes)) for nbytes in sizes)
    here = case.bus_bytes_per_s(case.size_bytes, case.taken.time_s)
    roof = case.roof_bytes_per_s
    return Lines(
        Text("Bus bandwidth over size"),
        _SIZE,
        Axis(Text("bus bandwidth"), "bytes/s"),
        (Series(Text("reached"), sizes, rates, role="communication"),),
        (
            Mark(Text("this message"), float(case.size_bytes), here, "good"),
            Mark(Text("what the links allow"), y=roof),
        ),
        Text("Small messages leave the links empty: join them into buckets."),
    )


def rank_counts(case: CollectiveCase) -> tuple[int, ...]:
    """Powers of two up to 64, or to four times the ranks of a larger cluster, and the ranks."""
    most = max(_MOST_RANKS, 4 * case.ranks)
    found = {case.ranks}
    count = 2
    while count <= most:
        found.add(count)
        count *= 2
    return tuple(n for n in sorted(found) if case.at(ranks=n) is not None)


def time_over_ranks(case: CollectiveCase) -> Lines | None:
    """Time of this message over the number of ranks; None where only one number can be."""
    counts = rank_counts(case)
    if len(counts) < 2:
        return None
    cases = [found for n in counts if (found := case.at(ranks=n)) is not None]
    inside = max((c.ranks for c in cases if c.group.domains == 1), default=0)
    here = float(case.ranks)
    marks = [Mark(Text("these ranks"), here, case.taken.time_s, "good")]
    if inside and any(c.group.domains > 1 for c in cases):
        marks.append(Mark(Text("largest scale-up domain"), x=float(inside)))
    ranks = tuple(float(c.ranks) for c in cases)
    return Lines(
        Text("The same message among more ranks"),
        Axis(Text("ranks"), "count", log=True),
        Axis(Text("time"), "s"),
        (
            Series(
                Text("whole time"),
                ranks,
                tuple(c.taken.time_s for c in cases),
                role="communication",
            ),
            Series(
                Text("latency part"), ranks, tuple(c.taken.latency_s for c in cases), role="launch"
            ),
        ),
        tuple(marks),
        Text("Right of the domain's edge the fabric carries what the links carried.")
        if len(marks) > 1
        else None,
    )


def ways_by_size(case: CollectiveCase) -> Table:
    """Which way is taken at which size."""
    found = reigns(case)
    rows = []
    for reign in found:
        low, high = case.ways(reign.low_bytes)[0], case.ways(reign.high_bytes)
        last = next(
            w for w in high if (w.algorithm, w.protocol.name) == (reign.algorithm, reign.protocol)
        )
        rows.append(
            (
                reign.low_bytes,
                reign.high_bytes,
                ALGORITHMS[reign.algorithm],
                reign.protocol,
                low.time_s,
                last.time_s,
            )
        )
    here = [n for n, r in enumerate(found) if r.low_bytes <= case.size_bytes <= r.high_bytes]
    return Table(
        Text("What is taken at which size"),
        (
            Column(Text("from"), "bytes"),
            Column(Text("to"), "bytes"),
            Column(Text("algorithm")),
            Column(Text("protocol")),
            Column(Text("time at first"), "s"),
            Column(Text("time at last"), "s"),
        ),
        tuple(rows),
        tuple(here[:1]),
    )


def explorer(case: CollectiveCase) -> Explorer:
    """Size, ranks and operation as sliders; time and bus bandwidth follow."""
    sizes = tuple(sorted({float(2**n) for n in range(10, 34)} | {float(case.size_bytes)}))
    counts = rank_counts(case)
    times: list[float | None] = []
    rates: list[float | None] = []
    taken: list[str | Text | None] = []
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
                taken.append(Text("{name}, {protocol}", name=name, protocol=protocol))
    return Explorer(
        Text("Size, ranks and operation"),
        (
            Slider("op", Text("operation"), OPERATIONS, start=OPERATIONS.index(case.operation)),
            Slider(
                "ranks",
                Text("ranks"),
                tuple(float(n) for n in counts),
                "count",
                counts.index(case.ranks),
            ),
            Slider("size", Text("size"), sizes, "bytes", sizes.index(float(case.size_bytes))),
        ),
        (
            Output("time", Text("time"), "s", tuple(times), role="communication"),
            Output(
                "rate",
                Text("bus bandwidth"),
                "bytes/s",
                tuple(rates),
                plotted=False,
                role="reference",
            ),
            Output("way", Text("taken"), "", tuple(taken), plotted=False),
        ),
        "size",
        log_x=True,
        log_y=True,
        reading=Text("{op} of {size} among {ranks} ranks: {time} ({way}), bus bandwidth {rate}."),
    )
