"""trtexec's JSON: `--exportTimes`, `--exportProfile`, `--exportLayerInfo`.

Formats: TensorRT, samples/common/sampleReporting.cpp. Times are milliseconds: those of queries from
the start of the run, on the host (enqueue) and on the device; of layers the mean of all runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.document.text import Text
from gpuscope.outside.plain import python_json_of
from gpuscope.timeline.engine_reports.layers import BEGINS
from gpuscope.timeline.engine_reports.reports import Event, Report, number, on_stream, span, step

_MS = 1e3
_PARTS = (("H2d", "gpu_memcpy", "Memcpy HtoD"), ("Compute", "kernel", "engine"),
          ("D2h", "gpu_memcpy", "Memcpy DtoH"))  # fmt: skip
_OLD = {"H2d": "In", "D2h": "Out"}
"""As version 7 and before call them."""


def _times(raw: bytes) -> Iterator[Event]:
    found = python_json_of(raw)
    for index, query in enumerate(found if isinstance(found, list) else ()):
        if not isinstance(query, dict):
            continue
        ends: list[float] = []
        for part, category, name in _PARTS:
            span_us = _between(query, part) or _between(query, _OLD.get(part, part))
            if span_us is not None:
                ends += span_us
                yield on_stream(category, name, span_us[0], span_us[1] - span_us[0], 0)
        queued = _between(query, "Enq")
        if queued is not None:
            yield span("cpu_op", "enqueue", queued[0], queued[1] - queued[0])
        if ends:
            yield step(index, min(ends), max(ends) - min(ends))


def _between(query: Event, part: str) -> tuple[float, float] | None:
    start, end = number(query.get(f"start{part}Ms")), number(query.get(f"end{part}Ms"))
    return (
        (start * _MS, end * _MS) if start is not None and end is not None and end >= start else None
    )


def _profile(raw: bytes) -> Iterator[Event]:
    found = python_json_of(raw)
    at = 0.0
    for layer in found if isinstance(found, list) else ():
        if not isinstance(layer, dict):
            continue
        mean = number(layer.get("averageMs"))
        if mean:
            yield on_stream("kernel", str(layer.get("name", "")) or "layer", at, mean * _MS, 0)
            at += mean * _MS
    if at:
        yield step(0, 0.0, at)


def _nothing(raw: bytes) -> Iterator[Event]:
    yield from ()


_FIX = Text("Type: trtexec --loadEngine=ENGINE --exportProfile=profile.json --separateProfileRun")

REPORTS = (
    Report(
        "trtexec times",
        re.compile(rb'\s*\[\s*\{\s*"start(?:Enq|H2d|In)Ms"'),
        _times,
        Text(
            "trtexec's times hold whole queries: which layer takes how long is in its profile "
            "(--exportProfile), memory in neither."
        ),
        _FIX,
    ),
    Report(
        "trtexec profile",
        re.compile(rb'\s*\[\s*\{\s*"(?:count"\s*:\s*\d+\s*\}|name"\s*:[^{}]*"timeMs")'),
        _profile,
        Text(
            "trtexec's profile holds the mean time of each layer: here they follow each other "
            "without a gap. When each ran, what the host did and what was copied are not in it "
            "(--exportTimes has whole queries), and profiling adds time to every layer."
        ),
        _FIX,
    ),
    Report(
        "trtexec layers",
        BEGINS,
        _nothing,
        Text(
            "trtexec's layer information says what the layers are, not how long they take: name it "
            "beside a profile of the same engine."
        ),
        _FIX,
    ),
)
