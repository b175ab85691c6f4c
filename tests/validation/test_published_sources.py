"""How wide intervals must be for a source that nobody has read, and what all err by together."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _row(source: str, error: float, number: int = 0):
    """Measured e^error, predicted 1, half-widths of 0.1 in logarithms."""
    from published.summary import Judged

    return Judged(
        id=f"{source}{error}{number}",
        source=source,
        hardware="H100",
        model="m",
        devices=8,
        measured_s=math.exp(error),
        predicted_s=1.0,
        low_s=math.exp(-0.1),
        high_s=math.exp(0.1),
    )


def test_a_score_is_the_error_in_half_widths_on_its_own_side() -> None:
    from published.sources import score

    assert score(_row("a", 0.3)) == pytest.approx(3.0)
    assert score(_row("a", -0.05)) == pytest.approx(0.5)


def test_the_factor_holds_the_share_of_a_new_source_by_hand() -> None:
    """Nine sources ask for 0.8 (1 + 1/9) = 8/9: the eighth of their scores."""
    from published.sources import conformal

    rows = [_row(str(n), 0.1 * (n + 1)) for n in range(9)]
    assert conformal(rows) == pytest.approx(8.0)
    assert conformal([]) == 1.0


def test_a_source_counts_once_however_many_rows_it_has() -> None:
    from published.sources import conformal

    rows = [_row(str(n), 0.1 * (n + 1)) for n in range(9)]
    many = [*rows, *(_row("0", 0.1, number) for number in range(100))]
    assert conformal(many) == pytest.approx(conformal(rows))


def test_a_source_s_own_rows_play_no_part_and_nothing_is_narrowed() -> None:
    from published.sources import factors

    rows = [_row(str(n), 0.3) for n in range(9)]
    mild = factors([*rows, _row("own", 0.01)])["own"]
    wild = factors([*rows, _row("own", 5.0)])["own"]
    assert mild == wild == pytest.approx(3.0)
    narrow = factors([_row(str(n), 0.02) for n in range(9)])
    assert set(narrow.values()) == {1.0}
    assert factors([_row("a", 0.4)]) == {"a": 1.0}


def test_the_lean_is_of_sources_and_leaving_one_out_takes_the_others_alone() -> None:
    from published.held_out import by_source
    from published.sources import lean

    rows = [_row("a", 0.2), _row("a", 0.2, 1), _row("b", 0.0)]
    assert lean(rows) == pytest.approx(-0.1)  # predicted over measured
    held = {each.name: each for each in by_source([*rows, _row("c", 0.1)])}
    others = -(0.2 + 0.0) / 2
    assert held["c"].median == pytest.approx(1 - math.exp(-0.1))
    assert held["c"].leaned == pytest.approx(abs(math.exp(-0.1 - others) - 1), abs=1e-9)


def test_scaling_widens_both_sides_in_logarithms() -> None:
    from published.summary import scaled

    row = scaled(_row("a", 0.0), 2.0)
    assert (row.low_s, row.high_s) == (pytest.approx(math.exp(-0.2)), pytest.approx(math.exp(0.2)))
