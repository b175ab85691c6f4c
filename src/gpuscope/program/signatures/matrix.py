"""Matrix products and recurrent layers."""

from __future__ import annotations

from gpuscope.program.signatures.call import Call, Made, dense, rule
from gpuscope.program.types import TensorSpec


def _product(a: TensorSpec, b: TensorSpec) -> tuple[int, ...] | None:
    """Shape of a @ b; None if the shapes do not fit."""
    if len(a.shape) not in (2, 3) or len(a.shape) != len(b.shape):
        return None
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        return None
    return (*a.shape[:-1], b.shape[-1])


@rule("mm", "bmm", "_int_mm", "_scaled_mm")
def mm(call: Call) -> Made | None:
    """a [.., M, K], b [.., K, N], scales of 8-bit operands last."""
    if len(call.tensors) < 2:
        return None
    a, b = call.tensors[:2]
    shape = _product(a, b)
    if shape is None:
        return None
    dtype = a.dtype
    if call.name == "_int_mm":
        dtype = "int32"
    elif call.name == "_scaled_mm":
        dtype = "bfloat16"  # what the 8-bit operands are nearly always turned into
    return Made(f"aten::{call.name}", (a, b, *call.tensors[2:]), (dense(shape, dtype=dtype),))


@rule("addmm", "addmm_", "baddbmm", "baddbmm_", "_addmm_activation")
def addmm(call: Call) -> Made | None:
    """added, a, b, then beta and alpha."""
    if len(call.tensors) < 3:
        return None
    added, a, b = call.tensors[:3]
    shape = _product(a, b)
    if shape is None:
        return None
    name = "addmm" if call.name == "_addmm_activation" else call.name
    beta = call.value(3)
    args = {"beta": beta} if isinstance(beta, (int, float)) else {}
    return Made(f"aten::{name}", (added, a, b), (dense(shape, dtype=a.dtype),), args)


@rule("linear")
def linear(call: Call) -> Made | None:
    """x [.., K], weight [N, K], bias."""
    if len(call.tensors) < 2 or len(call.tensors[1].shape) != 2 or not call.tensors[0].shape:
        return None
    x, weight = call.tensors[:2]
    if x.shape[-1] != weight.shape[-1]:
        return None
    out = dense((*x.shape[:-1], weight.shape[0]), dtype=x.dtype)
    return Made("aten::linear", call.tensors[:3], (out,))


@rule("mv", "addmv", "addmv_")
def mv(call: Call) -> Made | None:
    """[added,] matrix [M, K], vector [K]."""
    at = 0 if call.name == "mv" else 1
    if len(call.tensors) < at + 2 or len(call.tensors[at].shape) != 2:
        return None
    matrix = call.tensors[at]
    if call.tensors[at + 1].shape != (matrix.shape[1],):
        return None
    out = dense((matrix.shape[0],), dtype=matrix.dtype)
    return Made(f"aten::{call.name}", call.tensors[: at + 2], (out,))


@rule("dot", "vdot")
def dot(call: Call) -> Made | None:
    """Two vectors."""
    if len(call.tensors) < 2 or call.tensors[0].shape != call.tensors[1].shape:
        return None
    return Made(f"aten::{call.name}", call.tensors[:2], (dense((), dtype=call.tensors[0].dtype),))


@rule("_cudnn_rnn", "miopen_rnn", "_cudnn_rnn_backward", "miopen_rnn_backward")
def rnn(call: Call) -> Made | None:
    """x [T, B, I], weights, the flat weight buffer, hx [layers x directions, B, H], ..."""
    if not call.tensors or len(call.tensors[0].shape) != 3:
        return None
    x = call.tensors[0]
    weights = [t for t in call.tensors[1:] if len(t.shape) == 2]
    states = [t for t in call.tensors[1:] if len(t.shape) == 3]
    if not weights or not states:
        return None
    depth, batch, hidden = states[0].shape
    gates = weights[0].shape[0] // max(hidden, 1)
    mode = {4: "lstm", 3: "gru"}.get(gates, "rnn_tanh")
    both = depth % 2 == 0 and any(w.shape[1] == 2 * hidden for w in weights)
    both = both or (depth == 2 and len(weights) > 2 and weights[2].shape[1] == x.shape[2] != hidden)
    first = x.shape[0] == batch != x.shape[1]
    backward = call.name.endswith("backward")
    out = x if backward else dense((*x.shape[:2], hidden * (2 if both else 1)), dtype=x.dtype)
    args = {
        "mode": mode,
        "hidden_size": hidden,
        "num_layers": depth // (2 if both else 1),
        "bidirectional": both,
        "batch_first": first,
    }
    outputs = (out, *weights) if backward else (out,)
    return Made(f"aten::{call.name}", call.tensors, outputs, args)
