"""Elementwise operators."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gpuscope.program.onnx.call import Call, dtype_of, fused, onnx_operator
from gpuscope.program.onnx.graph import dtype_name

_UNARY: dict[str, str] = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "BitwiseNot": "bitwise_not", "Ceil": "ceil", "Cos": "cos",
    "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor", "IsInf": "isinf",
    "IsNaN": "isnan", "Log": "log", "Neg": "neg", "Not": "logical_not", "Reciprocal": "reciprocal",
    "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin",
    "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_BINARY: dict[str, str] = {
    "Add": "add", "And": "logical_and", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge",
    "Less": "lt", "LessOrEqual": "le", "Mul": "mul", "Or": "logical_or", "Pow": "pow",
    "Sub": "sub", "Xor": "logical_xor",
}  # fmt: skip
_ACTIVATIONS: dict[str, Any] = {
    "HardSwish": functional.hardswish,
    "Mish": functional.mish,
    "Softplus": functional.softplus,
    "Softsign": functional.softsign,
}  # fmt: skip


def _unary(call: Call) -> Any:
    return getattr(torch, _UNARY[call.node.kind])(call.tensor())


def _binary(call: Call) -> Any:
    return _two(getattr(torch, _BINARY[call.node.kind]), call)


def _two(function: Any, call: Call) -> Any:
    """Both inputs, one of them as a number where it is one."""
    left, right = call.scalar_or_tensor(0), call.scalar_or_tensor(1)
    if not isinstance(left, torch.Tensor):
        left = call.tensor(0)
    return function(left, right)


onnx_operator(*_UNARY)(_unary)
onnx_operator(*_BINARY)(_binary)
onnx_operator(*_ACTIVATIONS)(lambda call: _ACTIVATIONS[call.node.kind](call.tensor()))


@onnx_operator("Div")
def divide(call: Call) -> Any:
    """Whole numbers are divided as C does."""
    whole = not call.tensor(0).is_floating_point()
    return _two(lambda a, b: torch.div(a, b, rounding_mode="trunc" if whole else None), call)


@onnx_operator("Mod")
def modulo(call: Call) -> Any:
    """`fmod` takes the sign of the dividend."""
    return _two(torch.fmod if call.attribute("fmod", 0) else torch.remainder, call)


@onnx_operator("Max", "Min", "Sum", "Mean")
def variadic(call: Call) -> Any:
    """Any number of inputs, two by two."""
    pair = {"Max": torch.maximum, "Min": torch.minimum}.get(call.node.kind, torch.add)
    made = call.tensor(0)
    for index in range(1, len(call.values)):
        made = pair(made, call.tensor(index))
    return made / len(call.values) if call.node.kind == "Mean" else made


@onnx_operator("Where")
def where(call: Call) -> Any:
    """Either of two by a condition."""
    return torch.where(call.tensor(0), call.tensor(1), call.tensor(2))


@onnx_operator("Cast", "CastLike")
def cast(call: Call) -> Any:
    """Another dtype."""
    to = (
        call.tensor(1).dtype
        if call.node.kind == "CastLike"
        else dtype_of(dtype_name(call.attribute("to", 1)))
    )
    return call.tensor().to(call.network.float_as(to))


@onnx_operator("Clip")
def clip(call: Call) -> Any:
    """Bounds are attributes before version 11."""
    low = call.known(1).item() if call.given(1) else call.attribute("min")  # type: ignore[union-attr]
    high = call.known(2).item() if call.given(2) else call.attribute("max")  # type: ignore[union-attr]
    return call.tensor() if low is None and high is None else torch.clamp(call.tensor(), low, high)


@onnx_operator("Gelu", "com.microsoft::Gelu")
def gelu(call: Call) -> Any:
    """One kernel."""
    return functional.gelu(call.tensor(), approximate=call.attribute("approximate", "none"))


@onnx_operator("com.microsoft::FastGelu", "com.microsoft::BiasGelu", "com.microsoft::QuickGelu")
def biased_gelu(call: Call) -> Any:
    """The bias is added in the same kernel."""
    inputs = [call.tensor(i) for i in range(len(call.values)) if call.given(i)]
    return fused(call, inputs, [(inputs[0].shape, inputs[0].dtype)])[0]


@onnx_operator("LeakyRelu", "Elu", "Celu", "Selu", "HardSigmoid", "ThresholdedRelu", "Swish")
def slopes(call: Call) -> Any:
    """Activations with a constant: the time is that of any of them."""
    x, alpha = call.tensor(), call.attribute("alpha")
    if call.node.kind == "LeakyRelu":
        return functional.leaky_relu(x, 0.01 if alpha is None else alpha)
    if call.node.kind == "HardSigmoid":
        return functional.hardsigmoid(x)
    if call.node.kind == "ThresholdedRelu":
        return functional.threshold(x, 1.0 if alpha is None else alpha, 0.0)
    return functional.silu(x) if call.node.kind == "Swish" else functional.elu(x)


@onnx_operator("PRelu")
def prelu(call: Call) -> Any:
    """The slope is broadcast."""
    x = call.tensor()
    return torch.where(x < 0, x * call.tensor(1), x)


@onnx_operator("BitShift")
def shift(call: Call) -> Any:
    """Left or right."""
    left = call.attribute("direction") == "LEFT"
    return (torch.bitwise_left_shift if left else torch.bitwise_right_shift)(
        call.tensor(0), call.tensor(1)
    )


@onnx_operator("Dropout", "Identity")
def identity(call: Call) -> Any:
    """Nothing is dropped in inference."""
    return call.values[0]
