"""Sorting and selection: sort, topk, kthvalue, multinomial.

A flat sort is CUB's one-sweep radix sort: a histogram and one pass for each byte of the key. Short
rows are sorted by one block each. Selection of the k largest finds the k-th value digit by digit
(aten/src/ATen/native/cuda/TensorTopK.cu), with several blocks a row where rows are long.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2

from gpuscope.cost.bandwidth import Launch, is_hot, kernel, machine, reads, written
from gpuscope.cost.copy.model import copy_kernel, fill_kernel
from gpuscope.cost.reduction.model import memset_kernel, reduce_kernels
from gpuscope.cost.reduction.scan import scan
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

CUB_TILE_BYTES = 256 * 9 * 16
"""Of pairs of 8 bytes that one block sorts by itself: 256 threads, 9 pairs each (CUB's radix sort
policies from compute capability 6 on: 19 values of 4 bytes a thread, fewer larger ones)."""


def key_sort(
    work: Work,
    count: int,
    key_bytes: int,
    value_bytes: int,
    relative: float = 1.0,
    bits: int = 0,
    floats: bool = False,
) -> tuple[Kernel, ...]:
    """Radix sort of `count` keys with their values: memsets, histogram, one pass for 8 bits.

    What fits one block is sorted by it alone, 6 bits at a time.

    Args:
        work: what is costed.
        count: keys.
        key_bytes: bytes of a key.
        value_bytes: bytes that travel with a key.
        relative: factor on a pass's arithmetic.
        bits: of a key that are sorted by; 0: all.
        floats: keys whose exponents resemble each other, so that counters are fought over.
    """
    bits = bits or 8 * key_bytes
    pair = key_bytes + value_bytes
    if count <= 256 * max(1, 19 * 4 // max(key_bytes, value_bytes, 4)):
        return (_one_tile(work, count, count * float(pair), bits),)
    passes = ceil(bits / 8)
    histogram = kernel(
        work,
        Launch(
            "radix_sort_histogram",
            "sort",
            count * float(key_bytes),
            0.0,
            8192.0,
            items=count * passes,
            cycles=0.35 if floats else 0.12,
            grid=min(924, max(1, ceil(count / 2048))),
            block=128,
            chain_s=work.constants.value("sort.histogram_s"),
            family="sort",
        ),
    )
    scan_ = kernel(
        work,
        Launch("radix_sort_exclusive_sum", "sort", written_bytes=8192.0, grid=passes, block=256),
    )
    one = _one_pass(work, count, float(count * pair), relative)
    clear = memset_kernel(work)
    return (*(clear,) * (passes + 2), histogram, scan_, *(one,) * passes)


def _one_tile(work: Work, count: int, size: float, bits: int) -> Kernel:
    """All keys by one block."""
    get = work.constants.value
    pass_s = get("sort.tile.pass_s") + count * get("sort.tile.pair_s")
    return kernel(
        work,
        Launch(
            "radix_sort_single_tile",
            "sort",
            0.0,
            size,
            size,
            grid=1,
            block=256,
            resident=1,
            chain_s=get("sort.tile.base_s") + ceil(bits / 6) * pass_s,
            family="sort",
            note=Text("one block sorts them all, 6 bits at a time"),
        ),
    )


def _one_pass(work: Work, count: int, size: float, relative: float) -> Kernel:
    """All pairs once, by 8 bits."""
    get = work.constants.value
    hot = size < 20 * 2**20
    return kernel(
        work,
        Launch(
            "radix_sort_onesweep",
            "sort",
            0.0 if hot else size,
            size if hot else 0.0,
            size,
            items=count,
            cycles=get("sort.pass_cycles") * relative,
            grid=max(1, ceil(count / 4608)),
            block=384,
            resident=4,
            chain_s=get("sort.pass_s"),
            family="sort",
            note=Text("one pass for 8 bits of the key"),
        ),
    )


_ROOMS = (32, 128, 1024, 2048, 4096)
"""Values that a block of 32 threads or more has room for; shorter rows are padded."""

_SEGMENTS = 128
"""Rows from which long ones are sorted one block each (Sort.cu, segmented_sort_pairs)."""


def _rows(work: Work) -> tuple[int, int]:
    spec = work.op.inputs[0]
    rank = len(spec.shape)
    dim = work.op.args.get("dim", -1)
    at = dim % rank if rank and isinstance(dim, int) and not isinstance(dim, bool) else rank - 1
    columns = spec.shape[at] if rank else 1
    return spec.numel // max(columns, 1), columns


def _block_rows(
    work: Work,
    name: str,
    rows: int,
    threads: int,
    resident: int,
    base_s: float,
    cycles: float,
    moved: float,
) -> Kernel:
    """One block a row: `base_s` for a block alone, `cycles` where multiprocessors are full."""
    return kernel(
        work,
        Launch(
            name,
            "sort",
            moved,
            0.0,
            moved,
            items=rows,
            cycles=cycles,
            grid=max(rows, 1),
            block=threads,
            resident=resident,
            streaming=True,
            chain_s=base_s,
            family="sort",
        ),
    )


@kernel_model(
    "aten::sort",
    "aten::argsort",
    "aten::msort",
    "aten::_sort",
    "aten::median",
    "aten::nanmedian",
    "aten::mode",
)
def sort(work: Work) -> tuple[Kernel, ...]:
    """Rows sorted one by one where they are short, in one segmented sort where they are long."""
    if not work.inputs or not work.inputs[0].numel:
        return ()
    if work.op.name.endswith("median") and work.op.overload == "dim":
        return topk(work)
    spec = work.op.inputs[0]
    rows, columns = _rows(work)
    get = work.constants.value
    index = TensorSpec(spec.shape, spec.stride, "int64")
    moved = float(spec.nbytes + index.nbytes)
    kept = copy_kernel(work, spec, spec, is_hot(work, 0), Text("sorted in place"))
    if columns <= 4096:
        # A ramp is laid out for each row, and the values twice.
        ramp = replace(fill_kernel(work, index), name="arange")
        first = kernel(work, Launch("arange", "sort", written_bytes=8.0 * columns))
        before = (kept, kept, first, ramp)
        room = next(n for n in _ROOMS if columns <= n)
        threads = max(32, room // 32)
        wide = "wide" if room > 128 else "narrow"
        base = get(f"sort.{wide}.base_s")
        base += spec.itemsize * get(f"sort.{wide}.byte_s")
        cycles = room * spec.itemsize * get("sort.row.value_cycles")
        cycles += get("sort.row.cycles")
        resident = max(1, min(16, 2048 // threads // 2))
        made = _block_rows(work, "sort_rows", rows, threads, resident, base, cycles, moved)
        return *before, made
    passes = int(spec.itemsize)
    numbers = kernel(
        work,
        Launch(
            "fill_reverse_indices",
            "sort",
            written_bytes=float(index.nbytes),
            items=spec.numel,
            cycles=get("sort.number.cycles"),
            streaming=True,
            grid=ceil(spec.numel / 1024),
            block=1024,
            note=Text("a division for each value"),
        ),
    )
    if rows >= _SEGMENTS:
        # A block a row: passes of 6 bits, then of 5.
        one = _segmented(work, spec, rows, "sort.segment.cycles", 384)
        other = _segmented(work, spec, rows, "sort.segment.narrow_cycles", 192)
        return kept, numbers, *(one,) * passes, *(other,) * max(1, passes // 2)
    flat = key_sort(work, spec.numel, passes, 8, floats="float" in spec.dtype)
    if rows == 1:
        return (kept, numbers, *flat)
    # Rows are sorted as segments: by value, then stably by row.
    by_row = key_sort(work, spec.numel, max(1, ceil(rows.bit_length() / 8)), 8)
    return (kept, numbers, *flat, *by_row)


def _segmented(work: Work, spec: TensorSpec, rows: int, key: str, block: int) -> Kernel:
    """One pass of CUB's segmented radix sort: a block counts, then moves, all of a row."""
    size = float(spec.numel * (spec.itemsize + 8))
    return kernel(
        work,
        Launch(
            "segmented_radix_sort",
            "sort",
            size,
            0.0,
            size,
            items=spec.numel,
            cycles=work.constants.value(key),
            grid=rows,
            block=block,
            family="sort",
            note=Text("one pass, a block a row"),
        ),
    )


_MULTIBLOCK = ((20, 20000), (40, 10000), (80, 8000), (200, 5000), (800, 3000), (4000, 800))
"""Rows up to, and length from which topk uses several blocks a row (TensorTopK.cu)."""


def _several_blocks(rows: int, columns: int) -> bool:
    for most, length in _MULTIBLOCK:
        if rows <= most:
            return columns >= length
    return columns >= 400


_FULL_THREADS = 192
"""Threads of a row's block from which its fixed work no longer grows with them."""


def _phases(columns: int) -> float:
    """Share of the dependent passes of a row of 1,024 values or more that a shorter one takes.

    The search ends where one candidate is left: two bits more for each factor of four in the
    length, after some four passes over signs and exponents that most values share; two more passes
    write the result. A single value is found in the first.
    """
    passes = 1.0 if columns == 1 else min(9.0, 4.0 + log2(columns) / 2)
    return (passes + 2) / 11


@kernel_model("aten::topk", "aten::kthvalue")
def topk(work: Work) -> tuple[Kernel, ...]:
    """The k largest of each row, its k-th, or its median, which is found like the k-th."""
    if not work.inputs or not work.inputs[0].numel or not work.outputs:
        return ()
    spec = work.op.inputs[0]
    rows, columns = _rows(work)
    k = work.outputs[0].numel // max(rows, 1)
    get = work.constants.value
    ordered: tuple[Kernel, ...] = ()
    if k > 1 and work.op.args.get("sorted", True):
        base_s, cycles = get("sort.few.small_s"), get("sort.few.small_cycles")
        if k > 32:
            base_s = get("sort.topk.radix_s") + spec.itemsize * 0.4e-6
            cycles = get("sort.topk.radix_cycles") * max(1.0, k / 64)
        ordered = (
            _block_rows(work, "sort_rows_in_place", rows, 32, 32, base_s, cycles, written(work)),
        )
    if not _several_blocks(rows, columns):
        threads = min(1024, max(32, ceil(columns / 32) * 32))
        # The k-th is found two bits at a time, each time over the whole row.
        base = get("sort.topk.base_s")
        bytes_s = get("sort.topk.byte_s") * _phases(columns)
        base += spec.itemsize * (bytes_s + columns * get("sort.topk.value_s"))
        cycles = get("sort.topk.row_cycles") * spec.itemsize * min(1.0, threads / _FULL_THREADS)
        cycles += columns * spec.itemsize * get("sort.topk.value_cycles")
        resident = max(1, 2048 // threads)
        size = float(spec.nbytes)
        pick = _block_rows(work, "topk_rows", rows, threads, resident, base, cycles, size)
        return (pick, *ordered)
    return (*_topk_several_blocks(work, spec, rows, columns), *ordered)


def _row_blocks(units: int, rows: int, columns: int) -> int:
    """Blocks of 256 threads for a row: six a multiprocessor, 4 to 64 values a thread.

    TensorTopK.cu, `get_items_per_thread` (six with 40 registers a thread fill a multiprocessor);
    so all 70 recorded grids.
    """
    values = ceil(columns * rows / (units * 6 * 256))
    return ceil(columns / (256 * min(max(values, 4), 64)))


def _topk_several_blocks(
    work: Work, spec: TensorSpec, rows: int, columns: int
) -> tuple[Kernel, ...]:
    get = work.constants.value
    each = _row_blocks(machine(work).units, rows, columns)
    blocks = rows * each
    size = float(spec.nbytes)

    def walk(name: str, key: str, again: float = 1.0) -> Kernel:
        return kernel(
            work,
            Launch(
                name,
                "sort",
                size * again,
                0.0,
                blocks * 512.0,
                items=spec.numel * again,
                cycles=get(f"sort.topk.{key}_cycles"),
                grid=blocks,
                block=256,
                chain_s=get("sort.topk.walk_s"),
                family="sort",
            ),
        )

    def per_block(name: str, grid: int, cycles: float, chain_s: float) -> Kernel:
        return _block_rows(work, name, grid, 256, 8, chain_s, cycles, blocks * 512.0)

    digits = (
        walk("topk_digit_counts", "count"),
        # A block a row adds up what the row's blocks counted, one after the other.
        per_block("topk_digit_sums", rows, 250.0, each * get("sort.topk.block_s")),
        per_block("topk_within_counts", blocks, 440.0, 0.2e-6),
    )
    scan_pair = (
        kernel(work, Launch("scan_init", "sort", grid=1)),
        kernel(work, Launch("scan_by_key", "sort", blocks * 8.0, chain_s=1.6e-6)),
    )
    clear = memset_kernel(work)
    return (
        kernel(work, Launch("fill", "sort", written_bytes=rows * 4.0)),
        clear,
        clear,
        *digits * int(spec.itemsize),
        kernel(work, Launch("topk_kth_counts", "sort", chain_s=0.8e-6)),
        *scan_pair * 2,
        walk("topk_gather", "gather"),
    )


@kernel_model("aten::multinomial")
def multinomial(work: Work) -> tuple[Kernel, ...]:
    """Without replacement (or one sample): exponential noise, division, and the largest."""
    if not work.inputs or not work.inputs[0].numel:
        return ()
    spec = work.op.inputs[0]
    rank = len(spec.shape)
    samples = work.op.args.get("num_samples", 1)
    noise = fill_kernel(work, spec)
    count = isinstance(samples, int) and samples > 1
    if count and work.op.args.get("replacement", False):
        read = reads(work)
        draw = kernel(
            work,
            Launch(
                "sample_multinomial",
                "sort",
                read.total,
                0.0,
                written(work),
                chain_s=5e-6,
                grid=max(1, spec.numel // max(spec.shape[-1], 1)),
                block=128,
            ),
        )
        return (*scan(work), draw)
    best = reduce_kernels(
        work, spec, (rank - 1,), name="argmax", hot=True, arithmetic=1.3, out_bytes=written(work)
    )
    drawn = replace(noise, name="exponential", kind="random"), replace(noise, name="div")
    return *_checked(work, spec), *drawn, *best


def _checked(work: Work, spec: TensorSpec) -> tuple[Kernel, ...]:
    """That no probability is below zero or endless and that no row sums to zero: three reductions,
    comparisons of their results, two assertions (recorded; ATen/native/Distributions.cpp)."""
    every, rank = tuple(range(len(spec.shape))), len(spec.shape)

    def one(name: str) -> Kernel:
        return kernel(work, Launch(name, "pointwise", grid=1))

    return (
        *reduce_kernels(work, spec, every, name="min", hot=True),
        one("ge"),
        *reduce_kernels(work, spec, every, name="max", hot=True),
        *(one(name) for name in ("lt", "bitwise_and", "assert_async")),
        *reduce_kernels(work, spec, (rank - 1,), name="sum", hot=True),
        *(one(name) for name in ("eq", "any", "bitwise_not", "assert_async")),
    )
