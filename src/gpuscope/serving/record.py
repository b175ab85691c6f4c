"""What became of requests, and the rows of iterations: columns of plain numbers."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Row = tuple[float, int, float, float, int, int, int, int, int]
"""Begun, steps, device and host seconds, prompt tokens, sequences, blocks, waiting, put off."""

ROW = "dqddqqqqq"
TIMES = ("intended", "started", "first", "finished")
SUMS = ("prefill", "behind", "device", "host", "put_off", "transfer")
COUNTS = ("preemptions", "cached")


class Record:
    """Of so many requests.

    Attributes:
        intended, started, first, finished: moments, NaN until they come.
        prefill, behind, device, host, put_off, transfer: seconds of it.
        preemptions, cached: how often put off, prompt tokens found.
        rows: columns of the iterations, as `Row` has them.
        busy_s: of the device.
    """

    __slots__ = (*TIMES, *SUMS, *COUNTS, "busy_s", "rows")

    intended: array[float]
    started: array[float]
    first: array[float]
    finished: array[float]
    prefill: array[float]
    behind: array[float]
    device: array[float]
    host: array[float]
    put_off: array[float]
    transfer: array[float]
    preemptions: array[int]
    cached: array[int]

    def __init__(self, count: int) -> None:
        for name in TIMES:
            setattr(self, name, array("d", [float("nan")]) * count)
        for name in SUMS:
            setattr(self, name, array("d", [0.0]) * count)
        for name in COUNTS:
            setattr(self, name, array("q", [0]) * count)
        self.rows: tuple[array[float] | array[int], ...] = tuple(array(kind) for kind in ROW)
        self.busy_s = 0.0

    def add(self, row: Row) -> None:
        """A row of iterations."""
        self.busy_s += row[2]
        for column, value in zip(self.rows, row, strict=True):
            column.append(value)  # type: ignore[arg-type]

    def put(self, at: npt.NDArray[np.int64], part: Record) -> None:
        """What became of some of the requests, from a record of these alone."""
        for name in (*TIMES, *SUMS, *COUNTS):
            self.column(name)[at] = part.column(name)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Of the requests, without a copy."""
        found: npt.NDArray[Any] = np.asarray(getattr(self, name))
        return found

    def each(self) -> Iterator[Row]:
        """Rows of iterations, one by one."""
        yield from zip(*self.rows, strict=True)
