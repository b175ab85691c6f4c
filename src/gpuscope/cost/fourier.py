"""Fourier transforms: how often cuFFT and what PyTorch does around it go through memory.

    r2c, c2c, c2r of d dimensions: d passes, each reads what the one before wrote
    c2c of two small dimensions: one kernel, as long as its two passes
    before c2r: a copy of the input, which cuFFT overwrites
    after: a multiplication of the result, where the norm is not 1

(aten/src/ATen/native/cuda/SpectralOps.cpp.) Lengths that cuFFT cannot factor take several times as
long; the interval says so.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine, reads
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec

_LONGEST_TOGETHER = 128
"""Up to here two dimensions went in one kernel (`vector_2d_fft<128, 128>`, recorded)."""

_INTERVAL = 1.5
"""Wider for lengths with prime factors above 7, which take other algorithms (a judgement)."""
_INTERVAL_ODD = 4.0


@kernel_model("aten::_fft_r2c", "aten::_fft_c2r", "aten::_fft_c2c")
def fourier(work: Work) -> tuple[Kernel, ...]:
    """A copy where the input would be lost, a pass a dimension, the norm's factor."""
    if not work.outputs or not work.inputs or not work.outputs[0].numel:
        return ()
    given, made, name = work.op.inputs[0], work.outputs[0], work.op.name
    sizes = _sizes(work, made if "r2c" in name or "c2c" in name else given)
    read = reads(work, (0,))
    first, kernels = (read.cold, read.hot), []
    if "c2r" in name:
        kernels.append(_kernel(work, "fft_copy", first, given))
        first = _near(work, given)
    inner = given if "c2r" in name else made
    if "c2c" in name and len(sizes) == 2 and max(sizes) <= _LONGEST_TOGETHER:
        whole = (first[0] + made.nbytes, first[1])
        kernels.append(_kernel(work, "fft_2d", whole, made, times=2))
    else:
        for n in range(len(sizes)):
            last = n == len(sizes) - 1
            kernels.append(_kernel(work, "fft", first, made if last else inner))
            first = _near(work, inner)
    if work.op.args.get("normalization", 0):
        kernels.append(_kernel(work, "fft_scale", _near(work, made), made))
    factor = _INTERVAL_ODD if any(_largest_factor(size) > 7 for size in sizes) else _INTERVAL
    return tuple(
        replace(k, low_s=k.duration_s / factor, high_s=k.duration_s * factor, origin="estimated")
        for k in kernels
    )


def _sizes(work: Work, spec: TensorSpec) -> tuple[int, ...]:
    """Lengths of the dimensions that are transformed; the last one where they are not known."""
    dims = work.op.args.get("dim")
    if not isinstance(dims, tuple | list) or not dims:
        dims = (-1,)
    return tuple(spec.shape[int(d)] for d in dims) or (spec.numel,)


def _near(work: Work, spec: TensorSpec) -> tuple[float, float]:
    """Bytes of what was just written, from memory and from the L2."""
    size = float(spec.nbytes)
    return (0.0, size) if size <= machine(work).l2_bytes else (size, 0.0)


def _kernel(
    work: Work, name: str, read: tuple[float, float], out: TensorSpec, times: int = 1
) -> Kernel:
    return kernel(
        work,
        Launch(
            name,
            "other",
            read[0],
            read[1],
            float(out.nbytes) * times,
            grid=max(1, ceil(out.numel / 1024)),
            dtype=out.dtype,
            note=Text("a pass through memory for each dimension"),
        ),
    )


def _largest_factor(number: int) -> int:
    factor, largest = 2, 1
    while factor * factor <= number:
        while number % factor == 0:
            number, largest = number // factor, factor
        factor += 1
    return max(largest, number)
