"""Benches register themselves: one small file each in this folder, found when they are needed.

    @bench("matmul", title="Matrix products", title_zh="矩阵乘法", quick_s=6, full_s=45)
    def matmul(context: Context) -> Iterator[Point]:
        yield from context.time("matmul", cases(context.quick))

A bench is a generator: each point that it yields is saved at once, so an interrupted run keeps it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpuscope.errors import UnknownNameError, require_package
from gpuscope.measure.bench.types import Point

if TYPE_CHECKING:
    from gpuscope.measure.bench.context import Context

Needs = Literal["gpu", "gpus", "any"]
Run = Callable[["Context"], Iterator[Point]]


@dataclass(frozen=True, slots=True)
class Bench:
    """A bench.

    Attributes:
        name: what `--only` takes.
        title, title_zh: in words.
        quick_s, full_s: about how long it may take on a current data-centre GPU; no new point is
            begun later than that.
        needs: "gpu": one; "gpus": two or more; "any": also runs with `--device cpu`.
        order: benches run from the lowest to the highest (power and others that heat the device
            come last).
        run: yields the points.
    """

    name: str
    title: str
    title_zh: str
    quick_s: float
    full_s: float
    needs: Needs
    order: int
    run: Run


_BENCHES: dict[str, Bench] = {}


def bench(
    name: str, *, title: str, title_zh: str, quick_s: float, full_s: float, needs: Needs = "gpu",
    order: int = 50,
) -> Callable[[Run], Run]:  # fmt: skip
    """Register a generator of points as a bench; arguments as the fields of `Bench`."""

    def register(run: Run) -> Run:
        _BENCHES[name] = Bench(name, title, title_zh, quick_s, full_s, needs, order, run)
        return run

    return register


def benches() -> tuple[Bench, ...]:
    """Return all benches in the order in which they run. Imports torch.

    Raises:
        MissingPackageError: torch is not installed.
    """
    require_package("torch", "Benching", "torch")
    import gpuscope.measure.bench as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return tuple(sorted(_BENCHES.values(), key=lambda b: (b.order, b.name)))


def chosen_benches(only: Iterable[str] | None) -> tuple[Bench, ...]:
    """Return the benches of these names, in the order in which they run; all if None.

    Raises:
        UnknownNameError: no bench of that name.
    """
    known = benches()
    if only is None:
        return known
    names = {b.name for b in known}
    wanted = list(only)
    for name in wanted:
        if name not in names:
            raise UnknownNameError("bench", name, names, "Type: gpuscope bench --list")
    return tuple(b for b in known if b.name in wanted)
