"""Chrome traces whose events come as a begin and an end: made whole, as Kineto writes them.

Format: "Trace Event Format", duration events ("B", "E"): on each thread they nest, and the end
belongs to the begin that came last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from gpuscope.timeline.kineto.retold import Event, retold


def paired(path: Path) -> bytes | None:
    """Return a trace with whole events for its begins and ends; None where it has none.

    Raises:
        InputFileError: as `retold` raises.
    """
    return retold(path, _whole, "ph", "X")


def _whole(events: list[Event]) -> Iterator[Event]:
    """Events in order, an X where a pair ends; a begin without an end, or the reverse, is left."""
    if not any(event.get("ph") == "B" for event in events):
        return  # events that are whole and of no use: the reader has said so
    open_: dict[tuple[str, str], list[Event]] = {}
    for event in events:
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
