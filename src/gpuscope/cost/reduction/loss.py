"""Losses: negative log-likelihood, squared and absolute error, cross-entropies.

`nll_loss` over a batch runs in a single block (aten/src/ATen/native/cuda/Loss.cu), so its time is
that of dependent random reads, however fast the device is.
"""

from __future__ import annotations

from math import ceil, log2

from gpuscope.cost.bandwidth import (
    Launch,
    first_dtype,
    is_hot,
    kernel,
    machine,
    missed_share,
    reads,
    written,
)
from gpuscope.cost.copy.model import fill_kernel
from gpuscope.cost.pointwise.elementwise import elementwise
from gpuscope.cost.reduction.model import reduce_kernels
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec


def _rows(work: Work) -> int:
    """Number of targets."""
    inputs = work.op.inputs
    at = 2 if work.op.name.endswith("backward") and len(inputs) > 2 else 1
    return inputs[min(at, len(inputs) - 1)].numel


def _threads(rows: int) -> int:
    """Threads of the one block: the power of two nearest rows / 16 (nll_loss_threads, Loss.cu)."""
    return min(max(1 << max(round(log2(max(rows, 1) / 16)), 0), 32), 1024)


@kernel_model(
    "aten::nll_loss_forward",
    "aten::nll_loss2d_forward",
    "aten::nll_loss",
    "aten::nll_loss2d",
    "aten::nll_loss_nd",
)
def nll_loss(work: Work) -> tuple[Kernel, ...]:
    """Pick one value a row and add up."""
    rows = _rows(work)
    if not rows:
        return ()
    picked = 32.0 * rows
    if "2d" in work.op.name:
        ends = work.outputs[:2]
        main = _by_picture(work, "nll_loss2d_forward", rows, picked, 4.0)
        return (*(fill_kernel(work, t) for t in ends), main, _divided(work))
    return (_one_block(work, "nll_loss_forward", rows, picked),)


def _by_picture(work: Work, name: str, rows: int, picked: float, out: float) -> Kernel:
    """Losses of pixels: few blocks a picture, one for each 131,072 of its pixels.

    `blocks_per_sample` in ATen/native/cuda/NLLLoss2d.cu; each thread goes through its pixels one
    after the other, a target and then the value that it names.
    """
    get, target = work.constants.value, 2 if name.endswith("backward") else 1
    pictures = work.op.inputs[target].shape[0] if len(work.op.inputs) > target else 1
    pixels = rows / max(pictures, 1)
    blocks = max(ceil(pixels / _PIXEL_THREADS) // 128, 1)
    steps = ceil(pixels / (blocks * _PIXEL_THREADS))
    way, ends_s = "near" if is_hot(work, target) else "far", get("loss.pixels.sum_s")
    return kernel(
        work,
        Launch(
            name,
            "reduction",
            picked + rows * 8.0,
            0.0,
            out,
            grid=blocks * pictures,
            block=_PIXEL_THREADS,
            chain_s=steps * get(f"loss.pixels.{way}_s") + (ends_s if picked else 0.0),
            dtype=first_dtype(work),
            family="loss",
        ),
    )


_PIXEL_THREADS = 1024


def _divided(work: Work) -> Kernel:
    """The sum over the weights, by one thread."""
    return kernel(
        work,
        Launch("nll_loss2d_average", "reduction", 8.0, 0.0, 4.0, block=1, dtype=first_dtype(work)),
    )


def _one_block(work: Work, name: str, rows: int, picked: float) -> Kernel:
    threads = _threads(rows)
    return kernel(
        work,
        Launch(
            name,
            "reduction",
            picked + rows * 8.0,
            0.0,
            8.0,
            grid=1,
            block=threads,
            chain_s=_walk_s(work, "loss.nll", rows, work.op.inputs[0]),
            dtype=first_dtype(work),
            family="loss",
            note=Text("one block for the whole batch"),
        ),
    )


def _walk_s(work: Work, key: str, rows: int, wide: TensorSpec) -> float:
    """The block's walk over the rows: a target, then the value that it names, a step after another.

    Every thread touches a sector of its own, so that more threads take longer for a step, and
    longer still where targets or values come from device memory.
    """
    get = work.constants.value
    threads = _threads(rows)
    each = get(f"{key}.step_s") + threads * get(f"{key}.thread_s")
    at = 2 if key.endswith("backward") and len(work.op.inputs) > 2 else 1
    if not is_hot(work, at):
        each += get(f"{key}.far_target_s")
    if key.endswith("backward") or not is_hot(work, 0):
        each += missed_share(machine(work), wide.nbytes, 1, 1) * get(f"{key}.far_value_s")
    return get(f"{key}.base_s") + ceil(rows / threads) * each


@kernel_model("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def nll_loss_backward(work: Work) -> tuple[Kernel, ...]:
    """Zeros everywhere, then one value a row."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    rows = _rows(work)
    if "2d" in work.op.name:
        scatter = _by_picture(work, "nll_loss2d_backward", rows, 0.0, rows * 32.0)
        return fill_kernel(work, work.outputs[0]), scatter
    threads = _threads(rows)
    scatter = kernel(
        work,
        Launch(
            "nll_loss_backward",
            "reduction",
            rows * 8.0,
            0.0,
            rows * 32.0,
            grid=1,
            block=threads,
            chain_s=_walk_s(work, "loss.nll_backward", rows, work.outputs[0]),
            dtype=first_dtype(work),
            family="loss",
            note=Text("one block for the whole batch"),
        ),
    )
    return fill_kernel(work, work.outputs[0]), scatter


@kernel_model(
    "aten::mse_loss",
    "aten::l1_loss",
    "aten::smooth_l1_loss",
    "aten::huber_loss",
    "aten::binary_cross_entropy",
    "aten::binary_cross_entropy_with_logits",
    "aten::kl_div",
    "aten::soft_margin_loss",
)
def elementwise_loss(work: Work) -> tuple[Kernel, ...]:
    """A value for each element, then (unless the caller wants them all) their mean or sum."""
    if not work.outputs or not work.inputs or not work.inputs[0].numel:
        return ()
    short = work.op.name.rpartition("::")[2]
    arithmetic = "transcendental" if "entropy" in short or "kl" in short else "cheap"
    spec = max(work.inputs[:2], key=lambda t: t.numel)
    if short == _LOGITS:
        return _from_logits(work, spec)
    if work.outputs[0].numel == spec.numel and spec.numel > 1:
        return elementwise(work, name=short, arithmetic=arithmetic)
    read = reads(work)
    values = kernel(
        work,
        Launch(
            f"elementwise_vectorized_{short}",
            "pointwise",
            read.cold,
            read.hot,
            float(spec.nbytes),
            items=spec.numel,
            cycles=0.2,
            grid=max(1, ceil(spec.numel / 512)),
            dtype=spec.dtype,
        ),
    )
    dims = tuple(range(len(spec.shape)))
    total = reduce_kernels(
        work, spec, dims, name="mean", hot=spec.nbytes < 16 * 2**20, out_bytes=written(work)
    )
    return values, *total


_LOGITS = "binary_cross_entropy_with_logits"

_LOGITS_PASSES = (
    ("log_sigmoid", 1, 0.62),
    ("ones", 0, 0.0),
    ("sub", 2, 0.2),
    ("mul", 2, 0.2),
    ("sub", 2, 0.2),
)
"""Elementwise passes, tensors that each reads, clocks a value (Loss.cpp: log sigmoid, one less the
target, times the logit, less the first)."""


def _from_logits(work: Work, spec: TensorSpec) -> tuple[Kernel, ...]:
    """A cross-entropy from logits, which PyTorch composes of elementwise kernels."""
    size = float(spec.nbytes)
    near = 4 * size <= machine(work).l2_bytes
    made = []
    for at, (name, inputs, cycles) in enumerate(_LOGITS_PASSES):
        read = reads(work, (0,)) if at == 0 else None
        cold = read.cold if read else 0.0 if near else inputs * size
        warm = read.hot if read else inputs * size if near else 0.0
        launch = Launch(
            f"elementwise_vectorized_{name}",
            "pointwise",
            cold,
            warm,
            size,
            items=spec.numel,
            cycles=cycles,
            grid=max(1, ceil(spec.numel / 1024)),
            dtype=spec.dtype,
        )
        made.append(kernel(work, launch))
    if work.outputs[0].numel == spec.numel and spec.numel > 1:
        return tuple(made)
    dims = tuple(range(len(spec.shape)))
    total = reduce_kernels(
        work, spec, dims, name="mean", hot=size < 16 * 2**20, out_bytes=written(work)
    )
    return *made, *total


@kernel_model(
    "aten::mse_loss_backward",
    "aten::l1_loss_backward",
    "aten::smooth_l1_loss_backward",
    "aten::huber_loss_backward",
    "aten::binary_cross_entropy_backward",
    "aten::soft_margin_loss_backward",
    "aten::kl_div_backward",
)
def elementwise_loss_backward(work: Work) -> tuple[Kernel, ...]:
    """The gradient of each element; the loss's own gradient is a scalar that is broadcast."""
    return elementwise(work, name=work.op.name.rpartition("::")[2], casting=False)
