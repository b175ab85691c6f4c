"""Models are what no other module holds; not lists of their layers, nor a compiler's graphs."""

import torch
from torch import nn

from gpuscope.advice.changes.hooks.root_modules import modules, roots, unwrapped


def _ours(found, *ours):
    return [m for m in found if any(m is o for o in ours)]


def test_children_and_slices_are_no_models() -> None:
    model, alone = nn.Module(), nn.Linear(2, 2)
    model.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    part = model.layers[:1]
    every = (model, model.layers, *model.layers, part, alone)
    assert len(_ours(modules(), *every)) == 6
    assert {id(m) for m in _ours(roots(), *every)} == {id(model), id(alone)}


def test_a_list_of_ones_own_is_a_model() -> None:
    own = nn.ModuleList([nn.Linear(2, 2)])
    assert _ours(roots(), own)


def test_a_graph_of_the_users_own_is_a_model_a_compilers_is_not() -> None:
    own, made = (torch.fx.symbolic_trace(nn.ReLU()) for _ in range(2))
    made.compile_subgraph_reason = "as torch._dynamo.output_graph leaves it"
    assert _ours(roots(), own, made) == [own]


def test_a_wrapper_of_torch_holds_the_model_ones_own_is_one() -> None:
    model = nn.Linear(2, 2)
    own = type("DataParallel", (nn.Module,), {})()
    own.module = model
    assert unwrapped(nn.DataParallel(model)) is unwrapped(model) is model
    assert unwrapped(own) is own
