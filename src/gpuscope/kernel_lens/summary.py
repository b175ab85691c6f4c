"""From a launch's requests to figures by line and by array."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gpuscope.kernel_lens import requests as cost
from gpuscope.kernel_lens.machine import Machine
from gpuscope.kernel_lens.recorder import Allocation, OpenLaunch, Requests, Site, activity_of
from gpuscope.kernel_lens.types import Access, ArrayUse, Launch, Race, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuscope.kernel_lens.requests import Addresses, Counts


_ORDER = ("load", "atomic", "store")
"""What one line does, in the order in which it is told."""


def summarise(launch: OpenLaunch, machine: Machine, complete: bool) -> Launch:
    """Close a launch.

    Args:
        launch: what was recorded.
        machine: whose sectors, lines and banks are counted.
        complete: whether it ran to its end.
    """
    merged = {site: _by_size(parts) for site, parts in launch.requests.items()}
    accesses = [
        _access(site, part, launch, machine) for site, parts in merged.items() for part in parts
    ]
    functions = tuple(launch.functions.values())
    order = {function.file: index for index, function in enumerate(functions)}
    accesses.sort(
        key=lambda a: (order.get(a.file, len(order)), a.file, a.line, _ORDER.index(a.kind))
    )
    return Launch(
        kernel=launch.kernel,
        framework=launch.framework,
        grid=launch.grid,
        block=launch.block,
        functions=functions,
        accesses=tuple(accesses),
        activity=activity_of(launch),
        arrays=_arrays(merged, launch.allocations, machine),
        shared_bytes=launch.shared_bytes,
        barriers=tuple(launch.barriers.values()),
        notes=tuple(launch.notes),
        complete=complete,
        scalars=tuple(launch.scalars.items()),
        races=tuple(Race(*place, words) for place, words in sorted(launch.races.items())),
    )


def _by_size(parts: Sequence[Requests]) -> list[Requests]:
    """One `Requests` for each size of access."""
    return [
        Requests(
            np.concatenate([p.blocks for p in parts if p.bytes_per_lane == size]),
            np.concatenate([p.warps for p in parts if p.bytes_per_lane == size]),
            np.concatenate([p.addresses for p in parts if p.bytes_per_lane == size]),
            np.concatenate([p.active for p in parts if p.bytes_per_lane == size]),
            size,
        )
        for size in sorted({p.bytes_per_lane for p in parts})
    ]


def _access(site: Site, part: Requests, launch: OpenLaunch, machine: Machine) -> Access:
    addresses, active, size = part.addresses, part.active, part.bytes_per_lane
    on_chip = site.space != "global"
    zero = np.zeros(len(addresses), dtype=np.int64)
    sectors = ideal = plain = lines = passes = ways = ideal_passes = rounds = zero
    distinct = (0, 0)
    if on_chip:
        passes, ways, ideal_passes = _passes(site, part, machine)
    else:
        sectors = cost.pieces_per_request(addresses, active, size, machine.sector_bytes)
        ideal = cost.ideal_pieces(addresses, active, size, machine.sector_bytes)
        plain = -(-active.sum(axis=1) * size // machine.sector_bytes)
        lines = cost.pieces_per_request(addresses, active, size, machine.line_bytes)
        distinct = _distinct_sectors([part], machine.sector_bytes)
    if site.kind == "atomic":
        rounds = cost.lanes_at_one_address(addresses, active)
    lanes = int(active.sum())
    return Access(
        file=site.file,
        line=site.line,
        array=site.array,
        space=site.space,
        kind=site.kind,
        bytes_per_lane=size,
        requests=len(addresses),
        lanes=lanes,
        asked_bytes=lanes * size,
        sectors=int(sectors.sum()),
        ideal_sectors=int(ideal.sum()),
        plain_sectors=int(plain.sum()),
        worst_sectors=int(sectors.max()),
        cache_lines=int(lines.sum()),
        block_sectors=distinct[0],
        launch_sectors=distinct[1],
        passes=int(passes.sum()),
        ideal_passes=int(ideal_passes.sum()),
        worst_ways=int(ways.max()),
        address_rounds=int(rounds.sum()),
        worst_rounds=int(rounds.max()),
        sample=_sample(part, _badness(sectors - ideal, passes - ideal_passes, rounds), launch),
    )


def _passes(site: Site, part: Requests, machine: Machine) -> tuple[Counts, Counts, Counts]:
    if site.space == "constant":
        # The constant cache serves one word at a time to all lanes that ask for it.
        words = cost.pieces_per_request(
            part.addresses, part.active, part.bytes_per_lane, machine.bank_bytes
        )
        return words, words, np.minimum(words, -(-part.bytes_per_lane // machine.bank_bytes))
    return cost.bank_passes(
        part.addresses,
        part.active,
        part.bytes_per_lane,
        machine.banks,
        machine.bank_bytes,
        machine.pairs_merge,
    )


def _badness(waste: Counts, conflicts: Counts, rounds: Counts) -> Counts:
    return waste + conflicts + rounds


def _sample(part: Requests, badness: Counts, launch: OpenLaunch) -> Sample:
    # Of equally bad ones, that with the most lanes shows most.
    score = badness * (part.active.shape[1] + 1) + part.active.sum(axis=1)
    worst = int(score.argmax())
    addresses, active = part.addresses[worst], part.active[worst]
    base = 0
    for one in launch.allocations:
        if active.any() and one.base <= addresses[active].min() < one.base + one.size_bytes:
            base = one.base
    nx, ny, _ = launch.grid
    block = int(part.blocks[worst])
    return Sample(
        block=(block % nx, block // nx % ny, block // (nx * ny)),
        warp=int(part.warps[worst]),
        addresses=tuple(
            int(a) - base if on else None for a, on in zip(addresses, active, strict=True)
        ),
    )


def _distinct_sectors(parts: Sequence[Requests], sector_bytes: int) -> tuple[int, int]:
    """Distinct sectors in each block, over all blocks; and in the launch."""
    blocks: list[Counts] = []
    sectors: list[Addresses] = []
    for part in parts:
        pieces = cost.segments(part.addresses, part.active, part.bytes_per_lane, sector_bytes)
        used = pieces != np.iinfo(np.int64).max
        blocks.append(np.broadcast_to(part.blocks[:, None], pieces.shape)[used])
        sectors.append(pieces[used])
    if not blocks:
        return 0, 0
    pairs = np.unique(np.stack([np.concatenate(blocks), np.concatenate(sectors)]), axis=1)
    return pairs.shape[1], len(np.unique(pairs[1]))


def _arrays(
    merged: dict[Site, list[Requests]], allocations: Sequence[Allocation], machine: Machine
) -> tuple[ArrayUse, ...]:
    found = []
    for one in allocations:
        by_kind: dict[str, list[Requests]] = {}
        for site, group in merged.items():
            if site.space == "global" and site.array == one.name:
                by_kind.setdefault(site.kind, []).extend(group)
        if by_kind:
            found.append(_array(one, by_kind, machine))
    return tuple(found)


def _array(one: Allocation, by_kind: dict[str, list[Requests]], machine: Machine) -> ArrayUse:
    """What reads, writes and atomics do to an array; each of them has to move its bytes once."""
    everything = [part for group in by_kind.values() for part in group]
    sectors = [
        cost.pieces_per_request(p.addresses, p.active, p.bytes_per_lane, machine.sector_bytes).sum()
        for p in everything
    ]
    once = [_distinct_sectors(group, machine.sector_bytes) for group in by_kind.values()]
    return ArrayUse(
        name=one.name,
        dtype=one.dtype,
        shape=one.shape,
        touched_bytes=_covered(everything),
        once_bytes=sum(_covered(group) for group in by_kind.values()),
        asked_bytes=sum(int(p.active.sum()) * p.bytes_per_lane for p in everything),
        sectors=int(sum(sectors)),
        block_sectors=sum(blocks for blocks, _ in once),
        launch_sectors=sum(launch for _, launch in once),
    )


def _covered(parts: Sequence[Requests]) -> int:
    """Distinct bytes that these requests ask for."""
    starts = np.concatenate([p.addresses[p.active] for p in parts])
    sizes = np.concatenate(
        [np.full(int(p.active.sum()), p.bytes_per_lane, dtype=np.int64) for p in parts]
    )
    return cost.covered_bytes(starts, sizes)


def stride_bytes(sample: Sample) -> tuple[int, bool] | None:
    """The usual distance of addresses from lane to lane, and whether it is the only one.

    Between two lanes with inactive ones in between, the distance is shared out over them. None
    where no distance is usual (that of seven pairs in ten) or whole.
    """
    active = [(lane, a) for lane, a in enumerate(sample.addresses) if a is not None]
    steps = Counter((b - a) / (m - n) for (n, a), (m, b) in pairwise(active))
    if not steps:
        return None
    step, times = steps.most_common(1)[0]
    if step != int(step) or times < 0.7 * (len(active) - 1):
        return None
    return int(step), len(steps) == 1
