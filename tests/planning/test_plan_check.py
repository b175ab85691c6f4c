"""An existing plan: read from a file, judged against what is one decision away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made import asked, judged

from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, UnknownNameError
from gpuscope.planning.check import Checked, changed, check
from gpuscope.planning.existing import existing
from gpuscope.planning.explanation_check import explained_check
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.types import Candidate, Judged, Plan, Question


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(text, "utf-8")
    return path


def test_our_own_names(tmp_path: Path) -> None:
    text = 'tp = 2\nfsdp = "zero1"\nmicrobatch = 4\nglobal_batch = 32\nseq = 1024\n'
    question, found = existing(asked(), _file(tmp_path, text))
    assert found.words == "dp 4, tp 2, fsdp zero1, microbatch 4"
    assert (question.global_batch, question.seq) == (32, 1024)


@pytest.mark.parametrize(
    "layout",
    [
        {"dp": 8, "microbatch": 2, "microbatches": 4},
        {"dp": 4, "tp": 2, "fsdp": "none", "microbatches": 16},
        {"dp": 2, "pp": 4, "fsdp": "none", "microbatches": 32, "recompute": "full"},
    ],
)
def test_what_is_written_for_torchtitan_is_read_as_the_same_plan(
    tmp_path: Path, layout: dict[str, object]
) -> None:
    question = asked()
    best = judged(1.0, **layout)
    plan = Plan(
        question=question,
        best=best,
        ties=(best,),
        front=(best,),
        judged=(best,),
        rejected=(),
        candidates=1,
        scored_per_s=1.0,
    )
    _, found = existing(question, _file(tmp_path, plan.to("torchtitan")))
    assert found.plan == best.candidate.plan


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("tq = 2", UnknownNameError, "tp"),
        ('tp = "two"', InvalidValueError, "cannot be"),
        ("fsdp = 3", InvalidValueError, "cannot be"),
        ("tp = 3", InvalidValueError, "cannot be split"),
        ("tp", InputFileError, "no TOML"),
        ("", InputFileError, "has no plan"),
        ("[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'x'",
         UnknownNameError, "schedule"),
    ],
)  # fmt: skip
def test_wrong_files(tmp_path: Path, text: str, kind: type[GpuscopeError], said: str) -> None:
    with pytest.raises(kind, match=said) as told:
        existing(asked(), _file(tmp_path, text))
    assert told.value.next_step


def test_one_number_of_one_device(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="one number of one device"):
        existing(asked(devices="1..8"), _file(tmp_path, "tp = 2"))
    with pytest.raises(InputFileError, match="cannot be read"):
        existing(asked(), tmp_path / "none.toml")


def test_one_decision_away() -> None:
    mine = judged(1.0, dp=8).candidate
    assert changed(mine, judged(1.0, dp=4, tp=2, microbatches=2).candidate) == "tp 1 → 2"
    assert changed(mine, judged(1.0, dp=4, pp=2, fsdp="zero1").candidate) == "pp 1 → 2"
    assert changed(mine, judged(1.0, dp=4, tp=2, recompute="full").candidate) is None
    assert changed(mine, judged(1.0, "4xh200", dp=4).candidate) is None


def _checked(plan: Judged, *others: Judged) -> Checked:
    named = tuple((f"tp {n}", each) for n, each in enumerate(others))
    return Checked(question=asked(), plan=plan, neighbours=named, left=0)


def test_better_is_what_fits_and_is_surely_better() -> None:
    mine = judged(1.0)
    near, far = judged(0.99), judged(0.5)
    assert _checked(mine, near).better is None  # a tie
    assert _checked(mine, near, far).better == ("tp 1", far)
    assert _checked(mine, replace(far, fits=0.5)).better is None
    full = replace(mine, fits=0.1)
    assert _checked(full, judged(3.0)).better is not None  # slower, but it fits
    told = [str(line) for line in explained_check(_checked(full)).summary]
    assert told[-1] == "It does not fit, and no simulated neighbour does."


def test_the_plan_and_its_neighbours_are_simulated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def judge(self: Simulator, candidate: Candidate, scored_s: float) -> Judged:
        return replace(judged(2.0 / candidate.plan.microbatch), candidate=candidate)

    monkeypatch.setattr(Simulator, "judge", judge)
    small: Question = asked(model="gpt2", seq=128, devices="1", global_batch=8, simulate=3)
    found = check(*existing(small, _file(tmp_path, "microbatch = 2")))
    changes = [change for change, _ in found.neighbours]
    assert changes[0] == "microbatch 2 → 4"
    assert len(changes) == 3
    assert found.better is not None
    assert found.plan.candidate.words == "microbatch 2"
