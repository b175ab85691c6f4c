"""Kernels on the roofline: arithmetic intensity against the rate that was reached."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from gpuscope.analysis.breakdown import Rows
from gpuscope.analysis.grouping import KernelGroups, group_key, label
from gpuscope.analysis.roofs import Roofs
from gpuscope.analysis.types import BesideRoofline, Roofline, RooflinePoint


def roofline(rows: Rows, groups: KernelGroups, roofs: Roofs) -> Roofline | None:
    """Return one point per group of equal kernels that compute anything, longest first.

    Intensity is FLOPs over the bytes that really cross device memory; the roof over a point is
    min(peak of its dtype and family, intensity x bandwidth). Copies, pointwise kernels and the
    like, whose FLOPs are not counted, stand beside it by family. None without kernels or a device.
    """
    bandwidth = roofs.bandwidth_bytes_per_s
    if bandwidth is None or len(groups.kernel) == 0:
        return None
    points = []
    placed = set()
    for i in np.flatnonzero(rows.kernels.flops[groups.kernel] > 0):
        kernel = rows.kernels.kernels[groups.kernel[i]]
        moved = kernel.read_bytes + kernel.written_bytes
        running_s = float(groups.running_s[i])
        if moved <= 0 or running_s <= 0:
            continue
        op = rows.ops.ops[groups.op[i]] if groups.op[i] >= 0 else None
        intensity = kernel.flops / moved
        peak = roofs.peak_flops_per_s(kernel.dtype, kernel.kind)
        slope = intensity * bandwidth
        per_step = float(groups.count[i]) / rows.work.window.steps
        placed.add(int(i))
        points.append(
            RooflinePoint(
                label=label(kernel, op),
                kind=kernel.kind,
                intensity_flops_per_byte=intensity,
                flops_per_s=kernel.flops * per_step / running_s,
                time_s=float(groups.time_s[i]),
                count=max(1, round(per_step)),
                limiter=kernel.limiter,
                roof_flops_per_s=slope if peak is None else min(peak, slope),
                kernel=kernel.name,
                group=group_key(kernel),
            )
        )
    return Roofline(
        tuple(points), roofs.peaks(), bandwidth, _beside(rows, groups, placed, bandwidth)
    )


def _beside(
    rows: Rows, groups: KernelGroups, placed: Collection[int], bandwidth: float
) -> tuple[BesideRoofline, ...]:
    """The groups that are no point, by family, most time first."""
    rest = [i for i in range(len(groups.kernel)) if i not in placed]
    kernels = [rows.kernels.kernels[groups.kernel[i]] for i in rest]
    kinds = [kernel.kind for kernel in kernels]
    on_links = {kernel.kind for kernel in kernels if kernel.lane == "link"}
    steps = rows.work.window.steps
    found = []
    for kind in dict.fromkeys(kinds):
        of = np.array([i for i, own in zip(rest, kinds, strict=True) if own == kind])
        count = groups.count[of] / steps
        moved = float((rows.kernels.moved_bytes[groups.kernel[of]] * count).sum())
        running_s = float(groups.running_s[of].sum())
        # What talks over links is not held against the memory's bandwidth.
        known = moved > 0 and running_s > 0 and kind not in on_links
        rate = moved / running_s if known else None
        found.append(
            BesideRoofline(
                kind=kind,
                time_s=float(groups.time_s[of].sum()),
                count=max(1, round(float(count.sum()))),
                moved_bytes=moved,
                bytes_per_s=rate,
                memory_share=None if rate is None else rate / bandwidth,
            )
        )
    return tuple(sorted(found, key=lambda family: -family.time_s))
