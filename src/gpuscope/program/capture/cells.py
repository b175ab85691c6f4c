"""One step of an LSTM or a GRU: on CUDA two products and one fused kernel.

aten/src/ATen/native/RNN.cpp (`LSTMCell`, `GRUCell`): input and state are multiplied without their
biases, then `_thnn_fused_lstm_cell` or `_thnn_fused_gru_cell` (cuda/RNN.cu) does all the rest. A
CPU-only torch takes it apart gate by gate. The way back is one kernel, too, and a sum for each bias
that differs; what autograd keeps is that of tools/autograd/derivatives.yaml. A plain cell (tanh or
relu) is two products and pointwise kernels on every device.

* `gpuscope::lstm_cell(input_gates, hidden_gates, cx, ...) -> (hy, cy, workspace)`: the workspace
  has the four gates; `gpuscope::lstm_cell_backward -> (gates' gradient, cx's)`.
* `gpuscope::gru_cell(input_gates, hidden_gates, hx, ...) -> (hy, workspace)`: five parts of the
  state's width; `gpuscope::gru_cell_backward -> (input gates' gradient, hidden gates', hx's)`.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["define", "gru_cell", "lstm_cell"]

_GRU_PARTS = 5
"""Of the state's width, in a GRU's workspace (GRU_WORKSPACE_MULTIPLIER, cuda/RNN.cu)."""


def define(library: torch.library.Library) -> None:
    """Define the operators and their shapes on `library` (the "DEF" library of "gpuscope")."""
    given = "Tensor input_gates, Tensor hidden_gates, Tensor state, Tensor? b_ih, Tensor? b_hh"
    library.define(f"lstm_cell({given}) -> (Tensor, Tensor, Tensor)")
    library.define(f"gru_cell({given}) -> (Tensor, Tensor)")
    library.define(
        "lstm_cell_backward(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, "
        "Tensor workspace) -> (Tensor, Tensor)"
    )
    library.define(
        "gru_cell_backward(Tensor grad_hy, Tensor workspace) -> (Tensor, Tensor, Tensor)"
    )
    library.impl("lstm_cell", _lstm_meta, "Meta")
    library.impl("gru_cell", _gru_meta, "Meta")
    library.impl("lstm_cell_backward", _lstm_backward_meta, "Meta")
    library.impl("gru_cell_backward", _gru_backward_meta, "Meta")


def _lstm_meta(gates: Any, hidden: Any, cx: Any, *biases: Any) -> Any:
    return torch.empty_like(cx), torch.empty_like(cx), torch.empty_like(gates)


def _lstm_backward_meta(grad_hy: Any, grad_cy: Any, cx: Any, cy: Any, workspace: Any) -> Any:
    return torch.empty_like(workspace), torch.empty_like(cx)


def _gru_meta(gates: Any, hidden: Any, hx: Any, *biases: Any) -> Any:
    return torch.empty_like(hx), hx.new_empty(hx.shape[0], hx.shape[1] * _GRU_PARTS)


def _gru_backward_meta(grad_hy: Any, workspace: Any) -> Any:
    width = workspace.shape[1] // _GRU_PARTS
    made = [workspace.new_empty(workspace.shape[0], 3 * width) for _ in range(2)]
    return *made, torch.empty_like(grad_hy)


class _Lstm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Any, hidden: Any, cx: Any, *biases: Any) -> Any:
        hy, cy, workspace = torch.ops.gpuscope.lstm_cell(gates, hidden, cx, *biases)
        ctx.save_for_backward(gates, hidden, cx, *biases, cy, workspace)
        ctx.set_materialize_grads(False)
        return hy, cy

    @staticmethod
    def backward(ctx: Any, grad_hy: Any, grad_cy: Any) -> Any:  # type: ignore[override]
        gates, hidden, cx, one, two, cy, workspace = ctx.saved_tensors
        if torch.is_grad_enabled():  # its slopes are wanted in turn
            return torch.ops.aten._thnn_differentiable_lstm_cell_backward(
                grad_hy, grad_cy, gates, hidden, one, two, cx, cy
            )
        grad, grad_cx = torch.ops.gpuscope.lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace)
        of_bias = grad.sum(0) if one is not None else None
        return grad, grad, grad_cx, of_bias, of_bias


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Any, hidden: Any, hx: Any, *biases: Any) -> Any:
        hy, workspace = torch.ops.gpuscope.gru_cell(gates, hidden, hx, *biases)
        ctx.save_for_backward(gates, hidden, hx, *biases, workspace)
        return hy

    @staticmethod
    def backward(ctx: Any, grad_hy: Any) -> Any:  # type: ignore[override]
        gates, hidden, hx, one, two, workspace = ctx.saved_tensors
        if torch.is_grad_enabled():
            return torch.ops.aten._thnn_differentiable_gru_cell_backward(
                grad_hy, gates, hidden, hx, one, two
            )
        made = torch.ops.gpuscope.gru_cell_backward(grad_hy, workspace)
        biases = (made[0].sum(0), made[1].sum(0)) if one is not None else (None, None)
        return *made, *biases


def lstm_cell(x: Any, states: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Replacement of `lstm_cell` for device tensors: (hidden state, cell state)."""
    hx, cx = states
    return _Lstm.apply(x @ w_ih.t(), hx @ w_hh.t(), cx, b_ih, b_hh)


def gru_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Replacement of `gru_cell` for device tensors: the hidden state."""
    return _Gru.apply(x @ w_ih.t(), hx @ w_hh.t(), hx, b_ih, b_hh)
