"""The roofline: the device's two limits, and its kernels under them."""

from __future__ import annotations

from gpuscope.analysis.types import Roofline, RooflinePoint
from gpuscope.explain.types import Axis, Lines, Mark, Series, Words
from gpuscope.run import Run
from gpuscope.views.roofline_summary import by_family, main_peak
from gpuscope.views.run_figures.roles import data_words, kind_role

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
    )[:_MOST_POINTS]  # fmt: skip
    if not points:
        return None
    bandwidth = found.memory_bandwidth_bytes_per_s
    roof = _roof(points, peak, bandwidth)
    families = [family.kind for family in by_family(found)]
    return Lines(
        Words(f"Roofline on {run.target}", f"{run.target} 的屋顶线"),
        Axis(Words("arithmetic intensity", "算术强度"), "flop/byte", log=True),
        Axis(Words("arithmetic reached", "实际算力"), "flop/s", log=True),
        (roof, *(_family(kind, points) for kind in families if _has(kind, points))),
        (Mark(Words(f"peak, {_dtype(found, peak)}", f"{_dtype(found, peak)} 峰值"), y=peak),),
        Words(
            "A point is a group of equal kernels. Left of the bend memory limits, right of it "
            "arithmetic; the distance to the roof is what could be gained.",
            "每个点是一组相同的内核。拐点左侧受显存带宽限制，右侧受算力限制；"
            "到屋顶的距离就是可提升的空间。",
        ),
    )  # fmt: skip


def _roof(points: list[RooflinePoint], peak: float, bandwidth: float) -> Series:
    ridge = peak / bandwidth
    low = min(min(p.intensity_flops_per_byte for p in points), ridge) / _MARGIN
    high = max(max(p.intensity_flops_per_byte for p in points), ridge) * _MARGIN
    x = (low, ridge, high)
    y = tuple(min(peak, intensity * bandwidth) for intensity in x)
    return Series(Words("roof", "屋顶"), x, y, "line", "reference")


def _has(kind: str, points: list[RooflinePoint]) -> bool:
    return any(point.kind == kind for point in points)


def _family(kind: str, points: list[RooflinePoint]) -> Series:
    chosen = [point for point in points if point.kind == kind]
    return Series(
        data_words(kind),
        tuple(p.intensity_flops_per_byte for p in chosen),
        tuple(p.flops_per_s for p in chosen), "points", kind_role(kind),
    )  # fmt: skip


def _dtype(found: Roofline, peak: float) -> str:
    """The dtype whose peak it is."""
    return next((name for name, value in found.peak_flops_per_s.items() if value == peak), "")
