"""The timeline: lanes, what a chosen stretch says, doors of the account; all as in the data."""

from __future__ import annotations

import pytest
from test_report_page import chosen, data_of

from gpuscope.document import format as units

pytestmark = pytest.mark.slow

CANVAS = "#timeline canvas[role=application]"


def tracks(page) -> list[dict]:
    return page.evaluate(
        f"document.querySelector('{CANVAS}').timeline.tracks.map("
        "({kind, label, rank, y, height}) => ({kind, label, rank, y, height}))"
    )


def test_use_memory_phase_and_modules_stand_on_the_one_axis(pages, browse) -> None:
    opened = browse(pages["predicted"], anchor="timeline")
    page, run = opened.page, data_of(pages["predicted"])["runs"][0]
    page.wait_for_selector(CANVAS)
    found = tracks(page)
    labels = [track["label"] for track in found]
    assert {
        "phase, modules",
        "Tensor cores",
        "Memory bandwidth",
        "L2 cache",
        "Power",
        "Memory held",
    } <= set(labels)
    assert len([t for t in found if t["kind"] == "counter"]) == len(run["use"]["series"]) + 1
    page.click("#language")
    page.locator("#timeline").scroll_into_view_if_needed()
    page.wait_for_selector(CANVAS)
    counted = [t["label"] for t in tracks(page) if t["kind"] == "counter"]
    assert len(counted) == len(set(counted)) == len(run["use"]["series"]) + 1
    page.click("#language")
    page.locator("#timeline").scroll_into_view_if_needed()
    page.wait_for_selector(CANVAS)
    page.get_by_role("button", name="Lanes", exact=True).click()
    assert {"counter", "nest"}.isdisjoint(track["kind"] for track in tracks(page))
    assert opened.errors == []


def test_the_whole_step_chosen_has_the_account_of_the_step(pages, browse) -> None:
    opened = browse(pages["predicted"], anchor="timeline")
    page, run = opened.page, data_of(pages["predicted"])["runs"][0]
    page.wait_for_selector(CANVAS)
    use, terms = run["use"], run["analysis"]["account"]["terms"]
    page.evaluate(
        """([from, to]) => {
          const scene = document.querySelector("#timeline canvas[role=application]").timeline;
          scene.show(from - (to - from) * 0.05, to + (to - from) * 0.05);
          scene.draw();
        }""",
        [use["start_ns"], use["end_ns"]],
    )
    box = page.locator(CANVAS).bounding_box()
    x = page.evaluate(
        """(times) => { const scene = document.querySelector(
          "#timeline canvas[role=application]").timeline; return times.map((t) => scene.x(t)); }""",
        [use["start_ns"], use["end_ns"]],
    )
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + x[0], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + x[1], box["y"] + 60, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    told = page.inner_text("#timeline .tm-stretch")
    step_s = run["analysis"]["step_s"]
    for term in terms:  # a pixel is 20 us of this step
        if term["time_s"] and term["key"] in ("peak", "library", "pointwise", "tails", "clock"):
            assert units.time(term["time_s"]) in told, term
            assert units.share(term["time_s"] / step_s)[:2] in told
    assert "Narrowest here" in page.inner_text("#timeline .detail")
    assert opened.errors == []


def test_each_loss_is_a_door_to_its_events(pages, browse) -> None:
    opened = browse(pages["predicted"])
    page, run = opened.page, data_of(pages["predicted"])["runs"][0]
    doors = page.locator("#account .bar-row.pressable")
    assert doors.count() == len(run["account_keys"])
    groups = run["analysis"]["account"]["by_group"]
    timeline = run["timeline"]
    at = run["account_keys"].index("library")
    doors.nth(at).click()
    wanted = sum(
        kernel >= 0 and "library" in groups.get(timeline["kernels"][kernel]["group"], {})
        for kernel in timeline["events"]["kernel"]
    )
    assert f"{units.count(wanted)} launches" in chosen(page)
    assert opened.errors == []


def test_a_rank_folds_to_a_line_and_opens_again(pages, browse) -> None:
    opened = browse(pages["ranks"], anchor="timeline")
    page = opened.page
    page.wait_for_selector(CANVAS)
    before = tracks(page)
    heading = next(t for t in before if t["kind"] == "heading" and t["rank"] == 1)
    box = page.locator(CANVAS).bounding_box()
    place = (box["x"] + 30, box["y"] + heading["y"] + 10)
    page.mouse.click(*place)

    def tall(found: list[dict]) -> int:
        return sum(track["height"] for track in found if track["rank"] == 1)

    assert tall(tracks(page)) < tall(before) / 2
    page.mouse.click(*place)
    assert tracks(page) == before
    assert opened.errors == []


def test_the_keys_of_a_game_move_and_zoom(pages, browse) -> None:
    page = browse(pages["predicted"], anchor="timeline").page
    page.wait_for_selector(CANVAS)
    page.locator(CANVAS).focus()
    view = f"document.querySelector('{CANVAS}').timeline.view"
    first = page.evaluate(view)
    page.keyboard.press("w")
    near = page.evaluate(view)
    assert near[1] - near[0] == pytest.approx(0.6 * (first[1] - first[0]))
    page.keyboard.press("d")
    right = page.evaluate(view)
    assert right[0] > near[0]
    page.keyboard.press("a")
    page.keyboard.press("s")
    assert page.evaluate(view) == pytest.approx(first, abs=1)
