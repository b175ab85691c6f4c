"""Memory rows (or pages, on older devices) that were replaced after errors.

Source: NVIDIA, "GPU Memory Error Management": row remapping from Ampere on, page retirement before;
a failed remapping is a reason for replacement, a pending one asks for a reset.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.nvidia_devices import NvidiaDevice, gpus, nvidia_devices
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

Values = dict[str, float | int | str | bool | None]

_BY = "NVML: nvmlDeviceGetRemappedRows (nvidia-smi -q -d ROW_REMAPPER)"


@check("remapped_rows", "health", "Memory rows or pages that were replaced after errors")
def remapped_rows(machine: Machine) -> Iterable[Finding]:
    """Look at each device that can replace rows or pages."""
    devices = [
        d for d in nvidia_devices(machine) if d.get("remapped_rows") or d.get("retired_pages")
    ]
    found = [f for d in devices for f in (*_rows(d), *_pages(d))]
    yield from found
    if devices and not found:
        names = gpus(d.index for d in devices)
        yield Finding(
            "remapped_rows", "ok", Words("No bad memory rows.", "没有坏的显存行。"),
            Words(f"{names.en}: no row replaced.", f"{names.zh}：没有被替换的行。"), known_by=_BY,
            values={"uncorrectable": 0},
        )  # fmt: skip


def _reset(device: NvidiaDevice) -> tuple[str, ...]:
    return (f"sudo nvidia-smi --gpu-reset -i {device.index}",)


def _rows(device: NvidiaDevice) -> Iterable[Finding]:
    bad = device.number("remapped_rows", "uncorrectable") or 0
    soft = device.number("remapped_rows", "correctable") or 0
    spent = device.number("remapped_rows", "banks_by_spare_rows", "none") or 0
    name = gpus([device.index])
    values: Values = {
        "correctable": soft, "uncorrectable": bad, "banks_without_spare_rows": spent,
        "pending": device.get("remapped_rows", "pending"),
        "failure": device.get("remapped_rows", "failure"),
    }  # fmt: skip
    count = Words(
        f"{bad:.0f} rows replaced after uncorrectable errors, {soft:.0f} after corrected ones.",
        f"因不可纠正错误替换 {bad:.0f} 行，因可纠正错误替换 {soft:.0f} 行。",
    )
    if device.get("remapped_rows", "failure"):
        yield _failed(device, count, values)
    elif device.get("remapped_rows", "pending"):
        yield _waiting(device, count, values)
    elif spent or bad:
        yield Finding(
            "remapped_rows", "warning" if spent else "note",
            Words(f"{name.en}: memory rows were replaced.", f"{name.zh}：曾替换显存行。"),
            Words(
                f"{count.en} {spent:.0f} banks have no spare rows left.",
                f"{count.zh}{spent:.0f} 个 bank 已无备用行。",
            ),
            Words(
                "Replaced rows work as new; without spare rows the next error stays.",
                "替换后的行可正常使用；没有备用行时，下一个错误将无法修复。",
            ),
            known_by=_BY, device=device.index, values=values,
        )  # fmt: skip


def _failed(device: NvidiaDevice, count: Words, values: Values) -> Finding:
    name = gpus([device.index])
    return Finding(
        "remapped_rows", "error",
        Words(
            f"{name.en}: a bad memory row cannot be replaced.",
            f"{name.zh}：坏的显存行无法替换。",
        ),
        count,
        Words("The errors will come again.", "错误会再次出现。"),
        Words("Have the device replaced.", "更换该设备。"),
        ("nvidia-smi -q -d ROW_REMAPPER", "dcgmi diag -r 3"), _BY, device.index, values,
    )  # fmt: skip


def _waiting(device: NvidiaDevice, count: Words, values: Values) -> Finding:
    name = gpus([device.index])
    return Finding(
        "remapped_rows", "warning",
        Words(
            f"{name.en}: a bad memory row waits to be replaced.",
            f"{name.zh}：有坏行等待替换。",
        ),
        count,
        Words(
            "Until the reset the bad row stays in use: the next work may meet it.",
            "重置之前坏行仍在使用：下一个任务可能碰到它。",
        ),
        Words("Reset the device when it is free.", "空闲时重置设备。"),
        _reset(device), _BY, device.index, values,
    )  # fmt: skip


def _pages(device: NvidiaDevice) -> Iterable[Finding]:
    pages = device.get("retired_pages") or {}
    count = (pages.get("double_bit") or 0) + (pages.get("single_bit") or 0)
    if not pages.get("pending") and count < 60:  # the driver's limit is 64 pages
        return
    name = gpus([device.index])
    yield Finding(
        "remapped_rows", "warning",
        Words(f"{name.en}: memory pages are being retired.", f"{name.zh}：有显存页被停用。"),
        Words(
            f"{count} pages{', more at the next reset' if pages.get('pending') else ''}.",
            f"{count} 页{'，重置后还会增加' if pages.get('pending') else ''}。",
        ),
        Words(
            "From 64 pages on NVIDIA replaces the device.", "达到 64 页后 NVIDIA 会更换设备。"
        ),
        Words("Reset the device when it is free.", "空闲时重置设备。"),
        _reset(device), "NVML: nvmlDeviceGetRetiredPages", device.index, {"retired_pages": count},
    )  # fmt: skip
