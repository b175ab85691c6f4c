"""Calls that several owners take over: the latest is outside, and any may give back first."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from gpuscope.advice.changes.hooks.module_calls import AskedCalls, taken_over

_X = torch.ones(1, 2)


def _told(word: str, calls: list[str]) -> Callable[[Any], Callable[..., Any]]:
    def wrap(call: Any) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            calls.append(word)
            return call(*args, **kwargs)

        return called

    return wrap


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_given_back_in_any_order(order: tuple[int, ...]) -> None:
    before = nn.Linear.__call__
    module, calls = nn.Linear(2, 2), []
    owners = [AskedCalls() for _ in range(3)]
    for word, owner in zip("abc", owners, strict=True):
        owner.take(module, _told(word, calls))
    left = set(range(3))
    for place in order:
        calls.clear()
        assert module(_X).shape == (1, 2)
        assert calls == ["abc"[i] for i in sorted(left, reverse=True)]
        owners[place].give_back()
        left.discard(place)
    calls.clear()
    module(_X)
    assert calls == []
    assert not taken_over(module)
    assert nn.Linear.__call__ is before
    assert "__call__" not in vars(nn.Linear)


def test_only_that_module_is_called_otherwise() -> None:
    calls: list[str] = []
    taken, other = nn.Linear(2, 2), nn.Linear(2, 2)
    owner = AskedCalls()
    owner.take(taken, _told("a", calls))
    owner.take(taken, _told("b", calls))
    other(_X)
    assert calls == []
    taken(_X)
    assert calls == ["b", "a"]
    owner.give_back()
    owner.take(other, _told("c", calls))
    taken(_X)
    assert calls == ["b", "a"]
    other(_X)
    assert calls == ["b", "a", "c"]
    owner.give_back()


def test_a_class_that_has_its_own_call_gets_it_back() -> None:
    class Own(nn.Linear):
        def __call__(self, *args: Any) -> Any:
            return super().__call__(*args) * 0

    own, before = Own(2, 2), Own.__call__
    owner = AskedCalls()
    owner.take(own, lambda call: lambda *args: call(*args) + 1)
    assert own(_X).tolist() == [[1.0, 1.0]]
    owner.give_back()
    assert Own.__call__ is before
    assert own(_X).tolist() == [[0.0, 0.0]]


def test_what_others_put_in_its_place_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(nn.Linear):
        pass

    owner = AskedCalls()
    owner.take(Mine(2, 2), _told("a", []))
    inside = Mine.__call__
    monkeypatch.setattr(Mine, "__call__", lambda this, *args: inside(this, *args) * 2)
    outside = Mine.__call__
    owner.give_back()
    assert Mine.__call__ is outside
    assert Mine(2, 2)(_X).shape == (1, 2)


def test_a_compiled_model_with_children_of_the_class_stays_one_graph() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    root, calls = nn.Linear(4, 4), []
    owner = AskedCalls()
    owner.take(root, _told("a", calls))
    net = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), backend=backend)
    assert net(torch.ones(2, 4)).shape == (2, 4)
    assert len(graphs) == 1
    assert calls == []
    owner.give_back()
    torch._dynamo.reset()
