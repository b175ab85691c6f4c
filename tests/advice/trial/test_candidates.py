"""What is chosen to be tried, with and without a prediction."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.advice.forecast.known_changes import KnownChanges
from gpuscope.advice.registry import find, plan
from gpuscope.advice.results import Forecast, Trial
from gpuscope.advice.trial.candidates import USUAL_ORDER, Asked, Candidates, find_candidates
from gpuscope.document.text import Text


class _Gpu:
    is_gpu = True
    name = "a GPU that no catalogue has"

    def catalogue_device(self) -> None:
        return None


SCRIPT = """
import torch

model = torch.nn.Linear(2048, 2048).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(16384, 2048, device="cuda")).sum().backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A script that no capture can follow to a step."""
    path = tmp_path_factory.mktemp("unknown") / "train.py"
    path.write_text("print('nothing to be seen')\n")
    return str(path)


@pytest.fixture(scope="module")
def unpredicted(unknown: str) -> Candidates:
    """What is tried of it."""
    return find_candidates(unknown, Asked(without=("tf32",)), _Gpu())  # type: ignore[arg-type]


def test_the_usual_changes_exist_and_go_together() -> None:
    assert len(plan(USUAL_ORDER)) == len(USUAL_ORDER)


def test_a_script_is_predicted_like_a_build(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    asked = Asked("h200", only=("tf32", "channels-last", "fused-optimizer"))
    found = find_candidates(str(tmp_path / "train.py"), asked, _Gpu())  # type: ignore[arg-type]
    assert found.wanted.path == ("tf32", "fused-optimizer")
    tf32 = found.forecast(("tf32",))
    assert tf32 is not None
    assert tf32.speedup is not None
    assert tf32.speedup > 2  # three products of 16384 x 2048 x 2048 set the pace
    assert found.seen is not None
    assert [optimizer.class_name for optimizer in found.seen.optimizers] == ["Adam"]
    assert not found.notes


def test_without_time_to_predict_what_fits_is_tried_by_experience(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    asked = Asked("h200", only=("tf32", "channels-last", "fused-optimizer"))
    path = str(tmp_path / "train.py")
    found = find_candidates(path, asked, _Gpu(), predict_s=0.0)  # type: ignore[arg-type]
    assert found.wanted.path == ("tf32", "fused-optimizer")  # it has no convolution
    assert {f.speedup for f in found.wanted.singles} == {None}
    assert found.forecast(("tf32",)) is None
    assert "by experience" in found.notes[0].template


def test_what_cannot_be_predicted_is_tried_by_experience(unpredicted: Candidates) -> None:
    found = unpredicted
    assert found.wanted.path == tuple(n for n in USUAL_ORDER if n != "tf32")
    assert found.advice is None
    assert found.forecast(("sdpa",)) is None
    assert "by experience" in found.notes[0]


def test_only_what_is_asked_for_is_tried(unknown: str) -> None:
    asked = Asked(only=("fp16-autocast", "bf16-autocast", "fp8"))
    found = find_candidates(unknown, asked, _Gpu())  # type: ignore[arg-type]
    assert found.wanted.path == ("fp16-autocast", "fp8"), "the second excludes the first"
    assert len(found.wanted.singles) == 3, "a change that is named is asked for"


def test_on_a_processor_nothing_is_tried_that_needs_a_gpu(unknown: str) -> None:
    class Processor(_Gpu):
        is_gpu = False

    found = find_candidates(unknown, Asked(), Processor())  # type: ignore[arg-type]
    assert not any(find(f.names[0]).needs_gpu for f in found.wanted.singles)


def test_rules_of_known_changes() -> None:
    rules = KnownChanges()
    assert rules.conflict("bf16-autocast", "fp16-autocast")
    assert rules.conflict("fp16-autocast", "bf16-autocast")
    assert not rules.conflict("tf32", "tf32")
    assert rules.compiles("compile")
    assert not rules.compiles("tf32")


def test_predictions_for_another_device_are_taken_out(unpredicted: Candidates) -> None:
    forecast = Forecast(("tf32",), "helps", Text("a"), 2.0)
    trial = Trial(("tf32",), ("tf32",), (), "skipped", forecast, 2.0, why=Text("a"))
    shown = unpredicted.shown(trial)
    assert shown.forecast is None
    assert shown.expected is None
    assert shown.why == Text("")
