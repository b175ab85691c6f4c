"""Matrix products whose sizes Inductor pads so that rows begin at aligned addresses.

Inductor pads M, N and K to a multiple of 8 (16-bit types) or 4 (float32) when a product is limited
by arithmetic and a trial run shows that it pays (torch/_inductor/fx_passes/pad_mm.py;
`shape_padding`, on by default). The trial is replaced by what products of such sizes take on an
H200; the copies count, unless the code that makes the operand can write it padded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod

from gpuscope.program.types import Op, TensorSpec

_ALIGNMENT = {"bfloat16": 8, "float16": 8, "float32": 4}
"""Elements (`get_alignment_size_dtype`)."""

_BALANCE = 100.0
"""Products per element moved (of A, B and C) above which a 16-bit product is limited by
arithmetic: half the ratio of dense tensor FLOP/s to bytes/s of H100 and H200 (datasheets: 989e12
and 3.35e12 or 4.8e12), as `is_mm_compute_bound` has it. Other types need half of it."""

_SLOWER = {1: 5.5, 2: 1.6, 4: 1.2}
"""How much longer a product takes whose rows begin at multiples of so many 16-bit elements: odd
rows 100 to 150 TFLOP/s against 740 (validation/recordings/h200/micro/matmul.csv.gz, set "odd")."""

_FLOPS, _BYTES_PER_S = 7.4e14, 4.2e12
"""Rates of an aligned product of 16-bit numbers and of a copy on an H200 (same recordings)."""

_GAIN = 1.1
"""The padded product must be so much faster (`should_pad_bench`)."""

_OPERANDS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1)}


@dataclass(frozen=True, slots=True)
class Padding:
    """How one product is padded.

    Attributes:
        operands: (position in the inputs, padded shape) of what has to be copied.
        shape: padded shape of the result.
    """

    operands: tuple[tuple[int, tuple[int, ...]], ...]
    shape: tuple[int, ...]

    @staticmethod
    def padded(spec: TensorSpec, shape: tuple[int, ...], storage: int) -> TensorSpec:
        """A padded copy of `spec`, dense in the same order of dimensions."""
        order = sorted(range(len(shape)), key=lambda d: (spec.stride[d], -d))
        steps = dict.fromkeys(range(len(shape)), 1)
        step = 1
        for d in order:
            steps[d] = step
            step *= shape[d]
        stride = tuple(steps[d] for d in range(len(shape)))
        return replace(spec, shape=shape, stride=stride, storage=storage)

    @staticmethod
    def like(held: TensorSpec, shape: tuple[int, ...], spec: TensorSpec) -> TensorSpec:
        """The padded copy `held` as an operand of `shape` laid out as `spec` is."""
        return replace(Padding.padded(spec, shape, held.storage), dtype=held.dtype)

    def result(self, out: TensorSpec) -> TensorSpec:
        """The padded result, in the memory of the captured one."""
        stride = tuple(prod(self.shape[i + 1 :]) for i in range(len(self.shape)))
        return replace(out, shape=self.shape, stride=stride)


def padding_of(op: Op) -> Padding | None:
    """How Inductor would pad a product; None where it would not."""
    base = op.name.rpartition("::")[2]
    places = _OPERANDS.get(base)
    if places is None or len(op.inputs) <= places[1] or not op.name.startswith("aten::"):
        return None
    a, b = (op.inputs[p] for p in places)
    align = _ALIGNMENT.get(a.dtype)
    if align is None or a.device != "device" or len(a.shape) < 2:
        return None
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if not all((m, k, n)) or len(op.outputs) != 1:
        return None
    m2, k2, n2 = (_up(size, align) for size in (m, k, n))
    if (m2, k2, n2) == (m, k, n) or not _pays(a, b, (m, k, n), (m2, k2, n2)):
        return None
    operands = []
    if (m2, k2) != (m, k):
        operands.append((places[0], (*a.shape[:-2], m2, k2)))
    if (k2, n2) != (k, n):
        operands.append((places[1], (*b.shape[:-2], k2, n2)))
    return Padding(tuple(operands), (*a.shape[:-2], m2, n2))


def _up(size: int, align: int) -> int:
    return size if size == 1 else -(-size // align) * align


def _pays(
    a: TensorSpec, b: TensorSpec, sizes: tuple[int, int, int], padded: tuple[int, int, int]
) -> bool:
    m, k, n = sizes
    wide = a.itemsize / 2
    balance = _BALANCE / wide
    if m * k * n / (m * k + k * n + m * n) <= balance:
        return False
    product_s = 2.0 * prod(a.shape[:-2]) * m * k * n * wide / _FLOPS
    copied = b.numel if padded[1:] != (k, n) else 0
    if padded[:2] != (m, k) and not _is_row_major(a):
        copied += a.numel  # else whoever makes it writes it padded
    copies_s = copied * 2 * a.itemsize / _BYTES_PER_S
    rows = min(gcd(_row(a), 8), gcd(_row(b), 8), gcd(n, 8))
    slower = _SLOWER.get(int(rows * wide), 1.0)
    return product_s * slower > _GAIN * (product_s + copies_s)


def _is_row_major(spec: TensorSpec) -> bool:
    return spec.stride[-1] == 1


def _row(spec: TensorSpec) -> int:
    """Elements from one row (or column, of a transposed operand) to the next."""
    return max(spec.stride[-2:])
