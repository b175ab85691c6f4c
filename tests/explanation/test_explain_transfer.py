"""`explain transfer`: figures that agree with the model, in both languages, from the shell."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import app
from gpuscope.document.blocks import Diagram, Facts
from gpuscope.document.text import render
from gpuscope.explanation.transfer import transfer
from gpuscope.explanation.transfer_case import make_case


@pytest.mark.parametrize("on", ["h200", "gb200", "mi300x", "8xrtx-4090", "tpu-v5p", "a100"])
@pytest.mark.parametrize("direction", ["h2d", "d2h"])
@pytest.mark.parametrize("amount", ["3B", "1MiB", "1GB"])
def test_every_sort_of_copy(on: str, direction: str, amount: str) -> None:
    made = transfer(amount, on=on, direction=direction)
    for words in (made.title, *made.summary, *made.assumptions):
        assert words
        assert any("\u4e00" <= c <= "\u9fff" for c in render(words, "zh"))
    times = [f for s in made.sections for b in s.blocks if isinstance(b, Facts) for f in b.rows]
    case = make_case(amount, on, direction)
    assert times[0].value == case.time_s(True)
    assert times[2].value == case.time_s(False)
    for diagram in (b for s in made.sections for b in s.blocks if isinstance(b, Diagram)):
        keys = {node.key for node in diagram.nodes}
        assert all(link.a in keys and link.b in keys for link in diagram.links)
        for step in (0, 1):
            assert sum(link.narrowest for link in diagram.links if link.step == step) <= 1
        for link in diagram.links:
            if link.limit_bytes_per_s is not None:
                assert link.bytes_per_s is not None
                assert link.bytes_per_s < link.limit_bytes_per_s


def test_a_staged_copy_goes_through_the_buffer_and_back() -> None:
    up, down = transfer("1GB"), transfer("1GB", direction="d2h")
    ways = []
    for made in (up, down):
        diagram = next(b for s in made.sections for b in s.blocks if isinstance(b, Diagram))
        ways.append([(link.a, link.b) for link in diagram.links if link.step == 0])
    assert ways[0] == [("pageable", "staging"), ("staging", "bus"), ("bus", "device")]
    assert ways[1] == [("device", "bus"), ("bus", "staging"), ("staging", "pageable")]


def test_the_asked_kind_comes_first() -> None:
    case = make_case("1GB", "h200", "h2d")
    slow = transfer("1GB", pinned=False)
    assert slow.summary[0].startswith("From pageable memory it takes 127")
    assert case.time_s(False) == pytest.approx(127e-3, rel=0.02)
    assert transfer("1GB", pinned=True).summary[0].startswith("From pinned memory it takes 18.0 ms")


def test_from_python_and_from_the_shell() -> None:
    made = gs.explain("transfer", "1GB", on="h200", pinned=True)
    result = CliRunner().invoke(app, ["explain", "transfer", "1GB", "--pinned", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["summary"][0]["en"] == made.summary[0]
    told = CliRunner().invoke(app, ["explain", "transfer", "1TB"])
    assert told.exit_code == 2
    assert "cannot be copied at once" in told.output
