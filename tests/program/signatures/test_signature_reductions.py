"""Reductions, norms, softmax, scans: outputs equal PyTorch's."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from signature_oracle import agree, meta, recorded, spec

from gpuscope.program.signatures import complete
from gpuscope.program.signatures.reductions import broadcast


def test_reductions() -> None:
    x = meta(4, 5, 6)
    agree("aten::sum", x, [0], False, overload="dim_IntList")
    agree("aten::sum", x, overload="default")
    agree("aten::mean", x, [-1], False, overload="dim")
    agree("aten::amax", x, [0, 2], False)
    agree("aten::argmax", x, 1, False)
    agree("aten::any", x, 1, False, overload="dim")
    agree("aten::max", x, 1, False, overload="dim", outputs=2)
    agree("aten::var_mean", x, [1], overload="correction", outputs=2)
    agree("aten::linalg_vector_norm", x, 2.0, [1], False)
    agree("aten::sum", meta(4, 5, dtype=torch.int32), [0], False, overload="dim_IntList")


def test_without_values_nobody_knows_the_dimensions() -> None:
    op = recorded("aten::sum", meta(4, 5))
    assert complete(op, values_recorded=False) is None


def test_rows() -> None:
    x, w = meta(4, 7, 16), meta(16)
    agree("aten::_softmax", x, 1, False)
    agree("aten::_log_softmax_backward_data", x, x, 2, torch.bfloat16)
    found = agree("aten::native_layer_norm", x, [16], w, w, 1e-5)
    assert found.args["normalized_shape"] == (16,)
    agree("aten::cumsum", x, 1)
    agree("aten::sort", x, 1, False, outputs=2)
    agree("aten::topk", x, 3, 2, True, True, outputs=2)


def test_batch_norm_knows_training() -> None:
    c, x = meta(8, dtype=torch.float32), meta(4, 8, 5, 5)
    call = recorded("aten::native_batch_norm", x, c, c, c, c, False, 0.1, 1e-5)
    found = complete(call, values_recorded=True)
    assert found is not None
    assert found.args["training"] is False
    assert found.outputs[0].shape == (4, 8, 5, 5)


@given(st.lists(st.integers(1, 4), max_size=4), st.data())
def test_broadcasting_is_pytorchs(shape: list[int], data: st.DataObject) -> None:
    ones = [data.draw(st.booleans()) for _ in shape]
    cut = data.draw(st.integers(0, len(shape)))
    other = [1 if one else n for n, one in zip(shape, ones, strict=True)][cut:]
    a, b = meta(*shape), meta(*other)
    found = broadcast((spec(a), spec(b)))
    assert found.shape == tuple(torch.broadcast_shapes(a.shape, b.shape))
