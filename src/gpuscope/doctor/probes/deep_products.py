"""Matrix products in each precision: are they exactly right, and how fast are they?

Run as a process of its own (`python -m gpuscope.doctor.probes.deep_products`).

Right: the operands are small whole numbers, so that every product, every partial sum and the
result are whole numbers that the accumulator holds exactly, in whatever order they are added; the
last rounding, into the result's format, is the same for all. So each element must equal the one
that the host computed, and any other value is a fault: "silent data corruption" (Dixit et al.,
"Silent Data Corruptions at Scale", 2021). The host's own product is checked before it is believed
(Freivalds, "Probabilistic machines can use less running time", 1977).

Fast: larger products of random numbers (power and clock depend on the bits), back to back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuscope.doctor.probes.deep_devices import Json, answer, on_each, once_s, say
from gpuscope.document.text import Text

if TYPE_CHECKING:
    import torch

    from gpuscope.measurement.accelerator import Accelerator

LIMIT_S = 110.0
SHAPE = (4096, 4096, 2048)
"""Rows, columns and depth of the exact products: several waves of tiles on every multiprocessor."""

LARGEST, LARGEST_FP8 = 64, 2
"""Operands are whole numbers from -LARGEST to LARGEST: sums stay below 2^24, what a float32
accumulator holds exactly (2048 * 64^2 = 2^23). The 8-bit floating-point units of some devices keep
only about 14 bits of a sum, so theirs are smaller."""

HALF_SCALE = 2.0**-10
"""Of one operand in float16, whose largest number is 65,504; a power of two changes no digit."""

LEAST_SIDE, ONE_PRODUCT_S = 512, 0.2
"""A format that a device only emulates can be a thousand times slower: smaller products then."""

MOST_REPEATS, LEAST_REPEATS, EXACT_S = 20, 3, 0.5


@dataclass(frozen=True, slots=True)
class Precision:
    """One kind of product.

    Attributes:
        name: its rate in the catalogue.
        stored: PyTorch's dtype of the operands.
        result: PyTorch's dtype of the result.
        timed: side of the square product that is timed.
        scale: of the second operand.
    """

    name: str
    stored: str
    result: str
    timed: int
    scale: float = 1.0


PRECISIONS = (
    Precision("bf16", "bfloat16", "bfloat16", 8192),
    Precision("fp16", "float16", "float16", 8192, HALF_SCALE),
    Precision("tf32", "float32", "float32", 8192),
    Precision("fp8", "float8_e4m3fn", "bfloat16", 8192),
    Precision("int8", "int8", "int32", 8192),
    Precision("fp32", "float32", "float32", 4096),
    Precision("fp64", "float64", "float64", 4096),
)


@dataclass(frozen=True, slots=True)
class Reference:
    """Whole-number operands and their product, on the host.

    Attributes:
        a, b: int8, [rows, depth] and [depth, columns].
        product: float64, [rows, columns]; exact.
        trusted: the product passed an independent check.
    """

    a: torch.Tensor
    b: torch.Tensor
    product: torch.Tensor
    trusted: bool


def reference(shape: tuple[int, int, int], largest: int, seed: int) -> Reference:
    """Make operands and the host's product of them.

    Args:
        shape: rows, columns, depth.
        largest: magnitude of the operands.
        seed: of the random numbers.
    """
    import torch

    rows, columns, depth = shape
    draw = torch.Generator().manual_seed(seed)

    def whole(*size: int) -> torch.Tensor:
        return torch.randint(-largest, largest + 1, size, generator=draw, dtype=torch.int8)

    a, b = whole(rows, depth), whole(depth, columns)
    product = a.double() @ b.double()
    x = torch.randint(-8, 9, (columns, 2), generator=draw).double()
    trusted = bool(torch.equal(product @ x, a.double() @ (b.double() @ x)))
    return Reference(a, b, product, trusted)


def multiplier(name: str) -> Callable[[Any, Any], Any]:
    """Return what multiplies two matrices in a precision; the second is stored by columns for the
    8-bit formats, as their kernels want it."""
    import torch

    def plain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.mm(a, b)

    def integer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch._int_mm(a, b)

    def eight_bit(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        one = torch.ones((), device=a.device)
        return torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16)

    chosen: dict[str, Callable[[Any, Any], Any]] = {"int8": integer, "fp8": eight_bit}
    return chosen.get(name, plain)


def by_columns(matrix: torch.Tensor) -> torch.Tensor:
    """The same matrix, stored column after column."""
    return matrix.t().contiguous().t()


def compared(call: Callable[[], Any], expected: Any, repeats: int) -> Json:
    """Repeat a product and compare every element of every result.

    Args:
        call: makes the product.
        expected: what it must be, in the result's dtype.
        repeats: how often.

    Returns:
        `elements` compared in all, how many were `wrong`, in how many of the `repeats`
        (`wrong_results`), whether every repeat gave the very same result (`same_each_time`), and
        where any were wrong the `largest_deviation` relative to the expected value, the first one
        (`row`, `column`, `got`, `expected`) and the `flipped_bits` of it.
    """
    import torch

    wrong, changed = [], []
    first = shown = None
    for _ in range(repeats):
        out = call()
        bad = out != expected
        wrong.append(bad.sum())
        if first is None:
            first = out
        else:
            changed.append((out != first).sum())
        if shown is None or not int(wrong[shown[0]]):
            shown = (len(wrong) - 1, out)
    counts = [int(each) for each in torch.stack(wrong).cpu()] if wrong else []
    found: Json = {
        "repeats": repeats,
        "elements": repeats * int(expected.numel()),
        "wrong": sum(counts),
        "wrong_results": sum(count > 0 for count in counts),
        "same_each_time": not any(int(each) for each in changed),
    }
    if found["wrong"] and shown is not None:
        found |= _described(shown[1], expected)
    return found


def _described(out: torch.Tensor, expected: torch.Tensor) -> Json:
    """The first wrong element, and how far the worst one is off."""
    import torch

    bad = out != expected
    row, column = (int(each) for each in torch.nonzero(bad)[0])
    got, right = out[row, column], expected[row, column]
    off = (out.double() - expected.double()).abs() / expected.double().abs().clamp(min=1e-30)
    worst = float(torch.where(bad, off.nan_to_num(nan=float("inf")), 0.0).max())
    width = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[out.element_size()]
    bits = int(got.view(width)) ^ int(right.view(width))
    mask = (1 << 8 * out.element_size()) - 1
    return {
        "largest_deviation": min(worst, 1e300),
        "row": row,
        "column": column,
        "got": repr(got.item()),
        "expected": repr(right.item()),
        "flipped_bits": (bits & mask).bit_count(),
    }


def exact(precision: Precision, ref: Reference, device: str, wait: Callable[[], None]) -> Json:
    """Compare the products of one precision on one device with the host's.

    Args:
        precision: which.
        ref: the operands and what must come out.
        device: "cuda:1", "cpu".
        wait: until the device is done.
    """
    import torch

    stored, result = getattr(torch, precision.stored), getattr(torch, precision.result)
    a = ref.a.to(device).to(stored)
    b = (ref.b.to(device).float() * precision.scale).to(stored)
    expected = (ref.product * precision.scale).to(result).to(device)
    if precision.name in ("fp8", "int8"):
        b = by_columns(b)
    multiply = multiplier(precision.name)
    seconds = once_s(lambda: multiply(a, b), wait, for_s=0.0, rounds=1)
    repeats = max(LEAST_REPEATS, min(MOST_REPEATS, int(EXACT_S / seconds)))
    rows, depth, columns = *a.shape, b.shape[1]
    rate = 2.0 * rows * depth * columns / seconds
    return {**compared(lambda: multiply(a, b), expected, repeats), "exact_flops_per_s": rate}


def timed(precision: Precision, side: int, device: str, wait: Callable[[], None]) -> Json:
    """Time a square product of random numbers.

    Args:
        precision: which.
        side: of the matrices.
        device: "cuda:1", "cpu".
        wait: until the device is done.
    """
    import torch

    from gpuscope.measurement.bench.inputs import randn

    stored = getattr(torch, precision.stored)
    a, b = (randn(side, side, dtype=stored, device=device) for _ in range(2))
    if precision.name in ("fp8", "int8"):
        b = by_columns(b)
    multiply = multiplier(precision.name)
    seconds = once_s(lambda: multiply(a, b), wait)
    return {"side": side, "seconds": seconds, "flops_per_s": 2.0 * side**3 / seconds}


def side_for(most: int, flops_per_s: float) -> int:
    """Side of a square product that a device of this rate makes in time; halves of the largest.

    Args:
        most: the largest side.
        flops_per_s: about what the device reaches.
    """
    side = most
    while side > LEAST_SIDE and 2.0 * side**3 > flops_per_s * ONE_PRODUCT_S:
        side //= 2
    return side


def allow(name: str) -> None:
    """Set what PyTorch may do in this process: TF32 only where it is asked for, and no sums that
    are rounded on the way."""
    import torch

    matmul: Any = torch.backends.cuda.matmul
    matmul.allow_tf32 = name == "tf32"
    for setting in (
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_reduced_precision_reduction",
    ):
        if hasattr(matmul, setting):
            setattr(matmul, setting, False)


def results_of(
    precision: Precision, refs: Mapping[str, Reference], accelerator: Accelerator
) -> Json:
    """One precision on one device: exact, then timed.

    Args:
        precision: which.
        refs: operands by precision; under "" those of all others.
        accelerator: the device.
    """
    name, wait = accelerator.torch_name, accelerator.synchronize
    try:
        found = exact(precision, refs.get(precision.name, refs[""]), name, wait)
        side = side_for(precision.timed, found["exact_flops_per_s"])
        return found | timed(precision, side, name, wait)
    except (RuntimeError, TypeError, AttributeError, NotImplementedError) as error:
        from gpuscope.measurement.bench.harness import is_lost, reason
        from gpuscope.measurement.failure import is_out_of_memory

        if is_lost(error) or is_out_of_memory(error):
            raise
        return {"unsupported": reason(error)}


def products(accelerators: list[Accelerator]) -> Json:
    """Test every precision on every device, all devices at the same time."""
    if not accelerators:
        return {}
    say(Text("products on the host, to compare with"))
    refs = {"": reference(SHAPE, LARGEST, 1), "fp8": reference(SHAPE, LARGEST_FP8, 2)}
    if not all(ref.trusted for ref in refs.values()):
        return {"host_wrong": True}
    rows: dict[int, Json] = {
        each.index: {"index": each.index, "products": {}} for each in accelerators
    }
    for precision in PRECISIONS:
        say(Text("matrix products, {precision}", precision=precision.name))
        allow(precision.name)
        working = [each for each in accelerators if not rows[each.index].get("error")]
        found = on_each(working, lambda each, p=precision: results_of(p, refs, each))  # type: ignore[misc]
        for row in found:
            into = rows[row.pop("index")]
            if "error" in row:
                into |= row
            else:
                into["products"][precision.name] = row
    return {"devices": list(rows.values()), "host_wrong": False}


if __name__ == "__main__":
    answer(products, limit_s=LIMIT_S)
