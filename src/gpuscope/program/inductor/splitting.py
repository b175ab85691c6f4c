"""Into how many pieces Inductor splits a reduction, so that it fills the device."""

from __future__ import annotations

UNITS = 132
"""Multiprocessors that the compiler is taken to see when it splits reductions (H100, H200)."""

_THREADS = 2048
"""Threads of one of them."""

_LEAST_EACH, _MOST_EACH = 32, 512
"""Values that a thread adds up in a split reduction (`min_` and `max_elements_per_thread`)."""

_INNER_WHOLE = 8192
"""Longest row that is never split (`no_split_threshold`, before Blackwell)."""


def split_count(rows: int, columns: int, inner: bool) -> int:
    """Pieces of each of `rows` reductions of `columns` values; 1 where it stays whole.

    After `InductorChoices.reduction_split_factor` (torch/_inductor/choices.py).

    Args:
        rows: results.
        columns: values that each result is made of.
        inner: the values lie next to each other.
    """
    if inner and (rows >= 2 * UNITS or columns <= _INNER_WHOLE):
        return 1
    total, lanes = rows * columns, UNITS * _THREADS
    unit = 256 if inner else 4
    if total <= _LEAST_EACH * lanes:
        size = _LEAST_EACH
    elif total < _MOST_EACH * lanes:
        blocks = lanes // 512 if inner else lanes // 256
        blocks = -(-blocks // (rows if inner else -(-rows // 128)))
        size = _even(columns, -(-columns // (unit * blocks)), 30 if inner else 20)
    else:
        size = _even(columns, _MOST_EACH, 50)
    return max(1, -(-columns // (unit * size)))


def _even(columns: int, size: int, near: int) -> int:
    """The divisor of `columns` that is nearest to `size`, if it is near; else `size`."""
    for off in range(near):
        for divisor in (size - off, size + off):
            if divisor > 0 and columns % divisor == 0:
                return max(divisor, _LEAST_EACH)
    return size
