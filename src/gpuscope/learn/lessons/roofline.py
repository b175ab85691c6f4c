"""Lesson: arithmetic intensity and the roofline."""

from __future__ import annotations

from gpuscope.document.blocks import (
    Axis,
    Column,
    Explanation,
    Explorer,
    Lines,
    Mark,
    Output,
    Section,
    Series,
    Slider,
    Table,
)
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import Device, device
from gpuscope.learn.lessons.registry import lesson

BYTES = 2
"""Of one bfloat16 number."""


@lesson(
    "roofline",
    7,
    Text("Roofline and arithmetic intensity"),
    Text("Is my kernel waiting for memory or for arithmetic?"),
)
def roofline() -> Explanation:
    """Make the lesson."""
    h200 = device("h200")
    ridge = _ridge(h200)
    return Explanation(
        topic="lesson",
        title=Text("Roofline"),
        summary=(
            Text(
                "Arithmetic intensity is FLOPs per byte that crosses device memory. A device can "
                "do no more than its peak, nor more than intensity times bandwidth: the lower one "
                "is the roof."
            ),
            Text(
                "The two meet at the ridge: {ridge} FLOP per byte for BF16 on an H200. Below it "
                "faster arithmetic does not help; above it faster memory does not.",
                ridge=Number(ridge, ".0f"),
            ),
            Text(
                "A product of square matrices of side n has an intensity of n / 3: it grows with "
                "the size. Adding vectors stays at 1/6 for ever."
            ),
        ),
        sections=(
            Section(Text("The roof"), (_roof(h200), _operators())),
            Section(Text("Try it"), (_explorer(),)),
        ),
        commands=(
            "gpuscope explain matmul 16 4096 4096 --on h200",
            "gpuscope predict llama-3.1-8b --task decode --on h200 --report decode.html",
        ),
        sources=(
            "S. Williams, A. Waterman, D. Patterson, Roofline: An Insightful Visual Performance "
            "Model for Multicore Architectures, CACM 52 (2009)",
        ),
    )


def _ridge(found: Device, dtype: str = "bf16") -> float:
    return found.peak_flops_per_s(dtype) / found.memory_bandwidth_bytes_per_s


def intensity(m: float, n: float, k: float, size_bytes: float = BYTES) -> float:
    """FLOP per byte of a product, each matrix crossing device memory once."""
    return 2 * m * n * k / (size_bytes * (m * k + k * n + m * n))


OPERATORS: tuple[tuple[Text, float], ...] = (
    (Text("adding two vectors"), 1 / (3 * BYTES)),
    (Text("matrix times vector"), intensity(1, 4096, 4096)),
    (Text("decode, batch 16"), intensity(16, 4096, 4096)),
    (Text("product of side 256"), intensity(256, 256, 256)),
    (Text("product of side 4096"), intensity(4096, 4096, 4096)),
)


def _roof(found: Device) -> Lines:
    peak = found.peak_flops_per_s("bf16")
    xs = tuple(2.0**k for k in range(-4, 13))

    def attainable(x: float) -> float:
        return min(peak, x * found.memory_bandwidth_bytes_per_s)

    marks = tuple(Mark(name, x, attainable(x)) for name, x in OPERATORS)
    return Lines(
        title=Text("Roof of an H200 in BF16, and five operators"),
        x=Axis(Text("FLOP per byte"), "", True),
        y=Axis(Text("attainable"), "flop/s", True),
        series=(Series(Text("roof"), xs, tuple(attainable(x) for x in xs), "line", "tensor"),),
        marks=marks,
    )


def _operators() -> Table:
    h200 = device("h200")
    peak = h200.peak_flops_per_s("bf16")
    return Table(
        title=Text("What they can reach"),
        columns=(
            Column(Text("operator")),
            Column(Text("intensity"), "flop/byte"),
            Column(Text("at most"), "flop/s"),
            Column(Text("of the peak"), "share"),
            Column(Text("limited by")),
        ),
        rows=tuple(
            (
                name,
                x,
                min(peak, x * h200.memory_bandwidth_bytes_per_s),
                min(1.0, x * h200.memory_bandwidth_bytes_per_s / peak),
                Text("memory") if x < _ridge(h200) else Text("arithmetic"),
            )
            for name, x in OPERATORS
        ),
    )


def _explorer() -> Explorer:
    names = ("h200", "h100", "a100", "b200", "rtx-4090", "l4", "mi300x")
    kinds = ("bf16", "fp8")
    rows = tuple(float(2**k) for k in range(14))
    widths = (1024.0, 4096.0, 16384.0)
    reached: list[float | None] = []
    limits: list[str | Text | None] = []
    for name in names:
        for kind in kinds:
            found = device(name)
            try:
                peak: float | None = found.peak_flops_per_s(kind)
            except UnsupportedError:
                peak = None
            for width in widths:
                for m in rows:
                    slope = intensity(m, width, width, 2 if kind == "bf16" else 1)
                    slope *= found.memory_bandwidth_bytes_per_s
                    reached.append(None if peak is None else min(peak, slope))
                    memory = peak is not None and slope < peak
                    limits.append(
                        None if peak is None else Text("memory") if memory else Text("arithmetic")
                    )
    return Explorer(
        title=Text("A layer's product: rows are tokens"),
        sliders=(
            Slider("device", Text("device"), names),
            Slider("dtype", Text("format"), kinds),
            Slider("width", Text("width of the layer"), widths, "", 1),
            Slider("rows", Text("tokens"), rows, "", 4),
        ),
        outputs=(
            Output("rate", Text("at most"), "flop/s", tuple(reached), role="tensor"),
            Output("limit", Text("limited by"), "", tuple(limits), plotted=False),
        ),
        x="rows",
        log_x=True,
        log_y=True,
        reading=Text(
            "{rows} tokens through a {width} x {width} layer on {device}: at most {rate}, limited "
            "by {limit}."
        ),
    )
