"""Device memory over a step: what is allocated, what is reserved, and who holds it at the peak.

Lifetimes come from the captured program, sizes and segments from the caching allocator's model
(`gpuscope.timeline.allocator`). Memory that only the first step of a run needs
(`Program.first_step_extra_bytes`) is not part of it.

What comes and goes within a CUDA graph of eager kernels lies in the graph's own pool: a replay asks
the allocator for nothing, so that memory is reserved, but none of it counts as allocated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.types import Category, Program, Storage
from gpuscope.timeline.allocator import Block, CachingAllocator
from gpuscope.timeline.simulate import Simulation
from gpuscope.timeline.types import DEVICE_KINDS, Counter, Ints, Timeline

MAX_HOLDERS = 50
"""How many groups `MemoryTrace.holders` lists at most."""

_REPLACED: frozenset[Category] = frozenset({"activation", "temporary", "input"})
"""Results that outlive a step without a successor freed in the next: the caller drops the old one
when it has the new one. Anything else that outlives the step is made once and stays."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Memory that one module holds under one label at the peak."""

    module: str
    label: str
    category: Category
    nbytes: int
    count: int


@dataclass(frozen=True, slots=True)
class MemoryTrace:
    """Memory over the last simulated step.

    Attributes:
        op: operator index of each point; the first is -1, the state before the step.
        allocated_bytes: bytes of live blocks at each point, after the operator's allocations.
        reserved_bytes: bytes of all segments at each point.
        peak_allocated_bytes, peak_reserved_bytes: largest of the curves.
        peak_op: operator index at the (first) peak of the allocated bytes.
        at_peak: bytes by category at the peak, largest first; they add up to the peak.
        holders: the largest groups by module, label and category at the peak.
        capacity_bytes: what the device offers, None if no limit was set.
        fits: whether every request found room.
        releases: how often cached segments had to be given back (slow on a real device).
        by_category: bytes of each category at each point, those with most at the peak first; they
            add up to `allocated_bytes`.
        failed: the first request that found no room, in whichever step: operator index (-1 for
            what is there before the step), and the storage that was asked for; None where all did.
        by_module: bytes by the module that owns or made them at the peak, largest first; they add
            up to the peak.
        lives: every allocation that is there at some point of the last step, in order of birth.
        segments: address and bytes of every segment that was taken, in order.
    """

    op: Ints
    allocated_bytes: Ints
    reserved_bytes: Ints
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_op: int
    at_peak: tuple[tuple[Category, int], ...]
    holders: tuple[Holder, ...]
    capacity_bytes: int | None
    fits: bool
    releases: int
    by_category: tuple[tuple[Category, Ints], ...] = ()
    by_module: tuple[tuple[str, int], ...] = ()
    failed: tuple[int, Storage] | None = None
    lives: tuple[Life, ...] = ()
    segments: tuple[tuple[int, int], ...] = ()

    @property
    def excess_bytes(self) -> int:
        """How far the reserved memory goes beyond the capacity; 0 where it fits."""
        if self.capacity_bytes is None:
            return 0
        return max(0, self.peak_reserved_bytes - self.capacity_bytes)


@dataclass(slots=True)
class Life:
    """One allocation: whose, its block's bytes and address, and the points where it lived.

    Points are counted over all steps; of `MemoryTrace.lives` from the first of the last step, so
    that what was there before has a negative one.
    """

    storage: Storage
    nbytes: int
    address: int
    born: int
    died: int | None = None


@dataclass(slots=True)
class _Plan:
    """Storages by the operator that allocates or frees them.

    `end` is one past the last operator. `succeeded` holds what the step before left behind and
    this step frees. `once` are storages that only the first step makes. The first step of a run is
    cold: `absent` gradients are not there yet, and `late` optimizer states are made by the first
    operator of the optimizer.
    """

    births: dict[int, list[Storage]] = field(default_factory=lambda: defaultdict(list))
    deaths: dict[int, list[Storage]] = field(default_factory=lambda: defaultdict(list))
    succeeded: dict[int, list[Storage]] = field(default_factory=lambda: defaultdict(list))
    once: set[int] = field(default_factory=set)
    absent: set[int] = field(default_factory=set)
    late: list[Storage] = field(default_factory=list)
    late_at: int = -1

    def succeed(self, old: Storage, new: Storage, end: int) -> None:
        """Free `new` in the next step where `old` is freed in the captured one."""
        self.succeeded[end if old.died is None else min(old.died, end)].append(new)
        if "gradient" in (old.category, new.category):
            self.absent.add(old.id)


def simulate_memory(
    program: Program,
    capacity_bytes: int | None = None,
    steps: int = 3,
    *,
    expandable_segments: bool = False,
) -> MemoryTrace:
    """Run the program's allocations through the allocator, step after step.

    Storages born before the step come first, in order. Before operator i the storages that died
    there are freed, then those born at i are allocated. What a step leaves behind (gradients, a
    grown cache, the loss) is freed in the next where the captured step freed its like.

    With more than one step the first is cold, as in a real run: gradients of a step before are
    not there, and optimizer states are made when the optimizer first runs, in the memory that the
    activations have left. So the later steps find the segments, holes included, as a real run
    finds them.

    Args:
        program: the captured step.
        capacity_bytes: memory that the allocator may reserve; None for no limit.
        steps: steps to run; the last one is reported, with the segments that the others left.
        expandable_segments: allocator setting of that name.

    Raises:
        InvalidValueError: `steps` is less than 1.
    """
    if steps < 1:
        raise InvalidValueError(
            Text("Cannot simulate {steps} steps.", steps=steps),
            Text("At least one is needed."),
            Text("Pass steps=3."),
        )
    allocator = CachingAllocator(capacity_bytes, expandable_segments=expandable_segments)
    run = _Run(program, allocator, cold=steps > 1)
    for step in range(steps):
        run.step(first=step == 0)
    return run.trace(capacity_bytes)


class _Run:
    """A program's allocations under way."""

    def __init__(self, program: Program, allocator: CachingAllocator, *, cold: bool) -> None:
        self.allocator = allocator
        self.graphs = CachingAllocator()
        self.pooled: dict[int, Block] = {}
        self.ops = program.ops
        self.plan = _plan(program)
        self.passing = {
            s.id
            for s in program.storages
            if s.born >= 0 and s.died is not None and program.replays(program.ops[s.born])
        }
        self.clock = 0
        self.blocks: dict[int, Block] = {}
        self.lives: dict[int, Life] = {}
        self.left: dict[int, tuple[Block, Life]] = {}
        self.history: list[Life] = []
        self.first_point = 0
        self.allocated: list[int] = []
        self.reserved: list[int] = []
        self.failed: tuple[int, Storage] | None = None
        self.late = self.plan.late if cold else []
        missing = self.plan.absent | {s.id for s in self.plan.late} if cold else set()
        for storage in program.storages:
            if storage.born < 0 and storage.id not in missing:
                self.allocate(storage, 0)
        self.keep_what_the_build_held(program.build_peak_bytes)

    def keep_what_the_build_held(self, peak_bytes: int) -> None:
        """Memory that was freed before the first step stays reserved, for the steps to use."""
        spare = peak_bytes - self.allocator.reserved_bytes
        capacity = self.allocator.capacity_bytes
        if spare > 0 and (capacity is None or peak_bytes <= capacity):
            self.allocator.free(self.allocator.allocate(spare, 0))

    def allocate(self, storage: Storage, stream: int) -> None:
        """Give a storage its block; empty ones need none."""
        if storage.nbytes <= 0:
            return
        if storage.id in self.passing:
            self.pooled[storage.id] = self.graphs.allocate(storage.nbytes, stream)
            return
        block = self.allocator.allocate(storage.nbytes, stream)
        if self.failed is None and self.allocator.out_of_memory:
            self.failed = (len(self.allocated) - 1, storage)
        life = Life(storage, block.nbytes, block.address, self.clock)
        self.blocks[storage.id], self.lives[storage.id] = block, life
        self.history.append(life)

    def free(self, storage: Storage) -> None:
        """Free a storage's block, if it has one."""
        block = self.blocks.pop(storage.id, None)
        if block is not None:
            self.lives.pop(storage.id).died = self.clock
            self.allocator.free(block)
        elif storage.id in self.pooled:
            self.graphs.free(self.pooled.pop(storage.id))

    def free_left(self, storage: Storage) -> None:
        """Free what the step before left behind under this storage."""
        pair = self.left.pop(storage.id, None)
        if pair is not None:
            pair[1].died = self.clock
            self.allocator.free(pair[0])

    def step(self, *, first: bool) -> None:
        """Run one step; the curves start anew."""
        plan = self.plan
        if not first:
            for storages in plan.succeeded.values():
                for storage in storages:
                    if storage.id in self.blocks:
                        life = self.lives.pop(storage.id)
                        self.left[storage.id] = (self.blocks.pop(storage.id), life)
        self.first_point, self.allocated, self.reserved = self.clock, [], []
        self.point()
        for index, op in enumerate(self.ops):
            for storage in plan.deaths.get(index, ()):
                self.free(storage)
            for storage in plan.succeeded.get(index, ()):
                self.free_left(storage)
            if index == plan.late_at:
                self.make_states()
            for storage in plan.births.get(index, ()):
                if first or storage.id not in plan.once:
                    self.allocate(storage, op.stream)
            self.point()
        end = len(self.ops)
        for storage in plan.deaths.get(end, ()):
            self.free(storage)
        for storage in plan.succeeded.get(end, ()):
            self.free_left(storage)

    def make_states(self) -> None:
        """Allocate the optimizer states, in the cold step only."""
        for storage in self.late:
            self.allocate(storage, 0)
        self.late = []

    def point(self) -> None:
        """Note the state at this point."""
        self.allocated.append(self.allocator.allocated_bytes)
        self.reserved.append(self.allocator.reserved_bytes + self.graphs.reserved_bytes)
        self.clock += 1

    def trace(self, capacity_bytes: int | None) -> MemoryTrace:
        """What the last step looked like."""
        allocated = np.array(self.allocated, np.int64)
        reserved = np.array(self.reserved, np.int64)
        at = int(allocated.argmax())
        point = self.first_point + at
        live = [
            life
            for life in self.history
            if life.born <= point and (life.died is None or life.died > point)
        ]
        return MemoryTrace(
            op=np.arange(-1, len(self.ops), dtype=np.int64),
            allocated_bytes=allocated,
            reserved_bytes=reserved,
            peak_allocated_bytes=int(allocated[at]),
            peak_reserved_bytes=int(reserved.max()),
            peak_op=at - 1,
            at_peak=_by_category(live),
            holders=_holders(live),
            capacity_bytes=capacity_bytes,
            fits=self.allocator.out_of_memory == 0,
            releases=self.allocator.releases,
            by_category=_category_curves(self.history, self.first_point, len(allocated), at),
            by_module=_by_module(live),
            failed=self.failed,
            lives=tuple(self.last_lives()),
            segments=tuple(self.allocator.segments),
        )

    def last_lives(self) -> Iterator[Life]:
        """What was there in the last step, with points counted from its first."""
        first = self.first_point
        for life in self.history:
            if life.died is None or life.died > first:
                died = None if life.died is None else life.died - first
                yield replace(life, born=life.born - first, died=died)


def _plan(program: Program) -> _Plan:
    """Sort the storages by operator, and find who succeeds what a step leaves behind."""
    plan, end = _Plan(), len(program.ops)
    optimizer = (i for i, op in enumerate(program.ops) if op.phase == "optimizer")
    plan.late_at = next(optimizer, -1)
    replaced: dict[tuple[Category, int], list[Storage]] = defaultdict(list)
    survivors: list[Storage] = []
    for storage in program.storages:
        if storage.born >= 0:
            plan.births[storage.born].append(storage)
        if storage.died is not None:
            plan.deaths[min(storage.died, end)].append(storage)
            if storage.born < 0:
                replaced[storage.category, storage.nbytes].append(storage)
        elif storage.born >= 0:
            survivors.append(storage)
        elif storage.category == "optimizer_state" and plan.late_at >= 0:
            plan.late.append(storage)
    unmatched = []
    for storage in survivors:
        like = replaced[storage.category, storage.nbytes]
        if like:
            plan.succeed(like.pop(0), storage, end)
        else:
            unmatched.append(storage)
    freed = [s for like in replaced.values() for s in like]
    unmatched = _match_by(lambda s: (s.label, s.module, s.nbytes), plan, unmatched, freed, end)
    gradients = [s for s in unmatched if s.category == "gradient"]
    others = [s for s in unmatched if s.category != "gradient"]
    unmatched = others + _match_by(lambda s: s.nbytes, plan, gradients, freed, end)
    _match_by_rank(plan, unmatched, freed, end)
    return plan


def _match_by(
    key: Callable[[Storage], Hashable],
    plan: _Plan,
    left: list[Storage],
    freed: list[Storage],
    end: int,
) -> list[Storage]:
    """Match what has a like by a key: a category guessed for what was there before may differ.

    By size and origin the outputs that a pipeline keeps until its next step; by size alone the
    gradients of parameters that no optimizer has. What is matched is taken out of `freed`; returns
    the others.
    """
    like: dict[Hashable, list[Storage]] = defaultdict(list)
    for storage in freed:
        like[key(storage)].append(storage)
    others = []
    for storage in left:
        found = like[key(storage)]
        if found and storage.label:
            old = found.pop(0)
            freed.remove(old)
            plan.succeed(old, storage, end)
        else:
            others.append(storage)
    return others


def _match_by_rank(plan: _Plan, left: list[Storage], freed: list[Storage], end: int) -> None:
    """Match what has no like of its own size: by category, in order of size (a growing cache)."""
    by_category: dict[Category, list[Storage]] = defaultdict(list)
    for storage in sorted(freed, key=lambda s: s.nbytes):
        by_category[storage.category].append(storage)
    for storage in sorted(left, key=lambda s: s.nbytes):
        if by_category[storage.category]:
            plan.succeed(by_category[storage.category].pop(0), storage, end)
        elif storage.category in _REPLACED:
            plan.succeeded[end].append(storage)
        else:
            plan.once.add(storage.id)


def _by_category(live: list[Life]) -> tuple[tuple[Category, int], ...]:
    """Bytes by category, largest first."""
    total: dict[Category, int] = defaultdict(int)
    for life in live:
        total[life.storage.category] += life.nbytes
    return tuple(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _by_module(live: list[Life]) -> tuple[tuple[str, int], ...]:
    """Bytes by module, largest first."""
    total: dict[str, int] = defaultdict(int)
    for life in live:
        total[life.storage.module] += life.nbytes
    return tuple(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _category_curves(
    history: list[Life], first: int, points: int, peak: int
) -> tuple[tuple[Category, Ints], ...]:
    """Live bytes of each category at each point of the last step."""
    change: dict[Category, Ints] = defaultdict(lambda: np.zeros(points + 1, np.int64))
    for life in history:
        died = points if life.died is None else min(life.died - first, points)
        born = max(life.born - first, 0)
        if died > born:
            row = change[life.storage.category]
            row[born] += life.nbytes
            row[died] -= life.nbytes
    curves = {category: np.cumsum(row[:-1]) for category, row in change.items()}
    return tuple(sorted(curves.items(), key=lambda item: (-int(item[1][peak]), item[0])))


def _holders(live: list[Life]) -> tuple[Holder, ...]:
    """The largest groups by module, label and category."""
    total: dict[tuple[str, str, Category], list[int]] = defaultdict(list)
    for life in live:
        storage = life.storage
        total[storage.module, storage.label, storage.category].append(life.nbytes)
    groups = [Holder(*key, nbytes=sum(sizes), count=len(sizes)) for key, sizes in total.items()]
    groups.sort(key=lambda h: (-h.nbytes, h.module, h.label, h.category))
    return tuple(groups[:MAX_HOLDERS])


Drawn = TypeVar("Drawn", Simulation, Timeline)


def attach_memory(drawn: Drawn, trace: MemoryTrace, first_op: int = 0) -> Drawn:
    """Add the counters "allocated" and "reserved" (bytes) to a simulated timeline.

    Each point lies where the device comes to the operator's work, so that the curve can be read
    beside everything else that the device does. The host takes the memory earlier, by as much as it
    runs ahead.

    Args:
        drawn: a timeline, or the simulation that holds it.
        trace: of one of its programs.
        first_op: number of that program's first operator in `Timeline.ops`.
    """
    if isinstance(drawn, Simulation):
        return replace(drawn, timeline=attach_memory(drawn.timeline, trace, first_op))
    time_ns = point_times_ns(drawn, trace, first_op)
    counters = tuple(c for c in drawn.counters if c.name not in ("allocated", "reserved"))
    for name, curve in (("allocated", trace.allocated_bytes), ("reserved", trace.reserved_bytes)):
        changes = np.concatenate(([True], curve[1:] != curve[:-1]))
        value: npt.NDArray[np.float64] = curve[changes].astype(np.float64)
        counters += (Counter(name, "bytes", time_ns[changes], value),)
    return replace(drawn, counters=counters)


def point_times_ns(timeline: Timeline, trace: MemoryTrace, first_op: int = 0) -> Ints:
    """Return when each point of a trace lies on the timeline of the same step; ascending.

    The begin of each operator's device work, after the begin of all of it. Operators without any
    lie evenly between those around them.

    Args:
        timeline, trace, first_op: as `attach_memory` takes them.
    """
    ops, never = len(trace.op) - 1, np.iinfo(np.int64).max
    events = timeline.events
    own = (events.op >= first_op) & (events.op < first_op + ops)
    rows = np.flatnonzero(own & (events.kind < DEVICE_KINDS))
    if not len(rows):
        rows = np.flatnonzero(own)
    if not len(rows):
        return np.zeros(ops + 1, np.int64) + int(events.start_ns.min(initial=0))
    begin = np.full(ops, never, np.int64)
    np.minimum.at(begin, events.op[rows] - first_op, events.start_ns[rows])
    known = np.flatnonzero(begin != never)
    first, end = int(events.start_ns[rows].min()), int(events.end_ns[rows].max())
    # Counted from the first of them, so that fractions of a nanosecond do not drown in the clock.
    at = np.interp(
        np.arange(-1, ops),
        np.concatenate(([-1], known, [ops])),
        np.concatenate(([0], np.maximum.accumulate(begin[known]) - first, [end - first])),
    ).astype(np.int64)
    # Two points at one moment would hide one of them: the peak, perhaps.
    order = np.arange(ops + 1)
    return np.minimum(first + np.maximum.accumulate(at - order) + order, end)
