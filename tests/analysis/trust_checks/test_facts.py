"""What the checks look at."""

from __future__ import annotations

from dataclasses import replace

from rank_builder import RankBuilder

from gpuscope.analysis.trust_checks.facts import rank_facts


def test_rows_of_one_rank() -> None:
    b = RankBuilder()
    b.work(10, 20, launch_us=3, rank=0)
    b.work(12, 30, launch_us=5, rank=1)
    b.step(0, 40, 1)
    timeline = b.timeline()
    facts = rank_facts(timeline, 1, several=True)
    assert facts.named(facts.device) == ["kernel"]
    assert facts.named(facts.launch) == ["launch"]
    assert facts.span_ns == 18_000
    assert len(facts.steps) == 1
    assert facts.source is not None
    assert facts.source.rank == 1
    launch = facts.column("launch")
    assert launch is not None
    assert launch.tolist() == facts.launch.tolist()
    assert rank_facts(replace(timeline, recorded=None), 1, several=True).column("launch") is None


def test_a_rank_without_anything() -> None:
    facts = rank_facts(RankBuilder().timeline(), 0, several=False)
    assert len(facts.device) == len(facts.host) == 0
    assert facts.span_ns == 0
    assert facts.source is None
