"""Norms, softmax, pooling, reductions."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gpuscope.program.onnx.call import Call, count, fused, onnx_operator, positive_axis
from gpuscope.program.onnx.operators.matrix import padding


@onnx_operator("LayerNormalization")
def layer_norm(call: Call) -> Any:
    """Over the last axes from `axis` on."""
    x = call.tensor()
    shape = x.shape[positive_axis(call.attribute("axis", -1), x.dim()) :]
    weight, bias = call.optional(1), call.optional(2)
    return functional.layer_norm(x, shape, weight, bias, call.attribute("epsilon", 1e-5))


@onnx_operator("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(call: Call) -> Any:
    """Likewise, without a mean."""
    x = call.tensor()
    shape = list(x.shape[positive_axis(call.attribute("axis", -1), x.dim()) :])
    return functional.rms_norm(x, shape, call.optional(1), call.attribute("epsilon", 1e-5))


@onnx_operator(
    "com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization"
)
def skip_norm(call: Call) -> Any:
    """A sum and its norm in one kernel; the sum is written where something else wants it."""
    inputs = [call.tensor(i) for i in range(len(call.values)) if call.given(i)]
    wanted = len(call.node.outputs) > 3 and call.node.outputs[3]
    x = inputs[0]
    made = fused(call, inputs, [(x.shape, x.dtype)] * (2 if wanted else 1), x.shape[-1])
    return (made[0], None, None, made[1]) if wanted else made[0]


@onnx_operator("BatchNormalization")
def batch_norm(call: Call) -> Any:
    """In inference."""
    x, weight, bias, mean, var = (call.tensor(i) for i in range(5))
    eps = call.attribute("epsilon", 1e-5)
    return functional.batch_norm(x, mean, var, weight, bias, False, eps=eps)


@onnx_operator("InstanceNormalization")
def instance_norm(call: Call) -> Any:
    """Each channel of each image by itself."""
    eps = call.attribute("epsilon", 1e-5)
    return functional.instance_norm(
        call.tensor(), weight=call.tensor(1), bias=call.tensor(2), eps=eps
    )


@onnx_operator("GroupNormalization")
def group_norm(call: Call) -> Any:
    """Weights of every channel (from version 21 on), else of every group."""
    x, weight, bias = (call.tensor(i) for i in range(3))
    groups = call.attribute("num_groups")
    if weight.shape[0] != x.shape[1]:
        weight, bias = (w.repeat_interleave(x.shape[1] // groups) for w in (weight, bias))
    return functional.group_norm(x, groups, weight, bias, call.attribute("epsilon", 1e-5))


@onnx_operator("LpNormalization")
def lp_norm(call: Call) -> Any:
    """Along one axis."""
    return functional.normalize(call.tensor(), call.attribute("p", 2), call.attribute("axis", -1))


@onnx_operator("LRN")
def local_norm(call: Call) -> Any:
    """Over neighbouring channels."""
    return functional.local_response_norm(call.tensor(), call.attribute("size"))


@onnx_operator("Softmax", "LogSoftmax")
def softmax(call: Call) -> Any:
    """Before version 13 all axes from `axis` on are one."""
    function = functional.softmax if call.node.kind == "Softmax" else functional.log_softmax
    x = call.tensor()
    if call.opset >= 13:
        return function(x, call.attribute("axis", -1))
    axis = positive_axis(call.attribute("axis", 1), x.dim())
    return function(x.reshape(count(x.shape[:axis]), -1), -1).view(x.shape)


@onnx_operator("MaxPool", "AveragePool", "LpPool")
def pool(call: Call) -> Any:
    """Padding is the smaller side's where it differs."""
    x, kernel = call.tensor(), call.attribute("kernel_shape")
    dims = len(kernel)
    strides = call.attribute("strides", [1] * dims)
    dilations = call.attribute("dilations", [1] * dims)
    begin, end = padding(call, x, kernel, strides, dilations)
    if begin != end:
        x = functional.pad(x, [side for d in reversed(range(dims)) for side in (begin[d], end[d])])
        begin = [0] * dims
    ceil = bool(call.attribute("ceil_mode", 0))
    if call.node.kind == "MaxPool":
        largest: Any = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[
            dims - 1
        ]
        return largest(x, kernel, strides, begin, dilations, ceil)
    average: Any = getattr(functional, f"avg_pool{dims}d")
    return average(x, kernel, strides, begin, ceil, bool(call.attribute("count_include_pad", 0)))


@onnx_operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(call: Call) -> Any:
    """Over all of an image."""
    x = call.tensor()
    axes = tuple(range(2, x.dim()))
    average = call.node.kind == "GlobalAveragePool"
    return x.mean(axes, keepdim=True) if average else x.amax(axes, keepdim=True)


_REDUCED: dict[str, Any] = {
    "ReduceSum": torch.sum,
    "ReduceMean": torch.mean,
    "ReduceMax": torch.amax,
    "ReduceMin": torch.amin,
    "ReduceL1": lambda x, axes, keepdim: torch.linalg.vector_norm(x, 1, axes, keepdim),
    "ReduceL2": lambda x, axes, keepdim: torch.linalg.vector_norm(x, 2, axes, keepdim),
    "ReduceLogSumExp": torch.logsumexp,
    "ReduceLogSum": lambda x, axes, keepdim: torch.sum(x, axes, keepdim).log(),
    "ReduceSumSquare": lambda x, axes, keepdim: torch.sum(x * x, axes, keepdim),
    "ReduceProd": lambda x, axes, keepdim: torch.prod(x, axes[0], keepdim),
}


@onnx_operator(*_REDUCED)
def reduce(call: Call) -> Any:
    """Axes are an attribute before version 18 (of sums: 13)."""
    x = call.tensor()
    axes = call.ints(1, "axes")
    if not axes:
        if call.attribute("noop_with_empty_axes", 0):
            return x
        axes = list(range(x.dim()))
    axes = [positive_axis(axis, x.dim()) for axis in axes]
    return _REDUCED[call.node.kind](x, axes, keepdim=bool(call.attribute("keepdims", 1)))


@onnx_operator("ArgMax", "ArgMin")
def arg(call: Call) -> Any:
    """Indices."""
    function = torch.argmax if call.node.kind == "ArgMax" else torch.argmin
    return function(call.tensor(), call.attribute("axis", 0), bool(call.attribute("keepdims", 1)))


@onnx_operator("CumSum")
def cumsum(call: Call) -> Any:
    """Along a known axis."""
    axes = call.ints(1)
    return torch.cumsum(call.tensor(), axes[0] if axes else 0)


@onnx_operator("TopK")
def topk(call: Call) -> Any:
    """Values and indices."""
    wanted = call.ints(1, "k")
    return tuple(
        torch.topk(
            call.tensor(),
            wanted[0] if wanted else 1,
            call.attribute("axis", -1),
            bool(call.attribute("largest", 1)),
            bool(call.attribute("sorted", 1)),
        )
    )
