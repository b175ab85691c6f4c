"""Ranks that are missing, doubled, of different runs, or on different clocks."""

from __future__ import annotations

from rank_builder import RankBuilder

from gpuscope.analysis.collective_match import match_collectives
from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks import across_ranks
from gpuscope.analysis.trust_checks.facts import rank_facts
from gpuscope.timeline.types import Source


def remarks(b: RankBuilder, ranks: tuple[int, ...] = (0, 1)) -> dict[str, Remark]:
    timeline = b.timeline()
    facts = [rank_facts(timeline, rank, several=True) for rank in ranks]
    found = across_ranks.check(timeline, facts, match_collectives(timeline))
    return {remark.code: remark for remark in found}


def source(rank: int, world: int | None = 2, known: bool = True) -> Source:
    return Source(rank, f"rank-{rank}.json", rank_known=known, world_size=world)


def meeting(count: int = 10, **fields: object) -> RankBuilder:
    b = RankBuilder(**fields)  # type: ignore[arg-type]
    now = 0.0
    for number in range(count):
        now = b.meet({0: now + number, 1: now + 20}, 10)
    return b


def test_all_is_well() -> None:
    assert remarks(meeting()) == {}


def test_missing_and_doubled_ranks() -> None:
    b = meeting()
    b.sources = [source(0, 8), source(1, 8)]
    found = remarks(b)["ranks_missing"]
    assert "2 of 8" in found.sentence
    assert "2, 3, 4, 5, 6, 7" in found.sentence
    b.sources = [source(0), source(1), source(1)]
    assert remarks(b)["rank_twice"].severity == "cannot"


def test_different_runs_and_guessed_ranks() -> None:
    b = meeting()
    b.sources = [source(0, 2), source(1, 4)]
    assert remarks(b)["different_worlds"].severity == "cannot"
    b.sources = [source(0, None), source(1, None, known=False)]
    assert remarks(b) == {}
    b.sources = [source(0), source(1, known=False)]
    assert "rank 1" in remarks(b)["rank_guessed"].sentence


def test_a_skewed_clock_is_noted_and_corrected() -> None:
    found = remarks(meeting(skew_us={1: 150.0}))["clock_skew"]
    assert found.severity == "note"
    assert "150 µs" in found.sentence


def test_recordings_of_different_times() -> None:
    assert "no_common_time" in remarks(meeting(skew_us={1: 1_000_000.0}))


def test_collectives_of_one_rank_only() -> None:
    b = meeting()
    for number in range(5):
        b.meet({0: 2_000 + 50 * number}, 10, members=(0, 1))
    found = remarks(b)["collectives_differ"]
    assert "5 of 25" in found.sentence


def test_groups_that_cannot_be_matched() -> None:
    b = RankBuilder()
    for number in range(10):
        b.meet({0: number * 100}, 10, members=(0, 1))
        b.meet({1: number**3}, 10, members=(0, 1))
    assert remarks(b)["collectives_unmatched"].severity == "cannot"
