"""Matrices of experts cut over ranks: what that holds, moves and forbids."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from made import asked, scored_alone

from gpuscope.document.text import render
from gpuscope.errors import UnsupportedError
from gpuscope.planning.composed import composed_s
from gpuscope.planning.held import held_bytes
from gpuscope.planning.score import score
from gpuscope.planning.search import search
from gpuscope.planning.space import candidates
from gpuscope.planning.tables import Tables
from gpuscope.planning.types import Candidate, Question
from gpuscope.planning.untried import untried_training
from gpuscope.planning.writers import WRITERS

QUICK = pytest.fixture(scope="module", autouse=True)(scored_alone)


@pytest.fixture(scope="module")
def question() -> Question:
    return asked(model="qwen3-30b-a3b", devices="8", seq=1024, global_batch=16, etp="1,2")


@pytest.fixture(scope="module")
def found(question: Question) -> list[Candidate]:
    return candidates(question)[0]


def _named(found: list[Candidate], words: str) -> Candidate:
    return next(each for each in found if each.words == words)


def test_it_is_tried_where_it_is_asked_for_and_divides(
    question: Question, found: list[Candidate]
) -> None:
    assert {each.asked.etp for each in found} == {None, 2}
    cut = [each.plan for each in found if each.more]
    assert cut
    assert all(p.dp * p.cp * p.tp % (p.ep * 2) == 0 for p in cut)
    out = {
        str(e.reason) for e in candidates(question)[1] if "ep 8" in e.words and "etp 2" in e.words
    }
    assert "ep 8 times etp 2 does not divide the 8 ranks of a stage." in out
    assert not [e for e in candidates(asked(model="qwen3-30b-a3b", seq=1024))[0] if e.more]


def test_a_model_without_experts_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no experts"):
        asked(model="llama-3.2-1b", etp="2")


def test_without_shared_tokens_it_cannot_be() -> None:
    both = asked(model="qwen3-30b-a3b", devices="8", seq=1024, global_batch=16, etp="2", sp="off")
    reasons = {
        str(e.reason) for e in candidates(both)[1] if "tp 2" in e.words and "ep" not in e.words
    }
    assert any("needs sequence parallelism" in reason for reason in reasons)


def test_a_rank_holds_the_part_of_each_expert(question: Question, found: list[Candidate]) -> None:
    """Four bytes of a parameter and eight of its moments. Under FSDP all eight ranks share what is
    spread, four what is not; where moments alone are shared, four ranks share half of each expert.
    """
    experts = question.size.expert_parameters * question.size.layers
    full, zero1 = ("dp 4, tp 2, fsdp full, microbatch 1", "dp 4, tp 2, fsdp zero1, microbatch 1")
    spread = full.replace("tp 2", "tp 2, ep 4")
    words = (full, f"{full}, etp 2", spread, zero1, f"{zero1}, etp 2")
    least = score(question, [_named(found, each) for each in words]).least_bytes
    assert least[1] == pytest.approx(least[2])
    assert least[0] - least[1] == pytest.approx(12 * experts * (1 / 4 - 1 / 8))
    assert least[3] - least[4] == pytest.approx(experts * (4 * (1 - 1 / 2) + 8 * (1 / 4 - 1 / 8)))


@pytest.mark.slow
def test_composed_it_moves_more_and_holds_less(question: Question, found: list[Candidate]) -> None:
    words = "dp 4, tp 2, ep 4, fsdp zero1, microbatch 1"
    whole, cut = _named(found, words), _named(found, f"{words}, etp 2")
    tables = Tables(question)
    assert composed_s(question, cut, tables.of(cut)) > composed_s(question, whole, tables.of(whole))
    held = [held_bytes(question, each, tables.of(each)) for each in (whole, cut)]
    size = question.size
    gone = size.expert_parameters * size.layers / 4 / 2
    assert held[0] - held[1] == pytest.approx(6 * gone, rel=0.2)


@pytest.mark.slow
def test_why_gives_a_composed_figure(question: Question) -> None:
    plan = search(replace(question, tries=()))
    ((words, told),) = untried_training(plan, {"etp": "2"})
    assert "etp 2" in words
    assert re.search(r"\d", render(told, "en"))


def test_torchtitan_starts_what_is_cut_as_all_else(
    question: Question, found: list[Candidate]
) -> None:
    one = _named(found, "dp 4, tp 2, ep 4, fsdp full, microbatch 1, etp 2")
    plan = search(replace(question, tries=()))
    text = WRITERS.get("torchtitan")(replace(plan, best=replace(plan.best, candidate=one)))
    assert "expert_tensor_parallel_degree = 2" in text
    for words in (
        "dp 8, ep 4, fsdp full, microbatch 1, etp 2",
        "dp 4, tp 2, fsdp full, microbatch 1, etp 2",
    ):
        with pytest.raises(UnsupportedError, match="torchtitan cannot start etp 2"):
            WRITERS.get("torchtitan").refuse(question, _named(found, words))
