"""`explain occupancy`: how many warps are resident, what limits them, and how many are needed."""

from __future__ import annotations

from gpuscope.document.blocks import (
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
)
from gpuscope.document.quantities import Number, Share
from gpuscope.document.text import Text, joined, sentences, verbatim
from gpuscope.explanation.latency_hiding import hiding
from gpuscope.explanation.limits import an
from gpuscope.explanation.occupancy_figures import curves, explorer, other_blocks
from gpuscope.explanation.operators import Target, target, whole
from gpuscope.explanation.registry import topic
from gpuscope.explanation.residency import (
    Launch,
    Residency,
    most_registers_for,
    most_shared_for,
    residency,
    shared_size,
)
from gpuscope.hardware import Device

LIMIT_WORDS = {
    "threads": Text("threads"),
    "registers": Text("registers"),
    "shared memory": Text("shared memory"),
    "blocks": Text("block slots"),
}

_ROLES: dict[str, Role] = {
    "threads": "compute",
    "registers": "tensor",
    "shared memory": "shared",
    "blocks": "launch",
}

_ENDLESS = 1e9
"""Blocks above which a limit is none: nothing of that sort is used."""

SOURCES = (
    "Limits: CUDA C++ Programming Guide, Compute Capabilities; granularities: cuda_occupancy.h",
    Text(
        "Checked: an H200's driver gave the same answer for 7,752 launches ({file})",
        file="validation/recordings/h200/micro/occupancy.csv.gz",
    ),
    "AMD limits: LLVM AMDGPU back end; AMD instruction set architecture guides",
    "Little, A Proof for the Queuing Formula L = λW, Operations Research 9(3), 1961",
    "Volkov, Better Performance at Lower Occupancy, GTC 2010",
)


@topic("occupancy")
def occupancy(
    threads: int = 256, registers: int = 32, shared: str | int = 0, *, on: str | Device = "h200"
) -> Explanation:
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
    launch = Launch(whole("threads", threads), whole("registers", registers), shared_size(shared))
    found = residency(where.device, launch)
    title = Text(
        "Occupancy: {threads} threads, {registers} registers, {shared} KB, {device}",
        threads=launch.threads,
        registers=launch.registers,
        shared=Number(launch.shared_bytes / 1024, "g"),
        device=where.device.name,
    )
    need = hiding(where, found)
    return Explanation(
        "occupancy",
        title,
        summary=(*_summary(found), need.summary),
        sections=(
            Section(Text("What fits"), (_facts(found), _limit_bars(found))),
            Section(Text("How to fit more"), _more(found)),
            Section(Text("Over each quantity"), (*curves(found), explorer(found))),
            Section(Text("How much is needed"), need.blocks),
        ),
        commands=_commands(found, where),
        sources=SOURCES,
        assumptions=_assumptions(found, where),
    )


def _wave(found: Residency) -> str:
    """What the vendor calls threads that run in step."""
    return "wavefront" if found.device.vendor == "AMD" else "warp"


def _names(found: Residency) -> Text:
    return joined([LIMIT_WORDS[name] for name in found.limiting], " and ")


def _summary(found: Residency) -> tuple[Text, ...]:
    unit = found.device.compute_unit_label
    warps = found.blocks * found.warps
    names = _names(found)
    lines = [
        Text(
            "{blocks} blocks fit on {unit} at once: {warps} of {most_warps} {wave}s, an occupancy "
            "of {occupancy}.",
            blocks=found.blocks,
            unit=an(unit),
            warps=warps,
            most_warps=found.most_warps,
            wave=_wave(found),
            occupancy=Share(found.occupancy),
        ),
        Text("What allows no more: {names}.", names=names),
    ]
    step = _next_step(found)
    if step is not None:
        lines.append(step)
    return tuple(lines)


def _next_step(found: Residency) -> Text | None:
    """The smallest change that lets one more block in."""
    want = found.blocks + 1
    needs = _needs(found, want)
    if needs is None:
        return None
    registers, shared = needs
    share = Share(want * found.warps / found.most_warps)
    changes = []
    if registers < found.launch.registers:
        changes.append(Text("{registers} registers", registers=registers))
    if shared < found.launch.shared_bytes:
        changes.append(Text("{shared} of shared memory", shared=_kb(shared)))
    return Text(
        "Smallest change for one block more ({share}): use {changes}.",
        share=share,
        changes=joined(changes, " and "),
    )


def _kb(value: float) -> Text:
    if value % 1024 == 0:
        return verbatim(f"{value / 1024:g} KB")
    return Text("{amount} bytes", amount=Number(value, ","))


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
    return Facts(
        (
            Fact(
                Text("{wave}s of a block", wave=wave),
                float(found.warps),
                "count",
                "computed",
                note=Text("{threads} / {warp}, rounded up", threads=launch.threads, warp=warp),
            ),
            Fact(
                Text("registers of a block, as handed out"),
                float(of_warp * found.warps),
                "count",
                "computed",
                note=Text(
                    "{registers} x {warp} rounded up to {piece} a {wave}: {of_warp}",
                    registers=launch.registers,
                    warp=warp,
                    piece=piece,
                    wave=wave,
                    of_warp=of_warp,
                ),
            ),
            Fact(
                Text("shared memory of a block, as handed out"),
                float(taken),
                "bytes",
                "computed",
                note=Text(
                    "{kb} kept by the system, steps of {grain} bytes", kb=_kb(kept), grain=grain
                ),
            ),
            Fact(
                Text("blocks at once on {unit}", unit=an(unit)),
                float(found.blocks),
                "count",
                "computed",
            ),
            Fact(
                Text("{wave}s at once", wave=wave),
                float(found.blocks * found.warps),
                "count",
                "computed",
                note=Text("at most {most_warps}", most_warps=found.most_warps),
            ),
            Fact(Text("occupancy"), found.occupancy, "share", "computed"),
            Fact(
                Text(
                    "blocks at once on all {compute_units} {unit}s",
                    compute_units=device.compute_units,
                    unit=unit,
                ),
                float(found.blocks * (device.compute_units or 0)),
                "count",
                "computed",
                note=Text("a grid of a multiple of it has no tail"),
            ),
        )
    )


def _limit_bars(found: Residency) -> Bars:
    device = found.device
    have: dict[str, Text | Number] = {
        "threads": Number(device.max_threads_per_unit, ","),
        "registers": Number(device.registers_per_unit, ","),
        "shared memory": _kb(device.shared_memory_per_unit_bytes or 0),
        "blocks": Number(found.limits[3], ","),
    }
    bars = []
    note = Text("The shortest bar decides.")
    for name, most in zip(LIMIT_WORDS, found.limits, strict=True):
        if most > _ENDLESS:
            unused = Text("The launch uses no {name}, so that is no limit.", name=LIMIT_WORDS[name])
            note = sentences(note, unused)
            continue
        words = LIMIT_WORDS[name]
        label = Text("{words} ({have})", words=words, have=have[name])
        bars.append(Bar(label, (Part(words, float(most), _ROLES[name]),)))
    unit = device.compute_unit_label
    return Bars(
        Text("Blocks that each limit of {unit} allows", unit=an(unit)),
        "count",
        tuple(bars),
        float(found.blocks),
        Text("fit at once"),
        note,
    )


def _more(found: Residency) -> tuple[Block, ...]:
    rows: list[tuple[Cell, ...]] = [_step_row(found, found.blocks)]
    for blocks in range(found.blocks + 1, found.blocks + 9):
        if _needs(found, blocks) is None:
            break
        rows.append(_step_row(found, blocks))
    title = Text("What each block more needs")
    columns = (
        Column(Text("blocks"), "count"),
        Column(Text("occupancy"), "share"),
        Column(Text("registers, at most"), "count"),
        Column(Text("shared memory, at most"), "bytes"),
        Column(Text("to change"), ""),
    )
    note = Text(
        "Fewer registers: __launch_bounds__(threads, blocks) or -maxrregcount; too few spill to "
        "memory. Less shared memory: smaller tiles or fewer pipeline stages."
    )
    return Table(title, columns, tuple(rows), (0,), note), other_blocks(found)


def _step_row(found: Residency, blocks: int) -> tuple[Cell, ...]:
    registers = most_registers_for(found.device, found.launch.threads, blocks)
    shared = most_shared_for(found.device, blocks)
    changes = []
    if registers < found.launch.registers:
        changes.append(
            Text("{now} to {then} registers", now=found.launch.registers, then=registers)
        )
    if shared < found.launch.shared_bytes:
        changes.append(
            Text("{now} to {then}", now=_kb(found.launch.shared_bytes), then=_kb(shared))
        )
    if not changes:
        changes.append(Text("now") if blocks == found.blocks else Text("nothing"))
    return (
        float(blocks),
        blocks * found.warps / found.most_warps,
        float(registers),
        float(shared),
        joined(changes),
    )


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


def _assumptions(found: Residency, where: Target) -> tuple[Text, ...]:
    device = found.device
    lines = [
        Text(
            "The grid has enough blocks to fill the device; a small grid leaves units idle "
            "whatever the occupancy."
        )
    ]
    if device.vendor == "NVIDIA":
        lines.append(
            Text(
                "Shared memory may take all that its array allows (the driver chooses the split "
                "with L1 for each kernel)."
            )
        )
    if device.vendor == "AMD":
        lines.append(
            Text(
                "Registers are vector registers, accumulation registers included; scalar registers "
                "are not counted."
            )
        )
    return (*lines, *where.assumptions)
