"""Layer norm and RMS norm, forward and backward (batch and group norm: see `batch_norm`).

Forward is one kernel with a block of 128 threads for each row, limited by the running-variance
arithmetic (Welford) rather than by memory; backward is one such kernel for the input's gradient and
one that adds up the columns for weight and bias (aten/src/ATen/native/cuda/layer_norm_kernel.cu).
"""

from __future__ import annotations

from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, kernel, machine, missed_share, reads, written
from gpuscope.cost.copy.model import made_contiguous
from gpuscope.cost.reduction.model import reduce_kernels
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

_ROW_THREADS = 128
_VECTOR = 4
"""Values that a thread loads at once (vec_size in layer_norm_kernel.cu)."""


def _columns(work: Work, spec: TensorSpec) -> int:
    """Length of the normalised rows: the product of `normalized_shape`."""
    shape = work.op.args.get("normalized_shape")
    if isinstance(shape, (tuple, list)):
        return prod(int(s) for s in shape if isinstance(s, int)) or 1
    return spec.shape[-1] if spec.shape else 1


@kernel_model(
    "aten::native_layer_norm",
    "aten::layer_norm",
    "aten::_fused_rms_norm",
    "aten::rms_norm",
    "gpuscope::rms_norm",
)
def layer_norm(work: Work) -> tuple[Kernel, ...]:
    """Mean and variance of each row, then scale and shift it."""
    spec = work.op.inputs[0]
    if spec.device != "device" or not spec.numel:
        return ()
    columns = _columns(work, spec)
    rows = spec.numel // columns
    if columns % _VECTOR:
        return *made_contiguous(work, 0), *_layer_norm_unaligned(work, rows, columns)
    return *made_contiguous(work, 0), _layer_norm_rows(work, spec, rows, columns)


# Clocks a row and a step of 512 values, seconds a row and a step, by (rms, 4-byte data).
def _layer_norm_rows(work: Work, spec: TensorSpec, rows: int, columns: int) -> Kernel:
    get = work.constants.value
    m = machine(work)
    rms = "rms" in work.op.name
    steps = ceil(columns / (_ROW_THREADS * _VECTOR))
    wide = spec.itemsize >= 4
    resident = 12 if wide else 16
    read, out = reads(work), written(work)
    missed = missed_share(m, spec.nbytes / rows, rows, resident)
    again = float(spec.nbytes)
    key = f"normalization.{'rms' if rms else 'layer'}.{'wide' if wide else 'narrow'}"
    return kernel(
        work,
        Launch(
            "rms_norm_vectorized" if rms else "layer_norm_vectorized",
            "normalization",
            read.cold + again * missed,
            read.hot + again * (1 - missed),
            out,
            read.total + out,
            items=rows,
            cycles=get(f"{key}.row_cycles") + steps * get(f"{key}.step_cycles"),
            grid=rows,
            block=_ROW_THREADS,
            resident=resident,
            chain_s=get(f"{key}.base_s") + steps * get(f"{key}.step_s"),
            dtype=spec.dtype,
            family="normalization.layer",
            note="" if rms else Text("limited by the running-variance arithmetic of each row"),
        ),
    )


def _layer_norm_unaligned(work: Work, rows: int, columns: int) -> tuple[Kernel, ...]:
    """Rows that no vector fits: one kernel for the moments, one to normalise."""
    get = work.constants.value
    spec = work.op.inputs[0]
    read, out = reads(work), written(work)
    moments = kernel(
        work,
        Launch(
            "row_moments",
            "normalization",
            read.cold,
            read.hot,
            rows * 8.0,
            items=spec.numel,
            cycles=get("normalization.moments.cycles"),
            grid=rows,
            block=512,
            chain_s=get("normalization.moments.base_s")
            + ceil(columns / 512) * get("normalization.moments.step_s"),
            dtype=spec.dtype,
            family="normalization.layer",
        ),
    )
    scale = kernel(
        work,
        Launch(
            "layer_norm_apply",
            "normalization",
            float(spec.nbytes),
            0.0,
            out,
            items=spec.numel,
            grid=rows,
            cycles=get("normalization.apply.cycles") * spec.itemsize,
            block=256,
            chain_s=ceil(columns / 256) * 0.45e-6,
            dtype=spec.dtype,
            family="normalization.layer",
        ),
    )
    return moments, scale


@kernel_model(
    "aten::native_layer_norm_backward",
    "aten::_fused_rms_norm_backward",
    "gpuscope::rms_norm_backward",
)
def layer_norm_backward(work: Work) -> tuple[Kernel, ...]:
    """Gradient of the input, then those of weight and bias where they are wanted."""
    grad, spec = work.op.inputs[0], work.op.inputs[1]
    if not spec.numel or spec.device != "device":
        return ()
    columns = _columns(work, spec)
    rows = spec.numel // columns
    kernels = [*made_contiguous(work, 0, 1), _grad_input(work, grad, spec, rows, columns)]
    weights = [t for t in work.op.outputs[1:] if t.numel and t.device == "device"]
    if weights:
        kernels += _grad_weight(work, grad, spec, rows, columns, len(weights))
    return tuple(kernels)


def _grad_input(work: Work, grad: TensorSpec, spec: TensorSpec, rows: int, columns: int) -> Kernel:
    get = work.constants.value
    m = machine(work)
    aligned = columns % _VECTOR == 0
    read = reads(work, (0, 1))
    out = float(work.op.outputs[0].nbytes)
    resident = 16
    row_bytes = (grad.nbytes + spec.nbytes) / rows
    missed = missed_share(m, row_bytes, rows, resident)
    steps = ceil(columns / (_ROW_THREADS * (_VECTOR if aligned else 1)))
    per_step = get("normalization.backward.step_cycles")
    if not aligned:
        per_step = get("normalization.backward.odd_step_cycles") * spec.itemsize
    return kernel(
        work,
        Launch(
            "layer_norm_grad_input",
            "normalization",
            read.cold + read.total * missed,
            read.hot + read.total * (1 - missed),
            out,
            read.total + out,
            items=rows,
            cycles=get("normalization.backward.row_cycles") + steps * per_step,
            grid=rows,
            block=_ROW_THREADS,
            resident=resident,
            chain_s=get("normalization.backward.base_s")
            + steps * get("normalization.backward.step_s"),
            dtype=spec.dtype,
            family="normalization.backward",
        ),
    )


_TALL_ROWS = 64 * 1024
"""Rows from which few columns are first summed by blocks of rows (layer_norm_kernel.cu)."""


def _grad_weight(
    work: Work, grad: TensorSpec, spec: TensorSpec, rows: int, columns: int, count: int
) -> list[Kernel]:
    """Column sums: 32 columns a block, all rows one after the other, 256 at a time."""
    get = work.constants.value
    m = machine(work)
    both = float(grad.nbytes + spec.nbytes)
    hot = 2 * both <= m.l2_bytes
    cold, warm = (0.0, both) if hot else (both, 0.0)
    groups = ceil(columns / 32)
    if rows > _TALL_ROWS and groups < m.units / 2:
        parts = ceil(rows / 32) if columns < 256 else 1024
        partial = TensorSpec((parts, columns), (columns, 1), "float32")
        first = kernel(
            work,
            Launch(
                "layer_norm_grad_weight_partial",
                "normalization",
                cold,
                warm,
                float(partial.nbytes * count),
                items=spec.numel,
                cycles=get("normalization.weight.cycles"),
                grid=groups * parts,
                block=32,
                resident=32,
                chain_s=2e-6,
                dtype=spec.dtype,
                family="normalization.weight",
            ),
        )
        second = reduce_kernels(work, partial, (0,), name="sum", hot=True)
        return [first, *second * count]
    steps = ceil(rows / 256)
    relative = 1.0 if count > 1 else get("normalization.weight.rms_relative")
    step_s = get("normalization.weight.step_s") * relative
    return [
        kernel(
            work,
            Launch(
                "layer_norm_grad_weight",
                "normalization",
                cold,
                warm,
                float(columns * count * 4),
                items=spec.numel,
                cycles=get("normalization.weight.cycles"),
                grid=groups,
                block=min(1024, 32 * max(1, ceil(rows / 8))),
                resident=2,
                chain_s=get("normalization.weight.base_s") + steps * step_s,
                dtype=spec.dtype,
                family="normalization.weight",
                note=Text("{groups} blocks walk all {rows} rows", groups=groups, rows=rows)
                if groups < m.units
                else "",
            ),
        )
    ]


@kernel_model("aten::_weight_norm_interface", "aten::_weight_norm_interface_backward")
def weight_norm(work: Work) -> tuple[Kernel, ...]:
    """A weight scaled to a norm kept apart, one for each entry of its first or last dimension.

    Of the first: a block each, as any reduction. Of the last: 16 entries a block of 16 x 64
    threads, each of which goes through every 64th of all other entries twice, one dependent load
    after the other (ATen/native/cuda/WeightNorm.cu), so that wav2vec's positions (768 x 48 x 128)
    take 0.25 ms with eight blocks (validation/recordings/h200/harvest.jsonl.gz).
    """
    if not work.outputs or not work.outputs[0].numel:
        return ()
    backward = work.op.name.endswith("backward")
    weight, last = work.op.inputs[1 if backward else 0], work.op.args.get("dim")
    whole = len(weight.shape) - 1
    by_last = last == whole and weight.shape[-1] < weight.numel
    entries = weight.shape[-1] if by_last else weight.shape[0]
    rows = weight.numel // entries
    read = reads(work)
    return (
        kernel(
            work,
            Launch(
                "weight_norm_bwd" if backward else "weight_norm_fwd",
                "normalization",
                read.cold,
                read.hot,
                written(work),
                grid=ceil(entries / 16) if by_last else entries,
                block=1024 if by_last else 512,
                chain_s=(
                    2
                    * ceil(rows / 64)
                    * (1.5 if backward else 1.0)
                    * work.constants.value("normalization.weight.row_s")
                    if by_last
                    else 0.0
                ),
                dtype=weight.dtype,
            ),
        ),
    )
