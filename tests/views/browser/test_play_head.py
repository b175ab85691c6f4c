"""The play head: one moment of the whole page, and its figures are the data's at that moment."""

from __future__ import annotations

import json

import pytest
from test_every_page import scroll_through
from test_report_page import data_of

from gpuscope.document import format as units

pytestmark = pytest.mark.slow


def set_moment(page, at_ns: float | None) -> None:
    page.evaluate(f"document.getElementById('play').cursor.set({json.dumps(at_ns)})")


def running_kernels(run: dict, parts: int = 7) -> list[int]:
    """Rows of kernels that run alone, from all over the step, the longest of each part."""
    events, kinds = run["timeline"]["events"], run["timeline"]["kinds"]
    rows = [i for i, k in enumerate(events["kind"]) if kinds[k] == "kernel"]
    size = len(rows) // parts
    groups = [rows[at * size : (at + 1) * size] for at in range(parts)]
    return [max(group, key=lambda i: events["duration_ns"][i]) for group in groups]


def held_at(curve: dict, at_ns: float) -> int:
    last = max(i for i, point in enumerate(curve["time_ns"]) if point <= at_ns)
    return sum(category[last] for category in curve["allocated_bytes"])


def test_the_figures_at_a_moment_are_the_data_s(pages, browse) -> None:
    opened = browse(pages["predicted"], anchor="device")
    page, run = opened.page, data_of(pages["predicted"])["runs"][0]
    events, timeline = run["timeline"]["events"], run["timeline"]
    limit = next(s["limit"] for s in run["use"]["series"] if s["key"] == "memory")
    watts = next(s for s in run["use"]["series"] if s["key"] == "power")
    for event in running_kernels(run):
        at = events["start_ns"][event] + events["duration_ns"][event] / 2
        set_moment(page, at)
        told = page.inner_text("#device")
        kernel = timeline["kernels"][events["kernel"][event]]
        use, long_s = run["use_by_group"][kernel["group"]], events["duration_ns"][event] * 1e-9
        assert f"Tensor cores {units.share(min(1.0, use['tensor_s'] / long_s))}" in told
        assert f"Vector lanes {units.share(min(1.0, use['vector_s'] / long_s))}" in told
        assert units.byte_rate(min(limit, use["memory_bytes"] / long_s)) in told
        span = run["use"]["end_ns"] - run["use"]["start_ns"]
        bin_ = int((at - run["use"]["start_ns"]) / span * run["use"]["bins"])
        assert f"{units.power(watts['values'][bin_])} /" in told
        assert f"Memory: {units.size(held_at(run['memory_curve'], at))}" in told
        op = events["op"][event]
        if module := timeline["ops"]["modules"][timeline["ops"]["columns"]["module"][op]]:
            assert module in told
    set_moment(page, None)
    assert "on average" in page.inner_text("#device") or "Most used" in page.inner_text("#device")
    assert opened.errors == []


def test_it_moves_by_drag_by_keys_and_by_itself(pages, browse) -> None:
    opened = browse(pages["predicted"], anchor="timeline")
    page = opened.page
    at = "document.getElementById('play').cursor.at"
    assert page.evaluate(at) is None
    run = data_of(pages["predicted"])["runs"][0]
    begins = sorted(
        start
        for start, kind in zip(
            run["timeline"]["events"]["start_ns"], run["timeline"]["events"]["kind"], strict=True
        )
        if run["timeline"]["kinds"][kind] in ("kernel", "memcpy", "memset", "communication")
    )
    page.keyboard.press(".")
    page.keyboard.press(".")
    assert page.evaluate(at) == begins[1]
    page.keyboard.press(",")
    assert page.evaluate(at) == begins[0]
    page.keyboard.press("k")
    page.wait_for_timeout(300)
    page.keyboard.press("k")
    moved = page.evaluate(at)
    assert 50e3 < moved - begins[0] < 3e6  # some 300 ms at 1:1000
    line = page.locator(".tl-cursor")
    box = line.bounding_box()
    page.mouse.move(box["x"] + 7, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 207, box["y"] + 8)
    page.mouse.up()
    dragged = page.evaluate(at)
    assert dragged > moved
    assert line.bounding_box()["x"] == pytest.approx(box["x"] + 200, abs=9)
    assert float(page.input_value("#play input")) > 0
    assert opened.errors == []


def test_a_choice_elsewhere_brings_the_play_head_and_the_map_follows(pages, browse) -> None:
    page = browse(pages["predicted"]).page
    scroll_through(page)
    run = data_of(pages["predicted"])["runs"][0]
    columns, modules = run["timeline"]["ops"]["columns"], run["timeline"]["ops"]["modules"]
    event = next(
        i
        for i in running_kernels(run)
        if modules[columns["module"][run["timeline"]["events"]["op"][i]]]
    )
    set_moment(page, run["timeline"]["events"]["start_ns"][event] + 1)
    assert page.locator("#modules .part.is-now").count() == 1
    set_moment(page, None)
    assert page.locator("#modules .part.is-now").count() == 0


def test_all_ranks_are_told_and_the_wire_is_seen_to_work(pages, browse) -> None:
    opened = browse(pages["ranks"], anchor="device")
    page, run = opened.page, data_of(pages["ranks"])["runs"][0]
    events, kinds = run["timeline"]["events"], run["timeline"]["kinds"]
    lanes = run["timeline"]["lanes"]
    own = next(
        i
        for i, k in enumerate(events["kind"])
        if kinds[k] == "communication" and lanes[events["lane"][i]]["rank"] == 0
    )
    set_moment(page, events["start_ns"][own] + events["duration_ns"][own] / 2)
    assert page.locator("#device .now-ranks li").count() == len(pages.ranks.ranks)
    assert page.locator("#device .cargo circle").count() > 0
    assert opened.errors == []
