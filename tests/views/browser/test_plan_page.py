"""A plan's page: candidates with their intervals, neighbours, limits, in both languages."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuscope.planning.explanation import explained
from gpuscope.planning.types import Neighbour
from gpuscope.views.html import write_explanation

sys.path.insert(0, str(Path(__file__).parents[2] / "planning"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from made import asked, judged, planned

    best = judged(2.0, dp=4, tp=2, microbatch=1)
    second = judged(2.4, "8xh100", dp=8)
    away = replace(best.candidate, plan=replace(best.candidate.plan, tp=1, dp=8))
    near = Neighbour(
        change="tp 2 → 1", candidate=away, more=0.11, peak_bytes=143e9, usable_bytes=140 << 30,
        rank=0,
    )  # fmt: skip
    full = replace(near, change="microbatch 1 → 2", peak_bytes=153.6 * 2**30, rank=3)
    plan = replace(
        planned(), question=asked(limit="time<1h"), best=best, ties=(best,), front=(best, second),
        judged=(best, second), near=(near, full),
    )  # fmt: skip
    path = tmp_path_factory.mktemp("plan") / "plan.html"
    write_explanation(explained(plan), path, "en")
    return path


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_scatter_neighbours_and_limits(lang: str, page_path: Path, browse) -> None:
    opened = browse(page_path)
    if lang == "zh":
        opened.page.click("#language")
    opened.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    text = opened.page.inner_text("body")
    said = {
        "en": ("All against all", "80 % interval", "One decision away", "not on rank 3 by 13.6 GiB",
               "What would have to be true for the runner-up to win", "time<1h"),
        "zh": ("80 % 区间", "13.6 GiB", "time<1h"),
    }  # fmt: skip
    for words in said[lang]:
        assert words in text
    assert ("One decision away" in text) is (lang == "en")
    assert "tp 2 → 1" in text
    assert opened.page.locator("svg, canvas").count() > 0
    assert opened.errors == []
