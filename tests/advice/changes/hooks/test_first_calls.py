"""Each model is noticed once, before it runs, whoever made it; compiled code is none the wiser."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gpuscope.advice.changes.hooks import live as live_module
from gpuscope.advice.changes.hooks.first_calls import FirstCalls
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.hooks.replaced_names import Replaced


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def test_told_until_known_and_no_more_after_the_end() -> None:
    told: list[object] = []
    before = nn.Module.__call__
    replaced, watched = Replaced(), FirstCalls(told.append)
    net, other, late = _Net(), _Net(), _Net()
    x = torch.ones(1, 4)
    watched.begin(replaced)
    watched.know(other)
    other(x)
    assert told == []
    net(x)
    assert told == [net, net.first, net.second]
    watched.end()
    assert nn.Module.__call__ is before
    late(x)
    replaced.undo()
    assert len(told) == 3


@pytest.mark.parametrize("first", [0, 1])
def test_two_that_watch_may_end_in_any_order(first: int) -> None:
    told: tuple[list[object], list[object]] = ([], [])
    before = nn.Module.__call__
    replaced = Replaced()
    watched = [FirstCalls(one.append) for one in told]
    for watch in watched:
        watch.begin(replaced)
    net = nn.Linear(4, 4)
    x = torch.ones(1, 4)
    net(x)
    watched[first].end()
    nn.ReLU()(x)
    assert [len(one) for one in told] == ([1, 2] if first == 0 else [2, 1])
    watched[1 - first].end()
    assert nn.Module.__call__ is before


def test_a_model_made_before_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net, looked = _Net(), []
    found = live_module.roots
    monkeypatch.setattr(live_module, "roots", lambda: (looked.append(1), found())[1])
    live = Live()
    step = live.wrap(lambda: lambda: net(torch.ones(1, 4)))()
    for _ in range(3):
        step()
    assert live.models == [net]
    assert len(looked) == 2  # after the build, and at the first call; not once a module and step
    live.close()


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_compiled_code_stays_one_graph(wrapped: bool, before: bool) -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward

    def compiled() -> nn.Module:
        net = _Net()
        if wrapped:
            return torch.compile(net, backend=backend)  # type: ignore[return-value]
        net.compile(backend=backend)
        return net

    torch._dynamo.reset()
    made = [compiled()] if before else []

    def build() -> object:
        net = made[0] if made else compiled()
        return lambda: net(torch.ones(2, 4))

    live = Live()
    step = live.wrap(build)()  # type: ignore[arg-type]
    for _ in range(3):
        step()
    assert len(graphs) == 1
    assert [type(m).__name__ for m in live.models] == ["OptimizedModule" if wrapped else "_Net"]
    live.close()
    torch._dynamo.reset()
