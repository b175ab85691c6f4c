"""Sizes near the asked one: which are cheaper, where the next cliff is, and why.

Time does not follow the FLOPs smoothly. A matrix that needs one tile more may need one wave more
(wave quantisation), and rows that are no multiple of 16 bytes rule out the fast copies
(alignment); both are described in NVIDIA's "Matrix Multiplication Background User's Guide".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpuscope.document.blocks import Axis, Cell, Column, Lines, Mark, Series, Table
from gpuscope.document.quantities import Percent
from gpuscope.document.text import Text
from gpuscope.explanation.tiling import MORE_KERNELS, PART_NAMES, Tiled

Sizes = Mapping[str, int]

_WINDOW = 0.125
"""How far a neighbour may be, as a share of the size."""

_TRIALS = 32
"""Sizes looked at within the window, each way together."""

_FREE = 1.005
"""A larger size is as good as free up to this ratio of times."""


@dataclass(frozen=True, slots=True)
class Priced:
    """One size with its time.

    Attributes:
        duration_s: of all kernels.
        flops: useful ones.
        product: as it is tiled; None where it is no product.
    """

    duration_s: float
    flops: float
    product: Tiled | None = None

    @property
    def flops_per_s(self) -> float:
        """Useful FLOPs over the time."""
        return self.flops / self.duration_s


Price = Callable[[Sizes], Priced]


def neighbour_table(sizes: Sizes, dims: Mapping[str, Text], price: Price) -> Table:
    """What a slightly different size costs, dimension by dimension.

    Args:
        sizes: the asked ones by name.
        dims: the dimensions to change, with their names for people.
        price: of any sizes; must be quick.
    """
    now = price(sizes)
    rows: list[tuple[Cell, ...]] = []
    marked: list[int] = []
    for dim, label in dims.items():
        for size, what in _trials(sizes, dim, price, now).items():
            found = price({**sizes, dim: size})
            cost = found.duration_s / found.flops * now.flops / now.duration_s
            if cost < 0.985:
                marked.append(len(rows))
            rows.append(
                (
                    Text("{label} = {size}", label=label, size=size),
                    what,
                    found.duration_s,
                    found.duration_s / now.duration_s,
                    found.flops_per_s,
                    cost,
                    _why(now, found, cost),
                )
            )
    return Table(
        Text("Neighbours: what a slightly different size costs"),
        (
            Column(Text("size")),
            Column(Text("what it is")),
            Column(Text("time"), "s"),
            Column(Text("time, now = 1"), "ratio"),
            Column(Text("speed"), "flop/s"),
            Column(Text("time per FLOP, now = 1"), "ratio"),
            Column(Text("mainly because of")),
        ),
        tuple(rows),
        tuple(marked),
        Text("Marked: cheaper per FLOP than now by more than 1.5 %."),
    )


def _multiple(size: int) -> int:
    """Steps worth trying around a size."""
    for step in (64, 8):
        if size >= 8 * step:
            return step
    return 1


def window(size: int, share: float = _WINDOW, most: int = _TRIALS) -> tuple[int, ...]:
    """Sizes around one, multiples of 64 or 8 for large ones, and itself."""
    step = _multiple(size)
    reach = max(int(size * share), step)
    low, high = max(size - reach, 1), size + reach
    first = -(-low // step) * step
    found = list(range(first, high + 1, step))
    if len(found) > most:
        found = found[:: -(-len(found) // most)]
    return tuple(sorted({*found, size}))


def _trials(sizes: Sizes, dim: str, price: Price, now: Priced) -> dict[int, Text]:
    """Sizes worth a row, each with what it is; the first name of a size counts."""
    size = sizes[dim]
    near = {other: price({**sizes, dim: other}) for other in window(size)}
    found: dict[int, Text] = {}
    below = size // 64 * 64
    if size % 64 and size > 64:
        found[below] = Text("multiple of 64 below")
    if size % 8 and size > 8:
        found.setdefault(size // 8 * 8, Text("multiple of 8 below"))
        found.setdefault(-(-size // 8) * 8, Text("multiple of 8 above"))
    best = min(near, key=lambda other: near[other].duration_s / near[other].flops)
    free = [o for o in near if o > size and near[o].duration_s <= _FREE * now.duration_s]
    if free:
        found.setdefault(max(free), Text("room at next to no cost"))
    if best != size:
        found.setdefault(best, Text("cheapest per FLOP nearby"))
    found.setdefault(size + 1, Text("one more"))
    found.pop(size, None)
    return dict(sorted(found.items()))


def _why(now: Priced, then: Priced, cost: float) -> Text:
    """The part of the time that changes most, work for work."""
    if abs(cost - 1.0) < 0.003:
        return Text("nothing changes")
    a, b = now.product, then.product
    if a is None or b is None or a.matrix_vector or b.matrix_vector:
        return Text("bytes and fixed costs")
    if b.problem.aligned < a.problem.aligned:
        size = b.problem.aligned
        return Text("rows only {size}-byte aligned: slower kernels", size=size)
    if b.problem.aligned > a.problem.aligned:
        size = b.problem.aligned
        return Text("rows {size}-byte aligned: faster kernels", size=size)
    scale = then.flops / now.flops
    sign = 1.0 if cost > 1.0 else -1.0

    def change(part: str) -> float:
        return sign * float(getattr(b.parts, part) - scale * getattr(a.parts, part))

    changes = {part: change(part) for part, _, _ in PART_NAMES}
    extra_now = now.duration_s - a.parts.total_s - a.slowed_s
    extra_then = then.duration_s - b.parts.total_s - b.slowed_s
    beside = sign * (extra_then - scale * extra_now)
    worst = max(changes, key=lambda part: changes[part])
    label = next(words for part, words, _ in PART_NAMES if part == worst)
    if beside > changes[worst]:
        label = MORE_KERNELS
    if sign > 0:
        return Text("more: {label}", label=label)
    return Text("less: {label}", label=label)


@dataclass(frozen=True, slots=True)
class Curve:
    """Prices over one dimension.

    Attributes:
        dim: the dimension's name among the sizes.
        sizes: ascending.
        prices: of each.
    """

    dim: str
    sizes: tuple[int, ...]
    prices: tuple[Priced, ...]


def curve(sizes: Sizes, dim: str, values: Sequence[int], price: Price) -> Curve:
    """Prices at `values` of one dimension."""
    ordered = tuple(sorted(set(values)))
    return Curve(dim, ordered, tuple(price({**sizes, dim: value}) for value in ordered))


def span(size: int, points: int = 128) -> tuple[int, ...]:
    """Evenly spaced sizes from half to one and a half of `size`, on multiples of 8 where it is
    one, and itself."""
    low, high = max(size // 2, 1), max(size * 3 // 2, 16)
    step = max((high - low) // points, 1)
    if size % 8 == 0:
        step = -(-step // 8) * 8
        low = -(-low // 8) * 8
    return tuple(sorted({*range(low, high + 1, step), size}))


def octaves(size: int, low: int, high: int, a_doubling: int = 2) -> tuple[int, ...]:
    """Sizes that grow by a constant factor, whole, and `size` itself."""
    found, at = {size}, 0
    while (value := round(low * 2 ** (at / a_doubling))) <= high:
        found.add(value)
        at += 1
    return tuple(sorted(found))


def cliffs(found: Curve, most: int = 3, least: float = 0.03) -> tuple[tuple[int, float], ...]:
    """The largest jumps: (last size before it, relative jump beyond what the FLOPs grow)."""
    jumps = []
    for (size, before), after in zip(
        zip(found.sizes, found.prices, strict=True), found.prices[1:], strict=False
    ):
        jump = after.duration_s / before.duration_s - after.flops / before.flops
        if jump > least:
            jumps.append((size, jump))
    return tuple(sorted(sorted(jumps, key=lambda each: -each[1])[:most]))


def curve_lines(found: Curve, size: int, name: Text, sizes: Sizes) -> tuple[Lines, Lines]:
    """Time, and speed, over one dimension, with the cliffs and the asked size marked."""
    x = Axis(name)
    xs = tuple(float(s) for s in found.sizes)
    now = found.prices[found.sizes.index(size)]
    jumps = cliffs(found)
    marks = tuple(
        Mark(Text("cliff after {at}: +{jump}", at=at, jump=Percent(jump)), x=float(at), role="bad")
        for at, jump in jumps
    )
    fixed = ", ".join(f"{key} = {value}" for key, value in sizes.items() if key != found.dim)
    times = Lines(
        Text("Time over {name} ({fixed})", name=name, fixed=fixed),
        x,
        Axis(Text("time"), "s"),
        (Series(Text("time"), xs, tuple(p.duration_s for p in found.prices), role="tensor"),),
        (Mark(Text("now"), float(size), now.duration_s, "good"), *marks),
    )
    best = max(range(len(xs)), key=lambda at: found.prices[at].flops_per_s)
    speeds = Lines(
        Text("Speed over {name} ({fixed})", name=name, fixed=fixed),
        x,
        Axis(Text("speed"), "flop/s"),
        (Series(Text("speed"), xs, tuple(p.flops_per_s for p in found.prices), role="tensor"),),
        (
            Mark(Text("now"), float(size), now.flops_per_s, "good"),
            Mark(
                Text("fastest here: {sizes}", sizes=found.sizes[best]),
                xs[best],
                found.prices[best].flops_per_s,
                "good",
            ),
            *marks,
        ),
    )
    return times, speeds
