"""The timeline under fingers, and arrows from a launch to the work that it started."""

from __future__ import annotations

import pytest
from test_report_page import data_of
from test_timeline_lanes import CANVAS

import gpuscope as gs
from gpuscope.views.html import write_report

pytestmark = pytest.mark.slow

SCENE = f"document.querySelector('{CANVAS}').timeline"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    options = gs.WorkloadOptions(task="train", batch=4, seq=256, layers=1)
    made = tmp_path_factory.mktemp("hands") / "page.html"
    write_report(gs.predict("gpt2", on="h200", options=options), made, "en", what_if=False)
    return made


class Fingers:
    """Touches of a canvas, as a screen sends them."""

    def __init__(self, page) -> None:
        self.page, self.door = page, page.context.new_cdp_session(page)
        self.door.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
        self.box = page.locator(CANVAS).bounding_box()

    def _send(self, kind: str, xs: list[float]) -> None:
        y = self.box["y"] + 120
        points = [{"x": self.box["x"] + x, "y": y, "id": i} for i, x in enumerate(xs)]
        self.door.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def move(self, before: list[float], after: list[float], steps: int = 6) -> None:
        self._send("touchStart", before)
        for n in range(1, steps + 1):
            part = n / steps
            self._send(
                "touchMove", [a + (b - a) * part for a, b in zip(before, after, strict=True)]
            )
        self._send("touchEnd", [])
        self.page.wait_for_timeout(60)


def opened_at(browse, path):
    opened = browse(path, anchor="timeline")
    opened.page.wait_for_selector(CANVAS)
    opened.page.locator(CANVAS).scroll_into_view_if_needed()
    return opened


def test_one_finger_moves_two_zoom_and_a_stretch_is_chosen(path, browse) -> None:
    opened = opened_at(browse, path)
    page, view = opened.page, f"{SCENE}.view"
    fingers, first = Fingers(page), page.evaluate(view)
    fingers.move([500, 700], [400, 800])
    near = page.evaluate(view)
    assert near[1] - near[0] == pytest.approx((first[1] - first[0]) / 2, rel=0.1)
    at = page.evaluate(f"{SCENE}.time(600)")
    fingers.move([700], [600])
    assert page.evaluate(f"{SCENE}.x({at})") == pytest.approx(500, abs=8)
    page.get_by_role("button", name="Choose by dragging").click()
    page.locator(CANVAS).scroll_into_view_if_needed()
    fingers.box = page.locator(CANVAS).bounding_box()
    wanted = page.evaluate(f"[{SCENE}.time(400), {SCENE}.time(700)]")
    fingers.move([400], [700])
    assert page.evaluate(f"{SCENE}.chosen") == pytest.approx(wanted, rel=1e-3)
    assert "by family" in page.inner_text("#timeline .tm-stretch")
    assert opened.errors == []


def test_an_arrow_leads_from_the_launch_to_its_work(path, browse) -> None:
    """What is drawn with the chosen kernel but not with the launch's number taken away."""
    opened = opened_at(browse, path)
    page, run = opened.page, data_of(path)["runs"][0]
    events, kinds = run["timeline"]["events"], run["timeline"]["kinds"]
    starts, numbers = events["start_ns"], events["correlation"]
    kernels = [i for i, kind in enumerate(events["kind"]) if kinds[kind] == "kernel"]
    launches = {
        number: i
        for i, number in enumerate(numbers)
        if number >= 0 and kinds[events["kind"][i]] == "launch"
    }
    kernel = max(
        (i for i in kernels if numbers[i] in launches),
        key=lambda i: starts[i] - starts[launches[numbers[i]]],
    )
    launch = launches[numbers[kernel]]
    places = page.evaluate(
        """([launch, kernel, from, to]) => {
          const scene = document.querySelector("#timeline canvas[role=application]").timeline;
          const margin = (to - from) * 0.3;
          scene.show(from - margin, to + margin);
          const pixels = () => {
            scene.draw();
            const c = scene.canvas.getContext("2d");
            return c.getImageData(0, 0, scene.canvas.width, scene.canvas.height).data;
          };
          const before = pixels().slice();
          scene.selected = { source: 0, event: kernel };
          const after = pixels(), changed = [];
          for (let i = 0; i < after.length; i += 4)
            if (after[i] !== before[i] || after[i + 1] !== before[i + 1]) changed.push(i / 4);
          const wide = scene.canvas.width, rows = changed.map((at) => Math.floor(at / wide));
          const a = scene.place(0, launch), b = scene.place(0, kernel), scroll = scene.scroll;
          const x = scene.x(from);
          const near = changed.filter((at) => Math.abs((at % wide) - x) < 6).length;
          return { low: Math.min(...rows), high: Math.max(...rows), near,
            launch: a ? [a.top - scroll, a.bottom - scroll] : null,
            kernel: [b.top - scroll, b.bottom - scroll] };
        }""",
        [launch, kernel, starts[launch], starts[kernel]],
    )
    assert places["near"] > 0  # something is drawn at the launch's begin, far from the kernel
    assert places["launch"][0] < places["low"] + 1 <= places["launch"][1] + 1
    assert places["high"] <= places["kernel"][1] + 2
    assert opened.errors == []
