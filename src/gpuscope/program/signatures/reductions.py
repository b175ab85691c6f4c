"""Reductions, norms, softmax, scans and sorts: calls that work along dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gpuscope.program.signatures.call import Call, Made, dense, rule
from gpuscope.program.types import TensorSpec

_DIM_AT = {
    "sum": 1,
    "nansum": 1,
    "mean": 1,
    "nanmean": 1,
    "amax": 1,
    "amin": 1,
    "prod": 1,
    "any": 1,
    "all": 1,
    "var": 1,
    "std": 1,
    "var_mean": 1,
    "std_mean": 1,
    "argmax": 1,
    "argmin": 1,
    "max": 1,
    "min": 1,
    "logsumexp": 1,
    "count_nonzero": 1,
    "norm": 2,
    "linalg_vector_norm": 2,
}
"""Position of the dimensions in each schema."""

_WHOLE = frozenset({"sum", "mean", "prod", "any", "all", "max", "min", "norm"})
"""Those with an overload that reduces everything and has no dimensions to name."""


@rule(*_DIM_AT)
def reduce(call: Call) -> Made | None:
    """One result for each slice, or one in all where no dimension is named."""
    if not call.tensors or call.texts is None:
        return None
    spec = call.tensors[0]
    if len(call.tensors) > 1 and call.name in ("max", "min"):
        return Made(f"aten::{call.name}", call.tensors[:2], (broadcast(call.tensors[:2]),))
    at = _DIM_AT[call.name]
    dims = call.integers(at)
    if dims is None and call.name in _WHOLE:
        dims = []
    if dims is None and call.value(at) is not None:
        return None
    chosen = _dims(dims, len(spec.shape))
    if chosen is None:
        return None
    left = [n for d, n in enumerate(spec.shape) if d not in chosen]
    dtype = spec.dtype
    if call.name in ("argmax", "argmin", "count_nonzero"):
        dtype = "int64"
    elif call.name in ("any", "all"):
        dtype = "bool"
    elif call.name in ("sum", "prod") and ("int" in dtype or dtype == "bool"):
        dtype = "int64"
    outputs = [dense(left, dtype=dtype)]
    if call.name in ("max", "min") and dims:
        outputs.append(dense(left, dtype="int64"))
    elif call.name.endswith("_mean"):
        outputs.append(dense(left, dtype=dtype))
    return Made(f"aten::{call.name}", (spec,), tuple(outputs), {"dim": tuple(sorted(chosen))})


def _dims(dims: Sequence[int] | None, rank: int) -> set[int] | None:
    """The reduced dimensions; all where none is named; None if one does not exist."""
    if not dims:
        return set(range(rank))
    if not rank or any(not -rank <= d < rank for d in dims):
        return set() if not rank and all(d in (0, -1) for d in dims) else None
    return {d % rank for d in dims}


def broadcast(specs: Sequence[TensorSpec], dtype: str = "") -> TensorSpec:
    """What an elementwise operation of these tensors makes.

    Raises:
        ValueError: the shapes do not go together.
    """
    rank = max(len(s.shape) for s in specs)
    shape = []
    for d in range(1, rank + 1):
        sizes = {s.shape[-d] for s in specs if len(s.shape) >= d} - {1}
        if len(sizes) > 1:
            raise ValueError("shapes that cannot be broadcast")
        shape.append(sizes.pop() if sizes else 1)
    shape.reverse()
    full = [s for s in specs if s.shape == tuple(shape)]
    return dense(shape, like=full[0] if full else None, dtype=dtype or promoted(specs))


_RANK = (
    "complex128",
    "complex64",
    "float64",
    "float32",
    "bfloat16",
    "float16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)


def promoted(specs: Sequence[TensorSpec]) -> str:
    """Dtype that these tensors are computed in; those without dimensions count only among them."""
    weighty = [s for s in specs if s.shape] or list(specs)
    words = {s.dtype for s in weighty}
    if {"bfloat16", "float16"} <= words:
        return "float32"
    return min(words, key=lambda w: _RANK.index(w) if w in _RANK else len(_RANK))


@rule("_softmax", "_log_softmax", "softmax", "log_softmax", "_safe_softmax", "_masked_softmax")
def softmax(call: Call) -> Made | None:
    """Input, dimension."""
    if not call.tensors:
        return None
    dim = call.value(2 if call.name == "_masked_softmax" else 1)
    args = {"dim": dim} if isinstance(dim, int) else {}
    out = dense(call.tensors[0].shape, like=call.tensors[0])
    return Made(f"aten::{call.name}", call.tensors, (out,), args)


@rule("_softmax_backward_data", "_log_softmax_backward_data", "_masked_softmax_backward")
def softmax_backward(call: Call) -> Made | None:
    """Gradient, result, dimension."""
    if len(call.tensors) < 2:
        return None
    dim = call.value(2)
    args = {"dim": dim} if isinstance(dim, int) and not isinstance(dim, bool) else {}
    return Made(
        f"aten::{call.name}",
        call.tensors,
        (dense(call.tensors[1].shape, like=call.tensors[1]),),
        args,
    )


def _rows(spec: TensorSpec, shape: Sequence[int] | None) -> dict[str, object]:
    return {"normalized_shape": tuple(shape)} if shape else {"normalized_shape": spec.shape[-1:]}


@rule("native_layer_norm", "_fused_rms_norm", "layer_norm", "rms_norm")
def layer_norm(call: Call) -> Made | None:
    """Input, normalized_shape, weight, bias."""
    if not call.tensors or not call.tensors[0].shape:
        return None
    spec = call.tensors[0]
    shape = call.integers(1)
    if shape is None and len(call.tensors) > 1:
        shape = list(call.tensors[1].shape)
    columns = prod(shape) if shape else spec.shape[-1]
    if not columns or spec.numel % columns:
        return None
    stats = dense((spec.numel // columns, 1), dtype="float32")
    outputs = (dense(spec.shape, dtype=spec.dtype), stats, stats)
    return Made(f"aten::{call.name}", call.tensors, outputs, _rows(spec, shape))


@rule("native_layer_norm_backward", "_fused_rms_norm_backward")
def layer_norm_backward(call: Call) -> Made | None:
    """Gradient, input, normalized_shape, mean (not for RMS norm), rstd, weight, bias, mask."""
    if len(call.tensors) < 3:
        return None
    spec = call.tensors[1]
    weights = [t for t in call.tensors[2:] if t.shape == spec.shape[-len(t.shape) :] and t.shape]
    shape = call.integers(2) or (list(weights[0].shape) if weights else None)
    outputs = (dense(spec.shape, dtype=spec.dtype), *(dense(t.shape, like=t) for t in weights))
    return Made(f"aten::{call.name}", call.tensors, outputs, _rows(spec, shape))


@rule(
    "native_batch_norm",
    "cudnn_batch_norm",
    "miopen_batch_norm",
    "_native_batch_norm_legit",
    "_batch_norm_with_update",
    "_batch_norm_no_update",
    "_native_batch_norm_legit_no_training",
)
def batch_norm(call: Call) -> Made | None:
    """Input, weight, bias, running mean and variance, training."""
    if not call.tensors or len(call.tensors[0].shape) < 2:
        return None
    spec = call.tensors[0]
    training = call.flag(5)
    stats = dense((spec.shape[1],), dtype="float32")
    args = {} if training is None else {"training": training}
    return Made(
        f"aten::{call.name}", call.tensors, (dense(spec.shape, like=spec), stats, stats), args
    )


@rule(
    "native_batch_norm_backward",
    "cudnn_batch_norm_backward",
    "miopen_batch_norm_backward",
    "batch_norm_backward",
)
def batch_norm_backward(call: Call) -> Made | None:
    """Gradient and input (cuDNN: the other way about), weight, statistics."""
    if len(call.tensors) < 3 or len(call.tensors[0].shape) < 2:
        return None
    spec = call.tensors[0]
    stats = dense((spec.shape[1],), dtype="float32")
    outputs = (dense(spec.shape, like=spec), stats, stats)
    return Made(f"aten::{call.name}", call.tensors, outputs)


@rule("native_group_norm", "native_group_norm_backward")
def group_norm(call: Call) -> Made | None:
    """Input (gradient first in backward), weight, bias, N, C, HxW, group."""
    backward = call.name.endswith("backward")
    if len(call.tensors) < 1 + backward or call.texts is None:
        return None
    spec = call.tensors[1 if backward else 0]
    groups = call.value(8 if backward else 6)
    if not isinstance(groups, int) or len(spec.shape) < 2:
        return None
    stats = dense((spec.shape[0], groups), dtype="float32")
    outputs = (dense(spec.shape, like=spec), stats, stats)
    return Made(f"aten::{call.name}", call.tensors, outputs, {"group": groups})


@rule("cumsum", "cumsum_", "cumprod", "logcumsumexp", "argsort", "sort", "msort")
def along(call: Call) -> Made | None:
    """Same shape, worked along one dimension; `sort` makes positions too."""
    if not call.tensors:
        return None
    spec = call.tensors[0]
    values = [call.value(i) for i in (1, 2)]
    dims = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    out = dense(spec.shape, like=spec)
    places = dense(spec.shape, like=spec, dtype="int64")
    outputs = {"sort": (out, places), "argsort": (places,)}.get(call.name, (out,))
    default = -1 if "sort" in call.name else 0
    return Made(f"aten::{call.name}", (spec,), outputs, {"dim": dims[0] if dims else default})


@rule("topk")
def topk(call: Call) -> Made | None:
    """Input, k, dimension."""
    k, dim = call.value(1), call.value(2)
    if not call.tensors or not isinstance(k, int) or not call.tensors[0].shape:
        return None
    spec = call.tensors[0]
    at = dim % len(spec.shape) if isinstance(dim, int) else len(spec.shape) - 1
    shape = [k if d == at else n for d, n in enumerate(spec.shape)]
    outputs = (dense(shape, dtype=spec.dtype), dense(shape, dtype="int64"))
    return Made("aten::topk", (spec,), outputs, {"dim": at})
