"""Amounts of one launch: what lanes ask for, what is moved, what the least would be."""

from __future__ import annotations

from pathlib import Path

from gpuscope.explain.numbers import three
from gpuscope.explain.types import Bar, Bars, Cell, Column, Fact, Facts, Part, Table, Words
from gpuscope.lens.machine import Machine
from gpuscope.lens.types import Access, Launch

_KINDS = {
    "load": Words("load", "读"),
    "store": Words("store", "写"),
    "atomic": Words("atomic", "原子"),
}
_SPACES = {
    "global": Words("global", "全局"),
    "shared": Words("shared", "共享"),
    "constant": Words("constant", "常量"),
}


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
        rows.append(Fact(Words("numbers passed", "传入的数"), said))
    rows += _global_facts([a for a in launch.accesses if a.space == "global"])
    rows += _shared_facts([a for a in launch.accesses if a.space == "shared"])
    compilers = Words("the compiler's choice", "由编译器决定")
    rows.append(
        Fact(
            Words("shared memory of a block", "每个线程块的共享内存"), launch.shared_bytes, "bytes",
            note=compilers if launch.shared_bytes is None else None,
        )
    )  # fmt: skip
    rows.append(_active(launch))
    return Facts(tuple(rows))


def _global_facts(accesses: list[Access]) -> list[Fact]:
    requests = sum(a.requests for a in accesses)
    if not requests:
        return []
    sectors = sum(a.sectors for a in accesses)
    ideal = sum(a.ideal_sectors for a in accesses)
    best = three(ideal / requests)
    return [
        Fact(Words("requests to global memory", "全局内存请求数"), requests, "count"),
        Fact(
            Words("sectors a request", "每次请求的扇区数"), sectors / requests, "", "computed",
            note=Words(f"{best} would hold the data", f"只需 {best} 个即可容纳数据"),
        ),
        Fact(
            Words("useful share of the bytes moved", "搬运字节中的有用部分"),
            ideal / sectors, "share", "computed",
        ),
    ]  # fmt: skip


def _shared_facts(accesses: list[Access]) -> list[Fact]:
    requests = sum(a.requests for a in accesses)
    if not requests:
        return []
    passes = sum(a.passes for a in accesses)
    best = three(sum(a.ideal_passes for a in accesses) / requests)
    return [
        Fact(Words("requests to shared memory", "共享内存请求数"), requests, "count"),
        Fact(
            Words("passes a request", "每次请求的遍数"), passes / requests, "", "computed",
            note=Words(f"{best} without bank conflicts", f"无存储体冲突时为 {best}"),
        ),
    ]  # fmt: skip


def overview(launches: list[Launch], names: list[Words], machine: Machine) -> Table:
    """All launches beside each other; columns that none of them fills are left out."""
    columns = [
        Column(Words("kernel", "核函数")),
        Column(Words("threads", "线程数"), "count"),
        Column(Words("sectors a request", "每次请求扇区")),
        Column(Words("moved", "搬运"), "bytes"),
        Column(Words("useful", "有用"), "share"),
        Column(Words("passes a request", "每次请求遍数")),
        Column(Words("active lanes", "活跃线程"), "share"),
    ]
    rows = [
        (name, *_overview_row(launch, machine))
        for launch, name in zip(launches, names, strict=True)
    ]
    kept = [n for n in range(len(columns)) if any(row[n] not in (None, _NONE) for row in rows)]
    return Table(
        title=Words("Launches in order", "按顺序的各次启动"),
        columns=tuple(columns[n] for n in kept),
        rows=tuple(tuple(row[n] for n in kept) for row in rows),
        note=Words(
            "Sectors of global memory, passes over shared memory.",
            "扇区指全局内存，遍数指共享内存。",
        ),
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
        Words("launch", "启动配置"),
        Words(f"{grid} blocks of {block} threads", f"{grid} 个线程块，每块 {block} 个线程"),
        note=Words(f"{warps} warps a block", f"每块 {warps} 个线程束"),
    )


def _short(extent: tuple[int, int, int]) -> tuple[int, ...]:
    """An extent without its trailing ones."""
    return extent[:1] if extent[1:] == (1, 1) else extent[:2] if extent[2] == 1 else extent


def _active(launch: Launch) -> Fact:
    note = Words("mean over the lines executed", "按已执行的行平均")
    if launch.framework == "triton":
        note = Words("Triton masks lanes instead of branching", "Triton 用掩码而不是分支")
    origin = "" if launch.active_share is None else "computed"
    return Fact(
        Words("active lanes", "活跃线程占比"), launch.active_share, "share", origin, note=note
    )


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
        title=Words("Accesses by line", "逐行访问"),
        columns=(
            Column(Words("line", "行")),
            Column(Words("array", "数组")),
            Column(Words("what", "操作")),
            Column(Words("memory", "内存")),
            Column(Words("requests", "请求数"), "count"),
            Column(Words("lanes", "线程")),
            Column(Words("per request", "每次请求")),
            Column(Words("best", "最少")),
            Column(Words("moved", "搬运"), "bytes"),
        ),
        rows=tuple(rows),
        marked=tuple(marked),
        note=Words(
            "Per request: sectors of global memory, passes over shared or constant memory; best: "
            "as few as the data allow. Lanes: active in a request, on average.",
            "每次请求：全局内存为扇区数，共享或常量内存为遍数；最少：数据所需的下限。"
            "线程：每次请求的平均活跃线程数。",
        ),
    )


def _row(access: Access, machine: Machine) -> tuple[Cell, ...]:
    on_global = access.space == "global"
    each = access.sectors_per_request if on_global else access.passes_per_request
    best = (access.ideal_sectors if on_global else access.ideal_passes) / access.requests
    moved = access.sectors * machine.sector_bytes if on_global else None
    return (
        access.array, _KINDS[access.kind], _SPACES[access.space], access.requests,
        access.lanes / access.requests, each, best,
        moved if on_global else access.asked_bytes,
    )  # fmt: skip


def line_bars(launch: Launch, machine: Machine) -> Bars | None:
    """Bytes of global memory by line, needed and beyond; None where nothing is moved beyond."""
    piece = machine.sector_bytes
    found = [a for a in launch.accesses if a.space == "global"]
    if all(a.sectors == a.ideal_sectors for a in found):
        return None
    found.sort(key=lambda a: -a.sectors)
    return Bars(
        title=Words("Bytes moved by line", "各行搬运的字节"),
        unit="bytes",
        bars=tuple(
            Bar(
                Words(
                    f"line {a.line}, {a.kind} {a.array}",
                    f"第 {a.line} 行，{_KINDS[a.kind].zh} {a.array}",
                ),
                (
                    Part(Words("needed", "所需"), float(a.ideal_sectors * piece), "memory"),
                    Part(
                        Words("moved for nothing", "白白搬运"),
                        float((a.sectors - a.ideal_sectors) * piece), "waste",
                    ),
                ),
            )
            for a in found[:12]
        ),
    )  # fmt: skip


def level_bars(launch: Launch, machine: Machine) -> Bars | None:
    """From what lanes ask for down to the least: what caches could save; None if nothing."""
    piece = machine.sector_bytes
    least = least_bytes(launch, machine)
    if moved_bytes(launch, machine) <= least * 1.05:
        return None
    rows = (
        (
            Words("lanes ask for", "线程要求"), sum(a.asked_bytes for a in launch.arrays),
            "compute", None,
        ),
        (
            Words("requests move", "请求搬运"), moved_bytes(launch, machine), "shared",
            Words("sectors of all requests, no cache", "全部请求的扇区，不计缓存"),
        ),
        (
            Words("each block once", "每块一次"),
            sum(a.block_sectors for a in launch.arrays) * piece, "l2",
            Words("if L1 kept all that a block touched", "若 L1 留住线程块碰过的一切"),
        ),
        (
            Words("the launch once", "全程一次"),
            sum(a.launch_sectors for a in launch.arrays) * piece, "memory",
            Words("if L2 kept all that any block touched", "若 L2 留住所有线程块碰过的一切"),
        ),
    )  # fmt: skip
    return Bars(
        title=Words("Reuse: the same traffic at each level", "复用：同一流量在各级的大小"),
        unit="bytes",
        bars=tuple(
            Bar(label, (Part(label, float(value), role),), note)  # type: ignore[arg-type]
            for label, value, role, note in rows
        ),
        limit=float(least),
        limit_label=Words("least: each byte once", "下限：每字节一次"),
    )


def arrays_table(launch: Launch, machine: Machine) -> Table | None:
    """What the launch does to each array."""
    if not launch.arrays:
        return None
    piece = machine.sector_bytes
    return Table(
        title=Words("Arrays in global memory", "全局内存中的数组"),
        columns=(
            Column(Words("array", "数组")),
            Column(Words("type", "类型")),
            Column(Words("shape", "形状")),
            Column(Words("touched", "触及"), "bytes"),
            Column(Words("asked for", "要求"), "bytes"),
            Column(Words("each byte", "每字节次数"), "ratio"),
            Column(Words("moved", "搬运"), "bytes"),
            Column(Words("each block once", "每块一次"), "bytes"),
            Column(Words("launch once", "全程一次"), "bytes"),
        ),
        rows=tuple(
            (
                a.name, a.dtype, " x ".join(str(n) for n in a.shape), a.touched_bytes,
                a.asked_bytes, a.asked_bytes / a.touched_bytes, a.sectors * piece,
                a.block_sectors * piece, a.launch_sectors * piece,
            )
            for a in launch.arrays
        ),
    )  # fmt: skip


def divergence_table(launch: Launch) -> Table | None:
    """Lines that warps executed with only some of their lanes."""
    found = [line for line in launch.activity if line.partial]
    if not found:
        return None
    found.sort(key=lambda line: line.lanes / line.present)
    return Table(
        title=Words("Lines that only part of a warp executes", "只有部分线程执行的行"),
        columns=(
            Column(Words("line", "行")),
            Column(Words("visits by warps", "线程束执行次数"), "count"),
            Column(Words("with fewer lanes", "其中线程不全"), "count"),
            Column(Words("active lanes", "活跃线程"), "share"),
        ),
        rows=tuple(
            (str(line.line), line.visits, line.partial, line.lanes / line.present)
            for line in found[:12]
        ),
        note=Words(
            "A warp takes both ways of a branch one after the other; lanes on the other way wait.",
            "线程束依次走完分支的两边；另一边的线程在等待。",
        ),
    )  # fmt: skip
