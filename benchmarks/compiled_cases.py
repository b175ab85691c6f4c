"""Small functions whose compiled kernels `compiled_kernels.py` measures, by case and size.

Each case names what Inductor fuses into one or two kernels. `make(case, device)` gives the function
and its tensors; the same cases can be captured by gpuscope, so that a model of generated kernels is
held against the same work. Sizes are the bytes of the largest tensor, about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """One function at one size.

    Attributes:
        name: what is computed, a key of `MAKERS`.
        mib: size of the largest tensor, MiB.
        params: further arguments of the maker.
        backward: measure the gradient of the floating-point inputs, too.
        first: measured in the first round, before time runs short.
    """

    name: str
    mib: float
    params: dict[str, Any] = field(default_factory=dict)
    backward: bool = False
    first: bool = False


def _flat(torch: Any, mib: float, dtype: str, device: str) -> Any:
    count = max(1024, int(mib * MIB) // torch.empty((), dtype=getattr(torch, dtype)).itemsize)
    return torch.randn(count // 1024 * 1024, device=device).to(getattr(torch, dtype))


def _rows(torch: Any, mib: float, columns: int, dtype: str, device: str) -> Any:
    itemsize = torch.empty((), dtype=getattr(torch, dtype)).itemsize
    rows = max(8, int(mib * MIB) // (columns * itemsize) // 8 * 8)
    return torch.randn(rows, columns, device=device).to(getattr(torch, dtype))


def pointwise(
    torch: Any, mib: float, device: str, inputs: int = 1, dtype: str = "bfloat16", out: str = ""
) -> tuple[Any, list[Any]]:
    """Sum of products of some inputs, one result."""
    given = [_flat(torch, mib, dtype, device) for _ in range(inputs)]
    target = getattr(torch, out or dtype)

    def run(*tensors: Any) -> Any:
        total = tensors[0].float() * 1.5
        for other in tensors[1:]:
            total = total + other
        return total.to(target)

    return run, given


def two_results(torch: Any, mib: float, device: str) -> tuple[Any, list[Any]]:
    """One read, two written, of different types."""
    return lambda x: (x.to(torch.bfloat16), x * 2 + 1), [_flat(torch, mib, "float32", device)]


def gelu(torch: Any, mib: float, device: str, kind: str = "none") -> tuple[Any, list[Any]]:
    """An activation: special functions on every element."""
    activation = torch.nn.functional.gelu
    return lambda x: activation(x, approximate=kind), [_flat(torch, mib, "bfloat16", device)]


def bias(torch: Any, mib: float, device: str, columns: int = 768) -> tuple[Any, list[Any]]:
    """A broadcast row is added."""
    x = _rows(torch, mib, columns, "bfloat16", device)
    return lambda a, b: torch.relu(a + b), [x, torch.randn(columns, device=device)]


def transpose(torch: Any, mib: float, device: str, kind: str = "heads") -> tuple[Any, list[Any]]:
    """A copy into another order: heads of attention, or rows to columns."""
    if kind == "heads":
        rows = max(8, int(mib * MIB) // 1536 // 512 * 512)
        x = torch.randn(rows // 512, 512, 12, 64, device=device).bfloat16()
        return lambda a: (a * 2).transpose(1, 2).contiguous(), [x]
    x = _rows(torch, mib, 2048, "bfloat16", device)
    return lambda a: (a * 2).t().contiguous(), [x]


def cat(torch: Any, mib: float, device: str) -> tuple[Any, list[Any]]:
    """Three tensors side by side."""
    given = [_rows(torch, mib / 3, 768, "bfloat16", device) for _ in range(3)]
    return lambda a, b, c: torch.cat([a * 2, b, c], dim=1), given


def row_sum(
    torch: Any, mib: float, device: str, columns: int = 1024, dtype: str = "bfloat16"
) -> tuple[Any, list[Any]]:
    """One sum a row."""
    return lambda x: (x.float() * x).sum(-1), [_rows(torch, mib, columns, dtype, device)]


def column_sum(
    torch: Any, mib: float, device: str, columns: int = 768, dtype: str = "bfloat16"
) -> tuple[Any, list[Any]]:
    """One sum a column (gradients of biases and of norms' weights)."""
    return lambda x: x.float().sum(0), [_rows(torch, mib, columns, dtype, device)]


def full_sum(torch: Any, mib: float, device: str) -> tuple[Any, list[Any]]:
    """One sum of all."""
    return lambda x: (x.float() * x).sum(), [_flat(torch, mib, "bfloat16", device)]


def layer_norm(
    torch: Any,
    mib: float,
    device: str,
    columns: int = 768,
    residual: bool = True,
    dropout: float = 0.0,
) -> tuple[Any, list[Any]]:
    """(Dropout,) residual addition and layer norm, as in a transformer."""
    functional = torch.nn.functional
    x = _rows(torch, mib, columns, "bfloat16", device)
    weight, beta = (torch.randn(columns, device=device) for _ in range(2))

    def run(a: Any, b: Any, w: Any, c: Any) -> Any:
        if dropout:
            b = functional.dropout(b, dropout)
        total = a + b if residual else a
        return functional.layer_norm(total.float(), (columns,), w, c).to(torch.bfloat16), total

    return run, [x, torch.randn_like(x), weight, beta]


def rms_norm(torch: Any, mib: float, device: str, columns: int = 4096) -> tuple[Any, list[Any]]:
    """Residual addition and RMS norm."""
    x = _rows(torch, mib, columns, "bfloat16", device)

    def run(a: Any, b: Any, w: Any) -> Any:
        total = a + b
        wide = total.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return w * (wide * scale).to(torch.bfloat16), total

    return run, [x, torch.randn_like(x), torch.randn(columns, device=device).bfloat16()]


def softmax(
    torch: Any,
    mib: float,
    device: str,
    columns: int = 512,
    dtype: str = "bfloat16",
    dropout: float = 0.0,
) -> tuple[Any, list[Any]]:
    """Softmax of rows, as unfused attention has it."""
    functional = torch.nn.functional

    def run(x: Any) -> Any:
        return functional.dropout(torch.softmax(x.float() * 0.125, -1), dropout).to(x.dtype)

    return run, [_rows(torch, mib, columns, dtype, device)]


def dropout(torch: Any, mib: float, device: str) -> tuple[Any, list[Any]]:
    """Random numbers, a mask and a residual."""
    x = _flat(torch, mib, "bfloat16", device)
    return lambda a, b: torch.nn.functional.dropout(a, 0.1) + b, [x, torch.randn_like(x)]


SPECIAL: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda torch, x: x + 1.25,
    "mul_add": lambda torch, x: x * 0.75 + 0.25,
    "relu": lambda torch, x: torch.relu(x - 0.01),
    "where": lambda torch, x: torch.where(x > 0.1, x, x + 0.5),
    "cast": lambda torch, x: (x + 0.5).to(torch.bfloat16).float(),
    "exp": lambda torch, x: torch.exp(-x),
    "expm1": lambda torch, x: torch.expm1(-x.abs()),
    "log": lambda torch, x: torch.log(x.abs() + 2.0),
    "log1p": lambda torch, x: torch.log1p(x.abs()),
    "sin": lambda torch, x: torch.sin(x),
    "cos": lambda torch, x: torch.cos(x),
    "sqrt": lambda torch, x: torch.sqrt(x.abs() + 0.5),
    "rsqrt": lambda torch, x: torch.rsqrt(x.abs() + 0.5),
    "reciprocal": lambda torch, x: torch.reciprocal(x.abs() + 0.5),
    "div": lambda torch, x: (x + 0.5) / (x.abs() + 1.5),
    "tanh": lambda torch, x: torch.tanh(x + 0.25),
    "sigmoid": lambda torch, x: torch.sigmoid(x),
    "silu": lambda torch, x: torch.nn.functional.silu(x),
    "erf": lambda torch, x: torch.erf(x),
    "gelu": lambda torch, x: torch.nn.functional.gelu(x),
    "gelu_tanh": lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
    "softplus": lambda torch, x: torch.nn.functional.softplus(x),
    "mish": lambda torch, x: torch.nn.functional.mish(x),
    "elu": lambda torch, x: torch.nn.functional.elu(x),
    "powf": lambda torch, x: (x.abs() + 0.5) ** 1.3,
    "round": lambda torch, x: torch.round(x * 1.5),
    "int_div": lambda torch, x: ((x.to(torch.int32) + 77777) // 7).float(),
    "atan2": lambda torch, x: torch.atan2(x, x + 1.5),
}
"""What `special` applies: a few operators each, which say what one of them takes."""


def special(
    torch: Any, mib: float, device: str, kind: str = "tanh", times: int = 4
) -> tuple[Any, list[Any]]:
    """A function of every element at so many places, added up: the slope is its instructions.

    Not of its own result: Inductor writes out the argument of each use anew, 2 to the power of
    `times` of them where a function reads it twice.
    """

    def run(x: Any) -> Any:
        return sum(SPECIAL[kind](torch, x + 0.1 * place) for place in range(times))

    return run, [_flat(torch, mib, "float32", device)]


def middle(
    torch: Any,
    mib: float,
    device: str,
    long: int = 48,
    columns: int = 256,
    dtype: str = "bfloat16",
    inputs: int = 1,
    kind: str = "sum",
) -> tuple[Any, list[Any]]:
    """A short axis before the last: a sum of products, a softmax, or the sum that it weighs."""
    itemsize = torch.empty((), dtype=getattr(torch, dtype)).itemsize
    rows = max(8, int(mib * MIB) // (long * columns * itemsize))
    given = [torch.randn(rows, long, columns, device=device).to(getattr(torch, dtype))]
    given += [torch.randn_like(given[0]) for _ in range(inputs - 1)]

    def run(*tensors: Any) -> Any:
        wide = tensors[0].float()
        for other in tensors[1:]:
            wide = wide * other
        if kind == "sum":
            return wide.sum(1)
        weight = torch.softmax(wide, 1)
        return weight.to(tensors[0].dtype) if kind == "softmax" else (weight * tensors[-1]).sum(1)

    return run, given


def batch_norm(
    torch: Any,
    mib: float,
    device: str,
    channels: int = 256,
    side: int = 56,
    last: bool = True,
    residual: bool = False,
) -> tuple[Any, list[Any]]:
    """Batch norm in training, (residual,) and ReLU."""
    images = max(2, int(mib * MIB) // (channels * side * side * 2))
    x = torch.randn(images, channels, side, side, device=device).bfloat16()
    layout = torch.channels_last if last else torch.contiguous_format
    x = x.contiguous(memory_format=layout)
    w, b = (torch.randn(channels, device=device) for _ in range(2))
    mean, var = torch.zeros(channels, device=device), torch.ones(channels, device=device)

    def run(a: Any, r: Any, w: Any, b: Any) -> Any:
        out = torch.nn.functional.batch_norm(a, mean, var, w, b, True)
        return torch.relu(out + r if residual else out)

    return run, [x, torch.randn_like(x), w, b]


def max_pool(torch: Any, mib: float, device: str) -> tuple[Any, list[Any]]:
    """ResNet's pooling, channels last."""
    images = max(2, int(mib * MIB) // (64 * 112 * 112 * 2))
    x = torch.randn(images, 64, 112, 112, device=device).bfloat16()
    x = x.contiguous(memory_format=torch.channels_last)
    return lambda a: torch.nn.functional.max_pool2d(torch.relu(a), 3, 2, 1), [x]


def cross_entropy(
    torch: Any, mib: float, device: str, columns: int = 50257, dtype: str = "bfloat16"
) -> tuple[Any, list[Any]]:
    """A language model's loss of logits."""
    x = _rows(torch, mib, columns, dtype, device)
    labels = torch.randint(0, columns, (x.shape[0],), device=device)
    return lambda a: torch.nn.functional.cross_entropy(a.float(), labels), [x]


def embedding(torch: Any, mib: float, device: str, columns: int = 768) -> tuple[Any, list[Any]]:
    """Rows of a table of 50257, and the gradient, added with atomics."""
    table = torch.randn(50257, columns, device=device)
    rows = max(8, int(mib * MIB) // (columns * 4))
    at = torch.randint(0, 50257, (rows,), device=device)
    return lambda t: torch.nn.functional.embedding(at, t) * 2, [table]


def rotary(torch: Any, mib: float, device: str) -> tuple[Any, list[Any]]:
    """Rotary position embedding of a query in heads."""
    length = max(64, int(mib * MIB) // (32 * 128 * 2))
    x = torch.randn(1, length, 32, 128, device=device).bfloat16()
    angle = torch.randn(length, 128, device=device).bfloat16()

    def run(a: Any, t: Any) -> Any:
        q = a.transpose(1, 2)
        half = torch.cat((-q[..., 64:], q[..., :64]), dim=-1)
        return q * t.cos() + half * t.sin()

    return run, [x, angle]


def adamw(torch: Any, mib: float, device: str, tensors: int = 16) -> tuple[Any, list[Any]]:
    """A compiled optimizer's step: foreach operators, fused."""
    given = [_flat(torch, mib / tensors, "float32", device) for _ in range(tensors)]
    for p in given:
        p.requires_grad_(True)
        p.grad = torch.randn_like(p)
    on_device = device == "cuda"
    rate = torch.tensor(1e-3, device=device) if on_device else 1e-3
    optimizer = torch.optim.AdamW(given, lr=rate, foreach=True, capturable=on_device)
    return lambda *_: optimizer.step(), []


MAKERS: dict[str, Callable[..., tuple[Any, list[Any]]]] = {
    m.__name__: m
    for m in (
        pointwise,
        two_results,
        gelu,
        bias,
        transpose,
        cat,
        row_sum,
        column_sum,
        full_sum,
        layer_norm,
        rms_norm,
        softmax,
        middle,
        special,
        dropout,
        batch_norm,
        max_pool,
        cross_entropy,
        embedding,
        rotary,
        adamw,
    )
}


def make(case: Case, device: str) -> tuple[Any, list[Any]]:
    """The function of a case and its tensors (those that get gradients ask for them)."""
    import torch

    run, given = MAKERS[case.name](torch, case.mib, device, **case.params)
    if case.backward:
        for tensor in given:
            if tensor.is_floating_point():
                tensor.requires_grad_(True)
    return run, given


def _cases() -> tuple[Case, ...]:
    made: list[Case] = []

    def add(
        name: str,
        sizes: tuple[float, ...],
        backward: bool = False,
        first: float = 0.0,
        **params: Any,
    ) -> None:
        made.extend(Case(name, s, params, backward, s == first) for s in sizes)

    add("pointwise", (1, 4, 16, 64, 256, 1024), first=64)
    add("pointwise", (1, 16, 128), first=16, inputs=3)
    add("pointwise", (16, 64), first=16, inputs=8)
    add("pointwise", (1, 128), first=128, dtype="float32", out="bfloat16")
    add("two_results", (64,))
    add("gelu", (16, 128), backward=True, first=128)
    add("gelu", (64,), backward=True, kind="tanh")
    add("bias", (64,), first=64)
    add("transpose", (16, 64), first=64)
    add("transpose", (64,), kind="matrix")
    add("cat", (64,))
    for columns in (128, 1024, 4096, 50257):
        add("row_sum", (64,), columns=columns, first=64)
    add("row_sum", (1, 512), columns=1024)
    for columns, sizes in ((64, (64,)), (768, (2, 16, 256)), (3072, (64,)), (50257, (256,))):
        add("column_sum", sizes, columns=columns, first=64 if columns != 768 else 16)
    add("full_sum", (4, 256), first=256)
    add("layer_norm", (2, 16, 128), backward=True, first=16)
    add("layer_norm", (64,), backward=True, columns=4096)
    add("layer_norm", (16,), backward=True, dropout=0.1, first=16)
    add("layer_norm", (16,), backward=True, columns=384, residual=False)
    add("rms_norm", (16, 128), backward=True, first=128)
    add("softmax", (64,), backward=True, first=64)
    add("softmax", (256,), backward=True, dtype="float32", dropout=0.1)
    add("softmax", (128,), backward=True, columns=4096)
    for long in (6, 16, 33, 48, 64, 100):
        add("middle", (64,), long=long)
        add("middle", (64,), long=long, kind="softmax")
    for columns in (24, 64, 1024):
        add("middle", (64,), columns=columns)
        add("middle", (64,), columns=columns, dtype="float32")
    for dtype in ("bfloat16", "float32"):
        for inputs in (1, 3):
            for kind in ("sum", "softmax", "weighted"):
                add("middle", (16, 256), dtype=dtype, inputs=inputs, kind=kind)
    for kind in SPECIAL:
        for times in (4, 12):
            add("special", (64,), kind=kind, times=times)
    add("middle", (64,), inputs=2, backward=True, kind="weighted")
    add("dropout", (16, 128), backward=True, first=128)
    for channels, side in ((64, 112), (256, 56), (512, 28), (2048, 7), (1024, 14)):
        mib = {64: 98.0, 256: 98.0, 512: 49.0, 1024: 24.5, 2048: 12.25}[channels]
        add("batch_norm", (mib,), backward=True, first=mib, channels=channels, side=side)
    add("batch_norm", (98.0,), backward=True, residual=True)
    add("batch_norm", (98.0, 12.25), backward=True, last=False)
    add("batch_norm", (12.25,), backward=True, channels=256, side=14)
    add("max_pool", (98.0,), backward=True, first=98.0)
    add("cross_entropy", (785.0, 64.0), backward=True, first=785.0)
    add("cross_entropy", (256.0,), backward=True, columns=128256)
    add("embedding", (24.0,), backward=True)
    add("rotary", (32.0,), backward=True)
    add("adamw", (64.0, 512.0), first=512.0)
    return tuple(sorted(made, key=lambda c: not c.first))


CASES = _cases()
"""All cases, the most telling first."""
