"""OpenVINO's counters (`benchmark_app -report_type average_counters`): mean times of layers.

Format: OpenVINO, samples/cpp/benchmark_app, statistics_report.cpp: a table with semicolons, times
in milliseconds; "Total" ends it. The plugins write the same table themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.document.text import Text
from gpuscope.timeline.engine_reports.reports import Event, Report, number, span, step

_MS = 1e3


def _counters(raw: bytes) -> Iterator[Event]:
    lines = raw.decode("utf-8", "replace").splitlines()
    columns = [cell.strip() for cell in lines[0].split(";")]
    at = 0.0
    for line in lines[1:]:
        cells = dict(zip(columns, (cell.strip() for cell in line.split(";")), strict=False))
        length = _milliseconds(cells.get("realTime (ms)", ""))
        if not length or cells.get("execStatus") not in ("EXECUTED", "Status.EXECUTED"):
            continue
        name = cells.get("layerName") or "layer"
        kind = cells.get("layerType") or name
        yield span("user_annotation", name, at, length)
        yield span("cpu_op", kind, at, length)
        at += length
    if at:
        yield step(0, 0.0, at)


def _milliseconds(text: str) -> float | None:
    try:
        found = number(float(text))
    except ValueError:
        return None
    return None if found is None else found * _MS


REPORTS = (
    Report(
        "openvino counters",
        re.compile(rb"\s*layerName;execStatus;layerType;execType;"),
        _counters,
        Text(
            "OpenVINO's counters hold the mean time of each layer: here they follow each other "
            "without a gap, as the host's. On which unit each ran, what ran at the same time, and "
            "memory are not in it."
        ),
        Text("Type: benchmark_app -m MODEL -report_type average_counters -report_folder ."),
    ),
)
