"""Two timelines under one cursor: what is told of each is the data's, at the same work in both."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import pytest
from test_play_head import set_moment
from test_report_page import data_of

import gpuscope as gs
from gpuscope.document import format as units
from gpuscope.views.html import write_report

pytestmark = pytest.mark.slow

DEVICE = 4  # kinds below are work of the device


class Both:
    """Two pages: of one step, and of it and another."""

    def __init__(self, folder: Path) -> None:
        def step(batch: int, seq: int) -> gs.Run:
            options = gs.WorkloadOptions(task="train", batch=batch, seq=seq, layers=2)
            return gs.predict("gpt2", on="h200", options=options)

        self.paths = {name: folder / f"{name}.html" for name in ("predicted", "compared")}
        runs = [step(8, 512), step(4, 256)]
        write_report(runs[0], self.paths["predicted"], "en")
        write_report(runs, self.paths["compared"], "en", what_if=False)

    def __getitem__(self, name: str) -> Path:
        return self.paths[name]


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Both:
    return Both(tmp_path_factory.mktemp("beside"))


def told(page, panel: str) -> dict[str, list[str]]:
    """Rows of the table under a picture: what both runs tell, by its name."""
    rows = page.locator(f"#{panel} .both-now tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows}


def moments(page, panel: str) -> list[float]:
    return page.evaluate(f"document.querySelector('#{panel} .beside').moments()")


def running(starts: list[int], lengths: list[int], kinds: list[int], at: float) -> list[int]:
    """Rows of the device events that run at a moment, the longest first."""
    found = [
        i
        for i, kind in enumerate(kinds)
        if kind < DEVICE and starts[i] <= at < starts[i] + lengths[i]
    ]
    return sorted(found, key=lambda i: -lengths[i])


def shown(page, panel: str) -> None:
    page.locator(f"#{panel}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#{panel} canvas[role=application]")
    page.locator(f"#{panel} .both-now").scroll_into_view_if_needed()


def test_a_finding_leads_to_the_step_as_it_would_be(pages, browse) -> None:
    opened = browse(pages["predicted"])
    page, run = opened.page, data_of(pages["predicted"])["runs"][0]
    findings, remedies = run["analysis"]["findings"], run["remedies"]
    assert remedies
    for remedy in remedies:
        (at,) = remedy["findings"]
        assert remedy["step_time_s"] == pytest.approx(findings[at]["predicted_step_s"])
    button = page.locator("#findings .remedy > .show-me")
    assert button.count() == sum(len(remedy["findings"]) for remedy in remedies)
    last = max(range(len(remedies)), key=lambda at: remedies[at]["findings"])
    button.last.click()
    shown(page, "timeline-then")
    chosen = page.locator("#timeline-then .chip[aria-pressed=true]").first.inner_text()
    assert chosen == f"no. {remedies[last]['findings'][0] + 1} done"
    said = page.inner_text("#timeline-then .story")
    assert units.time(remedies[last]["step_time_s"]) in said
    assert units.time(run["step_time_s"]) in said
    assert opened.errors == []


def test_the_changed_step_at_the_cursor_is_the_data_s(pages, browse) -> None:
    opened = browse(pages["predicted"], anchor="timeline-then")
    page, run = opened.page, data_of(pages["predicted"])["runs"][0]
    shown(page, "timeline-then")
    events, names = run["timeline"]["events"], run["timeline"]["names"]
    thin = run["remedies"][0]["timeline"]
    starts = list(accumulate(thin["start_ns"]))
    works = [i for i, kind in enumerate(events["kind"]) if kind < DEVICE]
    same = 0
    for event in works[5 :: len(works) // 9]:
        set_moment(page, events["start_ns"][event] + events["duration_ns"][event] / 2)
        own, then = moments(page, "timeline-then")
        lines, begin = told(page, "timeline-then"), run["timeline"]["steps"][0]["start_ns"]
        assert lines["since the step's begin"][0] == units.time((own - begin) * 1e-9)
        since = (then - thin["steps"][0]["start_ns"]) * 1e-9
        assert lines["since the step's begin"][1] == units.time(since)
        now = running(events["start_ns"], events["duration_ns"], events["kind"], own)
        later = running(starts, thin["duration_ns"], thin["kind"], then)
        assert now
        assert lines["so far"][0].endswith(units.time(events["duration_ns"][now[0]] * 1e-9))
        if later:
            assert lines["so far"][1].endswith(units.time(thin["duration_ns"][later[0]] * 1e-9))
            operator = thin["ops"][thin["op"][later[0]]][0].removeprefix("aten::")
            assert lines["operator"][1] == operator
            same += lines["operator"][0] == operator
        assert names[events["name"][now[0]]]
    assert same >= 4  # the same work, where both have it
    assert opened.errors == []


def test_two_runs_stand_at_the_same_work_under_one_cursor(pages, browse) -> None:
    opened = browse(pages["compared"], anchor="timeline-pair")
    page, (first, second) = opened.page, data_of(pages["compared"])["runs"]
    shown(page, "timeline-pair")
    events = first["timeline"]["events"]
    works = [i for i, kind in enumerate(events["kind"]) if kind < DEVICE]
    same = 0
    for event in works[3 :: len(works) // 9]:
        set_moment(page, events["start_ns"][event] + events["duration_ns"][event] / 2)
        at = moments(page, "timeline-pair")
        lines = told(page, "timeline-pair")
        for side, run in enumerate((first, second)):
            own, ops = run["timeline"]["events"], run["timeline"]["ops"]
            now = running(own["start_ns"], own["duration_ns"], own["kind"], at[side])
            if not now:
                continue
            op = own["op"][now[0]]
            name = ops["names"][ops["columns"]["name"][op]].removeprefix("aten::")
            assert lines["operator"][side] == name
            # Half of a last digit may go either way.
            long_ns = own["duration_ns"][now[0]]
            whole = tuple(units.time((long_ns + by) * 1e-9) for by in (-0.1, 0, 0.1))
            assert lines["so far"][side].endswith(whole)
            curve = run["memory_curve"]
            last = max(i for i, point in enumerate(curve["time_ns"]) if point <= at[side])
            held = sum(category[last] for category in curve["allocated_bytes"])
            assert lines["Memory held"][side] == units.size(held)
        same += len(set(lines.get("operator", "01"))) == len(set(lines.get("module", "0"))) == 1
    assert same >= 7
    assert opened.errors == []


def test_the_cursor_is_dragged_in_either_run_and_can_go_by_time(pages, browse) -> None:
    opened = browse(pages["compared"], anchor="timeline-pair")
    page = opened.page
    shown(page, "timeline-pair")
    set_moment(page, page.evaluate("(document.getElementById('play').cursor.high) * 0.5"))
    before = moments(page, "timeline-pair")
    line = page.locator("#timeline-pair .tl-cursor").nth(1)
    line.scroll_into_view_if_needed()
    box = line.bounding_box()
    page.mouse.move(box["x"] + 7, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 107, box["y"] + 8, steps=3)
    page.mouse.up()
    after = moments(page, "timeline-pair")
    assert after[0] > before[0]
    assert after[1] > before[1]
    assert line.bounding_box()["x"] == pytest.approx(box["x"] + 100, abs=9)
    page.locator("#timeline-pair").get_by_role("button", name="Cursor by operator").click()
    first, second = data_of(pages["compared"])["runs"]
    begins = [run["timeline"]["steps"][0]["start_ns"] for run in (first, second)]
    own, other = moments(page, "timeline-pair")
    assert other - begins[1] == pytest.approx(own - begins[0], abs=1)
    assert "at the same time" in page.inner_text("#timeline-pair .both-now")
    assert opened.errors == []


def test_a_page_of_a_small_run_stays_small(pages) -> None:
    assert pages["predicted"].stat().st_size < 1_500_000
