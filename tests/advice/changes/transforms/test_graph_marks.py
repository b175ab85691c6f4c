"""What a capture is told of graphs, and copies of what a replay overwrites."""

from __future__ import annotations

import pytest
import torch

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.graph_marks import compiles, copied, note_graph
from gpuscope.advice.registry import plan
from gpuscope.program.capture import capture


@pytest.mark.parametrize(
    ("compiled", "whole_step", "mode"),
    [(False, False, "cudagraphs"), (True, False, "reduce-overhead"), (False, True, "cudagraphs")],
)
def test_a_capture_hears_of_a_graph(compiled: bool, whole_step: bool, mode: str) -> None:
    def build():
        x = torch.ones(4, device="cuda")

        def step():
            note_graph(compiled, whole_step)
            return x * 2

        return step

    program = capture(build)
    assert program.compiled == mode
    assert program.settings.get("step_graph", False) is whole_step


def test_changes_that_compile() -> None:
    assert compiles(Live(plan(["compile"])))
    assert not compiles(Live(plan(["tf32"])))


def test_copies_lie_elsewhere() -> None:
    held = {"a": torch.ones(2), "b": (torch.zeros(1), 3)}
    made = copied(held)
    held["a"].fill_(5)
    assert made["a"].tolist() == [1, 1]
    assert made["b"][1] == 3
