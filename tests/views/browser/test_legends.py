"""A legend stands wherever the palette is used: what is drawn in a colour is named in the panel."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest
from browser_pages import script
from test_every_page import scroll_through

from gpuscope.views.palette import COLOURS

pytestmark = pytest.mark.slow

FEW_PIXELS = 60
"""What is smaller may be an edge between two colours."""

USED = script("legends.js")


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("predicted", {"timeline", "timeline-then", "sms", "roofline", "memory", "blocks"}),
        ("ranks", {"timeline"}),
        ("pair", {"timeline", "timeline-pair"}),
    ],
)
def test_every_colour_of_the_palette_is_named_in_its_panel(name, least, pages, browse) -> None:
    opened = browse(pages[name])
    scroll_through(opened.page)
    palette = json.loads(files("gpuscope.document").joinpath("palette.json").read_text("utf-8"))
    said = {value for sort in palette.values() for value in sort.values() if value[0] == "#"}
    found = opened.page.evaluate(USED, sorted(said | set(COLOURS.values())))
    assert least <= set(found)
    for panel, colours in found.items():
        used = {colour for colour, pixels in colours["drawn"].items() if pixels >= FEW_PIXELS}
        assert used, panel
        assert used <= set(colours["named"]), (panel, used - set(colours["named"]))
    assert opened.errors == []
