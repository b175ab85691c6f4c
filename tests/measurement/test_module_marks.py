from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.nn.modules import module as torch_module

from gpuscope.measurement.module_marks import PREFIX, module_marks
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import Timeline


class Inner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x).relu()


def _trace(tmp_path: Path, run) -> tuple[list[dict], Timeline]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as recorded, module_marks():
        run()
    path = tmp_path / "t.json"
    recorded.export_chrome_trace(str(path))
    return json.loads(path.read_text())["traceEvents"], read_trace(path)


def test_modules_appear_with_their_paths(tmp_path: Path) -> None:
    model = torch.nn.Sequential(Inner(), torch.nn.Linear(4, 2))
    events, timeline = _trace(tmp_path, lambda: model(torch.ones(1, 4)))
    marks = {e["name"]: e for e in events if e.get("name", "").startswith(PREFIX)}
    assert set(marks) == {PREFIX + path for path in ("", "0", "0.fc", "1")}
    modules = {(op.name, op.module) for op in timeline.ops}
    assert {("aten::addmm", "0.fc"), ("aten::relu", "0"), ("aten::addmm", "1")} <= modules
    assert not any(op.name.startswith(PREFIX) for op in timeline.ops)


def test_a_second_model_gets_its_class_for_a_prefix(tmp_path: Path) -> None:
    one, two = torch.nn.Linear(2, 2), Inner()
    events, _ = _trace(tmp_path, lambda: (one(torch.ones(1, 2)), two(torch.ones(1, 4))))
    names = {e["name"] for e in events if e.get("name", "").startswith(PREFIX)}
    assert names == {PREFIX, PREFIX + "Inner", PREFIX + "Inner.fc"}


def test_hooks_go_and_an_error_closes_the_marks(tmp_path: Path) -> None:
    model = Inner()

    def run() -> None:
        with pytest.raises(RuntimeError):
            model(torch.ones(1, 5))
        model(torch.ones(1, 4))

    events, _ = _trace(tmp_path, run)
    assert not torch_module._global_forward_pre_hooks
    assert not torch_module._global_forward_hooks
    assert len([e for e in events if e.get("name") == PREFIX]) == 2
