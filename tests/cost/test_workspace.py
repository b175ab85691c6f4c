"""Memory of the libraries: cuBLAS workspaces and what operators borrow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matmul_work import dense

from gpuscope.cost.workspace import cublas_workspace_bytes, transient_bytes, with_workspaces
from gpuscope.hardware import device
from gpuscope.program.types import Op, Program, Storage

MIB = 2**20
H200 = device("h200")


def mm(index: int, phase="forward", where="device") -> Op:
    spec = replace(dense(4, 4), device=where, storage=0)
    return Op(index, "aten::mm", inputs=(spec, spec), outputs=(spec,), phase=phase)


def workspaces(*ops: Op, on=H200, storages=()) -> list[Storage]:
    program = Program("test", ops, storages)
    return [s for s in with_workspaces(program, on).storages if s.category == "workspace"]


def test_sizes_of_a_cublas_workspace() -> None:
    assert cublas_workspace_bytes(H200) == 32 * MIB
    assert cublas_workspace_bytes(device("b200")) == 32 * MIB
    assert cublas_workspace_bytes(device("a100-80gb")) == 8 * MIB + 128 * 1024
    assert cublas_workspace_bytes(device("mi300x")) == 0
    assert cublas_workspace_bytes(device("tpu-v5p")) == 0


def test_one_workspace_a_host_thread() -> None:
    assert len(workspaces(mm(0))) == 1
    assert len(workspaces(mm(0), mm(1))) == 1
    assert len(workspaces(mm(0), mm(1, "backward"))) == 2
    assert len(workspaces(mm(0, "backward"))) == 1
    assert sum(s.nbytes for s in workspaces(mm(0), mm(1, "backward"))) == 64 * MIB


def test_they_stay() -> None:
    for storage in workspaces(mm(0), mm(1, "backward")):
        assert (storage.born, storage.died) == (-1, None)


def test_no_product_on_the_device_no_workspace() -> None:
    assert workspaces(Op(0, "aten::add", outputs=(dense(4),))) == []
    assert workspaces(mm(0, where="host")) == []


def test_other_vendors_get_none() -> None:
    program = Program("test", (mm(0),))
    assert with_workspaces(program, device("mi300x")) is program


def test_ids_stay_distinct_and_tensors_untouched() -> None:
    held = (Storage(7, 100, "parameter", -1, None), Storage(3, 50, "input", -1, None))
    program = Program("test", (mm(0), mm(1, "backward")), held)
    made = with_workspaces(program, H200)
    ids = [s.id for s in made.storages]
    assert len(set(ids)) == len(ids)
    assert set(held) <= set(made.storages)
    assert made.ops == program.ops


def attention_backward(heads=8, kv_heads=8, seq=128, dim=64) -> Op:
    q, k = dense(2, heads, seq, dim), dense(2, kv_heads, seq, dim)
    lse = dense(2, heads, seq, dtype="float32")
    return Op(0, "gpuscope::attention_backward", inputs=(q, q, k, k, q, lse), outputs=(q, k, k))


def test_attention_backward_accumulates_dq_in_float32() -> None:
    rows = 2 * 8 * 128
    assert transient_bytes(attention_backward(), H200) == rows * 64 * 4 + rows * 4
    (borrowed,) = workspaces(attention_backward())
    assert (borrowed.born, borrowed.died) == (0, 1)


def test_shared_heads_are_summed_afterwards() -> None:
    rows = 2 * 8 * 128
    more = transient_bytes(attention_backward(kv_heads=2), H200)
    assert more == rows * 64 * 4 + rows * 4 + 2 * rows * 64 * 2  # dK and dV of each query head


def test_the_efficient_backward_pass_borrows_whole_tiles() -> None:
    q = dense(2048, 8, 50, 12, dtype="float32")
    op = Op(0, "gpuscope::attention_backward", inputs=(q, q, q, q, q, q), outputs=(q, q, q))
    rows = 2048 * 8 * 50
    assert transient_bytes(op, H200) == 268697600 + 4 * rows  # as recorded, and the row sums


@pytest.mark.parametrize("name", ["aten::add", "gpuscope::attention", "aten::mm"])
def test_most_operators_borrow_nothing(name) -> None:
    assert transient_bytes(replace(attention_backward(), name=name), H200) == 0


def recurrent(mode: str, hidden: int, layers: int, batch: int, seq: int, ways: int = 1) -> Op:
    x = dense(seq, batch, hidden, dtype="float32")
    gates = {"lstm": 4, "gru": 3}.get(mode, 1)
    weights = tuple(
        dense(gates * hidden, width, dtype="float32")
        for layer in range(layers)
        for _ in range(ways)
        for width in (hidden if layer == 0 else ways * hidden, hidden)
    )
    args = {"mode": mode, "hidden_size": hidden, "num_layers": layers, "bidirectional": ways == 2}
    states = (dense(layers * ways, batch, hidden, dtype="float32"),)
    return Op(0, "gpuscope::rnn", "default", (x, *states, *weights), (x,), args)


@pytest.mark.parametrize(
    ("op", "peak", "kept"),
    [  # recorded peak and what stays of it: validation/recordings/h200/micro/memory.csv.gz
        (recurrent("lstm", 1024, 1, 64, 128), 448529920, 202375680),
        (recurrent("lstm", 1024, 2, 64, 128), 696254976, 404750848),
        (recurrent("lstm", 650, 2, 20, 35), 78036480, 22258688),
        (recurrent("lstm", 512, 1, 64, 512), 824705536, 403177984),
        (recurrent("lstm", 256, 1, 16, 35), 18178560, 3506688),
        (recurrent("gru", 1024, 2, 64, 128), 714606080, 470811136),
        (recurrent("gru", 512, 1, 64, 512), 888014336, 470024704),
    ],
)
def test_recurrent_layers_borrow_what_cudnn_was_seen_to(op: Op, peak: int, kept: int) -> None:
    assert transient_bytes(op, H200) == pytest.approx(peak - kept, rel=0.105)


def test_directions_borrow_for_themselves() -> None:
    """Two layers of 512 units both ways, 32 steps of 64 rows: 140 MiB were borrowed and 8 kept."""
    one = transient_bytes(recurrent("lstm", 512, 2, 64, 32), H200)
    both = transient_bytes(recurrent("lstm", 512, 2, 64, 32, ways=2), H200)
    assert both > 2 * one
    assert both == pytest.approx(140 * MIB, rel=0.15)


def test_a_graph_leaves_two_for_each_thread() -> None:
    """After `make_graphed_callables` an H200's allocator holds four: two streams, two threads."""
    ops = mm(0), mm(1, "backward")
    program = Program("test", ops, (), compiled="cudagraphs")
    held = [s for s in with_workspaces(program, H200).storages if s.category == "workspace"]
    assert len(held) == 4
    assert len(workspaces(replace(ops[0], graph=1), ops[1])) == 3


def test_the_gradient_of_a_softmax_multiplies_first() -> None:
    grad, result = dense(64, 128, dtype="float32"), dense(64, 128, dtype="bfloat16")
    for pair, size in (((grad, result), 4), ((result, result), 2)):
        op = Op(0, "aten::_softmax_backward_data", inputs=pair, outputs=(result,))
        assert transient_bytes(op, H200) == 64 * 128 * size
