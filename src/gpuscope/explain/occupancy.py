"""`explain occupancy`: how many warps are resident, what limits them, and how many are needed."""

from __future__ import annotations

from gpuscope.explain.latency_hiding import hiding
from gpuscope.explain.numbers import an, exact_percent
from gpuscope.explain.occupancy_figures import curves, explorer, other_blocks
from gpuscope.explain.operators import Target, target, whole
from gpuscope.explain.registry import topic
from gpuscope.explain.residency import (
    Launch,
    Residency,
    most_registers_for,
    most_shared_for,
    residency,
    shared_size,
)
from gpuscope.explain.types import (
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Explanation,
    Fact,
    Facts,
    Part,
    Role,
    Section,
    Table,
    Words,
)
from gpuscope.hardware import Device

LIMIT_WORDS = {
    "threads": Words("threads", "线程数"),
    "registers": Words("registers", "寄存器"),
    "shared memory": Words("shared memory", "共享内存"),
    "blocks": Words("block slots", "线程块槽位"),
}

_ROLES: dict[str, Role] = {
    "threads": "compute", "registers": "tensor", "shared memory": "shared", "blocks": "launch",
}  # fmt: skip

_ENDLESS = 1e9
"""Blocks above which a limit is none: nothing of that sort is used."""

SOURCES = (
    "Limits: CUDA C++ Programming Guide, Compute Capabilities; granularities: cuda_occupancy.h",
    "Checked: an H200's driver gave the same answer for 7,752 launches"
    " (validation/recordings/h200/micro/occupancy.csv.gz)",
    "AMD limits: LLVM AMDGPU back end; AMD instruction set architecture guides",
    "Little, A Proof for the Queuing Formula L = λW, Operations Research 9(3), 1961",
    "Volkov, Better Performance at Lower Occupancy, GTC 2010",
)


@topic("occupancy")
def occupancy(
    threads: int = 256, registers: int = 32, shared: str | int = 0, *,
    on: str | Device = "h200",
) -> Explanation:  # fmt: skip
    """Explain how a launch fills a multiprocessor.

    Args:
        threads: of a block.
        registers: of a thread, as the compiler reports them (`-Xptxas -v`).
        shared: of a block, static and dynamic; "48KB" is 48 x 1024 bytes.
        on: a device.

    Raises:
        InvalidValueError: a launch that fails, with the limit that it breaks.
        UnsupportedError: a device that is not described well enough.
    """
    where = target(on)
    launch = Launch(
        whole("threads", threads), whole("registers", registers), shared_size(shared)
    )
    found = residency(where.device, launch)
    title = (
        f"{threads} threads, {registers} registers, {launch.shared_bytes / 1024:g} KB, "
        f"{where.device.name}"
    )
    title_zh = (
        f"每块 {threads} 线程、每线程 {registers} 寄存器、{launch.shared_bytes / 1024:g} KB，"
        f"{where.device.name}"
    )
    need = hiding(where, found)
    return Explanation(
        "occupancy", Words(f"Occupancy: {title}", f"占用率：{title_zh}"),
        summary=(*_summary(found), need.summary),
        sections=(
            Section(Words("What fits", "能放下多少"), (_facts(found), _limit_bars(found))),
            Section(Words("How to fit more", "怎样放下更多"), _more(found)),
            Section(Words("Over each quantity", "随各个量的变化"), (
                *curves(found), explorer(found),
            )),
            Section(Words("How much is needed", "究竟需要多少"), need.blocks),
        ),
        commands=_commands(found, where),
        sources=SOURCES, assumptions=_assumptions(found, where),
    )  # fmt: skip


def _wave(found: Residency) -> str:
    """What the vendor calls threads that run in step."""
    return "wavefront" if found.device.vendor == "AMD" else "warp"


def _names(found: Residency) -> Words:
    each = [LIMIT_WORDS[name] for name in found.limiting]
    return Words(" and ".join(w.en for w in each), "和".join(w.zh for w in each))


def _summary(found: Residency) -> tuple[Words, ...]:
    unit = found.device.compute_unit_label
    warps = found.blocks * found.warps
    names = _names(found)
    lines = [
        Words(
            f"{found.blocks} blocks fit on {an(unit)} at once: {warps} of {found.most_warps}"
            f" {_wave(found)}s, an occupancy of {exact_percent(found.occupancy)}.",
            f"一个 {unit} 上能同时驻留 {found.blocks} 个线程块："
            f"{warps} / {found.most_warps} 个 {_wave(found)}，"
            f"占用率 {exact_percent(found.occupancy)}。",
        ),
        Words(f"What allows no more: {names.en}.", f"限制来自：{names.zh}。"),
    ]
    step = _next_step(found)
    if step is not None:
        lines.append(step)
    return tuple(lines)


def _next_step(found: Residency) -> Words | None:
    """The smallest change that lets one more block in."""
    want = found.blocks + 1
    needs = _needs(found, want)
    if needs is None:
        return None
    registers, shared = needs
    share = exact_percent(want * found.warps / found.most_warps)
    en, zh = [], []
    if registers < found.launch.registers:
        en.append(f"{registers} registers")
        zh.append(f"寄存器降到 {registers} 个")
    if shared < found.launch.shared_bytes:
        en.append(f"{_kb(shared)} of shared memory")
        zh.append(f"共享内存降到 {_kb(shared)}")
    return Words(
        f"Smallest change for one block more ({share}): use {' and '.join(en)}.",
        f"多放一个线程块（{share}）的最小改动：{'、'.join(zh)}。",
    )


def _kb(value: float) -> str:
    return f"{value / 1024:g} KB" if value % 1024 == 0 else f"{value:,.0f} bytes"


def _needs(found: Residency, blocks: int) -> tuple[int, int] | None:
    """Registers and shared memory that let so many blocks in; None if nothing does."""
    if blocks > min(found.limits[0], found.limits[3]):
        return None
    registers = most_registers_for(found.device, found.launch.threads, blocks)
    if registers < 1:
        return None
    shared = most_shared_for(found.device, blocks)
    return min(registers, found.launch.registers), min(shared, found.launch.shared_bytes)


def _facts(found: Residency) -> Facts:
    device, launch = found.device, found.launch
    unit, wave = device.compute_unit_label, _wave(found)
    warp, piece = device.warp_size or 32, device.register_granularity or 1
    of_warp = -(-launch.registers * warp // piece) * piece
    kept = device.shared_memory_reserved_per_block_bytes or 0
    grain = device.shared_memory_granularity_bytes or 1
    taken = -(-(launch.shared_bytes + kept) // grain) * grain
    return Facts((
        Fact(Words(f"{wave}s of a block", f"每块的 {wave} 数"), float(found.warps), "count",
             "computed", note=Words(f"{launch.threads} / {warp}, rounded up",
                        f"{launch.threads} / {warp}，向上取整")),
        Fact(Words("registers of a block, as handed out", "每块实际分到的寄存器"),
             float(of_warp * found.warps), "count", "computed",
             note=Words(f"{launch.registers} x {warp} rounded up to {piece} a {wave}: {of_warp}",
                        f"每 {wave} {launch.registers} x {warp}，按 {piece} 取整：{of_warp}")),
        Fact(Words("shared memory of a block, as handed out", "每块实际占用的共享内存"),
             float(taken), "bytes", "computed",
             note=Words(f"{_kb(kept)} kept by the system, steps of {grain} bytes",
                        f"系统保留 {_kb(kept)}，按 {grain} 字节取整")),
        Fact(Words(f"blocks at once on {an(unit)}", f"一个 {unit} 上的线程块"), float(found.blocks),
             "count", "computed"),
        Fact(Words(f"{wave}s at once", f"驻留的 {wave}"), float(found.blocks * found.warps),
             "count", "computed",
             note=Words(f"at most {found.most_warps}", f"最多 {found.most_warps}")),
        Fact(Words("occupancy", "占用率"), found.occupancy, "share", "computed"),
        Fact(Words(f"blocks at once on all {device.compute_units} {unit}s",
                   f"全部 {device.compute_units} 个 {unit} 上的线程块"),
             float(found.blocks * (device.compute_units or 0)), "count", "computed",
             note=Words("a grid of a multiple of it has no tail", "网格为其整数倍时没有尾巴")),
    ))  # fmt: skip


def _limit_bars(found: Residency) -> Bars:
    device = found.device
    have = {
        "threads": f"{device.max_threads_per_unit:,}",
        "registers": f"{device.registers_per_unit:,}",
        "shared memory": _kb(device.shared_memory_per_unit_bytes or 0),
        "blocks": f"{found.limits[3]}",
    }
    bars = []
    note = Words("The shortest bar decides.", "最短的一条决定结果。")
    for name, most in zip(LIMIT_WORDS, found.limits, strict=True):
        if most > _ENDLESS:
            note = Words(
                f"{note.en} The launch uses no {name}, so that is no limit.",
                f"{note.zh}本次启动不使用{LIMIT_WORDS[name].zh}，因此它不构成限制。",
            )
            continue
        words = LIMIT_WORDS[name]
        label = Words(f"{words.en} ({have[name]})", f"{words.zh}（{have[name]}）")
        bars.append(Bar(label, (Part(words, float(most), _ROLES[name]),)))
    unit = device.compute_unit_label
    return Bars(
        Words(f"Blocks that each limit of {an(unit)} allows", f"{unit} 的每项限制允许的线程块数"),
        "count", tuple(bars), float(found.blocks), Words("fit at once", "实际驻留"), note,
    )  # fmt: skip


def _more(found: Residency) -> tuple[Block, ...]:
    rows: list[tuple[Cell, ...]] = [_step_row(found, found.blocks)]
    for blocks in range(found.blocks + 1, found.blocks + 9):
        if _needs(found, blocks) is None:
            break
        rows.append(_step_row(found, blocks))
    title = Words("What each block more needs", "每多一个线程块需要什么")
    columns = (
        Column(Words("blocks", "线程块"), "count"), Column(Words("occupancy", "占用率"), "share"),
        Column(Words("registers, at most", "寄存器，最多"), "count"),
        Column(Words("shared memory, at most", "共享内存，最多"), "bytes"),
        Column(Words("to change", "需要改"), ""),
    )  # fmt: skip
    note = Words(
        "Fewer registers: __launch_bounds__(threads, blocks) or -maxrregcount; too few spill to"
        " memory. Less shared memory: smaller tiles or fewer pipeline stages.",
        "减少寄存器：__launch_bounds__(线程数, 块数) 或 -maxrregcount，过少会溢出到显存。"
        "减少共享内存：更小的分块或更少的流水级。",
    )
    return Table(title, columns, tuple(rows), (0,), note), other_blocks(found)


def _step_row(found: Residency, blocks: int) -> tuple[Cell, ...]:
    registers = most_registers_for(found.device, found.launch.threads, blocks)
    shared = most_shared_for(found.device, blocks)
    change_en, change_zh = [], []
    if registers < found.launch.registers:
        change_en.append(f"{found.launch.registers} to {registers} registers")
        change_zh.append(f"寄存器 {found.launch.registers} 改为 {registers}")
    if shared < found.launch.shared_bytes:
        change_en.append(f"{_kb(found.launch.shared_bytes)} to {_kb(shared)}")
        change_zh.append(f"{_kb(found.launch.shared_bytes)} 改为 {_kb(shared)}")
    changes = Words(", ".join(change_en), "，".join(change_zh))
    if not change_en:
        changes = Words("now", "当前") if blocks == found.blocks else Words("nothing", "无")
    return (
        float(blocks), blocks * found.warps / found.most_warps, float(registers), float(shared),
        changes,
    )  # fmt: skip


def _commands(found: Residency, where: Target) -> tuple[str, ...]:
    launch = found.launch
    here = where.device.id
    base = f"gpuscope explain occupancy --threads {launch.threads}"
    shared = f"--shared {launch.shared_bytes}"
    fewer = max(launch.registers // 2, 16)
    return (
        f"{base} --registers {fewer} {shared} --on {here}",
        f"{base} --registers {launch.registers} {shared} --on {here} --report occupancy.html",
        f"gpuscope devices {here}",
    )


def _assumptions(found: Residency, where: Target) -> tuple[Words, ...]:
    device = found.device
    lines = [
        Words(
            "The grid has enough blocks to fill the device; a small grid leaves units idle"
            " whatever the occupancy.",
            "网格有足够多的线程块；网格太小时，不论占用率多高都会有单元空闲。",
        )
    ]
    if device.vendor == "NVIDIA":
        lines.append(
            Words(
                "Shared memory may take all that its array allows (the driver chooses the split"
                " with L1 for each kernel).",
                "共享内存可用到其阵列允许的上限（驱动按内核选择与 L1 的划分）。",
            )
        )
    if device.vendor == "AMD":
        lines.append(
            Words(
                "Registers are vector registers, accumulation registers included; scalar"
                " registers are not counted.",
                "寄存器指向量寄存器（含累加寄存器），不计标量寄存器。",
            )
        )
    return (*lines, *where.assumptions)
