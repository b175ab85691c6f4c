"""Time of a kernel that memory or latency limits: the engine under most kernel models.

A kernel that reads R bytes and writes W bytes with G blocks takes

    floor + norm(memory, issue, waves x chain)      blocks long, in step with each other
    floor + chain + norm(memory, issue)             many short blocks that follow each other

* *memory*: cold bytes at the usable memory bandwidth, plus a share lost to turning the bus between
  reads and writes; hot ones at that of the L2 cache, which reads and writes at once;
* *issue*: clocks that the items keep the busiest multiprocessor's pipelines busy (instructions of
  type casts, index arithmetic, erf and so on), blocks dealt out evenly;
* *starting*: blocks begin one after the other, no more than so many in a clock of the whole device,
  however little they do: a fill of two-byte elements is bound by that, not by memory;
* *chain*: the dependent steps of one block, at least one load. This is also what keeps few blocks
  from filling the memory pipe (Little's law).

What overlaps does so imperfectly (a p-norm), better the more waves there are. Reading from device
memory also pushes dirty lines of earlier kernels out of the L2 cache, whose write-back it waits
for. Constants come from the calibration under "bandwidth.*"; their defaults are those of an H200
(docs/cost-bandwidth.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from weakref import WeakKeyDictionary

from gpuscope.cost.registry import Constants, Work
from gpuscope.cost.types import Kernel, Kind, Limiter
from gpuscope.hardware import Device
from gpuscope.program.types import TensorSpec

SECTOR_BYTES = 32
"""Least that device memory hands out (CUDA programming guide, device memory accesses)."""

L2_SHARE = 0.75
"""Share of the L2 that data survives in: the rest is lost to conflicts and to other traffic."""

_L2_COPY_SHARE = 0.75
"""Share of the usable L2 up to which what is written stays there, too (measured on an H200)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A device as the engine sees it.

    Attributes:
        floor_s: shortest kernel.
        read_bytes_per_s, write_bytes_per_s: usable memory bandwidth of either direction.
        dirty_share: part of the L2 cache's lines that earlier kernels left to be written back.
        turnaround: bytes lost for each byte that is both read and written (the bus turns).
        l2_bytes_per_s, l2_write_bytes_per_s: usable bandwidth of the last shared cache.
        l2_bytes: its usable capacity; 0 if unknown.
        units: multiprocessors.
        clocks_per_s: clocks of all multiprocessors together, scaled to 128 lanes each; where no
            source states the vector units (TPU, Trainium, ...), taken as wide for the memory's
            bandwidth as those of a measured GPU, so that nothing comes for free there.
        blocks_per_s: thread blocks that the whole device can start; 0 if unknown.
        threads_per_unit: most threads resident on one multiprocessor; 0 if unknown.
        blocks_per_unit: most blocks resident on one multiprocessor.
        latency_s: of a load from device memory, busy caches and address translation included.
        l2_latency_s: of a load from the L2 cache.
        overlap: exponent of the norm.
    """

    floor_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    dirty_share: float
    turnaround: float
    l2_bytes_per_s: float
    l2_write_bytes_per_s: float
    l2_bytes: float
    units: int
    clocks_per_s: float
    blocks_per_s: float
    threads_per_unit: int
    blocks_per_unit: int
    latency_s: float
    l2_latency_s: float
    overlap: float


_MACHINES: WeakKeyDictionary[Constants, tuple[Device, Machine]] = WeakKeyDictionary()


def machine(work: Work) -> Machine:
    """The device under its constants (made once for each)."""
    found = _MACHINES.get(work.constants)
    if found is None or found[0] is not work.device:
        found = work.device, _machine(work.device, work.constants)
        _MACHINES[work.constants] = found
    return found[1]


def _machine(device: Device, constants: Constants) -> Machine:
    units = device.compute_units or 1
    bandwidth = device.memory_bandwidth_bytes_per_s * constants.value("bandwidth.reach")
    known = device.compute_units and device.clock_hz and device.warp_size
    clocks = units * (device.clock_hz or 0.0) if known else 0.0
    l2 = l2_write = bandwidth * constants.value("bandwidth.l2_without_clock")
    if clocks:
        l2 = clocks * constants.value("bandwidth.l2_bytes_per_clock")
        l2_write = clocks * constants.value("bandwidth.l2_write_bytes_per_clock")
    l2_bytes = float(device.l2_bytes or device.last_level_cache_bytes or 0)
    return Machine(
        floor_s=constants.value("bandwidth.floor_s"),
        read_bytes_per_s=bandwidth * constants.value("bandwidth.read_efficiency"),
        write_bytes_per_s=bandwidth * constants.value("bandwidth.write_efficiency"),
        dirty_share=constants.value("bandwidth.dirty_share"),
        turnaround=constants.value("bandwidth.turnaround"),
        # A cache slower than its memory is not used as one.
        l2_bytes_per_s=max(l2, bandwidth),
        l2_write_bytes_per_s=max(l2_write, bandwidth),
        l2_bytes=l2_bytes * L2_SHARE,
        units=units,
        clocks_per_s=clocks * (device.fp32_lanes_per_unit or 128) / 128
        or bandwidth * constants.value("bandwidth.issue_per_byte"),
        blocks_per_s=(device.clock_hz or 0.0) * constants.value("bandwidth.blocks_per_clock")
        if known and device.vendor == "NVIDIA"
        else 0.0,
        threads_per_unit=device.max_threads_per_unit or 0,
        blocks_per_unit=device.max_blocks_per_unit or 32,
        latency_s=constants.value("bandwidth.latency_s"),
        l2_latency_s=constants.value("bandwidth.l2_latency_s"),
        overlap=constants.value("bandwidth.overlap"),
    )


@dataclass(frozen=True, slots=True)
class Launch:
    """What one kernel does, before anyone says how long it takes.

    Attributes:
        name: descriptive symbol.
        kind: family.
        cold_bytes: read from device memory; what a repeated pass reads again counts again.
        hot_bytes: read from the L2 cache.
        written_bytes: written.
        least_bytes: fewest bytes possible; -1: each read and written byte once.
        items: work items that cost instructions, usually elements.
        cycles: clocks that one item keeps a multiprocessor (of 128 lanes) busy.
        grid, block: thread blocks, threads of each.
        resident: blocks that fit on a multiprocessor; 0: as many as threads allow.
        loads: loads of a thread that wait for each other.
        chain_s: least time of one block besides those loads.
        floor_s: added to the common floor (several dependent phases).
        overlap: exponent of the norm where it is not the device's (1: nothing overlaps).
        streaming: short blocks replace each other, so the chain counts once, not for each wave.
        dtype: of the data.
        family: whose "<family>.scale" constant corrects the time and gives its interval.
        note: for a reader.
    """

    name: str
    kind: Kind
    cold_bytes: float = 0.0
    hot_bytes: float = 0.0
    written_bytes: float = 0.0
    least_bytes: float = -1.0
    items: float = 0.0
    cycles: float = 0.0
    grid: int = 1
    block: int = 128
    resident: int = 0
    loads: float = 1.0
    chain_s: float = 0.0
    floor_s: float = 0.0
    overlap: float = 0.0
    streaming: bool = False
    dtype: str = ""
    family: str = ""
    note: str = ""


def kernel(work: Work, launch: Launch) -> Kernel:
    """The launch with its time, limiter and 80 % interval."""
    m = machine(work)
    resident = launch.resident or _resident(m, launch.block)
    memory = _memory_s(m, launch)
    issue = _issue_s(m, launch)
    waves = launch.grid / (m.units * resident)
    starting = (launch.grid - 1) / m.blocks_per_s if m.blocks_per_s else 0.0
    chain = launch.chain_s
    if launch.cold_bytes or launch.hot_bytes:
        chain += launch.loads * (m.latency_s if launch.cold_bytes else m.l2_latency_s)
    if not m.threads_per_unit:
        chain = 0.0  # without SIMT facts nobody knows how many blocks run at once
    overlap = launch.overlap or m.overlap
    if launch.streaming:
        body = chain + max(_join(memory, issue, 0.0, overlap), starting)
    else:
        chain *= ceil(waves)
        body = max(_join(memory, issue, chain, overlap + min(waves, 16.0) / 4), starting)
    floor = m.floor_s + launch.floor_s
    family = launch.family or launch.kind
    scale = work.constants.value(f"{family}.scale", "kernel.scale")
    spread = work.constants.spread(f"{family}.scale", "kernel.scale")
    duration = floor + body * scale
    return Kernel(
        name=launch.name,
        kind=launch.kind,
        op=work.op.index,
        duration_s=duration,
        low_s=duration / (1.0 + spread),
        high_s=duration * (1.0 + spread),
        read_bytes=launch.cold_bytes,
        written_bytes=launch.written_bytes,
        least_bytes=launch.least_bytes
        if launch.least_bytes >= 0
        else launch.cold_bytes + launch.hot_bytes + launch.written_bytes,
        grid=launch.grid,
        block=launch.block,
        waves=waves,
        occupancy=_occupancy(m, launch, resident),
        limiter=_limiter(m, launch, floor, memory, max(issue, starting), chain),
        dtype=launch.dtype,
        compute_s=issue,
        memory_s=memory,
        origin="calibrated" if work.constants.calibrated else "estimated",
        note=launch.note,
    )


def timed(
    work: Work, name: str, kind: Kind, seconds: float, grid: int, block: int, family: str = ""
) -> Kernel:
    """A launch that takes so many seconds whatever it moves, or the least that any takes."""
    floor_s = max(seconds - machine(work).floor_s, 0.0)
    dtype = work.outputs[0].dtype
    return kernel(
        work,
        Launch(name, kind, grid=grid, block=block, floor_s=floor_s, dtype=dtype, family=family),
    )


def _resident(m: Machine, block: int) -> int:
    """Blocks of `block` threads that fit on one multiprocessor."""
    if not m.threads_per_unit:
        return 8
    return max(1, min(m.blocks_per_unit, m.threads_per_unit // max(block, 1)))


def _memory_s(m: Machine, launch: Launch) -> float:
    cold, hot, out = launch.cold_bytes, launch.hot_bytes, launch.written_bytes
    if not cold and hot + out <= _L2_COPY_SHARE * m.l2_bytes:
        return max(hot / m.l2_bytes_per_s, out / m.l2_write_bytes_per_s)
    turned = m.turnaround * min(cold, out) / m.read_bytes_per_s
    # What is read pushes out earlier kernels' dirty lines; what is written takes their place.
    evicted = max(out, m.dirty_share * min(cold, m.l2_bytes / L2_SHARE))
    streamed = cold / m.read_bytes_per_s + evicted / m.write_bytes_per_s + turned
    return streamed + hot / m.l2_bytes_per_s


def _issue_s(m: Machine, launch: Launch) -> float:
    if not launch.cycles or not m.clocks_per_s:
        return 0.0
    # The busiest multiprocessor has a whole number of blocks.
    share = ceil(launch.grid / m.units) / launch.grid
    return launch.items * launch.cycles * share * m.units / m.clocks_per_s


def _join(memory: float, issue: float, chain: float, p: float) -> float:
    high = max(memory, issue, chain)
    if not high:
        return 0.0
    total = (memory / high) ** p + (issue / high) ** p + (chain / high) ** p
    return float(high * total ** (1.0 / p))


def _occupancy(m: Machine, launch: Launch, resident: int) -> float | None:
    if not m.threads_per_unit:
        return None
    blocks = min(float(resident), launch.grid / m.units)
    return min(blocks * launch.block / m.threads_per_unit, 1.0)


def _limiter(
    m: Machine, launch: Launch, floor: float, memory: float, issue: float, chain: float
) -> Limiter:
    if floor >= max(memory, issue, chain):
        return "launch"
    if chain >= max(memory, issue):
        return "latency"
    if issue > memory:
        return "issue"
    cold = launch.cold_bytes / m.read_bytes_per_s + launch.written_bytes / m.write_bytes_per_s
    return "l2" if launch.hot_bytes / m.l2_bytes_per_s > cold else "memory"


@dataclass(frozen=True, slots=True)
class Reads:
    """Bytes of an operator's inputs, by where they come from."""

    cold: float
    hot: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.cold + self.hot


def is_hot(work: Work, position: int) -> bool:
    """Whether input `position` is likely in the L2 cache."""
    return position < len(work.hot) and work.hot[position]


def reads(work: Work, positions: Iterable[int] | None = None) -> Reads:
    """Distinct bytes of the device inputs (those at `positions`), the same memory once."""
    inputs = work.op.inputs
    chosen = range(len(inputs)) if positions is None else positions
    cold = hot = 0.0
    seen: set[tuple[object, ...]] = set()
    for position in chosen:
        spec = inputs[position]
        if spec.device != "device":
            continue
        if spec.storage >= 0:
            key = (spec.storage, spec.shape, spec.stride)
            if key in seen:
                continue
            seen.add(key)
        if is_hot(work, position):
            hot += fetched_bytes(spec)
        else:
            cold += fetched_bytes(spec)
    return Reads(cold, hot)


def fetched_bytes(spec: TensorSpec) -> float:
    """Bytes that cross the memory bus to touch each distinct element once.

    Where no dimension is dense, each element costs up to a sector of its own.
    """
    steps = [st for s, st in zip(spec.shape, spec.stride, strict=True) if s > 1 and st]
    least = min(steps, default=1)
    if least <= 1:
        return float(spec.touched_bytes)
    return spec.touched_bytes * min(least, max(SECTOR_BYTES / spec.itemsize, 1.0))


def written(work: Work) -> float:
    """Bytes of the device outputs, each written once."""
    return float(sum(t.touched_bytes for t in work.outputs))


def elements(specs: Iterable[TensorSpec]) -> int:
    """Most elements among `specs`; 0 if there are none."""
    return max((t.numel for t in specs), default=0)


def first_dtype(work: Work) -> str:
    """Dtype of the first floating-point tensor (else of the first tensor)."""
    specs = (*work.inputs, *work.outputs)
    for spec in specs:
        if "float" in spec.dtype:
            return spec.dtype
    return specs[0].dtype if specs else ""


def missed_share(m: Machine, block_bytes: float, grid: int, resident: int) -> float:
    """Share of a second pass that must come from device memory again, 0..1.

    Blocks that run at once keep what they read in the first pass in the L2 cache, unless all of
    them together outgrow it. The loss sets in well before the nominal size, because the cache of
    large GPUs is split in two halves that keep copies of each other's lines.

    Args:
        m: the device.
        block_bytes: what one block reads in a pass.
        grid: blocks launched.
        resident: blocks that run at once on a multiprocessor.
    """
    if not m.l2_bytes:
        return 1.0
    at_once = min(grid, m.units * resident) * block_bytes
    begins, ends = 0.3 * m.l2_bytes, 0.85 * m.l2_bytes
    return min(max((at_once - begins) / (ends - begins), 0.0), 1.0)
