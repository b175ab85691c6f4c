"""Input is seen to come over PCIe, work is done, what it gives is seen to return."""

from __future__ import annotations

import pytest
from test_play_head import set_moment
from test_report_page import data_of

import gpuscope as gs
from gpuscope.views.html import write_report

pytestmark = pytest.mark.slow

PARCELS = """(() => [...document.querySelectorAll("#device .cargo circle")].map((e) =>
  [Number(e.getAttribute("cx")), Number(e.getAttribute("cy"))]))()"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    options = gs.WorkloadOptions(task="train", batch=8, image=64, from_host=True)
    made = tmp_path_factory.mktemp("host") / "page.html"
    write_report(gs.predict("resnet18", on="h200", options=options), made, "en", what_if=False)
    return made


def copies(run: dict) -> tuple[list[int], list[int]]:
    """Rows of the copies to the device, and from it."""
    timeline = run["timeline"]
    events, names = timeline["events"], timeline["names"]
    named = [names[name] for name in events["name"]]
    return (
        [i for i, name in enumerate(named) if name.startswith("memcpy_h2d")],
        [i for i, name in enumerate(named) if name.startswith("memcpy_d2h")],
    )


def test_parcels_come_and_go_with_the_copies(path, browse) -> None:
    opened = browse(path, anchor="device")
    page, run = opened.page, data_of(path)["runs"][0]
    page.wait_for_selector("#device svg")
    events = run["timeline"]["events"]
    inward, outward = copies(run)
    assert len(inward) == 2  # images and labels
    assert len(outward) == 1  # the loss
    assert events["start_ns"][outward[0]] > events["start_ns"][inward[0]]

    def at(event: int, share: float) -> list[list[float]]:
        set_moment(page, events["start_ns"][event] + share * events["duration_ns"][event])
        return page.evaluate(PARCELS)

    early, late = at(inward[0], 0.2), at(inward[0], 0.7)
    assert early != late  # they move
    back = at(outward[0], 0.5)
    assert early
    assert back
    assert {y for _, y in early}.isdisjoint(y for _, y in back)  # each way has its own
    kernel = next(
        i
        for i, kind in enumerate(events["kind"])
        if run["timeline"]["kinds"][kind] == "kernel"
        and events["start_ns"][i] > events["start_ns"][inward[1]] + events["duration_ns"][inward[1]]
    )
    assert at(kernel, 0.5) == []
    assert opened.errors == []


def test_the_links_have_lanes_and_the_way_of_the_data_has_its_legs(path, browse) -> None:
    opened = browse(path, anchor="timeline")
    page, run = opened.page, data_of(path)["runs"][0]
    page.wait_for_selector("#timeline canvas[role=application]")
    labels = page.evaluate(
        "document.querySelector('#timeline canvas[role=application]')"
        ".timeline.tracks.map((track) => track.label)"
    )
    assert {"Host to device", "Device to host"} <= set(labels)
    series = {each["key"]: each["total"] for each in run["use"]["series"]}
    assert series["h2d"] == 8 * 3 * 64 * 64 * 4 + 8 * 8
    assert series["d2h"] == 4
    assert opened.errors == []
