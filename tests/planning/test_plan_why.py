"""`--why`: every candidate that is out is found, with the number that ruled it out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from made import asked, judged, scored_alone, tuned_alone

import gpuscope as gs
from gpuscope.document.blocks import Section, Table
from gpuscope.document.text import render
from gpuscope.errors import InvalidValueError
from gpuscope.planning import untried
from gpuscope.planning.explanation import explained
from gpuscope.planning.search import search
from gpuscope.planning.serving.explanation import explained_serving
from gpuscope.planning.serving.types import ServingPlan
from gpuscope.planning.tuning.explanation import explained_tuning
from gpuscope.planning.types import Plan, Rejected
from gpuscope.planning.untried import speech_of_training
from gpuscope.planning.why import what_became

QUICK = pytest.fixture(scope="module", autouse=True)(scored_alone)
TUNED = pytest.fixture(scope="module", autouse=True)(tuned_alone)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(asked(devices="8"))


def _rows(told: Any, title: str = "Why not") -> list[tuple[str, str]]:
    sections = [each for each in told.sections if isinstance(each, Section)]
    (section,) = [s for s in sections if render(s.title, "en").startswith(title)]
    (table,) = section.blocks
    assert isinstance(table, Table)
    return [(render(str(a), "en"), render(b, "en")) for a, b in table.rows]  # type: ignore[arg-type]


def _why(plan: Plan, why: str) -> list[tuple[str, str]]:
    return _rows(explained(plan, why))


def test_everything_that_is_out_is_found_and_has_a_number(plan: Plan) -> None:
    speech = speech_of_training()
    for each in plan.rejected:
        words = each.words.rpartition(": ")[2]
        section = what_became(words.replace(", ", ","), speech, (), [each])
        assert section.blocks, words
        assert re.search(r"\d", render(each.reason, "en")), each


def test_usual_values_and_lone_words_are_understood() -> None:
    speech = speech_of_training()
    out = Rejected("8x h200: dp 4, pp 2, interleaved, microbatch 1", "layout", "no")
    for why in ("tp=1,pp=2", "schedule=interleaved", "precision=bf16", "interleaved", "pp 2"):
        assert what_became(why, speech, (), [out]).blocks
    for why in ("tp=2", "schedule=1f1b", "precision=fp8", "", "beauty=3"):
        with pytest.raises(InvalidValueError):
            what_became(why, speech, (), [out])


@pytest.mark.parametrize(
    "why", ["fp8", "precision=fp8", "states=8bit", "offload=cpu", "microbatch=64", "cp=2", "tp=3"]
)
def test_what_was_not_tried_has_a_number(plan: Plan, why: str) -> None:
    ((words, told),) = _why(plan, why)
    assert re.search(r"\d", told)
    assert words
    chinese = explained(plan, why)
    assert chinese.sections


def test_bytes_of_states_are_those_of_the_score(plan: Plan) -> None:
    """Moments in 8 bits take less memory and no more time than the choice."""
    best, each = plan.best, replace(plan.best.candidate, more=(("states", "8bit"),))
    step_s, peak = untried.weighed(plan, each)
    assert peak < best.peak_bytes
    assert step_s == pytest.approx(best.step_s, rel=0.2)


def test_an_uneven_cut_is_weighed_by_its_slowest_stage(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The composed steps of both decide, since the quick score takes stages to be equal."""
    monkeypatch.setattr(untried, "Tables", lambda question: _Blocks())
    monkeypatch.setattr(
        untried, "composed_s", lambda question, each, block: 2.0 if each.more else 1.0
    )
    piped = judged(1.0, dp=4, pp=2, fsdp="zero1", microbatches=16)
    cut = replace(plan, best=piped)
    ((words, told),) = _why(cut, "stages=20+12")
    assert "stages 20+12" in words
    assert "2.00 s a step" in told or "2 s a step" in told


class _Blocks:
    def of(self, each: object) -> None:
        return None


def test_fine_tuning_answers_for_what_was_not_tried() -> None:
    plan = gs.plan(
        "llama-3.2-1b", task="finetune", on="h100", devices=1,
        global_batch=2, seq=64, simulate=1,
    )  # fmt: skip
    for why in ("rank=64", "qlora", "microbatch=3", "targets=qv"):
        ((_, told),) = _rows(explained_tuning(plan, why))
        assert re.search(r"\d", told)
    with pytest.raises(InvalidValueError, match="names no candidate"):
        explained_tuning(plan, "beauty=3")


@pytest.fixture(scope="module")
def served() -> ServingPlan:
    return gs.plan(
        "llama-3.1-8b", task="serve", on="h100", devices="2", rate=2, answer="64", simulate=1
    )


@pytest.mark.parametrize(
    "why",
    [
        "kv=fp8",
        "kv-dtype=fp8",
        "tp=77",
        "fp8",
        "dtype=fp8",
        "tp=3",
        "max-tokens=4096",
        "ep=2",
        "pp=77",
    ],
)
def test_serving_answers_for_what_was_not_tried(served: ServingPlan, why: str) -> None:
    for _, told in _rows(explained_serving(served, why)):
        assert re.search(r"\d", told)


def test_serving_answers_for_stages_and_for_prompts_apart(served: ServingPlan) -> None:
    """Both are candidates; half of the devices for prompts can be asked for by a word."""
    rows = _rows(explained_serving(served, "pp=2"))
    assert all("pp 2" in words and "TPOT" in told for words, told in rows)
    assert all("prefill 1" in words for words, _ in _rows(explained_serving(served, "prefill=1")))
    ((words, told),) = _rows(explained_serving(served, "disaggregated"))
    assert "prefill 1" in words
    assert "TPOT" in told
    with pytest.raises(InvalidValueError, match="no value of pp"):
        explained_serving(served, "pp=0")


def test_the_best_of_those_that_were_not_simulated_is_composed(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its step and memory stand first, beside the choice's; what cannot be at all comes last."""
    monkeypatch.setattr(untried, "Tables", lambda question: _Blocks())
    monkeypatch.setattr(untried, "composed_s", lambda question, each, block: 2.0)
    monkeypatch.setattr(untried, "held_bytes", lambda question, each, block: 3 * 2**30)
    rows = _why(plan, "tp=4,pp=2")
    words, told = rows[0]
    assert "tp 4, pp 2" in words
    assert "2.00 s a step" in told or "2 s a step" in told
    assert "3.00 GiB" in told or "3 GiB" in told
    split = [n for n, (_, why) in enumerate(rows[1:]) if "cannot be" in why]
    assert split == sorted(split)
    assert not split or split[-1] == len(rows) - 2
