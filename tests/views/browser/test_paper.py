"""What is printed: everything is drawn, though nobody scrolled there, and nothing is cut."""

from __future__ import annotations

import re

import pytest
from browser_pages import PAGE_NAMES
from test_every_page import scroll_through

pytestmark = pytest.mark.slow

SHEET_PX = 912
"""Width at which the page is laid out for paper."""

MOST_SHEETS = 12

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
    assert found["width"] == SHEET_PX
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
    assert page.evaluate(width) < SHEET_PX
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(width) == before


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", ["predicted", "ranks", "pair"])
def test_a_report_takes_few_sheets(name, lang, pages, browse) -> None:
    opened = browse(pages[name])
    if lang == "zh":
        opened.page.click("#language")
    printed = opened.page.pdf(format="A4", prefer_css_page_size=True)
    sheets = len(re.findall(rb"/Type\s*/Page\b(?!s)", printed))
    assert 2 < sheets <= MOST_SHEETS
    assert opened.errors == []
