"""What the lens saw: launches, and in each the accesses by source line.

Every count is over the whole launch. A *request* is one warp executing one access; its *sectors*
are the distinct pieces of global memory that its lanes touch, its *passes* the times that shared
memory has to be read for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpuscope.document.printable import counted, short_repr
from gpuscope.kernel_lens.machine import Machine

if TYPE_CHECKING:
    from gpuscope.document.blocks import Explanation

Space = Literal["global", "shared", "constant"]
Kind = Literal["load", "store", "atomic"]
Framework = Literal["numba", "triton"]


_SLIGHT = 1.05
"""Up to this much more than the least is not worth a remark."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One request, lane by lane.

    Attributes:
        block: its block in the grid (x, y, z).
        warp: number of the warp in the block.
        addresses: byte address of each lane, from the array's begin in global memory, from the
            block's shared memory otherwise; None for a lane that took no part.
    """

    block: tuple[int, int, int]
    warp: int
    addresses: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """All requests that one line makes to one array.

    Attributes:
        file, line: where it stands.
        array: name of the array.
        space, kind: which memory, and what is done.
        bytes_per_lane: bytes that one lane asks for at once.
        requests: warps' requests.
        lanes: lanes that took part, over all requests.
        asked_bytes: `lanes` times `bytes_per_lane`.
        sectors: sectors that the requests touch, each counted anew in each request; 0 where it is
            not global memory.
        ideal_sectors: the fewest that hold each request's distinct bytes.
        plain_sectors: what the same lanes would touch if each asked for a neighbour of its own;
            more than `ideal_sectors` where lanes share bytes.
        worst_sectors: of one request.
        cache_lines: cache lines that the requests touch.
        block_sectors: distinct sectors in each block, over all blocks.
        launch_sectors: distinct sectors in the launch.
        passes: times that shared memory is read for the requests; 0 where it is global memory.
        ideal_passes: without any conflict.
        worst_ways: most distinct words of one bank that a pass group of a request asks for.
        address_rounds: for atomics, the sum over requests of most lanes at one address.
        worst_rounds: most lanes at one address in a request.
        sample: the worst request.
    """

    file: str
    line: int
    array: str
    space: Space
    kind: Kind
    bytes_per_lane: int
    requests: int
    lanes: int
    asked_bytes: int
    sectors: int
    ideal_sectors: int
    plain_sectors: int
    worst_sectors: int
    cache_lines: int
    block_sectors: int
    launch_sectors: int
    passes: int
    ideal_passes: int
    worst_ways: int
    address_rounds: int
    worst_rounds: int
    sample: Sample

    @property
    def wasteful(self) -> bool:
        """Whether it costs clearly more than a well-placed access of the same lanes would."""
        return (
            self.sectors > self.plain_sectors * _SLIGHT
            or self.passes > self.ideal_passes * _SLIGHT
            or self.address_rounds > self.requests * _SLIGHT
        )

    @property
    def sectors_per_request(self) -> float:
        """Mean of sectors over requests."""
        return self.sectors / self.requests

    @property
    def passes_per_request(self) -> float:
        """Mean of passes over requests."""
        return self.passes / self.requests


@dataclass(frozen=True, slots=True)
class LineActivity:
    """How often warps executed a line, and with how many lanes.

    Attributes:
        file, line: the line.
        visits: times that a warp executed it.
        lanes: active lanes, over these times.
        present: lanes that the warp has, over these times.
        partial: times with fewer lanes than the warp has.
    """

    file: str
    line: int
    visits: int
    lanes: int
    present: int
    partial: int


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """What the launch did to one array in global memory.

    Attributes:
        name: of the kernel's argument.
        dtype, shape: of it; "" and () if unknown.
        touched_bytes: distinct bytes that lanes touched.
        once_bytes: the same, reads, writes and atomics apart: the least that has to be moved.
        asked_bytes: bytes that lanes asked for, each time counted.
        sectors: sectors of all requests.
        block_sectors: distinct sectors in each block, over all blocks, reads and writes apart.
        launch_sectors: distinct sectors in the launch, reads and writes apart.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    touched_bytes: int
    once_bytes: int
    asked_bytes: int
    sectors: int
    block_sectors: int
    launch_sectors: int


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """Text of a function that ran: the kernel, or a function that it calls.

    Attributes:
        file: where it stands.
        name: of the function.
        first_line: number of the first line.
        lines: its lines.
    """

    file: str
    name: str
    first_line: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier at which not all threads of a block met: undefined behaviour on a device.

    Attributes:
        file, line: the barrier that was reached.
        waiting: threads that wait there.
        elsewhere: threads of the same block that wait at another barrier or have ended.
    """

    file: str
    line: int
    waiting: int
    elsewhere: int


@dataclass(frozen=True, slots=True)
class Race:
    """Two warps that meet at words of shared memory without a barrier in between.

    Attributes:
        file, line: what writes.
        other_file, other_line: what reads or writes the same words in another warp.
        array: the shared array.
        words: how many words, over all blocks and intervals between barriers.
    """

    file: str
    line: int
    other_file: str
    other_line: int
    array: str
    words: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel.

    Attributes:
        kernel: its name.
        framework: "numba" or "triton".
        grid, block: blocks, and threads of a block (Triton: warps times lanes, 1, 1).
        scalars: names and values of arguments that are no arrays.
        functions: the kernel's source, then that of functions it called.
        accesses: by line, in the order of the source.
        activity: by line; empty for Triton, where lanes are masked, not branched.
        arrays: those in global memory that were touched.
        shared_bytes: shared memory of a block; None if it is the compiler's choice (Triton).
        barriers: barriers that not all threads reached.
        races: warps that meet in shared memory without a barrier in between.
        notes: stable words for what had to be assumed ("triton_layout", "mask_splits_vectors",
            "descriptor", "record_arrays", "local_arrays", "forall_block").
        complete: False where the limit was reached before its end.
    """

    kernel: str
    framework: Framework
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    functions: tuple[SourceFunction, ...]
    accesses: tuple[Access, ...]
    activity: tuple[LineActivity, ...]
    arrays: tuple[ArrayUse, ...]
    shared_bytes: int | None
    barriers: tuple[Barrier, ...] = ()
    notes: tuple[str, ...] = ()
    complete: bool = True
    scalars: tuple[tuple[str, str], ...] = ()
    races: tuple[Race, ...] = ()

    @property
    def threads(self) -> int:
        """Threads of the launch."""
        x, y, z = self.grid
        return x * y * z * self.threads_per_block

    @property
    def threads_per_block(self) -> int:
        """Threads of one block."""
        x, y, z = self.block
        return x * y * z

    @property
    def active_share(self) -> float | None:
        """Active lanes of all lanes present, over all lines executed; None if unknown."""
        present = sum(line.present for line in self.activity)
        return sum(line.lanes for line in self.activity) / present if present else None


@dataclass(frozen=True, slots=True)
class Lens:
    """All launches of one run.

    Attributes:
        name: what was run: "file.py:launch".
        machine: whose rules were applied.
        launches: in order.
        complete: False where the limit stopped the run early.
        limit: lane accesses and line visits allowed.
        seen: how many there were.
        printed: what the code printed.
    """

    name: str
    machine: Machine
    launches: tuple[Launch, ...]
    complete: bool
    limit: int
    seen: int
    printed: str = ""

    def __repr__(self) -> str:
        cut = None if self.complete else "cut short"
        return short_repr(self, self.name, counted(len(self.launches), "launch", "launches"), cut)

    def explanation(self) -> Explanation:
        """What it means, as an `Explanation` of topic "lens"."""
        from gpuscope.kernel_lens.explanation import explain_lens

        return explain_lens(self)
