"""What a timeline means: times by class, findings, roofline points, memory at the peak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.analysis.account_types import Account
from gpuscope.analysis.copies import CopyKind
from gpuscope.analysis.critical_path import CriticalPath
from gpuscope.analysis.idle_spots import IdleSpot
from gpuscope.analysis.job_types import JobStory
from gpuscope.analysis.launches import KernelSequence, LaunchDelays, Launches
from gpuscope.analysis.recorded_types import Communication, RankStory, StepSpread, Trust
from gpuscope.document.printable import counted, short_repr
from gpuscope.document.quantities import Seconds


@dataclass(frozen=True, slots=True)
class RankTime:
    """Exact time classes of one rank over its whole timeline, whatever steps are marked.

    Attributes:
        span_s: first to last device event.
        busy_s: union of all device work.
        idle_s: span_s - busy_s.
        compute_s: union of kernels that are not communication.
        communication_s: union of communication kernels.
        exposed_communication_s: communication not under compute.
        copy_s: union of copies and memsets.
        idle_by_cause: seconds of idle by cause ("host dispatching", "host synchronising",
            "launch gap", "waiting for data", "waiting for another stream", "waiting for another
            rank", "unknown"); sums to idle_s.
    """

    span_s: float
    busy_s: float
    idle_s: float
    compute_s: float
    communication_s: float
    exposed_communication_s: float
    copy_s: float
    idle_by_cause: Mapping[str, float]

    @property
    def overlapped(self) -> float:
        """Share of the communication that runs beside computation, 0..1."""
        all_s = self.communication_s
        return 1 - self.exposed_communication_s / all_s if all_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Share:
    """One row of a breakdown: a label with its seconds, kernels, work and traffic.

    `time_s` is device time attributed to the row; rows of one breakdown that covers the step add
    up to the step time (the idle rows included). `family` is a kernel family where a row has one.
    `running_s` is how long its kernels run, one after the other, what others hide of them included:
    the time that their work and traffic took, for rates. None where `time_s` is that time.
    """

    label: str
    time_s: float
    count: int = 0
    flops: float = 0.0
    moved_bytes: float = 0.0
    limiter: str = ""
    best_s: float | None = None
    family: str = ""
    running_s: float | None = None

    @property
    def flops_per_s(self) -> float | None:
        """Arithmetic over the time that it ran; None where there is none."""
        return _rate(self.flops, self.running_s, self.time_s)

    @property
    def bytes_per_s(self) -> float | None:
        """Traffic over the time that it ran; None where there is none."""
        return _rate(self.moved_bytes, self.running_s, self.time_s)


def _rate(amount: float, running_s: float | None, time_s: float) -> float | None:
    took_s = time_s if running_s is None else running_s
    return amount / took_s if amount > 0 and took_s > 0 else None


@dataclass(frozen=True, slots=True)
class ModuleShare:
    """A module's part of the step, children included; `self_s` is what no child explains.

    `peak_bytes` is what it owns or made of the memory at the peak; None where that is not known.
    """

    path: str
    class_name: str
    depth: int
    time_s: float
    self_s: float
    forward_s: float
    backward_s: float
    flops: float
    parameters: int
    peak_bytes: int | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """One group of equal kernels on the roofline (time is the sum over the group).

    `label` names operator and shapes, `kernel` the device's symbol, `group` the group itself
    (`analysis.grouping.group_key` of each of its kernels).
    """

    label: str
    kind: str
    intensity_flops_per_byte: float
    flops_per_s: float
    time_s: float
    count: int
    limiter: str
    roof_flops_per_s: float
    kernel: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class BesideRoofline:
    """Kernels of one family that have no place on the roofline: no FLOPs are counted for them.

    Attributes:
        kind: the family.
        time_s: their attributed time in a step.
        count: their launches in a step.
        moved_bytes: what they move across device memory in a step.
        bytes_per_s: that over the time that they ran; None where no bytes are known, and for
            communication, which links limit.
        memory_share: that rate over the memory's bandwidth; None likewise.
    """

    kind: str
    time_s: float
    count: int
    moved_bytes: float
    bytes_per_s: float | None
    memory_share: float | None


@dataclass(frozen=True, slots=True)
class Roofline:
    """Points with the device's roofs (peak FLOP/s by dtype, bandwidth).

    Points and `beside` together are all kernels of the step: their times add up to its kernels'.
    """

    points: tuple[RooflinePoint, ...]
    peak_flops_per_s: Mapping[str, float]
    memory_bandwidth_bytes_per_s: float | None
    beside: tuple[BesideRoofline, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """How one group of equal kernels is split over the machine.

    `label` names operator and shapes, `kernel` the device's symbol, `group` the group itself
    (`analysis.grouping.group_key` of each of its kernels).
    """

    label: str
    kind: str
    count: int
    time_s: float
    grid: int
    block: int
    tile: tuple[int, ...]
    waves: float
    tail_loss: float
    occupancy: float | None
    limiter: str
    kernel: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class MemoryStory:
    """Memory of the device over a step.

    Attributes:
        peak_bytes: most bytes allocated at once.
        reserved_bytes: most bytes the allocator took from the device; None if unknown.
        peak_time_s: when, from the step's start.
        at_peak: bytes by category at the peak; sums to peak_bytes.
        holders: the largest module/label groups alive at the peak: (label, bytes).
        time_s, allocated, reserved: the curve.
        capacity_bytes: what the device has for a program; None if unknown.
        fits: whether every request finds room; None if the capacity is unknown.
        missing_bytes: how much more than the capacity it would take; 0 where it fits.
        failed_op, failed_for, failed_bytes: the first request that finds no room: its operator's
            index (-1: before the step; None: all find room), what it is for, and how large.
    """

    peak_bytes: int
    reserved_bytes: int | None
    peak_time_s: float
    at_peak: Mapping[str, int]
    holders: tuple[tuple[str, int], ...]
    time_s: tuple[float, ...]
    allocated_bytes: tuple[int, ...]
    reserved_curve_bytes: tuple[int, ...]
    capacity_bytes: int | None
    fits: bool | None = None
    missing_bytes: int = 0
    failed_op: int | None = None
    failed_for: str = ""
    failed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a step; None where it cannot be said. `source` says how it was found.

    Attributes:
        total_j: the sum of the four parts.
        idle_j: at rest, over the whole step.
        active_j: of kernels outside the matrix families, beside device memory: active
            multiprocessors, issuing, L2.
        compute_j, memory_j: of kernels of the matrix families, active multiprocessors and FLOPs;
            by bytes of device memory.
        average_w: total over the step.
        cost_usd: the step at the price per hour.
    """

    total_j: float | None
    idle_j: float | None
    compute_j: float | None
    memory_j: float | None
    average_w: float | None
    cost_usd: float | None
    source: str
    active_j: float | None = None


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Model FLOPs against the device's peak.

    Attributes:
        model_flops: FLOPs the model needs for the step (recomputation not counted).
        hardware_flops: FLOPs really executed (recomputation counted).
        peak_flops_per_s: dense peak of the main dtype.
        mfu, hfu: model_flops / (step time * peak), hardware_flops / (step time * peak).
        definition: the definition in words.
    """

    model_flops: float
    hardware_flops: float
    peak_flops_per_s: float | None
    mfu: float | None
    hfu: float | None
    definition: str


@dataclass(frozen=True, slots=True)
class About:
    """What a finding is about, so that it can be shown, and held against the whole step.

    Attributes:
        events: rows of `Timeline.events` (kernels, copies, collectives), in time order; of very
            many the ones that lose most.
        operators: names of the operators that launched them, most lost time first.
        lines: source lines that asked for them ("model.py:12"), most lost time first; those of the
            forward pass stand for the backward pass of the same module.
        idle: causes of idle time that it speaks for.
        idle_s: how much of that idle time it speaks for: all of it, but where only some of its
            places are meant.
        explains_s: how much of the distance between the step and its best possible time it speaks
            for (see `Account`).
    """

    events: tuple[int, ...] = ()
    operators: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    explains_s: float = 0.0
    idle_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth knowing, in plain words.

    Attributes:
        kind: a stable word (`gpuscope.analysis.findings.finding_kinds()`).
        title: one sentence.
        evidence: the numbers behind it, one sentence.
        max_gain_s: the most that fixing it could save per step; 0 if nothing, None if unknown. No
            time is in the gains of two findings: together they are no more than the step.
        hint: what to try first; "" if nothing.
        about: the events, operators, lines and idle time that it is about; None where it is about
            none of them (memory, a recording's faults).
        predicted_step_s: of a prediction, the step with it done, simulated; None where no single
            change does it.
        rest_with: kinds of the findings in whose gains the rest of what it costs is: what both
            name counts once, and shorter kernels gain nothing while the host sets the pace.
        before: kinds of findings that gain nothing before this one is done.
    """

    kind: str
    title: str
    evidence: str
    max_gain_s: float | None
    hint: str = ""
    about: About | None = None
    predicted_step_s: float | None = None
    rest_with: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    def __repr__(self) -> str:
        gain = f"up to {Seconds(self.max_gain_s)} a step" if self.max_gain_s else None
        return short_repr(self, self.kind, gain, self.title)


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything found about one run.

    Attributes:
        step_s: the step time that the breakdowns add up to.
        time: time classes by rank.
        classes: step time by class (compute-bound, bandwidth-bound, launch-bound, transfers,
            communication, idle by cause); adds up to step_s.
        operators: device time by operator (name), largest first; idle excluded.
        kinds: device time by kernel family.
        phases: device time by phase (forward, backward, optimizer, ...).
        modules: the module tree in depth-first order.
        roofline, tasks, memory, energy, utilisation: None where the timeline has no such data.
        findings: largest gain first.
        critical_path: what the window's length is made of; None without device work. Of its
            segments the shortest are joined where there are many.
        idle_spots: where the idle time was lost, largest first; add up to it.
        launches: how work got to the device; None where no launch is recorded.
        copies: memory copies by direction and kind of host memory, longest first.
        trust: how far the recording can be trusted; None for a prediction.
        ranks: who waits for whom; None where no collective is on two ranks.
        communication: of the first rank that has device work; None without any.
        step_spread: how the steps differ; None with fewer than three.
        host_work_s: time that the host works in a step, waits left out; None if not known.
        symbols: device time by the device's own symbol, shortened, with its family; only of a
            recording.
        host: where the host's own time went, by name; only of a recording without device work.
        job: what the ranks of a predicted job do with a step; None elsewhere.
        account: the step from its best possible time to what it takes; None without device work.
        launch_delays: launches that were late though the device was free; only of a recording.
        sequences: runs of small kernels that come again and again, longest first; likewise.
    """

    step_s: float
    time: Mapping[int, RankTime]
    classes: tuple[Share, ...]
    operators: tuple[Share, ...]
    kinds: tuple[Share, ...]
    phases: tuple[Share, ...]
    modules: tuple[ModuleShare, ...]
    roofline: Roofline | None
    tasks: tuple[Task, ...]
    memory: MemoryStory | None
    energy: Energy | None
    utilisation: Utilisation | None
    findings: tuple[Finding, ...]
    critical_path: CriticalPath | None = None
    idle_spots: tuple[IdleSpot, ...] = ()
    launches: Launches | None = None
    copies: tuple[CopyKind, ...] = ()
    trust: Trust | None = None
    ranks: RankStory | None = None
    communication: Communication | None = None
    step_spread: StepSpread | None = None
    host_work_s: float | None = None
    host: tuple[Share, ...] = ()
    symbols: tuple[Share, ...] = ()
    job: JobStory | None = None
    account: Account | None = None
    launch_delays: LaunchDelays | None = None
    sequences: tuple[KernelSequence, ...] = ()

    def __repr__(self) -> str:
        ranks, found = counted(len(self.time), "rank"), counted(len(self.findings), "finding")
        return short_repr(self, "", f"step {Seconds(self.step_s)}", ranks, found)
