"""Amounts of one launch: what lanes ask for, what is moved, what the least would be."""

from __future__ import annotations

from pathlib import Path

from gpuscope.document.blocks import Bar, Bars, Cell, Column, Fact, Facts, Part, Table
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.kernel_lens.machine import Machine
from gpuscope.kernel_lens.types import Access, Launch

_KINDS = {"load": Text("load"), "store": Text("store"), "atomic": Text("atomic")}
_SPACES = {"global": Text("global"), "shared": Text("shared"), "constant": Text("constant")}


def moved_bytes(launch: Launch, machine: Machine) -> int:
    """Bytes of all sectors of all requests to global memory."""
    return sum(access.sectors for access in launch.accesses) * machine.sector_bytes


def ideal_bytes(launch: Launch, machine: Machine) -> int:
    """Bytes of the fewest sectors that hold what each request asks for."""
    return sum(access.ideal_sectors for access in launch.accesses) * machine.sector_bytes


def least_bytes(launch: Launch, machine: Machine) -> int:
    """The arrays' distinct bytes in whole sectors: each read once and written once, packed."""
    piece = machine.sector_bytes
    return sum(-(-array.once_bytes // piece) * piece for array in launch.arrays)


def facts(launch: Launch, machine: Machine) -> Facts:
    """The launch in figures."""
    rows = [_shape(launch, machine)]
    if launch.scalars:
        said = ", ".join(f"{name} = {value}" for name, value in launch.scalars)
        rows.append(Fact(Text("numbers passed"), said))
    rows += _global_facts([a for a in launch.accesses if a.space == "global"])
    rows += _shared_facts([a for a in launch.accesses if a.space == "shared"])
    compilers = Text("the compiler's choice")
    rows.append(
        Fact(
            Text("shared memory of a block"),
            launch.shared_bytes,
            "bytes",
            note=compilers if launch.shared_bytes is None else None,
        )
    )
    rows.append(_active(launch))
    return Facts(tuple(rows))


def _global_facts(accesses: list[Access]) -> list[Fact]:
    requests = sum(a.requests for a in accesses)
    if not requests:
        return []
    sectors = sum(a.sectors for a in accesses)
    ideal = sum(a.ideal_sectors for a in accesses)
    best = Number(ideal / requests)
    return [
        Fact(Text("requests to global memory"), requests, "count"),
        Fact(
            Text("sectors a request"),
            sectors / requests,
            "",
            "computed",
            note=Text("{best} would hold the data", best=best),
        ),
        Fact(Text("useful share of the bytes moved"), ideal / sectors, "share", "computed"),
    ]


def _shared_facts(accesses: list[Access]) -> list[Fact]:
    requests = sum(a.requests for a in accesses)
    if not requests:
        return []
    passes = sum(a.passes for a in accesses)
    best = Number(sum(a.ideal_passes for a in accesses) / requests)
    return [
        Fact(Text("requests to shared memory"), requests, "count"),
        Fact(
            Text("passes a request"),
            passes / requests,
            "",
            "computed",
            note=Text("{best} without bank conflicts", best=best),
        ),
    ]


def overview(launches: list[Launch], names: list[Text], machine: Machine) -> Table:
    """All launches beside each other; columns that none of them fills are left out."""
    columns = [
        Column(Text("kernel")),
        Column(Text("threads"), "count"),
        Column(Text("sectors a request")),
        Column(Text("moved"), "bytes"),
        Column(Text("useful"), "share"),
        Column(Text("passes a request")),
        Column(Text("active lanes"), "share"),
    ]
    rows = [
        (name, *_overview_row(launch, machine))
        for launch, name in zip(launches, names, strict=True)
    ]
    kept = [n for n in range(len(columns)) if any(row[n] not in (None, _NONE) for row in rows)]
    return Table(
        title=Text("Launches in order"),
        columns=tuple(columns[n] for n in kept),
        rows=tuple(tuple(row[n] for n in kept) for row in rows),
        note=Text("Sectors of global memory, passes over shared memory."),
    )


_NONE = "–"
"""There was no such request."""


def _overview_row(launch: Launch, machine: Machine) -> tuple[Cell, ...]:
    """A launch in one row: threads, sectors, bytes, useful share, passes, active lanes."""
    on_global = [a for a in launch.accesses if a.space == "global"]
    shared = [a for a in launch.accesses if a.space == "shared"]
    sectors, requests = sum(a.sectors for a in on_global), sum(a.requests for a in on_global)
    passes, on_chip = sum(a.passes for a in shared), sum(a.requests for a in shared)
    return (
        launch.threads,
        sectors / requests if requests else _NONE,
        sectors * machine.sector_bytes,
        ideal_bytes(launch, machine) / (sectors * machine.sector_bytes) if sectors else None,
        passes / on_chip if on_chip else _NONE,
        launch.active_share,
    )


def _shape(launch: Launch, machine: Machine) -> Fact:
    warps = -(-launch.threads_per_block // machine.warp_size)
    grid = " x ".join(str(n) for n in _short(launch.grid))
    block = " x ".join(str(n) for n in _short(launch.block))
    return Fact(
        Text("launch"),
        Text("{grid} blocks of {block} threads", grid=grid, block=block),
        note=Text("{warps} warps a block", warps=warps),
    )


def _short(extent: tuple[int, int, int]) -> tuple[int, ...]:
    """An extent without its trailing ones."""
    return extent[:1] if extent[1:] == (1, 1) else extent[:2] if extent[2] == 1 else extent


def _active(launch: Launch) -> Fact:
    note = Text("mean over the lines executed")
    if launch.framework == "triton":
        note = Text("Triton masks lanes instead of branching")
    origin = "" if launch.active_share is None else "computed"
    return Fact(Text("active lanes"), launch.active_share, "share", origin, note=note)


def accesses_table(launch: Launch, machine: Machine) -> Table:
    """Every access, in the order of the source."""
    one_file = len({access.file for access in launch.accesses}) == 1
    rows, marked = [], []
    for number, access in enumerate(launch.accesses):
        line = f"{access.line}" if one_file else f"{Path(access.file).name}:{access.line}"
        rows.append((line, *_row(access, machine)))
        if access.wasteful:
            marked.append(number)
    return Table(
        title=Text("Accesses by line"),
        columns=(
            Column(Text("line")),
            Column(Text("array")),
            Column(Text("what")),
            Column(Text("memory")),
            Column(Text("requests"), "count"),
            Column(Text("lanes")),
            Column(Text("per request")),
            Column(Text("best")),
            Column(Text("moved"), "bytes"),
        ),
        rows=tuple(rows),
        marked=tuple(marked),
        note=Text(
            "Per request: sectors of global memory, passes over shared or constant memory; best: "
            "as few as the data allow. Lanes: active in a request, on average."
        ),
    )


def _row(access: Access, machine: Machine) -> tuple[Cell, ...]:
    on_global = access.space == "global"
    each = access.sectors_per_request if on_global else access.passes_per_request
    best = (access.ideal_sectors if on_global else access.ideal_passes) / access.requests
    moved = access.sectors * machine.sector_bytes if on_global else None
    return (
        access.array,
        _KINDS[access.kind],
        _SPACES[access.space],
        access.requests,
        access.lanes / access.requests,
        each,
        best,
        moved if on_global else access.asked_bytes,
    )


def line_bars(launch: Launch, machine: Machine) -> Bars | None:
    """Bytes of global memory by line, needed and beyond; None where nothing is moved beyond."""
    piece = machine.sector_bytes
    found = [a for a in launch.accesses if a.space == "global"]
    if all(a.sectors == a.ideal_sectors for a in found):
        return None
    found.sort(key=lambda a: -a.sectors)
    return Bars(
        title=Text("Bytes moved by line"),
        unit="bytes",
        bars=tuple(
            Bar(
                Text(
                    "line {line}, {kind} {array}", line=a.line, kind=_KINDS[a.kind], array=a.array
                ),
                (
                    Part(Text("needed"), float(a.ideal_sectors * piece), "memory"),
                    Part(
                        Text("moved for nothing"),
                        float((a.sectors - a.ideal_sectors) * piece),
                        "waste",
                    ),
                ),
            )
            for a in found[:12]
        ),
    )


def level_bars(launch: Launch, machine: Machine) -> Bars | None:
    """From what lanes ask for down to the least: what caches could save; None if nothing."""
    piece = machine.sector_bytes
    least = least_bytes(launch, machine)
    if moved_bytes(launch, machine) <= least * 1.05:
        return None
    rows = (
        (Text("lanes ask for"), sum(a.asked_bytes for a in launch.arrays), "compute", None),
        (
            Text("requests move"),
            moved_bytes(launch, machine),
            "shared",
            Text("sectors of all requests, no cache"),
        ),
        (
            Text("each block once"),
            sum(a.block_sectors for a in launch.arrays) * piece,
            "l2",
            Text("if L1 kept all that a block touched"),
        ),
        (
            Text("the launch once"),
            sum(a.launch_sectors for a in launch.arrays) * piece,
            "memory",
            Text("if L2 kept all that any block touched"),
        ),
    )
    return Bars(
        title=Text("Reuse: the same traffic at each level"),
        unit="bytes",
        bars=tuple(
            Bar(label, (Part(label, float(value), role),), note)  # type: ignore[arg-type]
            for label, value, role, note in rows
        ),
        limit=float(least),
        limit_label=Text("least: each byte once"),
    )


def arrays_table(launch: Launch, machine: Machine) -> Table | None:
    """What the launch does to each array."""
    if not launch.arrays:
        return None
    piece = machine.sector_bytes
    return Table(
        title=Text("Arrays in global memory"),
        columns=(
            Column(Text("array")),
            Column(Text("type")),
            Column(Text("shape")),
            Column(Text("touched"), "bytes"),
            Column(Text("asked for"), "bytes"),
            Column(Text("each byte"), "ratio"),
            Column(Text("moved"), "bytes"),
            Column(Text("each block once"), "bytes"),
            Column(Text("launch once"), "bytes"),
        ),
        rows=tuple(
            (
                a.name,
                a.dtype,
                " x ".join(str(n) for n in a.shape),
                a.touched_bytes,
                a.asked_bytes,
                a.asked_bytes / a.touched_bytes,
                a.sectors * piece,
                a.block_sectors * piece,
                a.launch_sectors * piece,
            )
            for a in launch.arrays
        ),
    )


def divergence_table(launch: Launch) -> Table | None:
    """Lines that warps executed with only some of their lanes."""
    found = [line for line in launch.activity if line.partial]
    if not found:
        return None
    found.sort(key=lambda line: line.lanes / line.present)
    return Table(
        title=Text("Lines that only part of a warp executes"),
        columns=(
            Column(Text("line")),
            Column(Text("visits by warps"), "count"),
            Column(Text("with fewer lanes"), "count"),
            Column(Text("active lanes"), "share"),
        ),
        rows=tuple(
            (str(line.line), line.visits, line.partial, line.lanes / line.present)
            for line in found[:12]
        ),
        note=Text(
            "A warp takes both ways of a branch one after the other; lanes on the other way wait."
        ),
    )
