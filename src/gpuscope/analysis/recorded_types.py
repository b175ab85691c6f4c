"""What a recording says of itself and of its ranks: trust, communication, waiting, steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpuscope.analysis.job_types import JobStory

QUESTIONS: tuple[str, ...] = ("time", "idle", "host", "communication", "ranks", "steps", "memory")
"""What one may want to conclude: how long device work takes; how long the device is idle; why, by
what the host did; what communication takes; who waits for whom; how steps differ; memory."""

LATE_REASONS: tuple[str, ...] = (
    "began late",
    "more work",
    "slower kernels",
    "host dispatching",
    "host synchronising",
    "waiting for data",
    "other communication",
    "unknown",
)
"""Why a rank came last to a collective.

"began late": its recording, or its first step, begins later than those of the others; "more work":
its device ran more kernels; "slower kernels": as many, but longer ones; "host dispatching": its
device stood idle because the host had not launched the next work; "host synchronising" and
"waiting for data": the same, the host standing in a synchronisation or a data loader; "other
communication": it was busy in other collectives or copies; "unknown" where nothing of this is
recorded.
"""


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing about a recording that limits what can be concluded.

    Attributes:
        code: a stable word ("no_device_work", "missing_work", "clock_skew", ...).
        severity: "cannot": the questions in `about` have no answer; "doubt": answers to them may
            be wrong; "note": worth knowing, also what was not recorded at all.
        sentence: in words, with the numbers.
        about: which of `QUESTIONS` it touches.
        rank: the rank it is about; None for all of them.
    """

    code: str
    severity: Literal["cannot", "doubt", "note"]
    sentence: str
    about: tuple[str, ...]
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a recording can be trusted.

    Attributes:
        remarks: worst first.
        can_conclude: for each of `QUESTIONS`, whether the recording can answer it at all.
    """

    remarks: tuple[Remark, ...]
    can_conclude: Mapping[str, bool]

    def worst(self, *questions: str) -> Remark | None:
        """Return the worst remark other than a note on any of these questions (all if none)."""
        wanted = set(questions or QUESTIONS)
        return next(
            (r for r in self.remarks if r.severity != "note" and wanted & set(r.about)), None
        )


def allowed(trust: Trust | None, needs: str) -> bool:
    """Return whether the recording can carry a finding that needs an answer to a question."""
    if trust is None or not needs:
        return True
    asked = {needs, "time", "idle"} if needs == "host" else {needs, "time"}
    return all(trust.can_conclude.get(question, True) for question in asked)


@dataclass(frozen=True, slots=True)
class CommunicationSort:
    """Equal collectives of one group: how many, how large, how fast.

    Attributes:
        name: "all_reduce", "all_to_all", "send_recv", ...
        group: name of the process group; "" if unknown.
        group_size: ranks in it; None if unknown.
        dtype: torch's name; "" if unknown.
        count: calls on one rank (mean over the ranks, rounded, where there are several).
        message_bytes: size of one call's message as nccl-tests count it; None if unknown.
        time_s: kernel time of all calls on one rank (mean over the ranks).
        transfer_s: time of one call's transfer: the median over the calls of the shortest duration
            over the ranks; of one rank's own durations where only one rank is recorded.
        waiting_s: time_s that is waiting for other ranks; None where only one rank is recorded.
        algorithm_bytes_per_s: message_bytes / transfer_s.
        bus_bytes_per_s: the algorithm bandwidth times nccl-tests' factor of the collective.
        is_lower_bound: transfer_s may hold waiting (one rank, or not all ranks of the group are
            recorded), so true bandwidths are at least these.
        expected_s: of one recorded rank, the time of one call that its bytes need, from the model
            of `explain collective` (or the shortest recorded, where that is less); None where it
            is not known. `waiting_s` and `transfer_s` follow from it (see
            `gpuscope.analysis.expected_waiting`), the bandwidths from the shortest call.
    """

    name: str
    group: str
    group_size: int | None
    dtype: str
    count: int
    message_bytes: int | None
    time_s: float
    transfer_s: float
    waiting_s: float | None
    algorithm_bytes_per_s: float | None
    bus_bytes_per_s: float | None
    is_lower_bound: bool
    expected_s: float | None = None


@dataclass(frozen=True, slots=True)
class CollectiveWaiting:
    """A rank's waiting in collectives of a step, as their expected times tell it.

    Attributes:
        exposed_s: waiting that no other kernel of the rank hides.
        communication_s: all of its communication that none hides.
        judged: collectives of the window that are held against an expected time, and all.
        host_s: `exposed_s` by what its host did meanwhile: "working", "synchronising", "loading",
            "done"; empty where the host is not recorded.
    """

    exposed_s: float
    communication_s: float
    judged: tuple[int, int]
    host_s: Mapping[str, float]

    @property
    def share(self) -> float:
        """Waiting as a share of the communication that nothing hides."""
        return self.exposed_s / self.communication_s if self.communication_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Communication:
    """Communication of one rank over its whole timeline.

    Attributes:
        rank: which one.
        count: communication kernels.
        kernel_s: sum of their durations (calls on several streams may overlap).
        busy_s: their union.
        exposed_s: the part of the union that no other kernel hides.
        sorts: equal calls together, most time first.
        waiting: of the only recorded rank, what it waits in collectives of a step; None where
            that cannot be told, or where other ranks tell it better (`RankStory`).
    """

    rank: int
    count: int
    kernel_s: float
    busy_s: float
    exposed_s: float
    sorts: tuple[CommunicationSort, ...]
    waiting: CollectiveWaiting | None = None

    @property
    def overlapped(self) -> float:
        """Share of the communication that runs beside computation, 0..1."""
        return 1 - self.exposed_s / self.busy_s if self.busy_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class RankShare:
    """One rank's part in the communication, over its whole timeline.

    Attributes:
        rank: which one.
        transfer_s, waiting_s: of its matched collectives, and of those of groups of one rank.
        unmatched_s: collectives without a partner in another rank's recording: transfer and
            waiting cannot be told apart. The three sum to the durations of its communication
            kernels.
        caused_s: waiting of other ranks in collectives to which this rank came last, summed over
            the ranks that waited.
        times_last: collectives to which it came last.
        exposed_transfer_s, exposed_waiting_s: the parts that no other kernel of this rank hides
            (overlaps counted once).
        message_bytes: its messages together, as nccl-tests count them, of those whose size is
            recorded; None if none is.
        compute_s: union of its kernels that are not communication.
        clock_offset_s: how far its clock runs ahead of the median rank's, as its collectives'
            ends tell; None if unknown.
        host_s: time of its host a step outside of synchronisations: how fast its steps could
            follow each other if its device took no time; None without marked steps or host.
    """

    rank: int
    transfer_s: float
    waiting_s: float
    unmatched_s: float
    caused_s: float
    times_last: int
    exposed_transfer_s: float
    exposed_waiting_s: float
    message_bytes: int | None
    compute_s: float
    clock_offset_s: float | None
    host_s: float | None = None


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One collective over its ranks.

    Attributes:
        name, group: as `CommunicationSort`.
        number: the how-manieth matched collective in time, from 0.
        start_ns: when the first rank entered, on the timeline's own clock.
        ranks: who took part (those recorded).
        waits_s: waiting of each of `ranks`.
        transfer_s: the shortest duration over the ranks.
        last: the rank that came last.
        late_s: how much later than the median of the others it came.
        lead_s: how much later than the second to last.
        reason: one of `LATE_REASONS`.
        instead: what that rank did for the longest time before it came: an operator, kernel or
            call; "" where nothing is recorded on its host.
        instead_s: for how long; for "began late", how much later than the median of the others.
    """

    name: str
    group: str
    number: int
    start_ns: int
    ranks: tuple[int, ...]
    waits_s: tuple[float, ...]
    transfer_s: float
    last: int
    late_s: float
    lead_s: float
    reason: str
    instead: str = ""
    instead_s: float = 0.0

    @property
    def waiting_s(self) -> float:
        """Waiting of all its ranks together."""
        return sum(self.waits_s)


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that systematically holds up the others.

    Attributes:
        rank: which one.
        share: of all waiting that no computation hides and that is not for a recording that began
            late, what it caused.
        reason: why, by most of that waiting; one of `LATE_REASONS`.
        waits_s: what each rank waited for it in the open, in the order of `RankStory.ranks`.
        kernel_ratio: duration of its kernels to those of the others, equal kernels compared;
            None if there are none to compare.
        work_ratio: time of its kernels to the others' median; None without kernels.
        seen: in what: "steps" (several agree), "one step" or "few collectives": it may be chance.
    """

    rank: int
    share: float
    reason: str
    waits_s: tuple[float, ...]
    kernel_ratio: float | None
    work_ratio: float | None
    seen: Literal["steps", "one step", "few collectives"] = "steps"


@dataclass(frozen=True, slots=True)
class RankStory:
    """Who waits for whom, over the whole timeline.

    Attributes:
        ranks: every rank that communicates, ascending.
        matched, unmatched: collectives found on two or more ranks; kernels without a partner.
        steps: steps of the timeline (1 where none is marked), to turn sums into times a step.
        span_s: first to last device event of all ranks, on one clock.
        sorts: equal collectives together, most time first.
        calls: the collectives with most waiting, at most `MAX_CALLS`, most first.
        waiting_by_reason: seconds of all ranks' waiting by why the last rank was late; sums to
            all matched waiting.
        causes: (rank, reason, seconds of the other ranks' waiting), most first; sums likewise.
        straggler: the rank that causes most of the waiting; None if no rank stands out.
        complete: every rank of every group is recorded.
        sentence: the story in a few sentences.
    """

    ranks: tuple[RankShare, ...]
    matched: int
    unmatched: int
    steps: int
    span_s: float
    sorts: tuple[CommunicationSort, ...]
    calls: tuple[CollectiveCall, ...]
    waiting_by_reason: Mapping[str, float]
    causes: tuple[tuple[int, str, float], ...]
    straggler: Straggler | None
    complete: bool
    sentence: str = ""

    @property
    def transfer_s(self) -> float:
        """Transfer of all ranks together."""
        return sum(share.transfer_s for share in self.ranks)

    @property
    def waiting_s(self) -> float:
        """Waiting of all ranks together."""
        return sum(share.waiting_s for share in self.ranks)

    @property
    def waiting_share(self) -> float:
        """Waiting as a share of transfer and waiting."""
        both = self.transfer_s + self.waiting_s
        return self.waiting_s / both if both > 0 else 0.0


@dataclass(frozen=True, slots=True)
class SlowStep:
    """A step that took much longer than the typical one.

    Attributes:
        number: its place among the rank's steps, from 0.
        start_ns: its start.
        time_s: its length.
        extra_s: beyond the mean of the typical steps.
        parts: (label, extra seconds) by class of time; sums to extra_s.
        causes: (name, extra seconds) of single kernels, operators and calls that took longer,
            most first; they overlap with each other and with `parts`.
    """

    number: int
    start_ns: int
    time_s: float
    extra_s: float
    parts: tuple[tuple[str, float], ...]
    causes: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class RankSteps:
    """The steps of one rank.

    Attributes:
        rank: which one.
        times_s: each step's length, in order.
        median_s, mean_s, fastest_s, slowest_s: over all steps.
        spread: (90th - 10th percentile) / median.
        slow: the slow steps, longest first, at most five.
        jitter: for each of "data loader", "garbage collection", "allocation on the device",
            "compilation" that occurs: (median, largest) host seconds in a step.
    """

    rank: int
    times_s: tuple[float, ...]
    median_s: float
    mean_s: float
    fastest_s: float
    slowest_s: float
    spread: float
    slow: tuple[SlowStep, ...]
    jitter: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class StepSpread:
    """How steps differ from each other, by rank (those with three steps or more)."""

    ranks: tuple[RankSteps, ...]


def waiting_share(
    story: RankStory | None, talk: Communication | None, rank: int, job: JobStory | None = None
) -> float | None:
    """Return the part of a rank's exposed communication that is waiting; None: nothing tells.

    Args:
        story: what all ranks' recordings tell, where there are several.
        talk: else what one rank's collectives tell against their expected times.
        rank: whose.
        job: what tells each rank's transfer and waiting of a predicted job; the recordings' story
            takes for waiting what a rank exchanges with others that it stands for itself.
    """
    if story is not None and job is not None:
        mine = next((each for each in job.ranks if each.rank == rank), None)
        late = mine.bubble_s + mine.imbalance_s if mine is not None else 0.0
        whole = mine.exposed_s + late if mine is not None else 0.0
        return late / whole if whole > 0 else None
    if story is None:
        return talk.waiting.share if talk is not None and talk.waiting is not None else None
    own = next((share for share in story.ranks if share.rank == rank), None)
    both = own.exposed_transfer_s + own.exposed_waiting_s if own is not None else 0.0
    return own.exposed_waiting_s / both if own is not None and both > 0 else None
