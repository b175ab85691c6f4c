"""Figures of `explain matmul` over many sizes: speed by rows, and the explorer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.cost.matmul.model import is_aligned
from gpuscope.cost.types import Kernel
from gpuscope.document.blocks import Axis, Explorer, Lines, Mark, Output, Series, Slider
from gpuscope.document.text import Text, verbatim
from gpuscope.errors import GpuscopeError
from gpuscope.explanation.limits import kernel_limiter
from gpuscope.explanation.neighbours import Sizes, octaves
from gpuscope.explanation.operators import peak_flops_per_s, precision, total_s

if TYPE_CHECKING:
    from gpuscope.explanation.matmul import Question

_MOST_ROWS = 16_384
_Point = tuple[float | None, float | None, float | None, float | None, str | None, Text | None]
_NOWHERE: _Point = (None, None, None, None, None, None)
"""A combination that the library refuses."""

_OTHER_DTYPES = ("fp8", "bf16", "tf32", "fp32")


def row_curve(asked: Question, sizes: Sizes) -> Lines:
    """Speed over M (tokens, samples), from one row up, under the roofline."""
    n, k = sizes["N"], sizes["K"]
    least = 17 if asked.dtype.name == "int8" else 1
    rows = octaves(max(sizes["M"], least), least, max(_MOST_ROWS, sizes["M"]), 4)
    speeds, roof = [], []
    peak = peak_flops_per_s(asked.on.device, asked.dtype.compute)
    bandwidth = asked.on.device.memory_bandwidth_bytes_per_s
    for m in rows:
        flops = 2.0 * m * n * k * asked.batch
        speeds.append(flops / total_s(asked.kernels(m, n, k)))
        op = asked.op(m, n, k)
        least_bytes = sum(t.nbytes for t in (*op.inputs[:2], *op.outputs))
        roof.append(min(peak, flops / least_bytes * bandwidth))
    xs = tuple(float(m) for m in rows)
    now = speeds[rows.index(sizes["M"])]
    ridge = next((m for m, value in zip(rows, roof, strict=True) if value >= peak), None)
    marks = [Mark(Text("now"), float(sizes["M"]), now, "good")]
    if ridge is not None and ridge > rows[0]:
        marks.append(Mark(Text("ridge: M = {ridge}", ridge=ridge), x=float(ridge)))
    return Lines(
        Text("Speed over M, the rows (N = {n}, K = {k})", n=n, k=k),
        Axis(Text("M: rows (tokens, samples)"), log=True),
        Axis(Text("speed"), "flop/s", log=True),
        (
            Series(Text("predicted"), xs, tuple(speeds), role="tensor"),
            Series(Text("roofline of the datasheet"), xs, tuple(roof), role="reference"),
        ),
        tuple(marks),
        Text(
            "Few rows: the weight is read for little work, and memory is the limit. Many rows: "
            "each byte of it is used often, and arithmetic is."
        ),
    )


def explorer(asked: Question, sizes: Sizes) -> Explorer:
    """Sliders for N, M, K and the dtype, every point by the same model."""
    names = _dtypes(asked)
    m_stops, k_stops = _octaves_of(sizes["M"], 4, 3), _octaves_of(sizes["K"], 2, 2)
    n_stops = _even(sizes["N"])
    points: list[_Point] = []
    for name in names:
        one = replace(asked, dtype=precision(name, asked.on.device))
        peak = peak_flops_per_s(one.on.device, one.dtype.compute)
        for m, k, n in ((m, k, n) for m in m_stops for k in k_stops for n in n_stops):
            kernels = _kernels(one, m, n, k)
            if kernels is None:
                points.append(_NOWHERE)
                continue
            main = max(kernels, key=lambda kernel: kernel.flops)
            time = total_s(kernels)
            points.append(
                (
                    time,
                    main.flops / time,
                    main.flops / time / peak,
                    round(main.waves, 2),
                    "x".join(str(side) for side in main.tile[:2]),
                    kernel_limiter(main, one.on.device, aligned=is_aligned(one.op(m, n, k))),
                )
            )
    times, speeds, shares, waves, tiles, limits = zip(*points, strict=True)
    return Explorer(
        Text("Move the sizes"),
        (
            Slider("dtype", Text("dtype"), names, start=names.index(asked.dtype.name)),
            _slider("m", verbatim("M"), m_stops, sizes["M"]),
            _slider("k", verbatim("K"), k_stops, sizes["K"]),
            _slider("n", verbatim("N"), n_stops, sizes["N"]),
        ),
        (
            Output("time", Text("time"), "s", times, role="tensor"),
            Output("speed", Text("speed"), "flop/s", speeds, plotted=False),
            Output("share", Text("share of the peak"), "share", shares, plotted=False),
            Output("waves", Text("waves"), "", waves, plotted=False),
            Output("tile", Text("tile"), "", tiles, plotted=False),
            Output("limit", Text("set by"), "", limits, plotted=False),
        ),
        x="n",
        reading=Text(
            "{m} x {n} x {k} in {dtype}: {time}, {speed}, {share} of the peak; tiles {tile}, "
            "{waves} waves; set by {limit}."
        ),
    )


def _dtypes(asked: Question) -> tuple[str, ...]:
    """The asked dtype and up to two others that the device has."""
    own = asked.dtype.name
    others = [d for d in _OTHER_DTYPES if d != own and asked.on.device.supports(d)]
    if asked.layout != "nt" or asked.batch > 1:
        others = [d for d in others if d != "fp8"]
    order = ("fp8", "int8", "bf16", "fp16", "tf32", "fp32", "fp64")
    return tuple(sorted({own, *others[:2]}, key=order.index))


def _kernels(asked: Question, m: int, n: int, k: int) -> tuple[Kernel, ...] | None:
    try:
        asked.check(m, n, k)
    except GpuscopeError:
        return None
    return asked.kernels(m, n, k)


def _octaves_of(size: int, down: int, up: int) -> tuple[int, ...]:
    """Halves and doubles of a size."""
    return tuple(
        sorted({max(size >> d, 1) for d in range(down + 1)} | {size << u for u in range(1, up + 1)})
    )


def _even(size: int, stops: int = 24) -> tuple[int, ...]:
    """Sizes from near nothing to twice `size`, multiples of 64 or 8 where that suits."""
    step = next((s for s in (64, 16, 8) if size >= 12 * s), 1)
    found: Iterable[int] = (
        max(round(2 * size * at / stops / step) * step, step) for at in range(1, stops + 1)
    )
    return tuple(sorted({*found, size}))


def _slider(key: str, label: Text, stops: tuple[int, ...], now: int) -> Slider:
    return Slider(key, label, tuple(float(s) for s in stops), start=stops.index(now))
