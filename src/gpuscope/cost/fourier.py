"""Fourier transforms: how often cuFFT and what PyTorch does around it go through memory.

    r2c, c2c, c2r of d dimensions: one after the other, each reads what the one before wrote
    c2c of two small dimensions, both powers of two: one kernel, as long as its two passes
    before c2r: a copy of the input, which cuFFT overwrites
    after: a multiplication of the result, where the norm is not 1

(aten/src/ATen/native/cuda/SpectralOps.cpp.) A dimension is more than one kernel where its length
has a large prime factor, read off 70 transforms of drawn sizes on an H200 (CUDA 13,
micro/cases.jsonl.gz):

    largest prime factor up to 11    one kernel (`regular_fft`, `vector_fft`)
    up to 29, the dense dimension    one kernel
    up to 127                        one for each such factor (`prime_fft_factor`, the slower the
                                     larger it is), one for what is left
    above                            by Bluestein's convolution of at least twice the length: one
                                     kernel up to 512, six beyond
    real values                      a kernel of its own for short and smooth lengths; else half as
                                     many complex ones, and a pass before or after (even lengths),
                                     or two rows as one complex row, and a pass before and after
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine, reads
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import Op, TensorSpec

_LONGEST_TOGETHER = 128
"""Up to here two dimensions went in one kernel (`vector_2d_fft<128, 128>`, recorded)."""

_SMOOTH, _DENSE, _PRIME = 11, 29, 127
"""Largest prime factors of lengths that one kernel transforms, that one does where the dimension is
dense, and that have a kernel each."""

_ONE_KERNEL = 8192
"""Longest length of small factors that one kernel transforms."""

_REAL_LENGTH = 32
"""Real values up to so many have kernels of their own whatever their factors."""

_BLUESTEIN, _BLUESTEIN_KERNELS = 512, 6

_INTERVAL = 1.5
"""Wider for lengths with prime factors above 7, which take other algorithms (a judgement)."""
_INTERVAL_ODD = 2.5


@dataclass(frozen=True, slots=True)
class Pass:
    """One kernel of a transform.

    Attributes:
        name: descriptive.
        key: of its constant, clocks of a multiprocessor for one of them.
        prime: the factor that it transforms by, where its time hangs on it.
    """

    name: str
    key: str = "regular"
    prime: int = 0


def passes(length: int, dense: bool) -> tuple[Pass, ...]:
    """The kernels of one dimension of complex values.

    Args:
        length: of the dimension.
        dense: whether its values lie side by side.
    """
    factors = tuple(_factors(length))
    largest = max(factors, default=1)
    if largest <= _SMOOTH or (dense and largest <= _DENSE and length <= _BLUESTEIN):
        return (Pass("fft"),) * (1 if length <= _ONE_KERNEL else 2)
    if largest > _PRIME:
        if length <= _BLUESTEIN:
            return (Pass("fft_bluestein", key="bluestein"),)
        return (Pass("fft_bluestein", key="bluestein"),) * _BLUESTEIN_KERNELS
    primes = [f for f in factors if f > _SMOOTH]
    rest = len(factors) > len(primes)
    return (*(Pass("fft"),) * rest, *(Pass("fft_prime", key="prime", prime=f) for f in primes))


def real_passes(length: int) -> tuple[Pass, ...]:
    """The kernels of the one dimension whose values are real on one side."""
    largest = max(_factors(length), default=1)
    if largest <= _SMOOTH or length <= _REAL_LENGTH or (length == largest and length <= _PRIME):
        own = passes(length, True)[0]
        return (replace(own, name=f"{own.name}_real", key="real" if not own.prime else own.key),)
    around = Pass("fft_around")
    if length % 2 == 0:
        return (*passes(length // 2, True), around)
    return (around, *passes(length, True), around)


@kernel_model("aten::_fft_r2c", "aten::_fft_c2r", "aten::_fft_c2c")
def fourier(work: Work) -> tuple[Kernel, ...]:
    """A copy where the input would be lost, the passes of each dimension, the norm's factor."""
    if not work.outputs or not work.inputs or not work.outputs[0].numel:
        return ()
    given, made, name = work.op.inputs[0], work.outputs[0], work.op.name
    read = reads(work, (0,))
    first, kernels = (read.cold, read.hot), []
    if "c2r" in name:
        kernels.append(_kernel(work, "fft_copy", first, given))
        first = _near(work, given)
    inner = given if "c2r" in name else made
    sizes = _sizes(work.op)
    if "c2c" in name and len(sizes) == 2 and all(_is_small_power(n) for n, _ in sizes):
        whole = (first[0] + made.nbytes, first[1])
        kernels.append(_kernel(work, "fft_2d", whole, made, times=2))
    else:
        for each in _planned(work.op):
            kernels.append(_kernel(work, each.name, first, inner, each))
            first = _near(work, inner)
    if work.op.args.get("normalization", 0):
        kernels.append(_kernel(work, "fft_scale", _near(work, made), made))
    odd = any(max(_factors(size), default=1) > 7 for size, _ in sizes)
    factor = _INTERVAL_ODD if odd else _INTERVAL
    return tuple(
        replace(k, low_s=k.duration_s / factor, high_s=k.duration_s * factor, origin="estimated")
        for k in kernels
    )


def fourier_bytes(op: Op) -> int:
    """Bytes that a transform borrows: the copy before c2r, and a second array where a dimension is
    more than one kernel (two where an odd number of real values is)."""
    if not op.name.startswith("aten::_fft_") or not op.outputs or not op.inputs:
        return 0
    back = op.name.endswith("c2r")
    array = op.inputs[0] if back else op.outputs[0]
    arrays = int(back)
    names = [p.name for p in _planned(op)]
    if names.count("fft_around") > 1:
        arrays += 2
    elif len(names) > len(_sizes(op)):
        arrays += 1
    return int(arrays * array.nbytes)


def _planned(op: Op) -> Iterator[Pass]:
    """The passes of all dimensions, those with real values first or last."""
    sizes = _sizes(op)
    name = op.name
    if "c2c" in name:
        for length, dense in sizes:
            yield from passes(length, dense)
        return
    # The last one named is the one that is real on one side.
    *others, (real, _) = sizes
    rest = [p for length, dense in others for p in passes(length, dense)]
    yield from (*rest, *real_passes(real)) if "c2r" in name else (*real_passes(real), *rest)


def _sizes(op: Op) -> tuple[tuple[int, bool], ...]:
    """Lengths of the dimensions that are transformed, and whether each is the dense one."""
    spec = op.outputs[0] if "c2r" in op.name else op.inputs[0]
    dims = op.args.get("dim")
    if not isinstance(dims, tuple | list) or not dims:
        dims = (-1,)
    places = [int(d) % len(spec.shape) for d in dims]
    return tuple((spec.shape[d], d == len(spec.shape) - 1) for d in places)


def _is_small_power(length: int) -> bool:
    return length <= _LONGEST_TOGETHER and length & (length - 1) == 0


def _near(work: Work, spec: TensorSpec) -> tuple[float, float]:
    """Bytes of what was just written, from memory and from the L2."""
    size = float(spec.nbytes)
    return (0.0, size) if size <= machine(work).l2_bytes else (size, 0.0)


def _kernel(
    work: Work,
    name: str,
    read: tuple[float, float],
    out: TensorSpec,
    of: Pass | None = None,
    times: int = 1,
) -> Kernel:
    get, cycles = work.constants.value, 0.0
    if of is not None:
        cycles = get(f"fft.{of.key}.cycles") + of.prime * get("fft.prime.factor_cycles")
    return kernel(
        work,
        Launch(
            name,
            "other",
            read[0],
            read[1],
            float(out.nbytes) * times,
            items=float(out.numel),
            cycles=cycles,
            grid=max(1, ceil(out.numel / 1024)),
            floor_s=get("fft.floor_s") if of is not None else 0.0,
            dtype=out.dtype,
            note=Text("a pass through memory for each dimension"),
        ),
    )


def _factors(number: int) -> Iterator[int]:
    """Prime factors, each as often as it divides."""
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1
    if number > 1:
        yield number
