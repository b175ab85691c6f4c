"""Why clocks are held down now, and for how long they were.

A power cap under load is how a device at its limit works: it is said, not blamed. Heat and the
"hardware slowdown" are faults. Source: NVIDIA, NVML API Reference Guide,
nvmlClocksEventReasons and nvmlDeviceGetViolationStatus (nanoseconds since the driver was loaded).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_BAD: Mapping[str, Words] = {
    "hw_thermal_slowdown": Words("the chip is too hot", "芯片过热"),
    "sw_thermal_slowdown": Words("chip or memory is too hot", "芯片或显存过热"),
    "hw_power_brake_slowdown": Words(
        "the power supply asks for less (power brake)", "供电要求降功率（power brake）"
    ),
    "hw_slowdown": Words("the hardware protects itself", "硬件自我保护"),
}
"""Reasons that cost half the clock or more, worst explained first."""

_HELD: Mapping[str, Words] = {
    "thermal": Words("heat", "温度"),
    "board_limit": Words("the board's limit", "板卡上限"),
    "reliability": Words("reliability", "可靠性"),
}
_LONG_S = 10.0
_BY = "NVML: clocks event reasons (nvidia-smi -q -d PERFORMANCE)"


@check("throttle", "health", "Why clocks are held down now, and how long they were")
def throttle(machine: Machine) -> Iterable[Finding]:
    """Read reasons of this moment, then the counters since the driver was loaded."""
    devices = nvidia_devices(machine)
    told = [d for d in devices if d.get("clocks_event_reasons") is not None]
    bad = [f for d in told for f in _now(d)]
    yield from bad
    held = [f for d in devices for f in _before(d)]
    yield from held
    capped = [d for d in told if "sw_power_cap" in d.get("clocks_event_reasons")]
    if told and not bad:
        yield _well(told, capped)


def _now(device: NvidiaDevice) -> Iterable[Finding]:
    reasons = [r for r in _BAD if r in device.get("clocks_event_reasons")]
    if not reasons:
        return
    specific = [r for r in reasons if r != "hw_slowdown"] or reasons
    name = gpus([device.index])
    en = ", ".join(_BAD[r].en for r in specific)
    zh = "，".join(_BAD[r].zh for r in specific)
    now, most = device.number("clocks", "sm_mhz"), device.number("clocks", "max_sm_mhz")
    clock_en = f" SM clock {now:.0f} of {most:.0f} MHz." if now and most else ""
    clock_zh = f"SM 频率 {now:.0f}/{most:.0f} MHz。" if now and most else ""
    hot = any("thermal" in r for r in specific)
    yield Finding(
        "throttle", "warning",
        Words(f"{name.en} is slowed down: {en}.", f"{name.zh} 正在降频：{zh}。"),
        Words(
            f"Reasons: {', '.join(reasons)}.{clock_en}", f"原因：{', '.join(reasons)}。{clock_zh}"
        ),
        Words(
            "It computes at a fraction of its rate; in a job of several devices all wait for it.",
            "其计算速率大降；多设备任务中所有设备都要等它。",
        ),
        Words("Look at cooling: fans, air flow, dust.", "检查散热：风扇、风道、灰尘。")
        if hot
        else Words(
            "Look at power cables, power supplies and the rack's power limit.",
            "检查供电线、电源和机柜功率上限。",
        ),
        ("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",), _BY, device.index,
        {"reasons": ", ".join(reasons), "sm_clock_mhz": now},
    )  # fmt: skip


def _before(device: NvidiaDevice) -> Iterable[Finding]:
    held = {
        kind: seconds
        for kind in _HELD
        if (seconds := device.number("violation_time_s", kind)) and seconds >= _LONG_S
    }
    if not held:
        return
    name = gpus([device.index])
    en = ", ".join(f"{_HELD[k].en} {s:,.0f} s" for k, s in held.items())
    zh = "，".join(f"{_HELD[k].zh} {s:,.0f} 秒" for k, s in held.items())
    yield Finding(
        "throttle", "note",
        Words(f"{name.en} was slowed down before.", f"{name.zh} 曾经降频。"),
        Words(f"Since the driver was loaded: {en}.", f"自驱动加载以来：{zh}。"),
        Words(
            "Under long load it may happen again: gpuscope doctor --deep tries it.",
            "长时间高负载时可能再次发生：可用 gpuscope doctor --deep 检验。",
        ),
        None, (), "NVML: nvmlDeviceGetViolationStatus", device.index,
        {f"held_by_{k}_s": s for k, s in held.items()},
    )  # fmt: skip


def _well(told: list[NvidiaDevice], capped: list[NvidiaDevice]) -> Finding:
    names = gpus(d.index for d in told)
    values: dict[str, float | int | str | bool | None] = {"power_capped_devices": len(capped)}
    if capped:
        at = gpus(d.index for d in capped)
        found = Words(
            f"{at.en}: at the power limit, which is usual under heavy load.",
            f"{at.zh}：处于功率上限，高负载时属正常。",
        )
    else:
        found = Words(f"{names.en}: nothing slows them.", f"{names.zh}：没有降频。")
    return Finding(
        "throttle", "ok", Words("No slowdown of the clocks.", "没有异常降频。"), found,
        known_by=_BY,
        values=values,
    )  # fmt: skip
