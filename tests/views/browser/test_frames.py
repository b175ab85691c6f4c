"""No frame is late: at 200,000 events, while one pans, zooms and plays.

Counted is the time that the page's thread works for a frame (script, style, layout, paint), as
Chromium counts it: what else runs on the machine meanwhile is not in it.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from test_report_page import many_events

from conftest import worked_s
from gpuscope.views.html import write_report

pytestmark = pytest.mark.slow

FRAME_MS = 16
OPENS_WITHIN_S = 2.0
MOVES = 60
FIRST_MAY_TAKE = 2
"""Frames that the first move may take: what shows a moment is made then."""

TRIALS = 5
"""A thread's time is longer while others take its caches: of some trials the best one counts."""

SCENE = "document.querySelector('#timeline canvas[role=application]').timeline"
CURSOR = "document.getElementById('play').cursor"
SORTS = {
    "pan": f"""(i) => {{
      const scene = {SCENE}, [low, high] = scene.limits;
      if (i === 0) scene.show(low, low + (high - low) / 4);
      scene.pan(i % 30 < 15 ? 0.07 : -0.07);
    }}""",
    "zoom": f"(i) => {SCENE}.zoom(i % 30 < 15 ? 0.7 : 1 / 0.7)",
    "play": f"""(i) => {{
      const cursor = {CURSOR};
      cursor.set(cursor.low + (cursor.high - cursor.low) * (i + 0.5) / {MOVES});
    }}""",
}
FRAME = """async (i) => {
  window.move(i);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
}"""


def frames_ms(page, move: str) -> list[float]:
    """Thread time of each frame, in order."""
    chromium = page.context.new_cdp_session(page)
    chromium.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate(f"() => {{ window.move = {move}; }}")
    spent = [worked_s(chromium)]
    for i in range(MOVES):
        page.evaluate(FRAME, i)
        spent.append(worked_s(chromium))
    chromium.detach()
    return [1e3 * (b - a) for a, b in pairwise(spent)]


@pytest.fixture(scope="module")
def crowded(pages, tmp_path_factory):
    """A page of 200,000 events, and one of a million."""
    found = {}
    for count in (200_000, 1_000_000):
        found[count] = tmp_path_factory.mktemp("crowded") / "page.html"
        write_report(many_events(pages.predicted, count), found[count], "en", what_if=False)
    return found


@pytest.mark.parametrize("place", ["timeline", "device"])
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("count", [200_000, 1_000_000])
def test_no_frame_is_late(count, sort, place, crowded, browse) -> None:
    if place == "device" and sort != "play":
        pytest.skip("moves the timeline only")
    worst = []
    for _ in range(TRIALS):
        opened = browse(crowded[count], anchor=place)
        opened.page.wait_for_timeout(1000)  # what is worked out beforehand is
        frames = frames_ms(opened.page, SORTS[sort])
        assert opened.errors == []
        began, later = frames[0], sorted(frames[1:])
        told = f"first {began:.1f} ms, median {later[MOVES // 2]:.1f} ms, worst {later[-1]:.1f} ms"
        print(f"{count} {sort} {place}: {told}")
        worst.append(max(began / FIRST_MAY_TAKE, later[-1]))
        if worst[-1] < FRAME_MS:
            break
    assert min(worst) < FRAME_MS


def test_a_report_of_a_million_events_is_there_within_two_seconds(crowded, chromium) -> None:
    context = chromium.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(crowded[1_000_000].as_uri() + "#timeline")
    page.wait_for_selector("#timeline canvas[role=application]")
    took_s = worked_s(session)
    context.close()
    print(f"a million events: {took_s:.2f} s of the page's thread")
    assert took_s < OPENS_WITHIN_S


def test_the_panels_hold_still_while_it_plays(pages, browse) -> None:
    """What stands in the device's picture stays there: focus and what is below it do not move."""
    page = browse(pages["predicted"], anchor="device").page
    page.evaluate(f"{CURSOR}.set({CURSOR}.low + 1e6)")
    way = page.locator("#device .way.pressable").first
    way.focus()
    kept = page.evaluate_handle("document.activeElement")
    below = "document.querySelector('#device .device-facts').getBoundingClientRect().top"
    before = page.evaluate(below)
    for share in (0.2, 0.5, 0.7):
        page.evaluate(f"{CURSOR}.set({CURSOR}.low + ({CURSOR}.high - {CURSOR}.low) * {share})")
        assert page.evaluate("(e) => e === document.activeElement && e.isConnected", kept)
        assert page.evaluate(below) == before
