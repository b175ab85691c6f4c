"""Gradient checkpointing: the forward pass again, inside of the backward pass."""

from __future__ import annotations

import pytest
from captured import named, of, work

torch = pytest.importorskip("torch")
nn = torch.nn


def build_with(checkpointing, use_reentrant=False):
    from torch.utils.checkpoint import checkpoint

    def build():
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
        x = torch.randn(3, 4, device="cuda", requires_grad=True)

        def step():
            model.zero_grad()
            y = checkpoint(model, x, use_reentrant=use_reentrant) if checkpointing else model(x)
            y.sum().backward()
            x.grad = None

        return step

    return build


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_the_forward_operators_run_twice(use_reentrant) -> None:
    plain, checked = of(build_with(False)), of(build_with(True, use_reentrant))
    again = [op for op in checked.ops if op.recomputed and not op.view]
    # The non-reentrant kind stops as soon as it has what the backward pass wants.
    assert {op.name for op in again} == {"aten::addmm", "aten::relu"}
    assert {op.phase for op in again} == {"backward"}
    assert [op.module for op in again][:2] == ["0", "1"]
    assert work(checked, "forward") == work(plain, "forward")
    gradients = [op.name for op in checked.ops if op.phase == "backward" and not op.recomputed]
    wanted = [op.name for op in plain.ops if op.phase == "backward"]
    assert sorted(g for g in gradients if "mm" in g) == sorted(w for w in wanted if "mm" in w)
    assert [op.module for op in named(checked, "mm")] == [op.module for op in named(plain, "mm")]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activations_are_not_kept(use_reentrant) -> None:
    def kept(program):
        return sum(
            s.nbytes
            for s in program.storages
            if s.category == "activation"
            and s.born >= 0
            and s.died is not None
            and s.label == "aten::relu"
        )

    assert kept(of(build_with(False))) == 3 * 8 * 4
    assert kept(of(build_with(True, use_reentrant))) == 0


def test_dropout_is_drawn_again() -> None:
    from torch.utils.checkpoint import checkpoint

    def build():
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)).cuda()
        x = torch.randn(3, 4, device="cuda", requires_grad=True)
        return lambda: checkpoint(model, x, use_reentrant=False).sum().backward()

    program = of(build)
    assert [op.recomputed for op in named(program, "native_dropout")] == [False, True]
