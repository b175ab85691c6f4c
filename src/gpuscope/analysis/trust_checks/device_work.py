"""Is the device work all there, tied to its launches, and possible?"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks.facts import Bools, RankFacts
from gpuscope.analysis.window import COMMUNICATION, KERNEL
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.timeline.types import Ints, Timeline

DOUBT_SHARE = 0.01
"""Launches without device work: a few at the recording's end are usual."""

LEAST_MISSING = 3
"""One or two calls without work happen in sound recordings."""

CANNOT_SHARE = 0.20
"""With every fifth launch's work missing, neither busy nor idle time means anything."""

UNLINKED_SHARE = 0.5
"""With half of the device work unlinked, the host's part in idle time cannot be told."""

OVERLAP_SLACK_NS = 2_000
"""Kernels of a stream may touch by rounding: old recordings count whole microseconds."""

EARLY_FROM = 9
"""First major compute capability with programmatic dependent launch (CUDA Programming Guide)."""

LONGEST_NS = 3_600_000_000_000
"""No kernel runs for an hour: the device's own watchdogs and users end it before."""

_BEGIN_CAPTURE = re.compile(r"StreamBeginCapture", re.IGNORECASE)
_END_CAPTURE = re.compile(r"StreamEndCapture", re.IGNORECASE)
_GRAPH = re.compile(r"GraphLaunch", re.IGNORECASE)
_WORKLESS = re.compile(
    r"Memset|Memcpy|GraphLaunch|HostFunc|GraphInstantiate|EventRecord|wait(On)?Event", re.IGNORECASE
)
"""Calls that need not leave device work of their own, though recorders tie an id to them."""


def check(facts: RankFacts) -> Iterator[Remark]:
    """Yield what is wrong with the rank's device events."""
    if len(facts.device) == 0:
        yield _no_work(facts)
        return
    yield from _missing_work(facts)
    yield from _unlinked(facts)
    yield from _graphs(facts)
    yield from _durations(facts)
    yield from _overlaps(facts)
    yield from _before_launch(facts)


def _no_work(facts: RankFacts) -> Remark:
    about = ("time", "idle", "communication", "ranks", "steps")
    launches = len(facts.launch)
    if facts.source is not None and facts.source.cut_off:
        return Remark(
            "no_device_work",
            "cannot",
            Text(
                "There is no device work in the part of the file that is there: the file ends in "
                "the middle, and recorders write the device's work last."
            ),
            about,
            facts.rank,
        )
    if launches:
        return Remark(
            "no_device_work",
            "cannot",
            Text(
                "There are {launches} launch calls but no device work: the recorder got nothing "
                "from the driver (no CUPTI or ROCTracer, no permission, or another profiler held "
                "it).",
                launches=launches,
            ),
            about,
            facts.rank,
        )
    return Remark(
        "no_device_work",
        "cannot",
        Text(
            "There is no device work: only the host was recorded (the profiler ran without device "
            "activity, or this process used no accelerator)."
        ),
        about,
        facts.rank,
    )


def _missing_work(facts: RankFacts) -> Iterator[Remark]:
    """Launch calls whose work is not there; those after the last device event are the cut end."""
    events = facts.timeline.events
    launch = facts.launch[events.correlation[facts.launch] >= 0]
    names = np.array([bool(_WORKLESS.search(name)) for name in facts.timeline.names], bool)
    launch = launch[~names[events.name[launch]]] if len(launch) else launch
    launch = launch[~captured(facts.timeline, launch)]
    if len(launch) == 0:
        return
    found = np.isin(events.correlation[launch], events.correlation[facts.device])
    last = int(events.end_ns[facts.device].max())
    after = ~found & (events.start_ns[launch] >= last)
    # Work that ends before it begins was left out by the reader: said by itself.
    left_out = facts.source.events_negative if facts.source is not None else 0
    missing = max(0, int((~found & ~after).sum()) - left_out)
    share = missing / len(launch)
    if share >= DOUBT_SHARE and missing >= LEAST_MISSING:
        cannot = share >= CANNOT_SHARE
        about = ("time", "idle", "communication", "steps")
        yield Remark(
            "missing_work",
            "cannot" if cannot else "doubt",
            Text(
                "{missing} of {launch} kernel launches ({share}) have no device work: events were "
                "dropped, so the device looks idler than it was.",
                missing=missing,
                launch=len(launch),
                share=Percent(share),
            ),
            about,
            facts.rank,
        )
    if int(after.sum()) > DOUBT_SHARE * len(launch):
        yield Remark(
            "cut_end",
            "note",
            Text(
                "The recording ends before the work of its last {launches} launches.",
                launches=int(after.sum()),
            ),
            ("steps",),
            facts.rank,
        )


def captured(timeline: Timeline, launch: Ints) -> Bools:
    """Return which launch calls were recorded into a CUDA graph: they start no work.

    Those between the begin and the end of a capture on their own thread. A capture that another
    thread's calls join (mode "relaxed" or "global") is not followed there.
    """
    events = timeline.events
    begins = np.array([bool(_BEGIN_CAPTURE.search(name)) for name in timeline.names], bool)
    ends = np.array([bool(_END_CAPTURE.search(name)) for name in timeline.names], bool)
    out = np.zeros(len(launch), bool)
    if len(launch) == 0 or not (begins.any() and ends.any()):
        return out
    begin_rows = np.flatnonzero(begins[events.name])
    end_rows = np.flatnonzero(ends[events.name])
    for lane in np.unique(events.lane[begin_rows]).tolist():
        begun = np.sort(events.start_ns[begin_rows[events.lane[begin_rows] == lane]])
        ended = np.sort(events.end_ns[end_rows[events.lane[end_rows] == lane]])
        at = events.start_ns[launch]
        opened = np.searchsorted(begun, at, side="right")
        closed = np.searchsorted(ended, at, side="right")
        out |= (events.lane[launch] == lane) & (opened > closed)
    return out


def _unlinked(facts: RankFacts) -> Iterator[Remark]:
    """Device work without a launch call: recorded midway, or the host was not recorded."""
    launch, graph = facts.column("launch"), facts.column("graph")
    events = facts.timeline.events
    if launch is None:
        known = np.isin(events.correlation[facts.device], events.correlation[facts.launch])
        known &= events.correlation[facts.device] >= 0
    else:
        known = launch >= 0
    if graph is not None:
        known = known | (graph >= 0)
    missing = int((~known).sum())
    if missing == 0:
        return
    share = missing / len(known)
    first = int(np.flatnonzero(known)[0]) if known.any() else len(known)
    if len(facts.launch) == 0:
        yield Remark(
            "no_launches",
            "cannot",
            Text(
                "No launch call is recorded for the {known} device events: why the device was "
                "idle cannot be told.",
                known=len(known),
            ),
            ("host",),
            facts.rank,
        )
    elif share >= UNLINKED_SHARE:
        yield Remark(
            "work_without_launch",
            "doubt",
            Text(
                "{missing} of {known} device events ({share}) have no launch call in the "
                "recording: the causes of idle time are known in part only.",
                missing=missing,
                known=len(known),
                share=Percent(share),
            ),
            ("host",),
            facts.rank,
        )
    else:
        midway = first >= missing
        yield Remark(
            "begun_midway" if midway else "work_without_launch",
            "note",
            Text(
                "{missing} of {known} device events have no launch call: they were launched before "
                "the recording began.",
                missing=missing,
                known=len(known),
            )
            if midway
            else Text(
                "{missing} of {known} device events have no launch call.",
                missing=missing,
                known=len(known),
            ),
            ("host",),
            facts.rank,
        )


def _graphs(facts: RankFacts) -> Iterator[Remark]:
    """Graph launches that show fewer device events than the fullest launch of their graph."""
    events = facts.timeline.events
    is_graph = np.array([bool(_GRAPH.search(name)) for name in facts.timeline.names], bool)
    calls = facts.launch[is_graph[events.name[facts.launch]]] if len(facts.launch) else facts.launch
    calls = calls[events.correlation[calls] >= 0]
    if len(calls) == 0:
        return
    correlation, count = np.unique(events.correlation[facts.device], return_counts=True)
    at = np.minimum(np.searchsorted(correlation, events.correlation[calls]), len(correlation) - 1)
    work = np.where(correlation[at] == events.correlation[calls], count[at], 0)
    graph = _graph_of(facts, calls)
    poor = 0
    for code in np.unique(graph).tolist():
        own = work[graph == code]
        poor += int((own < 0.5 * own.max()).sum()) if own.max() > 1 else int((own < 1).sum())
    empty = int((work == 0).sum())
    if empty == len(work):
        yield Remark(
            "graph_not_recorded",
            "cannot",
            Text(
                "None of the {work} CUDA-graph launches shows its kernels: the device looks idle "
                "while it works.",
                work=len(work),
            ),
            ("time", "idle", "communication"),
            facts.rank,
        )
    elif poor >= max(1, DOUBT_SHARE * len(work)):
        yield Remark(
            "graph_under_recorded",
            "doubt",
            Text(
                "{poor} of {work} CUDA-graph launches show fewer than half of the kernels of their "
                "graph's fullest launch: the device looks idler than it was.",
                poor=poor,
                work=len(work),
            ),
            ("time", "idle"),
            facts.rank,
        )


def _graph_of(facts: RankFacts, calls: Ints) -> Ints:
    """The graph of each launch call: from its work; -1 (one group) where that is not recorded."""
    graph = facts.column("graph")
    if graph is None:
        return np.full(len(calls), -1, np.int64)
    events = facts.timeline.events
    order = np.argsort(events.correlation[facts.device], kind="stable")
    of = events.correlation[facts.device][order]
    at = np.minimum(np.searchsorted(of, events.correlation[calls]), len(of) - 1)
    return np.where(of[at] == events.correlation[calls], graph[order][at], -1)


def _durations(facts: RankFacts) -> Iterator[Remark]:
    events = facts.timeline.events
    length = events.duration_ns[facts.device]
    left_out = facts.source.events_negative if facts.source is not None else 0
    negative, huge = int((length < 0).sum()) + left_out, int((length > LONGEST_NS).sum())
    if negative:
        yield Remark(
            "negative_durations",
            "cannot" if negative > DOUBT_SHARE * len(length) else "doubt",
            Text(
                "{negative} device events end before they begin: the clocks went backward, and "
                "what they did cannot be told.",
                negative=negative,
            ),
            ("time", "idle"),
            facts.rank,
        )
    if huge:
        longest = Seconds(int(length.max()) * 1e-9)
        yield Remark(
            "huge_durations",
            "cannot",
            Text(
                "{huge} device events last longer than an hour (the longest {longest}): their "
                "times are wrong.",
                huge=huge,
                longest=longest,
            ),
            ("time", "idle"),
            facts.rank,
        )


def _overlaps(facts: RankFacts) -> Iterator[Remark]:
    """Kernels that run at one time on one stream, though a stream runs one after the other.

    Kernels of CUDA graphs may (their branches share a stream's number), and from Hopper on a kernel
    launched as dependent of the one before (programmatic dependent launch; cuDNN does) begins
    before that one ends and waits inside. It cannot end before it, so that there only kernels that
    also end inside the one before count, and twins (one kernel twice, of two recordings);
    elsewhere all that lie inside it for the most part.
    """
    events = facts.timeline.events
    rows = facts.device
    graph = facts.column("graph")
    kernels = np.isin(events.kind[rows], (KERNEL, COMMUNICATION))
    kernels &= np.array([lane.kind == "stream" for lane in facts.timeline.lanes])[events.lane[rows]]
    if graph is not None:
        kernels &= graph < 0
    rows = rows[kernels]
    if len(rows) < 2:
        return
    rows = rows[np.lexsort((events.start_ns[rows], events.lane[rows]))]
    same = events.lane[rows][1:] == events.lane[rows][:-1]
    start, end = events.start_ns[rows], events.end_ns[rows]
    over = np.minimum(end[1:], end[:-1]) - start[1:]
    length = np.maximum(np.minimum(end[1:] - start[1:], end[:-1] - start[:-1]), 1)
    bad = same & (over > OVERLAP_SLACK_NS) & (over * 2 > length)
    if _starts_early(facts):
        name, lasts = events.name[rows], end - start
        twins = (name[1:] == name[:-1]) & (lasts[1:] == lasts[:-1])
        bad &= (end[1:] <= end[:-1]) | twins
    share = float(bad.sum()) / len(rows)
    if share < DOUBT_SHARE:
        return
    yield Remark(
        "overlapping_kernels",
        "cannot" if share >= CANNOT_SHARE else "doubt",
        Text(
            "{inside} of {kernels} kernels ({share}) run inside another kernel of their stream, "
            "which cannot be: the clocks are bad, or two recordings are mixed.",
            inside=int(bad.sum()),
            kernels=len(rows),
            share=Percent(share),
        ),
        ("time", "idle"),
        facts.rank,
    )


def _starts_early(facts: RankFacts) -> bool:
    """Whether kernels of the rank's device may be launched before the one before has ended."""
    devices = facts.source.devices if facts.source is not None else ()
    known = [device.compute_capability for device in devices]
    return any(at is not None and at[0] >= EARLY_FROM for at in known)


def _before_launch(facts: RankFacts) -> Iterator[Remark]:
    """Device work that starts before its launch call: host and device clocks differ."""
    events = facts.timeline.events
    launch = facts.column("launch")
    if launch is None:
        order = np.argsort(events.correlation[facts.launch], kind="stable")
        of = events.correlation[facts.launch][order]
        if len(of) == 0:
            return
        at = np.minimum(np.searchsorted(of, events.correlation[facts.device]), len(of) - 1)
        found = of[at] == events.correlation[facts.device]
        found &= events.correlation[facts.device] >= 0
        launch = np.where(found, facts.launch[order][at], -1)
    known = launch >= 0
    ahead = events.start_ns[launch[known]] - events.start_ns[facts.device[known]]
    early = ahead > 0
    share = float(early.mean()) if len(early) else 0.0
    if share < DOUBT_SHARE:
        return
    by = Seconds(float(np.percentile(ahead[early], 90)) * 1e-9)
    cannot = share >= UNLINKED_SHARE
    yield Remark(
        "work_before_launch",
        "cannot" if cannot else "doubt",
        Text(
            "{early} of {events} device events ({share}) start before their launch call, by up to "
            "{by}: the host's and the device's clock differ, so causes of idle time are uncertain.",
            early=int(early.sum()),
            events=len(early),
            share=Percent(share),
            by=by,
        ),
        ("host",),
        facts.rank,
    )
