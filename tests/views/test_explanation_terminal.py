"""An explanation on the terminal: every block, narrow and wide, in both languages."""

from __future__ import annotations

import io

import pytest
from both import both as w
from rich.cells import cell_len
from rich.console import Console

from gpuscope.document.blocks import (
    Axis,
    Bar,
    Bars,
    Block,
    Code,
    CodeLine,
    Column,
    Diagram,
    Explanation,
    Explorer,
    Fact,
    Facts,
    HeatMap,
    Lines,
    Link,
    Mark,
    Node,
    Output,
    Paragraph,
    Part,
    Section,
    Series,
    Slider,
    Table,
)
from gpuscope.views.explanation_terminal import render_explanation


def shown(*blocks: Block, width: int = 100, lang: str = "en", brief: bool = False) -> str:
    explanation = Explanation(
        "test",
        w("A title", "标题"),
        (w("It matters.", "这很重要。"),),
        (Section(w("Depth", "深入"), blocks),),
        ("gpuscope explain test",),
        ("A book, 2005",),
        (w("No wind.", "无风。"),),
    )
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, emoji=False, markup=False)
    for part in render_explanation(explanation, lang, brief):
        console.print(part)
    return file.getvalue()


def line_with(text: str, part: str) -> str:
    return next(line for line in text.splitlines() if part in line)


FACTS = Facts(
    (
        Fact(w("time", "时间"), 3.2e-4, "s", "calibrated", 2.5e-4, 4e-4, w("latency + bytes")),
        Fact(w("unknown"), None, "s"),
    ),
    w("Figures"),
)
TABLE = Table(
    w("Candidates"),
    (Column(w("algorithm")), Column(w("time"), "s"), Column(w("rate"), "bytes/s")),
    (("ring", 1e-3, 2e9), ("tree", 2e-3, None)),
    marked=(1,),
)
BARS = Bars(
    w("Bars"),
    "s",
    (
        Bar("short", (Part(w("copy"), 1.0, "copy"),)),
        Bar("long", (Part(w("copy"), 1.0, "copy"), Part(w("work"), 3.0, "compute"))),
    ),
    limit=2.0,
    limit_label=w("floor"),
)
LINES = Lines(
    w("Curve"),
    Axis(w("size"), "bytes", True),
    Axis(w("time"), "s", True),
    (
        Series(w("one"), (2.0**10, 2.0**20, 2.0**30), (1e-5, None, 1e-3)),
        Series(w("two"), (2.0**10, 2.0**30), (1e-4, 1e-4), "steps"),
    ),
    (Mark(w("here"), x=2.0**20), Mark(w("low"), y=1e-5), Mark(w("spot"), x=2.0**30, y=1e-3)),
)
MAP = HeatMap(w("Map"), Axis(w("to")), Axis(w("from")), ((0.0, 1.0), (None, 3.0)), "bytes")
DIAGRAM = Diagram(
    w("Ring"),
    tuple(Node(f"r{i}", w(f"R{i}", f"R{i}"), "rank", 0.1 * i, 0.5) for i in range(8)),
    tuple(Link(f"r{i}", f"r{(i + 1) % 8}", w("part"), 3e11, 4e11, True, step=0) for i in range(8)),
    (w("add"),),
)
CODE = Code(w("Source"), "python", (CodeLine(7, "  x = y[::32]", w("32 sectors"), "warning"),))
EXPLORER = Explorer(
    w("Batch"),
    (Slider("b", w("batch"), (1, 2, 4), start=1), Slider("d", w("dtype"), ("bf16", "fp32"))),
    (Output("t", w("time"), "s", (1e-3, 2e-3, 3e-3, 6e-3, 5e-3, 9e-3)),),
    "b",
    reading=w("At {b}, {d}: {t}.", "{b}、{d}：{t}。"),
)
TEXT = Paragraph(w("Remember."), "key")
ALL: tuple[Block, ...] = (FACTS, TABLE, BARS, LINES, MAP, DIAGRAM, CODE, EXPLORER, TEXT)


@pytest.mark.parametrize("width", [40, 60, 100, 120])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("block", ALL, ids=lambda b: type(b).__name__)
def test_nothing_is_wider_than_the_terminal(block: Block, width: int, lang: str) -> None:
    text = shown(block, width=width, lang=lang)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text


def test_brief_is_title_and_summary() -> None:
    text = shown(TEXT, brief=True)
    assert "A title" in text
    assert "It matters." in text
    assert "Depth" not in text
    assert "Next" not in text


def test_around_the_sections() -> None:
    text = shown(TEXT, lang="zh")
    for part in ("标题", "这很重要。", "深入", "假设", "无风。", "出处", "A book, 2005", "接下来"):
        assert part in text
    assert "$ gpuscope explain test" in text


def test_facts() -> None:
    text = shown(FACTS)
    line = line_with(text, "320 µs")
    assert "80 %: 250 µs to 400 µs; latency + bytes; calibrated" in line
    assert "not available" in line_with(text, "unknown")


def test_a_marked_row_has_a_sign() -> None:
    text = shown(TABLE)
    assert line_with(text, "tree").lstrip().startswith("▶")
    assert "▶" not in line_with(text, "ring")
    assert "not available" in line_with(text, "tree")


def test_a_wide_table_is_folded_without_losing_a_figure() -> None:
    columns = (Column(w("name")), *(Column(w(f"column{n}"), "s") for n in range(12)))
    row = ("thing", *(float(n + 1) for n in range(12)))
    text = shown(Table(w("Wide"), columns, (row,)), width=60)
    for n in range(12):
        assert f"{n + 1} s" in text
        assert f"column{n}" in text
    assert text.count("thing") > 1


def test_bars_are_on_one_scale_with_limit_and_legend() -> None:
    text = shown(BARS)
    short, long = line_with(text, "short "), line_with(text, "long ")
    assert "1 s" in short
    assert "4 s" in long
    fills = [sum(line.count(c) for c in "█▒") for line in (short, long)]
    assert fills[1] == pytest.approx(4 * fills[0], abs=2)
    assert "│" in short  # the limit, beyond its end
    assert long.index("│") == pytest.approx((long.index("█") + long.rindex("▒")) / 2, abs=1.5)
    assert "floor 2 s" in text
    assert "██ copy" in text
    assert "▒▒ work" in text


def test_one_bar_tells_its_parts() -> None:
    bar = Bar("peak", (Part(w("weights"), 3e9, "memory"), Part(w("rest"), 1e9, "other")))
    text = shown(Bars(w("One"), "flop", (bar,)))
    assert "weights 3.00 GFLOP (75.0 %)" in text
    assert "rest 1.00 GFLOP (25.0 %)" in text


def test_bars_of_nothing() -> None:
    assert "0 s" in shown(Bars(w("Empty"), "s", (Bar("none", (Part(w("x"), 0.0),)),)))


def test_lines_have_axes_letters_and_marks() -> None:
    text = shown(LINES)
    for part in (
        "1 MiB",
        "1 ms",
        "size (log)",
        "a one",
        "b two",
        "1 here  1.00 MiB",
        "2 low  10.0 µs",
        "3 spot  1.00 GiB, 1.00 ms",
    ):
        assert part in text


@pytest.mark.parametrize("ys", [(None, None), (float("nan"), None), (0.0, 0.0)])
def test_lines_without_a_point_say_so(ys: tuple[float | None, ...]) -> None:
    block = Lines(
        w("Nothing"), Axis(w("x")), Axis(w("y"), log=True), (Series(w("one"), (1.0, 2.0), ys),)
    )
    assert "not available" in shown(block)


def test_a_rising_line_rises() -> None:
    block = Lines(
        w("Line"), Axis(w("x")), Axis(w("y")), (Series(w("one"), (0.0, 10.0), (0.0, 10.0)),)
    )
    rows = [line.split("┤")[-1].split("│")[-1] for line in shown(block).splitlines()]
    places = [
        next(i for i, c in enumerate(row) if "⠀" < c <= "⣿")
        for row in rows
        if any("⠀" < c <= "⣿" for c in row)
    ]
    assert len(places) == 14
    assert places == sorted(places, reverse=True)
    assert places[0] - places[-1] > 60


def test_heat_map_shades_rise_with_the_value() -> None:
    text = shown(MAP)
    rows = [line.split()[1] for line in text.splitlines() if line.strip()[:2] in ("0 ", "1 ")]
    assert rows[0].startswith("░░░")
    assert rows[1] == "···███"
    assert "empty" in text


def test_a_wide_heat_map_is_joined_and_says_so() -> None:
    values = tuple(tuple(float(x >= 500) for x in range(1000)) for _ in range(100))
    block = HeatMap(
        w("Wide"),
        Axis(w("SM")),
        Axis(w("wave")),
        values,
        classes=(w("full"), w("tail")),
        roles=("tensor", "tail"),
    )
    text = shown(block, width=60)
    assert "each column stands for 19, each row for 4" in text
    row = line_with(text, "  0  █")
    assert row.count("█") == pytest.approx(row.count("▒"), abs=1)
    assert "██ full" in text


def test_diagram_joins_equal_ways_and_marks_the_narrowest() -> None:
    text = shown(DIAGRAM)
    assert "step 1: add" in text
    assert "R0 → R1, R1 → R2, R2 → R3, R3 → R4; and 4" in text
    line = line_with(text, "R0 → R1")
    assert "300 GB/s" in line
    assert "at most 400 GB/s" in line
    assert "narrowest" in line


def test_diagram_says_how_many_steps_it_leaves_out() -> None:
    links = tuple(Link("a", "b", bytes_per_s=n + 1.0, step=n) for n in range(20))
    nodes = (Node("a", w("A"), "rank", 0, 0, detail=w("first")), Node("b", w("B"), "rank", 1, 0))
    text = shown(Diagram(w("Long"), nodes, links))
    assert "and 12 more steps" in text
    assert text.count("A → B") == 8
    assert "first" in line_with(text, "A  ")


def test_diagram_joins_steps_that_are_alike() -> None:
    links = tuple(Link("a", "b", step=n) for n in range(7))
    nodes = (Node("a", w("A"), "rank", 0, 0), Node("b", w("B"), "rank", 1, 0))
    steps = (w("add"),) * 4 + (w("pass on"),) * 3
    text = shown(Diagram(w("Ring"), nodes, links, steps))
    assert "steps 1 to 4: add" in text
    assert "steps 5 to 7: pass on" in text
    assert text.count("A → B") == 2


def test_code_has_numbers_and_remarks() -> None:
    text = shown(CODE)
    assert "! 7   x = y[::32]" in text
    assert "↳ 32 sectors" in text


def test_explorer_is_a_table_at_the_starts_of_the_other_sliders() -> None:
    text = shown(EXPLORER)
    assert "3.00 ms" in line_with(text, "▶")
    assert [v in text for v in ("1.00 ms", "5.00 ms", "2.00 ms", "9.00 ms")] == [
        True,
        True,
        False,
        False,
    ]
    assert "at dtype = bf16" in text
    assert "At 2, bf16: 3.00 ms." in text
