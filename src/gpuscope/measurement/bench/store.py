"""A bench's result as a folder: `points.jsonl.gz` and a readable `summary.toml`.

While the bench runs, the folder holds `points.jsonl` instead, the same lines with the facts of the
machine before them, so that whatever happens nothing measured is lost; it can be loaded, shown and
resumed like a finished one.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from gpuscope.atomic import write_atomically
from gpuscope.document.text import Text
from gpuscope.document.typed import check_figures, typed
from gpuscope.errors import UPDATE, InputFileError, require_package
from gpuscope.measurement.bench.figures import figures
from gpuscope.measurement.bench.toml_text import toml_text
from gpuscope.measurement.bench.types import BenchResult, Failure, Point
from gpuscope.outside.plain import file_bytes, python_json_of, toml_of

SCHEMA, VERSION = "gpuscope.bench", 1
POINTS, SUMMARY, PARTIAL = "points.jsonl.gz", "summary.toml", "points.jsonl"
_PARQUET = "points.parquet"
"""What earlier versions wrote instead of `POINTS`."""

_NEXT = Text("Give a folder that gpuscope bench wrote.")
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""What reading a file that is not what it should be raises."""


class PointLog:
    """Appends points to `points.jsonl` as they come."""

    def __init__(self, folder: Path, head: BenchResult) -> None:
        """Begin with the facts of the machine.

        Args:
            folder: made if it is not there.
            head: what is known at the start, with the points of a resumed run.

        Raises:
            InputFileError: the folder cannot be made or written to.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / PARTIAL).open("w", encoding="utf-8")
        except OSError as error:
            raise InputFileError(
                Text("Cannot write to {folder}.", folder=folder),
                str(error.strerror or error),
                Text("Choose another folder: --output FOLDER"),
            ) from None
        self._line({"schema": SCHEMA, "version": VERSION, **head_document(head)})
        for point in head.points:
            self.point(point)

    def point(self, point: Point) -> None:
        """Save one point now."""
        self._line(point_document(point))

    def failure(self, failure: Failure) -> None:
        """Save what could not be measured."""
        self._line(failure_document(failure))

    def close(self) -> None:
        """Close the file; it stays."""
        self._file.close()

    def _line(self, document: Mapping[str, Any]) -> None:
        self._file.write(_line(document))
        self._file.flush()


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"


def head_document(result: BenchResult) -> dict[str, Any]:
    """Return everything but points and failures as plain values."""
    document = {
        f.name: getattr(result, f.name)
        for f in fields(result)
        if f.name not in ("points", "failures", "runs")
    }
    runs = [asdict(run) for run in result.runs]
    return {k: list(v) if isinstance(v, tuple) else v for k, v in document.items()} | {"runs": runs}


def point_document(point: Point) -> dict[str, Any]:
    """Return a point as plain values, with its rates and the fraction of its limit."""
    document = asdict(point)
    document["params"] = dict(point.params)
    document["values"] = dict(point.values)
    document["fraction"] = point.fraction
    document["flops_per_s"] = point.flops_per_s
    document["bytes_per_s"] = point.bytes_per_s
    return document


def failure_document(failure: Failure) -> dict[str, Any]:
    """Return a failure as plain values."""
    return {
        "bench": failure.bench,
        "family": failure.family,
        "params": dict(failure.params),
        "error": failure.reason,
        "lost": failure.lost,
    }


_POINT_FIELDS = frozenset(f.name for f in fields(Point))
_FAILURE_FIELDS = frozenset(f.name for f in fields(Failure)) - {"reason"}  # that is "error" here


def point_from(document: Mapping[str, Any]) -> Point:
    """Return the point of plain values; fields that are not known are passed over.

    Raises:
        MisfitError: something is missing, or of another type.
    """
    told = {k: v for k, v in document.items() if k in _POINT_FIELDS and v is not None}
    point = typed(Point, {"median_s": None, **told})
    check_figures(point, "")
    return point


def save_bench(result: BenchResult, folder: str | Path) -> None:
    """Write a finished result; the folder holds nothing else of it afterwards.

    Raises:
        InputFileError: the folder cannot be made or written to.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        write_atomically(target / POINTS, _packed(result))
        write_atomically(target / SUMMARY, _summary(result))
        (target / PARTIAL).unlink(missing_ok=True)
        (target / _PARQUET).unlink(missing_ok=True)
    except OSError as error:
        raise InputFileError(
            Text("Cannot write to {target}.", target=target),
            str(error.strerror or error),
            Text("Choose another folder: --output FOLDER"),
        ) from None


def _packed(result: BenchResult) -> bytes:
    documents = [*map(point_document, result.points), *map(failure_document, result.failures)]
    return gzip.compress("".join(map(_line, documents)).encode("utf-8"), 9, mtime=0)


def _summary(result: BenchResult) -> str:
    from gpuscope import __version__
    from gpuscope.measurement.bench.figures import figures

    head = head_document(result)
    machine, runs = head.pop("machine"), head.pop("runs")
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "gpuscope_version": __version__,
        **head,
        "points": len(result.points),
        "failures": len(result.failures),
        "machine": machine,
        "figures": [asdict(figure) for figure in figures(result)],
        "runs": runs,
    }
    return toml_text(document)


def load_bench(path: str | Path) -> BenchResult:
    """Load what `gpuscope bench` saved, finished or not.

    Args:
        path: the folder, or a file in it.

    Raises:
        InputFileError: nothing there, or not such a folder, or of a newer version.
    """
    given = Path(path)
    folder = given.parent if given.is_file() else given
    if (folder / SUMMARY).is_file() and any((folder / n).is_file() for n in (POINTS, _PARQUET)):
        return _finished(folder)
    if (folder / PARTIAL).is_file():
        return _partial(folder / PARTIAL)
    if not given.exists():
        raise InputFileError(Text("{given} does not exist.", given=given), "", _NEXT)
    raise InputFileError(
        Text("{given} holds no bench.", given=given),
        Text(
            "It has neither {summary} with {points} nor {partial}.",
            summary=SUMMARY,
            points=POINTS,
            partial=PARTIAL,
        ),
        _NEXT,
    )


def _finished(folder: Path) -> BenchResult:
    packed = folder / POINTS
    try:
        summary = toml_of(file_bytes(folder / SUMMARY))
        _check(summary, folder)
        rows = _lines(file_bytes(packed)) if packed.is_file() else _old(folder)
        points, failures = _sorted(rows)
        if (len(points), len(failures)) != (summary["points"], summary["failures"]):
            raise ValueError("points are missing")
        return _result(summary, points, failures)
    except _DAMAGE as error:
        raise _damaged(folder, error) from None


def _partial(path: Path) -> BenchResult:
    try:
        lines = _lines(file_bytes(path))
        head = next(lines, None)
        if head is None:
            raise InputFileError(Text("{path} is empty.", path=path), "", _NEXT)
        _check(head, path)
        points, failures = _sorted(lines)
        latest = {point.key: point for point in points}  # one may have been measured again
        return replace(_result(head, list(latest.values()), failures), interrupted=True)
    except _DAMAGE as error:
        raise _damaged(path, error) from None


def _old(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a folder that an earlier version wrote."""
    require_package("pyarrow", f"Reading {folder / _PARQUET}", "parquet")
    import pyarrow.parquet as pq

    for row in pq.read_table(folder / _PARQUET).to_pylist():
        row["params"] = json.loads(row["params"])
        row["values"] = json.loads(row["values"] or "{}")
        if row["error"] is None:
            del row["error"]
        yield row


def _sorted(lines: Iterable[dict[str, Any]]) -> tuple[list[Point], list[Failure]]:
    points, failures = [], []
    for line in lines:
        if "error" in line:
            known = {k: v for k, v in line.items() if k in _FAILURE_FIELDS}
            failures.append(typed(Failure, {"reason": line["error"], **known}))
        else:
            points.append(point_from(line))
    return points, failures


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    """Whole lines; the last one may have been cut off while it was written."""
    for line in data.decode("utf-8", errors="replace").split("\n")[:-1]:
        if line.strip():
            document = python_json_of(line)
            if not isinstance(document, dict):
                raise ValueError("a line that is no table")
            yield document


def _check(head: Mapping[str, Any], path: Path) -> None:
    if head.get("schema") != SCHEMA:
        raise InputFileError(Text("{path} is not a bench.", path=path), "", _NEXT)
    if int(head.get("version", 0)) > VERSION:
        raise InputFileError(Text("{path} was written by a newer gpuscope.", path=path), "", UPDATE)


def _result(head: Mapping[str, Any], points: list[Point], failures: list[Failure]) -> BenchResult:
    found = typed(
        BenchResult,
        {
            "machine": head["machine"],
            "device_id": head["device_id"],
            "points": [],
            "failures": [],
            "runs": head.get("runs") or [],
            "warnings": head.get("warnings") or [],
            "quick": bool(head.get("quick")),
            "started": str(head.get("started") or ""),
            "seconds": head.get("seconds") or 0.0,
            "interrupted": bool(head.get("interrupted")),
        },
    )
    check_figures(found, "")
    found = replace(found, points=tuple(points), failures=tuple(failures))
    figures(found)  # a point without what its bench is told by is damaged, too
    return found


def _damaged(path: Path, error: Exception) -> InputFileError:
    return InputFileError(
        Text("{path} cannot be read as a bench.", path=path),
        f"{type(error).__name__}: {error}"[:200],
        _NEXT,
    )
