"""Gradients of embeddings and of bags of them: indices are sorted, equal ones summed.

Up to 3,072 indices of a plain embedding one kernel walks them all. Otherwise
(aten/src/ATen/native/cuda/Embedding.cu, EmbeddingBag.cu, EmbeddingBackwardKernel.cu) the indices
are sorted with their positions and cut where they change, and each run of equal ones into parts of
ten rows. A kernel sums each part, row after row; another adds the parts of a run, part after part:
quick where indices differ, a long chain where thousands of them fall on a few rows of the table.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine
from gpuscope.cost.copy.model import copy_kernel, fill_kernel
from gpuscope.cost.indexing.sort import CUB_TILE_BYTES, key_sort
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec, row_major

ROWS_A_PART = 10
"""Gradient rows that one block adds up (NROWS_PER_THREAD in EmbeddingBackwardKernel.cu)."""

_FEW_PARTS = 4.0
"""Parts of a run that are still added one after the other (recorded: 1 are, 13 are not)."""

_WALKED = 3072
"""Most indices that one kernel walks, unsorted (Embedding.cu)."""


@kernel_model("aten::embedding_dense_backward", "aten::embedding_backward")
def embedding_backward(work: Work) -> tuple[Kernel, ...]:
    """Add each gradient row to its row of the table."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    grad, index = work.op.inputs[:2]
    table = work.outputs[0]
    count, width = index.numel, table.shape[-1]
    fill = fill_kernel(work, table)
    if not count:
        return (fill,)
    if count <= _WALKED:
        dense = (copy_kernel(work, t, _dense(t)) for t in (grad, index) if not t.is_contiguous)
        return *dense, fill, _walk(work, count, width, grad)
    return sorted_gradient(work, grad, count, width, fill)


@kernel_model("aten::_embedding_bag_backward", "aten::_embedding_bag_dense_backward")
def embedding_bag_backward(work: Work) -> tuple[Kernel, ...]:
    """Dense gradient of a table of bags, always sorted; a sparse one only picks the bags' rows."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    grad, index = work.op.inputs[:2]
    table = work.outputs[0]
    count, width = index.numel, grad.shape[-1]
    rows = TensorSpec((count, width), (width, 1), grad.dtype)
    if work.op.args.get("mode") == 2 and count:
        return fill_kernel(work, table), _largest(work, grad)
    if work.op.args.get("sparse", False) or not count:
        return (
            kernel(
                work,
                Launch(
                    "index_select",
                    "gather",
                    float(grad.nbytes),
                    0.0,
                    float(rows.nbytes),
                    items=count * width,
                    cycles=work.constants.value("gather.elementwise.cycles"),
                    grid=max(1, ceil(count * width / 512)),
                    streaming=True,
                    chain_s=work.constants.value("gather.element.base_s"),
                    dtype=grad.dtype,
                    family="gather.element",
                ),
            ),
        )
    return sorted_gradient(work, rows, count, width, fill_kernel(work, table), bags=True)


def _dense(spec: TensorSpec) -> TensorSpec:
    """The same, row by row."""
    return replace(spec, stride=row_major(spec.shape))


def _largest(work: Work, grad: TensorSpec) -> Kernel:
    """The gradient of each bag's largest row goes to that row, atomically, unsorted."""
    pieces = grad.shape[0] * ceil(grad.shape[-1] / 32)
    return kernel(
        work,
        Launch(
            "embedding_bag_max_gradient",
            "gather",
            float(grad.nbytes * 3),
            0.0,
            float(grad.nbytes),
            items=pieces,
            grid=1024,
            block=256,
            streaming=True,
            cycles=work.constants.value("gather.bag.max_cycles"),
            chain_s=0.9e-6,
            dtype=grad.dtype,
            family="gather.backward",
        ),
    )


def _walk(work: Work, count: int, width: int, grad: TensorSpec) -> Kernel:
    get = work.constants.value
    size = float(grad.nbytes)
    return kernel(
        work,
        Launch(
            "embedding_backward_feature",
            "gather",
            size,
            0.0,
            size,
            items=grad.numel,
            cycles=0.5,
            grid=max(1, ceil(width / 32)),
            block=1024,
            resident=2,
            chain_s=get("gather.walk.base_s") + count * get("gather.walk.step_s"),
            dtype=grad.dtype,
            family="gather.backward",
            note=Text("every block walks all indices"),
        ),
    )


def sorted_gradient(
    work: Work, grad: TensorSpec, count: int, width: int, fill: Kernel, bags: bool = False
) -> tuple[Kernel, ...]:
    """The launches of `embedding_backward_cuda_kernel`, in order.

    Args:
        work: whose first output is the table's gradient.
        grad: what is added up, one row for each index.
        count: indices.
        width: values in a row.
        fill: the kernel that clears the table's gradient.
        bags: the rows are looked up through their bags.
    """
    get = work.constants.value
    runs = min(count, work.outputs[0].shape[0])  # of equal indices, at most
    parts = runs + count // ROWS_A_PART  # what the library allows for; blocks beyond end at once
    in_run = count / runs / ROWS_A_PART  # parts of a run, where indices are evenly spread
    tiles = ceil(count / (CUB_TILE_BYTES / 16))
    look_s = get("gather.unique.lookback_s") * (tiles > 1)
    unique = _small(work, "unique_by_key", get("gather.unique_s") + look_s, tiles)
    scan = _small(work, "scan_decoupled_lookback", get("gather.scan_s"), tiles)
    init = _small(work, "scan_init", 0.0)
    step_s = get("gather.parts.step_s")
    blocks = ceil(runs / 32)
    sums = _parts(
        work,
        grad,
        "compute_grad_weight" + "_bags" * bags,
        parts,
        width,
        min(count / runs, ROWS_A_PART) - 1.0,
        "row",
    )
    ends: tuple[Kernel, ...]
    if bags or in_run <= _FEW_PARTS:
        ends = (
            sums,
            _parts(work, grad, "sum_and_scatter", runs, width, max(0.0, in_run - 1.0), "part"),
        )
    else:
        # Many parts of few rows are added up atomically, in float32.
        found = _small(work, "partial_to_segment", 0.2e-6 + in_run * step_s, blocks)
        wide = fill_kernel(work, replace(work.outputs[0], dtype="float32"))
        narrow = copy_kernel(work, replace(work.outputs[0], dtype="float32"), work.outputs[0])
        cast = grad.dtype != "float32"
        ends = (
            found,
            *(wide,) * cast,
            replace(sums, name="compute_grad_weight_atomic"),
            *(narrow,) * cast,
        )
    return (
        _small(work, "arange", 0.1e-6, ceil(count / 64)),
        *key_sort(work, count, 8, 8),
        fill,
        init,
        unique,
        _small(work, "partials_per_segment", get("gather.parts.base_s"), blocks),
        init,
        scan,
        _small(work, "count_partial_segments", 0.15e-6),
        _small(
            work,
            "partial_segment_offset",
            get("gather.parts.base_s") + max(0.0, in_run - 1.0) * step_s,
            blocks,
        ),
        *ends,
    )


def _parts(
    work: Work, grad: TensorSpec, name: str, parts: int, width: int, steps: float, key: str
) -> Kernel:
    """A thread for each column of each part; `steps` further rows ("row", whose places are looked
    up) or parts ("part", whose places are known) are added one by one."""
    get = work.constants.value
    m = machine(work)
    strided = ceil(width / 32) * 32
    threads = min(strided, 1024)
    grid = max(1, ceil(parts * strided / threads))
    resident = min(m.blocks_per_unit, max(1, (m.threads_per_unit or 2048) // threads))
    waves = grid / (m.units * resident)
    step_s = get(f"gather.parts.{key}_s")
    wave_s = get("gather.parts.wave_s") + steps * step_s
    return kernel(
        work,
        Launch(
            name,
            "gather",
            float(grad.nbytes),
            0.0,
            float(grad.nbytes),
            grid=grid,
            block=threads,
            # Waves overlap: a started one counts only for its share.
            chain_s=wave_s * max(waves, 1.0) / ceil(max(waves, 1e-9)),
            loads=0.0,
            dtype=grad.dtype,
            family="gather.backward",
            note=Text("a block for each part of equal indices"),
        ),
    )


def _small(work: Work, name: str, chain_s: float, grid: int = 1) -> Kernel:
    """A kernel of little work: its launch, its dependent steps, its blocks' beginnings."""
    return kernel(
        work,
        Launch(
            name,
            "gather",
            written_bytes=64.0,
            chain_s=chain_s,
            streaming=True,
            grid=max(1, grid),
            block=32,
        ),
    )
