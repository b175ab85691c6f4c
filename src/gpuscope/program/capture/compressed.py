"""Compressed sparse tensors (CSR, CSC): fakes know none, so they are made as sparse COO tensors.

As many values, and an index of each; that the rows' numbers are compressed is left out: it says so.
"""

from __future__ import annotations

from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.program.capture.patches import Patches

_MADE = ("sparse_csr_tensor", "sparse_csc_tensor")
_LAYOUTS = (torch.sparse_csr, torch.sparse_csc)


def install(patch: Patches, recorder: Any) -> None:
    """Put the functions that make them in place."""

    def told() -> None:
        recorder.values.assume(
            Text(
                "Compressed sparse tensors (CSR, CSC) are taken as sparse COO tensors with as "
                "many values."
            )
        )

    def making(first: int) -> Any:
        def make(compressed: Any, plain: Any, values: Any, size: Any = None, **more: Any) -> Any:
            told()
            compressed, plain, values = (torch.as_tensor(t) for t in (compressed, plain, values))
            if size is None:  # as PyTorch: up to the largest index; square where nobody knows it
                known = recorder.host_values.read(plain)
                lines = compressed.numel() - 1
                other = lines if known is None or not plain.numel() else int(known.max()) + 1
                size = (lines, other) if first == 0 else (other, lines)
            places = [torch.zeros_like(plain), plain]
            indices = torch.stack(places if first == 0 else places[::-1])
            more.pop("check_invariants", None)
            return torch.sparse_coo_tensor(indices, values, size, is_coalesced=True, **more)

        return make

    def converted(self: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        if self.layout is torch.sparse_coo:
            return self.coalesce()
        told()
        return self.to_sparse()

    to_sparse = torch.Tensor.to_sparse

    def any_layout(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("layout") in _LAYOUTS:
            return converted(self)
        return to_sparse(self, *args, **kwargs)

    for first, name in enumerate(_MADE):
        patch.set(torch, name, making(first))
    patch.set(torch.Tensor, "to_sparse_csr", converted)
    patch.set(torch.Tensor, "to_sparse_csc", converted)
    patch.set(torch.Tensor, "to_sparse", any_layout)
