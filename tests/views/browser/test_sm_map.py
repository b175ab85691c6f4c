"""Multiprocessors over the step: the figures are the kernels' grids', and a press chooses."""

from __future__ import annotations

import math
import re

import pytest
from test_report_page import data_of

pytestmark = pytest.mark.slow

CANVAS = "#sms .sm-map canvas"


def working_share(run: dict, begin_ns: float, end_ns: float) -> float:
    """Mean share of multiprocessors with a block, from grids and waves of kernels in turn."""
    timeline, units = run["timeline"], run["device"]["compute_units"]
    tasks = {task["group"]: task for task in run["analysis"]["tasks"]}
    kernel = timeline["kinds"].index("kernel")
    events, total = timeline["events"], 0.0
    for kind, row, long_ns in zip(
        events["kind"], events["kernel"], events["duration_ns"], strict=True
    ):
        task = tasks.get(timeline["kernels"][row]["group"]) if kind == kernel else None
        if task is None or not task["grid"] or not task["waves"]:
            continue
        slots = units if task["waves"] > 1 and task["grid"] <= units else 0
        slots = slots or max(1, round(task["grid"] / task["waves"]))
        pieces = round(task["waves"] * units) if slots == units else task["grid"]
        waves = max(1, math.ceil(pieces / slots - 1e-9))
        last = pieces - (waves - 1) * slots
        on = min(units, slots) * (waves - 1) + min(units, last)
        total += long_ns * on / waves / units
    return total / (end_ns - begin_ns)


def test_its_figure_is_the_kernels_and_a_press_chooses_one(pages, browse) -> None:
    opened = browse(pages["predicted"], anchor="sms")
    page, run = opened.page, data_of(pages["predicted"])["runs"][0]
    page.wait_for_selector(f"{CANVAS}[data-to]")
    begin, end = (float(page.get_attribute(CANVAS, name) or 0) for name in ("data-from", "data-to"))
    told = page.inner_text("#sms .res-note")
    shown = float(re.search(r"([\d.]+) % of the SMs have work", told)[1]) / 100
    # Tiles of persistent products are told apart by the page alone.
    assert shown == pytest.approx(working_share(run, begin, end), rel=0.03)
    events = run["timeline"]["events"]
    kernel = run["timeline"]["kinds"].index("kernel")
    rows = [i for i, kind in enumerate(events["kind"]) if kind == kernel]
    longest = max(rows, key=lambda i: events["duration_ns"][i])
    middle = events["start_ns"][longest] + events["duration_ns"][longest] / 2
    box = page.locator(CANVAS).bounding_box()
    page.mouse.click(
        box["x"] + box["width"] * (middle - begin) / (end - begin), box["y"] + box["height"] / 2
    )
    zoomed = [float(page.get_attribute(CANVAS, name) or 0) for name in ("data-from", "data-to")]
    assert begin < zoomed[0] <= events["start_ns"][longest]
    assert zoomed[1] < end
    assert page.evaluate("document.getElementById('play').cursor.at") == pytest.approx(
        middle, abs=(end - begin) / box["width"]
    )
    page.keyboard.press("Escape")
    assert float(page.get_attribute(CANVAS, "data-from") or 0) == begin
    assert opened.errors == []
