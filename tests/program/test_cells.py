"""Cells step by step: on CUDA two products and one fused kernel each way."""

from __future__ import annotations

import pytest
from captured import of, one, work

torch = pytest.importorskip("torch")
nn = torch.nn


def stepped(cell, *, grad=True, twice=False, **options):
    def build():
        made = cell(6, 4, **options).cuda()
        x = torch.randn(3, 6, device="cuda")

        def step():
            with torch.set_grad_enabled(grad):
                out = made(x)
                out = out if isinstance(out, torch.Tensor) else out[0]
                if twice:
                    slopes = torch.autograd.grad(out.sum(), made.parameters(), create_graph=True)
                    out = sum(s.square().sum() for s in slopes)
                if grad:
                    out.sum().backward()

        return step

    return of(build)


@pytest.mark.parametrize(("cell", "gates", "kept"), [(nn.GRUCell, 3, 5), (nn.LSTMCell, 4, 4)])
def test_two_products_and_a_kernel_each_way(cell, gates, kept) -> None:
    program = stepped(cell)
    name = "gru_cell" if cell is nn.GRUCell else "lstm_cell"
    forward, backward = one(program, name), one(program, f"{name}_backward")
    assert [s.shape for s in forward.inputs] == [
        (3, 4 * gates), (3, 4 * gates), (3, 4), (4 * gates,), (4 * gates,),
    ]  # fmt: skip
    assert forward.outputs[-1].shape == (3, 4 * kept)
    assert backward.outputs[0].shape == (3, 4 * gates)
    found = work(program)
    assert not {"sigmoid_", "tanh_", "unsafe_split"} & set(found)
    at = found.index(name)
    assert found[at - 2 : at] == ["mm", "mm"]
    # The biases of a GRU have a sum each; those of an LSTM are one.
    after = found[found.index(f"{name}_backward") :]
    assert after.count("sum") == (2 if cell is nn.GRUCell else 1)


@pytest.mark.parametrize("cell", [nn.GRUCell, nn.LSTMCell])
def test_without_gradients_and_biases(cell) -> None:
    program = stepped(cell, grad=False, bias=False)
    assert [n for n in work(program) if n.endswith("_cell")] == [
        "gru_cell" if cell is nn.GRUCell else "lstm_cell"
    ]
    assert len(next(op for op in program.ops if op.name.endswith("_cell")).inputs) == 3


@pytest.mark.parametrize("cell", [nn.GRUCell, nn.LSTMCell])
def test_slopes_of_slopes_take_it_apart(cell) -> None:
    found = work(stepped(cell, twice=True))
    assert any(name.endswith("_cell") for name in found)
    assert "sigmoid" in found  # `_thnn_differentiable_*_cell_backward`


def test_shapes_are_those_of_the_cell_itself() -> None:
    """The operators' results and gradients, against a real cell on the processor."""
    cell, x = nn.LSTMCell(6, 4), torch.randn(3, 6)
    hy, cy = cell(x)
    forward = one(stepped(nn.LSTMCell), "lstm_cell")
    assert [s.shape for s in forward.outputs[:2]] == [tuple(hy.shape), tuple(cy.shape)]
