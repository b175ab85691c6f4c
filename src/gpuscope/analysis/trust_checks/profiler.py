"""Did recording itself, or a first time, change what was recorded?"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gpuscope.analysis.cover import Cover
from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks.facts import RankFacts
from gpuscope.analysis.window import COMMUNICATION
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, joined
from gpuscope.timeline.types import Ints

OVERHEAD_SHARE = 0.01
"""The recorder's own work above this share of the recording shows in the idle time."""

HEAVY_SHARE = 0.20
"""Above this share it may change the verdict. Below, it is a known place or two (CUPTI asks for a
buffer once in a few thousand events, 1 to 4 ms each) that the story tells apart."""

LONG_FIRST = 1.5
"""A first step this much longer than the median of the others holds a warm-up."""

OVERHEAD = re.compile(
    r"^(Activity Buffer Request|Buffer Flush|Instrumentation|Resource|Overhead|"
    r"Unrecognized|Command Buffer Full|UVM Activity Init)$|cupti.*(flush|buffer)",
    re.IGNORECASE,
)
"""Names of CUPTI's overhead records as Kineto writes them (`overheadKindString`, CUPTI's
CUpti_ActivityOverheadKind)."""

_FIRST_TIME: tuple[tuple[Text, re.Pattern[str]], ...] = tuple(
    (what, re.compile(pattern, re.IGNORECASE))
    for what, pattern in (
        (Text("allocating device memory"), r"^(cuda|hip)Malloc(Async|Managed)?$"),
        (
            Text("compiling"),
            r"compile_fx|_compile\b|inductor.*compil|dynamo.*compil|async_compile|nvrtcCompile",
        ),
        (
            Text("loading kernels"),
            r"Lazy Function Loading|Runtime Triggered Module Loading|^(cu|hip)ModuleLoad",
        ),
        (Text("capturing a graph"), r"StreamBeginCapture|GraphInstantiate"),
    )
)


def check(facts: RankFacts) -> Iterator[Remark]:
    """Yield what does not belong to the steady state."""
    yield from _overhead(facts)
    first = _first_times(facts)
    yield from _long_first_step(facts, first)


def _time_of(facts: RankFacts, pattern: re.Pattern[str]) -> Ints:
    """Rows of host events whose name matches."""
    wanted = np.array([bool(pattern.search(name)) for name in facts.timeline.names], bool)
    if not wanted.any():
        return facts.host[:0]
    rows: Ints = facts.host[wanted[facts.timeline.events.name[facts.host]]]
    return rows


def _overhead(facts: RankFacts) -> Iterator[Remark]:
    events = facts.timeline.events
    rows = _time_of(facts, OVERHEAD)
    cover = Cover.of(events.start_ns[rows], events.end_ns[rows])
    if len(facts.device):
        low = np.array([events.start_ns[facts.device].min()])
        high = np.array([events.end_ns[facts.device].max()])
        spent = int(cover.within(low, high)[0])
    else:
        spent = 0
    if spent == 0 or spent < OVERHEAD_SHARE * facts.span_ns:
        return
    share = Percent(spent / facts.span_ns)
    yield Remark(
        "profiler_overhead",
        "doubt" if spent >= HEAVY_SHARE * facts.span_ns else "note",
        Text(
            "The profiler itself took {spent} ({share}) within the recording: idle time at these "
            "places is its own.",
            spent=Seconds(spent * 1e-9),
            share=share,
        ),
        ("idle", "host"),
        facts.rank,
    )


def _first_times(facts: RankFacts) -> list[tuple[Text, float]]:
    """What the first step spent on things that happen once, in words and seconds."""
    if not facts.steps:
        return []
    events, step = facts.timeline.events, facts.steps[0]
    low, high = np.array([step.start_ns]), np.array([step.end_ns])
    found = []
    for what, pattern in _FIRST_TIME:
        rows = _time_of(facts, pattern)
        spent = int(Cover.of(events.start_ns[rows], events.end_ns[rows]).within(low, high)[0])
        if spent:
            found.append((what, spent * 1e-9))
    return sorted(found, key=lambda item: -item[1])


def _communicating_s(facts: RankFacts) -> npt.NDArray[np.float64]:
    """Seconds of each step in which a communication kernel ran."""
    events = facts.timeline.events
    rows = facts.device[events.kind[facts.device] == COMMUNICATION]
    start = np.array([step.start_ns for step in facts.steps])
    end = np.array([step.end_ns for step in facts.steps])
    covered = Cover.of(events.start_ns[rows], events.end_ns[rows]).within(start, end)
    return np.asarray(covered * 1e-9, np.float64)


def _long_first_step(facts: RankFacts, first: list[tuple[Text, float]]) -> Iterator[Remark]:
    if len(facts.steps) < 3:
        return
    length = np.array([step.end_ns - step.start_ns for step in facts.steps], np.float64) * 1e-9
    median = float(np.median(length[1:]))
    own = length - _communicating_s(facts)
    if length[0] < LONG_FIRST * median or own[0] < LONG_FIRST * float(np.median(own[1:])):
        return  # a first step that is long for waiting in a collective is another rank's matter
    extra = length[0] - median
    causes = [item for item in first if item[1] >= 0.1 * extra][:2]
    doing = joined(Text("{what} {time}", what=what, time=Seconds(time)) for what, time in causes)
    yield Remark(
        "warm_up",
        "doubt",
        Text(
            "The first step takes {length}, the others {median}: the recording holds a "
            "warm-up{doing}, so means over its steps are too high.",
            length=Seconds(length[0]),
            median=Seconds(median),
            doing=Text(" ({doing})", doing=doing) if doing else doing,
        ),
        ("steps", "idle"),
        facts.rank,
    )
