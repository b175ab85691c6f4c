"""Memory block by block, as columns for the page; of predicted runs and of memory snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.printable import harmless
from gpuscope.run import Run
from gpuscope.timeline import simulate_memory
from gpuscope.timeline.memory_blocks import MemoryBlock, MemoryBlocks, blocks_of_trace


@dataclass(frozen=True, slots=True)
class BlockColumns:
    """A run's blocks, each a row; times of -1 lie before `begin_ns` and after `end_ns`.

    Attributes:
        begin_ns, end_ns: the stretch of time, on the timeline's clock.
        segments: (address, bytes) of what the allocator took, ascending.
        address, nbytes, born_ns, died_ns, op: see `MemoryBlock`; op is a row of `Timeline.ops`.
        category, owner, label, stack: rows of `words`, or of `stacks`; -1 for none.
        words: distinct categories, owners and labels.
        stacks: distinct stacks, each rows of `words`.
        left_out, left_out_bytes: blocks that are not here, and the largest one's bytes.
    """

    begin_ns: int
    end_ns: int
    segments: tuple[tuple[int, int], ...]
    address: tuple[int, ...]
    nbytes: tuple[int, ...]
    born_ns: tuple[int, ...]
    died_ns: tuple[int, ...]
    op: tuple[int, ...]
    category: tuple[int, ...]
    owner: tuple[int, ...]
    label: tuple[int, ...]
    stack: tuple[int, ...]
    words: tuple[str, ...]
    stacks: tuple[tuple[int, ...], ...]
    left_out: int
    left_out_bytes: int


def memory_block_columns(run: Run) -> BlockColumns | None:
    """Return what lay where over the step; None where nothing says it.

    Of a job it is the fullest rank's, as all the run's memory is. Addresses are counted from the
    lowest, so that they are whole numbers in a page, too.
    """
    found = _blocks(run)
    if found is None or not found.blocks:
        return None
    base = found.segments[0][0]
    words: dict[str, int] = {}
    stacks: dict[tuple[int, ...], int] = {}

    def number(text: str) -> int:
        return words.setdefault(harmless(text), len(words)) if text else -1

    def stack(block: MemoryBlock) -> int:
        lines = tuple(number(line) for line in block.stack)
        return stacks.setdefault(lines, len(stacks)) if lines else -1

    blocks = found.blocks
    return BlockColumns(
        begin_ns=found.begin_ns,
        end_ns=found.end_ns,
        segments=tuple((address - base, nbytes) for address, nbytes in found.segments),
        address=tuple(block.address - base for block in blocks),
        nbytes=tuple(block.nbytes for block in blocks),
        born_ns=tuple(-1 if block.born_ns is None else block.born_ns for block in blocks),
        died_ns=tuple(-1 if block.died_ns is None else block.died_ns for block in blocks),
        op=tuple(block.op for block in blocks),
        category=tuple(number(block.category) for block in blocks),
        owner=tuple(number(block.owner) for block in blocks),
        label=tuple(number(block.label) for block in blocks),
        stack=tuple(stack(block) for block in blocks),
        words=tuple(words),
        stacks=tuple(stacks),
        left_out=found.left_out,
        left_out_bytes=found.left_out_bytes,
    )


def _blocks(run: Run) -> MemoryBlocks | None:
    if run.memory_blocks is not None:
        return run.memory_blocks
    basis = run.basis
    holder = basis.holder if basis is not None and basis.holder is not None else run.program
    if holder is None or not holder.storages:
        return None
    story = run.analysis.memory
    trace = simulate_memory(holder, capacity_bytes=story.capacity_bytes if story else None)
    return blocks_of_trace(run.timeline, trace, basis.holder_op if basis is not None else 0)
