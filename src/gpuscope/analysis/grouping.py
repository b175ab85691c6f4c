"""Groups of equal kernels (same symbol, dtype, shape) among the device events of a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuscope.analysis.breakdown import Rows
from gpuscope.analysis.columns import Floats, group_rows, sums
from gpuscope.cost.types import Kernel
from gpuscope.program.types import Op
from gpuscope.timeline.types import Ints

_SHORT_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}


@dataclass(frozen=True, slots=True)
class KernelGroups:
    """Equal kernels, longest total time first; equal columns.

    Attributes:
        kernel: a representative of each group (index into the timeline's kernels).
        op: the operator of one of its events, or -1.
        count: events of the group in the window.
        time_s: attributed time per step.
        running_s: time that its events ran per step, overlapped or not.
    """

    kernel: Ints
    op: Ints
    count: Ints
    time_s: Floats
    running_s: Floats


def kernel_groups(rows: Rows) -> KernelGroups:
    """Group the events that have a kernel by (symbol, dtype, FLOPs, bytes, grid).

    Equal shapes of one operator give equal FLOPs, bytes and grid; so shapes need no comparing.
    """
    events = np.flatnonzero(rows.work.kernel >= 0)
    table = rows.kernels
    n = len(table.kernels)
    if n == 0:
        none = np.zeros(0, np.int64)
        return KernelGroups(none, none, none, np.zeros(0), np.zeros(0))
    grid = np.fromiter((k.grid for k in table.kernels), np.int64, n)
    # FLOPs and bytes are no negative numbers: their bits are equal, and ordered, as they are.
    flops, moved = table.flops.view(np.int64), table.moved_bytes.view(np.int64)
    _, group_of_kernel = group_rows(table.name.code, table.dtype.code, moved, flops, grid)
    groups = int(group_of_kernel.max()) + 1
    code = group_of_kernel[rows.work.kernel[events]]
    count = np.bincount(code, minlength=groups)
    first = np.zeros(groups, np.int64)
    first[code[::-1]] = events[::-1]
    time = sums(code, rows.work.attributed_ns[events], groups) * rows.seconds
    running = (rows.work.end_ns - rows.work.start_ns)[events]
    used = np.flatnonzero(count)
    used = used[np.argsort(-time[used], kind="stable")]
    return KernelGroups(
        kernel=rows.work.kernel[first[used]],
        op=rows.work.op[first[used]],
        count=count[used],
        time_s=time[used],
        running_s=(sums(code, running, groups) * rows.seconds)[used],
    )


def group_key(kernel: Kernel) -> str:
    """Name the group of equal kernels that a kernel belongs to, as `kernel_groups` makes them."""
    moved = kernel.read_bytes + kernel.written_bytes
    return f"{kernel.name}|{kernel.dtype}|{kernel.flops:g}|{moved!r}|{kernel.grid}"


def label(kernel: Kernel, op: Op | None) -> str:
    """Name a group for people: operator, shapes of its first two tensors, dtype."""
    dtype = _SHORT_DTYPES.get(kernel.dtype, kernel.dtype)
    if op is None:
        return " ".join(part for part in (kernel.name, dtype) if part)
    shapes = ["x".join(map(str, spec.shape)) for spec in op.inputs if spec.shape][:2]
    name = op.name.removeprefix("aten::").removeprefix("gpuscope::")
    return " ".join(part for part in (name, ", ".join(shapes), dtype) if part)
