"""What if the longest matrix products had other sizes: cliffs of waves, and the next good shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gpuscope.cost.matmul.model import layout_of
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.document.blocks import Block, Explorer, Lines, Mark, Output, Paragraph, Slider
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, joined, verbatim
from gpuscope.errors import GpuscopeError
from gpuscope.explanation.matmul import Question
from gpuscope.explanation.neighbours import Sizes, curve, curve_lines, neighbour_table, span
from gpuscope.explanation.operators import Target, precision, total_s
from gpuscope.hardware import Device, calibration_for, rate_name
from gpuscope.program.types import Op, TensorSpec
from gpuscope.run import Run

MOST = 3
"""How many products are looked at."""

_OPERANDS = {
    "aten::mm": 0,
    "aten::bmm": 0,
    "aten::addmm": 1,
    "aten::_addmm_activation": 1,
    "aten::baddbmm": 1,
    "aten::addmm_": 1,
    "aten::linear": 0,
}
"""Where the two matrices stand among an operator's inputs."""

_PADS = (8, 16, 64, 128, 256)
"""Multiples that people pad to."""

_LEAST_GAIN = 0.02
"""Padding that saves less is not worth a word, nor is padding by more."""

_ROOM = 0.12
"""Share of the chart's width that the name of a mark takes."""

_ROLES = {
    "M": Text("M: rows of the result"),
    "N": Text("N: columns of the result"),
    "K": Text("K: the inner size"),
}


@dataclass(frozen=True, slots=True)
class Shaped:
    """One product of the step.

    Attributes:
        name: operator and shapes, as the roofline has it.
        asked: the product as `gpuscope explain matmul` takes it.
        sizes: M, N, K.
        time_s: device time of all its launches in a step.
    """

    name: str
    asked: Question
    sizes: Sizes
    time_s: float


def longest_products(run: Run, device: Device, most: int = MOST) -> tuple[Shaped, ...]:
    """Return the step's longest matrix products, longest first; shapes that differ only."""
    roof = run.analysis.roofline
    if roof is None:
        return ()
    op_of = _operators(run)
    found: list[Shaped] = []
    seen: set[object] = set()
    for point in sorted(roof.points, key=lambda p: -p.time_s):
        op, kernel = op_of.get(point.group, (None, None))
        if point.kind != "matmul" or op is None or kernel is None:
            continue
        made = _shaped(op, kernel, device, point.label, point.time_s)
        if made is None:
            continue
        key = (*made.sizes.values(), made.asked.layout, made.asked.batch, made.asked.dtype.name)
        if key not in seen:
            seen.add(key)
            found.append(made)
        if len(found) == most:
            break
    return tuple(found)


def shape_blocks(shaped: Shaped, step_s: float, *, live: bool) -> tuple[Block, ...]:
    """Return one product's time over its sizes, and the next good shape.

    Args:
        shaped: the product.
        step_s: the step, for what a better shape could save of it.
        live: add sliders and the table of neighbours.
    """
    asked, sizes = shaped.asked, shaped.sizes
    better = {dim: _better(shaped, dim) for dim in sizes}
    gains = {dim: found.gain for dim, found in better.items() if found is not None}
    dim = max(gains, key=lambda each: gains[each]) if gains else "M"
    times, _ = curve_lines(
        curve(sizes, dim, span(sizes[dim]), asked.price), sizes[dim], _ROLES[dim], sizes
    )
    titled = joined((shaped.name, times.title), ": ")
    noted = Text(
        "Time does not follow the size smoothly: where the tiles fill one more wave, it jumps. The "
        "sizes right before a jump are the good ones."
    )
    lines = Lines(titled, times.x, times.y, times.series, _apart(times), noted)
    said = _advice(shaped, better.get(dim), step_s)
    if not live:
        return (said, lines)
    dims = {name: verbatim(name) for name in sizes}
    return (said, lines, _explorer(shaped), neighbour_table(sizes, dims, asked.price))


@dataclass(frozen=True, slots=True)
class _Better:
    """A slightly larger size that takes less time: padding pays."""

    dim: str
    size: int
    now_s: float
    then_s: float

    @property
    def gain(self) -> float:
        """Share of the time that it saves."""
        return 1.0 - self.then_s / self.now_s


def _better(shaped: Shaped, dim: str) -> _Better | None:
    """The smallest padded size that takes next to the least; None where padding gains nothing."""
    size = shaped.sizes[dim]
    now_s = shaped.asked.price(shaped.sizes).duration_s
    padded = {-(-size // step) * step for step in _PADS} - {size}
    prices = {
        each: shaped.asked.price({**shaped.sizes, dim: each}).duration_s for each in sorted(padded)
    }
    if not prices:
        return None
    least_s = min(prices.values())
    best = min(each for each, price_s in prices.items() if price_s <= (1 + _LEAST_GAIN) * least_s)
    found = _Better(dim, best, now_s, prices[best])
    return found if found.gain > _LEAST_GAIN else None


def _advice(shaped: Shaped, found: _Better | None, step_s: float) -> Paragraph:
    """The next good shape in a sentence."""
    share = Percent(shaped.time_s / step_s) if step_s > 0 else ""
    begin = Text("{shaped}, {share} of the step", shaped=shaped.name, share=share)
    if found is None:
        return Paragraph(
            Text("{begin}: padding no side makes it faster; its shape is a good one.", begin=begin)
        )
    size = shaped.sizes[found.dim]
    saved = Seconds(shaped.time_s * found.gain)
    then = f"{Seconds(found.then_s)} instead of {Seconds(found.now_s)}"
    return Paragraph(
        Text(
            "{begin}: with {dim} = {size} instead of {size_2} (padded) one takes {then}; the step "
            "could save up to {saved}.",
            begin=begin,
            dim=found.dim,
            size=found.size,
            size_2=size,
            then=then,
            saved=saved,
            now=Seconds(found.now_s),
            then_2=Seconds(found.then_s),
        ),
        "good",
    )


def _apart(lines: Lines) -> tuple[Mark, ...]:
    """Marks whose names have room beside each other; the asked size first."""
    x = lines.series[0].x
    room, kept = _ROOM * (x[-1] - x[0]), list[Mark]()
    for mark in lines.marks:
        places = [other.x for other in kept if other.x is not None]
        if mark.x is None or all(abs(mark.x - place) >= room for place in places):
            kept.append(mark)
    return tuple(kept)


def _operators(run: Run) -> dict[str, tuple[Op, Kernel]]:
    """An operator with its kernel for each kernel group."""
    from gpuscope.analysis.grouping import group_key

    timeline = run.timeline
    found: dict[str, tuple[Op, Kernel]] = {}
    for at, op_at in zip(timeline.events.kernel.tolist(), timeline.events.op.tolist(), strict=True):
        kernel = timeline.kernels[at] if at >= 0 else None
        op = timeline.ops[op_at] if 0 <= op_at < len(timeline.ops) else None
        if isinstance(kernel, Kernel) and isinstance(op, Op) and kernel.kind == "matmul":
            found.setdefault(group_key(kernel), (op, kernel))
    return found


def _shaped(op: Op, kernel: Kernel, device: Device, name: str, time_s: float) -> Shaped | None:
    """The product that an operator is; None where it is no plain one."""
    at = _OPERANDS.get(op.name)
    if at is None or len(op.inputs) < at + 2:
        return None
    a, b = op.inputs[at], op.inputs[at + 1]
    if op.name == "aten::linear":
        b = TensorSpec(b.shape[::-1], b.stride[::-1], b.dtype)
        a = TensorSpec((a.numel // max(a.shape[-1], 1), a.shape[-1]), (a.shape[-1], 1), a.dtype)
    if len(a.shape) < 2 or len(b.shape) < 2:
        return None
    layout = (layout_of(a) + layout_of(b)).replace("-", "N").lower()
    constants = calibration_for(device)
    origin = "calibrated" if Constants(constants).calibrated else "estimated"
    target = Target(device, constants, Constants(constants), origin, ())
    sizes = {"M": a.shape[-2], "N": b.shape[-1], "K": a.shape[-1]}
    batch = prod(a.shape[:-2])
    try:
        asked = Question(target, precision(rate_name(kernel.dtype), device), layout, batch, False)
        asked.check(sizes["M"], sizes["N"], sizes["K"])
    except GpuscopeError:
        return None
    return Shaped(name, asked, sizes, time_s) if min(sizes.values()) > 1 else None


def _explorer(shaped: Shaped) -> Explorer:
    """Sliders for M, N and K, every point by the model."""
    asked, sizes = shaped.asked, shaped.sizes
    ms, ns, ks = _even(sizes["M"], 20), _around(sizes["N"]), _around(sizes["K"])
    times, shares, waves, tiles = [], [], [], []
    for n in ns:
        for k in ks:
            for m in ms:
                kernels = asked.kernels(m, n, k)
                main = max(kernels, key=lambda kernel: kernel.flops)
                time = total_s(kernels)
                times.append(time)
                shares.append(main.flops / time / _peak(asked))
                waves.append(round(main.waves, 2))
                tiles.append("x".join(map(str, main.tile[:2])))
    own = asked.on.device.name
    return Explorer(
        Text("{shaped}: move the sizes", shaped=shaped.name),
        (
            _slider("n", "N", ns, sizes["N"]),
            _slider("k", "K", ks, sizes["K"]),
            _slider("m", "M", ms, sizes["M"]),
        ),
        (
            Output("time", Text("time of one"), "s", tuple(times), role="tensor"),
            Output("share", Text("share of the peak"), "share", tuple(shares), plotted=False),
            Output("waves", Text("waves"), "", tuple(waves), plotted=False),
            Output("tile", Text("tile"), "", tuple(tiles), plotted=False),
        ),
        x="m",
        reading=Text(
            "{m} x {n} x {k}: {time}, {share} of the peak, {waves} waves of tiles {tile}."
        ),
        note=Text("On {own}, by itself, operands not in the L2 cache.", own=own),
    )


def _peak(asked: Question) -> float:
    from gpuscope.explanation.operators import peak_flops_per_s

    return peak_flops_per_s(asked.on.device, asked.dtype.compute)


def _even(size: int, stops: int) -> tuple[int, ...]:
    """Evenly spaced sizes up to twice `size`, itself among them."""
    step = max(1, round(2 * size / stops))
    step = next((s * round(step / s) for s in (64, 16, 8) if step >= s), step)
    return tuple(sorted({*range(step, 2 * size + 1, step), size}))


def _around(size: int) -> tuple[int, ...]:
    """Half, the next multiples of 64, the size itself and its double."""
    below, above = size // 64 * 64, -(-size // 64) * 64
    wanted: Sequence[int] = (max(size // 2, 1), below, size, above, 2 * size)
    return tuple(sorted({each for each in wanted if each > 0}))


def _slider(key: str, label: str, stops: tuple[int, ...], now: int) -> Slider:
    return Slider(key, verbatim(label), tuple(map(float, stops)), start=stops.index(now))
