"""What is chosen to be tried, with and without a prediction."""

from __future__ import annotations

from gpuscope.advice.candidates import USUAL_ORDER, Asked, KnownChanges, find_candidates
from gpuscope.advice.registry import find, plan
from gpuscope.advice.results import Forecast, Trial
from gpuscope.explain.types import Words


class _Gpu:
    is_gpu = True
    name = "a GPU that no catalogue has"

    def catalogue_device(self) -> None:
        return None


def test_the_usual_changes_exist_and_go_together() -> None:
    assert len(plan(USUAL_ORDER)) == len(USUAL_ORDER)


def test_a_script_is_tried_by_experience() -> None:
    found = find_candidates(None, Asked(without=("tf32",)), _Gpu())  # type: ignore[arg-type]
    assert found.wanted.path == tuple(n for n in USUAL_ORDER if n != "tf32")
    assert found.advice is None
    assert found.forecast(("sdpa",)) is None
    assert "by experience" in found.notes[0].en


def test_only_what_is_asked_for_is_tried() -> None:
    asked = Asked(only=("fp16-autocast", "bf16-autocast", "fp8"))
    found = find_candidates(None, asked, _Gpu())  # type: ignore[arg-type]
    assert found.wanted.path == ("fp16-autocast", "fp8"), "the second excludes the first"
    assert len(found.wanted.singles) == 3, "a change that is named is asked for"


def test_on_a_processor_nothing_is_tried_that_needs_a_gpu() -> None:
    class Processor(_Gpu):
        is_gpu = False

    found = find_candidates(None, Asked(), Processor())  # type: ignore[arg-type]
    assert not any(find(f.names[0]).needs_gpu for f in found.wanted.singles)


def test_rules_of_known_changes() -> None:
    rules = KnownChanges()
    assert rules.conflict("bf16-autocast", "fp16-autocast")
    assert rules.conflict("fp16-autocast", "bf16-autocast")
    assert not rules.conflict("tf32", "tf32")
    assert rules.compiles("compile")
    assert not rules.compiles("tf32")


def test_predictions_for_another_device_are_taken_out() -> None:
    found = find_candidates(None, Asked(), _Gpu())  # type: ignore[arg-type]
    forecast = Forecast(("tf32",), "helps", Words("a", "b"), 2.0)
    trial = Trial(("tf32",), ("tf32",), (), "skipped", forecast, 2.0, why=Words("a", "b"))
    shown = found.shown(trial)
    assert shown.forecast is None
    assert shown.expected is None
    assert shown.why == Words("", "")
