"""A recording that cannot be trusted says so first."""

from __future__ import annotations

from builders import TimelineBuilder, find
from rank_builder import RankBuilder

from gpuscope.analysis import analyze


def test_a_sound_recording_is_trusted() -> None:
    b = RankBuilder()
    for i in range(20):
        b.work(20 * i + 5, 20 * i + 20, launch_us=20 * i)
    assert "untrusted_trace" not in [f.kind for f in analyze(b.timeline()).findings]


def test_a_prediction_is_never_untrusted() -> None:
    b = TimelineBuilder()
    b.work(0, 10)
    assert find(b, "untrusted_trace") is None


def test_no_device_work_comes_first() -> None:
    b = TimelineBuilder(origin="measured")
    b.host(0, 50)
    found = find(b, "untrusted_trace")
    assert found is not None
    assert found.title == "The recording has no device work to judge."
    assert found.max_gain_s is None


def test_doubts_come_before_gains() -> None:
    b = RankBuilder()
    for i in range(40):  # a slow host, and two recordings mixed on one stream
        b.work(50 * i + 5, 50 * i + 15, launch_us=50 * i)
        b.work(50 * i + 6, 50 * i + 14, launch_us=50 * i + 1)
    b.step(0, 2_000)
    found = analyze(b.timeline()).findings
    assert found[0].kind == "untrusted_trace"
    assert "cannot be trusted" in found[0].title
    assert [finding.kind for finding in found] == ["untrusted_trace"]


def test_warm_up_is_a_doubt() -> None:
    b, now = RankBuilder(), 0.0
    for length in (500.0, 100.0, 100.0, 100.0):
        b.work(now + 5, now + length, launch_us=now)
        b.step(now, now + length)
        now += length
    found = next(f for f in analyze(b.timeline()).findings if f.kind == "untrusted_trace")
    assert "raises doubts" in found.title
    assert "warm-up" in found.evidence
