"""Reports of engines as timelines: XLA, ONNX Runtime, trtexec, OpenVINO's benchmark_app.

One file a report; each says by which first bytes it is known, tells its events in Kineto's words,
and says what it cannot answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gpuscope.document.plain import dumps, plain, utf8
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.errors import InputFileError
from gpuscope.outside import limits
from gpuscope.outside.plain import file_bytes
from gpuscope.timeline.engine_reports.reports import Event, Report
from gpuscope.timeline.types import Timeline

__all__ = ["is_report", "read_report"]


def _reports() -> tuple[Report, ...]:
    from gpuscope.timeline.engine_reports import onnxruntime, openvino, tensorrt, xla

    return (*onnxruntime.REPORTS, *tensorrt.REPORTS, *openvino.REPORTS, *xla.REPORTS)


def is_report(head: bytes) -> bool:
    """Return whether a file's first bytes, unpacked, are those of an engine's report."""
    return any(report.begins.match(head) for report in _reports())


def read_report(path: str | Path, *, rank: int | None = None, layers: str = "") -> Timeline:
    """Read an engine's report.

    Args:
        path: the file, plain or gzip.
        rank: as `gpuscope.timeline.kineto.read_trace` takes it.
        layers: trtexec's layer information of the same engine; "" for none.

    Raises:
        InputFileError: it cannot be read, is damaged, too large, or holds no times.
    """
    target = Path(path)
    try:
        raw = file_bytes(target)
    except (OSError, MisfitError) as error:
        raise InputFileError(Text("{path} cannot be read.", path=path), str(error)) from error
    report = next((each for each in _reports() if each.begins.match(raw)), None)
    most = limits.events(len(raw))
    events: list[Event] = []
    devices: list[Event] = []
    try:
        devices += report.devices(raw) if report else ()
        for event in _told(report, raw, target, layers):
            events.append(event)
            if len(events) > most:
                raise limits.holds_too_many(target, Text("events"), most)
    except MisfitError as error:
        raise InputFileError(
            Text("{path} is damaged.", path=path),
            str(error),
            Text("Write the report again, or copy it whole."),
        ) from error
    if report is None or not events:
        raise InputFileError(
            Text("{path} holds no times.", path=path),
            report.cannot if report else "",
            report.fix if report else "",
        )
    from gpuscope.timeline.kineto.read import read_retold

    header = {"schemaVersion": 1, "deviceProperties": devices}
    text = utf8(dumps(plain({**header, "traceEvents": events})))
    found = report.completed(raw, read_retold(target, text, rank, 0))
    sources = tuple(replace(each, format=report.name) for each in found.sources)
    return replace(found, sources=sources, notes=(*found.notes, report.cannot))


def _told(report: Report | None, raw: bytes, path: Path, layers: str) -> Iterable[Event]:
    """A report's events, with what layer information says of them."""
    told = report.events(raw) if report else ()
    if not layers:
        return told
    from gpuscope.timeline.engine_reports.layers import described

    return described(told, path, Path(layers))
