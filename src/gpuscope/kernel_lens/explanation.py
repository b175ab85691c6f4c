"""What the lens saw, as an `Explanation`: remarks by line, maps of lanes, traffic and reuse."""

from __future__ import annotations

from math import inf
from pathlib import Path

from gpuscope.document.blocks import Block, Explanation, Paragraph, Section
from gpuscope.document.quantities import Bytes, Number, Ratio
from gpuscope.document.text import Text, capital, joined, sentences, verbatim
from gpuscope.kernel_lens.machine import Machine
from gpuscope.kernel_lens.maps import bank_map, sector_map
from gpuscope.kernel_lens.patterns import Remark, remarks
from gpuscope.kernel_lens.source_view import source_view
from gpuscope.kernel_lens.traffic import (
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
from gpuscope.kernel_lens.types import Access, Launch, Lens

_MOST_LAUNCHES = 6
"""Launches that are shown in full."""

_MOST_ROWS = 40
"""Launches that are listed."""

_MOST_REMARKS = 5

_LESSONS = {
    "strided": "coalescing",
    "scattered": "coalescing",
    "short_runs": "coalescing",
    "misaligned": "coalescing",
    "reread": "shared-memory",
    "bank_conflict": "shared-memory",
    "divergence": "warps",
    "gaps": "warps",
}
"""The lesson that belongs to a fault."""

_TRITON_SOURCE = (
    "Triton, triton-lang/triton: lib/Dialect/TritonGPU/Transforms/CoalesceUtils.cpp and the "
    "blocked layout of TritonGPUAttrDefs.td."
)
_NUMBA_SOURCE = "Numba documentation: debugging CUDA Python with the CUDA simulator."

_NOTES = {
    "triton_layout": Text(
        "Which lane holds which element is the compiler's choice. The rules of Triton's coalescing "
        "pass are applied to the addresses seen; the compiler may prove less than the addresses "
        "show, and passes after it may choose otherwise. Shared memory and its bank conflicts are "
        "the compiler's too: not available here."
    ),
    "mask_splits_vectors": Text(
        "Masks end inside what a lane could move at once, or the compiler cannot prove that they "
        "do not (a size that 16 does not divide): such accesses go element by element."
    ),
    "descriptor": Text(
        "Tensor descriptors are counted as ordinary accesses; on Hopper and later a copy engine "
        "(TMA) moves them without the lanes."
    ),
    "record_arrays": Text("Arrays of records (structured dtypes) were not followed."),
    "forall_block": Text(
        "forall leaves the block's size to Numba, which asks the device; 256 threads are assumed."
    ),
    "local_arrays": Text(
        "Arrays private to a thread (cuda.local) were not followed: small ones live in registers."
    ),
}


def explain_lens(lens: Lens) -> Explanation:
    """Return what a run of the lens means."""
    shown, times = _distinct(lens.launches)
    names = _names(shown, times)
    sections = []
    if len(shown) > 1:
        listed = overview(shown[:_MOST_ROWS], names[:_MOST_ROWS], lens.machine)
        sections.append(Section(Text("All launches"), (listed,)))
    for number in _worth_showing(shown, lens.machine):
        sections += _sections(shown[number], names[number], lens.machine, len(shown) > 1)
    return Explanation(
        topic="lens",
        title=Text(
            "{path} on {machine}: what its warps ask of memory",
            path=Path(lens.name).name,
            machine=lens.machine.name,
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


def _summary(lens: Lens, shown: list[Launch]) -> tuple[Text, ...]:
    found = [(r, launch) for launch in shown for r in remarks(launch, lens.machine)]
    found.sort(key=lambda pair: -pair[0].cost)
    worst = {(launch.kernel, remark.fault): remark for remark, launch in reversed(found)}
    chosen = sorted(worst.items(), key=lambda pair: -pair[1].cost)[:3]
    known = [
        Text("{kernel}: {what}", kernel=kernel, what=remark.what) for (kernel, _), remark in chosen
    ]
    # What may give wrong results comes before what costs time.
    dangers = sum(remark.cost == inf for _, remark in chosen)
    known.insert(dangers, _traffic_sentence(shown, lens.machine))
    if not found and any(launch.accesses for launch in shown):
        known.append(
            Text("Every request is about as small as its data allow, and no bank is asked twice.")
        )
    if not lens.complete:
        known.append(_stopped(lens))
    return tuple(known)


def _traffic_sentence(shown: list[Launch], machine: Machine) -> Text:
    worst = max(shown, key=lambda one: _times_least(one, machine))
    moved, ideal = moved_bytes(worst, machine), ideal_bytes(worst, machine)
    least = least_bytes(worst, machine)
    if not worst.threads:
        return Text(
            "{kernel}: the grid has no block, so nothing ran; a device refuses it.",
            kernel=worst.kernel,
        )
    if not moved:
        return Text("{kernel} touches no global memory.", kernel=worst.kernel)
    if moved <= least * 1.05:
        kernels = ", ".join(dict.fromkeys(launch.kernel for launch in shown))
        return Text(
            "{kernels}: requests to global memory move little more than each byte once.",
            kernels=kernels,
        )
    once = Text(
        "{kernel}: its requests move {moved} of global memory, {least} if each byte moved once: "
        "{times}.",
        kernel=worst.kernel,
        moved=Bytes(moved),
        least=Bytes(least),
        times=Ratio(moved / least),
    )
    if moved <= ideal * 1.05:
        return once
    return sentences(once, Text("Perfectly coalesced they would move {ideal}.", ideal=Bytes(ideal)))


def _times_least(launch: Launch, machine: Machine) -> float:
    least = least_bytes(launch, machine)
    return moved_bytes(launch, machine) / least if least else 0.0


def _stopped(lens: Lens) -> Text:
    return Text(
        "Stopped at the limit of {limit} accesses and line visits: the figures are those of the "
        "part that ran. Use smaller data, or raise --limit.",
        limit=Number(lens.limit, ","),
    )


def _names(shown: list[Launch], times: list[int]) -> list[Text]:
    """What each launch is called: its kernel, its numbers where others have the same kernel."""
    names = []
    for launch, often in zip(shown, times, strict=True):
        name = verbatim(launch.kernel)
        same = [other for other in shown if other.kernel == launch.kernel]
        if len(same) > 1:
            varying = [
                f"{key}={value}"
                for key, value in launch.scalars
                if any(dict(other.scalars).get(key) != value for other in same)
            ]
            which = verbatim(", ".join(varying)) or Text(
                "launch {number}", number=shown.index(launch) + 1
            )
            name = Text("{kernel} ({which})", kernel=name, which=which)
        names.append(
            Text("{kernel}, {often} times", kernel=name, often=often) if often > 1 else name
        )
    return names


def _worth_showing(shown: list[Launch], machine: Machine) -> list[int]:
    """Numbers of the launches with most to change, in their own order."""
    costs = [sum(remark.cost for remark in remarks(launch, machine)) for launch in shown]
    by_cost = sorted(range(len(shown)), key=lambda number: -costs[number])
    return sorted(by_cost[:_MOST_LAUNCHES])


def _sections(launch: Launch, title: Text, machine: Machine, several: bool) -> list[Section]:
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
        heading = _titled(title, Text("the worst requests"), several)
        sections.append(Section(heading, pictures))
    figures = [
        accesses_table(launch, machine) if launch.accesses else None,
        line_bars(launch, machine),
        level_bars(launch, machine),
        arrays_table(launch, machine),
        divergence_table(launch),
    ]
    there = tuple(block for block in figures if block is not None)
    if there:
        sections.append(Section(_titled(title, Text("traffic and reuse"), several), there))
    if found:
        sections.append(
            Section(
                _titled(title, Text("what to change"), several),
                tuple(_advice(remark) for remark in found[:_MOST_REMARKS]),
            )
        )
    return sections


def _titled(name: Text, title: Text, several: bool) -> Text:
    return joined([name, title], ": ") if several else capital(title)


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
        sentences(remark.what, remark.change),
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


def _assumptions(lens: Lens) -> tuple[Text, ...]:
    found = [
        Text(
            "Every access in the source counts. A compiler keeps values in registers where it can, "
            "so a device may make fewer."
        ),
        Text(
            "Arrays begin at aligned addresses, as a device's allocators place them. Figures are "
            "of the small data given; ratios carry over to larger data, amounts do not."
        ),
    ]
    if any(line.partial for launch in lens.launches for line in launch.activity):
        found.append(
            Text(
                "Active lanes are counted by line of the source. A device counts machine "
                "instructions, and a compiler turns short branches into masked ones."
            )
        )
    if any(a.space == "shared" and a.bytes_per_lane > 4 for x in lens.launches for a in x.accesses):
        found.append(
            Text("Accesses of 8 and 16 bytes a lane are served in halves and quarters of a warp.")
        )
    words = dict.fromkeys(note for launch in lens.launches for note in launch.notes)
    found += [_NOTES[word] for word in words]
    different = len(_distinct(lens.launches)[0])
    if different > _MOST_LAUNCHES:
        found.append(
            Text(
                "Of {different} launches that differ, the {full} with most to change are "
                "shown in full, the first {listed} are listed.",
                different=different,
                full=_MOST_LAUNCHES,
                listed=min(different, _MOST_ROWS),
            )
        )
    return tuple(found)
