"""`Run`: one type for a predicted and a measured run; `Measurement`: how one was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gpuscope.analysis.types import Analysis
from gpuscope.document.printable import one_line, short_repr
from gpuscope.document.quantities import Bytes, Seconds
from gpuscope.document.text import Text
from gpuscope.hardware import Calibration, Cluster
from gpuscope.program.types import Program
from gpuscope.timeline.types import Timeline

if TYPE_CHECKING:
    from gpuscope.program.world import RankPrograms
    from gpuscope.timeline.memory_blocks import MemoryBlocks

    Captured = Program | RankPrograms
else:
    # Documents with forecasts are read by the types of their fields, of which one may be a run's;
    # the reader knows no union of two dataclasses, and neither a basis nor blocks of memory are in
    # a document.
    Captured = MemoryBlocks = object

SCHEMA_VERSION = 2
"""Of the documents of runs; a reader refuses a newer one."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """How a measured run was measured; None where it was not or cannot be.

    Attributes:
        confidence: share of such intervals that hold the true median (`Run.step_time_interval_s`
            of a measured run); None where too little was measured for one.
        blocks_s: mean step time of each timed block (steps between two synchronisations).
        steps_per_block: steps of a block.
        warmup_steps: steps run before the timing.
        settled_after: first step (from 0) that took no longer than later ones; None if the step
            time had not settled.
        first_step_s: the very first step.
        first_step_allocations: times that it asked the device for memory.
        compiled_graphs: graphs that `torch.compile` made during warm-up.
        host_issue_s: from the begin of a step to the return of its last call, the device idle.
        profiled_steps: steps in the timeline.
        profiled_step_s: mean step time under the profiler.
        energy_window_s, average_w, energy_uncertainty_j: of the energy's window; the last is per
            step.
        sm_clock_hz, temperature_c: at the end of the timed blocks.
        throttle_reasons: why the device held its clock down, as seen between blocks; None if not
            told.
        throttled_share: share of the timed blocks in which it did so, by reason.
        machine: what it ran on: versions of torch, driver, device name, host's processor.
        interrupted: the user stopped it; what was measured until then is here.
    """

    confidence: float | None = None
    blocks_s: tuple[float, ...] = ()
    steps_per_block: int = 0
    warmup_steps: int = 0
    settled_after: int | None = None
    first_step_s: float | None = None
    first_step_allocations: int | None = None
    compiled_graphs: int | None = None
    host_issue_s: float | None = None
    profiled_steps: int = 0
    profiled_step_s: float | None = None
    energy_window_s: float | None = None
    average_w: float | None = None
    energy_uncertainty_j: float | None = None
    sm_clock_hz: float | None = None
    temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    throttled_share: Mapping[str, float] | None = None
    machine: Mapping[str, str] = field(default_factory=dict)
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class RankResult:
    """One distinct rank of a predicted job; times are of one step.

    Attributes:
        rank: the rank that was captured.
        members: all ranks that do the same, itself included.
        device_busy_s: union of its device's work, waiting inside communication included.
        host_busy_s: time its host works.
        communication_s: union of its communication.
        exposed_communication_s: communication that no other work of the device hides.
        waiting_s: inside communication for other ranks to come, by the group's label.
        peak_memory_bytes, reserved_memory_bytes: as of `Run`.
        fits: whether the peak fits its device.
        energy_j: of its device; None if unknown.
    """

    rank: int
    members: tuple[int, ...]
    device_busy_s: float
    host_busy_s: float
    communication_s: float
    exposed_communication_s: float
    waiting_s: Mapping[str, float]
    peak_memory_bytes: int
    reserved_memory_bytes: int
    fits: bool
    energy_j: float | None


@dataclass(frozen=True, slots=True)
class JobPlace:
    """What a job runs on.

    Attributes:
        devices_per_node: devices of one host; ranks fill node after node.
        domain_devices: devices that reach each other over scale-up links.
        within: the links inside such a domain ("NVLink 4"); "" where there are none.
        between: the fabric between domains; "" where everything is in one.
        price_usd_per_hour: of all devices together; None where no price is known.
    """

    devices_per_node: int
    domain_devices: int
    within: str
    between: str
    price_usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Basis:
    """What a prediction was made of: enough to make it again, on this machine or on another.

    Attributes:
        captured: the program, or those of all distinct ranks of a job.
        cluster: what it was predicted for.
        constants: the calibrated constants that were used.
        waiting_s: of a job, what its step waits for the slowest of ranks that vary by chance.
        holder: the program whose memory the run tells: the only one, or the fullest rank's.
        holder_op: number of the holder's first operator in `Timeline.ops`.
    """

    captured: Captured
    cluster: Cluster
    constants: Calibration
    waiting_s: float = 0.0
    holder: Program | None = None
    holder_op: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A workload on a device: how long a step takes, what it holds, what it costs, and why.

    Attributes:
        name: the workload.
        target: the device or cluster in words ("NVIDIA H200 SXM 141GB").
        device_id: catalogue id; "" for an unknown device of a trace.
        origin: "predicted" or "measured".
        step_time_s: time of one steady step.
        step_time_interval_s: (low, high); predicted: 80 % interval of the step; measured: interval
            of the median at `measurement.confidence`. Equal ends mean it is exact.
        device_busy_s: union of device work in a step; NaN if no timeline was recorded.
        host_busy_s: time the host works in a step; None if unknown.
        peak_memory_bytes: most bytes allocated by tensors; None if unknown.
        reserved_memory_bytes: most bytes held by the caching allocator; None if unknown.
        energy_j: energy of one step on one device; None if unknown.
        fits: whether the peak fits the device; None if unknown.
        timeline: the events of one steady step.
        analysis: what they mean.
        program: what was captured, for predicted runs; of a job, its first rank's.
        ranks: ranks present; of a predicted job, one of each distinct sort.
        assumptions: sentences for the user.
        origins: field name -> measured, calibrated, datasheet or estimated.
        samples, tokens: work of one step, where known.
        measurement: how a measured run was measured; None for predictions and loaded traces.
        world_size: ranks of the job that a step belongs to; of a recording, those recorded.
        rank_results: each distinct rank of a predicted job; () for one device and recordings.
            Memory (`peak_memory_bytes`, `fits`) is then that of the fullest rank, the other
            figures are the first one's.
        place: nodes and links of a predicted job; None elsewhere.
        basis: what a prediction was made of; None for others, and for runs read from a file.
        evidence: what stands behind a prediction's kernel times: "measured" (constants of the
            device itself), "carried" (of its maker's other devices) or "prior" (no device of its
            maker was measured); "" elsewhere.
        memory_blocks: what lay where in memory, of a memory snapshot; None elsewhere, and for runs
            read from a file.
    """

    name: str
    target: str
    device_id: str
    origin: Literal["predicted", "measured"]
    step_time_s: float
    step_time_interval_s: tuple[float, float]
    device_busy_s: float
    host_busy_s: float | None
    peak_memory_bytes: int | None
    reserved_memory_bytes: int | None
    energy_j: float | None
    fits: bool | None
    timeline: Timeline
    analysis: Analysis
    program: Program | None = None
    ranks: tuple[int, ...] = (0,)
    assumptions: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    samples: int | None = None
    tokens: int | None = None
    measurement: Measurement | None = None
    world_size: int = 1
    rank_results: tuple[RankResult, ...] = ()
    place: JobPlace | None = None
    evidence: str = ""
    basis: Basis | None = None
    memory_blocks: MemoryBlocks | None = None

    def __post_init__(self) -> None:
        # Mostly a file's name: anything may stand in it.
        object.__setattr__(self, "name", one_line(self.name))

    def __repr__(self) -> str:
        peak = None if self.peak_memory_bytes is None else f"peak {Bytes(self.peak_memory_bytes)}"
        step = f"step {Seconds(self.step_time_s)}"
        return short_repr(self, f"{self.name} on {self.target}", self.origin, step, peak)

    def to_dict(self) -> dict[str, object]:
        """The run as plain data (the stable, versioned JSON document; see docs/json.md)."""
        from gpuscope.run.document import run_document

        return run_document(self)


@dataclass(frozen=True, slots=True, repr=False)
class Refused:
    """A device that cannot run what the others run.

    Attributes:
        device_id: in the catalogue.
        target: in words.
        what, why: of the error, each a sentence; `why` may be empty.
    """

    device_id: str
    target: str
    what: str
    why: str

    def __repr__(self) -> str:
        return short_repr(self, self.device_id, self.what)


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of a predicted run, predicted in the same way.

    Attributes:
        findings: places of the findings that it answers in `Run.analysis.findings`.
        step_time_s: of the changed step.
        timeline: of the changed step.
        change: name of the change, as `gpuscope advise` has it; "" where the program was changed,
            as a finding's own outcome is simulated, and no code.
        title: what it does, a few words; None as above.
        speedup: time of the step over that of the changed one, for the same work; low, high: its
            80 % interval; None where it was not worked out.
        diff: unified diff of the user's code; "" where it is not known.
        numerics: what it does to the results, a few words; None where the change is no code.
        price: what it costs besides; None for nothing.
    """

    findings: tuple[int, ...]
    step_time_s: float
    timeline: Timeline
    change: str = ""
    title: Text | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    diff: str = ""
    numerics: Text | None = None
    price: Text | None = None

    def __repr__(self) -> str:
        return short_repr(self, self.change, f"step {Seconds(self.step_time_s)}")
