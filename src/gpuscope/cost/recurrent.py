"""Recurrent layers as cuDNN runs them: LSTM, GRU and plain RNN.

For each layer the input's product is done for all time steps at once; then every step launches a
small product with the recurrent weights and an elementwise cell, one after the other. Backward does
the same in reverse and finishes with products for the input and the weights. The steps depend on
each other, so a long sequence of a small layer is latency, however fast the device is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel
from gpuscope.cost.copy import fill_kernel
from gpuscope.cost.gemm import Problem, machine_for, plan
from gpuscope.cost.matmul import compute_dtype, gemm_kernel
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

_GATES = {"lstm": 4, "gru": 3}


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer and direction: sizes of its products."""

    seq: int
    batch: int
    inputs: int
    hidden: int
    gates: int


def _layers(work: Work) -> list[_Layer]:
    x = work.op.inputs[0]
    args = work.op.args
    mode = str(args.get("mode", "lstm"))
    hidden = int(str(args.get("hidden_size", x.shape[-1])))
    count = int(str(args.get("num_layers", 1)))
    both = 2 if args.get("bidirectional", False) else 1
    first = bool(args.get("batch_first", False))
    if len(x.shape) < 3:
        seq, batch = x.shape[0], 1
    else:
        seq, batch = (x.shape[1], x.shape[0]) if first else (x.shape[0], x.shape[1])
    gates = _GATES.get(mode, 1)
    width = x.shape[-1]
    found = []
    for layer in range(count):
        size = width if layer == 0 else hidden * both
        found += [_Layer(seq, batch, size, hidden, gates)] * both
    return found


def _product(work: Work, m: int, n: int, k: int, name: str, layout: str = "NT") -> Kernel:
    item = work.op.inputs[0].itemsize
    dtype = compute_dtype(work, work.op.inputs[0].dtype, "tf32_cudnn", True)
    problem = Problem(
        m=m, n=n, k=k, batch=1, dtype=dtype, a_bytes=m * k * item, b_bytes=n * k * item,
        c_bytes=m * n * item, item_bytes=item, layout=layout, hot_a=True, hot_b=True,
    )  # fmt: skip
    found = plan(problem, machine_for(work.device, work.constants, dtype, "matmul"))
    return gemm_kernel(work, problem, machine_for(work.device, work.constants, dtype, "matmul"),
                       found, name, kind="recurrent")  # fmt: skip


def _cell(work: Work, layer: _Layer, name: str, key: str) -> Kernel:
    """The elementwise part of one time step."""
    item = work.op.inputs[0].itemsize
    items = layer.batch * layer.hidden
    moved = items * (layer.gates * 2 + 3) * item
    return kernel(
        work,
        Launch(
            name, "recurrent", 0.0, moved, items * (layer.gates + 2) * item, items=items,
            cycles=work.constants.get(f"recurrent.{key}.cycles", 4.0),
            grid=max(1, ceil(items / 256)), block=256,
            chain_s=work.constants.get(f"recurrent.{key}.base_s", 0.9e-6),
            dtype=work.op.inputs[0].dtype, family="recurrent",
        ),
    )  # fmt: skip


def _bias(work: Work, layer: _Layer) -> Kernel:
    """Sum of the gate gradients over time and batch: few blocks, a long walk."""
    rows = layer.seq * layer.batch
    columns = layer.gates * layer.hidden
    item = work.op.inputs[0].itemsize
    get = work.constants.get
    return kernel(
        work,
        Launch(
            "rnn_bias_gradient", "recurrent", 0.0, rows * columns * item, columns * 8.0,
            items=rows * columns, cycles=0.4, grid=max(1, ceil(columns / 128)), block=1024,
            resident=2, chain_s=1e-6 + rows / 32 * get("recurrent.bias.step_s", 0.23e-6),
            dtype=work.op.inputs[0].dtype, family="recurrent",
        ),
    )  # fmt: skip


@kernel_model("gpuscope::rnn", "aten::_cudnn_rnn", "aten::lstm", "aten::gru", "aten::miopen_rnn",
              "aten::rnn_tanh", "aten::rnn_relu")  # fmt: skip
def rnn(work: Work) -> tuple[Kernel, ...]:
    """Forward: per layer one large product, then a product and a cell for each time step."""
    if not work.outputs or not work.inputs or not work.inputs[0].numel:
        return ()
    kernels: list[Kernel] = []
    for layer in _layers(work):
        wide = layer.gates * layer.hidden
        kernels.append(_product(work, layer.seq * layer.batch, wide, layer.inputs, "rnn_input"))
        step = _product(work, layer.batch, wide, layer.hidden, "rnn_step")
        cell = _cell(work, layer, "rnn_cell", "cell")
        kernels += [step, cell] * layer.seq
    return tuple(kernels)


@kernel_model("gpuscope::rnn_backward", "aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward")
def rnn_backward(work: Work) -> tuple[Kernel, ...]:
    """Backward: a cell and a product a step, then products for inputs, weights and biases."""
    if not work.outputs or not work.inputs or not work.inputs[0].numel:
        return ()
    kernels: list[Kernel] = []
    out = max(work.outputs, key=lambda t: t.numel)
    kernels.append(fill_kernel(work, out))
    for layer in _layers(work):
        rows, wide = layer.seq * layer.batch, layer.gates * layer.hidden
        cell = _cell(work, layer, "rnn_cell_backward", "cell_backward")
        step = _product(work, layer.batch, layer.hidden, wide, "rnn_step_backward", "NN")
        kernels += [cell, step] * layer.seq
        kernels += [
            _product(work, rows, layer.inputs, wide, "rnn_input_gradient", "NN"),
            _bias(work, layer),
            _product(work, layer.inputs, wide, rows, "rnn_weight_gradient", "TN"),
            _product(work, layer.hidden, wide, rows, "rnn_recurrent_weight_gradient", "TN"),
        ]
    return tuple(kernels)

