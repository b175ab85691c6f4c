"""Running totals, products and extrema along one dimension (ATen/native/cuda/ScanUtils.cuh)."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2, prod

from gpuscope.cost.bandwidth import Launch, Reads, is_hot, kernel, machine, reads, written
from gpuscope.cost.copy.model import copy_kernel
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec


@kernel_model(
    "aten::cumsum",
    "aten::cumsum_",
    "aten::cumprod",
    "aten::cummax",
    "aten::cummin",
    "aten::logcumsumexp",
)
def scan(work: Work) -> tuple[Kernel, ...]:
    """Running totals along one dimension (ATen/native/cuda/ScanUtils.cuh, `scan_dim`).

    A single row takes CUB's decoupled look-back; rows along the last dimension are scanned by a
    row of threads each, 2 x threads values at a time. Values of another type, or that do not lie
    row by row (`expect_contiguous`), are copied first.
    """
    if not work.outputs or not work.outputs[0].numel:
        return ()
    given = work.op.inputs[0]
    cast = given.dtype != work.outputs[0].dtype
    if given.device == "device" and (cast or not given.is_contiguous):
        spec = replace(work.outputs[0], storage=-1)
        copy = copy_kernel(work, given, spec, is_hot(work, 0))
        hot = spec.nbytes * 2 <= machine(work).l2_bytes
        return copy, *_scan(work, spec, Reads(0.0, spec.nbytes) if hot else Reads(spec.nbytes, 0.0))
    return _scan(work, given, reads(work, (0,)))


def _scan(work: Work, spec: TensorSpec, read: Reads) -> tuple[Kernel, ...]:
    rank = len(spec.shape)
    dim = work.op.args.get("dim", 0)
    at = int(dim) % rank if rank and isinstance(dim, int) else 0
    length = spec.shape[at] if rank else 1
    rows = max(1, spec.numel // max(length, 1))
    moved = Launch(
        "",
        "reduction",
        read.cold,
        read.hot,
        written(work),
        dtype=spec.dtype,
        family="reduction.scan",
    )
    if rows == 1:
        init = kernel(work, Launch("scan_init", "reduction", grid=1, dtype=spec.dtype))
        return init, kernel(work, _single(work, moved, spec.numel))
    if at != rank - 1:
        columns = max(1, prod(spec.shape[at + 1 :]))
        return (kernel(work, _columns(work, moved, length, rows, columns)),)
    return (kernel(work, _rows(work, moved, length, rows)),)


def _single(work: Work, moved: Launch, values: int) -> Launch:
    """One row: CUB's decoupled look-back."""
    get = work.constants.value
    return replace(
        moved,
        name="scan_decoupled_lookback",
        items=values,
        cycles=get("reduction.scan.cycles"),
        grid=max(1, ceil(values / 1920)),
        chain_s=0.0,
        floor_s=get("reduction.scan.lookback_s"),
    )


def _columns(work: Work, moved: Launch, length: int, rows: int, columns: int) -> Launch:
    """A thread a column: all columns of one outer slice share blocks."""
    block = min(512, columns)
    return replace(
        moved,
        name="scan_outer_dim",
        items=rows * length,
        cycles=0.5,
        grid=max(1, rows // columns * ceil(columns / block)),
        block=block,
        loads=length * work.constants.value("reduction.scan.outer_load"),
    )


def _rows(work: Work, moved: Launch, length: int, rows: int) -> Launch:
    """Threads for each row, 2 x threads values at a time."""
    get = work.constants.value
    across = scan_threads(rows, length)
    depth = log2(across)
    passes = ceil(length / (2 * across))
    return replace(
        moved,
        name="scan_innermost_dim",
        items=float(rows * passes * 2 * across),
        cycles=get("reduction.scan.tree_cycles") * (8 + depth),
        grid=max(1, ceil(rows / max(1, 512 // across))),
        block=512,
        resident=max(1, (machine(work).threads_per_unit or 2048) // 512),
        # Each pass loads, then sums up and down a tree as deep as the row has threads.
        loads=passes,
        chain_s=get("reduction.scan.base_s")
        + passes * (get("reduction.scan.step_s") + depth * get("reduction.scan.depth_s")),
    )


def scan_threads(rows: int, length: int) -> int:
    """Threads that share a row of a scan (get_log_num_threads_x_inner_scan in ScanUtils.cuh)."""
    difference = max(length - 1, 0).bit_length() - max(rows - 1, 0).bit_length()
    # An unsigned number there: far more rows than columns wrap around to the most threads.
    exponent = (9 + difference) // 2 if difference >= -9 else 9
    return int(1 << min(max(exponent, 4), 9))
