"""Errors of device memory (ECC): since the driver was loaded, and over the device's life.

Source: NVIDIA, "GPU Memory Error Management": an uncorrectable error ends the work that met it and
asks for a reset; corrected ones are repaired and harmless in small numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

Values = dict[str, float | int | str | bool | None]

_BY = "NVML: nvmlDeviceGetTotalEccErrors (nvidia-smi -q -d ECC)"
_MANY_CORRECTED = 1000


@check("ecc", "health", "Errors of device memory, corrected and not")
def ecc(machine: Machine) -> Iterable[Finding]:
    """Look at counters and mode of each device that has ECC."""
    devices = [d for d in nvidia_devices(machine) if d.get("ecc", "mode") is not None]
    found = [f for d in devices for f in (*_counts(d), *_pending(d))]
    yield from found
    off = [d for d in devices if d.get("ecc", "mode") is False]
    if off:
        yield _off(off)
    if devices and not found and not off:
        names = gpus(d.index for d in devices)
        yield Finding(
            "ecc", "ok", Words("No memory errors.", "没有显存错误。"),
            Words(
                f"{names.en}: ECC on, none uncorrected.",
                f"{names.zh}：ECC 开启，无不可纠正错误。",
            ),
            known_by=_BY, values={"volatile_uncorrected": 0},
        )  # fmt: skip


def _counts(device: NvidiaDevice) -> Iterable[Finding]:
    now = device.number("ecc", "volatile_uncorrected") or 0
    ever = device.number("ecc", "aggregate_uncorrected") or 0
    corrected = device.number("ecc", "volatile_corrected") or 0
    name = gpus([device.index])
    values: Values = {
        "volatile_uncorrected": now, "aggregate_uncorrected": ever, "volatile_corrected": corrected,
    }  # fmt: skip
    if now:
        yield _uncorrected(device, now, ever, values)
    elif ever:
        yield Finding(
            "ecc", "note",
            Words(f"{name.en} once had uncorrectable errors.", f"{name.zh} 曾出现不可纠正错误。"),
            Words(
                f"{ever:.0f} over its life, none since the driver was loaded.",
                f"累计 {ever:.0f} 次，自驱动加载以来无新增。",
            ),
            known_by=_BY, device=device.index, values=values,
        )  # fmt: skip
    if corrected >= _MANY_CORRECTED:
        yield Finding(
            "ecc", "note",
            Words(f"{name.en} corrects many memory errors.", f"{name.zh} 纠正了大量显存错误。"),
            Words(
                f"{corrected:,.0f} since the driver was loaded.",
                f"自驱动加载以来 {corrected:,.0f} 次。",
            ),
            Words("Results are right; the device may be ageing.", "结果无误；设备可能在老化。"),
            known_by=_BY, device=device.index, values=values,
        )  # fmt: skip


def _uncorrected(device: NvidiaDevice, now: float, ever: float, values: Values) -> Finding:
    name = gpus([device.index])
    return Finding(
        "ecc", "error",
        Words(
            f"{name.en} has uncorrectable memory errors.",
            f"{name.zh} 存在不可纠正的显存错误。",
        ),
        Words(
            f"{now:.0f} since the driver was loaded, {ever:.0f} over its life.",
            f"自驱动加载以来 {now:.0f} 次，累计 {ever:.0f} 次。",
        ),
        Words(
            "Work that touches the bad place ends with an error; more may follow.",
            "访问坏位置的任务会出错结束；可能还会增加。",
        ),
        Words(
            "Drain the device, reset it or restart the host, then test it; replace it if rows "
            "cannot be remapped.",
            "先清空任务，重置设备或重启主机，然后检测；若行无法重映射则更换。",
        ),
        (f"sudo nvidia-smi --gpu-reset -i {device.index}", "dcgmi diag -r 3"), _BY,
        device.index, values,
    )  # fmt: skip


def _pending(device: NvidiaDevice) -> Iterable[Finding]:
    now, later = device.get("ecc", "mode"), device.get("ecc", "mode_pending")
    if later is not None and now != later:
        name = gpus([device.index])
        yield Finding(
            "ecc", "note",
            Words(
                f"{name.en}: the ECC mode changes at the next reset.",
                f"{name.zh}：ECC 模式将在重置后改变。",
            ),
            Words(
                f"Now {'on' if now else 'off'}, then {'on' if later else 'off'}.",
                f"当前{'开启' if now else '关闭'}，之后{'开启' if later else '关闭'}。",
            ),
            known_by=_BY, device=device.index, values={"mode": now, "mode_pending": later},
        )  # fmt: skip


def _off(off: list[NvidiaDevice]) -> Finding:
    names = gpus(d.index for d in off)
    return Finding(
        "ecc", "note",
        Words(f"{names.en}: ECC is off.", f"{names.zh}：ECC 已关闭。"),
        Words("The device has it.", "设备支持 ECC。"),
        Words(
            "A flipped bit then changes results without a word.",
            "发生位翻转时结果会悄悄出错。",
        ),
        None, ("sudo nvidia-smi -e 1   # then reset the device",), _BY, None,
        {"devices": len(off)},
    )  # fmt: skip
