"""The report in a real browser: its figures are the data's, its views are linked, it stays fast."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from test_every_page import scroll_through

from gpuscope.document import format as units
from gpuscope.document.text import render
from gpuscope.timeline.types import Events, Lane, Timeline
from gpuscope.views.html import read_embedded, write_report

pytestmark = pytest.mark.slow


def data_of(path) -> dict:
    text = path.read_text("utf-8")
    return read_embedded(re.search(r'id="data">(.*?)</script>', text, re.S)[1])["report"]


def ids(page) -> list[str]:
    return page.eval_on_selector_all("section.panel", "all => all.map((e) => e.id)")


def chosen(page) -> str:
    bar = page.locator("#selection")
    return bar.inner_text() if bar.is_visible() else ""


def test_every_view_is_there(pages, browse) -> None:
    page = browse(pages["predicted"]).page
    views = page.eval_on_selector_all("section.view", "all => all.map((e) => e.id)")
    assert views == ["story", "time", "resources", "tasks", "whatif"]
    assert {"findings", "timeline", "roofline", "memory", "modules", "kernels"} <= set(ids(page))
    links = page.eval_on_selector_all("nav a", "all => all.map((e) => e.hash.slice(1))")
    assert links == views


def test_the_figures_are_the_data_s(pages, browse) -> None:
    page = browse(pages["predicted"]).page
    run = data_of(pages["predicted"])["runs"][0]
    shown = page.inner_text("#summary")
    low, high = run["step_time_interval_s"]
    assert units.time(run["step_time_s"]) in shown
    assert f"{units.time(low)} to {units.time(high)}" in shown
    assert units.size(run["peak_memory_bytes"]) in shown
    assert units.energy(run["energy_j"]) in shown
    scroll_through(page)
    classes = page.inner_text("#classes")
    for row in run["analysis"]["classes"]:
        assert units.time(row["time_s"]) in classes
    rows = page.locator("#operators tbody tr")
    for i, row in enumerate(run["analysis"]["operators"][:5]):
        told = rows.nth(i).inner_text()
        assert row["label"].split("::")[-1] in told
        assert units.time(row["time_s"]) in told
    findings = page.inner_text("#findings")
    for finding in run["analysis"]["findings"]:
        assert finding["title"] in findings


def test_what_is_chosen_in_one_view_is_lit_in_all(pages, browse) -> None:
    opened = browse(pages["predicted"])
    page = opened.page
    scroll_through(page)
    page.locator("#operators tbody tr").first.click()
    assert "on the device" in chosen(page)
    name = page.locator("#operators tbody tr").first.locator("th").inner_text()
    assert page.locator("#operators tr.lit, #operators tr[aria-selected=true]").count() == 1
    assert page.locator("#kernels tr.lit, #kernels tr[aria-selected=true]").count() >= 1
    lit = page.evaluate(
        "document.querySelector('#timeline canvas[role=application]').timeline.lit[0].mask"
        ".reduce((sum, one) => sum + one, 0)"
    )
    assert lit > 0
    assert name in chosen(page)
    page.keyboard.press("Escape")
    assert chosen(page) == ""
    assert page.locator("#kernels tr.lit").count() == 0
    page.locator("#kernels tbody tr").nth(1).click()
    assert chosen(page)
    assert opened.errors == []


def test_a_finding_shows_its_evidence(pages, browse) -> None:
    page = browse(pages["predicted"]).page
    scroll_through(page)
    page.locator("#findings .show-me").first.click()
    assert chosen(page)
    page.locator("#selection .close").click()
    assert chosen(page) == ""


def test_ranks_and_who_holds_them_up(pages, browse) -> None:
    opened = browse(pages["ranks"])
    scroll_through(opened.page)
    told = opened.page.inner_text("#ranks")
    for rank in pages.ranks.ranks:
        assert re.search(rf"\b{rank}\b", told)
    assert "rank 1" in opened.page.inner_text("#findings")
    text = opened.page.inner_text("main")
    assert re.findall(r"undefined|NaN|\{\w+\}|\[object", text) == []
    assert opened.errors == []


def test_two_runs_stand_beside_and_above_each_other(pages, browse) -> None:
    opened = browse(pages["pair"])
    page = opened.page
    first = page.inner_text(".where b")
    assert page.locator("#devices tbody tr").count() == 2
    assert "timeline-pair" in ids(page)
    assert "comparison" in ids(page)
    page.locator(".runs button").nth(1).click()
    assert page.locator(".runs button").nth(1).get_attribute("aria-pressed") == "true"
    assert page.inner_text(".where b") or first
    scroll_through(page)
    assert opened.errors == []


def test_notes_are_in_the_reader_s_language(pages, browse, tmp_path) -> None:
    note = "1 file(s) were named twice and count once."
    run = replace(pages.predicted, assumptions=(note, "Only English has this."))
    path = tmp_path / "page.html"
    write_report(run, path, "zh", what_if=False)
    page = browse(path).page

    def notes() -> list[str]:
        return page.eval_on_selector_all("#notes li", "all => all.map((e) => e.textContent)")

    assert notes() == [render(note, "zh"), "Only English has this."]
    page.click("#language")
    assert notes() == [note, "Only English has this."]


def test_what_is_missing_is_left_out_or_said(browse, tmp_path) -> None:
    from run_builders import bare_run

    path = tmp_path / "page.html"
    write_report(bare_run(), path, "en")
    opened = browse(path)
    scroll_through(opened.page)
    assert "memory" not in ids(opened.page)
    text = opened.page.inner_text("main")
    assert "not available" in text
    assert re.findall(r"undefined|NaN|null|\{\w+\}", text) == []
    assert opened.errors == []


def many_events(run, count: int):
    """The run with `count` more kernels after its own, on four streams."""
    step = 1000
    start = np.arange(count, dtype=np.int64) * step // 4
    lanes = tuple(Lane(f"stream {i}", "stream", 0, 0) for i in range(4))
    zeros = np.zeros(count, np.int64)
    events = Events(
        start_ns=start,
        duration_ns=np.full(count, step - 100, np.int64),
        name=zeros,
        kind=zeros,
        lane=np.arange(count, dtype=np.int64) % 4,
        op=zeros - 1,
        kernel=zeros - 1,
        correlation=zeros - 1,
    )
    timeline = Timeline(names=("kernel",), lanes=lanes, events=events, origin="predicted")
    return replace(run, timeline=timeline)


@pytest.mark.parametrize("count", [200_000, 1_000_000])
def test_of_too_many_events_the_longest_are_shown_and_that_is_said(
    count, pages, browse, tmp_path
) -> None:
    path = tmp_path / "page.html"
    write_report(many_events(pages.predicted, count), path, "en", what_if=False)
    assert path.stat().st_size <= 2.5e6
    opened = browse(path)
    page = opened.page
    page.locator("#timeline").scroll_into_view_if_needed()
    page.wait_for_selector("#timeline canvas[role=application]")
    text = page.inner_text("#timeline")
    assert ("longest" in text) == (count > 200_000)
    assert opened.errors == []


def test_everything_can_be_reached_by_keyboard(pages, browse) -> None:
    page = browse(pages["predicted"]).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    scroll_through(page)
    row = page.locator("#kernels tbody tr").first
    row.focus()
    page.keyboard.press("Enter")
    assert chosen(page)
