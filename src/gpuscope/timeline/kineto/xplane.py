"""XLA's profile in its own form (`.xplane.pb`), read with the reader that JAX brings.

It holds what the `.trace.json.gz` beside it holds, without that one's limit of a million events.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuscope.document.plain import dumps, plain, utf8
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.errors import InputFileError, require_package
from gpuscope.outside import limits
from gpuscope.outside.plain import file_bytes
from gpuscope.timeline.kineto.dialects import translated
from gpuscope.timeline.types import Timeline

__all__ = ["is_xplane", "read_xplane"]

_BEGINS = re.compile(
    rb"\n[\x00-\xff]{1,5}?(?:\x08[\x00-\xff]{1,10}?)?\x12[\x00-\xff](?:/host:|/device:|Task )"
)
"""The first plane (field 1), its number, its name (field 2)."""


def is_xplane(head: bytes) -> bool:
    """Return whether a file's first bytes are those of a profile of XLA."""
    return _BEGINS.match(head) is not None


def read_xplane(path: str | Path, *, rank: int | None = None) -> Timeline:
    """Read a profile of XLA.

    Args:
        path: the file.
        rank: as `gpuscope.timeline.kineto.read_trace` takes it.

    Raises:
        MissingPackageError: JAX is not installed.
        InputFileError: it cannot be read, is damaged, or too large.
    """
    require_package("jax", Text("Reading {path}", path=path), "jax")
    from jax.profiler import ProfileData

    target = Path(path)
    try:
        raw = file_bytes(target)
        data = ProfileData.from_serialized_xspace(raw)
        events = _limited(target, _events(data), limits.events(len(raw)))
    except (OSError, MisfitError, RuntimeError, ValueError) as error:
        raise InputFileError(
            Text("{path} cannot be read.", path=path),
            str(error).strip().split("\n")[0][:300],
            Text("Name the .trace.json.gz that lies beside it."),
        ) from error
    if not any(event["ph"] == "X" for event in events):
        raise InputFileError(
            Text("{path} holds no events.", path=path),
            "",
            Text("Record while the step runs: with jax.profiler.trace(FOLDER): ..."),
        )
    from gpuscope.timeline.kineto.read import read_retold

    told = list(translated(events))
    text = utf8(dumps(plain({"schemaVersion": 1, "traceEvents": told})))
    return read_retold(target, text, rank, 0)


def _limited(path: Path, events: Iterator[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    kept = []
    for event in events:
        kept.append(event)
        if len(kept) > most:
            raise limits.holds_too_many(path, Text("events"), most)
    return kept


def _events(data: Any) -> Iterator[dict[str, Any]]:
    """As the trace viewer's JSON has them, from the first event on."""
    planes = [
        (plane.name, [(line.name, list(line.events)) for line in plane.lines])
        for plane in data.planes
    ]
    starts = (e.start_ns for _, lines in planes for _, events in lines for e in events[:1])
    first = min((start for start in starts if math.isfinite(start)), default=0.0)
    for pid, (plane, lines) in enumerate(planes):
        yield _named("process_name", pid, 0, plane)
        for tid, (line, events) in enumerate(lines):
            yield _named("thread_name", pid, tid, line)
            for event in events:
                yield {
                    "ph": "X", "pid": pid, "tid": tid, "name": event.name,
                    "ts": (event.start_ns - first) * 1e-3, "dur": event.duration_ns * 1e-3,
                    "args": {str(key): str(value) for key, value in event.stats},
                }  # fmt: skip


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
