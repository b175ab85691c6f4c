"""The blocks of a recorded history: each with its stack, from when to when it was there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuscope.timeline.allocator import round_size
from gpuscope.timeline.memory_blocks import MemoryBlock, MemoryBlocks, memory_blocks
from gpuscope.timeline.snapshot.frames import UNKNOWN, category, stack_of, user_frame
from gpuscope.timeline.snapshot.holders import BEFORE, Live, frames_of_entry

MOST_FRAMES = 12
"""Lines of a stack that are kept."""

_FARTHEST = 2**63
"""No address of a device lies beyond."""


def recorded_blocks(
    entries: Sequence[Mapping[str, Any]],
    time_ns: Sequence[int],
    final: Mapping[int, Live],
    segments: Sequence[tuple[int, int]],
) -> MemoryBlocks | None:
    """Follow a history from its begin to its end; None where nothing was there.

    Args:
        entries: the history.
        time_ns: when each entry happened, ascending.
        final: blocks alive after all of them, by address.
        segments: address and bytes of the segments at the end.
    """
    found = list(_lives(entries, time_ns, final))
    if not found:
        return None
    taken = [
        (entry["addr"], entry["size"])
        for entry in entries
        if entry["action"] in ("segment_alloc", "segment_map") and _placed(entry)
    ]
    begin, end = (time_ns[0], time_ns[-1]) if len(time_ns) else (0, 0)
    return memory_blocks(begin, max(end, begin + 1), found, [*segments, *taken])


def _lives(
    entries: Sequence[Mapping[str, Any]], time_ns: Sequence[int], final: Mapping[int, Live]
) -> Iterator[MemoryBlock]:
    open_: dict[int, tuple[int, Mapping[str, Any]]] = {}
    touched: set[int] = set()
    describe = _Describe()
    for index, entry in enumerate(entries):
        if entry["action"] not in ("alloc", "free_requested") or not _placed(entry):
            continue
        address = entry["addr"]
        if entry["action"] == "alloc":
            open_[address] = (time_ns[index], entry)
        elif address in open_:
            born, made = open_.pop(address)
            yield describe(made, born, time_ns[index])
        elif address not in touched:
            yield MemoryBlock(
                address, round_size(entry["size"]), None, time_ns[index], UNKNOWN, label=BEFORE
            )
        touched.add(address)
    for born, made in open_.values():
        yield describe(made, born, None)
    for address, live in final.items():
        if address not in touched and live.nbytes > 0:
            yield describe.never_freed(live)


class _Describe:
    """Says whose a block is; equal stacks, which are one object in a pickle, are read once."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, bool], tuple[str, str, tuple[str, ...]]] = {}

    def __call__(self, entry: Mapping[str, Any], born: int, died: int | None) -> MemoryBlock:
        kind, line, stack = self.of(frames_of_entry(entry), died is None)
        size = round_size(entry["size"])
        return MemoryBlock(entry["addr"], size, born, died, kind, label=line, stack=stack)

    def never_freed(self, live: Live) -> MemoryBlock:
        kind, line, stack = self.of(live.frames or (), True)
        line = line or BEFORE
        return MemoryBlock(live.address, live.nbytes, None, None, kind, label=line, stack=stack)

    def of(
        self, frames: Sequence[Mapping[str, Any]], lasts: bool
    ) -> tuple[str, str, tuple[str, ...]]:
        key = id(frames), lasts
        if key not in self.known:
            stack = stack_of(frames, MOST_FRAMES)
            self.known[key] = category(frames, lasts), user_frame(frames), stack
        return self.known[key]


def _placed(entry: Mapping[str, Any]) -> bool:
    address, size = entry.get("addr"), entry.get("size")
    return (
        isinstance(address, int)
        and isinstance(size, int)
        and not isinstance(address, bool)
        and 0 <= address < _FARTHEST
        and size > 0
    )
