"""What a source's rows err by together, told by the other sources alone."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _row(source: str, error: float):
    from published.summary import Judged

    return Judged(
        id=f"{source}{error}",
        source=source,
        hardware="H100",
        model="m",
        devices=8,
        measured_s=math.exp(error),
        predicted_s=1.0,
        low_s=0.9,
        high_s=1.1,
    )


def test_the_spread_of_a_source_is_that_of_the_others_by_hand() -> None:
    from published.sources import source_spreads

    found = source_spreads([_row("a", 0.3), _row("b", 0.1), _row("c", -0.2)])
    assert found["a"] == pytest.approx(1.2816 * math.sqrt((0.01 + 0.04) / 2), rel=1e-4)
    assert found["b"] == pytest.approx(1.2816 * math.sqrt((0.09 + 0.04) / 2), rel=1e-4)


def test_rows_that_err_on_their_own_have_nothing_in_common() -> None:
    from published.sources import source_spreads

    found = source_spreads([_row("a", 0.0), *(_row("b", e) for e in (0.2, -0.2))])
    assert found["a"] == 0.0


def test_of_a_single_source_nothing_is_known_and_its_number_of_rows_does_not_count() -> None:
    from published.sources import source_spreads

    assert source_spreads([_row("a", 0.4)]) == {"a": 0.0}
    one = source_spreads([_row("a", 0.0), _row("b", 0.2)])
    assert one["a"] == pytest.approx(1.2816 * 0.2, rel=1e-4)
