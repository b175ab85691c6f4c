"""Benches register themselves: one small file each in this folder, found when they are needed.

    @bench("matmul", title="Matrix products", quick_s=6, full_s=45)
    def matmul(context: Context) -> Iterator[Point]:
        yield from context.time("matmul", cases(context.quick))

A bench is a generator: each point that it yields is saved at once, so an interrupted run keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpuscope.document.text import Text
from gpuscope.errors import require_package
from gpuscope.measurement.bench.types import Point
from gpuscope.registry import Registry

if TYPE_CHECKING:
    from gpuscope.measurement.bench.context import Context

Needs = Literal["gpu", "gpus", "any"]
Run = Callable[["Context"], Iterator[Point]]


@dataclass(frozen=True, slots=True)
class Bench:
    """A bench.

    Attributes:
        name: what `--only` takes.
        title: in words.
        quick_s, full_s: about how long it may take on a current data-centre GPU; no new point is
            begun later than that.
        needs: "gpu": one; "gpus": two or more; "any": also runs with `--device cpu`.
        order: benches run from the lowest to the highest (power and others that heat the device
            come last).
        run: yields the points.
    """

    name: str
    title: Text
    quick_s: float
    full_s: float
    needs: Needs
    order: int
    run: Run


BENCHES = Registry[Bench](Text("bench"), "gpuscope.measurement.bench", "gpuscope bench --list")


def bench(
    name: str, *, title: Text, quick_s: float, full_s: float, needs: Needs = "gpu", order: int = 50
) -> Callable[[Run], Run]:
    """Register a generator of points as a bench; arguments as the fields of `Bench`."""

    def register(run: Run) -> Run:
        BENCHES.add(name, Bench(name, title, quick_s, full_s, needs, order, run))
        return run

    return register


def benches() -> tuple[Bench, ...]:
    """Return all benches in the order in which they run. Imports torch.

    Raises:
        MissingPackageError: torch is not installed.
    """
    require_package("torch", Text("Benching"), "torch")
    return tuple(sorted(BENCHES, key=lambda b: (b.order, b.name)))


def chosen_benches(only: Iterable[str] | None) -> tuple[Bench, ...]:
    """Return the benches of these names, in the order in which they run; all if None.

    Raises:
        UnknownNameError: no bench of that name.
    """
    known = benches()
    if only is None:
        return known
    wanted = {BENCHES.get(name).name for name in only}
    return tuple(b for b in known if b.name in wanted)
