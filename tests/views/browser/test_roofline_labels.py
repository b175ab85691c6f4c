"""Labels of pictures stand clear of each other, upright and tilted ones, at every width."""

from __future__ import annotations

import pytest
from test_every_page import scroll_through

pytestmark = pytest.mark.slow

COVERED = """() => {
  const texts = [...document.querySelectorAll("#roofline svg text")].filter((e) => e.textContent);
  // Places of a text's letters on the screen: a tilted text fills its line, not its box.
  const places = (text) => Array.from({ length: text.getNumberOfChars() }, (_, i) => {
    const box = text.getExtentOfChar(i);
    const middle = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2);
    return middle.matrixTransform(text.getScreenCTM());
  });
  const letters = texts.map(places), found = [];
  letters.forEach((own, a) => letters.slice(a + 1).forEach((other, b) => {
    const near = own.some((p) => other.some((q) => Math.hypot(p.x - q.x, p.y - q.y) < 7));
    if (near) found.push([texts[a].textContent, texts[a + 1 + b].textContent]);
  }));
  return found;
}"""


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [1440, 800, 390])
def test_labels_of_the_roofline_do_not_cover_each_other(width, lang, pages, browse) -> None:
    page = browse(pages["predicted"], width=width).page
    if lang == "zh":
        page.click("#language")
    scroll_through(page)
    assert page.locator("#roofline svg text").count() > 6
    assert page.evaluate(COVERED) == []
