"""What a recording can carry, and what findings are withheld when it cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders import TimelineBuilder
from rank_builder import RankBuilder

from gpuscope.analysis import analyze
from gpuscope.analysis.findings.registry import RULES
from gpuscope.analysis.recorded_types import QUESTIONS, Remark, Trust, allowed
from gpuscope.analysis.trust import trust
from gpuscope.document.text import render
from gpuscope.timeline.types import Counter, Source, Timeline


def clean(steps: int = 4) -> RankBuilder:
    """A recording with nothing wrong: launches, work inside the steps, memory."""
    b = RankBuilder()
    for number in range(steps):
        start = 100.0 * number
        b.step(start, start + 100)
        for i in range(4):
            b.work(start + 20 * i + 10, start + 20 * i + 25, launch_us=start + 20 * i + 3)
    b.counters.append(Counter("allocated", "bytes", np.array([0], np.int64), np.array([1.0])))
    return b


def checked(timeline: Timeline, rank: int | None = None) -> Trust:
    found = trust(timeline, rank)
    assert found is not None
    for remark in found.remarks:
        assert remark.sentence.endswith((".", ")"))
        assert render(remark.sentence, "zh") != remark.sentence
        assert set(remark.about) <= set(QUESTIONS)
    return found


def test_a_good_recording_has_no_remark() -> None:
    found = checked(clean().timeline())
    assert found.remarks == ()
    assert found.can_conclude == dict.fromkeys(QUESTIONS, True)
    assert found.worst() is None


def test_a_prediction_is_not_checked() -> None:
    b = TimelineBuilder()
    b.work(0, 10)
    assert trust(b.build()) is None
    assert analyze(b.build()).trust is None


def test_host_alone_concludes_nothing_about_the_device() -> None:
    b = RankBuilder()
    b.host(0, 50)
    b.step(0, 50)
    found = checked(b.timeline())
    assert found.remarks[0].code == "no_device_work"
    assert found.remarks[0].severity == "cannot"
    assert not found.can_conclude["time"]
    assert not found.can_conclude["idle"]
    assert found.can_conclude["host"]
    findings = analyze(b.timeline()).findings
    assert [finding.kind for finding in findings] == ["untrusted_trace"]


def missing(count: int, of: int) -> Timeline:
    """`count` of `of` launches without device work, all of them before the last kernel."""
    b = RankBuilder()
    for i in range(of):
        b.host(10 * i, 10 * i + 9, name="aten::op")
        b.work(10 * i + 5, 10 * i + 8, launch_us=10 * i + 2)
    b.step(0, 10 * of)
    timeline = b.timeline()
    events = timeline.events
    rows = np.flatnonzero(events.kind < 4)[: count + 1][1:] if count else np.zeros(0, np.int64)
    keep = np.ones(len(events), bool)
    keep[rows] = False
    columns = {name: getattr(events, name)[keep] for name in events.__slots__}
    return replace(timeline, events=type(events)(**columns), recorded=None)


@pytest.mark.parametrize(("count", "severity"), [(0, None), (5, "doubt"), (30, "cannot")])
def test_dropped_kernels(count: int, severity: str | None) -> None:
    timeline = missing(count, 100)
    remarks = {remark.code: remark for remark in checked(timeline).remarks}
    if severity is None:
        assert "missing_work" not in remarks
        assert any(f.kind == "host_bound" for f in analyze(timeline).findings)
        return
    assert remarks["missing_work"].severity == severity
    assert f"{count} of 100" in remarks["missing_work"].sentence
    findings = analyze(timeline).findings
    assert findings[0].kind == "untrusted_trace"
    assert any(f.kind == "host_bound" for f in findings) == (severity == "doubt")


def test_only_one_rank_is_checked_when_asked() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 10}, 5)
    b.host(0, 50, rank=1)
    found = checked(b.timeline(), rank=0)
    assert all(remark.rank is None for remark in found.remarks)
    assert "no_host_events" in [remark.code for remark in found.remarks]
    b.work(20, 30, rank=1, launch_us=5)
    assert checked(b.timeline()).can_conclude["host"]  # rank 1 has a host


def test_what_several_ranks_lack_is_said_once() -> None:
    b = RankBuilder()
    b.meet({0: 0, 1: 10, 2: 4}, 5)
    remarks = checked(b.timeline()).remarks
    assert [r.code for r in remarks].count("no_host_events") == 1
    assert next(r for r in remarks if r.code == "no_host_events").rank is None


def test_what_was_not_recorded_is_a_note_without_an_answer() -> None:
    b = RankBuilder()
    b.meet({0: 0}, 5, members=(0, 1))
    b.host(0, 4)
    b.sources.append(Source(0, "rank-0.json", rank_known=True, world_size=2))
    found = checked(b.timeline())
    notes = {remark.code for remark in found.remarks if remark.severity == "note"}
    assert {"no_memory_events", "no_steps", "one_rank"} <= notes
    assert not found.can_conclude["memory"]
    assert not found.can_conclude["steps"]
    assert not found.can_conclude["ranks"]
    assert found.can_conclude["time"]


def test_worst_is_asked_by_question() -> None:
    doubt = Remark("a", "doubt", "A.", ("idle",))
    note = Remark("b", "note", "B.", ("time",))
    found = Trust((doubt, note), dict.fromkeys(QUESTIONS, True))
    assert found.worst() is doubt
    assert found.worst("idle", "time") is doubt
    assert found.worst("time") is None


def test_every_finding_knows_what_it_needs() -> None:
    needs = {rule.needs for rule in RULES}
    assert needs - {""} <= set(QUESTIONS)
    nothing = Trust((), dict.fromkeys(QUESTIONS, False))
    assert not any(allowed(nothing, each) for each in needs if each)
    assert allowed(nothing, "")
    assert allowed(None, "host")
