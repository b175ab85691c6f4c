"""ONNX Runtime's blocked convolutions on processors: channels lie in blocks (MLAS's NCHWc).

Its graphs hold them after optimization: `onnxruntime/core/optimizer/nchwc_transformer.cc`. Shapes
stay those of NCHW, channels rounded up to whole blocks; a sum of a skip connection is the
convolution's fourth input.
"""

from __future__ import annotations

from typing import Any

import torch

from gpuscope.program.onnx.call import Call, fused, onnx_operator
from gpuscope.program.onnx.operators.matrix import convolution
from gpuscope.program.onnx.operators.normalization import global_pool, pool

_BLOCK = 16


@onnx_operator("com.microsoft.nchwc::Conv")
def blocked_convolution(call: Call) -> Any:
    """A convolution with its activation, and with a sum where a fourth input is there."""
    made = convolution(call)
    return made if not call.given(3) else made.add_(call.tensor(3))


@onnx_operator("com.microsoft.nchwc::MaxPool", "com.microsoft.nchwc::AveragePool")
def blocked_pool(call: Call) -> Any:
    """As the plain one."""
    return pool(call)


@onnx_operator("com.microsoft.nchwc::GlobalMaxPool", "com.microsoft.nchwc::GlobalAveragePool")
def blocked_global_pool(call: Call) -> Any:
    """As the plain one."""
    return global_pool(call)


@onnx_operator("com.microsoft.nchwc::ReorderInput")
def reorder_input(call: Call) -> Any:
    """Into blocks, from channels first or last."""
    x = call.tensor()
    shape = list(x.shape)
    if call.attribute("channels_last", 0):
        shape = [shape[0], shape[-1], *shape[1:-1]]
    shape[1] = -(-shape[1] // _BLOCK) * _BLOCK
    return fused(call, [x], [(torch.Size(shape), x.dtype)])[0]


@onnx_operator("com.microsoft.nchwc::ReorderOutput")
def reorder_output(call: Call) -> Any:
    """Out of blocks, to channels first or last."""
    x = call.tensor()
    batch, _, *sides = x.shape
    channels = int(call.attribute("channels", x.shape[1]))
    last = call.attribute("channels_last", 0)
    shape = [batch, *sides, channels] if last else [batch, channels, *sides]
    return fused(call, [x], [(torch.Size(shape), x.dtype)])[0]
