"""Indexed reads and writes: embeddings, index, gather, scatter, masks, counting.

Rows that are dense and 16-byte aligned are gathered by one block a row, and small ones limited by
how fast blocks begin. Sixteen indices or fewer are walked one by one by each thread. Gradients of
embeddings are in `embedding_gradient`.
"""

from __future__ import annotations

from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, first_dtype, is_hot, kernel, reads, written
from gpuscope.cost.copy.model import copy_kernel, fill_kernel, made_contiguous
from gpuscope.cost.copy.transfer import link_copy
from gpuscope.cost.indexing.sort import key_sort
from gpuscope.cost.pointwise.elementwise import elementwise
from gpuscope.cost.reduction.model import reduce_kernels
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

_WARP = 32


def _rows_kernel(
    work: Work,
    name: str,
    table: TensorSpec,
    rows: int,
    row_bytes: float,
    hot: bool,
    index_bytes: float,
) -> Kernel:
    """Gather whole rows: a block a row (or more for rows above 4 KiB)."""
    get = work.constants.value
    distinct = min(rows * row_bytes, float(table.nbytes))
    threads = min(256, max(32, ceil(row_bytes / 16 / 32) * 32))
    grid = rows * max(1, ceil(row_bytes / 16 / 256))
    # A table much smaller than what is gathered from it is in the cache after its first use.
    in_cache = hot or distinct * 4 < rows * row_bytes
    return kernel(
        work,
        Launch(
            name,
            "gather",
            0.0 if in_cache else distinct,
            rows * row_bytes if in_cache else 0.0,
            rows * row_bytes,
            distinct + rows * row_bytes + index_bytes,
            grid=max(grid, 1),
            block=threads,
            # By the time that all blocks have begun, the first are done.
            streaming=True,
            loads=get("gather.rows.loads"),
            dtype=table.dtype,
            family="gather.rows",
            note=Text("index, then data: two loads in a row"),
        ),
    )


def element_kernel(
    work: Work,
    name: str,
    key: str,
    items: int,
    read: float,
    out: float,
    note: str = "",
    loads: float = 0.0,
) -> Kernel:
    """One index computation an element; `loads`: what a thread waits for that walks several."""
    hot = all(is_hot(work, i) for i in range(len(work.op.inputs)))
    get = work.constants.value
    return kernel(
        work,
        Launch(
            name,
            "gather",
            0.0 if hot else read,
            read if hot else 0.0,
            out,
            items=items,
            cycles=get(f"gather.{key}.cycles"),
            grid=max(1, ceil(items / (WALKED * 128 if loads else 512))),
            loads=loads or 1.0,
            streaming=not loads,
            chain_s=0.0 if loads else get(f"gather.{key}.base_s", "gather.element.base_s"),
            dtype=first_dtype(work),
            family="gather.element",
            note=note,
        ),
    )


WALKED = 8
"""Elements that a thread of `_scatter_gather` walks, at most."""


def walk(work: Work, items: int, values: bool = True) -> float:
    """Loads, one after the other, of a thread that walks up to 8 elements (`_scatter_gather`).

    Args:
        work: the operator.
        items: elements; fewer than a block's have threads with fewer.
        values: each index is followed by what it points at, or what is written there.
    """
    each = work.constants.value("gather.walk.loads") * (1.0 if values else 0.5)
    return each * min(WALKED, ceil(items / 128))


FEW_INDICES = 16
"""Most indices that each thread walks one after the other (Indexing.cu)."""


def few_rows(work: Work, name: str, count: int, out: TensorSpec) -> Kernel:
    """A thread a column, which takes the rows one by one: an index, then its element."""
    get = work.constants.value
    moved = float(out.nbytes)
    hot = all(is_hot(work, i) for i in range(len(work.op.inputs)))
    return kernel(
        work,
        Launch(
            name,
            "gather",
            0.0 if hot else moved,
            moved if hot else 0.0,
            moved,
            grid=max(1, ceil(out.numel / max(count, 1) / 128)),
            block=128,
            loads=count * get("gather.few.load"),
            chain_s=count * get("gather.few.row_s"),
            dtype=out.dtype,
            family="gather.element",
            note=Text("few indices: one after the other"),
        ),
    )


@kernel_model("aten::embedding", "aten::index_select")
def embedding(work: Work) -> tuple[Kernel, ...]:
    """Rows of a table by number."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    table, index = work.op.inputs[0], work.op.inputs[-1]
    out = work.outputs[0]
    dim = work.op.args.get("dim", 0)
    if work.op.name == "aten::index_select" and dim not in (0, -len(table.shape)):
        moved = float(out.nbytes)
        return (element_kernel(work, "index_select", "elementwise", out.numel, moved, moved),)
    row_bytes = out.nbytes / max(index.numel, 1)
    if index.numel <= FEW_INDICES and len(table.shape) > 1:
        return (few_rows(work, "index_select_few", index.numel, out),)
    if row_bytes % 16 or not table.is_contiguous:
        moved = float(out.nbytes)
        return (element_kernel(work, "index_select", "elementwise", out.numel, moved, moved),)
    return (
        _rows_kernel(
            work, "gather_rows", table, index.numel, row_bytes, is_hot(work, 0), float(index.nbytes)
        ),
    )


@kernel_model("aten::gather", "aten::take", "aten::take_along_dim")
def gather(work: Work) -> tuple[Kernel, ...]:
    """Elements by index; an index that is broadcast along dense rows gathers rows."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    table, index = work.op.inputs[:2]
    out = work.outputs[0]
    if len(index.shape) == 2 and index.stride[-1] == 0 and table.is_contiguous:
        row_bytes = out.nbytes / max(index.shape[0], 1)
        if row_bytes % 16 == 0:
            return (
                _rows_kernel(
                    work,
                    "gather_rows",
                    table,
                    index.shape[0],
                    row_bytes,
                    is_hot(work, 0),
                    float(index.touched_bytes),
                ),
            )
    # Each element draws a sector of its own, at most the whole table; rows are dense where one
    # index serves a row.
    rows = bool(index.stride) and index.stride[-1] == 0 and table.stride[-1] == 1
    sectors = float(out.nbytes) if rows else out.numel * 32.0
    read = min(sectors, float(table.nbytes)) + index.touched_bytes
    size, loads = float(out.nbytes), walk(work, out.numel)
    return (element_kernel(work, "gather", "elementwise", out.numel, read, size, loads=loads),)


@kernel_model("aten::index", "aten::_unsafe_index", "aten::_unsafe_masked_index")
def index(work: Work) -> tuple[Kernel, ...]:
    """Advanced indexing: rows by one index, elements by several, or all where a mask is set."""
    if not work.outputs:
        return ()
    table, indices = work.op.inputs[0], work.op.inputs[1:]
    out = work.outputs[0]
    masks = [t for t in indices if t.dtype in ("bool", "uint8")]
    before = tuple(k for m in masks for k in _nonzero(work, m, out.numel))
    if not out.numel:
        return before
    chosen = indices[0].numel if indices else 1
    row_bytes = out.nbytes / max(chosen, 1)
    if len(indices) == 1 and not masks and table.is_contiguous and row_bytes % 16 == 0:
        return (
            _rows_kernel(
                work,
                "gather_rows",
                table,
                chosen,
                row_bytes,
                is_hot(work, 0),
                float(indices[0].nbytes),
            ),
        )
    read = min(
        out.numel * max(table.itemsize, 32.0 if row_bytes < 32 else 0.0), float(table.nbytes)
    )
    read += sum(t.touched_bytes for t in indices)
    body = element_kernel(work, "index", "index", out.numel, read, float(out.nbytes))
    return (*before, body)


@kernel_model(
    "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put"
)
def index_put(work: Work) -> tuple[Kernel, ...]:
    """Writes by index; accumulating sorts the indices first, so that sums are reproducible."""
    inputs = work.op.inputs
    table, values, indices = inputs[0], inputs[-1], inputs[1:-1]
    before: tuple[Kernel, ...] = ()
    if not work.op.name.endswith("_") and work.outputs:
        before = (copy_kernel(work, table, work.outputs[0], is_hot(work, 0)),)
    masks = [t for t in indices if t.dtype in ("bool", "uint8")]
    count = prod(_together(indices)) if indices else 0
    if masks:
        count = max(values.numel, 1)
        before += tuple(k for m in masks for k in _nonzero(work, m, count))
    tail = prod(table.shape[len(indices) :]) if len(indices) < len(table.shape) else 1
    items = max(values.numel, count * (1 if masks else tail))
    if not items:
        return before
    moved = items * values.itemsize
    if not work.op.args.get("accumulate", False):
        return (*before, element_kernel(work, "index_put", "index_put", items, moved, moved))
    # The values are read row by row: others are copied first (`value.contiguous()`).
    before += made_contiguous(work, len(inputs) - 1)
    return (*before, *_accumulated(work, table, indices, count))


def _accumulated(
    work: Work, table: TensorSpec, indices: tuple[TensorSpec, ...], count: int
) -> tuple[Kernel, ...]:
    """Sums by index in a fixed order: one index of all the given ones, sorted, then a warp each.

    Each leading dimension that is not indexed repeats the blocks, so that picking 351 of 27 x 27
    values of 16,384 images is 1.4 million of them (`index_put_with_sort_kernel` in
    aten/src/ATen/native/cuda/Indexing.cu).
    """
    given = work.op.args.get("indices")
    leading = 0
    if isinstance(given, (tuple, list)):
        leading = next((i for i, entry in enumerate(given) if entry is not None), 0)
    images = prod(table.shape[:leading])
    tail = prod(table.shape[leading + len(indices) :])
    slots = max(table.numel // max(tail, 1), 1)
    # Negative indices are wrapped and strides multiplied in, both dense; added up; divided by the
    # tail; and numbered.
    each = 8.0 * count
    reads = [r for t in indices for r in (t.touched_bytes, each)]
    reads += [*[2 * each] * (len(indices) - 1), each, 0.0]
    prepared = tuple(_linear_index(work, count, read) for read in reads)
    sort = key_sort(work, count, 8, 8, bits=max(slots - 1, 1).bit_length())
    from gpuscope.cost.indexing.index_sums import index_sums

    body = index_sums(work, table, count, slots, tail, images)
    if work.op.name.startswith("aten::index_put") or work.op.args.get("unsafe") is False:
        prepared = (*_in_range(work, indices), *prepared)
    return (*prepared, *sort, body)


def _in_range(work: Work, indices: tuple[TensorSpec, ...]) -> tuple[Kernel, ...]:
    """The largest and the smallest of each index are held against the size, on the device.

    What autograd writes by is known to be right, and is not looked at.
    """
    get = work.constants.value
    asserted_s = get("gather.assert_s")
    held = (_small(work, "compare", 0.25e-6), _small(work, "assert", asserted_s))
    return tuple(
        made
        for spec in indices
        for name in ("max", "min")
        for made in (
            *reduce_kernels(work, spec, tuple(range(len(spec.shape))), name=name, out_bytes=8.0),
            *held,
        )
    )


def _together(tensors: tuple[TensorSpec, ...]) -> list[int]:
    """The shape to which tensors are expanded."""
    longest = max(len(t.shape) for t in tensors)
    shapes = [(1,) * (longest - len(t.shape)) + tuple(t.shape) for t in tensors]
    return [0 if 0 in sizes else max(sizes) for sizes in zip(*shapes, strict=True)]


def _linear_index(work: Work, count: int, read: float) -> Kernel:
    """One step of making `count` indices one: 8 bytes written for each."""
    chain_s = work.constants.value("gather.linear_index_s")
    wrote, grid = 8.0 * count, max(1, ceil(count / 512))
    launch = Launch(
        "linear_index", "gather", read, 0.0, wrote, items=count, grid=grid, streaming=True,
        chain_s=chain_s,
    )  # fmt: skip
    return kernel(work, launch)


def _small(work: Work, name: str, chain_s: float) -> Kernel:
    return kernel(work, Launch(name, "gather", written_bytes=64.0, chain_s=chain_s))


@kernel_model("aten::_embedding_bag", "aten::_embedding_bag_forward_only", "aten::embedding_bag")
def embedding_bag(work: Work) -> tuple[Kernel, ...]:
    """Sum or mean of the rows of each bag, without writing the rows.

    A warp takes 32 columns of a bag at a time; finding out which costs it two 64-bit divisions,
    more than a row of the table does (EmbeddingBag.cu).
    """
    if not work.outputs or not work.outputs[0].numel:
        return ()
    table, index = work.op.inputs[:2]
    out = work.outputs[0]
    if not index.numel * table.shape[-1]:
        return (fill_kernel(work, out),)
    get = work.constants.value
    bags = out.shape[0]
    pieces = bags * ceil(out.shape[-1] / 32)
    each = index.numel / bags
    gathered = min(index.numel * out.shape[-1] * table.itemsize, float(table.nbytes) * 4)
    cycles = get("gather.bag.piece_cycles") + each * get("gather.bag.row_cycles")
    chain = get("gather.bag.base_s") + each * get("gather.bag.row_s")
    return (
        kernel(
            work,
            Launch(
                "embedding_bag",
                "gather",
                gathered + index.nbytes,
                0.0,
                float(out.nbytes),
                items=pieces,
                cycles=cycles,
                grid=1024,
                block=256,
                streaming=True,
                chain_s=chain,
                dtype=table.dtype,
                family="gather.element",
                note=Text("a warp for 32 columns of a bag"),
            ),
        ),
    )


def _nonzero(work: Work, mask: TensorSpec, found: int) -> tuple[Kernel, ...]:
    """Count, fetch the count to the host, compact, and split into coordinates."""
    get = work.constants.value
    size = float(mask.nbytes)
    count = kernel(
        work,
        Launch(
            "count_nonzero",
            "reduction",
            size,
            0.0,
            4.0,
            items=mask.numel,
            cycles=0.12,
            grid=max(1, ceil(mask.numel / 4096)),
            block=256,
            chain_s=0.4e-6,
        ),
    )
    select = kernel(
        work,
        Launch(
            "select_nonzero",
            "gather",
            size,
            0.0,
            found * 8.0,
            items=mask.numel,
            cycles=get("gather.select.cycles"),
            grid=max(1, ceil(mask.numel / 4224)),
            block=384,
            chain_s=get("gather.select.base_s"),
            family="gather.element",
        ),
    )
    kernels = (
        count,
        _small(work, "count_nonzero_total", 0.2e-6),
        link_copy(work, 8.0, "d2h", True),
        _small(work, "scan_init", 0.0),
        select,
    )
    if len(mask.shape) < 2:
        return kernels
    split = element_kernel(
        work, "write_indices", "write_indices", found, found * 8.0, found * 8.0 * len(mask.shape)
    )
    return (*kernels, split)


@kernel_model("aten::nonzero", "aten::nonzero_static", "aten::argwhere")
def nonzero(work: Work) -> tuple[Kernel, ...]:
    """Positions of the elements that are set; the host waits for their number."""
    if not work.inputs or not work.inputs[0].numel:
        return ()
    found = work.outputs[0].shape[0] if work.outputs and work.outputs[0].shape else 0
    return _nonzero(work, work.inputs[0], found)


@kernel_model("aten::masked_select")
def masked_select(work: Work) -> tuple[Kernel, ...]:
    """The elements under a mask: positions first, then a gather."""
    if not work.outputs or len(work.op.inputs) < 2:
        return ()
    found = work.outputs[0].numel
    picked = element_kernel(
        work, "index", "index", found, found * 16.0, float(work.outputs[0].nbytes)
    )
    return (*_nonzero(work, work.op.inputs[1], found), picked)


@kernel_model(
    "aten::bincount",
    "aten::histc",
    "aten::histogram",
    "aten::searchsorted",
    "aten::bucketize",
    "aten::one_hot",
)
def count(work: Work) -> tuple[Kernel, ...]:
    """A binary search for each element, or counting in shared memory, added up by atomics."""
    if not work.inputs or not work.inputs[0].numel or not work.outputs:
        return ()
    items = work.inputs[-1].numel if "search" in work.op.name else work.inputs[0].numel
    read = reads(work).total
    histogram = work.op.name in ("aten::bincount", "aten::histc", "aten::histogram")
    body = element_kernel(
        work,
        work.op.name.rpartition("::")[2],
        "histogram" if histogram else "count",
        items,
        read,
        written(work),
    )
    if work.op.name in ("aten::searchsorted", "aten::bucketize"):
        return (body,)
    if work.op.name == "aten::bincount":
        # The smallest and the largest are looked for, and fetched, before anything is counted.
        spec = work.inputs[0]
        ends = tuple(
            kernel
            for name in ("min", "max")
            for kernel in (
                *reduce_kernels(work, spec, tuple(range(len(spec.shape))), name=name),
                link_copy(work, 8.0, "d2h", True),
            )
        )
        return *ends, fill_kernel(work, work.outputs[0]), body
    return fill_kernel(work, work.outputs[0]), body


@kernel_model("aten::_unique2", "aten::_unique", "aten::unique_dim", "aten::unique_consecutive")
def unique(work: Work) -> tuple[Kernel, ...]:
    """Sort, mark the first of each run, compact."""
    if not work.inputs or not work.inputs[0].numel:
        return ()
    spec = work.inputs[0]
    sort: tuple[Kernel, ...] = ()
    if "consecutive" not in work.op.name:
        sort = key_sort(work, spec.numel, int(spec.itemsize), 8)
    flags = elementwise(work, name="differs") if work.outputs and work.outputs[0].numel else ()
    return (*sort, *flags, *_nonzero(work, spec, work.outputs[0].numel if work.outputs else 0))
