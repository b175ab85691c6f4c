"""Memory block by block: what it tells of a moment is the data's; a block tells whose it is."""

from __future__ import annotations

import pytest
from test_play_head import set_moment
from test_report_page import data_of

import gpuscope as gs
from conftest import TRACES
from gpuscope.document import format as units
from gpuscope.views.html import write_report

pytestmark = pytest.mark.slow

CANVAS = "#blocks .block-map canvas"


def there(columns: dict, at_ns: float) -> list[int]:
    lives = zip(columns["born_ns"], columns["died_ns"], strict=True)
    return [
        i for i, (born, died) in enumerate(lives) if born <= at_ns and (died < 0 or died > at_ns)
    ]


def test_a_moment_s_figures_are_the_blocks_and_pointing_tells_one(pages, browse) -> None:
    opened = browse(pages["predicted"], anchor="blocks")
    page, columns = opened.page, data_of(pages["predicted"])["runs"][0]["memory_blocks"]
    page.wait_for_selector(f"{CANVAS}[data-total]")
    begin, end = columns["begin_ns"], columns["end_ns"]
    for share in (0.2, 0.35, 0.8):
        at = begin + share * (end - begin)
        set_moment(page, at)
        rows = there(columns, at)
        told = page.inner_text("#blocks .res-verdict")
        assert (
            f"{units.size(sum(columns['nbytes'][i] for i in rows))} in {len(rows)} blocks" in told
        )
        if share < 0.8:
            reserved = sum(nbytes for _, nbytes in columns["segments"])
            assert int(page.get_attribute(CANVAS, "data-total") or 0) == reserved
    timeline = data_of(pages["predicted"])["runs"][0]["timeline"]["ops"]
    rows = [i for i in there(columns, at) if columns["owner"][i] >= 0 and columns["op"][i] >= 0]
    chosen = max(rows, key=lambda i: columns["nbytes"][i])
    x, y = place(page, columns, chosen, share)
    page.mouse.move(x, y)
    tip = page.inner_text("#tip")
    words, op = columns["words"], columns["op"][chosen]
    site = timeline["sites"][timeline["columns"]["site"][op]]
    assert words[columns["label"][chosen]] in tip  # the tensor
    assert words[columns["owner"][chosen]] in tip  # its module
    assert site  # and the line that made it
    assert site in tip
    assert units.size(columns["nbytes"][chosen]) in tip
    page.mouse.click(x, y)
    assert units.size(columns["nbytes"][chosen]) in page.inner_text("#selection")
    assert opened.errors == []


def place(page, columns: dict, block: int, share: float) -> tuple[float, float]:
    """Where a block is in the window, at a share of the time drawn."""
    starts, total = {}, 0
    for address, nbytes in columns["segments"]:
        starts[address] = total
        total += nbytes
    own = max(a for a in starts if a <= columns["address"][block])
    middle = starts[own] + columns["address"][block] - own + columns["nbytes"][block] / 2
    box = page.locator(CANVAS).bounding_box()
    return box["x"] + box["width"] * share, box["y"] + box["height"] * (1 - middle / total)


def test_a_recorded_snapshot_tells_lines_and_stacks(browse, tmp_path) -> None:
    path = tmp_path / "snapshot.html"
    write_report(gs.load(TRACES / "h200" / "snapshot.pickle"), path, "en")
    opened = browse(path, anchor="blocks")
    page, columns = opened.page, data_of(path)["runs"][0]["memory_blocks"]
    assert f"in {max_blocks(columns)} blocks" in page.inner_text("#blocks .res-verdict")
    begin, end = columns["begin_ns"], columns["end_ns"]
    rows = [i for i in there(columns, begin + (end - begin) / 2) if columns["stack"][i] >= 0]
    largest = max(rows, key=lambda i: columns["nbytes"][i])
    page.mouse.move(*place(page, columns, largest, 0.5))
    tip = page.inner_text("#tip")
    frames = [columns["words"][k] for k in columns["stacks"][columns["stack"][largest]]]
    assert frames[0] in tip
    assert units.size(columns["nbytes"][largest]) in tip
    page.click("#blocks details.as-table summary")
    lines = page.inner_text("#blocks details.as-table table")
    assert "record_traces.py" in lines
    stacks = [[columns["words"][k] for k in stack] for stack in columns["stacks"]]
    assert any("record_traces.py" in line for stack in stacks for line in stack)
    assert opened.errors == []


def max_blocks(columns: dict) -> int:
    """How many blocks are there at the moment that holds most."""
    moments = sorted({t for t in (*columns["born_ns"], columns["begin_ns"]) if t >= 0})
    fullest = max(moments, key=lambda at: sum(columns["nbytes"][i] for i in there(columns, at)))
    return len(there(columns, fullest))
