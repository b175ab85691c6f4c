"""Device memory block by block: what lay where, from when to when, whose it was, who asked for it.

One type for a predicted step (the allocator's model) and a recorded snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuscope.timeline.memory import MemoryTrace, point_times_ns
from gpuscope.timeline.types import Timeline

MOST_BLOCKS = 5_000
"""Most blocks that are kept: those that hold most bytes for longest."""


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """One block of the caching allocator.

    Attributes:
        address: where it begins, on the allocator's own count.
        nbytes: as the allocator rounds it.
        born_ns, died_ns: when it was allocated and freed; None: before the begin, after the end.
        category: what it holds ("parameter", "activation", ...).
        owner: the module that owns or made it; "" where unknown.
        label: the tensor or operator ("weight", "aten::mm output"); of a recording the user's line.
        op: row of the operator that allocated it in `Timeline.ops`; -1 where none is known.
        stack: lines that asked for it, innermost first; () where none was recorded.
    """

    address: int
    nbytes: int
    born_ns: int | None
    died_ns: int | None
    category: str
    owner: str = ""
    label: str = ""
    op: int = -1
    stack: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryBlocks:
    """The blocks of one device over a stretch of time.

    Attributes:
        begin_ns, end_ns: the stretch, on the timeline's clock.
        blocks: in order of address.
        segments: (address, bytes) of what the allocator took from the device; disjoint, ascending.
        left_out, left_out_bytes: blocks beyond `MOST_BLOCKS`, and the bytes of the largest of them.
    """

    begin_ns: int
    end_ns: int
    blocks: tuple[MemoryBlock, ...]
    segments: tuple[tuple[int, int], ...]
    left_out: int = 0
    left_out_bytes: int = 0


def memory_blocks(
    begin_ns: int, end_ns: int, blocks: Iterable[MemoryBlock], segments: Iterable[tuple[int, int]]
) -> MemoryBlocks:
    """Put blocks in order, keep the ones that weigh most, and join the segments that touch."""

    def weight(block: MemoryBlock) -> int:
        born = begin_ns if block.born_ns is None else block.born_ns
        died = end_ns if block.died_ns is None else block.died_ns
        return block.nbytes * max(1, died - born)

    ranked = sorted(blocks, key=weight, reverse=True)
    kept, rest = ranked[:MOST_BLOCKS], ranked[MOST_BLOCKS:]
    kept.sort(key=lambda block: (block.address, -1 if block.born_ns is None else block.born_ns))
    own = [(block.address, block.nbytes) for block in kept]
    return MemoryBlocks(
        begin_ns,
        end_ns,
        tuple(kept),
        _joined([*segments, *own]),
        len(rest),
        max((block.nbytes for block in rest), default=0),
    )


def _joined(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges without those inside others; what only touches stays apart."""
    found: list[list[int]] = []
    for address, nbytes in sorted(ranges, key=lambda each: (each[0], -each[1])):
        if nbytes <= 0:
            continue
        if found and address < found[-1][0] + found[-1][1]:
            found[-1][1] = max(found[-1][1], address + nbytes - found[-1][0])
        else:
            found.append([address, nbytes])
    return tuple((address, nbytes) for address, nbytes in found)


def blocks_of_trace(timeline: Timeline, trace: MemoryTrace, first_op: int = 0) -> MemoryBlocks:
    """The blocks of a predicted step.

    Args:
        timeline: of the step.
        trace: its memory.
        first_op: number of the program's first operator in `Timeline.ops`.
    """
    time_ns = point_times_ns(timeline, trace, first_op).tolist()
    end = len(time_ns) - 1

    def made() -> Iterable[MemoryBlock]:
        for life in trace.lives:
            died = None if life.died is None or life.died > end else time_ns[life.died]
            born = life.storage.born
            yield MemoryBlock(
                life.address,
                life.nbytes,
                None if life.born <= 0 else time_ns[min(life.born, end)],
                died,
                life.storage.category,
                life.storage.module,
                life.storage.label,
                born + first_op if life.born > 0 and born >= 0 else -1,
            )

    return memory_blocks(time_ns[0], time_ns[-1], made(), trace.segments)
