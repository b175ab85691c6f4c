"""A bench's result as a folder: `points.parquet` and a readable `summary.toml`.

While the bench runs, the folder holds `points.jsonl` instead, one line a point, so that whatever
happens nothing measured is lost; it can be loaded, shown and resumed like a finished one.
"""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from gpuscope.atomic import write_atomically
from gpuscope.errors import InputFileError
from gpuscope.measure.bench.toml_text import toml_text
from gpuscope.measure.bench.types import BenchResult, BenchRun, Failure, KernelTime, Point

SCHEMA, VERSION = "gpuscope.bench", 1
POINTS, SUMMARY, PARTIAL = "points.parquet", "summary.toml", "points.jsonl"
_NEXT = "Give a folder that gpuscope bench wrote."


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
                f"Cannot write to {folder}.", str(error.strerror or error),
                "Choose another folder: --output FOLDER",
            ) from None  # fmt: skip
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
        self._file.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()


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
        "bench": failure.bench, "family": failure.family, "params": dict(failure.params),
        "error": failure.reason,
    }  # fmt: skip


_POINT_FIELDS = frozenset(f.name for f in fields(Point))
_KERNEL_FIELDS = frozenset(f.name for f in fields(KernelTime))
_RUN_FIELDS = frozenset(f.name for f in fields(BenchRun))


def point_from(document: Mapping[str, Any]) -> Point:
    """Return the point of plain values; fields that are not known are passed over.

    Raises:
        KeyError, TypeError: something is missing.
    """
    known = {k: v for k, v in document.items() if k in _POINT_FIELDS}
    known["kernels"] = tuple(
        KernelTime(**{k: v for k, v in kernel.items() if k in _KERNEL_FIELDS})
        for kernel in known.get("kernels") or ()
    )
    for name in ("throttled", "samples_s"):
        if known.get(name) is not None:
            known[name] = tuple(known[name])
    return Point(**known)


def save_bench(result: BenchResult, folder: str | Path) -> None:
    """Write a finished result; the folder holds nothing else of it afterwards.

    Raises:
        InputFileError: the folder cannot be made or written to.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        write_atomically(target / POINTS, _parquet(result))
        write_atomically(target / SUMMARY, _summary(result))
        (target / PARTIAL).unlink(missing_ok=True)
    except OSError as error:
        raise InputFileError(
            f"Cannot write to {target}.", str(error.strerror or error),
            "Choose another folder: --output FOLDER",
        ) from None  # fmt: skip


def _parquet(result: BenchResult) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{**point_document(p), "error": None} for p in result.points]
    rows += [failure_document(f) for f in result.failures]
    for row in rows:
        row["params"] = json.dumps(row["params"], separators=(",", ":"))
        row["values"] = json.dumps(row.get("values") or {}, separators=(",", ":"))
    table = pa.Table.from_pylist(rows, schema=_schema(pa))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", compression_level=9)
    return sink.getvalue()


def _schema(pa: Any) -> Any:
    text, real, whole = pa.string(), pa.float64(), pa.int64()
    kernel = {
        "name": text, "category": text, "count": whole, "median_s": real, "min_s": real,
        "p90_s": real, "gap_s": real, "grid": text, "block": text, "registers": whole,
        "shared_bytes": whole, "occupancy_percent": real,
    }  # fmt: skip
    columns = {
        "bench": text, "family": text, "params": text, "state": text, "median_s": real,
        "min_s": real, "p90_s": real, "n": whole, "flops": real, "bytes": real, "bound": text,
        "bound_s": real, "fraction": real, "flops_per_s": real, "bytes_per_s": real,
        "sm_clock_hz": real, "throttled": pa.list_(text), "values": text,
        "samples_s": pa.list_(real), "error": text,
        "kernels": pa.list_(pa.struct(list(kernel.items()))),
    }  # fmt: skip
    return pa.schema(list(columns.items()))


def _summary(result: BenchResult) -> str:
    from gpuscope import __version__
    from gpuscope.measure.bench.figures import figures

    head = head_document(result)
    machine, runs = head.pop("machine"), head.pop("runs")
    document = {
        "schema": SCHEMA, "version": VERSION, "gpuscope_version": __version__, **head,
        "points": len(result.points), "failures": len(result.failures), "machine": machine,
        "figures": [asdict(figure) for figure in figures(result)], "runs": runs,
    }  # fmt: skip
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
    if (folder / SUMMARY).is_file() and (folder / POINTS).is_file():
        return _finished(folder)
    if (folder / PARTIAL).is_file():
        return _partial(folder / PARTIAL)
    if not given.exists():
        raise InputFileError(f"{given} does not exist.", "", _NEXT)
    raise InputFileError(
        f"{given} holds no bench.", f"It has neither {SUMMARY} with {POINTS} nor {PARTIAL}.", _NEXT
    )


def _finished(folder: Path) -> BenchResult:
    import pyarrow.parquet as pq

    try:
        summary = tomllib.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        _check(summary, folder)
        points, failures = [], []
        for row in pq.read_table(folder / POINTS).to_pylist():
            row["params"] = json.loads(row["params"])
            row["values"] = json.loads(row["values"] or "{}")
            error = row.pop("error")
            if error is None:
                points.append(point_from(row))
            else:
                failures.append(Failure(row["bench"], row["family"], row["params"], error))
        return _result(summary, points, failures)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, error) from None


def _partial(path: Path) -> BenchResult:
    points: dict[tuple[str, ...], Point] = {}
    failures = []
    try:
        lines = _lines(path)
        head = next(lines, None)
        if head is None:
            raise InputFileError(f"{path} is empty.", "", _NEXT)
        _check(head, path)
        for line in lines:
            if "error" in line:
                failures.append(
                    Failure(line["bench"], line["family"], line["params"], line["error"])
                )
            else:
                point = point_from(line)
                points[point.key] = point
        return replace(_result(head, list(points.values()), failures), interrupted=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, error) from None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines; the last one may have been cut off while it was written."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for line in text.split("\n")[:-1]:
        if line.strip():
            document = json.loads(line)
            if not isinstance(document, dict):
                raise ValueError("a line that is no table")
            yield document


def _check(head: Mapping[str, Any], path: Path) -> None:
    if head.get("schema") != SCHEMA:
        raise InputFileError(f"{path} is not a bench.", "", _NEXT)
    if int(head.get("version", 0)) > VERSION:
        raise InputFileError(
            f"{path} was written by a newer gpuscope.", "", "Type: pip install -U gpuscope"
        )


def _result(head: Mapping[str, Any], points: list[Point], failures: list[Failure]) -> BenchResult:
    runs = tuple(
        BenchRun(**{k: v for k, v in run.items() if k in _RUN_FIELDS})
        for run in head.get("runs") or ()
    )
    return BenchResult(
        dict(head["machine"]), str(head["device_id"]), tuple(points), tuple(failures), runs,
        tuple(head.get("warnings") or ()), tuple(head.get("warnings_zh") or ()),
        bool(head.get("quick")), str(head.get("started") or ""), float(head.get("seconds") or 0.0),
        bool(head.get("interrupted")),
    )  # fmt: skip


def _damaged(path: Path, error: Exception) -> InputFileError:
    return InputFileError(
        f"{path} cannot be read as a bench.", f"{type(error).__name__}: {error}"[:200], _NEXT
    )
