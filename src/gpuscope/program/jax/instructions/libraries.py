"""Calls of cuDNN and others: convolutions and attention with the arrays as PyTorch has them.

Targets and their operands: openxla/xla `xla/service/gpu/cublas_cudnn.cc`; attention's dimension
numbers: jax `jax/_src/cudnn/fused_attention_stablehlo.py`.
"""

from __future__ import annotations

import re

from gpuscope.program.jax.hlo import Instruction
from gpuscope.program.jax.walk import Value, Walk, instruction, unknown
from gpuscope.program.types import TensorSpec


def _permuted(value: Value, order: tuple[int, ...]) -> TensorSpec:
    spec = value.spec
    return TensorSpec(
        tuple(spec.shape[d] for d in order),
        tuple(spec.stride[d] for d in order),
        spec.dtype,
        spec.device,
        spec.storage,
    )


def _order(labels: str, first: str, second: str) -> tuple[int, ...]:
    """Dimensions as PyTorch has them: two by name, then the spatial ones."""
    spatial = sorted((letter, at) for at, letter in enumerate(labels) if letter.isdecimal())
    return (labels.index(first), labels.index(second), *(at for _, at in spatial))


_TARGETS = (
    "__cudnn$convForward",
    "__cudnn$convBiasActivationForward",
    "__cudnn$convBackwardInput",
    "__cudnn$convBackwardFilter",
)


@instruction(*_TARGETS, "convolution")
def convolution(walk: Walk, given: Instruction) -> None:
    """One pass of a convolution."""
    found = re.match(r"(\w+)_(\w+)->(\w+)", given.attributes.get("dim_labels", ""))
    target = given.attributes.get("custom_call_target", "forward")
    values = walk.operands(given)
    if found is None or len(values) < 2:
        unknown(walk, given)
        return
    x_order, y_order = _order(found[1], "b", "f"), _order(found[3], "b", "f")
    w_order = _order(found[2], "o", "i")
    window = given.attributes.get("window", "")
    stride = re.search(r"stride=([\dx]+)", window)
    groups = re.search(r"\d+", given.attributes.get("feature_group_count", "1"))
    args: dict[str, object] = {
        "groups": int(groups[0]) if groups else 1,
        "stride": tuple(map(int, stride[1].split("x"))) if stride else (1,) * (len(x_order) - 2),
    }
    made = walk.result(given)
    first, second, result = values[0], values[1], made[0]
    rest = [each.spec for each in (*values[2:], *made[1:])]
    if target.endswith("BackwardInput"):
        x = _permuted(result, x_order)
        inputs = (_permuted(first, y_order), x, _permuted(second, w_order))
        args["output_mask"] = (True, False, False)
        walk.emit("aten::convolution_backward", inputs, (x, *rest), args)
    elif target.endswith("BackwardFilter"):
        w = _permuted(result, w_order)
        inputs = (_permuted(second, y_order), _permuted(first, x_order), w)
        args["output_mask"] = (False, True, False)
        walk.emit("aten::convolution_backward", inputs, (w, *rest), args)
    else:
        sides = _permuted(first, x_order), _permuted(second, w_order)
        walk.emit("aten::convolution", sides, (_permuted(result, y_order), *rest), args)


def _heads(value: Value, heads: int) -> TensorSpec:
    """Queries, keys or values as [batch, heads, positions, width]."""
    return _permuted(value, (0, 2, 1, 3) if heads == 2 else (0, 1, 2, 3))


def _attention(given: Instruction) -> tuple[int, dict[str, object]]:
    """Which dimension of the queries counts heads, and what kind of attention it is."""
    config = given.config.get("cudnn_fmha_backend_config", {})
    numbers = config.get("bmm1_dot_dimension_numbers") or {}
    batch = numbers.get("lhs_batch_dimensions")
    if not batch:  # the backward pass has those of the product with the keys
        numbers = config.get("bmm1_grad_gemm1_dot_dimension_numbers") or {}
        batch = numbers.get("rhs_batch_dimensions", ("0", "2"))
    causal = "CAUSAL" in str(config.get("mask_type", ""))
    return int(batch[1]), {"causal": causal, "implementation": "cudnn"}


@instruction("__cudnn$fmhaSoftmax", "__cudnn$fmhaScaleBiasSoftmax")
def attention(walk: Walk, given: Instruction) -> None:
    """cuDNN's flash attention, forward."""
    heads, args = _attention(given)
    q, k, v, *rest = walk.operands(given)
    made = walk.result(given)
    inputs = (*(_heads(each, heads) for each in (q, k, v)), *(each.spec for each in rest))
    # What it returns lies as [batch, heads, positions, width] in every layout.
    walk.emit("gpuscope::attention", inputs, [each.spec for each in made], args)


@instruction("__cudnn$fmhaSoftmaxBackward", "__cudnn$fmhaScaleBiasSoftmaxBackward")
def attention_backward(walk: Walk, given: Instruction) -> None:
    """The same, backward: gradients of queries, keys and values."""
    heads, args = _attention(given)
    q, k, v, sums, grad, *rest = walk.operands(given)
    out = rest[-1] if rest else grad
    made = walk.result(given)
    inputs = (*(_heads(each, heads) for each in (grad, q, k, v, out)), sums.spec)
    walk.emit("gpuscope::attention_backward", inputs, [each.spec for each in made], args)


@instruction("fft")
def fourier(walk: Walk, given: Instruction) -> None:
    """cuFFT."""
    inputs = [value.spec for value in walk.operands(given)]
    outputs = [value.spec for value in walk.result(given)]
    kind = given.attributes.get("fft_type", "FFT")
    name = {"RFFT": "aten::_fft_r2c", "IRFFT": "aten::_fft_c2r"}.get(kind, "aten::_fft_c2c")
    rank = len(inputs[0].shape)
    width = len(given.integers("fft_length"))
    walk.emit(name, inputs, outputs, {"dim": tuple(range(rank - width, rank))})


@instruction("__gpu$TopK", "topk")
def topk(walk: Walk, given: Instruction) -> None:
    """XLA's kernel for the k largest."""
    inputs = [value.spec for value in walk.operands(given)]
    outputs = [value.spec for value in walk.result(given)]
    walk.emit("aten::topk", inputs, outputs, {"k": outputs[0].shape[-1]})


@instruction("__cub$")
def radix_sort(walk: Walk, given: Instruction) -> None:
    """CUB's radix sort (`transforms/sort_rewriter.cc`)."""
    inputs = [value.spec for value in walk.operands(given)]
    outputs = [value.spec for value in walk.result(given)]
    walk.emit("aten::sort", inputs, outputs)
