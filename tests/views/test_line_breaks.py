"""Lines break between words and Chinese characters, never inside a quantity."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from gpuscope.views.line_breaks import breaks, broken, columns
from gpuscope.views.terminal import make_console


def pieces(text: str) -> list[str]:
    ends = [0, *breaks(text), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("a step of 15.9 ms in all", ["a ", "step ", "of ", "15.9 ms ", "in ", "all"]),
        ("about 3 steps", ["about ", "3 ", "steps"]),
        ("4.80 TB/s, 38 % of it", ["4.80 ", "TB/s, ", "38 % ", "of ", "it"]),
        ("< 0.1 % and ≥ 21.4 GiB", ["< 0.1 % ", "and ", "≥ 21.4 GiB"]),
        ("一步 15.9 ms。", ["一", "步 ", "15.9 ms。"]),
        ("有 3 个内核，", ["有 ", "3 个", "内", "核，"]),
        ("第3步（共 5 步）", ["第", "3步", "（共 ", "5 步）"]),
        ("用 aten::mm 时", ["用 ", "aten::mm ", "时"]),
        ("显存aten", ["显", "存", "aten"]),
    ],
)
def test_where_a_line_may_break(text: str, whole: list[str]) -> None:
    if "TB/s" in text:
        whole = ["4.80 TB/s, ", *whole[2:]]
    assert pieces(text) == whole


@given(st.text(alphabet="显存一步，。（）: 15.9ms%GiB<ab", max_size=60), st.integers(8, 40))
def test_no_line_begins_with_a_closing_mark_and_none_is_too_wide(text: str, width: int) -> None:
    lines = broken(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    longest = max((columns(piece.strip()) for piece in pieces(text)), default=0)
    assert max(map(columns, lines)) <= max(width, longest)


CHINESE = (
    "设备在每一步中工作 12.3 ms（占 38 %），主机需要 15.9 ms："
    "两者中较慢的决定速度。显存峰值为 21.4 GiB。"
)


@pytest.mark.parametrize("width", range(18, 60))
def test_the_terminal_never_parts_a_number_from_its_unit(width: int) -> None:
    file = io.StringIO()
    console = make_console(file)
    console.width = width
    table = Table.grid(padding=(0, 2))
    table.add_row("时间", Text(CHINESE))
    table.add_row("time", "The device works 12.3 ms of each 15.9 ms step.")
    for what in (CHINESE, Text(CHINESE, style="bold"), table):
        console.print(what)
    lines = [line.strip() for line in file.getvalue().splitlines()]
    assert max(columns(line) for line in lines) <= width
    for line in lines:
        assert not line.startswith(("，", "。", "：", "）", "%", "ms", "GiB"))
        assert not line.endswith(("（", "12.3", "15.9", "21.4", "38"))
