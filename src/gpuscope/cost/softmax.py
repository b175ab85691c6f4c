"""Softmax and log-softmax along one dimension, forward and backward.

PyTorch has three kernels for the dense dimension (aten/src/ATen/native/cuda/SoftMax.cu and
PersistentSoftmax.cuh): rows up to 2,048 values live in the registers of one warp; longer ones that
fit are kept in the registers or the shared memory of one block; the longest are read three times.
A softmax along another dimension walks it with a stride.
"""

from __future__ import annotations

from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, kernel, machine, missed_share, reads, written
from gpuscope.cost.copy import made_contiguous
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

_WARP_COLUMNS = 2048
"""Longest row that one warp keeps in registers."""

_BLOCK_COLUMNS = 8192
"""Longest row that a block of 1,024 threads keeps in registers (forward)."""


def _rows_and_columns(work: Work) -> tuple[int, int, bool]:
    """Rows, row length, and whether the softmax dimension is the dense one."""
    spec = work.op.inputs[0]
    rank = len(spec.shape)
    if rank == 0:
        return 1, 1, True
    dim = work.op.args.get("dim", -1)
    at = dim % rank if isinstance(dim, int) and not isinstance(dim, bool) else rank - 1
    columns = spec.shape[at]
    inner = prod(spec.shape[at + 1 :])
    return spec.numel // max(columns, 1), columns, inner == 1


@kernel_model("aten::_softmax", "aten::_log_softmax", "aten::softmax", "aten::log_softmax",
              "aten::_safe_softmax", "aten::_masked_softmax")  # fmt: skip
def softmax(work: Work) -> tuple[Kernel, ...]:
    """Forward: read the rows, write the rows."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    rows, columns, dense = _rows_and_columns(work)
    if not dense:
        return (_spatial(work, rows, columns, 3),)
    return *made_contiguous(work, 0), _forward(work, rows, columns)


def _forward(work: Work, rows: int, columns: int) -> Kernel:
    spec = work.op.inputs[0]
    if columns <= _WARP_COLUMNS:
        return _warp(work, rows, columns, "softmax_warp_forward", 1.0)
    aligned = columns * spec.itemsize % 16 == 0
    if columns <= _BLOCK_COLUMNS and aligned:
        return _block_in_registers(work, rows, columns)
    return _block(work, rows, columns, "softmax_block_forward", passes=2.0, threads=1024)


@kernel_model("aten::_softmax_backward_data", "aten::_log_softmax_backward_data",
              "aten::_masked_softmax_backward")  # fmt: skip
def softmax_backward(work: Work) -> tuple[Kernel, ...]:
    """Backward: read gradient and result, write the input's gradient."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    rows, columns, dense = _rows_and_columns(work)
    if not dense:
        return (_spatial(work, rows, columns, 2),)
    return *made_contiguous(work, 0, 1), _backward(work, rows, columns)


def _backward(work: Work, rows: int, columns: int) -> Kernel:
    spec = work.op.inputs[0]
    if columns <= 1024:
        return _warp(work, rows, columns, "softmax_warp_backward", 1.25)
    aligned = columns * spec.itemsize % 16 == 0
    shared = work.device.shared_memory_per_block_bytes or 48 * 1024
    fits = columns * spec.itemsize <= shared / 2 and aligned
    again = 0.0 if fits else 0.5 if "log" in work.op.name else 1.0
    name = "softmax_block_backward" + ("_in_shared_memory" if fits else "")
    return _block(work, rows, columns, name, passes=again, threads=512)


def _warp(work: Work, rows: int, columns: int, name: str, more: float) -> Kernel:
    """A warp for each row (two for short ones); rows are padded to a power of two."""
    get = work.constants.get
    padded = 1 << max(columns - 1, 1).bit_length()
    read = reads(work)
    row_cycles = get("softmax.warp.row_cycles", 14.0)
    per_value = get("softmax.warp.cycles", 0.39) * (1.4 if padded > 1024 else 1.0) * more
    if work.op.inputs[0].itemsize >= 4:
        per_value *= get("softmax.warp.wide", 0.8)
    per_block = 4 * (2 if padded <= 128 else 1)
    resident = 16 if padded <= 256 else 10 if padded <= 1024 else 6
    return kernel(
        work,
        Launch(
            name, "normalization", read.cold, read.hot, written(work),
            items=rows, cycles=padded * per_value + row_cycles,
            grid=max(1, ceil(rows / per_block)), resident=resident,
            chain_s=get("softmax.warp.base_s", 0.4e-6)
            + padded / 32 * get("softmax.warp.step_s", 0.06e-6),
            dtype=work.op.inputs[0].dtype, family="softmax",
        ),
    )  # fmt: skip


def _block_in_registers(work: Work, rows: int, columns: int) -> Kernel:
    """A block of up to 1,024 threads for each row: four barriers one after the other."""
    get = work.constants.get
    read = reads(work)
    return kernel(
        work,
        Launch(
            "softmax_block_in_registers", "normalization", read.cold, read.hot, written(work),
            grid=rows, block=1024, resident=2 if columns <= 4096 else 1,
            chain_s=get("softmax.block.base_s", 2.4e-6)
            + columns / 1024 * get("softmax.block.step_s", 0.26e-6),
            dtype=work.op.inputs[0].dtype, family="softmax",
        ),
    )  # fmt: skip


def _block(
    work: Work, rows: int, columns: int, name: str, passes: float, threads: int
) -> Kernel:
    """A block for each row that reads it again in further passes (`passes` more)."""
    get = work.constants.get
    m = machine(work)
    read = reads(work)
    resident = max(1, (m.threads_per_unit or 2048) // threads)
    missed = missed_share(m, read.total / max(rows, 1), rows, resident)
    again = read.total * passes
    steps = columns * work.op.inputs[0].itemsize / 16 / threads
    return kernel(
        work,
        Launch(
            name, "normalization", read.cold + again * missed, read.hot + again * (1 - missed),
            written(work), read.total + written(work), items=rows * columns,
            cycles=get("softmax.block.cycles", 0.3), grid=max(rows, 1), block=threads,
            resident=resident,
            chain_s=get("softmax.block.start_s", 2.0e-6)
            + steps * (1 + passes) * get("softmax.block.pass_step_s", 0.5e-6),
            dtype=work.op.inputs[0].dtype, family="softmax",
            note=f"rows are read {1 + passes:g} times" if passes else "",
        ),
    )  # fmt: skip


def _spatial(work: Work, rows: int, columns: int, passes: int) -> Kernel:
    """Along a dimension that is not dense: one thread a row, `passes` walks over it."""
    get = work.constants.get
    read = reads(work)
    m = machine(work)
    missed = missed_share(m, read.total, 1, 1)
    again = read.total * (passes - 1)
    threads = min(1024, max(32, rows))
    return kernel(
        work,
        Launch(
            "softmax_spatial", "normalization", read.cold + again * missed,
            read.hot + again * (1 - missed), written(work), read.total + written(work),
            items=rows * columns * passes, cycles=get("softmax.spatial.cycles", 0.4),
            grid=max(1, ceil(rows / threads)), block=threads,
            chain_s=columns * passes * get("softmax.spatial.step_s", 0.5e-6),
            dtype=work.op.inputs[0].dtype, family="softmax.spatial",
        ),
    )  # fmt: skip
