"""Room and speed of where data lies: the working folder, the temporary one, shared memory.

The speeds come from a write and a read of at most 64 MiB; on network and cloud disks they vary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, joined, verbatim

_NAMES: Mapping[str, Text] = {
    "working folder": Text("The working folder"),
    "temporary folder": Text("The temporary folder"),
    "/dev/shm": verbatim("/dev/shm"),
}
_LITTLE_BYTES, _LITTLE_SHARE = 5 << 30, 0.02
_FULL_BYTES = 256 << 20
_SLOW_BYTES_PER_S = 100e6
"""A disk below this feeds fewer than a thousand photographs (100 kB) a second."""

_BY = "probe storage (statvfs; write and read of up to 64 MiB)"


@check("storage", "settings", Text("Room and speed of where data is read and written"))
def storage(machine: Machine) -> Iterable[Finding]:
    """Look at each place that the probe measured."""
    facts = machine.probe("storage")
    places: Mapping[str, Mapping[str, Any]] = (facts or {}).get("places") or {}
    found = [f for name, each in places.items() for f in _place(name, each)]
    yield from found
    well = {n: p for n, p in places.items() if n not in {str(f.values["place"]) for f in found}}
    said = [_told(name, each) for name, each in well.items() if not each.get("error")]
    if said:
        yield Finding(
            "storage",
            "ok",
            Text("Disks have room and speed."),
            Text("{places}.", places=joined(said, "; ")),
            known_by=_BY,
            values=_values(well),
        )


def _values(places: Mapping[str, Mapping[str, Any]]) -> dict[str, float | int | str | bool | None]:
    keys = ("free_bytes", "write_bytes_per_s", "read_bytes_per_s")
    return {f"{name}: {key}": each.get(key) for name, each in places.items() for key in keys}


def _rate(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value / 1e9:.1f} GB/s" if value >= 1e9 else f"{value / 1e6:.0f} MB/s"


def _told(name: str, each: Mapping[str, Any]) -> Text:
    free = (each.get("free_bytes") or 0) / 2**30
    write, read = _rate(each.get("write_bytes_per_s")), _rate(each.get("read_bytes_per_s"))
    label = _NAMES.get(name, verbatim(name))
    return Text(
        "{label} {free} GiB free, writes {write}, reads {read}",
        label=label,
        free=Number(free, ".0f"),
        write=write,
        read=read,
    )


def _place(name: str, each: Mapping[str, Any]) -> Iterable[Finding]:
    label = _NAMES.get(name, verbatim(name))
    if each.get("error"):
        yield Finding(
            "storage",
            "note",
            Text("{label} cannot be written to.", label=label),
            Text("{error}.", error=each["error"]),
            known_by=_BY,
            values={"place": name},
        )
        return
    if name != "/dev/shm":  # its size is the check "shared_memory"
        yield from _room(name, label, each)
        yield from _speed(name, label, each)


def _room(name: str, label: Text, each: Mapping[str, Any]) -> Iterable[Finding]:
    free, total = each.get("free_bytes"), each.get("total_bytes") or 0
    if free is not None and free < min(_LITTLE_BYTES, _LITTLE_SHARE * total):
        full = free < _FULL_BYTES
        yield Finding(
            "storage",
            "error" if full else "warning",
            Text("{label} is full.", label=label)
            if full
            else Text("{label} is almost full.", label=label),
            Text(
                "{free} of {total} GiB free.",
                free=Number(free / 2**30, ".1f"),
                total=Number(total / 2**30, ".0f"),
            ),
            Text("Checkpoints, compiled kernels and logs cannot be written."),
            Text("Remove what is not needed."),
            ("du -xsh * | sort -h | tail",),
            _BY,
            None,
            {"place": name, "free_bytes": free},
        )


def _speed(name: str, label: Text, each: Mapping[str, Any]) -> Iterable[Finding]:
    read = each.get("read_bytes_per_s")
    write = each.get("write_bytes_per_s")
    if read is not None and read < _SLOW_BYTES_PER_S:
        network = str(each.get("filesystem") or "")
        yield Finding(
            "storage",
            "note",
            Text("{label} reads slowly.", label=label),
            Text(
                "{read} reading, {write} writing ({filesystem}).",
                read=_rate(read),
                write=_rate(write),
                filesystem=network or "?",
            ),
            Text("Training that reads its data from there waits for it."),
            None,
            (),
            _BY,
            None,
            {"place": name, "read_bytes_per_s": read},
        )
