"""What if the device had more of something: bandwidth, units, a faster host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuscope.document.blocks import Axis, Block, Explorer, Lines, Mark, Output, Series, Slider
from gpuscope.document.text import Text
from gpuscope.hardware import Device
from gpuscope.views.report.what_if_machines import Step, Workload

BANDWIDTHS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
UNITS = (0.5, 0.75, 1.0, 1.5, 2.0)
HOSTS = (0.5, 1.0, 2.0, 4.0)
"""How many times as fast; every combination of the first two is costed, the last one walked."""

FEWER_BANDWIDTHS, FEWER_UNITS = (0.5, 0.75, 1.0, 1.5, 2.0), (0.5, 1.0, 2.0)
"""For long programs: an operator is costed in about 20 us, so that points are what there is to
save."""

FULL_OPERATORS, FEWER_OPERATORS, MOST_OPERATORS = 2_500, 5_000, 12_000
"""Operators up to which all stops, fewer stops, fewer bandwidths alone are costed: about 2 s."""


JOB_BANDWIDTHS = (0.5, 1.0, 1.5, 2.0)
"""For jobs, whose ranks are walked together: a tenth of the speed of one device's walk."""


@dataclass(slots=True)
class Machines:
    """One workload on its machine with some figures multiplied; each is costed once."""

    workload: Workload
    bandwidths: tuple[float, ...] = BANDWIDTHS
    units: tuple[float, ...] = UNITS
    hosts: tuple[float, ...] = HOSTS
    _known: dict[tuple[float, float], Step] = field(default_factory=dict)

    @property
    def device(self) -> Device:
        """The device as it is."""
        return self.workload.cluster.device

    def at(self, bandwidth: float, units: float) -> Step:
        """The step with so many times the memory bandwidth and the units."""
        found = self._known.get((bandwidth, units))
        if found is None:
            changed = self.workload.with_device(scaled(self.device, bandwidth, units))
            found = changed.step(
                interval=not self.workload.is_job,
                host_factors=tuple(1.0 / host for host in self.hosts),
            )
            self._known[bandwidth, units] = found
        return found


def machines_for(workload: Workload) -> Machines | None:
    """Return as many machines as a report has time for; None for a very long program."""
    count = workload.operators
    if count > MOST_OPERATORS:
        return None
    if workload.is_job:
        return Machines(workload, JOB_BANDWIDTHS, (1.0,), (1.0,))
    units: tuple[float, ...] = UNITS if count <= FULL_OPERATORS else FEWER_UNITS
    if count > FEWER_OPERATORS or (workload.cluster.device.compute_units or 1) == 1:
        units = (1.0,)
    bandwidths = BANDWIDTHS if count <= FULL_OPERATORS else FEWER_BANDWIDTHS
    return Machines(workload, bandwidths, units)


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
        for host_at, host in enumerate(machines.hosts):
            for bandwidth in bandwidths:
                found = machines.at(bandwidth, units)
                times.append(found.host_s[host_at])
                low.append(found.low_s if host == 1.0 else None)
                high.append(found.high_s if host == 1.0 else None)
    base = device.memory_bandwidth_bytes_per_s
    sliders = [
        _units_slider(device, counts),
        Slider(
            "host", Text("speed of the host"), machines.hosts, "ratio", machines.hosts.index(1.0)
        ),
        Slider(
            "bandwidth",
            Text("memory bandwidth"),
            tuple(base * f for f in bandwidths),
            "bytes/s",
            bandwidths.index(1.0),
        ),
    ]
    return Explorer(
        Text("If the machine had more of it"),
        tuple(sliders),
        (
            Output(
                "time", Text("step time"), "s", tuple(times), tuple(low), tuple(high), role="tensor"
            ),
            Output(
                "speed",
                Text("speed, now = 1"),
                "ratio",
                tuple(now_s / each for each in times),
                plotted=False,
            ),
        ),
        x="bandwidth",
        reading=Text(
            "With {bandwidth}, {units} units and {host} of the host's speed a step takes {time}: "
            "{speed} as fast as now."
        ),
        note=Text(
            "All points are costed by the models: each kernel anew, then the host and the device "
            "are walked together. More units bring more arithmetic in proportion. Where the curve "
            "is flat, something else sets the pace."
        ),
    )


def _units_slider(device: Device, counts: Sequence[float]) -> Slider:
    own, label = device.compute_units or 1, device.compute_unit_label
    return Slider(
        "units",
        Text("{label}s", label=label),
        tuple(float(max(1, round(own * f))) for f in counts),
        "",
        list(counts).index(1.0),
    )


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
    series = [Series(Text("memory bandwidth used"), x, used, role="memory")]
    if model_flops and peak_flops_per_s:
        reached = tuple(model_flops / made.step_time_s / peak_flops_per_s for made in found)
        name = Text("arithmetic used (MFU)")
        series.insert(0, Series(name, x, reached, role="tensor"))
    return (
        Lines(
            Text("Memory bandwidth against utilisation"),
            Axis(Text("memory bandwidth"), "bytes/s"),
            Axis(Text("share of what could be used"), "share"),
            tuple(series),
            (Mark(Text("now"), x=base),),
            Text(
                "More bandwidth lets the arithmetic be used better, and is itself used less. Where "
                "the curve of the arithmetic flattens, more bandwidth buys nothing."
            ),
        ),
    )
