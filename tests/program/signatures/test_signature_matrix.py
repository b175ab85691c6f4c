"""Products and recurrent layers: outputs equal PyTorch's."""

from __future__ import annotations

import pytest
from signature_oracle import agree, meta, recorded

from gpuscope.program.signatures import complete
from gpuscope.program.types import Op, TensorSpec


def test_products() -> None:
    agree("aten::mm", meta(3, 4), meta(4, 5))
    agree("aten::mm", meta(4, 3).t(), meta(5, 4).t())
    agree("aten::bmm", meta(2, 3, 4), meta(2, 4, 5))
    agree("aten::addmm", meta(5), meta(3, 4), meta(4, 5))
    scaled = recorded("aten::addmm", meta(5), meta(3, 4), meta(4, 5), 0, 1)
    found = complete(scaled, values_recorded=True)
    assert found is not None
    assert found.args["beta"] == 0
    agree("aten::baddbmm", meta(2, 3, 5), meta(2, 3, 4), meta(2, 4, 5))
    agree("aten::mv", meta(3, 4), meta(4))
    agree("aten::dot", meta(4), meta(4))


def test_operands_that_do_not_fit_get_no_answer() -> None:
    for left, right in (((3, 4), (5, 6)), ((3,), (3, 4)), ((2, 3, 4), (3, 4, 5))):
        op = recorded("aten::mm", meta(*left), meta(*right))
        assert complete(op, values_recorded=True) is None
    assert complete(Op(0, "aten::mm"), values_recorded=True) is None


@pytest.mark.parametrize(("gates", "mode"), [(4, "lstm"), (3, "gru"), (1, "rnn_tanh")])
def test_recurrent_layers_tell_their_size(gates: int, mode: str) -> None:
    def dense(*shape: int) -> TensorSpec:
        stride = [1] * len(shape)
        for i in range(len(shape) - 2, -1, -1):
            stride[i] = stride[i + 1] * shape[i + 1]
        return TensorSpec(shape, tuple(stride), "float32")

    weights = []
    for width in (20, 16):  # two layers, one direction
        weights += [dense(gates * 16, width), dense(gates * 16, 16), dense(gates * 16)]
    inputs = (dense(7, 3, 20), *weights, dense(2, 3, 16))
    found = complete(Op(0, "aten::_cudnn_rnn", inputs=inputs), values_recorded=False)
    assert found is not None
    assert found.args["mode"] == mode
    assert (found.args["hidden_size"], found.args["num_layers"]) == (16, 2)
    assert found.args["bidirectional"] is False
    assert found.outputs[0].shape == (7, 3, 16)
