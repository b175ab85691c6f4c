"""What is shown agrees with what was seen, in both languages."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields, is_dataclass, replace

import pytest
from lens_examples import Seen

from gpuscope.document.blocks import Bars, Code, Facts, HeatMap, Table
from gpuscope.document.text import Text, render
from gpuscope.kernel_lens.explanation import explain_lens
from gpuscope.kernel_lens.machine import Machine, machine_of
from gpuscope.kernel_lens.types import Lens


def _only(seen: Seen, *launches) -> Lens:
    return Lens("file.py:launch", machine_of("h200"), launches, True, 1000, 10)


def _blocks(explanation, kind):
    return [b for section in explanation.sections for b in section.blocks if isinstance(b, kind)]


def _words(value):
    if isinstance(value, Text):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _words(one)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _words(getattr(value, field.name))


def test_lines_carry_their_remarks(seen: Seen):
    launch = seen.one("naive", "transpose")
    explanation = explain_lens(_only(seen, launch))
    (code,) = _blocks(explanation, Code)
    (noted,) = [line for line in code.lines if line.note is not None]
    assert noted.tone == "warning"
    assert "store target: 32 sectors a request, 4 would do (8.00×)" in noted.note
    assert [line.text for line in code.lines] == list(launch.functions[0].lines)


def test_the_facts_are_the_counts(seen: Seen):
    launch = seen.one("tiled", "transpose")
    (facts,) = _blocks(explain_lens(_only(seen, launch)), Facts)
    values = {fact.label: fact.value for fact in facts.rows}
    assert values["requests to global memory"] == 256
    assert values["sectors a request"] == 4
    assert values["useful share of the bytes moved"] == 1.0
    assert values["passes a request"] == 16.5
    assert values["shared memory of a block"] == 4096


def test_the_sector_map_of_a_strided_read(seen: Seen):
    (map_,) = _blocks(explain_lens(_only(seen, seen.one("strided_copy"))), HeatMap)
    assert len(map_.values) == 32
    for lane, row in enumerate(map_.values):
        assert [n for n, cell in enumerate(row) if cell is not None] == [lane]
    assert {cell for row in map_.values for cell in row} == {None, 1.0}  # all partly used
    assert map_.x_labels[:3] == ("0", "4", "8")


def test_the_bank_map_of_a_32_way_conflict(seen: Seen):
    maps = _blocks(explain_lens(_only(seen, seen.one("tiled", "transpose"))), HeatMap)
    banks = maps[-1].values
    column = [row.index(next(c for c in row if c is not None)) for row in banks]
    assert len(set(column)) == 1
    assert [row[column[0]] for row in banks] == [0.0] + [1.0] * 31
    assert "32 passes" in maps[-1].note


def test_the_bank_map_without_conflict(seen: Seen):
    maps = _blocks(explain_lens(_only(seen, seen.one("padded", "transpose"))), HeatMap)
    assert {cell for row in maps[-1].values for cell in row} == {None, 0.0}


def test_bars_add_up(seen: Seen):
    launch = seen.one("straight", "matmul")
    by_line, by_level = _blocks(explain_lens(_only(seen, launch)), Bars)
    moved = sum(a.sectors for a in launch.accesses) * 32
    assert sum(part.value for bar in by_line.bars for part in bar.parts) == moved
    asked, requests, blocks, once = (bar.parts[0].value for bar in by_level.bars)
    assert asked == sum(a.asked_bytes for a in launch.arrays)
    assert requests == moved
    assert requests >= blocks >= once >= by_level.limit == 3 * 32 * 32 * 4


def test_the_summary_names_the_worst(seen: Seen):
    texts = list(explain_lens(_only(seen, seen.one("straight"))).summary)
    assert "move 132 KiB" in texts[0]
    assert "12.0 KiB if each byte moved once: 11.0×" in texts[0]
    good = explain_lens(_only(seen, seen.one("copy")))
    assert "little more than each byte once" in good.summary[0]
    assert "about as small as its data allow" in good.summary[1]


def test_several_launches_have_an_overview_and_names(seen: Seen):
    launches = seen.all("strided")
    explanation = explain_lens(_only(seen, *launches, launches[0]))
    table = _blocks(explanation, Table)[0]
    assert [row[0] for row in table.rows] == [
        "strided (stride=1), 2 times",
        "strided (stride=2)",
        "strided (stride=32)",
        "strided (stride=33)",
    ]
    assert [row[5] for row in table.rows] == [1, 2, 32, 1]


def test_of_many_launches_those_with_most_to_change_are_shown(seen: Seen):
    launches = [replace(seen.one("copy"), scalars=(("turn", str(n)),)) for n in range(50)]
    launches[45] = seen.one("strided_copy")
    explanation = explain_lens(_only(seen, *launches))
    assert len(_blocks(explanation, Table)[0].rows) == 40
    assert len(_blocks(explanation, Code)) == 6
    assert "strided_copy" in [section.title for section in explanation.sections]
    assert any("Of 50 launches that differ" in words for words in explanation.assumptions)


def test_what_to_type_next_exists(seen: Seen):
    from typer.testing import CliRunner

    from gpuscope.cli.app import app
    from gpuscope.kernel_lens.explanation import _LESSONS

    commands = explain_lens(_only(seen, *seen.all("tiled"), seen.one("by_lane"))).commands
    assert "gpuscope learn shared-memory" in commands
    assert "gpuscope learn warps" in commands
    assert any("--threads 256 --shared 4096" in command for command in commands)
    for command in {*commands, *(f"gpuscope learn {lesson}" for lesson in _LESSONS.values())}:
        if command.startswith("gpuscope lens "):
            continue
        result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--quiet"])
        assert result.exit_code == 0, (command, result.output)


def test_a_stopped_run_says_so(seen: Seen):
    lens = Lens("f.py:launch", Machine(), (seen.one("copy"),), False, 1000, 1001)
    assert "Stopped at the limit of 1,000" in explain_lens(lens).summary[-1]


@pytest.fixture(scope="module")
def everything(seen: Seen):
    return explain_lens(seen.lens)


def test_both_languages_say_the_same(everything):
    found = list(_words(everything))
    assert len(found) > 100
    for words in found:
        assert words.strip()
        assert render(words, "zh").strip()
    for words in everything.summary:
        assert re.search(r"[\u4e00-\u9fff]", render(words, "zh"))
        figures = [sorted(re.findall(r"\d[\d,.]*\d|\d", t)) for t in (words, render(words, "zh"))]
        assert figures[0] == figures[1]


def test_it_is_a_document_and_prints(everything):
    from rich.console import Console

    from gpuscope.views.explanation import explanation_document
    from gpuscope.views.explanation_terminal import render_explanation

    document = json.loads(json.dumps(explanation_document(everything)))
    assert document["topic"] == "lens"
    for lang in ("en", "zh"):
        console = Console(width=60, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
        for part in render_explanation(everything, lang):
            console.print(part)
        assert "32" in console.export_text()
