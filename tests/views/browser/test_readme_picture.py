"""README's picture is what the page shows today: drawn anew, it is the one that is committed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gpuscope.views.html import write_report

pytestmark = pytest.mark.slow

MAKE = Path(__file__).resolve().parents[3] / "docs" / "pictures" / "make.py"
OTHER_LEVEL = 48
"""Of 255; what 200 colours in place of all do to a pixel stays below."""

MOST_OTHER = 0.02
"""Share of pixels that may differ: letters of another version of a font."""


def test_the_committed_picture_is_drawn_again(tmp_path) -> None:
    image = pytest.importorskip("PIL.Image")
    chops = pytest.importorskip("PIL.ImageChops")
    pytest.importorskip("playwright")
    spec = importlib.util.spec_from_file_location("make_picture", MAKE)
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    if make.chromium() is None:
        pytest.skip("needs Chromium")
    report = tmp_path / "report.html"
    write_report([make.predicted()], report, "en", what_if=False)
    now = make.picture(report)
    with image.open(make.PICTURE) as kept:
        assert kept.size == now.size, "stale: python docs/pictures/make.py"
        differ = chops.difference(kept.convert("RGB"), now).convert("L")
    other = sum(differ.histogram()[OTHER_LEVEL:]) / (now.width * now.height)
    assert other < MOST_OTHER, "stale: python docs/pictures/make.py"
