"""A step played as a film: the report's own page in a browser without a window, picture by picture.

Chromium draws (through Playwright), ffmpeg writes; both must be there. The timeline with its play
head stands at the left, the device with what runs on it at the right.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuscope.atomic import write_atomically
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError, MissingPackageError

WIDTH, HEIGHT = 1600, 900
"""Pixels of the film."""

PICTURES_PER_S = 15

FORMATS = (".mp4", ".gif")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
"""Names that a browser which Playwright drives may have on the path."""

_GIF = "fps=10,scale=960:-1:flags=lanczos,split[a][b];[a]palettegen[p];[b][p]paletteuse"


def check_film(path: Path) -> None:
    """Refuse a film that could not be made, before the work for it.

    Raises:
        InvalidValueError: neither .mp4 nor .gif.
        MissingPackageError: no Playwright.
        InputFileError: no ffmpeg, or no browser.
    """
    if path.suffix.lower() not in FORMATS:
        raise InvalidValueError(
            Text("A film cannot be written as {name}.", name=path.name),
            Text("It is an .mp4 or a .gif."),
            Text("Type: --video step.mp4"),
        )
    _playwright()
    if shutil.which("ffmpeg") is None:
        raise InputFileError(
            Text("--video needs the program ffmpeg, which is not on the path."),
            Text("It puts the pictures together."),
            Text("Install ffmpeg, or leave out --video."),
        )
    if _browser() is None:
        raise InputFileError(
            Text("--video needs Chromium or Chrome, which is not on the path."),
            Text("It draws the pictures."),
            Text("Install chromium, or leave out --video."),
        )


def write_film(
    page: Path, path: Path, seconds: float, tell: Callable[[int, int], None] = lambda _, __: None
) -> None:
    """Play the step of a report's page, and write it; the file is there in full or not at all.

    Args:
        page: a report written by `write_report`.
        path: the film, .mp4 or .gif.
        seconds: how long it lasts.
        tell: called with how many pictures are drawn, and how many there will be.

    Raises:
        InvalidValueError: `seconds` is not more than 0, or nothing in the run happens in time.
        InputFileError, MissingPackageError: as `check_film`; ffmpeg failed.
    """
    if not 0 < seconds <= 600:
        raise InvalidValueError(
            Text("A film of {seconds} s cannot be.", seconds=f"{seconds:g}"),
            Text("It lasts more than 0 and at most 600 s."),
            Text("Type: --seconds 10"),
        )
    check_film(path)
    count = max(2, round(seconds * PICTURES_PER_S))
    with tempfile.TemporaryDirectory() as folder:
        _draw(page, Path(folder), count, tell)
        write_atomically(path, _joined(Path(folder), path.suffix.lower()))


def _playwright() -> Any:
    try:
        from playwright import sync_api
    except ImportError as error:
        raise MissingPackageError("playwright", Text("--video"), None) from error
    return sync_api


def _browser() -> str | None:
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def _flags() -> list[str]:
    """Chromium refuses to run in its sandbox as root."""
    return ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []


def _draw(page: Path, folder: Path, count: int, tell: Callable[[int, int], None]) -> None:
    """One picture for each of evenly spread moments of the step."""
    with _playwright().sync_playwright() as running:
        browser = running.chromium.launch(executable_path=_browser(), args=_flags())
        try:
            view = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce"
            )
            view.goto(page.resolve().as_uri())
            view.wait_for_selector("html[data-ready]")
            if not view.evaluate("Boolean(document.getElementById('play'))"):
                raise InvalidValueError(
                    Text("There is nothing to play."),
                    Text("The run holds no work of a device over time."),
                    Text("Take a prediction, a measurement or a trace."),
                )
            view.evaluate("document.documentElement.classList.add('film')")
            view.wait_for_timeout(600)
            for number in range(count):
                share = number / (count - 1)
                view.evaluate(
                    "share => { const { cursor } = document.getElementById('play');"
                    " cursor.set(cursor.low + (cursor.high - cursor.low) * share); }",
                    share,
                )
                view.screenshot(path=folder / f"{number:05d}.png")
                tell(number + 1, count)
        finally:
            browser.close()


def _joined(folder: Path, suffix: str) -> bytes:
    """The film of a folder's pictures."""
    made = folder / f"film{suffix}"
    how = (
        ["-vf", _GIF]
        if suffix == ".gif"
        else ["-pix_fmt", "yuv420p", "-c:v", "libx264", "-crf", "20", "-movflags", "+faststart"]
    )
    pictures = ["-framerate", str(PICTURES_PER_S), "-i", str(folder / "%05d.png")]
    command = ["ffmpeg", "-loglevel", "error", "-y", *pictures, *how, str(made)]
    ran = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
    if ran.returncode or not made.is_file():
        said = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InputFileError(
            Text("ffmpeg could not write the film."),
            Text("It says: {said}", said=said[-1] if said else ran.returncode),
            Text("Try the other format: --video step.gif"),
        )
    return made.read_bytes()
