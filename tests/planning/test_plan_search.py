"""A whole plan on the simulator, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import replace

import pytest
from made import asked, judged

import gpuscope as gs
from gpuscope.document.text import Text
from gpuscope.errors import (
    DoesNotFitError,
    InvalidValueError,
    MissingPackageError,
    UnknownNameError,
)
from gpuscope.planning import search as searching
from gpuscope.planning.explanation import explained
from gpuscope.planning.question import counts_of, tokens_of
from gpuscope.planning.search import search
from gpuscope.planning.simulate import Simulator, probability_to_fit
from gpuscope.planning.space import candidates
from gpuscope.planning.types import Candidate, Judged, Plan
from gpuscope.program.models.settings import WorkloadOptions


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Of GPT-2 with three of its layers. The host sets its pace, so that stages, each of which
    issues a part of the operators, are quicker; half of what is simulated is for the front."""
    whole = asked(model="gpt2", devices="1..2", global_batch=2, seq=128, simulate=4)
    size = whole.size.deep(3)
    return search(replace(whole, size=size, model=size))  # type: ignore[arg-type]


def test_every_candidate_has_an_end(plan: Plan) -> None:
    kinds = plan.counts
    assert plan.candidates == len(plan.judged) + sum(kinds.values()) - kinds["layout"]
    assert plan.best in plan.ties
    assert set(plan.ties) <= set(plan.judged)
    assert {each.candidate.plan.world_size for each in plan.judged} == {1, 2}
    assert all(str(each.reason) for each in plan.rejected)


@pytest.mark.slow
def test_a_long_step_follows_from_two_short_ones() -> None:
    question = asked(model="gpt2", seq=256, devices="1", global_batch=6)
    one = next(
        c for c in candidates(question)[0] if c.plan.microbatch == 1 and c.plan.recompute == "none"
    )
    found = Simulator(question).judge(one, 1.0)
    options = WorkloadOptions(task="train", seq=256, parallel=one.asked)
    whole = gs.recost("gpt2", "h200", options=options)
    assert found.step_s == pytest.approx(whole.step_time_s, rel=0.03)  # the host sets the pace
    assert found.peak_bytes == pytest.approx(whole.peak_memory_bytes, rel=0.01)  # type: ignore[union-attr]


def test_an_interrupt_leaves_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(number: int, total: int, candidate: object) -> None:
        if number == 2:
            raise KeyboardInterrupt

    def judge(self: Simulator, candidate: Candidate, scored_s: float) -> Judged:
        return replace(judged(1.0, "1xh200"), candidate=candidate)

    monkeypatch.setattr(Simulator, "judge", judge)
    found = search(asked(model="gpt2", seq=256, devices="1"), stop)
    assert not found.complete
    assert len(found.judged) == 1


def test_nothing_fits_says_by_how_much() -> None:
    with pytest.raises(DoesNotFitError, match="No plan was found that fits") as told:
        gs.plan("llama-3.1-70b", on="h200", devices=1)
    assert "recompute full is the least short" in str(told.value.why)
    assert "Type: --devices 8" in str(told.value.next_step)


def test_a_batch_that_cannot_be_split_names_the_nearest() -> None:
    with pytest.raises(DoesNotFitError) as told:
        gs.plan("llama-3.1-70b", on="h200", devices=3)
    assert "cannot be split over 3 replicas" in str(told.value.why)
    assert "63, 66" in str(told.value.next_step)


def test_where_the_first_do_not_fit_the_roomiest_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(self: Simulator, candidate: Candidate, scored_s: float) -> Judged:
        roomy = candidate.plan.recompute == "full" and candidate.plan.microbatch == 1
        return replace(judged(1.0), candidate=candidate, fits=float(roomy))

    monkeypatch.setattr(Simulator, "judge", judge)
    monkeypatch.setattr(searching, "composed", lambda *_: {})
    found = search(asked(simulate=1))
    assert found.best.candidate.plan.recompute == "full"
    assert len(found.judged) == 1


def test_probability_to_fit() -> None:
    assert probability_to_fit(100, 100) == pytest.approx(0.5)
    assert probability_to_fit(100, 104) == pytest.approx(0.977, abs=1e-3)  # two deviations
    assert probability_to_fit(100, 90) < 1e-6


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"devices": "8..1"}, "no number of devices"),
        ({"devices": "0"}, "no number of devices"),
        ({"on": "8xh200"}, "names a number of devices"),
        ({"global_batch": 0}, "at least 1"),
        ({"tokens": -1.0}, "cannot be"),
    ],
)
def test_wrong_numbers(given: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidValueError, match=said):
        asked(**given)


def test_wrong_names() -> None:
    for given in ({"goal": "fame"}, {"model": "lama"}, {"on": "h20000"}):
        with pytest.raises(UnknownNameError):
            asked(**given)


def test_written_numbers() -> None:
    assert counts_of("3..20") == (3, 4, 8, 16, 20)
    assert counts_of("..8") == (1, 2, 4, 8)
    assert tokens_of("2.5T") == 2.5e12
    with pytest.raises(InvalidValueError):
        tokens_of("many")


def test_a_question_needs_no_torch() -> None:
    code = "import sys, gpuscope.planning.search; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_writers(plan: Plan) -> None:
    best = plan.best.candidate
    # Whichever is chosen: torchtitan has no ZeRO-1 and no zero bubble of one stage a rank.
    split = replace(best.plan, fsdp="full", schedule="1f1b", virtual=1)
    shown = replace(plan, best=replace(plan.best, candidate=replace(best, plan=split)))
    read = tomllib.loads(shown.to("torchtitan"))
    degrees = read["parallelism"]
    product = 1
    for name in degrees:
        if name.endswith("_degree") and name != "expert_parallel_degree":
            product *= degrees[name]
    assert product == split.world_size
    assert read["training"]["seq_len"] == 128
    assert f"--nproc-per-node {split.world_size}" in plan.to("torchrun")
    with pytest.raises(UnknownNameError):
        plan.to("abacus")


def test_the_explanation_answers_why(plan: Plan) -> None:
    told = explained(plan, "recompute=full", "torchrun")
    assert told.sections[3].blocks[0].rows  # type: ignore[union-attr]
    with pytest.raises(InvalidValueError):
        explained(plan, "colour=red")


def test_a_missing_package_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PyTorch no plan "fitted"."""

    def judge(*_: object) -> None:
        raise MissingPackageError("torch", Text("A parallel job"), "torch")

    monkeypatch.setattr(Simulator, "judge", judge)
    with pytest.raises(MissingPackageError, match="torch"):
        search(asked(devices="2"))
