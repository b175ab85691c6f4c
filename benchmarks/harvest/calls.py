"""One operator call as plain data: taken from a capture, written as JSON, made again on a device.

A tensor is its dtype, shape, strides and what its start lacks of 16 bytes; two arguments that are
one tensor stay one. Values are drawn again: bits decide power, not time, but for whole numbers
that index, which stay below the size of what they index. Calls with anything else in them
(generators with a state, sparse or quantised tensors, objects) are not taken.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Plain = Any
"""What JSON holds."""

INDEXED_BY: dict[str, tuple[int, int]] = {
    "embedding": (0, 0),
    "nll_loss_forward": (0, 1),
    "nll_loss_backward": (1, 1),
    "nll_loss2d_forward": (0, 1),
    "nll_loss2d_backward": (1, 1),
}
"""Operator: which argument's which dimension its whole numbers index."""

ALONG = frozenset(
    "gather gather_backward index_select index_add index_add_ index_copy index_copy_ scatter"
    " scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_".split()
)
"""Operators whose second argument is the dimension of the first that is indexed."""

POSITIVE: dict[str, tuple[int, ...]] = {
    "_fused_adam_": (3, 5),
    "_fused_adamw_": (3, 5),
    "_foreach_sqrt": (0,),
    "_foreach_sqrt_": (0,),
}
"""Operator: which lists are never negative (second moments, steps). Roots of negative numbers, and
divisions of what comes of them, take ways of the arithmetic that are half as fast."""

ATTENTION = "scaled_dot_product_attention"
"""Its "backward" is the gradient alone, of queries, keys and values."""

MOST_BYTES = 6 * 2**30
"""Of all arguments together, so that a call fits on any device of today with its results."""


KINDS = {
    "matmul": "mm addmm bmm baddbmm _grouped_mm dot mv addmv _scaled_mm addbmm",
    "convolution": "convolution convolution_backward cudnn_convolution _convolution",
    "recurrent": "_cudnn_rnn _cudnn_rnn_backward _thnn_fused_lstm_cell _thnn_fused_gru_cell",
    "softmax": "_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data"
    " _safe_softmax _masked_softmax",
    "reduction": "sum mean amax amin max min norm linalg_vector_norm var var_mean std std_mean"
    " argmax argmin any all prod cumsum cumprod logsumexp count_nonzero",
    "sort": "sort topk argsort unique_dim _unique2 bincount histc nonzero",
    "copy": "copy_ _to_copy clone cat stack fill_ zero_ zeros ones full arange repeat flip roll"
    " constant_pad_nd zeros_like ones_like full_like new_zeros new_ones new_full slice_backward"
    " select_backward as_strided_scatter slice_scatter",
}
STARTS = {
    "attention": (ATTENTION, "_scaled_dot_product", "_flash_attention", "_efficient_attention"),
    "norm": ("native_", "cudnn_batch_norm", "_fused_rms_norm", "_native_batch"),
    "gather": ("embedding", "index", "_index", "gather", "scatter", "take", "masked_sel"),
    "optimizer": ("_foreach_", "_fused_adam", "_fused_sgd", "_amp_"),
    "loss": ("nll_", "mse_", "smooth_l1", "binary_cross", "huber", "kl_div", "_ctc"),
}
"""Family of kernels: operators, or how their names start; all others are pointwise."""


def kind_of(op: str) -> str:
    """The family of kernels of "mm.default"."""
    name = op.split(".")[0]
    if name.startswith("native_dropout"):
        return "pointwise"
    for kind, names in KINDS.items():
        if name in names.split():
            return kind
    return next((k for k, starts in STARTS.items() if name.startswith(starts)), "pointwise")


class RefusedError(Exception):
    """The call holds something that cannot be made again."""


@dataclass(frozen=True)
class Call:
    """An operator call; a point, as `validation/held_out_kernels.timed` wants them.

    Attributes:
        kind: its family of kernels, for the tables.
        params: "op" (name.overload), "args", "kwargs", "tf32".
    """

    kind: str
    params: dict[str, Plain]

    @property
    def text(self) -> str:
        """The same for equal calls."""
        return json.dumps(self.params, sort_keys=True, separators=(",", ":"))

    @property
    def mark(self) -> str:
        """A short name of it."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    @property
    def sealed(self) -> bool:
        """Nothing is: whole families of models are held out instead (`judge`)."""
        return False

    @property
    def states(self) -> tuple[str, ...]:
        """ "hot" for all; a fifth of them also "cold" (the L2 full of written lines)."""
        return ("hot", "cold") if zlib.crc32(b"cold" + self.text.encode()) % 5 == 0 else ("hot",)

    def build(self) -> Callable[[], object]:
        """Allocate the arguments on "cuda"; what comes back makes the call."""
        import torch

        torch.backends.cuda.matmul.allow_tf32 = self.params["tf32"]
        torch.backends.cudnn.allow_tf32 = self.params["tf32_cudnn"]
        name, overload = self.params["op"].split(".")
        backward = overload == "backward"
        func = getattr(getattr(torch.ops.aten, name), "default" if backward else overload)
        made: list[Any] = []
        if name == "_grouped_mm":
            return _grouped(func, [_made(a, made, 2) for a in self.params["args"]])
        if name in ("native_batch_norm", "native_batch_norm_backward"):
            return _batch_norm(name, [_made(a, made, 2) for a in self.params["args"]])
        bound = _bound(name, self.params["args"])
        args = [_made(a, made, bound) for a in self.params["args"]]
        kwargs = {k: _made(v, made, bound) for k, v in self.params["kwargs"].items()}
        for at in POSITIVE.get(name, ()):
            for tensor in args[at]:
                tensor.abs_()
        if not backward:
            return lambda: func(*args, **kwargs)
        for tensor in args[:3]:
            tensor.requires_grad_()
        out = func(*args, **kwargs)
        grad = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, args[:3], grad, retain_graph=True)


def taken(name: str, args: Any, kwargs: Any) -> dict[str, Plain]:
    """The call as `Call.params`.

    Args:
        name: "mm.default", as `torch.ops.aten` has it.
        args, kwargs: as the dispatcher gave them.

    Raises:
        RefusedError: something in it cannot be made again, or it is too large.
    """
    import torch

    seen: list[Any] = []
    found = {
        "op": name,
        "args": [_plain(a, seen) for a in args],
        "kwargs": {k: _plain(v, seen) for k, v in kwargs.items()},
        "tf32": torch.backends.cuda.matmul.allow_tf32,
        "tf32_cudnn": torch.backends.cudnn.allow_tf32,
    }
    if not any(t.device.type == "cuda" for t in seen):
        raise RefusedError("nothing of it is on the device")
    if sum(_span(t) * t.element_size() for t in seen) > MOST_BYTES:
        raise RefusedError("too large")
    return found


def read(path: Path) -> tuple[dict[str, Call], dict[str, set[str]]]:
    """The distinct calls of a file that `collect` wrote, and the families that make each."""
    found: dict[str, Call] = {}
    families: dict[str, set[str]] = {}
    with gzip.open(path, "rt") as lines:
        for row in map(json.loads, lines):
            for params in row.get("calls", ()):
                call = Call(kind_of(params["op"]), params)
                found.setdefault(call.mark, call)
                families.setdefault(call.mark, set()).add(row["family"])
    return found, families


def _span(tensor: Any) -> int:
    """Elements from the first to the last of a strided tensor."""
    if not tensor.numel():
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def _plain(value: Any, seen: list[Any]) -> Plain:
    import torch

    if isinstance(value, torch.Tensor):
        return _tensor(value, seen)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, torch.SymInt)):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(v, seen) for v in value]
    for word in ("dtype", "layout", "memory_format"):
        if isinstance(value, getattr(torch, word)):
            return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": value.type}
    if isinstance(value, torch.Generator):
        return None
    raise RefusedError(type(value).__name__)


def _tensor(tensor: Any, seen: list[Any]) -> Plain:
    import torch

    for at, other in enumerate(seen):
        if other is tensor or (
            other.untyped_storage()._cdata == tensor.untyped_storage()._cdata
            and other.shape == tensor.shape
            and other.stride() == tensor.stride()
            and other.storage_offset() == tensor.storage_offset()
        ):
            seen.append(tensor)
            return {"same": at}
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.dtype.is_complex:
        raise RefusedError("layout or dtype")
    seen.append(tensor)
    behind = tensor.storage_offset() * tensor.element_size() % 16 // tensor.element_size()
    found: dict[str, Plain] = {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": [int(n) for n in tensor.shape],
        "stride": [int(n) for n in tensor.stride()],
    }
    if behind:
        found["behind"] = behind
    if tensor.device.type != "cuda":
        found["host"] = True
    return found


def _tensors(value: Plain) -> Iterator[dict[str, Plain]]:
    if isinstance(value, dict):
        if "shape" in value:
            yield value
    elif isinstance(value, list):
        for each in value:
            yield from _tensors(each)


def _grouped(func: Any, args: list[Any]) -> Callable[[], object]:
    """A product of groups, whose ends rise evenly to the last row (or column)."""
    import torch

    left, right, ends = args[:3]
    if ends is not None:
        groups = ends.shape[0]
        whole = left.shape[-1] if left.dim() == right.dim() == 2 else max(left.shape[0], 0)
        whole = right.shape[-1] if left.dim() == 3 else whole
        evenly = torch.arange(1, groups + 1, device="cuda") * whole // groups
        args = [left, right, evenly.to(ends.dtype), *args[3:]]
    return lambda: func(*args)


def _batch_norm(name: str, args: list[Any]) -> Callable[[], object]:
    """As a program makes it, for which PyTorch chooses between cuDNN's kernels and its own.

    A capture without a GPU sees the operator of PyTorch's own kernels, which made again by its
    name would always run those (aten/src/ATen/native/Normalization.cpp).
    """
    import torch

    if name == "native_batch_norm":
        return lambda: torch.ops.aten._batch_norm_impl_index(*args, True)
    grad, x, weight, *moving, _, _, train, eps, wanted = args
    bias = None if weight is None else torch.zeros_like(weight)
    *_, mean, inverse, kept, chosen = torch.ops.aten._batch_norm_impl_index(
        x, weight, bias, *moving, train, 0.1, eps, True
    )
    return lambda: torch.ops.aten._batch_norm_impl_index_backward(
        chosen, x, grad, weight, *moving, mean, inverse, train, eps, wanted, kept
    )


def _bound(name: str, args: list[Plain]) -> int:
    """What the whole numbers among the arguments stay below."""
    if name in INDEXED_BY:
        which, dim = INDEXED_BY[name]
        return int(args[which]["shape"][dim])
    if name == "embedding_dense_backward":
        return int(args[2])
    if name in ALONG and args[0]["shape"]:
        return int(args[0]["shape"][args[1]])
    if name.startswith("_index_put_impl") or name in ("index", "index_put", "index_put_"):
        shape = args[0]["shape"]
        sizes = [n for n, i in zip(shape, args[1], strict=False) if i is not None]
        return min(sizes, default=2)
    return 2


def _made(value: Plain, made: list[Any], bound: int) -> Any:
    import torch

    if isinstance(value, list):
        return [_made(v, made, bound) for v in value]
    if not isinstance(value, dict):
        return value
    if "same" in value:
        made.append(made[value["same"]])
        return made[-1]
    if "float" in value:
        return float(value["float"])
    if "torch" in value:
        return getattr(torch, value["torch"])
    if "device" in value:
        return torch.device(value["device"])
    made.append(_drawn(value, bound))
    return made[-1]


def _drawn(value: dict[str, Plain], bound: int) -> Any:
    import torch

    dtype, shape = getattr(torch, value["dtype"]), value["shape"]
    strides, behind = value["stride"], value.get("behind", 0)
    device = "cpu" if value.get("host") else "cuda"
    if "places" in value:
        return _places(value["places"], shape, dtype, device)
    empty = not math.prod(shape)
    span = 0 if empty else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if dtype.is_complex or (dtype.is_floating_point and dtype.itemsize > 1):
        flat = torch.randn(span + behind, device=device, dtype=dtype)
    elif dtype.is_floating_point:
        flat = torch.randn(span + behind, device=device, dtype=torch.bfloat16).to(dtype)
    elif dtype is torch.bool:
        flat = torch.rand(span + behind, device=device) > 0.5
    else:
        flat = torch.randint(0, max(bound, 1), (span + behind,), device=device, dtype=dtype)
    return flat.as_strided(shape, strides, behind)


def _places(how: str, shape: list[int], dtype: Any, device: str) -> Any:
    """Of `grid_sample`, in [-1, 1], dense: "anywhere", or "evenly" in the picture's own order.

    Normal ones, without `places`, lie outside by half.
    """
    import torch

    if how == "anywhere":
        return (torch.rand(shape, device=device) * 2 - 1).to(dtype)
    lines = [torch.linspace(-1, 1, n, device=device) for n in shape[1:-1]]
    mesh = torch.stack(torch.meshgrid(*lines, indexing="ij")[::-1], -1)
    return mesh.to(dtype).expand(shape).contiguous()
