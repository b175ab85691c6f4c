"""Ctrl-C: the best so far, by the quick score where nothing that fits was simulated yet."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from made import asked

import gpuscope as gs
from gpuscope.document.blocks import Explanation
from gpuscope.planning import search as training
from gpuscope.planning.explanation import explained
from gpuscope.planning.largest import explained_largest, largest
from gpuscope.planning.own import simulate as own
from gpuscope.planning.own.explanation import explained_own
from gpuscope.planning.own.types import Changed, OwnPlan, Weighed
from gpuscope.planning.serving import search as serving
from gpuscope.planning.serving.explanation import explained_serving
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.tuning.explanation import explained_tuning
from gpuscope.planning.types import Plan

SOFAR = "It was interrupted: this is the best so far."


def interrupted(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


def _is_told(told: Explanation) -> None:
    assert "By the quick score alone the best is" in told.summary[0]
    assert SOFAR in told.summary
    assert "All that were simulated" not in [section.title for section in told.sections]


@pytest.mark.parametrize("when", ["recorded", "simulated"])
def test_training(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = interrupted if when == "recorded" else lambda *_: {}
    monkeypatch.setattr(training, "composed", stopped)
    monkeypatch.setattr(Simulator, "judge", interrupted)
    found = training.search(asked(model="gpt2", seq=256, devices="1"))
    assert (found.judged, found.complete, found.best.simulated) == ((), False, False)
    assert found.best.step_s == found.best.scored_s > 0
    names = {each.words.partition(": ")[2] for each in found.rejected}
    assert found.best.candidate.words not in names
    assert len(found.rejected) >= found.candidates - 1
    _is_told(explained(found))
    assert "local_batch_size" in found.to("torchtitan")


def test_fine_tuning() -> None:
    given = {"on": "h100", "devices": 1, "global_batch": 1, "seq": 64, "method": "lora"}
    found = gs.plan("llama-3.2-1b", task="finetune", on_candidate=interrupted, **given)
    assert found.best is not None
    assert (found.judged, found.complete, found.best.simulated) == ((), False, False)
    _is_told(explained_tuning(found))


@pytest.mark.parametrize("when", ["scored", "simulated"])
def test_serving(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"on": "h100", "devices": 1, "rate": 2, "answer": "64"}
    if when == "scored":
        real, seen = serving.scored, []

        def second(*args: object) -> object:
            seen.append(args)
            return interrupted() if len(seen) == 2 else real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(serving, "scored", second)
    found = gs.plan("llama-3.1-8b", task="serve", on_candidate=interrupted, **given)
    assert (found.judged, found.complete) == ((), False)
    assert found.best is not None
    assert not found.best.simulated
    _is_told(explained_serving(found))
    assert "vllm serve" in found.to("vllm")


def test_serving_before_anything_was_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "scored", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gs.plan("llama-3.1-8b", task="serve", on="h100", devices=1, rate=2)


def test_the_largest_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "composed", lambda *_: {})
    monkeypatch.setattr(Simulator, "judge", interrupted)
    found = largest(7, on="rtx-4090", devices=8)
    assert sum(isinstance(each.plan, Plan) for each in found) == 1
    (told,) = explained_largest(found, 7).summary
    assert "It was interrupted. By the quick score alone" in told


def _code(folder: Path) -> Path:
    """A small training."""
    path = folder / "train.py"
    path.write_text(
        "import torch\n"
        "def build(batch=256):\n"
        "    model = torch.nn.Linear(256, 256).cuda()\n"
        "    optimizer = torch.optim.AdamW(model.parameters())\n"
        "    x = torch.randn(batch, 256, device='cuda')\n"
        "    def step():\n"
        "        model(x).sum().backward()\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()\n"
        "    return step\n"
    )
    return path


@pytest.mark.parametrize("stop", [1, 10])
def test_own_code(stop: int, tmp_path: Path) -> None:
    """While changes are captured alone, and before the first set of them is simulated."""
    path = _code(tmp_path)
    calls: list[object] = []

    def tell(number: int, total: int, candidate: object) -> None:
        calls.append(candidate)
        if len(calls) == stop:
            raise KeyboardInterrupt

    found = gs.plan(f"{path}:build", on="h200", on_candidate=tell)
    assert isinstance(found, OwnPlan)
    assert (found.judged, found.complete, found.best.simulated) == ((), False, False)
    assert found.before is None
    _is_told(explained_own(found))


def test_own_code_in_the_last_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code as it stands is simulated last, beside the answer, which stands without it."""
    judge = own.Simulator.judge

    def stopped(self: own.Simulator, each: Changed, scored_s: float) -> Weighed:
        return interrupted() if scored_s == 0.0 else judge(self, each, scored_s)

    monkeypatch.setattr(own.Simulator, "judge", stopped)
    found = gs.plan(f"{_code(tmp_path)}:build", on="h200", simulate=1)
    assert isinstance(found, OwnPlan)
    assert (len(found.judged), found.complete, found.before) == (1, False, None)
    assert found.best.simulated
    assert SOFAR in explained_own(found).summary
