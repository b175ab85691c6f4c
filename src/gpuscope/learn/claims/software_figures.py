"""Figures about number formats and PyTorch itself, as sources for checks."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, verbatim
from gpuscope.learn.claims.scales import in_unit
from gpuscope.learn.claims.types import Figure, NoFigureError, figure


@figure
def dtype_bytes(name: str) -> Figure:
    """Bytes of one element of a dtype, as torch names it."""

    from gpuscope.program.types import DTYPE_BYTES

    size = float(DTYPE_BYTES[name])
    return Figure(
        size,
        Text("{size} bytes of a {name}", size=Number(size, "g"), name=name),
        verbatim(name),
        "formula",
    )


@figure
def mantissa_bits(name: str) -> Figure:
    """Explicit fraction bits of an IEEE 754 format that numpy knows."""

    import numpy as np

    bits = float(np.finfo(np.dtype(name)).nmant)
    return Figure(
        bits,
        Text("{bits} fraction bits of a {name}", bits=Number(bits, ".0f"), name=name),
        verbatim(name),
        "formula",
        ("IEEE 754-2019, table 3.5",),
    )


@figure
def product_columns(rows: int, inner: int, inner_too: int, columns: int) -> Figure:
    """Columns of a matrix product, by making it."""

    import numpy as np

    left, right = np.ones((rows, inner), np.int32), np.ones((inner_too, columns), np.int32)
    height, width = (left @ right).shape
    how = verbatim(f"{rows}×{inner} · {inner_too}×{columns} = {height}×{width}")
    return Figure(float(width), how, verbatim(""), "formula")


@figure
def block_load_spread(causal: bool) -> Figure:
    """Work of the busiest 8 x 8 block of a 128 x 128 product over the mean, counted.

    A product of matrices of ones has the number of multiply-adds of each element as its result.
    """

    import numpy as np

    ones = np.ones((128, 128), np.int64)
    work = (np.tril(ones) if causal else ones) * (ones @ ones)
    blocks = work.reshape(16, 8, 16, 8).sum(axis=(1, 3))
    spread = float(blocks.max() / blocks.mean())
    kind = Text("with a causal mask") if causal else Text("dense")
    shown = in_unit(spread, "x")
    return Figure(
        spread,
        Text("{kind}: the busiest block has {shown} the mean work", kind=kind, shown=shown),
        kind,
        "formula",
    )


@figure
def in_torch(path: str, text: str = "") -> Figure:
    """1 if the installed PyTorch has a file, and the text in it; else 0. Does not import it.

    Raises:
        NoFigureError: PyTorch is not installed.
    """

    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise NoFigureError(Text("PyTorch is not installed here, so it cannot be looked up."))
    file = Path(found.origin).parent / path
    present = file.exists() and (not text or text in file.read_text("utf-8"))
    what = f"'{text}' in torch/{path}" if text else f"torch/{path}"
    state = Text("present") if present else Text("absent")
    return Figure(
        float(present),
        Text("{what} is {state}", what=what, state=state),
        verbatim(""),
        "catalogue",
        ("source of the installed PyTorch",),
    )


@figure
def kept_after_free(size_bytes: int) -> Figure:
    """Bytes that PyTorch's caching allocator keeps reserved after a tensor was freed."""

    from gpuscope.timeline.allocator import CachingAllocator

    allocator = CachingAllocator()
    allocator.free(allocator.allocate(size_bytes))
    kept = float(sum(allocator.cached_segments()))
    asked, shown = in_unit(float(size_bytes), "MiB"), in_unit(kept, "MiB")
    return Figure(
        kept,
        Text("a tensor of {asked} made and freed: {shown} stay reserved", asked=asked, shown=shown),
        verbatim(""),
        "model",
    )


@figure
def rounding_error(stochastic: bool) -> Figure:
    """Relative error of a BF16 weight that takes 2,000 small steps, by simulation.

    The weight starts at 1 and gets 2,000 additions of 0.0005, each less than half of the spacing
    of BF16 there (2^-7), so that rounding to the nearest loses them all. The seed is fixed.
    """

    import numpy as np

    steps, step = 2000, np.float32(0.0005)
    rng = np.random.default_rng(0)
    weights = np.ones(1000, np.float32)
    for _ in range(steps):
        bits = (weights + step).view(np.uint32)
        # BF16 is the upper half of a float32: add noise, or half, below it and cut.
        below = rng.integers(0, 2**16, bits.size, np.uint32) if stochastic else 2**15
        weights = ((bits + np.uint32(1) * below) & np.uint32(0xFFFF0000)).view(np.float32)
    true = 1 + steps * float(step)
    error = float(abs(weights.mean() / true - 1))
    kind = Text("stochastic") if stochastic else Text("nearest")
    shown = in_unit(error, "%")
    return Figure(
        error,
        Text(
            "2,000 steps of 0.0005 in BF16, {kind} rounding: mean {shown} off",
            kind=kind,
            shown=shown,
        ),
        verbatim(""),
        "model",
    )
