"""The roofline in a few lines: each kernel family against the roof over it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from gpuscope.analysis.types import Roofline, RooflinePoint
from gpuscope.run import Run


@dataclass(frozen=True, slots=True)
class FamilyOnRoofline:
    """One kernel family on the roofline.

    Attributes:
        kind: the family.
        time_s: device time of its kernels.
        intensity_flops_per_byte, flops_per_s: of the family as a whole: its FLOPs over its bytes
            and over its time.
        roof_flops_per_s: the rate it would have with every kernel at its own roof.
        compute_side: most of its time lies under the flat part of the roof.
    """

    kind: str
    time_s: float
    intensity_flops_per_byte: float
    flops_per_s: float
    roof_flops_per_s: float
    compute_side: bool

    @property
    def share_of_roof(self) -> float:
        """Reached over roof."""
        return self.flops_per_s / self.roof_flops_per_s if self.roof_flops_per_s > 0 else 0.0


def by_family(roofline: Roofline) -> list[FamilyOnRoofline]:
    """Return the families, most time first."""
    grouped: dict[str, list[RooflinePoint]] = defaultdict(list)
    for point in roofline.points:
        if point.flops_per_s > 0 and point.time_s > 0 and point.roof_flops_per_s > 0:
            grouped[point.kind].append(point)
    found = [_family(kind, points, roofline) for kind, points in grouped.items()]
    return sorted(found, key=lambda family: -family.time_s)


def _family(kind: str, points: list[RooflinePoint], roofline: Roofline) -> FamilyOnRoofline:
    time_s = sum(p.time_s for p in points)
    flops = sum(p.flops_per_s * p.time_s for p in points)
    moved = sum(p.flops_per_s * p.time_s / p.intensity_flops_per_byte for p in points)
    best_s = sum(p.flops_per_s * p.time_s / p.roof_flops_per_s for p in points)
    bandwidth = roofline.memory_bandwidth_bytes_per_s or 0.0
    # Under the slope the roof is intensity x bandwidth; under the flat part it is less than that.
    flat_s = sum(
        p.time_s
        for p in points
        if p.roof_flops_per_s < 0.999 * p.intensity_flops_per_byte * bandwidth
    )
    return FamilyOnRoofline(
        kind=kind,
        time_s=time_s,
        intensity_flops_per_byte=flops / moved,
        flops_per_s=flops / time_s,
        roof_flops_per_s=flops / best_s,
        compute_side=flat_s > time_s / 2,
    )


def main_peak(run: Run) -> float | None:
    """Return the peak of the step's main dtype, else the highest of all."""
    used, roofline = run.analysis.utilisation, run.analysis.roofline
    if used is not None and used.peak_flops_per_s is not None:
        return used.peak_flops_per_s
    return max(roofline.peak_flops_per_s.values(), default=None) if roofline else None
