"""What if it ran on another device: the captured step costed on well-known ones."""

from __future__ import annotations

from gpuscope.document.blocks import Bar, Bars, Block, Cell, Column, Part, Role, Table
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import device
from gpuscope.views.report.what_if_machines import Step, Workload

DEVICES = (
    "nvidia-b200",
    "nvidia-h200-sxm",
    "nvidia-h100-sxm",
    "nvidia-h20",
    "nvidia-a100-sxm-80gb",
    "nvidia-l40s",
    "nvidia-a10",
    "nvidia-rtx-4090",
    "nvidia-rtx-5090",
    "amd-mi300x",
    "amd-mi355x",
    "intel-gaudi3",
)
"""Well-known devices; those that lack a dtype of the program are left out."""


COSTINGS = 40_000
"""Operators times devices that a report has time for: about 2 s."""


FEWEST, FEWEST_OF_JOB = 3, 2
"""Other devices that are looked at however long the program is."""


def device_blocks(workload: Workload, now: Step) -> tuple[Block, ...]:
    """Return time, memory, energy and cost of the step on other devices, fastest first.

    Args:
        workload: on the machine of the run.
        now: the step there.
    """
    found = [(workload, now)]
    least = FEWEST_OF_JOB if workload.is_job else FEWEST
    most = max(least, COSTINGS // max(1, workload.operators))
    names = [name for name in DEVICES if name != workload.cluster.device.id]
    for name in names[:most]:
        if (made := _on(workload, name)) is not None:
            found.append(made)
    if len(found) < 2:
        return ()
    found.sort(key=lambda pair: pair[1].step_time_s)
    at = next(i for i, (_, made) in enumerate(found) if made is now)
    return (_bars(found, now), _table(found, now, at))


def _on(workload: Workload, name: str) -> tuple[Workload, Step] | None:
    try:
        other = workload.elsewhere(device(name))
        return other, other.step(interval=True, memory=True)
    except GpuscopeError:
        return None  # it cannot compute in this dtype, or so many of it are not connected


def _name(workload: Workload) -> str:
    count, name = workload.cluster.n_devices, workload.cluster.device.name
    return f"{count}× {name}" if workload.is_job else name


def _bars(found: list[tuple[Workload, Step]], now: Step) -> Bars:
    bars = []
    for each, made in found:
        role: Role = "bad" if made.fits is False else "other"
        role = "tensor" if made is now else role
        note = None if made.fits is not False else Text("does not fit")
        bars.append(Bar(_name(each), (Part(Text("step"), made.step_time_s, role),), note))
    return Bars(
        Text("The same step on other devices"),
        "s",
        tuple(bars),
        limit=now.step_time_s,
        limit_label=Text("now"),
        note=Text(
            "The captured operators, costed anew for each device with its own constants or, where "
            "nobody measured it, with carried ones and a wider interval."
        ),
    )


def _table(found: list[tuple[Workload, Step]], now: Step, at: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each, made in found:
        price = _price(each)
        fits = {True: Text("yes"), False: Text("no"), None: None}[made.fits]
        rows.append(
            (
                _name(each),
                made.step_time_s,
                made.low_s,
                made.high_s,
                now.step_time_s / made.step_time_s,
                fits,
                made.energy_j,
                None if price is None else price / 3600 * made.step_time_s * 1000,
            )
        )
    return Table(
        Text("Devices side by side"),
        (
            Column(Text("device")),
            Column(Text("step"), "s"),
            Column(Text("low"), "s"),
            Column(Text("high"), "s"),
            Column(Text("speed, now = 1"), "ratio"),
            Column(Text("memory fits")),
            Column(Text("energy a step"), "J"),
            Column(Text("rent of 1,000 steps"), "usd"),
        ),
        tuple(rows),
        (at,),
        Text(
            "Low and high: 80 % interval. Energy and rent are of all devices together, rent at the "
            "catalogue's price per hour."
        ),
    )


def _price(workload: Workload) -> float | None:
    """Price an hour of what the step runs on: all devices of a job, else one."""
    cluster = workload.cluster
    return cluster.price_usd_per_hour if workload.is_job else cluster.device.price_usd_per_hour
