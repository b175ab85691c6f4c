"""What if it ran on another device: the captured step costed on well-known ones."""

from __future__ import annotations

from gpuscope.errors import GpuscopeError
from gpuscope.explain.types import Bar, Bars, Block, Cell, Column, Part, Role, Table, Words
from gpuscope.hardware import Device, device
from gpuscope.program.types import Program
from gpuscope.timeline.recost import Recosted, recost

DEVICES = (
    "nvidia-b200", "nvidia-h200-sxm", "nvidia-h100-sxm", "nvidia-h20", "nvidia-a100-sxm-80gb",
    "nvidia-l40s", "nvidia-a10", "nvidia-rtx-4090", "nvidia-rtx-5090", "amd-mi300x", "amd-mi355x",
    "intel-gaudi3",
)  # fmt: skip
"""Well-known devices; those that lack a dtype of the program are left out."""


COSTINGS = 40_000
"""Operators times devices that a report has time for: about 2 s."""


def device_blocks(program: Program, own: Device, now: Recosted) -> tuple[Block, ...]:
    """Return time, memory, energy and cost of the step on other devices, fastest first.

    Args:
        program: captured.
        own: the device of the run.
        now: the step on it.
    """
    found = [(own, now)]
    most = max(3, COSTINGS // max(1, len(program.ops)))
    for name in DEVICES[:most]:
        if name != own.id and (made := _on(program, name)) is not None:
            found.append(made)
    if len(found) < 2:
        return ()
    found.sort(key=lambda pair: pair[1].step_time_s)
    at = next(i for i, (each, _) in enumerate(found) if each is own)
    return (_bars(found, now), _table(found, now, at))


def _on(program: Program, name: str) -> tuple[Device, Recosted] | None:
    try:
        other = device(name)
        return other, recost(program, other, interval=True, memory=True)
    except GpuscopeError:
        return None  # not in the catalogue, or it cannot compute in this dtype


def _bars(found: list[tuple[Device, Recosted]], now: Recosted) -> Bars:
    bars = []
    for each, made in found:
        role: Role = "bad" if made.fits is False else "tensor" if made is now else "other"
        note = None if made.fits is not False else Words("does not fit", "放不下")
        bars.append(Bar(each.name, (Part(Words("step", "步骤"), made.step_time_s, role),), note))
    return Bars(
        Words("The same step on other devices", "同一步骤在其他设备上"), "s", tuple(bars),
        limit=now.step_time_s, limit_label=Words("now", "现在"),
        note=Words(
            "The captured operators, costed anew for each device with its own constants or, "
            "where nobody measured it, with carried ones and a wider interval.",
            "对捕获到的算子按每个设备重新计算成本；没有实测常数的设备使用折算的常数，区间更宽。",
        ),
    )  # fmt: skip


def _table(found: list[tuple[Device, Recosted]], now: Recosted, at: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each, made in found:
        price = each.price_usd_per_hour
        fits = {True: Words("yes", "是"), False: Words("no", "否"), None: None}[made.fits]
        rows.append((
            each.name, made.step_time_s, made.low_s, made.high_s,
            now.step_time_s / made.step_time_s, fits, made.energy_j,
            None if price is None else price / 3600 * made.step_time_s * 1000,
        ))  # fmt: skip
    return Table(
        Words("Devices side by side", "各设备对照"),
        (
            Column(Words("device", "设备")), Column(Words("step", "步骤"), "s"),
            Column(Words("low", "下限"), "s"), Column(Words("high", "上限"), "s"),
            Column(Words("speed, now = 1", "速度，现在 = 1"), "ratio"),
            Column(Words("memory fits", "显存放得下")),
            Column(Words("energy a step", "每步能量"), "J"),
            Column(Words("rent of 1,000 steps", "每千步租用费"), "usd"),
        ),
        tuple(rows), (at,),
        Words("Low and high: 80 % interval. Rent at the catalogue's price per hour.",
              "上下限为 80 % 区间。租用费按目录中的每小时价格计。"),
    )  # fmt: skip
