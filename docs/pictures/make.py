"""The README's picture of a report: `python docs/pictures/make.py REPORT.html` (needs Chromium).

Panels of the page, one below the other, as a reader sees them.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PANELS = ("device", "use")
WIDTH, SHOWN, MARGIN = 1240, 1000, 24


def main(report: Path) -> None:
    """Write report.png beside this file."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, reduced_motion="reduce")
        page.goto(report.resolve().as_uri())
        page.wait_for_selector("html[data-ready]")
        parts = [Image.open(io.BytesIO(page.locator("#summary").screenshot()))]
        for name in PANELS:
            panel = page.locator(f"#{name}")
            panel.scroll_into_view_if_needed()
            page.wait_for_timeout(700)
            parts.append(Image.open(io.BytesIO(panel.screenshot())))
        browser.close()
    width = max(part.width for part in parts) + 2 * MARGIN
    height = sum(part.height + 14 for part in parts) + 2 * MARGIN
    whole = Image.new("RGB", (width, height), (245, 246, 248))
    top = MARGIN
    for part in parts:
        whole.paste(part.convert("RGB"), (MARGIN, top))
        top += part.height + 14
    small = whole.resize((SHOWN, round(SHOWN * whole.height / whole.width)), Image.LANCZOS)
    small.quantize(200, dither=Image.Dither.NONE).save(
        Path(__file__).with_name("report.png"), optimize=True
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
