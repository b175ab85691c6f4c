"""Fine-tuning plans: what is tried, estimated, refused, and what would make it fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuscope.document.blocks import Table
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.planning.tuning.explanation import explained_tuning
from gpuscope.planning.tuning.score import adapter_elements, estimate
from gpuscope.planning.tuning.search import question_of_tuning, search_tuning
from gpuscope.planning.tuning.simulate import Simulator
from gpuscope.planning.tuning.space import candidates
from gpuscope.planning.tuning.types import Tuned, TuningQuestion, Weighed
from gpuscope.program.models.tuning import projections_of


def asked(**given: Any) -> TuningQuestion:
    usual: dict[str, Any] = {"on": "h100", "devices": 1, "method": "lora,qlora,full"}
    return question_of_tuning(given.pop("model", "llama-3.1-8b"), **{**usual, **given})


@pytest.fixture
def by_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are judged by the quick score: nothing is captured."""

    def judge(self: Simulator, each: Tuned, seq: int | None = None) -> Weighed:
        quick = estimate(self.question.size, seq or self.question.seq, each)
        usable = each.cluster.device.memory_usable_bytes
        price = each.cluster.price_usd_per_hour
        return Weighed(
            candidate=each,
            scored_s=quick.step_s,
            scored_bytes=quick.peak_bytes,
            step_s=quick.step_s,
            low_s=quick.step_s * 0.95,
            high_s=quick.step_s * 1.05,
            peak_bytes=int(quick.peak_bytes),
            held=(("parameter", int(quick.parameters)),),
            usable_bytes=usable,
            fits=float(quick.peak_bytes < usable * 0.96),
            energy_j=quick.step_s,
            usd=None if price is None else price * quick.step_s / 3600,
        )

    def peak_bytes(self: Simulator, each: Tuned, seq: int) -> int:
        return int(estimate(self.question.size, seq, each).peak_bytes)

    monkeypatch.setattr(Simulator, "judge", judge)
    monkeypatch.setattr(Simulator, "peak_bytes", peak_bytes)


def test_adapters_have_the_elements_that_peft_prints() -> None:
    """peft prints 41,943,040 trainable parameters for r 16 on all linear layers of Llama 3.1 8B."""
    question = asked()
    assert adapter_elements(question.size, 16, question.targets) == 41_943_040
    assert adapter_elements(question.size, 16, ("q", "v")) == 6_815_744


def test_every_candidate_divides_the_batch() -> None:
    found, out = candidates(asked(devices="1,3", global_batch=8))
    assert all(each.microbatch * each.devices * each.tuning.microbatches == 8 for each in found)
    assert any("not divisible by 3 devices" in str(each.reason) for each in out)
    assert {each.tuning.method for each in found} == {"lora", "qlora", "full"}


@pytest.mark.usefixtures("by_estimate")
def test_each_method_is_simulated_and_one_is_recommended() -> None:
    plan = search_tuning(asked(on="h100,l40s", simulate=6))
    assert plan.best is not None
    assert {each.candidate.tuning.method for each in plan.judged} == {"lora", "qlora", "full"}
    everything = plan.candidates == len(plan.judged) + sum(plan.counts.values()) - plan.counts.get(
        "layout", 0
    )
    assert everything
    assert "It fits" in str(explained_tuning(plan).summary[0])


@pytest.mark.usefixtures("by_estimate")
def test_what_does_not_fit_is_told_what_would() -> None:
    plan = search_tuning(asked(model="llama-3.1-70b", on="rtx-4090", method="qlora"))
    assert plan.best is None
    least = plan.short[0].candidate
    assert (least.microbatch, least.recompute) == (1, True)
    fitting = [each for each in plan.would_fit if each.fits >= 0.95]
    assert any(each.candidate.devices > 1 for each in fitting)
    assert any(each.candidate.cluster.device.id != least.cluster.device.id for each in fitting)
    lines = explained_tuning(plan).summary
    assert "It does not fit" in str(lines[0])
    assert "This would" in str(lines[1])


@pytest.mark.usefixtures("by_estimate")
def test_more_memory_never_makes_the_best_slower() -> None:
    question = asked(method="full,lora")
    least = search_tuning(question).best
    (cluster,) = question.clusters
    wider = cluster.device.replace(memory_usable_bytes=2 * cluster.device.memory_usable_bytes)
    more = replace(question, clusters=(cluster.with_device(wider),))
    best = search_tuning(more).best
    assert least is not None
    assert best is not None
    assert best.step_s <= least.step_s * 1.001


@pytest.mark.usefixtures("by_estimate")
def test_a_rejected_candidate_answers_with_its_number() -> None:
    plan = search_tuning(asked(on="rtx-4090", method="full,lora"))
    (table,) = explained_tuning(plan, why="full,microbatch=1").sections[-1].blocks
    assert isinstance(table, Table)
    assert table.rows
    assert all("GiB" in str(reason) or "GB" in str(reason) for _, reason in table.rows)
    with pytest.raises(InvalidValueError, match="names no candidate"):
        explained_tuning(plan, why="tp=7")


def test_wrong_words_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="method"):
        asked(method="dora")
    with pytest.raises(UnknownNameError, match="target"):
        asked(targets="q,z")
    with pytest.raises(InvalidValueError):
        asked(rank=0)
    with pytest.raises(InvalidValueError, match="0 tokens"):
        asked(tokens=0.0)
    assert projections_of("q_proj,v_proj") == ("q", "v")
