"""Room and speed of where data lies: the working folder, the temporary one, shared memory.

The speeds come from a write and a read of at most 64 MiB; on network and cloud disks they vary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.types import Words

_NAMES: Mapping[str, Words] = {
    "working folder": Words("The working folder", "工作目录"),
    "temporary folder": Words("The temporary folder", "临时目录"),
    "/dev/shm": Words("/dev/shm", "/dev/shm"),
}
_LITTLE_BYTES, _LITTLE_SHARE = 5 << 30, 0.02
_FULL_BYTES = 256 << 20
_SLOW_BYTES_PER_S = 100e6
"""A disk below this feeds fewer than a thousand photographs (100 kB) a second."""

_BY = "probe storage (statvfs; write and read of up to 64 MiB)"


@check("storage", "settings", "Room and speed of where data is read and written")
def storage(machine: Machine) -> Iterable[Finding]:
    """Look at each place that the probe measured."""
    told = machine.probe("storage")
    places: Mapping[str, Mapping[str, Any]] = (told or {}).get("places") or {}
    found = [f for name, each in places.items() for f in _place(name, each)]
    yield from found
    well = {n: p for n, p in places.items() if n not in {str(f.values["place"]) for f in found}}
    said = [_told(name, each) for name, each in well.items() if not each.get("error")]
    if said:
        yield Finding(
            "storage", "ok", Words("Disks have room and speed.", "磁盘空间与速度正常。"),
            Words("; ".join(w.en for w in said) + ".", "；".join(w.zh for w in said) + "。"),
            known_by=_BY, values=_values(well),
        )  # fmt: skip


def _values(
    places: Mapping[str, Mapping[str, Any]],
) -> dict[str, float | int | str | bool | None]:
    keys = ("free_bytes", "write_bytes_per_s", "read_bytes_per_s")
    return {f"{name}: {key}": each.get(key) for name, each in places.items() for key in keys}


def _rate(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value / 1e9:.1f} GB/s" if value >= 1e9 else f"{value / 1e6:.0f} MB/s"


def _told(name: str, each: Mapping[str, Any]) -> Words:
    free = (each.get("free_bytes") or 0) / 2**30
    write, read = _rate(each.get("write_bytes_per_s")), _rate(each.get("read_bytes_per_s"))
    label = _NAMES.get(name, Words(name, name))
    return Words(
        f"{label.en} {free:.0f} GiB free, writes {write}, reads {read}",
        f"{label.zh}可用 {free:.0f} GiB，写 {write}，读 {read}",
    )


def _place(name: str, each: Mapping[str, Any]) -> Iterable[Finding]:
    label = _NAMES.get(name, Words(name, name))
    if each.get("error"):
        yield Finding(
            "storage", "note",
            Words(f"{label.en} cannot be written to.", f"{label.zh}不可写。"),
            Words(f"{each['error']}.", f"{each['error']}。"), known_by=_BY,
            values={"place": name},
        )  # fmt: skip
        return
    if name != "/dev/shm":  # its size is the check "shared_memory"
        yield from _room(name, label, each)
        yield from _speed(name, label, each)


def _room(name: str, label: Words, each: Mapping[str, Any]) -> Iterable[Finding]:
    free, total = each.get("free_bytes"), each.get("total_bytes") or 0
    if free is not None and free < min(_LITTLE_BYTES, _LITTLE_SHARE * total):
        full = free < _FULL_BYTES
        yield Finding(
            "storage", "error" if full else "warning",
            Words(f"{label.en} is full.", f"{label.zh}已满。")
            if full
            else Words(f"{label.en} is almost full.", f"{label.zh}即将写满。"),
            Words(
                f"{free / 2**30:.1f} of {total / 2**30:.0f} GiB free.",
                f"可用 {free / 2**30:.1f}/{total / 2**30:.0f} GiB。",
            ),
            Words(
                "Checkpoints, compiled kernels and logs cannot be written.",
                "检查点、编译缓存和日志将无法写入。",
            ),
            Words("Remove what is not needed.", "清理不需要的文件。"),
            ("du -xsh * | sort -h | tail",), _BY, None, {"place": name, "free_bytes": free},
        )  # fmt: skip


def _speed(name: str, label: Words, each: Mapping[str, Any]) -> Iterable[Finding]:
    read = each.get("read_bytes_per_s")
    write = each.get("write_bytes_per_s")
    if read is not None and read < _SLOW_BYTES_PER_S:
        network = str(each.get("filesystem") or "")
        yield Finding(
            "storage", "note",
            Words(f"{label.en} reads slowly.", f"{label.zh}读取较慢。"),
            Words(
                f"{_rate(read)} reading, {_rate(write)} writing ({network or '?'}).",
                f"读 {_rate(read)}，写 {_rate(write)}（{network or '?'}）。",
            ),
            Words(
                "Training that reads its data from there waits for it.",
                "从此处读取数据的训练会等待输入。",
            ),
            None, (), _BY, None, {"place": name, "read_bytes_per_s": read},
        )  # fmt: skip
