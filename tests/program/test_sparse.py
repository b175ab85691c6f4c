"""Sparse tensors of places and values: shapes of a real run, what they are made of written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from captured import of, work
from torch import nn

from gpuscope.errors import CaptureError

Step = Callable[[], object]
PLACES = torch.tensor([[0, 1, 2, 2], [1, 0, 3, 2]])


def products(device: str) -> list[Any]:
    """Shapes and places of what a graph network makes of its matrix."""
    matrix = torch.sparse_coo_tensor(PLACES, torch.ones(4), (5, 5)).to(device)
    x = torch.randn(5, 3, device=device)
    made = [
        matrix @ x,
        torch.spmm(matrix, x),
        torch.sparse.mm(matrix, x),
        torch.sparse.addmm(x, matrix, x),
        matrix.to_dense(),
        matrix.coalesce().values(),
        matrix.t()._indices(),
    ]
    assert matrix.is_sparse
    return [(tuple(t.shape), t.dtype, t.device.type == device) for t in made]


def test_products_have_the_shapes_of_a_real_run() -> None:
    found: list[Any] = []
    program = of(lambda: lambda: found.append(products("cuda")))
    assert found[-1] == products("cpu")
    product = next(op for op in program.ops if op.name == "aten::_sparse_addmm.sparse")
    assert [spec.shape for spec in product.inputs] == [(5, 3), (2, 4), (4,), (5, 3)]


def test_a_graph_network_trains() -> None:
    def build() -> Step:
        layer = nn.Linear(3, 2).cuda()
        matrix = torch.sparse_coo_tensor(PLACES, torch.ones(4), (5, 5)).cuda()
        optimizer = torch.optim.Adam(layer.parameters())

        def step() -> None:
            optimizer.zero_grad()
            (matrix @ layer(torch.randn(5, 3, device="cuda"))).relu().sum().backward()
            optimizer.step()

        return step

    program = of(build)
    assert sum("sparse" in name for name in work(program, "forward")) == 1
    assert sum("sparse" in name for name in work(program, "backward")) >= 1


def test_sparse_gradients_reach_their_optimizer() -> None:
    def build() -> Step:
        layer = nn.Embedding(100, 8, sparse=True).cuda()
        optimizer = torch.optim.SparseAdam(layer.parameters())

        def step() -> None:
            optimizer.zero_grad()
            layer(torch.randint(0, 100, (6,), device="cuda")).sum().backward()
            assert layer.weight.grad is not None
            assert layer.weight.grad.is_sparse
            optimizer.step()

        return step

    assert work(of(build), "optimizer")


def test_buffers_may_be_sparse() -> None:
    def build() -> Step:
        model = nn.Linear(4, 4)
        model.register_buffer("heads", torch.eye(4).to_sparse(), persistent=False)
        model.cuda()
        assert model.heads.is_cuda
        return lambda: model(torch.randn(2, 4, device="cuda"))

    assert work(of(build))[-1] == "addmm"


def test_other_layouts_are_refused_as_a_gap_of_ours() -> None:
    with pytest.raises(CaptureError) as error:
        of(lambda: torch.eye(4).to_sparse_csr().cuda())
    assert "gpuscope cannot follow yet" in error.value.what
    assert "test_sparse.py" in error.value.what
    assert "to_sparse_coo" in error.value.next_step


def test_sums_have_the_shapes_of_a_real_run() -> None:
    def sums(device: str) -> list[Any]:
        matrix = torch.sparse_coo_tensor(PLACES, torch.ones(4, 7), (5, 6, 7)).to(device)
        made = [torch.sparse.sum(matrix, over) for over in (0, [1], [0, 1], [-1], [0, 1, 2])]
        made.append(torch.sparse.sum(matrix))
        return [(tuple(t.shape), t.is_sparse, t.device.type == device) for t in made]

    found: list[Any] = []
    program = of(lambda: lambda: found.append(sums("cuda")))
    assert found[-1] == sums("cpu")
    assert any("as many values as can be" in note for note in program.assumptions)
