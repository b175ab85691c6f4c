"""Quantize and dequantize: pairs around a product make it one of integers."""

from __future__ import annotations

from typing import Any

import torch

from gpuscope.program.onnx.call import Call, Quantized, dtype_of, fused, onnx_operator


@onnx_operator("DequantizeLinear", "com.microsoft::DequantizeLinear")
def dequantize(call: Call) -> Any:
    """Nothing yet: who reads it decides."""
    scale = call.tensor(1)
    return Quantized(call.tensor(), scale.dtype)


@onnx_operator("QuantizeLinear", "com.microsoft::QuantizeLinear")
def quantize(call: Call) -> Any:
    """One kernel that reads and writes; nothing after a convolution of integers.

    Engines that fuse elementwise chains make it a part of the kernel before or behind, as they do
    with every conversion (TensorRT, "Explicit Quantization").
    """
    if isinstance(call.values[0], Quantized):  # the kernel before has written integers
        return call.values[0].integers
    x = call.tensor()
    zero = call.values[2] if call.given(2) else None
    to = torch.uint8 if zero is None else dtype_of(str(zero.dtype).removeprefix("torch."))
    if call.network.engine.pointwise:
        return x.to(to)
    return fused(call, [x], [(x.shape, to)])[0]


@onnx_operator("DynamicQuantizeLinear")
def dynamic(call: Call) -> Any:
    """Two kernels: the range, then the integers."""
    x = call.tensor()
    low, high = torch.aminmax(x)
    made = fused(call, [x], [(x.shape, torch.uint8)])[0]
    return made, high - low, torch.zeros_like(low, dtype=torch.uint8)
