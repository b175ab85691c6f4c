"""Measured matrix products, convolutions and attention, as operators that a cost model can time.

Families and params are those of `gpuscope.measurement.bench`; dtypes are named as the benches do
("tf32" is float32 where TF32 is allowed, which is a setting and not a type).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuscope.program.types import Op, TensorSpec, row_major

Params = Mapping[str, Any]
Settings = tuple[tuple[str, bool], ...]
Made = tuple[tuple[Op, ...], Settings]

TORCH = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "tf32": "float32",
    "int8": "int8",
    "fp8": "float8_e4m3fn",
}
_OUT = {"int8": "int32", "float8_e4m3fn": "bfloat16"}
_PRODUCTS = {
    "mm": "mm",
    "bmm": "bmm",
    "linear_bias": "addmm",
    "int_mm": "_int_mm",
    "scaled_mm": "_scaled_mm",
}


def dense(*shape: int, dtype: str) -> TensorSpec:
    """A row-major tensor."""
    return TensorSpec(shape, row_major(shape), dtype)


def turned(spec: TensorSpec) -> TensorSpec:
    """The view with the last two dimensions exchanged."""
    shape, stride = list(spec.shape), list(spec.stride)
    shape[-2], shape[-1] = shape[-1], shape[-2]
    stride[-2], stride[-1] = stride[-1], stride[-2]
    return TensorSpec(tuple(shape), tuple(stride), spec.dtype)


def product(family: str, p: Params) -> Made:
    """A product [b] m n k; `layout` has a letter an operand, T for stored transposed."""
    dtype = TORCH[str(p["dtype"])]
    m, n, k = (int(p[name]) for name in "mnk")
    batch = (int(p["b"]),) if "b" in p else ()
    layout = str(p["layout"])
    a = dense(*batch, m, k, dtype=dtype)
    b = dense(*batch, k, n, dtype=dtype)
    if layout[0] == "T":
        a = turned(dense(*batch, k, m, dtype=dtype))
    if layout[1] == "T":
        b = turned(dense(*batch, n, k, dtype=dtype))
    out = dense(*batch, m, n, dtype=_OUT.get(dtype, dtype))
    name = _PRODUCTS[family]
    inputs: tuple[TensorSpec, ...] = (a, b)
    if name == "addmm":
        inputs = (dense(n, dtype=dtype), a, b)
    if name == "_scaled_mm":
        rows = m if p.get("rowwise") else 1
        inputs = (a, b, dense(rows, 1, dtype="float32"))
    op = Op(0, f"aten::{name}", inputs=inputs, outputs=(out,))
    return (op,), (("tf32_matmul", p["dtype"] == "tf32"),)


def _image(shape: tuple[int, ...], dtype: str, last: bool) -> TensorSpec:
    """A tensor, channels last or not."""
    order = (0, *range(2, len(shape)), 1) if last else tuple(range(len(shape)))
    stride = [0] * len(shape)
    step = 1
    for dim in reversed(order):
        stride[dim] = step
        step *= shape[dim]
    return TensorSpec(shape, tuple(stride), dtype)


def convolution(family: str, p: Params) -> Made:
    """A convolution of a square image, forward or one of its gradients."""
    n, c, size, k, r = (int(p[name]) for name in ("n", "c", "hw", "k", "r"))
    stride, pad, groups = int(p["stride"]), int(p["pad"]), int(p["groups"])
    dims = int(family[4])
    dtype = TORCH[str(p["dtype"])]
    last = p["layout"] == "nhwc"
    out = (size + 2 * pad - r) // stride + 1
    x = _image((n, c, *[size] * dims), dtype, last)
    weight = _image((k, c // groups, *[r] * dims), dtype, last)
    y = _image((n, k, *[out] * dims), dtype, last)
    args: dict[str, object] = {
        "stride": (stride,) * dims,
        "padding": (pad,) * dims,
        "dilation": (1,) * dims,
        "transposed": False,
        "output_padding": (0,) * dims,
        "groups": groups,
        "output_mask": (p["dir"] == "dgrad", p["dir"] == "wgrad", False),
    }
    settings = (("tf32_cudnn", p["dtype"] == "tf32"),)
    if p["dir"] == "fwd":
        op = Op(0, "aten::convolution", inputs=(x, weight), outputs=(y,), args=args)
    else:
        gradient = x if p["dir"] == "dgrad" else weight
        op = Op(
            0, "aten::convolution_backward", inputs=(y, x, weight), outputs=(gradient,), args=args
        )
    return (op,), settings


def attention(family: str, p: Params) -> Made | None:
    """Attention of PyTorch's own choice; None where a backend was forced or a mask given."""
    if p.get("backend", "default") != "default" or p.get("mask", "none") != "none":
        return None
    dtype = TORCH[str(p["dtype"])]
    shared = p.get("gqa", "none") == "enable"
    heads = int(p["h"])
    of_keys = int(p["hkv"]) if shared else heads
    b, sq, skv, d = (int(p[name]) for name in ("b", "sq", "skv", "d"))
    q = dense(b, heads, sq, d, dtype=dtype)
    k, v = (dense(b, of_keys, skv, d, dtype=dtype) for _ in range(2))
    out = dense(b, heads, sq, d, dtype=dtype)
    args: dict[str, object] = {"causal": bool(p["causal"]), "dropout_p": float(p.get("p", 0.0))}
    if p["dir"] == "fwd":
        op = Op(
            0,
            "gpuscope::attention",
            inputs=(q, k, v),
            outputs=(out,),
            args=args,
            autograd=bool(p.get("grad", False)),
        )
    else:
        op = Op(
            0,
            "gpuscope::attention_backward",
            inputs=(out, q, k, v, out),
            outputs=(q, k, v),
            args=args,
            phase="backward",
        )
    return (op,), ()


BUILDERS: Mapping[str, Callable[[str, Params], Made | None]] = {
    **dict.fromkeys(_PRODUCTS, product),
    "conv1d": convolution,
    "conv2d": convolution,
    "conv3d": convolution,
    "sdpa": attention,
}
"""Family of points -> builder of its operators and settings."""
