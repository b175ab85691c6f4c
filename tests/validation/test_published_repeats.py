"""Published repeats of one run: how far releases lie apart, and what an interval makes of it."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _row(number: int, **changes: object):
    from published.rows import Row

    base = Row(
        id=str(number),
        source="s",
        ref="r",
        kind="training",
        model="m",
        hardware="H100",
        devices=8,
        quantity="tokens_per_s_per_device",
        value=100.0,
        unit="u",
        release=str(number),
    )
    return replace(base, **changes)


def test_the_spread_of_two_releases_by_hand() -> None:
    """Two values a factor f apart deviate by ln f / sqrt 2; 1.2816 of it hold 80 %."""
    from published.repeats import release_spread

    found = release_spread([_row(1), _row(2, value=110.0)])
    assert found == pytest.approx(1.2816 * math.log(1.1) / math.sqrt(2), rel=1e-4)


def test_only_repeats_of_one_run_count() -> None:
    from published.repeats import release_spread, repeats

    assert release_spread([_row(1), _row(2, value=110.0, tp=2)]) is None
    assert release_spread([_row(1), _row(2, value=110.0, release="1")]) is None
    assert len(repeats([_row(1), _row(2), _row(3, model="n"), _row(4, model="n")])) == 2


def test_runs_with_experts_have_their_own_spread() -> None:
    from published.repeats import release_spreads

    rows = [
        _row(1),
        _row(2, value=101.0),
        _row(3, ep=8),
        _row(4, ep=8, value=140.0),
        _row(5, kind="inference"),
    ]
    found = release_spreads(rows)
    assert found["3"] == found["4"] > found["1"] == found["2"] > 0
    assert "5" not in found


def test_an_interval_grows_by_an_independent_uncertainty() -> None:
    from published.repeats import widened

    assert widened(1.0, 0.9, 1.2, 0.0, 0.0) == pytest.approx((0.9, 1.2))
    low, high = widened(1.0, math.exp(-0.3), math.exp(0.3), 0.4, 0.4)
    assert (low, high) == pytest.approx((math.exp(-0.5), math.exp(0.5)))


def test_what_was_published_is_read() -> None:
    from published.repeats import has_experts, release_spread
    from published.rows import read_rows

    rows = read_rows()
    dense = release_spread(row for row in rows if not has_experts(row))
    experts = release_spread(row for row in rows if has_experts(row))
    assert dense is not None
    assert experts is not None
    assert 0.01 < dense < experts < 0.5
