"""A Chrome trace that says in another way what Kineto says, written anew in Kineto's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gpuscope.document.plain import dumps, plain, utf8
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.outside import limits
from gpuscope.outside.plain import file_bytes, python_json_of

Event = dict[str, Any]


def retold(
    path: Path,
    tell: Callable[[list[Event]], Iterable[Event]],
    key: str,
    value: str | tuple[str, ...],
    under: str = "traceEvents",
    devices: Callable[[list[Event]], Iterable[Event]] | None = None,
) -> bytes | None:
    """Return a trace whose events are told anew; None where that gives none of those looked for.

    Args:
        path: plain JSON or gzip.
        tell: its events, told in Kineto's way.
        key, value: what an event must say so that the telling was worth it; one of several.
        under: where the events stand; what else the file says is kept.
        devices: the devices that they describe, as Kineto's `deviceProperties`.

    Raises:
        InputFileError: it is larger, or holds more events, than the limits.
    """
    try:
        raw = file_bytes(path)
        found = python_json_of(raw)
    except (OSError, MisfitError):
        return None  # the reader has said what is wrong with it
    header = found if isinstance(found, dict) else {}
    events = header.pop(under, None) if header else found
    if not isinstance(events, list):
        return None
    most = limits.events(len(raw))
    given = [event for event in events if isinstance(event, dict)]
    made: list[Event] = []
    for event in tell(given):
        made.append(event)
        if len(made) > most:
            raise limits.holds_too_many(path, Text("events"), most)
    worth = (value,) if isinstance(value, str) else value
    if not any(event.get(key) in worth for event in made):
        return None
    if devices is not None:
        header = {**header, "deviceProperties": list(devices(given))}
    return utf8(dumps(plain({**header, "schemaVersion": 1, "traceEvents": made})))
