"""Recorded calls of memory-bound kernels, as operators that a cost model can time.

A call of several operators (a composed norm, an optimizer step) becomes several; what was measured
is the sum of its device events. Families and params are those of `gpuscope.measurement.bench`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuscope.program.types import Op, TensorSpec, row_major

NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "tf32": "float32"}

Params = Mapping[str, Any]


def dense(
    *shape: int, dtype: str = "float32", at: int = 0, device: str = "device", pinned: bool = False
) -> TensorSpec:
    """A row-major tensor; `at` is its storage."""
    return TensorSpec(shape, row_major(shape), dtype, device, at, pinned)  # type: ignore[arg-type]


def last(n: int, c: int, h: int, w: int, dtype: str, at: int) -> TensorSpec:
    """A channels-last image batch."""
    return TensorSpec((n, c, h, w), (h * w * c, 1, w * c, c), dtype, "device", at)


def op(
    name: str,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    overload: str = "default",
    **args: object,
) -> Op:
    """An operator without the "aten::"."""
    return Op(0, f"aten::{name}", overload, inputs, outputs, args)


def pointwise(p: Params) -> tuple[Op, ...] | None:
    """Elementwise and copy calls."""
    name, dtype = p["op"], NAMES[p["dtype"]]
    n = p["n"]
    x, y, out = (dense(n, dtype=dtype, at=i) for i in range(3))
    unary = {
        "gelu_tanh": "gelu",
        "mul_scalar": "mul",
        "add_scalar": "add",
        "pow2": "pow",
        "pow3": "pow",
    }
    powers: Mapping[str, Mapping[str, Any]] = {"pow2": {"exponent": 2}, "pow3": {"exponent": 3}}
    args = powers.get(name, {})
    if name in (
        "gelu",
        "silu",
        "relu",
        "tanh",
        "sigmoid",
        "exp",
        "neg",
        "rsqrt",
        "cos",
        "clone",
        *unary,
    ):
        return (op(str(unary.get(name, name)), (x,), (out,), **args),)
    if name in ("fill_", "zero_"):
        return (op(name, (x,), (x,)),)
    if name in ("add", "mul", "div", "gelu_backward", "silu_backward", "threshold_backward"):
        return (op(name, (x, y), (out,)),)
    if name in ("add_", "copy_", "lerp_"):
        return (op(name, (x, y), (x,)),)
    mask = dense(n, dtype="bool", at=5)
    return _pointwise_other(name, n, dtype, x, y, out, mask)


def _pointwise_other(
    name: str, n: int, dtype: str, x: TensorSpec, y: TensorSpec, out: TensorSpec, mask: TensorSpec
) -> tuple[Op, ...] | None:
    side = int(n**0.5)
    square, result = dense(side, side, dtype=dtype, at=0), dense(side, side, dtype=dtype, at=2)
    turned = TensorSpec((side, side), (1, side), dtype, "device", 0)
    made: dict[str, Callable[[], tuple[Op, ...]]] = {
        "dropout": lambda: (op("native_dropout", (x,), (out, mask), p=0.1, train=True),),
        "zeros": lambda: (op("zeros_like", (x,), (out,)),),
        "addcmul": lambda: (op("addcmul", (x, x, y), (out,)),),
        "where": lambda: (op("where", (mask, x, y), (out,)),),
        "masked_fill": lambda: (op("masked_fill", (x, mask), (out,)),),
        "dropout_backward": lambda: (op("native_dropout_backward", (x, mask), (out,)),),
        "to_float32": lambda: (
            ()
            if dtype == "float32"
            else (op("_to_copy", (x,), (dense(n, dtype="float32", at=2),)),)
        ),
        "to_bfloat16": lambda: (
            ()
            if dtype == "bfloat16"
            else (op("_to_copy", (x,), (dense(n, dtype="bfloat16", at=2),)),)
        ),
        "to_float64": lambda: (op("_to_copy", (x,), (dense(n, dtype="float64", at=2),)),),
        "gt_scalar": lambda: (op("gt", (x,), (mask,)),),
        "cat2": lambda: (op("cat", (x, y), (dense(2 * n, dtype=dtype, at=2),), dim=0),),
        "stack4": lambda: (op("stack", (x, x, x, x), (dense(4, n, dtype=dtype, at=2),), dim=0),),
        "transpose_copy": lambda: (op("clone", (turned,), (result,)),),
        "add_transposed": lambda: (op("add", (square, turned), (result,)),),
        "stride2_copy": lambda: (
            op(
                "clone",
                (TensorSpec((side, (side + 1) // 2), (side, 2), dtype, "device", 0),),
                (dense(side, (side + 1) // 2, dtype=dtype, at=2),),
            ),
        ),
        "stride2_rows_copy": lambda: (
            op(
                "clone",
                (TensorSpec(((side + 1) // 2, side), (2 * side, 1), dtype, "device", 0),),
                (dense((side + 1) // 2, side, dtype=dtype, at=2),),
            ),
        ),
        "triu": lambda: (op("triu", (square,), (result,)),),
        "mul_column": lambda: (
            op("mul", (square, TensorSpec((side, 1), (side, 1), dtype, "device", 0)), (result,)),
        ),
        "randn": lambda: (op("randn_like", (x,), (out,)),),
        "bernoulli": lambda: (op("bernoulli_", (x,), (x,)),),
        "arange": lambda: (op("arange", (), (dense(n, dtype="int64", at=2),)),),
    }
    if name in made:
        return made[name]()
    rows = max(1, n // 1024)
    wide = dense(rows, 1024, dtype=dtype, at=0)
    if name in ("add_row", "mul_row"):
        return (
            op(
                name[:3],
                (wide, dense(1024, dtype=dtype, at=1)),
                (dense(rows, 1024, dtype=dtype, at=2),),
            ),
        )
    if name == "qkv_split_copy":
        part = TensorSpec((rows, 1024), (3072, 1), dtype, "device", 0)
        return (op("clone", (part,), (dense(rows, 1024, dtype=dtype, at=2),)),)
    if name == "heads_copy":
        b = max(1, n // (256 * 8 * 64))
        heads = TensorSpec((b, 8, 256, 64), (256 * 8 * 64, 64, 512, 1), dtype, "device", 0)
        return (op("clone", (heads,), (dense(b, 8, 256, 64, dtype=dtype, at=2),)),)
    return None


def working_set(p: Params) -> tuple[Op, ...] | None:
    """Reads, writes and copies of a growing working set."""
    n = int(p["mib"] * 1024 * 1024 / 4)
    x = dense(n, at=0)
    if p["op"] == "ws_read":
        return (op("sum", (x,), (dense(at=2),)),)
    if p["op"] == "ws_write":
        return (op("fill_", (x,), (x,)),)
    half = dense(n // 2, at=0)
    return (op("copy_", (half, dense(n // 2, at=1)), (half,)),)


def reduction(p: Params) -> tuple[Op, ...] | None:
    """Row-wise calls."""
    name, dtype, r, c = p["op"], NAMES[p["dtype"]], p["rows"], p["cols"]
    x, out, grad = (dense(r, c, dtype=dtype, at=i) for i in (0, 2, 3))
    w = dense(c, dtype=dtype, at=1)
    mean = dense(r, 1, at=6)
    target = dense(r, dtype="int64", at=5)
    row, column = dense(r, dtype=dtype, at=7), dense(c, dtype=dtype, at=7)
    loss = dense(dtype=dtype, at=8)
    made: dict[str, tuple[Op, ...]] = {
        "softmax": (op("_softmax", (x,), (out,), dim=-1),),
        "softmax_dim0": (op("_softmax", (x,), (out,), dim=0),),
        "log_softmax": (op("_log_softmax", (x,), (out,), dim=-1),),
        "log_softmax_bwd": (op("_log_softmax_backward_data", (grad, x), (out,), dim=-1),),
        "layer_norm": (
            op("native_layer_norm", (x, w, w), (out, mean, mean), normalized_shape=(c,)),
        ),
        "rms_norm": (op("_fused_rms_norm", (x, w), (out, mean), normalized_shape=(c,)),),
        "layer_norm_bwd": (
            op(
                "native_layer_norm_backward",
                (grad, x, mean, mean, w, w),
                (out, w, w),
                normalized_shape=(c,),
            ),
            op("add", (w, w), (w,)),
        ),
        "rms_norm_bwd": (
            op("_fused_rms_norm_backward", (grad, x, mean, w), (out, w), normalized_shape=(c,)),
        ),
        "sum_all": (op("sum", (x,), (loss,)),),
        "sum_last": (op("sum", (x,), (row,), dim=(-1,)),),
        "sum_first": (op("sum", (x,), (column,), dim=(0,)),),
        "mean_last": (op("mean", (x,), (row,), dim=(-1,)),),
        "max_last": (op("amax", (x,), (row,), dim=(-1,)),),
        "argmax": (op("argmax", (x,), (target,), dim=-1),),
        "norm": (op("linalg_vector_norm", (x,), (loss,)),),
        "var_last": (op("var", (x,), (row,), dim=(-1,)),),
        "cumsum": (op("cumsum", (x,), (out,), dim=-1),),
        "cross_entropy": (
            op("_log_softmax", (x,), (out,), dim=-1),
            op("nll_loss_forward", (out, target), (loss, loss), reduction=1),
        ),
        "cross_entropy_bwd": (
            op("fill_", (loss,), (loss,)),
            op("nll_loss_backward", (loss, out, target, loss), (grad,)),
            op("_log_softmax_backward_data", (grad, out), (out,), dim=-1),
        ),
        "topk50": (
            op(
                "topk",
                (x,),
                (
                    dense(r, min(50, c), dtype=dtype, at=2),
                    dense(r, min(50, c), dtype="int64", at=3),
                ),
                dim=-1,
            ),
        ),
        "sort": (op("sort", (x,), (out, dense(r, c, dtype="int64", at=3)), dim=-1),),
    }
    return made.get(name)


def image(p: Params) -> tuple[Op, ...] | None:
    """Norms, pools and interpolation of images."""
    name, dtype = p["op"], NAMES[p["dtype"]]
    n, c, hw, forward = p["n"], p["c"], p["hw"], p["dir"] == "fwd"

    def make(h: int, at: int, kind: str = dtype) -> TensorSpec:
        return (
            last(n, c, h, h, kind, at)
            if p["layout"] == "nhwc"
            else dense(n, c, h, h, dtype=kind, at=at)
        )

    x, out, grad = make(hw, 0), make(hw, 2), make(hw, 3)
    wide = dense(c, dtype="float32" if name == "batch_norm" else dtype, at=1)
    if name.startswith("batch_norm"):
        train = name == "batch_norm"
        if forward:
            return (
                op(
                    "native_batch_norm",
                    (x, wide, wide, wide, wide),
                    (out, wide, wide),
                    training=train,
                ),
            )
        return (
            op(
                "native_batch_norm_backward",
                (grad, x, wide, wide, wide, wide, wide),
                (out, wide, wide),
                train=True,
            ),
        )
    if name == "group_norm":
        stat = dense(n, 32, dtype=dtype, at=6)
        if forward:
            return (op("native_group_norm", (x, wide, wide), (out, stat, stat), group=32),)
        grads = (dense(n, c, hw, hw, dtype=dtype, at=2), wide, wide)
        dense_in = tuple(dense(n, c, hw, hw, dtype=dtype, at=i) for i in (3, 0))
        return (op("native_group_norm_backward", (*dense_in, stat, stat, wide), grads, group=32),)
    if name == "max_pool":
        small = (hw - 1) // 2 + 1
        index = make(small, 4, "int64")
        if forward:
            return (
                op("max_pool2d_with_indices", (x,), (make(small, 2), index), kernel_size=(3, 3)),
            )
        return (
            op(
                "max_pool2d_with_indices_backward",
                (make(small, 3), x, index),
                (out,),
                kernel_size=(3, 3),
            ),
        )
    if name == "upsample":
        if forward:
            return (op("upsample_nearest2d", (x,), (make(2 * hw, 2),)),)
        return (op("upsample_nearest2d_backward", (make(2 * hw, 3),), (out,)),)
    if name == "avg_pool_global" and forward:
        return (op("mean", (x,), (dense(n, c, 1, 1, dtype=dtype, at=2),), dim=(-1, -2)),)
    return None


def gather(p: Params) -> tuple[Op, ...] | None:
    """Calls."""
    name, dtype = p["op"], NAMES[p["dtype"]]
    v, d, count = p["vocab"], p["dim"], p["count"]
    table, rows = dense(v, d, dtype=dtype, at=0), dense(count, d, dtype=dtype, at=3)
    index = dense(count, dtype="int64", at=1)
    wide = TensorSpec((count, d), (1, 0), "int64", "device", 1)
    bags = dense((count + 3) // 4, d, dtype=dtype, at=2)
    made: dict[str, tuple[Op, ...]] = {
        "embedding": (op("embedding", (table, index), (rows,)),),
        "embedding_backward": (op("embedding_dense_backward", (rows, index), (table,)),),
        "index_select": (op("index_select", (table, index), (rows,), dim=0),),
        "index": (op("index", (table, index), (rows,)),),
        "gather": (op("gather", (table, wide), (rows,), dim=0),),
        "index_put": (op("index_put_", (table, index, rows), (table,)),),
        "index_add": (op("index_add_", (table, index, rows), (table,), dim=0),),
        "scatter_add": (op("scatter_add_", (table, wide, rows), (table,), dim=0),),
        "nonzero": (
            op("gt", (index,), (dense(count, dtype="bool", at=4),)),
            op(
                "nonzero",
                (dense(count, dtype="bool", at=4),),
                (dense(count // 2, 1, dtype="int64", at=5),),
            ),
        ),
        "masked_select": (
            op("gt", (rows,), (dense(count, d, dtype="bool", at=4),)),
            op(
                "masked_select",
                (rows, dense(count, d, dtype="bool", at=4)),
                (dense(count * d // 2, dtype=dtype, at=5),),
            ),
        ),
        "embedding_bag": (
            op(
                "_embedding_bag", (table, index, dense(bags.shape[0], dtype="int64", at=6)), (bags,)
            ),
        ),
        "embedding_bag_backward": (op("_embedding_bag_backward", (bags, index), (table,)),),
    }
    return made[name]


def optimizer(p: Params) -> tuple[Op, ...] | None:
    """Optimizer steps (those that launch list kernels)."""
    name, dtype = p["op"], NAMES[p["dtype"]]
    n = p["tensors"]
    lists = [
        tuple(dense(p["total"] // n, dtype=dtype, at=i * n + j) for j in range(n)) for i in range(5)
    ]
    params, grads, m, v, tmp = lists
    steps = tuple(dense(at=10 * n + j) for j in range(n))
    if name in ("adamw_fused",):
        count = op("_foreach_add_", steps, (), "Scalar")
        return count, op("_fused_adamw_", (*params, *grads, *m, *v, *steps), ())
    if name == "sgd_momentum_fused":
        return (op("_fused_sgd_", (*params, *grads, *m), (), momentum=0.9),)
    if name in ("adamw_foreach", "adam_foreach"):
        decay = (op("_foreach_mul_", params, (), "Scalar"),) if name == "adamw_foreach" else ()
        return (
            *decay,
            op("_foreach_lerp_", (*m, *grads), (), "Scalar"),
            op("_foreach_mul_", v, (), "Scalar"),
            op("_foreach_addcmul_", (*v, *grads, *grads), (), "Scalar"),
            op("_foreach_sqrt", v, tmp),
            op("_foreach_div_", tmp, (), "ScalarList"),
            op("_foreach_add_", tmp, (), "Scalar"),
            op("_foreach_addcdiv_", (*params, *m, *tmp), (), "ScalarList"),
        )
    if name == "sgd_foreach":
        return (op("_foreach_add_", (*params, *grads), (), "List"),)
    if name == "sgd_momentum_foreach":
        return (
            op("_foreach_mul_", m, (), "Scalar"),
            op("_foreach_add_", (*m, *grads), (), "List"),
            op("_foreach_add_", (*params, *m), (), "List"),
        )
    return None


def transfer(p: Params) -> tuple[Op, ...] | None:
    """Copies over the host link."""
    size, name = p["bytes"], p["op"]
    here = dense(size, dtype="uint8", at=0)
    if name == "d2d":
        return (op("copy_", (dense(size, dtype="uint8", at=1), here), (here,)),)
    there = dense(size, dtype="uint8", at=1, device="host", pinned=name.endswith("pinned"))
    if name.startswith("h2d"):
        return (op("copy_", (here, there), (here,)),)
    return (op("copy_", (there, here), (there,)),)


def rnn(p: Params) -> tuple[Op, ...] | None:
    """cuDNN layers: forward, or forward with backward."""
    dtype, hidden, layers = NAMES[p["dtype"]], p["hidden"], p["layers"]
    gates = {"LSTM": 4, "GRU": 3}[p["op"]]
    x = dense(p["seq"], p["batch"], hidden, dtype=dtype, at=0)
    args = {
        "mode": p["op"].lower(),
        "hidden_size": hidden,
        "num_layers": layers,
        "bidirectional": False,
        "batch_first": False,
    }
    weights = tuple(
        dense(gates * hidden, hidden, dtype=dtype, at=10 + i) for i in range(2 * layers)
    )
    forward = Op(
        0, "gpuscope::rnn", "default", (x, *weights), (dense(*x.shape, dtype=dtype, at=2),), args
    )
    if p["dir"] != "fwdbwd":
        return (forward,)
    back = Op(
        0,
        "gpuscope::rnn_backward",
        "default",
        (x, *weights),
        (dense(*x.shape, dtype=dtype, at=3), *weights),
        args,
    )
    return forward, back


BUILDERS: Mapping[str, Callable[[Params], tuple[Op, ...] | None]] = {
    "pointwise": pointwise,
    "working_set": working_set,
    "reduction": reduction,
    "image_reduction": image,
    "gather": gather,
    "optimizer": optimizer,
    "transfer": transfer,
    "rnn": rnn,
}
"""Family of points -> builder of its operators; None where no operator stands for a call."""
