"""Compressed sparse tensors (CSR, CSC): fakes know none, so they are made as sparse COO tensors.

As many values, and an index of each; that the rows' numbers are compressed is left out: it says so.
"""

from __future__ import annotations

from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError, RefusedError
from gpuscope.program.capture.conversions import COMPRESSED


def csr(
    recorder: Any, crow_indices: Any, col_indices: Any, values: Any, size: Any = None, **more: Any
) -> Any:
    """`torch.sparse_csr_tensor`."""
    return _made(recorder, False, crow_indices, col_indices, values, size, **more)


def csc(
    recorder: Any, ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **more: Any
) -> Any:
    """`torch.sparse_csc_tensor`."""
    return _made(recorder, True, ccol_indices, row_indices, values, size, **more)


def converted(recorder: Any, self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """`x.to_sparse_csr()` and `x.to_sparse_csc()`, of a dense or a sparse tensor."""
    if self.layout is torch.sparse_coo:
        return _marked(self.coalesce().detach())
    _told(recorder)
    return _marked(self.to_sparse())


def _marked(tensor: torch.Tensor) -> torch.Tensor:
    setattr(tensor, COMPRESSED, True)
    return tensor


def crow_indices(recorder: Any, self: torch.Tensor) -> torch.Tensor:
    """`x.crow_indices()`: where each row begins."""
    return self._indices().new_empty(self.shape[0] + 1)


def ccol_indices(recorder: Any, self: torch.Tensor) -> torch.Tensor:
    """`x.ccol_indices()`: where each column begins."""
    return self._indices().new_empty(self.shape[1] + 1)


def col_indices(recorder: Any, self: torch.Tensor) -> torch.Tensor:
    """`x.col_indices()`."""
    return self._indices()[1]


def row_indices(recorder: Any, self: torch.Tensor) -> torch.Tensor:
    """`x.row_indices()`."""
    return self._indices()[0]


def blocks(recorder: Any, *_: Any, **__: Any) -> torch.Tensor:
    """Tensors of blocks (BSR, BSC)."""
    raise RefusedError(
        CaptureError(
            Text("gpuscope cannot follow block sparse tensors (BSR, BSC) yet."),
            Text("How many blocks hold values depends on data."),
            Text("Predict with sparse tensors of places and values: .to_sparse()."),
        )
    )


def _made(
    recorder: Any, columns: bool, compressed: Any, plain: Any, values: Any, size: Any, **more: Any
) -> torch.Tensor:
    _told(recorder)
    compressed, plain, values = (torch.as_tensor(t) for t in (compressed, plain, values))
    if size is None:  # as PyTorch: up to the largest index; square where nobody knows it
        known = recorder.host_values.read(plain)
        lines = compressed.numel() - 1
        other = lines if known is None or not plain.numel() else int(known.max()) + 1
        size = (other, lines) if columns else (lines, other)
    places = [torch.zeros_like(plain), plain]
    more.pop("check_invariants", None)
    indices = torch.stack(places[::-1] if columns else places)
    return _marked(torch.sparse_coo_tensor(indices, values, size, is_coalesced=True, **more))


def _told(recorder: Any) -> None:
    recorder.values.assume(
        Text(
            "Compressed sparse tensors (CSR, CSC) are taken as sparse COO tensors with as many "
            "values."
        )
    )
