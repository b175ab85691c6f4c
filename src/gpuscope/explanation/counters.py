"""`counters`: what Nsight Compute counted of kernels, beside what is predicted of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from gpuscope.analysis.symbols import short_symbol
from gpuscope.cost.types import Kernel
from gpuscope.document.blocks import Cell, Column, Explanation, Section, Table
from gpuscope.document.quantities import Count, Number, Seconds
from gpuscope.document.text import Text, verbatim
from gpuscope.errors import InvalidValueError
from gpuscope.explanation.nsight_compute.beside import beside, kernels_of
from gpuscope.explanation.nsight_compute.report import read_report
from gpuscope.explanation.nsight_compute.types import Counted
from gpuscope.explanation.registry import topic
from gpuscope.run import Run

_MOST = 16
_SOURCE = "NVIDIA, Nsight Compute: Kernel Profiling Guide (metrics)"


@dataclass(frozen=True, slots=True)
class _Sort:
    """Launches of one kernel with one grid, and their counterparts."""

    symbol: str
    launches: tuple[Counted, ...]
    kernels: tuple[Kernel, ...]

    @property
    def time_s(self) -> float | None:
        return _sum(launch.time_s for launch in self.launches)

    def mean(self, figure: str) -> float | None:
        """A figure of the launches, on average over those that have it."""
        found = [value for each in self.launches if (value := getattr(each, figure)) is not None]
        return fmean(found) if found else None


@topic("counters")
def counters(path: str | Path, *, kernel: str | None = None, run: Run | None = None) -> Explanation:
    """Explain a report of Nsight Compute.

    Args:
        path: what `ncu --csv` printed, or an `.ncu-rep`.
        kernel: only kernels whose name holds this.
        run: a predicted run, or a recording, of the same program: its kernels are matched with the
            launches in their order.

    Raises:
        InputFileError: no report, or an `.ncu-rep` that cannot be read here.
        InvalidValueError: no kernel holds the name.
    """
    launches = read_report(path)
    partners = beside(launches, kernels_of(run)) if run is not None else [None] * len(launches)
    pairs = [
        pair
        for pair in zip(launches, partners, strict=True)
        if kernel is None or kernel.lower() in pair[0].symbol.lower()
    ]
    if not pairs:
        names = list(dict.fromkeys(short_symbol(launch.symbol) for launch in launches))
        raise InvalidValueError(
            Text("No kernel of {path} is named '{name}'.", path=path, name=str(kernel)[:80]),
            Text("There are: {names}.", names="; ".join(names[:6])),
            Text("Type a part of a name that is there."),
        )
    sorts = _sorts(pairs)
    sections = [_counted_section(sorts)]
    summary = [_summary(pairs)]
    if run is not None:
        matched = [pair for pair in pairs if pair[1] is not None]
        summary.append(_beside_words(run, matched, len(pairs)))
        if matched:
            sections.append(_beside_section(run, sorts))
    return Explanation(
        "counters",
        verbatim(Path(path).name),
        tuple(summary),
        tuple(sections),
        (f"gpuscope explain kernel {_quoted(sorts[0].symbol)}",),
        (_SOURCE,),
        (
            Text(
                "Nsight Compute runs each kernel by itself, with emptied caches and the base clock "
                "unless --cache-control none --clock-control none say otherwise: its times are "
                "longer than those within a program."
            ),
        ),
    )


def _quoted(symbol: str) -> str:
    return "'" + short_symbol(symbol).replace("'", "") + "'"


def _sorts(pairs: Sequence[tuple[Counted, Kernel | None]]) -> list[_Sort]:
    """Launches by kernel and grid, the longest first."""
    groups: dict[object, list[tuple[Counted, Kernel | None]]] = {}
    for pair in pairs:
        groups.setdefault((pair[0].symbol, pair[0].grid), []).append(pair)
    found = [
        _Sort(
            group[0][0].symbol,
            tuple(launch for launch, _ in group),
            tuple(kernel for _, kernel in group if kernel is not None),
        )
        for group in groups.values()
    ]
    return sorted(found, key=lambda sort: -(sort.time_s or 0.0))


def _summary(pairs: Sequence[tuple[Counted, Kernel | None]]) -> Text:
    time_s = _sum(launch.time_s for launch, _ in pairs)
    if time_s is None:
        given = Count(len(pairs))
        return Text("{launches} launches were counted, without their times.", launches=given)
    return Text(
        "{launches} launches were counted; they take {time}.",
        launches=Count(len(pairs)),
        time=Seconds(time_s),
    )


def _beside_words(run: Run, matched: Sequence[tuple[Counted, Kernel | None]], given: int) -> Text:
    ratios = [
        launch.time_s / kernel.duration_s
        for launch, kernel in matched
        if launch.time_s and kernel is not None and kernel.duration_s > 0
    ]
    if not ratios:
        return Text("None of them has a counterpart in {run}.", run=run.name)
    return Text(
        "{matched} of {given} have a counterpart in {run}; counted time is {ratio} times its, in "
        "the median.",
        matched=Count(len(ratios)),
        given=Count(given),
        run=run.name,
        ratio=Number(median(ratios), ".2f"),
    )


def _counted_section(sorts: Sequence[_Sort]) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (
            short_symbol(sort.symbol),
            len(sort.launches),
            _dim(sort.launches[0].grid),
            _dim(sort.launches[0].block),
            sort.time_s,
            _sum(launch.dram_bytes for launch in sort.launches),
            *(sort.mean(figure) for figure in _MEANS),
        )
        for sort in sorts[:_MOST]
    ]
    table = Table(
        Text("Kernels, the longest first"),
        (
            Column(Text("kernel")),
            Column(Text("launches"), "count"),
            Column(Text("grid")),
            Column(Text("block")),
            Column(Text("in all"), "s"),
            Column(Text("device memory traffic"), "bytes"),
            Column(Text("memory bandwidth used"), "share"),
            Column(Text("SMs used"), "share"),
            Column(Text("tensor cores used"), "share"),
            Column(Text("found in L2"), "share"),
            Column(Text("occupancy"), "share"),
            Column(Text("waves"), "count"),
            Column(Text("registers"), "count"),
        ),
        tuple(rows),
    )
    return Section(Text("What was counted"), (table,))


_MEANS = ("dram", "sm", "tensor", "l2_hits", "occupancy", "waves", "registers")


def _beside_section(run: Run, sorts: Sequence[_Sort]) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for sort in [sort for sort in sorts if sort.kernels][:_MOST]:
        theirs = sort.kernels
        rows.append(
            (
                short_symbol(sort.symbol),
                theirs[0].name,
                sort.mean("time_s"),
                fmean(kernel.duration_s for kernel in theirs),
                sort.mean("dram_bytes"),
                _positive(fmean(kernel.read_bytes + kernel.written_bytes for kernel in theirs)),
                sort.mean("waves"),
                _positive(fmean(kernel.waves for kernel in theirs)),
                sort.mean("occupancy"),
                theirs[0].occupancy,
            )
        )
    table = Table(
        Text("A launch, on average"),
        (
            Column(Text("kernel")),
            Column(Text("its counterpart")),
            Column(Text("time, counted"), "s"),
            Column(Text("time, in the run"), "s"),
            Column(Text("traffic, counted"), "bytes"),
            Column(Text("traffic, in the run"), "bytes"),
            Column(Text("waves, counted"), "count"),
            Column(Text("waves, in the run"), "count"),
            Column(Text("occupancy, counted"), "share"),
            Column(Text("occupancy, in the run"), "share"),
        ),
        tuple(rows),
    )
    return Section(Text("Beside {run}", run=run.name), (table,))


def _positive(value: float) -> float | None:
    return value if value > 0 else None


def _dim(dim: tuple[int, int, int] | None) -> str:
    return "" if dim is None else "×".join(map(str, dim))


def _sum(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) if found else None
