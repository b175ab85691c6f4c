"""Claims on the terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console, RenderableType

from gpuscope.learn.claims.registry import all_verdicts, judged, search
from gpuscope.views.claims import claim_card, claim_overview, claim_table, claimed_text


def _text(part: RenderableType, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(part)
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    return shown


@pytest.mark.parametrize("width", [60, 100])
def test_the_table_has_every_claim(width: int) -> None:
    shown = _text(claim_table(search()), width)
    assert len(re.findall(r"^[A-E]-\d{3} ", shown, re.M)) == len(all_verdicts())
    wrong = len(search(verdict="wrong"))
    assert re.search(rf"wrong +[█▉▊▋▌▍▎▏]+ +{wrong}\s", shown)
    assert shown.index("✗ wrong") < shown.index("✓ right")


def test_a_claim_and_its_truth_stand_beside_each_other() -> None:
    shown = _text(claim_table((judged("E-063"),)))
    assert re.search(r"E-063 +≈ imprecise +All HBM3 of an H100.*3\.35 TB/s", shown)
    assert "One in depth: gpuscope claims E-063" in shown


def test_a_claim_without_a_verdict_says_why() -> None:
    shown = _text(claim_table((judged("A-002"),)))
    assert "photograph" in shown
    assert "not available" not in shown
    assert "not available" not in _text(claim_card(judged("A-002")))


@pytest.mark.parametrize("width", [60, 100])
def test_the_overview_adds_up(width: int) -> None:
    shown = _text(claim_overview(all_verdicts()), width)
    (links,) = re.findall(r"^.*interconnect +(.*)$", shown, re.M)
    of_links = [each for each in all_verdicts() if each.claim.topic.key == "interconnect"]
    assert sum(map(int, links.split())) == len(of_links)
    assert f"{len(all_verdicts())} claims" in shown
    assert "gpuscope claims --verdict wrong" in shown.replace("\n", " ")


def test_one_in_depth() -> None:
    shown = _text(claim_card(judged("A-067")))
    assert "SXM to SXM: h100 / a100 = 1.75×" in shown
    assert all(line in shown for line in ("✗ wrong", "claimed       3×", "method        formula"))
    assert "Sources" in shown
    assert "claimed " not in _text(claim_card(judged("C-027")))


def test_in_chinese() -> None:
    shown = _text(claim_card(judged("A-067"), "zh"))
    for word in ("错误", "所称数值", "实际情况", "依据", "公式", "1.75 倍"):
        assert word in shown
    assert "共" not in shown
    assert "没有匹配的说法。" in _text(claim_table((), "zh"))


def test_a_range_is_shown_with_its_unit() -> None:
    assert claimed_text(judged("C-021").claim, "en") == "600 GB/s – 900 GB/s"
    assert claimed_text(judged("C-027").claim, "en") == ""
