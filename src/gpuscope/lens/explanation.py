"""What the lens saw, as an `Explanation`: remarks by line, maps of lanes, traffic and reuse."""

from __future__ import annotations

from math import inf
from pathlib import Path

from gpuscope.explain.numbers import size, three
from gpuscope.explain.types import Block, Explanation, Paragraph, Section, Words
from gpuscope.lens.machine import Machine
from gpuscope.lens.maps import bank_map, sector_map
from gpuscope.lens.patterns import Remark, remarks
from gpuscope.lens.source_view import source_view
from gpuscope.lens.traffic import (
    accesses_table,
    arrays_table,
    divergence_table,
    facts,
    ideal_bytes,
    least_bytes,
    level_bars,
    line_bars,
    moved_bytes,
    overview,
)
from gpuscope.lens.types import Access, Launch, Lens

_MOST_LAUNCHES = 6
"""Launches that are shown in full."""

_MOST_ROWS = 40
"""Launches that are listed."""

_MOST_REMARKS = 5

_LESSONS = {
    "strided": "coalescing", "scattered": "coalescing", "short_runs": "coalescing",
    "misaligned": "coalescing", "reread": "shared-memory", "bank_conflict": "shared-memory",
    "divergence": "warps", "gaps": "warps",
}  # fmt: skip
"""The lesson that belongs to a fault."""

_TRITON_SOURCE = (
    "Triton, triton-lang/triton: lib/Dialect/TritonGPU/Transforms/CoalesceUtils.cpp and the "
    "blocked layout of TritonGPUAttrDefs.td."
)
_NUMBA_SOURCE = "Numba documentation: debugging CUDA Python with the CUDA simulator."

_NOTES = {
    "triton_layout": Words(
        "Which lane holds which element is the compiler's choice. The rules of Triton's coalescing "
        "pass are applied to the addresses seen; the compiler may prove less than the addresses "
        "show, and passes after it may choose otherwise. Shared memory and its bank conflicts are "
        "the compiler's too: not available here.",
        "哪个线程持有哪个元素由编译器决定。这里按 Triton 合并访存 pass 的规则对实际地址推算；"
        "编译器能证明的可能更少，之后的 pass 也可能另作选择。"
        "共享内存与存储体冲突同样由编译器决定，此处无从得知。",
    ),
    "mask_splits_vectors": Words(
        "Masks end inside what a lane could move at once, or the compiler cannot prove that they "
        "do not (a size that 16 does not divide): such accesses go element by element.",
        "掩码边界落在一个线程的向量访问之内，或编译器无法证明不会（大小不能被 16 整除）："
        "这些访问退化为逐元素。",
    ),
    "descriptor": Words(
        "Tensor descriptors are counted as ordinary accesses; on Hopper and later a copy engine "
        "(TMA) moves them without the lanes.",
        "张量描述符按普通访问计；Hopper 及之后由 TMA 搬运，不经过线程。",
    ),
    "record_arrays": Words(
        "Arrays of records (structured dtypes) were not followed.",
        "结构化类型（record）的数组未被记录。",
    ),
    "forall_block": Words(
        "forall leaves the block's size to Numba, which asks the device; 256 threads are assumed.",
        "forall 由 Numba 按设备选择线程块大小；这里假定 256 个线程。",
    ),
    "local_arrays": Words(
        "Arrays private to a thread (cuda.local) were not followed: small ones live in registers.",
        "线程私有数组（cuda.local）未被记录：小的通常放在寄存器里。",
    ),
}  # fmt: skip


def explain_lens(lens: Lens) -> Explanation:
    """Return what a run of the lens means."""
    shown, times = _distinct(lens.launches)
    names = _names(shown, times)
    sections = []
    if len(shown) > 1:
        listed = overview(shown[:_MOST_ROWS], names[:_MOST_ROWS], lens.machine)
        sections.append(Section(Words("All launches", "全部启动"), (listed,)))
    for number in _worth_showing(shown, lens.machine):
        sections += _sections(shown[number], names[number], lens.machine, len(shown) > 1)
    return Explanation(
        topic="lens",
        title=Words(
            f"{Path(lens.name).name} on {lens.machine.name}: what its warps ask of memory",
            f"{Path(lens.name).name} 在 {lens.machine.name} 上：线程束对内存的访问",
        ),
        summary=_summary(lens, shown),
        sections=tuple(sections),
        commands=_commands(lens),
        sources=_sources(lens),
        assumptions=_assumptions(lens),
        key="lens",
    )


def _distinct(launches: tuple[Launch, ...]) -> tuple[list[Launch], list[int]]:
    """Launches that differ, and how often each occurred."""
    shown: list[Launch] = []
    times: list[int] = []
    for launch in launches:
        if launch in shown:
            times[shown.index(launch)] += 1
        else:
            shown.append(launch)
            times.append(1)
    return shown, times


def _summary(lens: Lens, shown: list[Launch]) -> tuple[Words, ...]:
    found = [(r, launch) for launch in shown for r in remarks(launch, lens.machine)]
    found.sort(key=lambda pair: -pair[0].cost)
    worst = {(launch.kernel, remark.fault): remark for remark, launch in reversed(found)}
    chosen = sorted(worst.items(), key=lambda pair: -pair[1].cost)[:3]
    sentences = [
        Words(f"{kernel}: {remark.what.en}", f"{kernel}：{remark.what.zh}")
        for (kernel, _), remark in chosen
    ]
    # What may give wrong results comes before what costs time.
    dangers = sum(remark.cost == inf for _, remark in chosen)
    sentences.insert(dangers, _traffic_sentence(shown, lens.machine))
    if not found and any(launch.accesses for launch in shown):
        sentences.append(
            Words(
                "Every request is about as small as its data allow, and no bank is asked twice.",
                "每次请求都几乎达到数据所需的下限，没有存储体冲突。",
            )
        )
    if not lens.complete:
        sentences.append(_stopped(lens))
    return tuple(sentences)


def _traffic_sentence(shown: list[Launch], machine: Machine) -> Words:
    worst = max(shown, key=lambda one: _times_least(one, machine))
    moved, ideal = moved_bytes(worst, machine), ideal_bytes(worst, machine)
    least = least_bytes(worst, machine)
    if not worst.threads:
        return Words(
            f"{worst.kernel}: the grid has no block, so nothing ran; a device refuses it.",
            f"{worst.kernel}：网格中没有线程块，什么也没有运行；真实设备会拒绝。",
        )
    if not moved:
        return Words(
            f"{worst.kernel} touches no global memory.", f"{worst.kernel} 没有访问全局内存。"
        )
    if moved <= least * 1.05:
        kernels = ", ".join(dict.fromkeys(launch.kernel for launch in shown))
        return Words(
            f"{kernels}: requests to global memory move little more than each byte once.",
            f"{kernels}：全局内存请求搬运的量接近每字节一次的下限。",
        )
    en = f"{worst.kernel}: its requests move {size(moved)} of global memory, {size(least)} if each "
    en += f"byte moved once: {three(moved / least)}×."
    zh = f"{worst.kernel}：请求共搬运 {size(moved)} 全局内存，每字节只搬一次则为 {size(least)}："
    zh += f"{three(moved / least)} 倍。"
    if moved > ideal * 1.05:
        en += f" Perfectly coalesced they would move {size(ideal)}."
        zh += f"若完全合并访存则为 {size(ideal)}。"
    return Words(en, zh)


def _times_least(launch: Launch, machine: Machine) -> float:
    least = least_bytes(launch, machine)
    return moved_bytes(launch, machine) / least if least else 0.0


def _stopped(lens: Lens) -> Words:
    return Words(
        f"Stopped at the limit of {lens.limit:,} accesses and line visits: the figures are those "
        "of the part that ran. Use smaller data, or raise --limit.",
        f"已达到 {lens.limit:,} 次访问与行执行的上限而停止：数字只反映已运行的部分。"
        "请缩小数据，或提高 --limit。",
    )


def _names(shown: list[Launch], times: list[int]) -> list[Words]:
    """What each launch is called: its kernel, its numbers where others have the same kernel."""
    names = []
    for launch, often in zip(shown, times, strict=True):
        name = launch.kernel
        same = [other for other in shown if other.kernel == launch.kernel]
        if len(same) > 1:
            varying = [
                f"{key}={value}" for key, value in launch.scalars
                if any(dict(other.scalars).get(key) != value for other in same)
            ]  # fmt: skip
            name += f" ({', '.join(varying) if varying else f'launch {shown.index(launch) + 1}'})"
        again = Words(f", {often} times", f"，{often} 次") if often > 1 else Words("", "")
        names.append(Words(name + again.en, name + again.zh))
    return names


def _worth_showing(shown: list[Launch], machine: Machine) -> list[int]:
    """Numbers of the launches with most to change, in their own order."""
    costs = [sum(remark.cost for remark in remarks(launch, machine)) for launch in shown]
    by_cost = sorted(range(len(shown)), key=lambda number: -costs[number])
    return sorted(by_cost[:_MOST_LAUNCHES])


def _sections(launch: Launch, title: Words, machine: Machine, several: bool) -> list[Section]:
    found = remarks(launch, machine)
    blocks: list[Block] = [facts(launch, machine)]
    blocks += [
        source_view(launch, function, machine.warp_size)
        for function in launch.functions
        if function.lines
    ]
    sections = [Section(title, tuple(blocks))]
    pictures = _pictures(launch, machine, several)
    if pictures:
        heading = _titled(title, "the worst requests", "最差的请求", several)
        sections.append(Section(heading, pictures))
    figures = [
        accesses_table(launch, machine) if launch.accesses else None,
        line_bars(launch, machine), level_bars(launch, machine), arrays_table(launch, machine),
        divergence_table(launch),
    ]  # fmt: skip
    there = tuple(block for block in figures if block is not None)
    if there:
        sections.append(Section(_titled(title, "traffic and reuse", "流量与复用", several), there))
    if found:
        sections.append(
            Section(
                _titled(title, "what to change", "该改什么", several),
                tuple(_advice(remark) for remark in found[:_MOST_REMARKS]),
            )
        )
    return sections


def _titled(name: Words, en: str, zh: str, several: bool) -> Words:
    if several:
        return Words(f"{name.en}: {en}", f"{name.zh}：{zh}")
    return Words(en[0].upper() + en[1:], zh)


def _pictures(launch: Launch, machine: Machine, several: bool) -> tuple[Block, ...]:
    """The worst request to each sort of memory, lane by lane; of several launches the bad ones."""
    found: list[Block] = []
    drawn = [a for a in launch.accesses if a.wasteful or not several]
    on_global = [a for a in drawn if a.space == "global"]
    if on_global:
        found.append(sector_map(max(on_global, key=_waste), machine))
    shared = [a for a in drawn if a.space == "shared"]
    if shared:
        found.append(bank_map(max(shared, key=_waste), machine))
    return tuple(found)


def _waste(access: Access) -> tuple[int, int]:
    wasted = access.sectors - access.ideal_sectors + access.passes - access.ideal_passes
    return wasted, access.requests


def _advice(remark: Remark) -> Paragraph:
    return Paragraph(
        Words(f"{remark.what.en} {remark.change.en}", f"{remark.what.zh}{remark.change.zh}"),
        "warning" if remark.fault in ("barrier", "race") else "key",
    )


def _commands(lens: Lens) -> tuple[str, ...]:
    """The page, a lesson for each sort of fault, and the occupancy of the largest block."""
    found = [f"gpuscope lens {lens.name} --report lens.html"]
    faults = [r.fault for launch in lens.launches for r in remarks(launch, lens.machine)]
    lessons = dict.fromkeys(_LESSONS[fault] for fault in faults if fault in _LESSONS)
    found += [f"gpuscope learn {lesson}" for lesson in lessons]
    known = [launch for launch in lens.launches if launch.shared_bytes is not None]
    if known and lens.machine.device_id:
        most = max(known, key=lambda one: (one.shared_bytes or 0, one.threads_per_block))
        found.append(
            f"gpuscope explain occupancy --threads {most.threads_per_block} "
            f"--shared {most.shared_bytes} --on {lens.machine.device_id}"
        )
    return tuple(found)


def _sources(lens: Lens) -> tuple[str, ...]:
    used = {launch.framework for launch in lens.launches}
    found = list(lens.machine.sources)
    if "triton" in used:
        found.append(_TRITON_SOURCE)
    if "numba" in used:
        found.append(_NUMBA_SOURCE)
    return tuple(found)


def _assumptions(lens: Lens) -> tuple[Words, ...]:
    found = [
        Words(
            "Every access in the source counts. A compiler keeps values in registers where it can, "
            "so a device may make fewer.",
            "按源代码中的每次访问计数。编译器会尽量把值留在寄存器里，真实设备上可能更少。",
        ),
        Words(
            "Arrays begin at aligned addresses, as a device's allocators place them. Figures are "
            "of the small data given; ratios carry over to larger data, amounts do not.",
            "假定数组起始地址对齐（与显存分配器一致）。数字针对给定的小数据；"
            "比值可推广到更大数据，总量不可。",
        ),
    ]
    if any(line.partial for launch in lens.launches for line in launch.activity):
        found.append(
            Words(
                "Active lanes are counted by line of the source. A device counts machine "
                "instructions, and a compiler turns short branches into masked ones.",
                "活跃线程按源代码的行统计。设备按机器指令统计，编译器会把短分支变成带掩码的指令。",
            )
        )
    if any(a.space == "shared" and a.bytes_per_lane > 4 for x in lens.launches for a in x.accesses):
        found.append(
            Words(
                "Accesses of 8 and 16 bytes a lane are served in halves and quarters of a warp.",
                "每线程 8、16 字节的共享内存访问按半个、四分之一个线程束分组服务。",
            )
        )
    words = dict.fromkeys(note for launch in lens.launches for note in launch.notes)
    found += [_NOTES[word] for word in words]
    different = len(_distinct(lens.launches)[0])
    if different > _MOST_LAUNCHES:
        found.append(
            Words(
                f"Of {different} launches that differ, the {_MOST_LAUNCHES} with most to change "
                f"are shown in full, the first {min(different, _MOST_ROWS)} are listed.",
                f"共有 {different} 种不同的启动：完整展示最该修改的 {_MOST_LAUNCHES} 种，"
                f"列出前 {min(different, _MOST_ROWS)} 种。",
            )
        )
    return tuple(found)


