"""Parameters in every form that optimizers take."""

import pytest
import torch
from torch import nn

from gpuscope.advice.changes.hooks.optimizer_parameters import follow, listed, parameters_of


def _forms(model):
    return {
        "generator": model.parameters(),
        "named": model.named_parameters(),
        "groups": ({"params": p, "lr": 0.1} for p in model.parameters()),
        "tensor": model.weight,
    }


@pytest.mark.parametrize(
    ("form", "count"), [("generator", 2), ("named", 2), ("groups", 2), ("tensor", 1)]
)
def test_every_form_becomes_a_list_that_can_be_read_twice(form, count) -> None:
    model = nn.Linear(2, 2)
    groups = listed(_forms(model)[form])
    for _ in range(2):
        found = [p for group in groups for p in parameters_of(group)]
        assert len(found) == count
        assert found[0] is model.weight


@pytest.mark.parametrize("form", ["generator", "named", "groups"])
def test_new_parameters_stand_where_the_old_ones_stood(form) -> None:
    model = nn.Linear(2, 2)
    groups = listed(_forms(model)[form])
    before = {id(model): dict(model.named_parameters())}
    bias = model.bias
    model.weight = nn.Parameter(torch.zeros(2, 2))
    follow(groups, [model], before)
    found = [p for group in groups for p in parameters_of(group)]
    assert found[0] is model.weight
    assert found[1] is bias


def test_where_nothing_is_new_nothing_changes() -> None:
    model = nn.Linear(2, 2)
    groups = listed(model.parameters())
    same = list(groups)
    follow(groups, [model], {id(model): dict(model.named_parameters())})
    assert all(a is b for a, b in zip(groups, same, strict=True))
