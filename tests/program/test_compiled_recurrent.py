"""Recurrent layers inside of a compiled call stay as they are: a graph ends there."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gpuscope.capturing import capture


def _build() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before = nn.Linear(32, 32)
            self.rnn = nn.LSTM(32, 64, batch_first=True)
            self.head = nn.Linear(64, 8)

        def forward(self, x: Any) -> Any:
            hidden, _ = self.rnn(self.before(x).relu())
            return self.head(hidden).pow(2).mean()

    def build() -> Any:
        model = Model().cuda()
        model.compile()
        x = torch.randn(4, 16, 32, device="cuda")

        def step() -> None:
            model(x).backward()

        return step

    return build


def test_a_graph_ends_before_it_and_another_begins_after_it() -> None:
    program = capture(_build())
    of = {op.module.rpartition(".")[2]: op.region for op in program.ops if op.phase == "forward"}
    assert of["rnn"] == 0
    assert of["before"] > 0
    assert of["head"] > of["before"]
    (found,) = program.graph_breaks
    assert "recurrent" in found.reason
    assert found.site.startswith("test_compiled_recurrent.py:")
    backward = [op for op in program.ops if op.phase == "backward" and "rnn" in op.name]
    assert backward
    assert all(op.region == 0 for op in backward)
