"""Is the device work all there, tied to its launches, and possible?"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks.facts import RankFacts
from gpuscope.analysis.window import COMMUNICATION, KERNEL
from gpuscope.analysis.wording import percent, seconds
from gpuscope.timeline.types import Ints

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

LONGEST_NS = 3_600_000_000_000
"""No kernel runs for an hour: the device's own watchdogs and users end it before."""

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
    if launches:
        return Remark(
            "no_device_work", "cannot",
            f"There are {launches} launch calls but no device work: the recorder got nothing from "
            "the driver (no CUPTI or ROCTracer, no permission, or another profiler held it).",
            f"有 {launches} 次启动调用，却没有任何设备工作：记录器没有从驱动得到数据"
            "（缺少 CUPTI 或 ROCTracer、没有权限，或被其他分析器占用）。",
            about, facts.rank,
        )  # fmt: skip
    return Remark(
        "no_device_work", "cannot",
        "There is no device work: only the host was recorded (the profiler ran without device "
        "activity, or this process used no accelerator).",
        "没有设备工作：只记录了主机（分析器未开启设备活动，或该进程没有使用加速器）。",
        about, facts.rank,
    )  # fmt: skip


def _missing_work(facts: RankFacts) -> Iterator[Remark]:
    """Launch calls whose work is not there; those after the last device event are the cut end."""
    events = facts.timeline.events
    launch = facts.launch[events.correlation[facts.launch] >= 0]
    names = np.array([bool(_WORKLESS.search(name)) for name in facts.timeline.names], bool)
    launch = launch[~names[events.name[launch]]] if len(launch) else launch
    if len(launch) == 0:
        return
    found = np.isin(events.correlation[launch], events.correlation[facts.device])
    last = int(events.end_ns[facts.device].max())
    after = ~found & (events.start_ns[launch] >= last)
    missing = int((~found & ~after).sum())
    share = missing / len(launch)
    if share >= DOUBT_SHARE and missing >= LEAST_MISSING:
        cannot = share >= CANNOT_SHARE
        about = ("time", "idle", "communication", "steps")
        yield Remark(
            "missing_work", "cannot" if cannot else "doubt",
            f"{missing} of {len(launch)} kernel launches ({percent(share)}) have no device work: "
            "events were dropped, so the device looks idler than it was.",
            f"{len(launch)} 次内核启动中有 {missing} 次（{percent(share)}）没有对应的设备工作："
            "事件被丢弃，设备看起来比实际空闲。",
            about, facts.rank,
        )  # fmt: skip
    if int(after.sum()) > DOUBT_SHARE * len(launch):
        yield Remark(
            "cut_end", "note",
            f"The recording ends before the work of its last {int(after.sum())} launches.",
            f"记录在最后 {int(after.sum())} 次启动的工作完成之前就结束了。",
            ("steps",), facts.rank,
        )  # fmt: skip


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
            "no_launches", "cannot",
            f"No launch call is recorded for the {len(known)} device events: why the device was "
            "idle cannot be told.",
            f"{len(known)} 个设备事件都没有启动调用的记录：无法说明设备为何空闲。",
            ("host",), facts.rank,
        )  # fmt: skip
    elif share >= UNLINKED_SHARE:
        yield Remark(
            "work_without_launch", "doubt",
            f"{missing} of {len(known)} device events ({percent(share)}) have no launch call in "
            "the recording: the causes of idle time are known in part only.",
            f"{len(known)} 个设备事件中有 {missing} 个（{percent(share)}）在记录中没有启动调用："
            "空闲的原因只能部分说明。",
            ("host",), facts.rank,
        )  # fmt: skip
    else:
        midway = first >= missing
        yield Remark(
            "begun_midway" if midway else "work_without_launch", "note",
            f"{missing} of {len(known)} device events have no launch call"
            + (": they were launched before the recording began." if midway else "."),
            f"{len(known)} 个设备事件中有 {missing} 个没有启动调用"
            + ("：它们在记录开始前就已启动。" if midway else "。"),
            ("host",), facts.rank,
        )  # fmt: skip


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
            "graph_not_recorded", "cannot",
            f"None of the {len(work)} CUDA-graph launches shows its kernels: the device looks "
            "idle while it works.",
            f"{len(work)} 次 CUDA 图启动都没有记录其内核：设备在工作时看起来是空闲的。",
            ("time", "idle", "communication"), facts.rank,
        )  # fmt: skip
    elif poor >= max(1, DOUBT_SHARE * len(work)):
        yield Remark(
            "graph_under_recorded", "doubt",
            f"{poor} of {len(work)} CUDA-graph launches show fewer than half of the kernels of "
            "their graph's fullest launch: the device looks idler than it was.",
            f"{len(work)} 次 CUDA 图启动中有 {poor} 次显示的内核不到同一个图最完整一次的一半："
            "设备看起来比实际空闲。",
            ("time", "idle"), facts.rank,
        )  # fmt: skip


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
    negative, huge = int((length < 0).sum()), int((length > LONGEST_NS).sum())
    if negative:
        yield Remark(
            "negative_durations", "cannot" if negative > DOUBT_SHARE * len(length) else "doubt",
            f"{negative} device events end before they begin.",
            f"{negative} 个设备事件的结束时间早于开始时间。",
            ("time", "idle"), facts.rank,
        )  # fmt: skip
    if huge:
        longest = seconds(int(length.max()) * 1e-9)
        yield Remark(
            "huge_durations", "cannot",
            f"{huge} device events last longer than an hour (the longest {longest}): their times "
            "are wrong.",
            f"{huge} 个设备事件超过一小时（最长 {longest}）：其时间有误。",
            ("time", "idle"), facts.rank,
        )  # fmt: skip


def _overlaps(facts: RankFacts) -> Iterator[Remark]:
    """Kernels that run at one time on one stream, though a stream runs one after the other.

    Kernels of CUDA graphs may (their branches share a stream's number), and a kernel launched as
    dependent of the one before (programmatic dependent launch) begins while that one ends, so
    only kernels that lie for the most part inside the one before count.
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
    share = float(bad.sum()) / len(rows)
    if share < DOUBT_SHARE:
        return
    yield Remark(
        "overlapping_kernels", "cannot" if share >= CANNOT_SHARE else "doubt",
        f"{int(bad.sum())} of {len(rows)} kernels ({percent(share)}) run inside another kernel of "
        "their stream, which cannot be: the clocks are bad, or two recordings are mixed.",
        f"{len(rows)} 个内核中有 {int(bad.sum())} 个（{percent(share)}）与同一流中的另一个内核"
        "重叠，这不可能发生：时钟有误，或两份记录混在一起。",
        ("time", "idle"), facts.rank,
    )  # fmt: skip


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
    by = seconds(float(np.percentile(ahead[early], 90)) * 1e-9)
    cannot = share >= UNLINKED_SHARE
    yield Remark(
        "work_before_launch", "cannot" if cannot else "doubt",
        f"{int(early.sum())} of {len(early)} device events ({percent(share)}) start before their "
        f"launch call, by up to {by}: the host's and the device's clock differ, so causes of idle "
        "time are uncertain.",
        f"{len(early)} 个设备事件中有 {int(early.sum())} 个（{percent(share)}）早于其启动调用开始，"
        f"最多早 {by}：主机与设备的时钟不一致，空闲原因不确定。",
        ("host",), facts.rank,
    )  # fmt: skip
