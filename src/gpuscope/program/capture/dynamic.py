"""Operators whose result's size depends on data: their size is assumed, and said so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.values import Values

SYNCING = frozenset(
    {
        "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim",
        "aten::unique_consecutive", "aten::repeat_interleave", "aten::bincount",
    }
)  # fmt: skip
"""The host waits for the device to learn their result's size."""

SIZED_BY_DATA = SYNCING | {"aten::index", "aten::index_put", "aten::index_put_"}
"""Results that depend on more than metadata: never answered from memory."""


def histc(args: Any, kwargs: Any) -> torch.Tensor:
    """`torch.histc` on integers, which CUDA has and the CPU's shape rule refuses."""
    bins = kwargs.get("bins", args[1] if len(args) > 1 else 100)
    return torch.empty((int(bins),), dtype=args[0].dtype, device=_device_of(args[0]))


OWN_SHAPES = {"aten::histc": histc}
"""Shape rules of CUDA where those of the CPU differ."""


def _device_of(tensor: torch.Tensor) -> Any:
    return torch.device("cuda", 0) if on_device(tensor) else torch.device("cpu")


def run(
    func: Any, name: str, args: Any, kwargs: Any, values: Values,
    storage_of: Callable[[torch.Tensor], int],
) -> Any:  # fmt: skip
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
    if name == "aten::index":
        return _masked_index(x, args[1], values, storage_of, device)
    if name in ("aten::_unique2", "aten::unique_dim", "aten::unique_consecutive"):
        values.assume("All values given to unique() are taken as distinct.")
        empty = torch.empty((x.numel(),), dtype=torch.int64, device=device)
        return torch.empty((x.numel(),), dtype=x.dtype, device=device), empty, empty.clone()
    if name == "aten::repeat_interleave":
        values.assume("repeat_interleave() with tensor counts is taken as one repeat each.")
        return torch.empty((x.numel(),), dtype=torch.int64, device=device)
    if name == "aten::bincount":
        size = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
        return torch.empty((max(int(size), 1),), dtype=torch.int64, device=device)
    return func(*args, **kwargs)


def _masked_index(
    x: torch.Tensor, indices: Any, values: Values, storage_of: Any, device: Any
) -> torch.Tensor:
    """`x[mask]` and mixes of masks and integer indices (one mask)."""
    shape: list[int] = []
    dim = 0
    for index in indices:
        if index is None:
            shape.append(x.shape[dim])
            dim += 1
        elif index.dtype in (torch.bool, torch.uint8):
            shape.append(values.count_nonzero(storage_of(index), index.numel()))
            dim += index.dim()
        else:
            shape.extend(index.shape)
            dim += 1
    return torch.empty((*shape, *x.shape[dim:]), dtype=x.dtype, device=device)
