"""Recurrent layers inside of a compiled call stay as they are, and with them the rest of the
function that calls them: the graphs that Dynamo of PyTorch 2.13 makes of the same models."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gpuscope.capturing import capture
from gpuscope.program.types import Program


class _Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(32, 32)
        self.rnn = nn.LSTM(32, 64, batch_first=True)
        self.head = nn.Linear(64, 8)


class _Rest(_Parts):
    def forward(self, x: Any) -> Any:
        before = self.before(x).relu()
        hidden, _ = self.rnn(before)
        return self.head(hidden).mul(3.0)


class _Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(64, 8)

    def forward(self, x: Any) -> Any:
        return self.last(x).relu()


class _Called(_Parts):
    def __init__(self) -> None:
        super().__init__()
        self.own = _Head()

    def forward(self, x: Any) -> Any:
        before = self.before(x).relu()
        hidden, _ = self.rnn(before)
        return self.own(hidden.mul(2.0)).mul(3.0)


class _Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(32, 64, batch_first=True)

    def forward(self, x: Any) -> Any:
        hidden, _ = self.rnn(x)
        return hidden.mul(2.0)


class _Caller(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(32, 32)
        self.inner = _Inner()
        self.head = nn.Linear(64, 8)

    def forward(self, x: Any) -> Any:
        hidden = self.inner(self.before(x).relu())
        return self.head(hidden).mul(3.0)


def _captured(model: type[nn.Module]) -> Program:
    def build() -> Any:
        made = model().cuda()
        made.compile()
        x = torch.randn(4, 16, 32, device="cuda")

        def step() -> None:
            made(x).mean().backward()

        return step

    return capture(build)


def _regions(program: Program, phase: str = "forward") -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for op in program.ops:
        if op.phase == phase:
            found.setdefault(op.module.rpartition(".")[2], set()).add(op.region)
    return found


def test_the_rest_of_the_function_stays_as_it_is() -> None:
    program = _captured(_Rest)
    of = _regions(program)
    assert of["rnn"] == of["head"] == {0}
    assert min(of["before"]) > 0
    (found,) = program.graph_breaks
    assert "recurrent" in found.reason
    assert found.site.startswith("test_compiled_recurrent.py:")
    backward = _regions(program, "backward")
    assert backward["rnn"] == backward["head"] == {0}
    assert max(backward["before"]) > 0


def test_what_it_calls_is_compiled_anew() -> None:
    program = _captured(_Called)
    of = _regions(program)
    assert of["rnn"] == {0}
    assert min(of["last"]) > max(of["before"]) > 0
    products = {op.region for op in program.ops if op.name.endswith("::mul.Scalar")}
    assert products <= {0}


def test_its_caller_goes_on_compiled() -> None:
    of = _regions(_captured(_Caller))
    assert of["rnn"] == of["inner"] == {0}
    assert min(of["head"]) > max(of["before"]) > 0


def test_the_next_call_is_compiled_from_its_begin() -> None:
    def build() -> Any:
        made = _Rest().cuda()
        made.compile()
        x = torch.randn(4, 16, 32, device="cuda")

        def step() -> None:
            (made(x).mean() + made(x).mean()).backward()

        return step

    before = [
        op.region
        for op in capture(build).ops
        if op.phase == "forward" and op.module.endswith("before")
    ]
    assert min(before) > 0
    assert len(set(before)) == 2
