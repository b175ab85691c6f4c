"""Operators whose result's size depends on data: their size is assumed, and said so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from gpuscope.document.text import Text
from gpuscope.program.capture.distributed import synchronized
from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.values import Values

SYNCING = frozenset(
    {
        "aten::nonzero",
        "aten::masked_select",
        "aten::_unique2",
        "aten::unique_dim",
        "aten::unique_consecutive",
        "aten::repeat_interleave",
        "aten::bincount",
        "aten::_coalesce",
        "aten::_linalg_svd",
        "aten::_linalg_check_errors",
        "aten::_linalg_eigh",
        "torchvision::nms",
    }
)
"""The host waits for the device to learn their result's size, or whether they succeeded
(benchmarks/micro/synchronisation.py)."""

READING = frozenset(
    "aten::_ctc_loss aten::linalg_eig aten::linalg_matrix_exp aten::segment_reduce".split()
)
"""The host reads values inside of them that decide no size: lengths, norms, whether it converged
(each returned only once a device that slept for 3.5 ms had woken, of 222 calls so tried on an
H200 with PyTorch 2.11; `validation/recordings/h200/host_pace`)."""

SIZED_BY_DATA = SYNCING
"""Results that depend on more than metadata: never answered from memory."""

INDEXING = frozenset(
    {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
)


def index(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """`x[indices]` on the device as CUDA takes it apart, or NotImplemented where it would not.

    A mask becomes integer indices by `nonzero`, for whose size the host waits; indices in host
    memory are copied to the device; a number written through one mask is `masked_fill_`
    (aten/src/ATen/native/TensorAdvancedIndexing.cpp, `make_info`, `canDispatchToMaskedFill`).
    """
    x, indices = args[0], args[1]
    given = [i for i in indices if i is not None]
    masks = [i for i in given if i.dtype in (torch.bool, torch.uint8)]
    if not on_device(x) and not masks:
        return NotImplemented
    if not masks and all(on_device(i) for i in given):
        return NotImplemented
    if name != "aten::index" and len(given) == 1 and masks and not any((*args[3:4],)):
        value = args[2]
        if value.numel() == 1 and not on_device(value) and on_device(masks[0]):
            return _masked_fill(x, indices, masks[0], value, in_place=name.endswith("_"))
    expanded: list[torch.Tensor | None] = []
    for i in indices:
        if i is None:
            expanded.append(None)
            continue
        found = [i]
        if i.dtype in (torch.bool, torch.uint8):
            places = torch.ops.aten.nonzero.default(i)
            found = [torch.ops.aten.select.int(places, 1, d) for d in range(i.dim())]
        expanded.extend(
            f
            if on_device(f) or not on_device(x)
            else torch.ops.aten._to_copy.default(f, device=_device_of(x))
            for f in found
        )
    return func(x, expanded, *args[2:], **kwargs)


def _masked_fill(
    x: torch.Tensor, indices: Any, mask: torch.Tensor, value: torch.Tensor, in_place: bool
) -> torch.Tensor:
    trailing = x.dim() - (len(indices) - 1) - mask.dim()
    for _ in range(trailing):
        mask = torch.ops.aten.unsqueeze.default(mask, -1)
    fill = torch.ops.aten.masked_fill_ if in_place else torch.ops.aten.masked_fill
    filled: torch.Tensor = fill.Tensor(x, mask, value)
    return filled


def histc(args: Any, kwargs: Any) -> torch.Tensor:
    """`torch.histc` on integers, which CUDA has and the CPU's shape rule refuses."""
    bins = kwargs.get("bins", args[1] if len(args) > 1 else 100)
    return torch.empty((int(bins),), dtype=args[0].dtype, device=_device_of(args[0]))


def ctc_loss(args: Any, kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses [N] and the logarithms of the paths' sums [N, T, 2 S + 1] kept for the backward pass.

    T steps of log-probabilities, S the longest target, taken as the width of the targets (or their
    mean, where they stand one after the other): aten/src/ATen/native/cuda/LossCTC.cu.
    """
    log_probs, targets, lengths = args[0], args[1], args[3]
    steps, batch = log_probs.shape[0], log_probs.shape[1]
    longest = targets.shape[1] if targets.dim() > 1 else targets.shape[0] // max(1, batch)
    known = [n for n in lengths if isinstance(n, int)] if isinstance(lengths, (list, tuple)) else []
    alpha = log_probs.new_empty((batch, steps, 2 * max(known, default=longest) + 1))
    return log_probs.new_empty((batch,)), alpha


def ctc_loss_backward(args: Any, kwargs: Any) -> torch.Tensor:
    """The gradient of the log-probabilities."""
    return torch.empty_like(args[1])


def like_input(args: Any, kwargs: Any) -> torch.Tensor:
    """A result like the first argument."""
    return torch.empty_like(args[0])


def in_place(args: Any, kwargs: Any) -> None:
    """What writes to its arguments and returns nothing."""


def compressed_halves(args: Any, kwargs: Any) -> torch.Tensor:
    """2:4 sparsity: half of the values and where they lie, of which each takes two bits.

    aten/src/ATen/native/sparse/cuda/cuSPARSELtOps.cpp, `_cslt_compress`.
    """
    sixteenths = 10 if args[0].element_size() == 1 else 9
    made: torch.Tensor = args[0].new_empty(args[0].numel() * sixteenths // 16)
    return made


def fake_quantized(args: Any, kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Values rounded as training for fewer bits has them, and which were within the range.

    Laid out as the values: aten/src/ATen/native/quantized/FakeQuantPerTensorAffine.cpp.
    """
    return torch.empty_like(args[0]), torch.empty_like(args[0], dtype=torch.bool)


def learnable_quantized(args: Any, kwargs: Any) -> torch.Tensor:
    """The same with a step that is learnt, which keeps no mask."""
    return torch.empty_like(args[0])


def learnable_quantized_backward(args: Any, kwargs: Any) -> tuple[torch.Tensor, ...]:
    """Gradients of the values, the step and the zero point."""
    return tuple(torch.empty_like(t) for t in args[1:4])


def heads_apart(args: Any, kwargs: Any) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values [B, H, T, D / H] of one memory, from a product [B, T, 3 D].

    `transform_bias_rescale_qkv_cuda` in aten/src/ATen/native/transformers/cuda/attention.cu.
    """
    qkv, heads = args[0], args[2]
    batch, length, width = qkv.shape
    made: torch.Tensor = qkv.new_empty((3 * batch, heads, length, width // 3 // heads))
    return torch.split(made, batch)


_FAKE_QUANTIZED = {
    f"aten::{name}": rule
    for way in ("tensor", "channel")
    for name, rule in (
        (f"fake_quantize_per_{way}_affine_cachemask", fake_quantized),
        (f"_fake_quantize_learnable_per_{way}_affine", learnable_quantized),
        (f"_fake_quantize_learnable_per_{way}_affine_backward", learnable_quantized_backward),
    )
}

OWN_SHAPES = {
    **_FAKE_QUANTIZED,
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": fake_quantized,
    "aten::_cslt_compress": compressed_halves,
    "aten::_fused_sgd_": in_place,  # PyTorch 2.6 has no rule for it on a device
    "aten::_transform_bias_rescale_qkv": heads_apart,
    "aten::_masked_softmax": like_input,
    "aten::histc": histc,
    "aten::_ctc_loss": ctc_loss,
    "aten::_ctc_loss_backward": ctc_loss_backward,
    **synchronized.SHAPES,
}
"""Shape rules of CUDA where those of the CPU differ or are missing."""


def like(real: Any, given: torch.Tensor) -> Any:
    """Fakes beside `given` of what the operator really returns."""
    if not isinstance(real, (torch.Tensor, list, tuple)):
        return real
    if isinstance(real, torch.Tensor):
        return torch.empty(tuple(real.shape), dtype=real.dtype, device=_device_of(given))
    return type(real)(like(r, given) for r in real)


_TRIED_BYTES = 2**26
"""Bytes of arguments up to which an operator is tried on zeros: a moment's work."""


def tried(func: Any, args: Any, kwargs: Any) -> Any:
    """Fakes of what an operator returns for zeros in host memory; None where that cannot be had.

    For operators without a shape rule: PyTorch's own kernel for the CPU knows its results' shapes
    and types.
    """
    from gpuscope.program.capture.calls import flat

    tensors = [t for t in flat((args, tuple(kwargs.values()))) if isinstance(t, torch.Tensor)]
    if not tensors or sum(t.numel() * t.element_size() for t in tensors) > _TRIED_BYTES:
        return None
    if func._schema.is_mutable or any(t.layout is not torch.strided for t in tensors):
        return None

    def real(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.zeros(tuple(value.shape), dtype=value.dtype)
        if isinstance(value, (list, tuple)):
            return type(value)(real(v) for v in value)
        return torch.device("cpu") if isinstance(value, torch.device) else value

    try:
        with no_dispatch(), torch.inference_mode(False), torch.no_grad():
            found = func(*real(args), **{k: real(v) for k, v in kwargs.items()})
    except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
        return None
    return like(found, tensors[0])


def _device_of(tensor: torch.Tensor) -> Any:
    return tensor.device if on_device(tensor) else torch.device("cpu")


def run(
    func: Any,
    name: str,
    args: Any,
    kwargs: Any,
    values: Values,
    storage_of: Callable[[torch.Tensor], int],
) -> Any:
    """A result of an assumed size.

    Raises:
        DynamicOutputShapeException: for an operator that is not known here.
    """
    x = args[0]
    device = _device_of(x)
    if name == "aten::nonzero":
        found = values.count_nonzero(storage_of(x), x.numel())
        return torch.empty((found, x.dim()), dtype=torch.int64, device=device)
    if name == "aten::masked_select":
        found = values.count_nonzero(storage_of(args[1]), args[1].numel())
        return torch.empty((found,), dtype=x.dtype, device=device)
    if name in ("aten::_unique2", "aten::unique_dim", "aten::unique_consecutive"):
        values.assume(Text("All values given to unique() are taken as distinct."))
        empty = torch.empty((x.numel(),), dtype=torch.int64, device=device)
        return torch.empty((x.numel(),), dtype=x.dtype, device=device), empty, empty.clone()
    if name == "aten::repeat_interleave":
        values.assume(Text("repeat_interleave() with tensor counts is taken as one repeat each."))
        return torch.empty((x.numel(),), dtype=torch.int64, device=device)
    if name == "aten::bincount":
        size = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
        return torch.empty((max(int(size), 1),), dtype=torch.int64, device=device)
    if name == "torchvision::nms":
        values.assume(Text("Of overlapping boxes (torchvision's nms) all are taken as kept."))
        return torch.empty((x.shape[0],), dtype=torch.int64, device=device)
    found = tried(func, args, kwargs)
    if found is None:
        return func(*args, **kwargs)
    values.assume(
        Text("The size of what {operator} returns depends on data: as for zeros.", operator=name)
    )
    return found
