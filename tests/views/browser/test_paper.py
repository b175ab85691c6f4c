"""What is printed: everything is drawn, though nobody scrolled there, and nothing is cut."""

from __future__ import annotations

import pytest
from browser_pages import PAGE_NAMES
from test_every_page import scroll_through

pytestmark = pytest.mark.slow

PRINTED = """() => {
  dispatchEvent(new Event("beforeprint"));
  const right = document.getElementById("page").getBoundingClientRect().right;
  const shown = (e) => e.getClientRects().length > 0;
  const name = (e) => (e.closest("section.panel")?.id ?? "") + " " + e.tagName + " " + e.className;
  const blank = (canvas) => {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return !data.some((value) => value);
  };
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);
  return {
    width: right,
    late: all("[data-late]").map(name),
    empty: all(".chart").filter((e) => !e.querySelector("path, polyline, text")).map(name),
    blank: all("canvas").filter(blank).map(name),
    cut: all("main canvas, main svg, main table, main p, main dl, .parts")
      .filter((e) => e.getBoundingClientRect().right > right + 1).map(name),
    theme: document.documentElement.dataset.theme,
  };
}"""


@pytest.mark.parametrize("scrolled", [False, True])
@pytest.mark.parametrize("name", [name for name in PAGE_NAMES if name != "claims"])
def test_all_is_drawn_for_paper_and_nothing_is_cut(name, scrolled, pages, browse) -> None:
    opened = browse(pages[name], dark=True)
    page = opened.page
    if scrolled:
        scroll_through(page)
    found = page.evaluate(PRINTED)
    assert found["width"] == 700
    assert found["theme"] == "light"
    assert found["late"] == []
    assert found["empty"] == []
    assert found["blank"] == []
    assert found["cut"] == []
    assert opened.errors == []


def test_the_paper_is_laid_out_at_its_own_width_and_the_screen_again_after_it(
    pages, browse
) -> None:
    page = browse(pages["predicted"]).page
    scroll_through(page)
    width = "document.querySelector('#timeline .tl-box canvas').getBoundingClientRect().width"
    before = page.evaluate(width)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(width) < 700
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(width) == before
