"""Memory that a sort of long rows borrows while it runs.

aten/src/ATen/native/cuda/SortStable.cu and Sort.cu sort rows of up to 4,096 values in place. Of
longer ones

* a single row, or one of a million values and more: an index for each value, and what CUB's radix
  sort keeps beside, one more copy of keys and indices (`segmented_sort_large_segments`);
* fewer than 128 rows are sorted as one, and then by row: two numbers of four bytes for each value
  twice, the sorted keys, and CUB's copies (`segmented_sort_pairs_by_full_sort`): 32 bytes a value
  in float32. An H200 held 209 MiB more for the 6.6 million scores of 64 sequences, where
  these are 200;
* more rows: an index for each value and CUB's copies (`segmented_sort_pairs`).
"""

from __future__ import annotations

from gpuscope.program.types import Op

_SORTS = frozenset(("aten::sort", "aten::argsort", "aten::msort", "aten::_sort"))

_SHORT, _LARGE, _SEGMENTS = 4096, 1_000_000, 128
"""Longest row that is sorted in place; rows that are sorted one by one; rows from which a block
sorts each."""

_INDEX = 8
"""Bytes of an index, and of an index with its row."""


def sort_bytes(op: Op) -> int:
    """Bytes that a sort borrows; 0 for all other operators."""
    spec = op.inputs[0] if op.name in _SORTS and op.inputs else None
    if spec is None or spec.device != "device" or not spec.shape or not spec.numel:
        return 0
    dim = op.args.get("dim", -1)
    at = dim if isinstance(dim, int) and not isinstance(dim, bool) else -1
    columns = spec.shape[at]
    rows, key = spec.numel // columns, int(spec.itemsize)
    if columns <= _SHORT:
        return 0
    if rows == 1 or columns >= _LARGE:
        return columns * (_INDEX + key + _INDEX)
    if rows < _SEGMENTS:
        return spec.numel * (2 * _INDEX + key + key + _INDEX)
    return spec.numel * (_INDEX + key + _INDEX)
