"""Products, convolutions, attention, recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from gpuscope.document.text import Text
from gpuscope.program.onnx.call import Call, Quantized, onnx_operator


@onnx_operator("MatMul")
def matmul(call: Call) -> Any:
    """Of integers where both sides are quantized."""
    left, right = call.values
    if isinstance(left, Quantized) and isinstance(right, Quantized):
        return _whole_product(call, left.integers, right.integers, left.dtype)
    return torch.matmul(call.tensor(0), call.tensor(1))


def _whole_product(call: Call, left: torch.Tensor, right: torch.Tensor, dtype: Any) -> Any:
    """Tensor cores multiply integers of 8 bits; sums are scaled in the same kernel."""
    if left.dim() < 2 or right.dim() != 2:
        return torch.matmul(left.to(dtype), right.to(dtype))
    rows = left.reshape(-1, left.shape[-1]).view(torch.int8)
    sums = torch._int_mm(rows, right.view(torch.int8))
    return sums.view(torch.float32).view(*left.shape[:-1], right.shape[-1])


@onnx_operator("MatMulInteger", "QLinearMatMul", "com.microsoft::MatMulIntegerToFloat")
def whole_matmul(call: Call) -> Any:
    """Quantized operators of the older form."""
    places = (0, 3) if call.node.kind == "QLinearMatMul" else (0, 1)
    left, right = (call.tensor(place) for place in places)
    made = _whole_product(call, left, right, torch.float16)
    if call.node.kind == "MatMulInteger":
        return made.view(torch.int32) if made.dtype is torch.float32 else made
    return made.view(torch.int32).to(torch.int8) if call.node.kind == "QLinearMatMul" else made


@onnx_operator("Gemm", "gpuscope::MatMulAdd")
def gemm(call: Call) -> Any:
    """With a bias: one call of the library; a batch of rows is one matrix."""
    left, right = call.values[:2]
    if isinstance(left, Quantized) and isinstance(right, Quantized):
        b = right.integers.t() if call.attribute("transB", 0) else right.integers
        made = _whole_product(call, left.integers, b, left.dtype)
        return made if not call.given(2) else made + call.tensor(2)
    a, b = call.tensor(0), call.tensor(1)
    a = a.t() if call.attribute("transA", 0) else a
    b = b.t() if call.attribute("transB", 0) else b
    if not call.given(2):
        return torch.matmul(a, b)
    rows = a.reshape(-1, a.shape[-1])
    made = torch.addmm(
        call.tensor(2), rows, b, beta=call.attribute("beta", 1), alpha=call.attribute("alpha", 1)
    )
    return made.view(*a.shape[:-1], b.shape[-1])


@onnx_operator("com.microsoft::FusedMatMul")
def fused_matmul(call: Call) -> Any:
    """Transposes and a factor are the library's."""
    a, b = call.tensor(0), call.tensor(1)
    a = a.transpose(-1, -2) if call.attribute("transA", 0) else a
    b = b.transpose(-1, -2) if call.attribute("transB", 0) else b
    return torch.matmul(a, b)


@onnx_operator("Einsum")
def einsum(call: Call) -> Any:
    """As PyTorch takes it apart."""
    tensors = [call.tensor(i) for i in range(len(call.values))]
    return torch.einsum(call.attribute("equation"), *tensors)


@onnx_operator("Conv", "com.microsoft::FusedConv")
def convolution(call: Call) -> Any:
    """Padding that is not the same on both sides is a kernel of its own."""
    left, right = call.values[:2]
    if not isinstance(left, Quantized) or not isinstance(right, Quantized):
        return _convolved(call, call.tensor(0), call.tensor(1), call.optional(2))
    if call.network.engine.whole_convolutions:
        # Its sums are scaled in the kernel: integers again, for whoever takes integers.
        made = _convolved(call, left.integers.view(torch.int8), right.integers.view(torch.int8))
        return Quantized(made, left.dtype)
    call.network.note(
        Text(
            "Convolutions of 8-bit integers are taken as those of float16: an upper bound of their "
            "time where the device multiplies integers faster."
        )
    )
    x, weight = (call.network.stand_in(q.integers, torch.float16) for q in (left, right))
    bias = call.optional(2)
    if bias is not None:
        bias = call.network.stand_in(bias, torch.float16)
    return _convolved(call, x, weight, bias)


def _convolved(
    call: Call, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> Any:
    dims = weight.dim() - 2
    strides = call.attribute("strides", [1] * dims)
    dilations = call.attribute("dilations", [1] * dims)
    begin, end = padding(call, x, weight.shape[2:], strides, dilations)
    if begin != end:
        x = functional.pad(x, [side for d in reversed(range(dims)) for side in (begin[d], end[d])])
        begin = [0] * dims
    function = getattr(functional, f"conv{dims}d")
    made: Any = function(x, weight, bias, strides, begin, dilations, call.attribute("group", 1))
    return made


def padding(
    call: Call, x: Any, window: Sequence[int], strides: list[int], dilations: list[int]
) -> tuple[list[int], list[int]]:
    """Rows before and behind in each dimension."""
    dims = len(window)
    mode = call.attribute("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        begin, end = [], []
        for d in range(dims):
            size, kernel = x.shape[d + 2], (window[d] - 1) * dilations[d] + 1
            total = max(0, (-(-size // strides[d]) - 1) * strides[d] + kernel - size)
            small, large = total // 2, total - total // 2
            begin.append(small if mode == "SAME_UPPER" else large)
            end.append(large if mode == "SAME_UPPER" else small)
        return begin, end
    pads = [0] * (2 * dims) if mode == "VALID" else call.attribute("pads", [0] * (2 * dims))
    return list(pads[:dims]), list(pads[dims:])


@onnx_operator("ConvTranspose")
def transposed(call: Call) -> Any:
    """As PyTorch's; what it pads on one side alone is left out."""
    x, weight = call.tensor(0), call.tensor(1)
    dims = weight.dim() - 2
    strides = call.attribute("strides", [1] * dims)
    dilations = call.attribute("dilations", [1] * dims)
    begin, _ = padding(call, x, weight.shape[2:], strides, dilations)
    function: Any = (
        functional.conv_transpose1d,
        functional.conv_transpose2d,
        functional.conv_transpose3d,
    )[dims - 1]
    more = call.attribute("output_padding", [0] * dims)
    group = call.attribute("group", 1)
    return function(x, weight, call.optional(2), strides, begin, more, group, dilations)


@onnx_operator("gpuscope::Attention")
def found_attention(call: Call) -> Any:
    """Queries and values of heads [B, H, S, D], keys turned [B, H, D, S].

    Fused kernels want each head's values side by side: turned keys are laid out so.
    """
    q, k, v = (call.tensor(i) for i in range(3))
    keys = k.transpose(-1, -2).contiguous()
    return functional.scaled_dot_product_attention(q, keys, v, call.optional(3))


@onnx_operator("Attention")
def attention(call: Call) -> Any:
    """Queries, keys, values of heads [B, H, S, D], or [B, S, H*D] with the number of heads."""
    q, k, v = (call.tensor(i) for i in range(3))
    flat = q.dim() == 3
    if flat:
        heads = call.attribute("q_num_heads"), call.attribute("kv_num_heads")
        q, k, v = (
            t.view(*t.shape[:2], h, -1).transpose(1, 2)
            for t, h in zip((q, k, v), (heads[0], heads[1], heads[1]), strict=True)
        )
    if call.given(4):  # keys and values of the tokens before
        k, v = torch.cat((call.tensor(4), k), 2), torch.cat((call.tensor(5), v), 2)
    made = functional.scaled_dot_product_attention(
        q,
        k,
        v,
        call.optional(3),
        is_causal=bool(call.attribute("is_causal", 0)),
        scale=call.attribute("scale"),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    out = made.transpose(1, 2).reshape(*made.shape[:1], made.shape[2], -1) if flat else made
    return (out, k, v) if len(call.node.outputs) > 1 else out


@onnx_operator("com.microsoft::MultiHeadAttention")
def multi_head(call: Call) -> Any:
    """Queries, keys, values [B, S, H*D]."""
    heads = call.attribute("num_heads")
    q, k, v = (
        t.view(*t.shape[:2], heads, -1).transpose(1, 2) for t in (call.tensor(i) for i in range(3))
    )
    made = functional.scaled_dot_product_attention(q, k, v)
    return made.transpose(1, 2).reshape(made.shape[0], made.shape[2], -1)


@onnx_operator("LSTM", "GRU", "RNN")
def recurrent(call: Call) -> Any:
    """One layer, one or two directions, time first; its weights laid out as cuDNN's."""
    x, hidden = call.tensor(0), int(call.attribute("hidden_size"))
    both = call.attribute("direction", "forward") == "bidirectional"
    kind = call.node.kind
    layer = call.network.made_once(
        call.node.name,
        lambda: getattr(torch.nn, kind)(
            x.shape[-1], hidden, bidirectional=both, dtype=x.dtype, device="cuda"
        ),
    )
    out, state = layer(x)
    out = out.view(x.shape[0], x.shape[1], 1 + both, hidden).transpose(1, 2)
    return (out, *state) if isinstance(state, tuple) else (out, state)
