"""Several ranks: each one's waits and bubbles stand on the one axis, and are told as they are."""

from __future__ import annotations

import pytest
from test_job_document import small_job
from test_report_page import data_of, ids
from test_timeline_lanes import CANVAS, tracks

from gpuscope.document import format as units
from gpuscope.views.html import write_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A page of a pipeline of two stages, each on tensor-parallel ranks."""
    made = tmp_path_factory.mktemp("job") / "page.html"
    write_report(small_job(tp=2, pp=2, global_batch=8), made, "en")
    return made


def bubble_ns(stage: dict, start: float, end: float) -> float:
    """What a stage's blocks leave of the schedule."""
    spans = sorted((block["start_ns"], block["end_ns"]) for block in stage["blocks"])
    covered, at = 0.0, start
    for low, high in spans:
        covered += max(0.0, high - max(low, at))
        at = max(at, high)
    return end - start - covered


def test_every_stage_s_bubble_is_drawn_and_told(job, browse) -> None:
    opened = browse(job, anchor="timeline")
    page, run = opened.page, data_of(job)["runs"][0]
    page.wait_for_selector(CANVAS)
    pipeline, found = run["pipeline"], tracks(page)
    headings = {t["rank"]: t["label"] for t in found if t["kind"] == "heading"}
    stages = {stage["rank"]: stage for stage in pipeline["stages"]}
    assert len(stages) == 2
    for rank, stage in stages.items():
        lost = bubble_ns(stage, pipeline["start_ns"], pipeline["end_ns"])
        assert lost > 0
        assert f"bubble {units.time(lost * 1e-9)}" in headings[rank]
        labels = [t["label"] for t in found if t["rank"] == rank and t["kind"] == "waits"]
        assert "bubble" in labels
    # One axis: of all ranks' tracks there is one scene, and its view is the schedule's.
    low, high = page.evaluate(f"document.querySelector('{CANVAS}').timeline.limits")
    assert low <= pipeline["start_ns"] < pipeline["end_ns"] <= high
    assert opened.errors == []


def test_what_if_is_computed_or_absent(job, pages, browse) -> None:
    for path in (job, pages["ranks"]):
        page, blocks = browse(path).page, data_of(path)["what_if"]
        shown = [each for each in ids(page) if each.startswith("whatif")]
        assert bool(shown) == bool(blocks)
        assert page.locator("nav a[href='#whatif']").count() == bool(blocks)
    assert data_of(pages["ranks"])["what_if"] == []  # nothing of a recording is computed


def test_what_each_recorded_rank_waits_for_is_told_on_its_heading(pages, browse) -> None:
    opened = browse(pages["ranks"], anchor="timeline")
    page, run = opened.page, data_of(pages["ranks"])["runs"][0]
    page.wait_for_selector(CANVAS)
    waits, lanes = run["collective_waits"], run["timeline"]["lanes"]
    headings = {t["rank"]: t["label"] for t in tracks(page) if t["kind"] == "heading"}
    assert len(headings) == len(pages.ranks.ranks)
    for rank, told in headings.items():
        spans = sorted(
            (start, start + wait)
            for start, wait, lane in zip(
                waits["start_ns"], waits["wait_ns"], waits["lane"], strict=True
            )
            if lanes[lane]["rank"] == rank
        )
        waited, at = 0.0, float("-inf")
        for low, high in spans:
            waited += max(0.0, high - max(low, at))
            at = max(at, high)
        if waited:
            assert f"waits for others {units.time(waited * 1e-9)}" in told
        (gaps,) = [each for each in run["idle_gaps"] if each["rank"] == rank]
        idle_s = (sum(gaps["duration_ns"]) + gaps["left_out_ns"]) * 1e-9
        assert f"idle {units.time(idle_s)}" in told
    assert any("waits for others" in told for told in headings.values())
    assert opened.errors == []
