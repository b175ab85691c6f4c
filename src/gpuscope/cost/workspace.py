"""Memory that libraries ask of the allocator beside the tensors.

* cuBLAS keeps one workspace per handle and stream, and PyTorch keeps one handle per host thread:
  the forward thread and the autograd thread each hold one. Size: 32 MiB from compute capability
  9.0 on, 8.125 MiB (`:4096:2:16:8`) before (aten/src/ATen/cuda/CublasHandlePool.cpp,
  `parseChosenWorkspaceSize`). Seen on an H200: a small MLP's training step holds 64 MiB more
  than its tensors. A captured graph leaves two for each thread: of the stream that it was warmed
  up on, and of the one that it was captured on.
* Convolutions and recurrent layers get a workspace for the length of a call, reductions one for
  partial results, sorts one for indices (see `convolution.workspace`, `reduce_workspace`,
  `sort_workspace` and `transient_bytes`).
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from gpuscope.cost.convolution.workspace import convolution_bytes
from gpuscope.cost.indexing.sort_workspace import sort_bytes
from gpuscope.cost.reduction.workspace import borrowed_bytes
from gpuscope.document.text import Text
from gpuscope.hardware import Device
from gpuscope.program.types import Op, Program, Storage, TensorSpec

_MIB = 2**20
_RNN_EACH_BYTES = 8 * _MIB
"""cuDNN's workspace for the products of one layer in one direction."""

_ONE_WAY, _BOTH_WAYS = 6.0, 10.4
"""Outputs that it keeps besides, and those of a gradient in both directions."""

_GRAPH_STREAMS = 2
"""That a graph's products ran on before its first replay (`torch.cuda.make_graphed_callables`)."""

_UNREDUCED = frozenset(("aten::mse_loss", "aten::smooth_l1_loss"))

_GEMMS = frozenset(
    "mm addmm _addmm_activation bmm baddbmm _scaled_mm linear addbmm mv addmv"
    " linalg_inv_ex _linalg_solve_ex linalg_lu_solve linalg_matrix_exp".split()
)


def with_workspaces(program: Program, device: Device) -> Program:
    """The program with the libraries' memory added for `device`."""
    extra: list[Storage] = []
    next_id = max((s.id for s in program.storages), default=0) + 1
    size = cublas_workspace_bytes(device)
    if size:
        users = {
            (op.phase == "backward", program.replays(op)) for op in program.ops if _is_gemm(op)
        }
        for backward, graphed in sorted(users):
            label = Text("cuBLAS workspace")
            if backward:
                label = Text("cuBLAS workspace (autograd thread)")
            for _ in range(_GRAPH_STREAMS if graphed else 1):
                extra.append(Storage(next_id, size, "workspace", -1, None, "", label))
                next_id += 1
    tf32 = program.settings.get("tf32_cudnn", True)
    for op in program.ops:
        size = transient_bytes(op, device) or convolution_bytes(op, device, tf32)
        if size:
            extra.append(
                Storage(
                    next_id,
                    size,
                    "workspace",
                    op.index,
                    op.index + 1,
                    op.module,
                    f"{op.name} workspace",
                )
            )
            next_id += 1
    if not extra:
        return program
    return replace(program, storages=(*extra, *program.storages))


def _is_gemm(op: Op) -> bool:
    return op.name.rpartition("::")[2] in _GEMMS and any(t.device == "device" for t in op.outputs)


def cublas_workspace_bytes(device: Device) -> int:
    """Bytes of one cuBLAS workspace; 0 for devices without cuBLAS."""
    if device.vendor != "NVIDIA" or device.compute_capability is None:
        return 0
    return 32 * _MIB if device.compute_capability >= (9, 0) else 8 * _MIB + 128 * 1024


def transient_bytes(op: Op, device: Device) -> int:
    """Bytes that an operator borrows while it runs."""
    if device.vendor != "NVIDIA":
        return 0
    if op.name == "gpuscope::attention_backward":
        # A float32 accumulator of dQ, and the row sums of dO * O.
        q = op.inputs[1]
        if q.dtype == "float32":
            return _efficient_bytes(q)
        heads = op.inputs[2].shape[-3] if len(q.shape) == 4 else 1
        groups = q.shape[-3] // max(heads, 1) if len(q.shape) == 4 else 1
        per_head = 2 * q.nbytes if groups > 1 else 0  # dK and dV per query head, then reduced
        return q.numel * 4 + (q.numel // q.shape[-1]) * 4 + per_head
    if op.name.startswith("aten::_fft_"):
        from gpuscope.cost.fourier import fourier_bytes

        return fourier_bytes(op)
    if op.name in ("gpuscope::rnn", "gpuscope::rnn_backward"):
        return _rnn_bytes(op)
    if op.name in _UNREDUCED and op.args.get("reduction") != 0:
        # Loss.cpp and BinaryOps: the differences are written before they are added up.
        return max((t.nbytes for t in op.inputs), default=0)
    if op.name == "aten::_softmax_backward_data":
        # SoftMax.cu multiplies the gradient by the result first, in the wider dtype of both.
        grad, result = op.inputs[:2]
        return int(result.numel * max(grad.itemsize, result.itemsize))
    if op.name == "aten::_cdist_backward":
        from gpuscope.cost.reduction.distance import each_pair

        return int(each_pair(op).nbytes)
    return borrowed_bytes(op, device) or sort_bytes(op)


def _efficient_bytes(q: TensorSpec) -> int:
    """What the memory-efficient backward pass of float32 borrows: dQ in tiles, row sums of dO * O.

    A tile of 64 or (heads wider than 64) 128 queries by 64 features has 16 bytes of lock and count
    beside it (kernel_backward.h, `GradQTempStorage`, `workspace_elements_gq`). dO * O is as large
    as Q, and is gone before. An H200's allocator: 268,697,600 bytes for 2,048 x 8 heads of 50
    queries by 12 features.
    """
    queries, features = q.shape[-2:]
    down = 64 if features <= 64 else 128
    tiles = prod(q.shape[:-2]) * ceil(queries / down) * ceil(features / 64)
    return max(tiles * (16 + 4 * 64 * down), q.nbytes) + q.numel // features * 4


def _rnn_bytes(op: Op) -> int:
    """cuDNN's workspace of a recurrent layer: its weights, 8 MiB a layer and direction, outputs.

    Layers and directions run beside each other, each with a workspace of its own. Read off an H200
    for LSTM, GRU and RNN of 256 to 2000 units, 1 to 4 layers, one and two directions
    (validation/recordings/h200/micro/memory.csv.gz and gaps.jsonl.gz): of the latter's 37 calls
    that borrow more than 50 MiB 35 within 10 % with 6 outputs. In two directions the gradient
    borrows more: 210.5 MiB for two layers of 256 where an output is 16.
    """
    x = op.inputs[0]
    hidden = op.args.get("hidden_size")
    if not isinstance(hidden, int) or len(x.shape) < 2:
        return 0
    layers, ways = op.args.get("num_layers"), 2 if op.args.get("bidirectional") else 1
    count = (layers if isinstance(layers, int) else 1) * ways
    output = x.numel // x.shape[-1] * hidden * ways * x.itemsize
    weights = sum(t.nbytes for t in op.inputs[2:] if len(t.shape) == 2 and t.shape[0] % hidden == 0)
    both = ways == 2 and op.name.endswith("_backward")
    return int((_BOTH_WAYS if both else _ONE_WAY) * output + weights) + count * _RNN_EACH_BYTES
