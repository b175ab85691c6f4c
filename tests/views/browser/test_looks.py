"""How every panel looks: both languages, both themes, three widths; nothing runs into anything.

With `GPUSCOPE_LOOKS=FOLDER` each panel's twelve looks are kept there, on one sheet.
"""

from __future__ import annotations

import io
import os
from itertools import product
from pathlib import Path

import pytest
from browser_pages import script
from test_every_page import scroll_through

pytestmark = pytest.mark.slow

FOLDER = os.environ.get("GPUSCOPE_LOOKS")
WIDTHS = (1440, 820, 390)
LOOKS = ("predicted", "ranks", "pair", "explanation", "serving", "plan")
GAP_PX = 10

WRONG = script("looks.js")

STILL = """document.querySelectorAll("header, #play, #selection")
  .forEach((e) => e.style.setProperty("position", "static", "important"))"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", LOOKS)
def test_nothing_runs_into_anything(name, lang, dark, width, pages, browse) -> None:
    opened = browse(pages[name], width=width, dark=dark)
    page = opened.page
    if lang == "zh":
        page.click("#language")
    scroll_through(page)
    page.wait_for_timeout(300)
    if FOLDER:
        keep(page, Path(FOLDER), name, f"{lang}-{'dark' if dark else 'light'}-{width}")
    assert page.evaluate(WRONG) == []
    assert opened.errors == []


def keep(page, folder: Path, name: str, look: str) -> None:
    """Write a picture of each panel, and of what stands around them."""
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.window.{look}.png")
    page.evaluate(STILL)  # what floats would stand over the panels
    for at, panel in enumerate(page.locator("#summary, section.panel, main > section").all()):
        if not panel.is_visible() or panel.locator("section.panel").count():
            continue
        own = panel.get_attribute("id") or str(at)
        panel.screenshot(path=folder / f"{name}.{own}.{look}.png")


@pytest.fixture(scope="module", autouse=True)
def sheets():
    """At the end: the twelve looks of a panel beside and below each other."""
    yield
    if not FOLDER:
        return
    image = pytest.importorskip("PIL.Image")
    folder = Path(FOLDER)
    rows = [f"{lang}-{theme}" for lang, theme in product(("en", "zh"), ("light", "dark"))]
    for panel in sorted({".".join(p.name.split(".")[:2]) for p in folder.glob("*.*.*-*-*.png")}):
        grid = []
        for row in rows:
            files = [folder / f"{panel}.{row}-{width}.png" for width in WIDTHS]
            grid.append([image.open(io.BytesIO(p.read_bytes())) for p in files if p.exists()])
        wide = max(sum(p.width + GAP_PX for p in row) for row in grid)
        high = sum(max((p.height for p in row), default=0) + GAP_PX for row in grid)
        sheet, top = image.new("RGB", (wide, high), (128, 128, 128)), 0
        for row in grid:
            left = 0
            for part in row:
                sheet.paste(part.convert("RGB"), (left, top))
                left += part.width + GAP_PX
            top += max((p.height for p in row), default=0) + GAP_PX
        sheet.save(folder / f"sheet.{panel}.png")
