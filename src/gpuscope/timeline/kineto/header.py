"""What a trace says of itself, around its events: devices, the distributed run, switches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from gpuscope.timeline.kineto.arguments import mended
from gpuscope.timeline.types import RecordedDevice

Header = Mapping[str, Any]


def parse_header(head: bytes, tail: bytes) -> tuple[dict[str, Any], bool]:
    """Join what stands before and after the events into one object.

    Args:
        head: from the opening brace to the list of events; empty where the file is only a list.
        tail: from the end of the list to the end of the file.

    Returns:
        The object, {} where nothing parses; and whether it is there to its end.
    """
    before = head.strip().rstrip(b",").rstrip()
    after = tail.strip(b"\0 \t\r\n").lstrip(b",").lstrip()
    if not before:
        return {}, True
    comma = b"," if before != b"{" and after[:1] == b'"' else b""
    found = _object(before + comma + after)
    if found is not None:
        return found, True
    return _object(before + b"}") or {}, False


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            decoder = json.JSONDecoder(strict=False)
            value, _ = decoder.raw_decode(text.decode("utf-8", "replace"))
            value = mended(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def whole(value: object, default: int | None = None) -> int | None:
    """A whole number that the header gives as number or text; the default for anything else."""
    if isinstance(value, bool):
        return default
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 19:
        return int(value)
    if isinstance(value, int) and abs(value) < 1 << 62:
        return value
    return default


def section(header: Header, name: str) -> dict[str, Any]:
    """An object of the header; {} where it is missing or something else."""
    value = header.get(name)
    return value if isinstance(value, dict) else {}


def words(header: Header, *names: str) -> tuple[str, ...]:
    """Texts that the header lists under some names."""
    found: list[str] = []
    for name in names:
        value = header.get(name)
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, str):
                found.append(entry)
    return tuple(found)


def process_groups(header: Header) -> dict[str, tuple[int, ...]]:
    """Global ranks by process group name; () where the members are not listed."""
    config = section(header, "distributedInfo").get("pg_config")
    groups: dict[str, tuple[int, ...]] = {}
    for entry in config if isinstance(config, list) else []:
        if isinstance(entry, dict) and entry.get("pg_name") is not None:
            groups[str(entry["pg_name"])] = rank_list(entry.get("ranks"))
    return groups


def rank_list(value: object) -> tuple[int, ...]:
    """Ranks from a list, or a list as text; () where some of them are left out."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value.encode())
        except msgspec.DecodeError:
            return ()
    if not isinstance(value, list):
        return ()
    found = [whole(entry, -1) for entry in value]
    return (
        tuple(n for n in found if n is not None)
        if all(n is not None and n >= 0 for n in found)
        else ()
    )


def devices(header: Header) -> tuple[RecordedDevice, ...]:
    """The devices that the header describes."""
    listed = header.get("deviceProperties")
    found: list[RecordedDevice] = []
    for entry in listed if isinstance(listed, list) else []:
        if not isinstance(entry, dict):
            continue
        major, minor = whole(entry.get("computeMajor")), whole(entry.get("computeMinor"))
        found.append(
            RecordedDevice(
                index=whole(entry.get("id"), len(found)) or 0,
                name=str(entry.get("name") or ""),
                memory_bytes=_positive(entry.get("totalGlobalMem")),
                compute_capability=(major, minor)
                if major is not None and minor is not None
                else None,
                sm_count=_positive(entry.get("numSms")),
                warp_size=_positive(entry.get("warpSize")),
                max_threads_per_sm=_positive(entry.get("maxThreadsPerMultiprocessor")),
                registers_per_sm=_positive(entry.get("regsPerMultiprocessor")),
                shared_bytes_per_sm=_positive(entry.get("sharedMemPerMultiprocessor")),
            )
        )
    return tuple(found)


def _positive(value: object) -> int | None:
    number = whole(value)
    return number if number is not None and number > 0 else None
