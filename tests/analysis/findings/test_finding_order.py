"""Order and registration of findings, and what must never be said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from builders import H200, TimelineBuilder, kernel, matmul, streaming
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis import Finding, analyze
from gpuscope.analysis.findings import registry
from gpuscope.analysis.findings.facts import Facts
from gpuscope.document.text import verbatim


@pytest.fixture
def restored() -> Iterator[None]:
    with registry.RULES.replaced({rule.find.__name__: rule for rule in registry.RULES}):
        yield


def mixed() -> TimelineBuilder:
    b = TimelineBuilder()
    end = b.chain([matmul(300, 0.5, waves=1.2)] + [kernel(2.5, limiter="latency")] * 60)
    b.step(0, end + 150)
    return b


def test_the_largest_gain_comes_first() -> None:
    gains = [f.max_gain_s or 0.0 for f in analyze(mixed().build(), on=H200).findings]
    assert len(gains) >= 3
    assert gains == sorted(gains, reverse=True)


@pytest.mark.usefixtures("restored")
def test_a_new_finding_needs_only_its_own_function() -> None:
    @registry.finding("always_there", needs="time")
    def always(facts: Facts) -> Finding:
        return Finding("always_there", verbatim("t"), verbatim(f"{facts.step_s}"), 1e9)

    assert analyze(mixed().build(), on=H200).findings[0].title == "t"
    assert "always_there" in registry.finding_kinds()
    with pytest.raises(ValueError, match="always"):
        registry.finding("other", needs="time")(_another())


def _another() -> registry.Finder:
    def always(facts: Facts) -> None:
        return None

    return always


@pytest.mark.usefixtures("restored")
def test_a_kind_that_a_rule_does_not_name_is_refused() -> None:
    registry.finding("small", needs="")(lambda facts: Finding("made_up", "t", "e", None))
    with pytest.raises(ValueError, match="not a kind"):
        analyze(mixed().build())


@pytest.mark.usefixtures("restored")
def test_a_question_that_no_recording_answers_is_refused() -> None:
    with pytest.raises(ValueError, match="no question"):
        registry.finding("small", needs="weather")


costs = st.one_of(
    st.builds(matmul, st.integers(2, 200), st.floats(0.05, 1.0), waves=st.floats(0.1, 9)),
    st.builds(streaming, st.integers(2, 200), st.floats(0.05, 1.0)),
    st.builds(kernel, st.integers(2, 4), limiter=st.just("latency")),
)


@given(st.lists(st.tuples(costs, st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=12))
def test_no_gain_is_negative_or_above_the_step(events: list[tuple[object, int, int]]) -> None:
    b = TimelineBuilder()
    now = 0.0
    for cost, gap, lead in events:
        length = cost.duration_s * 1e6  # type: ignore[attr-defined]
        b.work(now, now + length, cost=cost, launch_us=now - lead)  # type: ignore[arg-type]
        now += length + gap
    found = analyze(b.build(), on=H200)
    for finding in found.findings:
        assert finding.kind in registry.finding_kinds()
        if finding.max_gain_s is not None:
            assert 0 <= finding.max_gain_s <= found.step_s * (1 + 1e-9)


@given(st.lists(costs, min_size=3, max_size=10))
def test_a_device_without_idle_time_is_never_told_to_be_busier(events: list[object]) -> None:
    b = TimelineBuilder()
    b.chain(events)  # type: ignore[arg-type]
    kinds = {finding.kind for finding in analyze(b.build(), on=H200).findings}
    assert not kinds & {"host_bound", "sync_bound", "input_bound"}
