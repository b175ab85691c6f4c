"""Chrome traces whose events come as a begin and an end: made whole, as Kineto writes them.

Format: "Trace Event Format", duration events ("B", "E"): on each thread they nest, and the end
belongs to the begin that came last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuscope.document.plain import dumps, plain, utf8
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.outside import limits
from gpuscope.outside.plain import file_bytes, python_json_of


def paired(path: Path) -> bytes | None:
    """Return a trace with whole events for its begins and ends; None where it has none.

    Args:
        path: plain JSON or gzip.

    Raises:
        InputFileError: it is larger, or holds more events, than the limits.
    """
    try:
        raw = file_bytes(path)
        if b'"B"' not in raw:
            return None
        found = python_json_of(raw)
    except (OSError, MisfitError):
        return None  # the reader has said what is wrong with it
    header = found if isinstance(found, dict) else {}
    events = header.get("traceEvents") if header else found
    if not isinstance(events, list):
        return None
    most = limits.events(len(raw))
    whole: list[Any] = []
    for event in _whole(events):
        whole.append(event)
        if len(whole) > most:
            raise limits.holds_too_many(path, Text("events"), most)
    if not any(event.get("ph") == "X" for event in whole):
        return None
    return utf8(dumps(plain({**header, "traceEvents": whole})))


def _whole(events: list[Any]) -> Iterator[dict[str, Any]]:
    """Events in order, an X where a pair ends; a begin without an end, or the reverse, is left."""
    open_: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in events:
        if not isinstance(event, dict):
            continue
        phase = event.get("ph")
        if phase not in ("B", "E"):
            yield event
            continue
        stack = open_.setdefault((str(event.get("pid")), str(event.get("tid"))), [])
        if phase == "B":
            stack.append(event)
        elif stack:
            begin = stack.pop()
            start, end = _number(begin.get("ts")), _number(event.get("ts"))
            if start is not None and end is not None and end >= start:
                args = [a for a in (begin.get("args"), event.get("args")) if isinstance(a, dict)]
                joined = {key: value for each in args for key, value in each.items()}
                yield {**begin, "ph": "X", "ts": start, "dur": end - start, "args": joined}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None
