"""Concatenation: many tensors into one, by one kernel for up to 128 of them.

`parallel_cat` (ATen/native/cuda/Shape.cu) has four kernels. Dense inputs whose runs in the output
are whole units of 16 bytes are copied in those; other dense ones are loaded by 16 bytes (8 of
16-bit values) and stored value by value; unaligned ones are copied value by value; what is strided,
or dense in several orders, likewise, by two blocks a multiprocessor for each input, each thread a
long way. Blocks of one input come after those of the one before: a sector of the output that two
inputs share is written in parts at different times, and where the output outgrows the L2 it is
read back for each part, as memory that corrects errors stores whole units alone. Eighteen tensors
stacked along a new last dimension take fifteen times as long as along the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, prod

from gpuscope.cost.bandwidth import (
    SECTOR_BYTES,
    Launch,
    fetched_bytes,
    is_hot,
    kernel,
    machine,
    reads,
    written,
)
from gpuscope.cost.copy.model import copy_kernel, part_of
from gpuscope.cost.pointwise.elementwise import lines_of_warp
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

_BATCH, _STRIDED_BATCH = 128, 64
"""Inputs of one launch (CAT_ARRAY_BATCH_SIZE), half where each brings its strides."""

_DIMENSIONS = 4
"""Of an output that one launch writes (CAT_ARRAY_MAX_INPUT_DIMS there); else a copy an input."""

_UNIT_BYTES = 16
_STRIDED_THREADS = 512
_FARTHEST = 1.5
_UNITS_OF_MEMORY = 64


@kernel_model(
    "aten::cat",
    "aten::concat",
    "aten::stack",
    "aten::hstack",
    "aten::vstack",
    "aten::block_diag",
    "aten::_chunk_cat",
)
def cat(work: Work) -> tuple[Kernel, ...]:
    """The launches of a concatenation, or a copy an input."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out = work.outputs[0]
    parts = [t for t in work.inputs if t.numel]
    types = {t.dtype for t in (*parts, out)}
    if len(types) > 1 or len(work.inputs) == 1 or _rank(work) > _DIMENSIONS:
        return tuple(_copied(work, t, parts) for t in parts)
    # An empty vector among others (a cache that holds nothing yet) is no dense tensor of the rank.
    whole = all(len(t.shape) == len(parts[0].shape) for t in work.inputs)
    first, last = (all(of(t) for t in parts) for of in (_is_first, _is_last))
    if not whole or not (first or last):
        batch, launch = _STRIDED_BATCH, _strided
    else:
        batch, launch = _BATCH, partial(_dense, first=first)
    return tuple(
        kernel(work, launch(work, parts[at : at + batch])) for at in range(0, len(parts), batch)
    )


def _copied(work: Work, part: TensorSpec, parts: Sequence[TensorSpec]) -> Kernel:
    """A copy of one input to its place."""
    made = copy_kernel(work, part, part_of(work.outputs[0], part))
    run = _run_bytes(work, parts, True)
    more_s = _shared_sectors_s(work, (part,), run, sum(run))
    return made.lasting(made.duration_s + more_s)


def _is_first(spec: TensorSpec) -> bool:
    return spec.is_contiguous


def _is_last(spec: TensorSpec) -> bool:
    return spec.is_channels_last


def _dense(work: Work, parts: Sequence[TensorSpec], first: bool) -> Launch:
    """All dense: in units of 16 bytes, or stored value by value."""
    get, out = work.constants.value, work.outputs[0]
    run = _run_bytes(work, parts, first)
    units = first and all(r % _UNIT_BYTES == 0 for r in run)
    loaded = _UNIT_BYTES if units or out.itemsize != 2 else _UNIT_BYTES // 2
    width = max(int(loaded / out.itemsize), 1)
    block, most = 128, machine(work).units * 32
    each = max(1, min(most, ceil(max(t.numel for t in parts) / (block * width))))
    if not units and out.itemsize < 2:  # masks and bytes: value by value, as many blocks for all
        width, block, each = 1, _STRIDED_THREADS, machine(work).units * 2
    cycles = get("copy.cat.dense_cycles") * out.itemsize / 4
    if not units:
        cycles = get("copy.cat.plain_cycles") + get("copy.cat.dim_cycles") * len(parts[0].shape)
        cycles += get("copy.cat.apart_cycles") * _apart(width * out.itemsize, run, parts)
    return _launch(
        work,
        parts,
        "cat_vectorized" if units else "cat",
        (each, block, cycles),
        get("copy.cat.base_s") + _shared_sectors_s(work, parts, run, sum(run)),
        streaming=True,
    )


def _apart(bytes_at_once: float, run: Sequence[float], parts: Sequence[TensorSpec]) -> float:
    """How far from each other a warp stores, 0 (side by side) to 1 (a sector and a half apart).

    Args:
        bytes_at_once: that a thread loads: its neighbour stores so far on, where all is dense.
        run: bytes of each input that lie side by side in the output.
        parts: the inputs; each counts by its values.
    """
    if min(run) >= SECTOR_BYTES:
        return 0.0
    dense, together, total = bytes_at_once / SECTOR_BYTES, sum(run), 0.0
    for length, part in zip(run, parts, strict=True):
        if length < SECTOR_BYTES:
            share = min(dense * together / length, _FARTHEST)
            total += part.numel * max((share - dense) / (_FARTHEST - dense), 0.0)
    return total / sum(t.numel for t in parts)


def _strided(work: Work, parts: Sequence[TensorSpec]) -> Launch:
    """An offset a value, in and out; few threads go a long way.

    Two divisions a dimension but the first keep the multiprocessor busy, and one follows the other:
    the blocks of one input alone wait for their own steps, those of several fill each other's
    waits. Those of an input begin when the ones of the inputs before leave places.
    """
    get, m = work.constants.value, machine(work)
    block, each = _STRIDED_THREADS, m.units * 2
    places = m.units * max(m.threads_per_unit // block, 1)
    out, numel = work.outputs[0], sum(t.numel for t in parts)
    divisions = _rank(work) - 1
    scattered = sum(t.numel * _scattered(t, part_of(out, t)) for t in parts) / numel
    run = _run_bytes(work, parts, True)
    cycles = get("copy.cat.strided_cycles") + divisions * get("copy.cat.strided_dim_cycles")
    cycles += scattered * get("copy.cat.scattered_cycles")
    cycles += get("copy.cat.apart_cycles") * _apart(out.itemsize, run, parts)
    hot = all(is_hot(work, i) for i, t in enumerate(work.op.inputs) if t.numel)
    step_s = get(f"copy.cat.{'hot_step' if hot else 'step'}_s")
    step_s += divisions * get("copy.cat.step_dim_s") + scattered * get("copy.cat.step_scattered_s")
    steps = [t.numel / (each * block) for t in parts]
    begun = [min(n, 1.0) for n in steps]
    chain_s = step_s * max(max(steps), 1.0, sum(steps) * each / places)
    chain_s += get("copy.cat.strides_s") * max(max(begun), sum(begun) * each / places)
    waves = max(1, ceil(each * len(parts) / places))
    shape = (each, block, cycles)
    made = _launch(work, parts, "cat", shape, chain_s / waves, streaming=False)
    # Sectors that inputs share are read back meanwhile.
    shared = _shared_sectors_s(work, parts, run, sum(run)) * m.read_bytes_per_s
    return replace(
        made,
        cold_bytes=made.cold_bytes + shared,
        least_bytes=made.cold_bytes + made.hot_bytes + made.written_bytes,
        floor_s=get("copy.cat.begin_s"),
        loads=0.0,
        overlap=get("copy.cat.overlap"),
    )


def _scattered(source: TensorSpec, target: TensorSpec) -> float:
    """How far a block's neighbouring threads read from each other, 0 to 1 (a sector each)."""
    if len(source.shape) != len(target.shape):
        return 0.0
    lanes = min(_STRIDED_THREADS, source.numel)
    dense = lanes * source.itemsize / SECTOR_BYTES
    sectors = lines_of_warp(source, target, lanes, SECTOR_BYTES)
    return float(max(sectors - dense - 1, 0.0) / max(lanes - dense, 1.0))


def _launch(
    work: Work,
    parts: Sequence[TensorSpec],
    name: str,
    shape: tuple[int, int, float],
    chain_s: float,
    streaming: bool,
) -> Launch:
    """`shape`: blocks an input, threads of one, clocks a value."""
    each, block, cycles = shape
    numel = sum(t.numel for t in parts)
    positions = [i for i, t in enumerate(work.op.inputs) if any(t is p for p in parts)]
    hot = sum(fetched_bytes(work.op.inputs[i]) for i in positions if is_hot(work, i))
    total = sum(fetched_bytes(t) for t in parts)
    return Launch(
        name,
        "copy",
        max(total - hot, 0.0),
        min(hot, total),
        written(work) * numel / max(work.outputs[0].numel, 1),
        items=numel,
        cycles=cycles,
        grid=each * len(parts),
        block=block,
        chain_s=chain_s,
        dtype=work.outputs[0].dtype,
        family="copy.cat",
        note=""
        if name == "cat_vectorized"
        else Text("strided or unaligned inputs: element by element"),
        streaming=streaming,
    )


def _run_bytes(work: Work, parts: Sequence[TensorSpec], first: bool) -> list[float]:
    """Bytes of each input that lie side by side in the output."""
    out = work.outputs[0]
    dim = work.op.args.get("dim", 0)
    at = dim % len(out.shape) if isinstance(dim, int) and out.shape else 0
    if first:
        # A stacked tensor lacks the dimension along which it is laid.
        return [prod(t.shape[at:]) * t.itemsize for t in parts]
    if at == 0:
        return [t.nbytes for t in parts]
    inner = 1 if at == 1 else prod(parts[0].shape[at + 1 :]) * parts[0].shape[1]
    own = (t.shape[at] if at < len(t.shape) else 1 for t in parts)
    return [n * inner * t.itemsize for n, t in zip(own, parts, strict=True)]


def _shared_sectors_s(
    work: Work, parts: Sequence[TensorSpec], run: Sequence[float], together: float
) -> float:
    """What reading back sectors costs that several inputs write parts of.

    Values that are stored closer than the memory's units are read back unit after unit.

    Args:
        work: the operator.
        parts: inputs.
        run: bytes of each that lie side by side in the output.
        together: bytes from one run of an input to its next.
    """
    if written(work) <= machine(work).l2_bytes:
        return 0.0
    get, shared_s = work.constants.value, 0.0
    for spec, length in zip(parts, run, strict=False):
        if length < SECTOR_BYTES and together >= _UNITS_OF_MEMORY:
            shared_s += spec.numel * get("copy.cat.shared_sector_s")
        elif length >= SECTOR_BYTES and length % SECTOR_BYTES and length < spec.nbytes:
            shared_s += spec.nbytes / length * get("copy.cat.shared_end_s")
    return shared_s


def _rank(work: Work) -> int:
    """Dimensions of what is concatenated: a stack is a `cat` of its inputs as they are, viewed anew
    afterwards, unless the new dimension is the last (`stack` in ATen/native/TensorShape.cpp)."""
    rank = len(work.outputs[0].shape)
    dim = work.op.args.get("dim", 0)
    if work.op.name == "aten::stack" and isinstance(dim, int) and dim % rank < rank - 1:
        return rank - 1
    return rank


@kernel_model("aten::split_with_sizes_copy")
def split_copy(work: Work) -> tuple[Kernel, ...]:
    """One tensor into many, dense ones, in one kernel (`split_with_sizes_copy_out_cuda`)."""
    if not work.outputs:
        return ()
    read, numel = reads(work), sum(t.numel for t in work.outputs)
    width = max(1, int(16 / work.outputs[0].itemsize))
    return (
        kernel(
            work,
            Launch(
                "split_with_sizes_copy",
                "copy",
                read.cold,
                read.hot,
                written(work),
                items=numel,
                cycles=0.1,
                grid=max(1, ceil(numel / (width * 128))),
                block=128,
                streaming=True,
                dtype=work.outputs[0].dtype,
                family="copy.cat",
            ),
        ),
    )
