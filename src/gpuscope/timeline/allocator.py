"""PyTorch's CUDA caching allocator, as a model that needs no device.

Follows c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h of PyTorch 2.x with the
default settings (no `max_split_size`, no rounding to powers of two, no garbage collection):

- a request is rounded up to 512 bytes (`round_size`);
- up to 1 MiB it comes from the small pool, whose segments are 2 MiB; above from the large pool,
  whose segments are 20 MiB for requests below 10 MiB, else the request rounded up to 2 MiB
  (`get_allocation_size`);
- each stream has its own pools; the best fit (size, then address) is taken (`get_free_block`);
- a block is split when the rest is at least 512 bytes (small pool) or more than 1 MiB (large
  pool) (`should_split`); an unsplit rest counts as allocated, as `torch.cuda.memory_allocated`
  counts it;
- a freed block joins its free neighbours of the same segment (`try_merge_blocks`);
- segments are kept; only when the device is full are the wholly free ones given back, and the
  request tried again (`release_cached_blocks`).

With `expandable_segments` each pool of a stream is one range of addresses that grows at its end
by whole pages, 2 MiB in the small pool and 20 MiB in the large one (`ExpandableSegment`,
`try_allocate_expandable_block`), so that free neighbours can always join; blocks are split as in
the small pool.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError

MIN_BLOCK_BYTES = 512
SMALL_LIMIT_BYTES = 1 << 20
SMALL_SEGMENT_BYTES = 2 << 20
LARGE_SEGMENT_BYTES = 20 << 20
LARGE_LIMIT_BYTES = 10 << 20
ROUND_LARGE_BYTES = 2 << 20

_SEGMENT_SPACING_BYTES = 1 << 50
"""Distance between the address ranges of expandable segments; more than any device holds."""


@dataclass(slots=True, eq=False)
class Block:
    """A piece of a segment.

    Attributes:
        address: first byte.
        nbytes: length.
        pool: the pool it belongs to.
        free: whether it waits for re-use.
        before, after: neighbours in the same segment.
    """

    address: int
    nbytes: int
    pool: Pool
    free: bool = False
    before: Block | None = None
    after: Block | None = None


@dataclass(slots=True, eq=False)
class Pool:
    """Free blocks of one stream and one size class, sorted by (size, address).

    Attributes:
        small: for requests up to 1 MiB.
        base: first address of its expandable segment.
        order: (size, address) of each free block, ascending.
        blocks: free blocks by address.
        last: the last mapped block of the expandable segment.
    """

    small: bool
    base: int
    order: list[tuple[int, int]] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)
    last: Block | None = None

    def add(self, block: Block) -> None:
        """Put a block on the free list."""
        block.free = True
        insort(self.order, (block.nbytes, block.address))
        self.blocks[block.address] = block

    def remove(self, block: Block) -> None:
        """Take a block off the free list."""
        block.free = False
        del self.order[bisect_left(self.order, (block.nbytes, block.address))]
        del self.blocks[block.address]

    def best_fit(self, nbytes: int, *, keep: Block | None = None) -> Block | None:
        """The smallest free block of at least `nbytes`, the lowest address first.

        `keep` (the growing end of an expandable segment) is only taken when nothing else fits,
        since its size counts as all that it could grow to.
        """
        at = bisect_left(self.order, (nbytes, 0))
        while at < len(self.order):
            block = self.blocks[self.order[at][1]]
            if block is not keep:
                return block
            at += 1
        return keep if keep is not None and keep.free and keep.nbytes >= nbytes else None


class CachingAllocator:
    """Allocates and frees like PyTorch does on one device.

    Args:
        capacity_bytes: memory that segments may take in all; None for no limit.
        expandable_segments: as `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.

    Attributes:
        allocated_bytes: bytes of live blocks.
        reserved_bytes: bytes of all segments.
        out_of_memory: how many requests found no room even after a release; they are served
            beyond the capacity, so that a workload that does not fit can be described.
        releases: how often cached segments were given back to make room.
        segments: address and bytes of every segment or range of pages that was taken, in order.
    """

    def __init__(
        self, capacity_bytes: int | None = None, *, expandable_segments: bool = False
    ) -> None:
        if capacity_bytes is not None and capacity_bytes < 0:
            raise InvalidValueError(
                Text("A capacity of {capacity} bytes cannot be.", capacity=capacity_bytes),
                Text("It is negative."),
                Text("Pass the bytes that the device offers, or None for no limit."),
            )
        self.capacity_bytes = capacity_bytes
        self.expandable_segments = expandable_segments
        self.allocated_bytes = 0
        self.reserved_bytes = 0
        self.out_of_memory = 0
        self.releases = 0
        self.segments: list[tuple[int, int]] = []
        self._pools: dict[tuple[int, bool], Pool] = {}
        self._next_address = 0

    def allocate(self, nbytes: int, stream: int = 0) -> Block:
        """Serve a request of `nbytes` made on `stream`.

        Raises:
            InvalidValueError: `nbytes` is not positive (PyTorch makes no block for 0 bytes).
        """
        if nbytes <= 0:
            raise InvalidValueError(
                Text("Cannot allocate {nbytes} bytes.", nbytes=nbytes),
                Text("A block holds at least one byte."),
            )
        size = round_size(nbytes)
        pool = self._pool(stream, size <= SMALL_LIMIT_BYTES)
        block = pool.best_fit(size, keep=pool.last if self.expandable_segments else None)
        if block is not None:
            pool.remove(block)
        elif self.expandable_segments:
            block = self._grow(pool, size)
        else:
            block = self._segment(pool, size)
        self._split(block, size)
        self.allocated_bytes += block.nbytes
        return block

    def free(self, block: Block) -> None:
        """Take a block back and join it with its free neighbours.

        Raises:
            InvalidValueError: the block is already free.
        """
        if block.free:
            raise InvalidValueError(
                Text("The block is already free."), Text("It was freed before.")
            )
        self.allocated_bytes -= block.nbytes
        pool = block.pool
        before, after = block.before, block.after
        if before is not None and before.free:
            pool.remove(before)
            self._join(before, block)
            block = before
        if after is not None and after.free:
            pool.remove(after)
            self._join(block, after)
        pool.add(block)

    def cached_segments(self) -> list[int]:
        """Sizes of the segments (or mapped ranges) that hold no live block, ascending."""
        return sorted(
            block.nbytes
            for pool in self._pools.values()
            for block in pool.blocks.values()
            if block.before is None and block.after is None
        )

    def _pool(self, stream: int, small: bool) -> Pool:
        key = (stream, small)
        if key not in self._pools:
            base = (len(self._pools) + 1) * _SEGMENT_SPACING_BYTES
            self._pools[key] = Pool(small, base)
        return self._pools[key]

    def _segment(self, pool: Pool, size: int) -> Block:
        """A new segment as one block, as cudaMalloc would give it."""
        nbytes = segment_size(size)
        self._make_room(nbytes)
        self.reserved_bytes += nbytes
        block = Block(self._next_address, nbytes, pool)
        self.segments.append((self._next_address, nbytes))
        self._next_address += nbytes
        return block

    def _grow(self, pool: Pool, size: int) -> Block:
        """Map as many pages at the end of an expandable segment as the request still lacks."""
        page = SMALL_SEGMENT_BYTES if pool.small else LARGE_SEGMENT_BYTES
        last = pool.last
        tail = last.nbytes if last is not None and last.free else 0
        mapped = -(-(size - tail) // page) * page
        self._make_room(mapped)
        last = pool.last
        left = last.nbytes if last is not None and last.free else 0
        if left < tail:
            # The release unmapped the free end: more is missing than was asked room for.
            mapped = max(0, -(-(size - left) // page) * page)
            self._make_room(mapped)
            last = pool.last
        if last is not None and last.free:
            mapped = max(0, -(-(size - last.nbytes) // page) * page)
            pool.remove(last)
            self.segments.append((last.address + last.nbytes, mapped))
            last.nbytes += mapped
            block = last
        else:
            mapped = -(-size // page) * page
            end = pool.base if last is None else last.address + last.nbytes
            block = Block(end, mapped, pool, before=last)
            self.segments.append((end, mapped))
            if last is not None:
                last.after = block
            pool.last = block
        self.reserved_bytes += mapped
        return block

    def _make_room(self, nbytes: int) -> None:
        """Give free segments back if `nbytes` more would not fit; note it if that is in vain."""
        if self.capacity_bytes is None or self.reserved_bytes + nbytes <= self.capacity_bytes:
            return
        self._release()
        self.releases += 1
        if self.reserved_bytes + nbytes > self.capacity_bytes:
            self.out_of_memory += 1

    def _release(self) -> None:
        """Give back every wholly free segment; expandable ones unmap the free pages at the end."""
        for pool in self._pools.values():
            if self.expandable_segments:
                self._unmap_end(pool)
                continue
            whole = [b for b in pool.blocks.values() if b.before is None and b.after is None]
            for block in whole:
                pool.remove(block)
                self.reserved_bytes -= block.nbytes

    def _unmap_end(self, pool: Pool) -> None:
        """Unmap the whole pages of the free block at the end of an expandable segment."""
        last = pool.last
        if last is None or not last.free:
            return
        page = SMALL_SEGMENT_BYTES if pool.small else LARGE_SEGMENT_BYTES
        kept = -(-(last.address - pool.base) // page) * page - (last.address - pool.base)
        self.reserved_bytes -= last.nbytes - kept
        pool.remove(last)
        if kept:
            last.nbytes = kept
            pool.add(last)
        else:
            pool.last = last.before
            if last.before is not None:
                last.before.after = None

    def _split(self, block: Block, size: int) -> None:
        """Cut `block` to `size` where the rest is worth keeping apart."""
        rest = block.nbytes - size
        pool = block.pool
        if pool.small or self.expandable_segments:
            worth = rest >= MIN_BLOCK_BYTES
        else:
            worth = rest > SMALL_LIMIT_BYTES
        if not worth:
            return
        tail = Block(block.address + size, rest, pool, before=block, after=block.after)
        if block.after is not None:
            block.after.before = tail
        block.after = tail
        block.nbytes = size
        if pool.last is block:
            pool.last = tail
        pool.add(tail)

    @staticmethod
    def _join(first: Block, second: Block) -> None:
        """Make `first` swallow its right neighbour."""
        first.nbytes += second.nbytes
        first.after = second.after
        if second.after is not None:
            second.after.before = first
        if first.pool.last is second:
            first.pool.last = first


def round_size(nbytes: int) -> int:
    """Bytes of the block that a request needs: the next multiple of 512."""
    return -(-nbytes // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES


def segment_size(size: int) -> int:
    """Bytes of the segment that a rounded request asks the device for."""
    if size <= SMALL_LIMIT_BYTES:
        return SMALL_SEGMENT_BYTES
    if size < LARGE_LIMIT_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-size // ROUND_LARGE_BYTES) * ROUND_LARGE_BYTES
