"""Composed steps against simulated ones: the figures by hand, and those of the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "validation"), *sys.path])


def test_order_by_hand() -> None:
    from plan_composed import tau

    assert tau([(1, 1), (2, 2), (3, 3)]) == 1
    assert tau([(1, 3), (2, 2), (3, 1)]) == -1
    assert tau([(1, 1), (2, 3), (3, 2)]) == pytest.approx(1 / 3)


def test_a_line_by_hand() -> None:
    from plan_composed import figures

    pairs = [(1.1, 1.0), (2.0, 2.0), (2.94, 3.0)]
    rows = [{"plan": "", "composed_s": a, "simulated_s": b} for a, b in pairs]
    assert figures(rows) == pytest.approx((0.02, 0.1, 1.0))


@pytest.mark.parametrize("page", ["plan.md", "plan.zh-CN.md"])
def test_the_page_has_what_is_kept(page: str) -> None:
    from plan_composed import figures, kept

    told = (ROOT / "docs" / page).read_text("utf-8")
    assert kept()
    for rows in kept().values():
        median, worst, tau = figures(rows)
        assert f"| {100 * median:.1f} % | {100 * worst:.1f} % | {tau:.2f} |" in told
