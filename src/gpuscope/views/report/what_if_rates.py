"""What if the device had more of something: bandwidth, units, a faster host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuscope.explain.types import (
    Axis,
    Block,
    Explorer,
    Lines,
    Mark,
    Output,
    Series,
    Slider,
    Words,
)
from gpuscope.hardware import Device
from gpuscope.program.types import Program
from gpuscope.timeline.recost import Recosted, recost

BANDWIDTHS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
UNITS = (0.5, 0.75, 1.0, 1.5, 2.0)
HOSTS = (0.5, 1.0, 2.0, 4.0)
"""How many times as fast; every combination of the first two is costed, the last one walked."""

FEWER_BANDWIDTHS, FEWER_UNITS = (0.5, 0.75, 1.0, 1.5, 2.0), (0.5, 1.0, 2.0)
"""For long programs: an operator is costed in about 20 us, so that points are what there is to
save."""

FULL_OPERATORS, FEWER_OPERATORS, MOST_OPERATORS = 2_500, 5_000, 12_000
"""Operators up to which all stops, fewer stops, fewer bandwidths alone are costed: about 2 s."""


@dataclass(slots=True)
class Machines:
    """One program on one device with some figures multiplied; each is costed once."""

    program: Program
    device: Device
    bandwidths: tuple[float, ...] = BANDWIDTHS
    units: tuple[float, ...] = UNITS
    _known: dict[tuple[float, float], Recosted] = field(default_factory=dict)

    def at(self, bandwidth: float, units: float) -> Recosted:
        """The step with so many times the memory bandwidth and the units."""
        found = self._known.get((bandwidth, units))
        if found is None:
            found = recost(
                self.program, scaled(self.device, bandwidth, units), interval=True,
                host_factors=tuple(1.0 / host for host in HOSTS),
            )  # fmt: skip
            self._known[bandwidth, units] = found
        return found


def machines_for(program: Program, device: Device) -> Machines | None:
    """Return as many machines as a report has time for; None for a very long program."""
    count = len(program.ops)
    if count > MOST_OPERATORS:
        return None
    units: tuple[float, ...] = UNITS if count <= FULL_OPERATORS else FEWER_UNITS
    if count > FEWER_OPERATORS or (device.compute_units or 1) == 1:
        units = (1.0,)
    bandwidths = BANDWIDTHS if count <= FULL_OPERATORS else FEWER_BANDWIDTHS
    return Machines(program, device, bandwidths, units)


def scaled(own: Device, bandwidth: float, units: float) -> Device:
    """Return the device with so many times the memory bandwidth and the units (and peaks)."""
    changes: dict[str, float] = {}
    if bandwidth != 1.0:
        changes["memory_bandwidth_bytes_per_s"] = own.memory_bandwidth_bytes_per_s * bandwidth
    if units != 1.0 and own.compute_units:
        changes["compute_units"] = max(1, round(own.compute_units * units))
    return own.replace(**changes) if changes else own


def rate_explorer(machines: Machines) -> Explorer:
    """Return the live figure: memory bandwidth, units and host against the step."""
    device = machines.device
    counts, bandwidths = machines.units, machines.bandwidths
    now_s = machines.at(1.0, 1.0).step_time_s
    times: list[float] = []
    low: list[float | None] = []
    high: list[float | None] = []
    for units in counts:
        for host_at, host in enumerate(HOSTS):
            for bandwidth in bandwidths:
                found = machines.at(bandwidth, units)
                times.append(found.host_s[host_at])
                low.append(found.low_s if host == 1.0 else None)
                high.append(found.high_s if host == 1.0 else None)
    base = device.memory_bandwidth_bytes_per_s
    sliders = [
        _units_slider(device, counts),
        Slider("host", Words("speed of the host", "主机速度"), HOSTS, "ratio", HOSTS.index(1.0)),
        Slider("bandwidth", Words("memory bandwidth", "显存带宽"),
               tuple(base * f for f in bandwidths), "bytes/s", bandwidths.index(1.0)),
    ]  # fmt: skip
    return Explorer(
        Words("If the machine had more of it", "假如机器的某一项更强"), tuple(sliders),
        (
            Output("time", Words("step time", "步骤时间"), "s", tuple(times), tuple(low),
                   tuple(high), role="tensor"),
            Output("speed", Words("speed, now = 1", "速度，现在 = 1"), "ratio",
                   tuple(now_s / each for each in times), plotted=False),
        ),
        x="bandwidth",
        reading=Words(
            "With {bandwidth}, {units} units and {host} of the host's speed a step takes {time}: "
            "{speed} as fast as now.",
            "显存带宽 {bandwidth}、{units} 个计算单元、主机速度 {host} 时，一个步骤需 {time}："
            "速度为现在的 {speed}。",
        ),
        note=Words(
            "All points are costed by the models: each kernel anew, then the host and the device "
            "are walked together. More units bring more arithmetic in proportion. Where the curve "
            "is flat, something else sets the pace.",
            "所有点都由模型计算：每个内核重新计算成本，再让主机与设备一起推演。单元越多，算力按比例增加。"
            "曲线变平之处，决定快慢的是别的因素。",
        ),
    )  # fmt: skip


def _units_slider(device: Device, counts: Sequence[float]) -> Slider:
    own, label = device.compute_units or 1, device.compute_unit_label
    return Slider(
        "units", Words(f"{label}s", f"{label} 数"),
        tuple(float(max(1, round(own * f))) for f in counts), "", list(counts).index(1.0),
    )  # fmt: skip


def bandwidth_lines(
    machines: Machines, model_flops: float | None, peak_flops_per_s: float | None
) -> tuple[Block, ...]:
    """Return how much of the arithmetic and of the memory is used over the bandwidth.

    Args:
        machines: the program on its device.
        model_flops: of a step; None where it is not known.
        peak_flops_per_s: dense peak of the main dtype.
    """
    base = machines.device.memory_bandwidth_bytes_per_s
    x = tuple(base * f for f in machines.bandwidths)
    found = [machines.at(f, 1.0) for f in machines.bandwidths]
    used = tuple(
        made.moved_bytes / made.step_time_s / rate for made, rate in zip(found, x, strict=True)
    )
    series = [Series(Words("memory bandwidth used", "显存带宽利用率"), x, used, role="memory")]
    if model_flops and peak_flops_per_s:
        reached = tuple(model_flops / made.step_time_s / peak_flops_per_s for made in found)
        name = Words("arithmetic used (MFU)", "算力利用率（MFU）")
        series.insert(0, Series(name, x, reached, role="tensor"))
    return (
        Lines(
            Words("Memory bandwidth against utilisation", "显存带宽与利用率"),
            Axis(Words("memory bandwidth", "显存带宽"), "bytes/s"),
            Axis(Words("share of what could be used", "占可用能力"), "share"), tuple(series),
            (Mark(Words("now", "现在"), x=base),),
            Words(
                "More bandwidth lets the arithmetic be used better, and is itself used less. "
                "Where the curve of the arithmetic flattens, more bandwidth buys nothing.",
                "带宽越大，算力用得越充分，带宽本身的利用率则下降。算力曲线变平之后，再加带宽也没有收益。",
            ),
        ),
    )  # fmt: skip
