"""A slow host among fast ones, and the slowest of several slow ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.analysis.recorded_types import RankShare, RankStory, Straggler
from gpuscope.analysis.slow_hosts import slow_hosts, slowest_host
from gpuscope.document.text import render


def story(*host_ms: float | None, device_ms: float = 4.0, steps: int = 2) -> RankStory:
    """Ranks with these host times a step; rank 0 is the straggler, its device busy as given."""
    shares = tuple(
        RankShare(
            rank,
            1e-3,
            0.0,
            0.0,
            0.0,
            0,
            0.0,
            0.0,
            None,
            device_ms * 1e-3 * steps,
            0.0,
            host_s=None if time is None else time * 1e-3,
        )
        for rank, time in enumerate(host_ms)
    )
    return RankStory(
        ranks=shares,
        matched=1,
        unmatched=0,
        steps=steps,
        span_s=1e-2,
        sorts=(),
        calls=(),
        waiting_by_reason={},
        causes=(),
        complete=True,
        straggler=Straggler(0, 1.0, "host dispatching", (), None, None),
    )


def test_one_slow_host_is_alone() -> None:
    found = slow_hosts(story(20, 5, 6))
    assert found is not None
    assert not found.alike
    assert (found.slowest_s, found.second_s, found.fastest_s) == (20e-3, 6e-3, 5e-3)
    assert found.lead_s == pytest.approx(14e-3)
    assert found.device_s == pytest.approx(4e-3)
    assert "rank 0 20.0 ms, the others 5.00 ms to 6.00 ms" in found.told
    assert "4.00 ms" in render(found.told, "zh")


def test_hosts_that_are_all_slow_share_the_cause() -> None:
    found = slow_hosts(story(20, 18, 12))
    assert found is not None
    assert found.alike
    assert "2.00 ms a step" in found.hint
    assert "2.00 ms" in render(found.hint, "zh")
    assert "rank 0" in found.title(1e-3, 0.5)
    assert "50 %" in render(found.title(1e-3, 0.5), "zh")


def test_alike_begins_at_three_quarters_and_needs_hosts_slower_than_the_device() -> None:
    for second, alike in ((14.9, False), (15.1, True)):
        found = slow_hosts(story(20, second))
        assert found is not None
        assert found.alike is alike
    busy = slow_hosts(story(20, 18, device_ms=19))
    assert busy is not None
    assert not busy.alike


def test_nothing_is_claimed_of_what_is_not_known() -> None:
    assert slow_hosts(story(20, None)) is None
    assert slow_hosts(story(None, 5)) is None
    assert slow_hosts(story(20)) is None
    assert slow_hosts(story(5, 20)) is None  # the straggler's host is not the slowest
    assert slow_hosts(replace(story(20, 5), straggler=None)) is None


def late(*host_ms: float | None, steps: int = 2, began_s: float = 3e-3) -> RankStory:
    """As `story`, but all known is waiting for a rank that began late."""
    waiting = {"began late": began_s, "more work": 3e-3 - began_s}
    told = story(*host_ms, steps=steps)
    ranks = tuple(replace(share, waiting_s=3e-3 / len(told.ranks)) for share in told.ranks)
    return replace(told, ranks=ranks, straggler=None, waiting_by_reason=waiting)


def test_the_slowest_host_behind_a_late_recording() -> None:
    found = slowest_host(late(11.5, 9.7, 15.9, 8.4))
    assert found is not None
    assert (found.rank, found.slowest_s, found.second_s) == (2, 15.9e-3, 11.5e-3)
    assert "all ranks wait for the host of rank 2" in found.after_a_late_start
    assert "rank 2" in render(found.after_a_late_start, "zh")


@pytest.mark.parametrize(
    "told",
    [
        late(11.5, 9.7, 12.0),  # alike
        late(3.5, 1.7, 2.0),  # faster than its device, 4 ms
        late(11.5, None, 15.9),
        late(11.5, 15.9, steps=1),
        late(9.0, 15.9, began_s=1e-3),
        late(9.0, 15.9, began_s=0.0),
        story(20, 5),  # a straggler is known
    ],
)
def test_no_host_is_named_without_grounds(told: RankStory) -> None:
    assert slowest_host(told) is None
