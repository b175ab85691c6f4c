"""Softmax and log-softmax along one dimension, forward and backward.

PyTorch has three kernels for the dense dimension (aten/src/ATen/native/cuda/SoftMax.cu and
PersistentSoftmax.cuh): rows up to 2,048 values live in the registers of one warp; longer ones that
fit are kept in the registers or the shared memory of one block; the longest are read three times.
A softmax along another dimension walks it with a stride.
"""

from __future__ import annotations

from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, kernel, machine, missed_share, reads, written
from gpuscope.cost.copy.model import made_contiguous
from gpuscope.cost.pointwise.elementwise import elementwise
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_WARP_COLUMNS = 2048
"""Longest row that one warp keeps in registers."""

_WARP_COLUMNS_ROCM = 1024
"""The same on ROCm, whose longer rows all take a block (names of kernels that PyTorch 2.4 launched
on an MI210, in the operator measurements of Lee et al. 2025, arXiv:2407.13853)."""

_SHARED_BYTES = 47 * 1024
"""Longest row that backward keeps in shared memory: what a block has without asking for more."""

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


@kernel_model(
    "aten::_softmax",
    "aten::_log_softmax",
    "aten::softmax",
    "aten::log_softmax",
    "aten::_safe_softmax",
    "aten::_masked_softmax",
)
def softmax(work: Work) -> tuple[Kernel, ...]:
    """Forward: read the rows, write the rows."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    rows, columns, dense = _rows_and_columns(work)
    if not dense:
        return (_spatial(work, rows, columns, 3),)
    return *made_contiguous(work, 0), _forward(work, rows, columns)


def _forward(work: Work, rows: int, columns: int) -> Kernel:
    if work.device.vendor == "AMD" and columns > _WARP_COLUMNS_ROCM:
        size = columns * work.op.inputs[0].itemsize
        if size <= _SHARED_BYTES and size % 16 == 0:
            name = "softmax_block_in_shared_memory"
            return _block(work, rows, columns, name, "forward_shared", 0.0, 1024)
        return _block(work, rows, columns, "softmax_block_forward", "forward", 2.0, 1024)
    if columns <= _WARP_COLUMNS:
        return _warp(work, rows, columns, "softmax_warp_forward", False)
    if columns <= _BLOCK_COLUMNS:
        return _block(work, rows, columns, "softmax_block_in_registers", "registers", 0.0, 1024)
    return _block(work, rows, columns, "softmax_block_forward", "forward", 2.0, 1024)


@kernel_model(
    "aten::_softmax_backward_data",
    "aten::_log_softmax_backward_data",
    "aten::_masked_softmax_backward",
)
def softmax_backward(work: Work) -> tuple[Kernel, ...]:
    """Backward: read gradient and result, write the input's gradient."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    rows, columns, dense = _rows_and_columns(work)
    if not dense:
        return *_weighted(work), _spatial(work, rows, columns, 2)
    return *made_contiguous(work, 0, 1), *_weighted(work), _backward(work, rows, columns)


def _weighted(work: Work) -> tuple[Kernel, ...]:
    """The gradient times the result, a kernel of its own; a logarithm needs no such factor."""
    if "log" in work.op.name:
        return ()
    return elementwise(work, name="mul")


def _backward(work: Work, rows: int, columns: int) -> Kernel:
    spec = work.op.inputs[0]
    if columns <= 1024:
        return _warp(work, rows, columns, "softmax_warp_backward", True)
    aligned = columns * spec.itemsize % 16 == 0
    fits = columns * spec.itemsize <= _SHARED_BYTES and aligned
    name = "softmax_block_backward" + ("_in_shared_memory" if fits else "")
    # The largest power of two below twice the vectors of a row, halved (SoftMax_getBlockSize).
    vectors = min(columns * spec.itemsize // 16, 1024)
    threads = max(32, 1 << max(ceil(vectors / 2) - 1, 0).bit_length())
    key = "shared" if fits else "backward"
    # The first pass sums up the gradient alone (of softmax: already times the result).
    return _block(work, rows, columns, name, key, 0.0 if fits else 0.5, threads)


def _warp(work: Work, rows: int, columns: int, name: str, backward: bool) -> Kernel:
    """A warp for each row (two for short ones, a part of a warp for the shortest)."""
    get = work.constants.value
    padded = 1 << max(columns - 1, 0).bit_length()
    lanes = min(padded, 32)
    read = reads(work)
    which = ("log_" if "log" in work.op.name else "") + ("backward" if backward else "forward")
    key = f"softmax.warp.{which}"
    per_value = get(f"{key}_cycles")
    # Values beyond the row are neither loaded nor stored, but take part in the sums.
    values = columns + get("softmax.warp.beyond") * (padded - columns)
    if padded > 1024:
        per_value *= get("softmax.warp.long")
    if work.op.inputs[0].itemsize >= 4:
        per_value *= get("softmax.warp.wide")
    if "masked" in work.op.name:
        per_value += get("softmax.warp.masked_cycles")
    per_block = 128 // lanes * (2 if padded <= 128 else 1)
    resident = 16 if padded <= 256 else 10 if padded <= 1024 else 6
    return kernel(
        work,
        Launch(
            name,
            "normalization",
            read.cold,
            read.hot,
            written(work),
            items=rows,
            cycles=values * per_value + lanes / 32 * get("softmax.warp.row_cycles"),
            grid=max(1, ceil(rows / per_block)),
            resident=resident,
            chain_s=get("softmax.warp.base_s") + padded / lanes * get(f"{key}_step_s"),
            dtype=work.op.inputs[0].dtype,
            family="softmax",
        ),
    )


def _block(
    work: Work, rows: int, columns: int, name: str, key: str, passes: float, threads: int
) -> Kernel:
    """A block for each row that reads it again in further passes (`passes` more)."""
    get = work.constants.value
    m = machine(work)
    read = reads(work)
    resident = max(1, (m.threads_per_unit or 2048) // threads)
    missed = missed_share(m, read.total / max(rows, 1), rows, resident)
    again = read.total * passes
    steps = columns * work.op.inputs[0].itemsize / 16 / threads
    value = get(f"softmax.block.{key}_cycles")
    if key == "registers" and "log" not in work.op.name:
        value *= get("softmax.block.registers_plain")
    return kernel(
        work,
        Launch(
            name,
            "normalization",
            read.cold + again * missed,
            read.hot + again * (1 - missed),
            written(work),
            read.total + written(work),
            items=rows,
            cycles=columns * value + get(f"softmax.block.{key}_row_cycles"),
            grid=max(rows, 1),
            block=threads,
            resident=resident,
            chain_s=get(f"softmax.block.{key}_start_s")
            + steps * (1 + passes) * get("softmax.block.pass_s"),
            dtype=work.op.inputs[0].dtype,
            family="softmax",
            note=Text("rows are read {times} times", times=Number(1 + passes, "g"))
            if passes
            else "",
        ),
    )


def _spatial_block(inner: int, columns: int) -> tuple[int, int]:
    """Threads along the softmax dimension and across it (SpatialSoftMax_getBlockSize)."""
    across = min(inner, 1024)
    along = 1
    if across <= 64 and columns >= 64:
        while across * along * 2 <= 1024 and along * 2 <= columns:
            along *= 2
    return along, across


def _spatial(work: Work, rows: int, columns: int, passes: int) -> Kernel:
    """Along a dimension that is not dense: a thread, or a few, walk a row `passes` times."""
    get = work.constants.value
    spec = work.op.inputs[0]
    dim = work.op.args.get("dim", -1)
    at = dim % len(spec.shape) if isinstance(dim, int) else -1
    inner = prod(spec.shape[at + 1 :])
    along, across = _spatial_block(inner, columns)
    read = reads(work)
    m = machine(work)
    missed = missed_share(m, read.total, 1, 1)
    again = read.total * (passes - 1)
    outer = max(rows // max(inner, 1), 1)
    steps = ceil(columns / along)
    # Each step waits for loads, longer where they come from device memory; threads that share a
    # row read with a stride.
    key = "softmax.spatial." + ("forward" if passes > 2 else "backward")
    step_s = get(f"{key}_step_s")
    if along > 1:
        step_s *= get(f"{key}_strided")
    far = read.cold / max(read.total, 1.0) + (passes - 1) * missed
    chain = get("softmax.spatial.base_s")
    chain += steps * (step_s + far * get(f"{key}_far_s"))
    if along > 1:
        chain += passes * get("softmax.spatial.together_s")
    return kernel(
        work,
        Launch(
            "softmax_spatial",
            "normalization",
            read.cold + again * missed,
            read.hot + again * (1 - missed),
            written(work),
            read.total + written(work),
            items=rows * columns * passes,
            cycles=get("softmax.spatial.item_cycles"),
            grid=outer * ceil(inner / across),
            block=along * across,
            chain_s=chain,
            dtype=spec.dtype,
            family="softmax.spatial",
        ),
    )
