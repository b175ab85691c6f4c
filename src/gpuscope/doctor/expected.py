"""What a device should reach in the active tests, by gpuscope's own models, and how much less is
too little.

The models' constants were measured on this very kind of device ("calibrated"), or carried over
from another ("estimated"): then more is forgiven. A device that the catalogue does not have, and a
slice of a device, are held against nothing but their neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Device, device, interconnect


@dataclass(frozen=True, slots=True)
class Expected:
    """A rate that a device should reach.

    Attributes:
        rate: what the model says, per second.
        least: below this something is wrong.
        origin: "calibrated" or "estimated".
    """

    rate: float
    least: float
    origin: str

    def is_slow(self, rate: float) -> bool:
        """Whether a measured rate is too low."""
        return rate < self.least


CALIBRATED_SHARE, ESTIMATED_SHARE = 0.8, 0.5
"""Of the model's rate, for products of the lower end of its 80 % interval: what must be reached at
least."""

HOST_SHARE = 0.6
"""Of the model's rate over the host link: a process on the other processor's memory, an IOMMU or a
virtual machine cost up to a third."""

LINK_SHARE = 0.88
"""Of a link's rate that a copy between two devices reaches (H200, NVLink 4: 396 of 450 GB/s, the
catalogue's note; H200's host link: 55.4 of 63 GB/s)."""

PAIR_LEAST = 0.6
COLLECTIVE_LEAST = {"calibrated": 0.65, "estimated": 0.4}
"""Of the model's rate. Its constants include the switches' own additions where there were some: an
all-reduce gets 0.92 of the link with eight H200s and them, 0.80 with four and without."""


def known(name: str) -> Device | None:
    """The catalogue's device that the driver calls `name`; None if it has none."""
    try:
        return device(name)
    except GpuscopeError:
        return None


def limited(found: Device, power_limit_w: float | None) -> Device:
    """The device under a power limit that is lower than its own.

    Args:
        found: from the catalogue.
        power_limit_w: what the driver holds it to; None if unknown.
    """
    if power_limit_w is None or found.tdp_w is None or power_limit_w >= 0.99 * found.tdp_w:
        return found
    return found.replace(tdp_w=power_limit_w)


def product(found: Device, dtype: str, side: int, layout: str = "nn") -> Expected | None:
    """A square product, repeated: between its rate alone and that under the power limit.

    Args:
        found: the device, with the power limit that holds.
        dtype: rate name.
        side: of the matrices.
        layout: storage of the operands, as `explain matmul` names it.
    """
    from gpuscope.explanation.operators import interval_s, steady, total_s

    try:
        question, on = _question(found, dtype, layout)
        kernels = question.kernels(side, side, side)
        settled = steady([question.op(side, side, side)], on, question.dtype.settings)
    except GpuscopeError:
        return None
    flops = 2.0 * side**3
    slowest = min(flops / interval_s(kernels)[1], flops / settled.device_s)
    measured = on.origin == "calibrated" and any(
        name.startswith(f"matmul.{dtype}.") for name, _ in on.calibration.entries
    )
    share = CALIBRATED_SHARE if measured else ESTIMATED_SHARE
    rate = flops / max(total_s(kernels), settled.device_s)
    return Expected(rate, share * slowest, "calibrated" if measured else "estimated")


def _question(found: Device, dtype: str, layout: str):  # type: ignore[no-untyped-def]
    from gpuscope.explanation.matmul import Question
    from gpuscope.explanation.operators import precision, target

    on = target(found)
    return Question(on, precision(dtype, found), layout, 1, False), on


def copy_inside(found: Device, size_bytes: int) -> Expected | None:
    """A copy within device memory, bytes read and written.

    Args:
        found: the device.
        size_bytes: of the source.
    """
    from gpuscope.explanation.operators import dense, kernels_of, target, total_s, work_on
    from gpuscope.program.types import Op

    count = max(1, size_bytes // 4)
    source, out = (dense(count, dtype="float32", storage=n) for n in (1, 0))
    op = Op(0, "aten::copy_", inputs=(out, source), outputs=(out,))
    try:
        on = target(found)
        kernels = kernels_of(work_on(op, on))
    except GpuscopeError:
        return None
    rate = 8.0 * count / total_s(kernels)
    share = CALIBRATED_SHARE if on.origin == "calibrated" else ESTIMATED_SHARE
    return Expected(rate, share * rate, on.origin)


def host_copy(
    found: Device, way: str, size_bytes: int, generation: int | None, width: int | None
) -> Expected | None:
    """A copy between the device and pinned host memory, over the link as it runs.

    Args:
        found: the device.
        way: "h2d" or "d2h".
        size_bytes: of the copy.
        generation, width: of the PCIe link under load; None if unknown.
    """
    from gpuscope.explanation.transfer_case import make_case

    try:
        case = make_case(float(size_bytes), found, way)
    except GpuscopeError:
        return None
    if not case.link_is_known:
        return None
    rate = case.rate(True) * link_share(found, generation, width)
    return Expected(rate, HOST_SHARE * rate, case.origin)


def link_share(found: Device, generation: int | None, width: int | None) -> float:
    """Rate of the PCIe link as it runs over the device's own; 1 where either is unknown."""
    own = found.host_link
    if own is None or generation is None or width is None or not own.id.startswith("pcie"):
        return 1.0
    try:
        full = interconnect(f"pcie-{generation}.0-x16").bandwidth_bytes_per_s
    except GpuscopeError:  # PCIe 1 and 2: half as fast each generation back
        oldest = interconnect("pcie-3.0-x16").bandwidth_bytes_per_s
        full = oldest / 2.0 ** (3 - generation) if oldest and generation < 3 else None
    if not full or not own.bandwidth_bytes_per_s:
        return 1.0
    return min(1.0, full * width / 16 / own.bandwidth_bytes_per_s)


def pair_copy(found: Device) -> Expected | None:
    """A copy between two devices that share a switch, each with all of its links.

    None where the devices have links of their own to each other: how many a pair has, no
    datasheet says.
    """
    link = found.scale_up
    if link is None or link.bandwidth_bytes_per_s is None or link.is_point_to_point:
        return None
    rate = LINK_SHARE * link.bandwidth_bytes_per_s
    return Expected(rate, PAIR_LEAST * rate, "estimated")


def collective(found: Device, operation: str, ranks: int, size_bytes: int) -> Expected | None:
    """Bus bandwidth of a collective over the devices of one host.

    Args:
        found: the device.
        operation: "all_reduce", ...
        ranks: devices that take part.
        size_bytes: of the message.
    """
    from gpuscope.explanation.collective_case import make_case

    if found.scale_up is None:
        return None
    try:
        case = make_case(operation, float(size_bytes), f"{ranks}x{found.id}", "bf16")
    except GpuscopeError:
        return None
    rate = case.bus_bytes_per_s(case.size_bytes, case.time_s(case.size_bytes))
    return Expected(rate, COLLECTIVE_LEAST[case.origin] * rate, case.origin)


def sustained(found: Device, dtype: str, side: int) -> Expected | None:
    """A product repeated without end, under the power limit.

    Args:
        found: the device, with the power limit that holds.
        dtype: rate name.
        side: of the matrices.
    """
    from gpuscope.explanation.operators import steady

    try:
        question, on = _question(found, dtype, "nn")
        settled = steady([question.op(side, side, side)], on, question.dtype.settings)
    except GpuscopeError:
        return None
    rate = 2.0 * side**3 / settled.device_s
    share = CALIBRATED_SHARE if on.origin == "calibrated" else ESTIMATED_SHARE
    return Expected(rate, share * rate, on.origin)


def slow_ones(rates: Mapping[int, float], floor: float) -> dict[int, float]:
    """Devices that are slower than their neighbours, with the share of the usual rate they reach.

    With three or more, the usual rate is the median, and a device stands out if it lies lower by
    more than `floor` of it and by more than five robust standard deviations (1.4826 times the
    median absolute deviation; Hampel, "The influence curve and its role in robust estimation",
    1974), so that machines whose devices simply differ raise no alarm. Of two, the slower one
    stands out if it lies lower than the other by one and a half times `floor`.

    Args:
        rates: by device.
        floor: share of the usual rate by which healthy devices differ.
    """
    if len(rates) < 2:
        return {}
    ordered = sorted(rates.values())
    if len(rates) == 2:
        usual, allowed = ordered[-1], 1.5 * floor * ordered[-1]
    else:
        usual = _median(ordered)
        spread = 1.4826 * _median(sorted(abs(rate - usual) for rate in ordered))
        allowed = max(floor * usual, 5.0 * spread)
    return {
        index: rate / usual for index, rate in rates.items() if usual > 0 and usual - rate > allowed
    }


def _median(ordered: list[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
