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

    found = work(of(build), "optimizer")
    # Three moments added by rows, two picked by a mask of ones, as recorded of such a step
    # (validation/recordings/h200/fourth/multi-task-ranking.csv.gz).
    assert found.count("index_add_") == 3
    assert found.count("index") == found.count("new_ones") == found.count("clone") == 2
    assert found[0] == "_coalesce.sparse"


def test_equal_places_are_joined_as_often_as_even_drawing_says() -> None:
    """819,200 places of 400,000 left 348,246, and 16,384 left 16,039 to 16,092, as recorded."""

    def build() -> Step:
        rows = [torch.randint(0, 400_000, (1, n), device="cuda") for n in (819_200, 16_384)]
        made = [
            torch.sparse_coo_tensor(r, torch.randn(r.shape[1], 4, device="cuda"), (400_000, 4))
            for r in rows
        ]
        return lambda: [m.coalesce() for m in made]

    program = of(build)
    joined = [op for op in program.ops if op.name == "aten::_coalesce.sparse"]
    counts = [op.outputs[1].shape[0] for op in joined]
    assert counts == pytest.approx([348_246, 16_065], rel=2e-3)
    assert all(op.sync for op in joined)  # the host learns how many are left
    assert any("evenly drawn" in str(said) for said in program.assumptions)


def test_what_is_joined_is_not_joined_again() -> None:
    def build() -> Step:
        rows = torch.randint(0, 50, (1, 8), device="cuda")
        loose = torch.sparse_coo_tensor(rows, torch.randn(8, 4, device="cuda"), (50, 4))
        return lambda: loose.coalesce().clone().coalesce()

    assert work(of(build)).count("_coalesce.sparse") == 1


def test_buffers_may_be_sparse() -> None:
    def build() -> Step:
        model = nn.Linear(4, 4)
        model.register_buffer("heads", torch.eye(4).to_sparse(), persistent=False)
        model.cuda()
        assert model.heads.is_cuda
        return lambda: model(torch.randn(2, 4, device="cuda"))

    assert work(of(build))[-1] == "addmm"


def test_plain_optimizers_add_sparse_gradients() -> None:
    def build() -> Step:
        bag = nn.EmbeddingBag(100, 8, sparse=True).cuda()
        optimizer = torch.optim.SGD(bag.parameters(), lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            words, begins = torch.randint(0, 100, (6,)).cuda(), torch.tensor([0, 2]).cuda()
            bag(words, begins).sum().backward()
            optimizer.step()

        return step

    program = of(build)
    assert not program.unsupported
    # Gradients of bags are not joined: scaled, and added row by row.
    assert list(work(program, "optimizer")) == ["mul", "index_add_"]


def test_compressed_tensors_are_taken_as_places_and_values() -> None:
    def build() -> Step:
        rows, columns = torch.tensor([0, 2, 3]), torch.tensor([0, 3, 1])
        read = torch.sparse_csr_tensor(rows, columns, torch.ones(3)).cuda()
        made = torch.eye(4, device="cuda").to_sparse(layout=torch.sparse_csr)
        assert read.shape == (2, 4)
        assert read._nnz() == 3
        return lambda: read @ (made @ torch.randn(4, 5, device="cuda"))

    program = of(build)
    assert not program.unsupported
    products = [op for op in program.ops if ".sparse" in op.name]
    assert [op.outputs[0].shape for op in products] == [(4, 5), (2, 5)]
    assert any("CSR" in str(said) for said in program.assumptions)


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


def test_two_sparse_matrices_meet_in_their_common_dimension() -> None:
    program = of(
        lambda: (
            lambda: torch.sparse.mm(
                torch.sparse_coo_tensor(PLACES, torch.ones(4), (5, 5), device="cuda"),
                torch.sparse_coo_tensor(PLACES, torch.ones(4), (5, 5), device="cuda"),
            )
        )
    )
    product = next(op for op in program.ops if "matmul" in op.name)
    assert product.outputs[1].shape == (4,)  # 4 * 4 / 5
    assert any("spread evenly" in str(said) for said in program.assumptions)


def test_parts_of_compressed_tensors_have_their_sizes() -> None:
    def parts(device: str) -> list[Any]:
        made = torch.sparse_csr_tensor(
            torch.tensor([0, 2, 3]), torch.tensor([0, 3, 1]), torch.ones(3), (2, 4), device=device
        )
        return [tuple(t.shape) for t in (made.crow_indices(), made.col_indices(), made.values())]

    found: list[Any] = []
    of(lambda: lambda: (torch.ones(1, device="cuda"), found.append(parts("cuda"))))
    assert found[-1] == parts("cpu")


def test_blocks_are_refused_and_not_taken_for_dense() -> None:
    with pytest.raises(CaptureError, match="block sparse"):
        of(lambda: lambda: torch.eye(8, device="cuda").to_sparse_bsr((2, 2)))


def test_two_of_four_weights_take_nine_sixteenths() -> None:
    def build() -> Step:
        from torch.sparse import to_sparse_semi_structured

        weight = torch.tensor([0, 0, 1, 1]).tile((64, 16)).half().cuda()
        packed: Any = to_sparse_semi_structured(weight)
        assert packed.packed.numel() == 64 * 64 * 9 // 16
        x = torch.randn(64, 64, device="cuda", dtype=torch.float16)
        return lambda: nn.functional.linear(x, packed)

    assert not of(build).unsupported


@pytest.mark.parametrize("compressed", [False, True])
def test_a_matrix_of_before_goes_to_the_device(compressed: bool) -> None:
    matrix = torch.eye(8).to_sparse_csr() if compressed else torch.eye(8).to_sparse()

    def build():
        there, x = matrix.to("cuda"), torch.randn(8, 4, device="cuda")
        return lambda: there @ x

    (op,) = [op for op in of(build).ops if not op.view]
    assert op.name == "aten::mm.sparse"
    assert [spec.shape for spec in op.inputs] == [(2, 8), (8,), (8, 4)]


def test_a_compressed_matrix_is_told_from_one_of_places() -> None:
    def build():
        places = torch.sparse_coo_tensor(PLACES, torch.ones(4), (5, 5)).to("cuda").coalesce()
        rows, x = places.to_sparse_csr(), torch.randn(5, 3, device="cuda")
        return lambda: (places @ x, rows @ x)

    plain, compressed = (op for op in of(build).ops if op.name == "aten::mm.sparse")
    assert "compressed" not in plain.args
    assert compressed.args["compressed"] is True
