"""Kernels and operators of a timeline as columns, so that groups are summed, not looped over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from gpuscope.cost.types import Kernel
from gpuscope.program.types import Op
from gpuscope.timeline.types import Ints, Timeline

Floats = npt.NDArray[np.float64]

UNKNOWN = "unknown"

_MOST_PACKED = 2**62
"""Above this, columns packed into one number could overflow."""

_LEAST_FLAGS, _FLAGS_A_ROW = 1 << 16, 8
"""Longest table of flags for counting off packed numbers, at least and by row: beyond, sorting the
rows is quicker."""


@dataclass(frozen=True, slots=True)
class Codes:
    """A text column: `code[i]` indexes `table`; code 0 is always "unknown"."""

    code: Ints
    table: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str], count: int) -> Codes:
        """Number the distinct texts in order of appearance; "" reads as "unknown"."""
        known: dict[str, int] = {UNKNOWN: 0, "": 0}
        table = [UNKNOWN]
        code = np.empty(count, np.int64)
        for row, text in enumerate(texts):
            found = known.get(text)
            if found is None:
                found = known[text] = len(table)
                table.append(text)
            code[row] = found
        return cls(code, tuple(table))

    def take(self, rows: Ints) -> Ints:
        """Return the codes of these rows; row -1 has code 0 (unknown)."""
        if len(self.code) == 0:
            return np.zeros(len(rows), np.int64)
        return np.where(rows >= 0, self.code[rows], 0)


@dataclass(frozen=True, slots=True)
class KernelColumns:
    """`Timeline.kernels` as columns (see `gpuscope.cost.types.Kernel` for units)."""

    kernels: tuple[Kernel, ...]
    name: Codes
    kind: Codes
    limiter: Codes
    dtype: Codes
    flops: Floats
    moved_bytes: Floats
    least_bytes: Floats
    compute_s: Floats
    memory_s: Floats
    duration_s: Floats
    waves: Floats
    launches: Floats

    @classmethod
    def of(cls, timeline: Timeline) -> KernelColumns:
        """Read the columns once."""
        kernels = tuple(k for k in timeline.kernels if isinstance(k, Kernel))
        if len(kernels) != len(timeline.kernels):
            raise TypeError("Timeline.kernels holds something that is not a Kernel.")

        def numbers(field: str) -> Floats:
            return _numbers(kernels, attrgetter(field))

        def texts(field: str) -> Codes:
            return Codes.of(map(attrgetter(field), kernels), len(kernels))

        return cls(
            kernels=kernels,
            name=texts("name"),
            kind=texts("kind"),
            limiter=texts("limiter"),
            dtype=texts("dtype"),
            flops=numbers("flops"),
            moved_bytes=numbers("read_bytes") + numbers("written_bytes"),
            least_bytes=numbers("least_bytes"),
            compute_s=numbers("compute_s"),
            memory_s=numbers("memory_s"),
            duration_s=numbers("duration_s"),
            waves=numbers("waves"),
            launches=numbers("launches"),
        )


@dataclass(frozen=True, slots=True)
class OpColumns:
    """`Timeline.ops` as columns."""

    ops: tuple[Op, ...]
    name: Codes
    phase: Codes
    module: Codes
    recomputed: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, timeline: Timeline) -> OpColumns:
        """Read the columns once."""
        ops = tuple(o for o in timeline.ops if isinstance(o, Op))
        if len(ops) != len(timeline.ops):
            raise TypeError("Timeline.ops holds something that is not an Op.")
        count = len(ops)
        return cls(
            ops=ops,
            name=Codes.of((o.name for o in ops), count),
            phase=Codes.of((o.phase for o in ops), count),
            module=Codes.of((o.module for o in ops), count),
            recomputed=np.fromiter((o.recomputed for o in ops), bool, count),
        )


def take(column: Floats, rows: Ints, missing: float = 0.0) -> Floats:
    """Return a column's values at these rows; `missing` where the row is -1."""
    if len(column) == 0:
        return np.full(len(rows), missing)
    return np.where(rows >= 0, column[rows], missing)


def crossing(
    part: Floats, kernel_bytes: Floats, kernel: Ints, running_ns: Ints, bytes_per_s: float | None
) -> Floats:
    """Return what of each event's bytes can have crossed device memory while it ran.

    Models count what a kernel must move if nothing is left in L2 from the one before. Where that
    is more than memory carries in the time that it took, the rest was found in L2.

    Args:
        part: bytes of each event: all of them, or those read or written.
        kernel_bytes: all bytes of each kernel.
        kernel: of each event, -1 for none.
        running_ns: how long each event ran.
        bytes_per_s: what device memory carries; None if unknown.
    """
    if bytes_per_s is None:
        return part
    whole = take(kernel_bytes, kernel)
    most = running_ns * 1e-9 * bytes_per_s
    return np.asarray(
        np.where(whole > most, part * most / np.maximum(whole, 1.0), part), np.float64
    )


def sums(codes: Ints, values: npt.NDArray[np.int64] | Floats, groups: int) -> Floats:
    """Return the sum of the values of each group 0..groups-1 (exact for integers < 2**53)."""
    return np.asarray(np.bincount(codes, weights=values, minlength=groups), np.float64)


def largest_part(codes: Ints, part: Ints, weight: Ints, groups: int, parts: int) -> Ints:
    """Return, for each group, the part (0..parts-1) that holds most of the group's weight."""
    table = np.bincount(codes * parts + part, weights=weight, minlength=groups * parts)
    return np.asarray(table.reshape(groups, parts).argmax(axis=1), np.int64)


def _numbers(rows: Sequence[Kernel], read: Callable[[Kernel], float]) -> Floats:
    return np.fromiter(map(read, rows), np.float64, len(rows))


def distinct(values: Ints) -> Ints:
    """Return the distinct values, ascending: `np.unique`, which hashes and is ten times slower.

    Quickest where the values are nearly sorted, or several sorted runs: a merge sort finds them.
    """
    if len(values) == 0:
        return values
    ordered = np.sort(values, kind="stable")
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def present(codes: Ints) -> list[int]:
    """Return the distinct codes, ascending, by counting: for small numbers such as lanes."""
    return np.flatnonzero(np.bincount(codes)).tolist() if len(codes) else []


def is_any(codes: Ints, wanted: Iterable[int], count: int) -> npt.NDArray[np.bool_]:
    """Return which codes are wanted: `np.isin` by a table, for codes 0..count-1."""
    table = np.zeros(count, bool)
    table[list(wanted)] = True
    return table[codes]


def group_rows(*columns: Ints) -> tuple[Ints, Ints]:
    """Number rows that are equal in all columns, in ascending order of their values.

    Returns:
        The first row of each group, and each row's group: what `np.unique(..., axis=1)` gives, by
        counting off packed numbers where their range allows it, else by sorting them.
    """
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        low = int(column.min(initial=0))
        width = int(column.max(initial=0)) - low + 1
        if width * max(len(code), 1) > _MOST_PACKED:
            column = np.unique(column, return_inverse=True)[1].reshape(-1)
            low, width = 0, len(column)
        packed = code * width + (column - low)
        room = int(packed.max(initial=-1)) + 1
        if room <= max(_LEAST_FLAGS, _FLAGS_A_ROW * len(code)):
            seen = np.zeros(room, bool)
            seen[packed] = True
            code = (np.cumsum(seen, dtype=np.int32) - 1)[packed].astype(np.int64)
        else:
            code = np.unique(packed, return_inverse=True)[1].reshape(-1)
    first = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return first, code


def longest_of(
    group: Ints, length: npt.NDArray[np.int64] | npt.NDArray[np.float64], groups: int
) -> Ints:
    """Return for each group 0..groups-1 the row of its longest member, the first of equal ones.

    0 for groups without members.
    """
    most = np.zeros(groups, length.dtype)
    np.maximum.at(most, group, length)
    rows = np.flatnonzero(length == most[group])[::-1]
    longest = np.zeros(groups, np.int64)
    longest[group[rows]] = rows
    return longest
