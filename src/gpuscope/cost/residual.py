"""A small learned residual: what the kernel models still get wrong on a device, within bounds.

    duration = physical duration * exp(r)

r comes from a table of levels by operator and from at most a few hundred shallow trees, one set a
kind of kernel, over `residual_features`. They were fitted on random calls of one device
(`benchmarks/fit/residual.py`, which also judges them on calls they never saw) and lie beside its
constants as `residual.json`. The physics stays in charge:

- r is within `LIMIT` (a factor of 2), and within `LIMIT_LARGE` for long kernels, so that twice the
  work of a long kernel never takes less time: the physical time doubles, r moves by less;
- no kernel gets faster than its operations at the device's peak, than its bytes through the L2, or
  than the shortest kernel there is (unless its physical model says so);
- outside the range that was fitted, r fades to 0; operators that were not fitted have none;
- only the device that was measured has one: with the constants of another device r is 0.

r is found on the catalogue's own device at its full clock, whatever machine is asked for: a what-if
machine (more bandwidth, a lower clock) moves the physical time alone.

Constant: `residual.scale` (1: as fitted, 0 or absent: none).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import exp, hypot, inf, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuscope.cost.identity import Same
from gpuscope.cost.registry import KernelModel, Work
from gpuscope.cost.residual_features import NAMES, features
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.errors import CatalogueError, GpuscopeError
from gpuscope.hardware import device as device_named
from gpuscope.hardware.calibration import CALIBRATIONS

LEARNED = Text(
    "Kernel times hold a small correction learned on this device (within a factor of 2 for short "
    "kernels, 10 % for long ones)."
)
"""What a prediction says of it."""

FILE = "residual.json"
_SCALE = "residual.scale"
VERSION = 1

LIMIT = log(2.0)
LIMIT_LARGE = 0.1
"""For kernels of `_LARGE_S` and more; between `_SMALL_S` and that the bound narrows evenly."""

_SMALL_S, _LARGE_S = 2e-5, 3e-4

_MARGIN = 0.1
"""How far beyond the fitted range, in widths of it, r has faded to 0."""

_L2_BYTES_PER_CLOCK_PER_UNIT = 64.0
"""What a multiprocessor can take from the L2 in a clock, at the very most."""

_MOST_DOWN = 0.95
"""No interval says that a kernel may take less than a twentieth of what is predicted."""

_NOT_LEARNED = frozenset({"collective", "transfer", "fused", "memset"})

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trees:
    """The residual of one kind of kernel.

    Attributes:
        feature: (trees, depth) places in `NAMES`.
        threshold: (trees, depth); a feature above it takes the upper half.
        leaf: (trees, 2**depth) values of r, the first level of a tree being the highest bit.
        used: places in `NAMES` that count for the fitted range.
        low, high: fitted range of the used features.
        quantiles: rows (duration up to which it holds, 10 % and 90 % quantile of
            ln(measured / predicted) on calls that the fit had not seen).
        width: half-widths of the interval in those of random calls: what calls of families of
            models that no constant has seen need (`benchmarks/harvest/intervals.py`).
    """

    feature: npt.NDArray[np.int64]
    threshold: Floats
    leaf: Floats
    used: npt.NDArray[np.int64]
    low: Floats
    high: Floats
    quantiles: tuple[tuple[float, float, float], ...]
    width: float = 1.0

    def value(self, x: Floats) -> float:
        """r before bounds, faded outside the fitted range."""
        if not len(self.leaf):
            return 0.0
        depth = self.feature.shape[1]
        bits = x[self.feature] > self.threshold
        leaf = bits @ (1 << np.arange(depth - 1, -1, -1))
        return float(self.leaf[np.arange(len(leaf)), leaf].sum())

    def nearness(self, x: Floats) -> float:
        """1 within the fitted range, 0 a tenth of its width outside."""
        if not len(self.used):
            return 1.0
        at = x[self.used]
        outside = np.maximum(np.maximum(self.low - at, at - self.high), 0.0)
        return float(max(0.0, 1 - (outside / (_MARGIN * (self.high - self.low) + 0.05)).max()))


@dataclass(frozen=True, slots=True)
class Level:
    """What an operator is off by on the whole, and the durations it was seen with.

    Attributes:
        value: part of r.
        low, high: fitted range of log2(physical duration in microseconds).
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Residual:
    """All residuals of a device.

    Attributes:
        device_id: the device that was measured.
        trees: by kind of kernel.
        levels: by kind and operator ("matmul aten::mm").
    """

    device_id: str
    trees: Mapping[str, Trees]
    levels: Mapping[str, Level]

    def r(self, kind: str, name: str, x: Sequence[float]) -> float:
        """ln of the factor for an operator with features `x`, before bounds."""
        level, trees = self.levels.get(f"{kind} {name}"), self.trees.get(kind)
        if level is None or trees is None:
            return 0.0
        at = np.asarray(x)
        outside = max(level.low - x[0], x[0] - level.high, 0.0)
        near = trees.nearness(at) * max(0.0, 1 - outside)
        return near * (level.value + trees.value(at)) if near else 0.0

    def interval(self, kind: str, seconds: float) -> tuple[float, float] | None:
        """Quantiles of ln(measured / predicted) for one kernel kind and duration; None unknown."""
        trees = self.trees.get(kind)
        if trees is None or not trees.quantiles:
            return None
        last = trees.quantiles[-1]
        _, low, high = next((q for q in trees.quantiles if seconds <= q[0]), last)
        down, up = trees.width * (1 - exp(low)), trees.width * (exp(high) - 1)
        return log(1 - min(down, _MOST_DOWN)), log(1 + up)


def residual_of(work: Work) -> Residual | None:
    """The residual that applies: of this very device, with its own constants, not switched off."""
    constants = work.constants
    if not constants.calibrated or not constants.known(_SCALE) or constants.value(_SCALE) <= 0:
        return None
    return load(CALIBRATIONS / constants.calibration.device_id / FILE)


@lru_cache(maxsize=16)
def load(path: Path) -> Residual | None:
    """Read a residual; None where there is no such file.

    Raises:
        CatalogueError: not what `benchmarks/fit/residual.py` writes, or of another version.
    """
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']}, this program reads {VERSION}")
        return _read(content)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CatalogueError(
            Text("{path} of {parent}: cannot be read.", path=path.name, parent=path.parent.name),
            str(error),
            Text("Make it anew: python benchmarks/fit/residual.py"),
        ) from error


def _read(content: Mapping[str, Any]) -> Residual:
    place = {name: i for i, name in enumerate(NAMES)}
    trees = {}
    for kind, part in content["kinds"].items():
        rows = part["trees"]
        ranges = part["ranges"]
        trees[kind] = Trees(
            np.array([[place[n] for n in t["if"]] for t in rows], np.int64),
            np.array([t["above"] for t in rows], float),
            np.array([t["r"] for t in rows], float),
            np.array([place[n] for n in ranges], np.int64),
            np.array([low for low, _ in ranges.values()], float),
            np.array([high for _, high in ranges.values()], float),
            tuple((inf if s is None else s, lo, hi) for s, lo, hi in part["quantiles"]),
            float(part.get("width", 1.0)),
        )
    levels = {name: Level(*row) for name, row in content["operators"].items()}
    return Residual(content["device"], trees, levels)


_OWN = "convolution"

_LEARNED_ON = ("aten::", "gpuscope::", "torchvision::", "quantized::")
"""Operators that recordings may hold: what users' own models and kernels do was in none."""


def corrected(
    work: Work, kernels: tuple[Kernel, ...], model: KernelModel, systematic: float = 0.0
) -> tuple[Kernel, ...]:
    """The kernels of an operator with the device's residual, where it has one.

    Args:
        work: the operator.
        kernels: what `model` says it launches.
        model: its physical model.
        systematic: relative half-width that is added to every kind elsewhere, and so taken out of
            the interval here.
    """
    if not kernels or not work.op.name.startswith(_LEARNED_ON):
        return kernels
    found = residual_of(work)
    if found is None:
        return kernels
    base = _on_catalogue_device(work)
    home = base is work
    told = _told(found, work, kernels) if home else _told_there(_There.of(found, base, model))
    if told is None:
        return kernels
    kind, seconds, r = told
    r *= min(1.0, work.constants.value(_SCALE))
    bound = limit(seconds)
    factor = exp(max(-bound, min(bound, r)))
    moved = _each(kernels, lambda k: _moved(work, k, factor))
    return _with_interval(moved, found.interval(kind, sum(k.duration_s for k in moved)), systematic)


def _told(
    found: Residual, work: Work, kernels: tuple[Kernel, ...]
) -> tuple[str, float, float] | None:
    """Kind, seconds by the physical model, and r of an operator; None where none was learned."""
    kind = kind_of(kernels) if kernels else ""
    if kind in ("", *_NOT_LEARNED):
        return None
    seconds = sum(k.duration_s for k in kernels)
    return kind, seconds, found.r(kind, work.op.name, features(work, kernels))


@dataclass(frozen=True, slots=True)
class _There:
    """An operator on the device that the residual was learned on, to be asked about many times:
    what-if devices by the dozen have the same one.

    Attributes:
        key: what the answer follows from.
        found: the residual.
        work, model: the operator there and its physical model.
    """

    key: tuple[object, ...]
    found: Residual = field(compare=False)
    work: Work = field(compare=False)
    model: KernelModel = field(compare=False)

    @classmethod
    def of(cls, found: Residual, work: Work, model: KernelModel) -> _There:
        constants = work.constants.calibration
        kept = (found, work.op, work.device, constants, work.cluster, work.group)
        same = tuple(Same(each) for each in kept)
        return cls((*same, work.settings, work.hot, work.rank, model), found, work, model)


@lru_cache(maxsize=4096)
def _told_there(there: _There) -> tuple[str, float, float] | None:
    return _told(there.found, there.work, there.model(there.work))


def kind_of(kernels: Sequence[Kernel]) -> str:
    """Whose residual an operator gets: that of its longest kernel's kind.

    A convolution's own, whatever kernels around it (conversions, sums of biases) take longer.
    """
    if any(k.kind == _OWN for k in kernels):
        return _OWN
    return max(kernels, key=lambda k: k.duration_s).kind


def limit(seconds: float) -> float:
    """The largest |r| of an operator that takes so long by its physical model."""
    if seconds <= _SMALL_S:
        return LIMIT
    share = min(1.0, log(seconds / _SMALL_S) / log(_LARGE_S / _SMALL_S))
    return LIMIT + (LIMIT_LARGE - LIMIT) * share


def _on_catalogue_device(work: Work) -> Work:
    device = work.device
    try:
        own = device_named(device.id)
    except GpuscopeError:
        return work
    return work if own == device else replace(work, device=own)


def _moved(work: Work, kernel: Kernel, factor: float) -> Kernel:
    """The kernel at another pace, its interval as wide as before in relation."""
    if kernel.lane != "compute" or kernel.duration_s <= 0:
        return kernel
    seconds = kernel.duration_s * factor
    if factor < 1:
        seconds = max(seconds, min(kernel.duration_s, least_s(work, kernel)))
    return kernel.lasting(seconds, origin="calibrated")


def least_s(work: Work, kernel: Kernel) -> float:
    """What no kernel can beat: peak arithmetic, the L2's widest path, the shortest kernel."""
    device = work.device
    least = work.constants.value("bandwidth.floor_s")
    if device.clock_hz:
        widest = _L2_BYTES_PER_CLOCK_PER_UNIT * work.units * device.clock_hz
        least = max(least, kernel.least_bytes / widest)
    if kernel.least_bytes > 2 * work.l2_bytes:
        least = max(least, (kernel.least_bytes - 2 * work.l2_bytes) / work.bandwidth)
    try:
        return max(least, kernel.flops / device.peak_flops_per_s(kernel.dtype or "float32"))
    except GpuscopeError:
        return least


def _with_interval(
    kernels: tuple[Kernel, ...], quantiles: tuple[float, float] | None, systematic: float
) -> tuple[Kernel, ...]:
    """Intervals such that the operator's kernels together have these quantiles.

    Different kernels err independently where a step is summed up, so each gets more than its part.
    """
    if quantiles is None:
        return kernels
    total_s = sum(k.duration_s for k in kernels)
    apart_s = sqrt(sum(k.duration_s**2 for k in kernels))
    more = total_s / apart_s if any(k != kernels[0] for k in _once(kernels)) else 1.0
    down = _without(1 - exp(quantiles[0]), systematic) * more
    up = _without(exp(quantiles[1]) - 1, systematic) * more

    def widened(k: Kernel) -> Kernel:
        if k.lane != "compute":
            return k
        low_s = max(0.0, k.duration_s * (1 - down))
        return replace(k, low_s=low_s, high_s=k.duration_s * (1 + up))

    return _each(kernels, widened)


def _once(kernels: Sequence[Kernel]) -> Iterable[Kernel]:
    """Each of them once: lists of tensors are thousands of launches of a few objects."""
    return {id(k): k for k in kernels}.values()


def _each(kernels: Sequence[Kernel], change: Callable[[Kernel], Kernel]) -> tuple[Kernel, ...]:
    """All of them changed, those that were one object by one object."""
    changed = {id(k): change(k) for k in _once(kernels)}
    return tuple([changed[id(k)] for k in kernels])


def _without(width: float, systematic: float) -> float:
    """What is left of a half-width when another one is taken out of it, in quadrature."""
    return sqrt(width**2 - systematic**2) if width > hypot(systematic, 0.01) else 0.01
