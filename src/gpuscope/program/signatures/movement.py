"""Calls that move elements: copies, concatenation, indexing, padding, pooling, losses."""

from __future__ import annotations

from gpuscope.program.signatures.call import Call, Made, dense, rule
from gpuscope.program.types import TensorSpec


@rule(
    "copy_",
    "fill_",
    "zero_",
    "masked_fill_",
    "masked_fill",
    "index_add_",
    "index_add",
    "scatter_",
    "scatter",
    "scatter_add_",
    "scatter_add",
    "index_copy_",
    "index_copy",
    "index_put_",
    "_index_put_impl_",
    "index_fill_",
    "scatter_reduce_",
    "scatter_reduce",
    "masked_scatter_",
)
def into_first(call: Call) -> Made | None:
    """The first tensor, or one like it, is what comes out."""
    if not call.tensors:
        return None
    first = call.tensors[0]
    accumulate = call.flag(3) if "put" in call.name else None
    args: dict[str, object] = {} if accumulate is None else {"accumulate": accumulate}
    dim = call.value(1)
    if isinstance(dim, int) and not isinstance(dim, bool):
        args["dim"] = dim
    return Made(f"aten::{call.name}", call.tensors, (first,), args)


@rule("clone", "contiguous", "tril", "triu", "tril_", "triu_", "flip", "roll")
def same_shape(call: Call) -> Made | None:
    """One tensor in, one of its shape out."""
    if not call.tensors:
        return None
    spec = call.tensors[0]
    args: dict[str, object] = {}
    if call.name in ("flip", "roll"):
        dims = call.integers(1 if call.name == "flip" else 2)
        args["dims"] = tuple(dims or ())
    like = spec if call.name == "clone" else None
    return Made(
        f"aten::{call.name}", (spec,), (dense(spec.shape, like=like, dtype=spec.dtype),), args
    )


@rule("cat", "concat", "stack")
def cat(call: Call) -> Made | None:
    """Tensors, dimension (the value after the list)."""
    parts = [t for t in call.tensors if t.shape and (t.numel or len(t.shape) > 1)]
    if not parts or call.texts is None:
        return None
    dim = call.value(1)
    dim = dim if isinstance(dim, int) else 0
    rank = len(parts[0].shape)
    if any(len(t.shape) != rank for t in parts):
        return None
    if call.name == "stack":
        at = dim % (rank + 1)
        shape = [*parts[0].shape[:at], len(parts), *parts[0].shape[at:]]
    else:
        at = dim % rank
        if any(
            t.shape[:at] + t.shape[at + 1 :] != parts[0].shape[:at] + parts[0].shape[at + 1 :]
            for t in parts
        ):
            return None
        shape = list(parts[0].shape)
        shape[at] = sum(t.shape[at] for t in parts)
    return Made(
        f"aten::{call.name}", tuple(parts), (dense(shape, dtype=parts[0].dtype),), {"dim": at}
    )


@rule("_chunk_cat", "chunk_cat")
def chunk_cat(call: Call) -> Made | None:
    """Tensors, dimension, chunks, and (last) what they are written to: FSDP's gradients."""
    if len(call.tensors) < 2:
        return None
    *parts, out = call.tensors
    if out.numel < sum(t.numel for t in parts):
        return None
    return Made("aten::_chunk_cat", tuple(parts), (out,), {"dim": 0})


@rule("split_with_sizes_copy", "unbind_copy", "split_copy")
def split_copy(call: Call) -> Made | None:
    """One tensor copied into several: FSDP's gathered parameters."""
    if not call.tensors:
        return None
    whole = call.tensors[0]
    return Made("aten::clone", (whole,), (dense(whole.shape, dtype=whole.dtype),))


@rule("embedding", "index_select")
def embedding(call: Call) -> Made | None:
    """Table, (dimension,) numbers."""
    if len(call.tensors) < 2 or len(call.tensors[0].shape) < 1:
        return None
    table, index = call.tensors[0], call.tensors[1]
    dim = call.value(1) if call.name == "index_select" else 0
    if not isinstance(dim, int):
        return None
    at = dim % len(table.shape)
    shape = (*table.shape[:at], *index.shape, *table.shape[at + 1 :])
    return Made(
        f"aten::{call.name}", (table, index), (dense(shape, dtype=table.dtype),), {"dim": at}
    )


@rule("gather")
def gather(call: Call) -> Made | None:
    """Table, dimension, numbers: a value for each number."""
    if len(call.tensors) < 2:
        return None
    table, index = call.tensors[:2]
    dim = call.value(1)
    args = {"dim": dim} if isinstance(dim, int) else {}
    return Made("aten::gather", (table, index), (dense(index.shape, dtype=table.dtype),), args)


@rule("embedding_dense_backward", "_embedding_bag_dense_backward")
def embedding_backward(call: Call) -> Made | None:
    """Gradient, numbers, ..., rows of the table."""
    rows = call.value(2 if call.name == "embedding_dense_backward" else 5)
    if len(call.tensors) < 2 or not isinstance(rows, int) or not call.tensors[0].shape:
        return None
    grad = call.tensors[0]
    out = dense((rows, grad.shape[-1]), dtype=grad.dtype)
    return Made(f"aten::{call.name}", call.tensors, (out,))


@rule("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(call: Call) -> Made | None:
    """Table, numbers, where each bag begins."""
    if len(call.tensors) < 3 or len(call.tensors[0].shape) != 2:
        return None
    table, _, bags = call.tensors[:3]
    out = dense((bags.numel, table.shape[1]), dtype=table.dtype)
    return Made(f"aten::{call.name}", call.tensors, (out,))


@rule("slice_backward", "select_backward")
def placed_back(call: Call) -> Made | None:
    """Gradient of a part, sizes of the whole."""
    sizes = call.integers(1)
    if not call.tensors or sizes is None:
        return None
    return Made(
        f"aten::{call.name}", call.tensors[:1], (dense(sizes, dtype=call.tensors[0].dtype),)
    )


@rule("constant_pad_nd")
def pad(call: Call) -> Made | None:
    """Input, padding from the last dimension on, two numbers each."""
    sizes = call.integers(1)
    if not call.tensors or sizes is None or len(sizes) % 2:
        return None
    spec = call.tensors[0]
    shape = list(spec.shape)
    if len(sizes) // 2 > len(shape):
        return None
    for i in range(len(sizes) // 2):
        shape[-1 - i] += sizes[2 * i] + sizes[2 * i + 1]
    if min(shape, default=0) < 0:
        return None
    return Made("aten::constant_pad_nd", (spec,), (dense(shape, dtype=spec.dtype),))


@rule("native_dropout", "native_dropout_backward", "_fused_dropout")
def dropout(call: Call) -> Made | None:
    """Input, probability, training."""
    if not call.tensors:
        return None
    spec = call.tensors[0]
    out = dense(spec.shape, like=spec)
    if call.name.endswith("backward"):
        return Made("aten::native_dropout_backward", call.tensors, (out,))
    mask = dense(spec.shape, like=spec, dtype="bool")
    return Made("aten::native_dropout", (spec,), (out, mask))


@rule("max_pool2d_with_indices", "avg_pool2d")
def pool(call: Call) -> Made | None:
    """Input, window, stride, padding, (dilation,) ceil_mode."""
    window, stride, padding = (call.integers(i) for i in (1, 2, 3))
    if not call.tensors or len(call.tensors[0].shape) != 4 or not window:
        return None
    spec = call.tensors[0]
    pooled_max = call.name.startswith("max")
    dilation = call.integers(4) if pooled_max else None
    up = bool(call.flag(5 if pooled_max else 4))
    window = window * 2 if len(window) == 1 else window
    stride = stride or window
    stride = stride * 2 if len(stride) == 1 else stride
    padding = (padding or [0]) * 2 if len(padding or [0]) == 1 else padding or [0, 0]
    dilation = (dilation or [1]) * 2 if len(dilation or [1]) == 1 else dilation or [1, 1]
    sizes = []
    for n, k, s, p, d in zip(spec.shape[2:], window, stride, padding, dilation, strict=True):
        if s < 1:
            return None
        room = n + 2 * p - d * (k - 1) - 1
        size = (-(-room // s) if up else room // s) + 1
        if up and (size - 1) * s >= n + p:
            size -= 1
        sizes.append(size)
    if min(sizes) < 1:
        return None
    out = dense((*spec.shape[:2], *sizes), like=spec)
    places = dense(out.shape, like=out, dtype="int64")
    outputs = (out, places) if pooled_max else (out,)
    return Made(f"aten::{call.name}", (spec,), outputs, {"kernel_size": tuple(window)})


@rule("max_pool2d_with_indices_backward", "avg_pool2d_backward", "_adaptive_avg_pool2d_backward")
def pool_backward(call: Call) -> Made | None:
    """Gradient, input, the window."""
    if len(call.tensors) < 2:
        return None
    spec = call.tensors[1]
    window = call.integers(2)
    args = {"kernel_size": tuple(window)} if window else {}
    return Made(f"aten::{call.name}", call.tensors, (dense(spec.shape, like=spec),), args)


@rule("_adaptive_avg_pool2d")
def adaptive_pool(call: Call) -> Made | None:
    """Input, output size."""
    size = call.integers(1)
    if not call.tensors or len(call.tensors[0].shape) != 4 or size is None or len(size) != 2:
        return None
    spec = call.tensors[0]
    out = dense((*spec.shape[:2], *size), like=spec)
    return Made("aten::_adaptive_avg_pool2d", (spec,), (out,))


@rule("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(call: Call) -> Made | None:
    """Log-probabilities, targets: a loss and a weight."""
    if len(call.tensors) < 2:
        return None
    one = dense((), dtype=call.tensors[0].dtype)
    return Made(f"aten::{call.name}", call.tensors, (one, one))


@rule("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(call: Call) -> Made | None:
    """Gradient, log-probabilities, targets."""
    if len(call.tensors) < 3:
        return None
    spec = call.tensors[1]
    return Made(f"aten::{call.name}", call.tensors, (dense(spec.shape, dtype=spec.dtype),))


@rule(
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
)
def loss(call: Call) -> Made | None:
    """Input, target, (weights,) reduction: none (0), mean (1) or sum (2)."""
    if len(call.tensors) < 2 or call.texts is None:
        return None
    spec = call.tensors[0]
    at = {"binary_cross_entropy": 3, "binary_cross_entropy_with_logits": 4}.get(call.name, 2)
    reduction = call.value(at)
    out: TensorSpec = dense((), dtype=spec.dtype)
    if reduction == 0 and not isinstance(reduction, bool):
        out = dense(spec.shape, like=spec)
    return Made(f"aten::{call.name}", call.tensors[:2], (out,))
