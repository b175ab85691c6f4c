"""What is alive at the peak, by the line that allocated it and by category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuscope.document.text import Text
from gpuscope.timeline.allocator import round_size
from gpuscope.timeline.snapshot.frames import UNKNOWN, category, user_frame

BEFORE = Text("before the recording")
"""Label of blocks whose allocation the history does not show."""

MAX_HOLDERS = 50


@dataclass(frozen=True, slots=True)
class Live:
    """A block that is alive: where, how large, and the stack that allocated it (innermost first).

    `frames` is None where its allocation was not recorded; `lasts`: it is there until the end.
    """

    address: int
    nbytes: int
    frames: Sequence[Mapping[str, Any]] | None
    lasts: bool = False


def live_at(
    entries: Sequence[Mapping[str, Any]], point: int, final: Mapping[int, Live]
) -> list[Live]:
    """Return the blocks that are alive after the first `point` entries.

    Args:
        entries: the history.
        point: how many of its entries have happened.
        final: blocks alive after all of them, by address.

    Three sorts are alive: allocated within these entries and not freed in them; older than the
    history and freed later in it; older than the history and never freed. Of the second sort
    nothing but address and size is known.
    """
    live: dict[int, Live] = {}
    older: dict[int, Live] = {}
    touched: set[int] = set()
    later: set[int] = set()
    for index, entry in enumerate(entries):
        action = entry["action"]
        address = entry.get("addr")
        if action not in ("alloc", "free_requested") or not isinstance(address, int):
            continue
        if not 0 <= address < 2**64:
            continue
        size = entry.get("size")
        nbytes = round_size(size) if isinstance(size, int) and size > 0 else 0
        if action == "alloc":
            if index < point:
                live[address] = Live(address, nbytes, frames_of_entry(entry))
        elif address not in touched:
            if index >= point:
                older[address] = Live(address, nbytes, None)
        elif index < point:
            live.pop(address, None)
        touched.add(address)
        if index >= point:
            later.add(address)
    never = [block for address, block in final.items() if address not in touched]
    # What is still there at the end has its true size, rounded up where it was not split.
    known = [
        Live(a, final[a].nbytes, block.frames, True) if a in final and a not in later else block
        for a, block in live.items()
    ]
    return [*known, *older.values(), *never]


def at_peak(
    live: Sequence[Live], total_bytes: int
) -> tuple[Mapping[str, int], tuple[tuple[str, int, int], ...]]:
    """Sum live blocks by category and by line.

    Args:
        live: blocks alive at the peak.
        total_bytes: what was allocated then; what the blocks do not explain is "unknown", so that
            the categories add up to it.

    Returns:
        Bytes by category, and (line, bytes, blocks) of the lines that hold most; largest first.
    """
    categories: dict[str, int] = {}
    lines: dict[str, list[int]] = {}
    known: dict[tuple[int, bool], tuple[str, str]] = {}
    for block in live:
        key = id(block.frames), block.lasts  # equal stacks are one object in a pickle
        if key not in known or block.frames is None:
            known[key] = _describe(block)
        label, kind = known[key]
        categories[kind] = categories.get(kind, 0) + block.nbytes
        line = lines.setdefault(label, [0, 0])
        line[0] += block.nbytes
        line[1] += 1
    rest = total_bytes - sum(categories.values())
    if rest:
        # A few bytes either way: blocks that were not split are larger than their request.
        categories[UNKNOWN] = categories.get(UNKNOWN, 0) + rest
        if categories[UNKNOWN] < 0:
            _take_from_largest(categories)
    ordered = sorted(lines.items(), key=lambda item: -item[1][0])[:MAX_HOLDERS]
    return (
        {k: v for k, v in sorted(categories.items(), key=lambda item: -item[1]) if v},
        tuple((label, nbytes, count) for label, (nbytes, count) in ordered),
    )


def _take_from_largest(categories: dict[str, int]) -> None:
    """More was explained than there is: the largest categories give the difference."""
    excess = -categories.pop(UNKNOWN)
    for name in sorted(categories, key=lambda n: -categories[n]):
        taken = min(excess, categories[name])
        categories[name] -= taken
        excess -= taken


def _describe(block: Live) -> tuple[str, str]:
    if block.frames is None:
        return BEFORE, UNKNOWN
    return user_frame(block.frames) or Text("no stack recorded"), category(
        block.frames, block.lasts
    )


def frames_of_entry(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The stack of an entry of the history, innermost first; () where none was recorded."""
    frames = entry.get("frames")
    if not isinstance(frames, list | tuple):
        return ()
    # The very list of the pickle where it is whole, so that equal stacks stay one object.
    return frames if all(isinstance(f, dict) for f in frames) else ()
