"""Scaled dot-product attention as PyTorch issues it: fused, or operator by operator ("math")."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from gpuscope.cost.attention.tiles import attention_flops
from gpuscope.cost.engine import cost_program
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.explanation.operators import Precision, Target, dense, turned, whole
from gpuscope.program.types import Op, Program, TensorSpec

BACKENDS = ("auto", "cudnn", "flash", "efficient", "math")
DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16")
"""What PyTorch's attention exists in."""

_HALF = ("bf16", "fp16")
_CUDNN = ((9, 0), (10, 0))
"""Compute capabilities on which PyTorch prefers cuDNN's kernels (sdp_utils.cpp)."""


@dataclass(frozen=True)
class Attention:
    """One call: sizes, mask, device and implementation.

    Attributes:
        on: the device.
        dtype: of the tensors.
        batch, heads, kv_heads: sequences, query heads, heads of K and V.
        seq, kv_seq: queries and keys of a sequence; one query is a decoding step.
        head_dim: width of a head.
        causal: a query sees only the keys up to its own position.
        backward: the gradients, too.
        backend: one of `BACKENDS`; "auto" is PyTorch's choice.

    Raises:
        InvalidValueError: sizes that cannot be.
        UnsupportedError: the implementation does not take them.
    """

    on: Target
    dtype: Precision
    batch: int
    heads: int
    kv_heads: int
    seq: int
    kv_seq: int
    head_dim: int
    causal: bool = False
    backward: bool = False
    backend: str = "auto"

    def __post_init__(self) -> None:
        for name in ("batch", "heads", "kv_heads", "seq", "kv_seq", "head_dim"):
            whole(name.replace("_", "-"), getattr(self, name))
        if self.heads % self.kv_heads:
            raise InvalidValueError(
                Text(
                    "{heads} query heads cannot share {kv_heads} heads of K and V.",
                    heads=self.heads,
                    kv_heads=self.kv_heads,
                ),
                Text("Each of these serves as many query heads."),
                Text("Type a divisor: --kv-heads 1"),
            )
        if self.backend not in BACKENDS:
            raise InvalidValueError(
                Text("'{backend}' is no implementation of attention.", backend=self.backend),
                "",
                Text("Choose one of: {backends}.", backends=", ".join(BACKENDS)),
            )
        self._check_backend()

    def _check_backend(self) -> None:
        half = self.dtype.name in _HALF
        device = self.on.device
        refused: Text | None = None
        if self.backend in ("flash", "cudnn") and not half:
            refused = Text("It takes fp16 and bf16 only.")
        elif self.backend in ("flash", "cudnn") and self.head_dim > 256:
            refused = Text("It takes heads of at most 256 elements.")
        elif self.backend == "cudnn" and device.compute_capability not in _CUDNN:
            refused = Text("PyTorch uses it on compute capability 9.0 and 10.0.")
        elif self.backend == "cudnn" and self.head_dim % 8:
            refused = Text("It takes heads of a multiple of 8 elements.")
        elif self.backend == "efficient" and self.heads != self.kv_heads:
            refused = Text("It does not share heads of K and V.")
        elif self.backend == "efficient" and self.dtype.name == "fp64":
            refused = Text("It does not compute in float64.")
        if refused:
            raise UnsupportedError(
                Text("The {backend} implementation cannot run this.", backend=self.backend),
                refused,
                Text("Type: --backend auto"),
            )

    @property
    def chosen(self) -> str:
        """The path that PyTorch takes: "flash" (or cuDNN in its place), "efficient", "math"."""
        if self.backend != "auto":
            return self.backend
        if self.dtype.name in _HALF and self.head_dim <= 256:
            return "flash"
        if self.heads == self.kv_heads and self.dtype.name != "fp64":
            return "efficient"
        return "math"

    @property
    def fused(self) -> bool:
        """One kernel holds the scores on chip."""
        return self.chosen != "math"

    @property
    def decode(self) -> bool:
        """One query a head: a step of decoding."""
        return self.seq == 1

    def _spec(self, heads: int, rows: int, storage: int) -> TensorSpec:
        return dense(
            self.batch, heads, rows, self.head_dim, dtype=self.dtype.stored, storage=storage
        )

    @cached_property
    def qkv(self) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        """Queries, keys, values."""
        return (
            self._spec(self.heads, self.seq, 0),
            self._spec(self.kv_heads, self.kv_seq, 1),
            self._spec(self.kv_heads, self.kv_seq, 2),
        )

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The operators in order."""
        return _fused(self) if self.fused else math_ops(self)

    @cached_property
    def program(self) -> Program:
        """A step that is nothing but this call."""
        return Program("attention", self.ops, settings=dict(self.dtype.settings))

    @cached_property
    def kernels(self) -> tuple[tuple[Kernel, ...], ...]:
        """What each operator launches, what is left in L2 by the one before included."""
        costed = cost_program(self.program, self.on.device, self.on.calibration)
        return tuple(item.kernels for item in costed.ops)

    @property
    def every_kernel(self) -> tuple[Kernel, ...]:
        """All launches in order."""
        return tuple(kernel for each in self.kernels for kernel in each)

    @property
    def duration_s(self) -> float:
        """All kernels one after the other."""
        return sum(kernel.duration_s for kernel in self.every_kernel)

    @property
    def flops(self) -> float:
        """Useful FLOPs: two products forward, five backward (scores recomputed) where fused,
        four where they were kept."""
        forward = attention_flops(*self.qkv, self.causal)
        if not self.backward:
            return forward
        return forward * (3.5 if self.fused else 3.0)

    @property
    def moved_bytes(self) -> float:
        """Bytes that cross device memory."""
        return sum(k.read_bytes + k.written_bytes for k in self.every_kernel)

    @property
    def main(self) -> Kernel:
        """The longest kernel of the forward pass."""
        return max(
            self.kernels[0] if self.fused else self.every_kernel,
            key=lambda kernel: kernel.duration_s,
        )

    def other(self, **changes: object) -> Attention:
        """The same call with other sizes."""
        return replace(self, **changes)  # type: ignore[arg-type]


def _fused(case: Attention) -> tuple[Op, ...]:
    q, k, v = case.qkv
    out = replace(q, storage=3)
    sums = dense(case.batch, case.heads, case.seq, dtype="float32", storage=4)
    backend = case.chosen if case.chosen != "cudnn" else "flash"
    args: dict[str, object] = {
        "mask": None,
        "dropout_p": 0.0,
        "causal": case.causal,
        "scale": None,
        "backend": backend,
    }
    if case.backend != "auto":
        args["implementation"] = case.backend
    forward = Op(0, "gpuscope::attention", inputs=(q, k, v), outputs=(out, sums), args=args)
    if not case.backward:
        return (forward,)
    grads = tuple(replace(t, storage=at) for at, t in enumerate((q, k, v), 6))
    backward = Op(
        1,
        "gpuscope::attention_backward",
        inputs=(replace(out, storage=5), q, k, v, out, sums),
        outputs=grads,
        args=args,
        phase="backward",
    )
    return forward, backward


class _Tape:
    """Operators as they are issued, each result in memory of its own."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._next = 100

    def call(
        self,
        name: str,
        inputs: tuple[TensorSpec, ...],
        shape: tuple[int, ...],
        made: str,
        **args: object,
    ) -> TensorSpec:
        """An operator whose result is of dtype `made`."""
        self._next += 1
        out = dense(*shape, dtype=made, storage=self._next)
        return self.issue(name, inputs, out, **args)

    def same(self, name: str, spec: TensorSpec, made: str = "", **args: object) -> TensorSpec:
        """An operator whose result has the shape and strides of its input."""
        self._next += 1
        out = replace(spec, dtype=made or spec.dtype, storage=self._next)
        return self.issue(name, (spec,), out, **args)

    def issue(
        self, name: str, inputs: tuple[TensorSpec, ...], out: TensorSpec, **args: object
    ) -> TensorSpec:
        """An operator with its result."""
        self.ops.append(
            Op(len(self.ops), f"aten::{name}", inputs=inputs, outputs=(out,), args=args)
        )
        return out


def _flat(spec: TensorSpec) -> TensorSpec:
    """[B, H, S, D] as a batch of matrices."""
    rows, columns = spec.shape[-2:]
    return replace(
        spec, shape=(prod(spec.shape[:-2]), rows, columns), stride=(rows * columns, columns, 1)
    )


def math_ops(case: Attention) -> tuple[Op, ...]:
    """`_scaled_dot_product_attention_math`, operator by operator.

    Half precision is computed in float32, as PyTorch does by default; a causal mask is written
    out and added (aten/src/ATen/native/transformers/attention.cpp).
    """
    tape = _Tape()
    q, k, v = case.qkv
    wide = "float32" if case.dtype.name in _HALF else case.dtype.stored
    if wide != case.dtype.stored:
        q, k, v = (tape.call("_to_copy", (t,), t.shape, wide, dtype=wide) for t in (q, k, v))
    if case.heads != case.kv_heads:
        k, v = (_repeated(tape, case, t) for t in (k, v))
    pairs = (case.batch, case.heads, case.seq, case.kv_seq)
    mask = _mask(tape, case, wide) if case.causal else None
    q = tape.call("mul", (q,), q.shape, wide, other=0.5)
    k = turned(tape.same("mul", turned(k), other=0.5))
    scores = _bmm(tape, _flat(q), turned(_flat(k)))
    scores = replace(scores, shape=pairs, stride=dense(*pairs, dtype=wide).stride)
    if mask is not None:
        scores = tape.call("add", (scores, mask), pairs, wide)
    weights = _safe_softmax(tape, scores)
    out = _bmm(tape, _flat(weights), _flat(v))
    if wide != case.dtype.stored:
        tape.call("_to_copy", (out,), out.shape, case.dtype.stored, dtype=case.dtype.stored)
    if case.backward:
        _math_backward(tape, case, (q, k, v, weights), wide)
    return tuple(tape.ops)


def _repeated(tape: _Tape, case: Attention, spec: TensorSpec) -> TensorSpec:
    """Heads of K or V written out once for each query head that shares them."""
    shared = case.heads // case.kv_heads
    shape = (case.batch, case.kv_heads, shared, case.kv_seq, case.head_dim)
    stride = (*spec.stride[:2], 0, *spec.stride[2:])
    wide = replace(spec, shape=shape, stride=stride)
    made = tape.call("clone", (wide,), shape, spec.dtype)
    flat = (case.batch, case.heads, case.kv_seq, case.head_dim)
    return replace(made, shape=flat, stride=dense(*flat, dtype=spec.dtype).stride)


def _mask(tape: _Tape, case: Attention, wide: str) -> TensorSpec:
    shape = (case.seq, case.kv_seq)
    ones = tape.call("ones", (), shape, "bool")
    lower = tape.call("tril", (ones,), shape, "bool")
    numbers = (TensorSpec((), (), wide, "host", storage=at) for at in (98, 99))
    made = tuple(tape.issue("scalar_tensor", (), number) for number in numbers)
    return tape.call("where", (lower, *made), shape, wide)


def _safe_softmax(tape: _Tape, scores: TensorSpec) -> TensorSpec:
    """`aten::_safe_softmax`: rows that are masked throughout are looked for, and set to zero."""
    shape, dtype = scores.shape, scores.dtype
    weights = tape.call("_softmax", (scores,), shape, dtype, dim=-1, half_to_float=False)
    gone = tape.call("isneginf", (scores,), shape, "bool")
    hidden = tape.call("all", (gone,), (*shape[:-1], 1), "bool", dim=-1, keepdim=True)
    zero = tape.call("new_zeros", (weights,), (), dtype, size=())
    return tape.call("where", (hidden, zero, weights), shape, dtype)


def _bmm(tape: _Tape, a: TensorSpec, b: TensorSpec) -> TensorSpec:
    return tape.call("bmm", (a, b), (a.shape[0], a.shape[1], b.shape[2]), a.dtype)


def _math_backward(tape: _Tape, case: Attention, saved: tuple[TensorSpec, ...], wide: str) -> None:
    q, k, v, weights = saved
    grad: TensorSpec = dense(*q.shape, dtype=case.dtype.stored, storage=90)
    if wide != case.dtype.stored:
        grad = tape.call("_to_copy", (grad,), grad.shape, wide, dtype=wide)
    to_v = _bmm(tape, turned(_flat(weights)), _flat(grad))
    to_weights = _bmm(tape, _flat(grad), turned(_flat(v)))
    to_weights = replace(to_weights, shape=weights.shape, stride=weights.stride)
    to_scores = tape.call(
        "_softmax_backward_data",
        (to_weights, weights),
        weights.shape,
        wide,
        dim=-1,
        input_dtype=wide,
    )
    to_k = turned(_bmm(tape, turned(_flat(q)), _flat(to_scores)))
    to_q = _bmm(tape, _flat(to_scores), _flat(k))
    # The gradient of K comes out transposed, and is copied into the layout of K.
    to_k, to_q = tape.same("mul", to_k, other=0.5), tape.same("mul", to_q, other=0.5)
    stored = case.dtype.stored
    if wide != stored:
        tape.same("_to_copy", to_q, stored, dtype=stored)
        to_k = tape.same("_to_copy", to_k, stored, dtype=stored)
    own = dense(*to_k.shape, dtype=stored, storage=91)
    tape.issue("copy_", (own, to_k), own)
    if wide != stored:
        tape.same("_to_copy", to_v, stored, dtype=stored)
