"""The roofline: the device's two limits, and its kernels under them."""

from __future__ import annotations

from gpuscope.analysis.types import Roofline, RooflinePoint
from gpuscope.document.blocks import Axis, Lines, Mark, Series
from gpuscope.document.text import Text
from gpuscope.run import Run
from gpuscope.views.palette import kind_role
from gpuscope.views.roofline_summary import by_family, main_peak
from gpuscope.views.words import word_text

_MOST_POINTS = 400
_MARGIN = 2.0


def roofline(run: Run) -> Lines | None:
    """Return the roof of the step's main dtype and every group of equal kernels under it."""
    found = run.analysis.roofline
    peak = main_peak(run)
    if found is None or not peak or not found.memory_bandwidth_bytes_per_s:
        return None
    points = sorted(
        (p for p in found.points if p.flops_per_s > 0 and p.intensity_flops_per_byte > 0),
        key=lambda p: -p.time_s,
    )[:_MOST_POINTS]
    if not points:
        return None
    bandwidth = found.memory_bandwidth_bytes_per_s
    roof = _roof(points, peak, bandwidth)
    families = [family.kind for family in by_family(found)]
    return Lines(
        Text("Roofline on {target}", target=run.target),
        Axis(Text("arithmetic intensity"), "flop/byte", log=True),
        Axis(Text("arithmetic reached"), "flop/s", log=True),
        (roof, *(_family(kind, points) for kind in families if _has(kind, points))),
        (Mark(Text("peak, {dtype}", dtype=_dtype(found, peak)), y=peak),),
        Text(
            "A point is a group of equal kernels. Left of the bend memory limits, right of it "
            "arithmetic; the distance to the roof is what could be gained."
        ),
    )


def _roof(points: list[RooflinePoint], peak: float, bandwidth: float) -> Series:
    ridge = peak / bandwidth
    low = min(min(p.intensity_flops_per_byte for p in points), ridge) / _MARGIN
    high = max(max(p.intensity_flops_per_byte for p in points), ridge) * _MARGIN
    x = (low, ridge, high)
    y = tuple(min(peak, intensity * bandwidth) for intensity in x)
    return Series(Text("roof"), x, y, "line", "reference")


def _has(kind: str, points: list[RooflinePoint]) -> bool:
    return any(point.kind == kind for point in points)


def _family(kind: str, points: list[RooflinePoint]) -> Series:
    chosen = [point for point in points if point.kind == kind]
    return Series(
        word_text(kind),
        tuple(p.intensity_flops_per_byte for p in chosen),
        tuple(p.flops_per_s for p in chosen),
        "points",
        kind_role(kind),
    )


def _dtype(found: Roofline, peak: float) -> str:
    """The dtype whose peak it is."""
    return next((name for name, value in found.peak_flops_per_s.items() if value == peak), "")
