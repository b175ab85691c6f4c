"""The README's picture of a report: `python docs/pictures/make.py` (needs Chromium).

Predicts what the picture shows, writes its page, and takes panels of it, one below the other, as a
reader sees them. The figures go into the picture as text, by which a quick test knows when it is
stale; a slow one draws it again (`tests/views/browser/test_readme_picture.py`).
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import sync_playwright

import gpuscope as gs
from gpuscope.views.html import write_report

MODEL, ON = "gpt2", "h200"
FACTS = ("name", "target", "step_time_s", "peak_memory_bytes", "energy_j")
PICTURE = Path(__file__).with_name("report.png")
PANELS = ("timeline", "device")
WIDTH, SHOWN, MARGIN = 1240, 1000, 24


def main() -> None:
    """Write report.png beside this file."""
    run = predicted()
    facts = PngInfo()
    facts.add_text("gpuscope", json.dumps({name: getattr(run, name) for name in FACTS}))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        write_report([run], report, "en")
        small = picture(report)
    small.quantize(200, dither=Image.Dither.NONE).save(PICTURE, optimize=True, pnginfo=facts)


def predicted() -> gs.Run:
    """The step that it shows."""
    return gs.predict(MODEL, on=ON, options=gs.WorkloadOptions(from_host=True))


def chromium() -> str | None:
    """The browser that draws it; None where there is none."""
    return shutil.which("chromium") or shutil.which("google-chrome")


def picture(report: Path) -> Image.Image:
    """The page's summary and panels, as wide as the README shows them."""
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, reduced_motion="reduce")
        page.goto(report.resolve().as_uri())
        page.wait_for_selector("html[data-ready]")
        page.evaluate(
            "document.getElementById('play').style.display = 'none'"
        )  # it floats over the panels
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
    return whole.resize((SHOWN, round(SHOWN * whole.height / whole.width)), Image.LANCZOS)


if __name__ == "__main__":
    main()
