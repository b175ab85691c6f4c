"""Reading saved documents back: validated, with an error that says what is wrong with the file."""

from __future__ import annotations

import gzip
import json
import math
import types
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from gpuscope.analysis.types import Analysis
from gpuscope.cost.types import Kernel
from gpuscope.errors import InputFileError
from gpuscope.program.types import Op, TensorSpec
from gpuscope.run import SCHEMA_VERSION, JobPlace, Measurement, RankResult, Run
from gpuscope.timeline.types import (
    Collective,
    Counter,
    Events,
    Lane,
    Messages,
    Recorded,
    Source,
    Step,
    Timeline,
)
from gpuscope.views.document import EVENT_COLUMNS, Json

_OWN_READER = ("timeline", "analysis", "program", "measurement", "rank_results", "place")

SCHEMAS = ("gpuscope.run", "gpuscope.runs", "gpuscope.sweep")

_WANTED = "Name a run that was saved with --output FILE, or a trace."

_NO_DATA = Timeline((), (), Events(*(np.zeros(0, np.int64) for _ in EVENT_COLUMNS)))


def load_document(path: str | Path) -> Json:
    """Read a saved document and check that it is one.

    Returns:
        The document: of a run, of several, or of a sweep.

    Raises:
        InputFileError: the file is missing, cut off, not JSON, of another kind, or written by a
            newer version.
    """
    document = _parse(Path(path))
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(document, dict) or schema not in SCHEMAS:
        raise InputFileError(
            f"{path} is not a gpuscope run.",
            f"Its 'schema' is {schema!r}." if schema else "It has no 'schema'.",
            "Save one with: gpuscope predict ... --json --output FILE",
        )
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise InputFileError(f"{path} has no valid version.", f"It says {version!r}.")
    if version > SCHEMA_VERSION:
        raise InputFileError(
            f"{path} was written by a newer gpuscope.",
            f"It has version {version} of the format; this one reads up to {SCHEMA_VERSION}.",
            "Type: pip install --upgrade gpuscope",
        )
    for number, run in enumerate(_runs_of(document, path)):
        _check_run(run, path, number)
    return document


def load_runs(path: str | Path) -> list[Run]:
    """Read the runs of a saved document.

    Raises:
        InputFileError: as `load_document`.
    """
    return [read_run(run, path) for run in _runs_of(load_document(path), path)]


def read_run(document: Mapping[str, Any], path: str | Path = "the document") -> Run:
    """Turn the document of a run back into a `Run`.

    The captured program is not part of a document, so `Run.program` is None; strides, shapes and
    kernels of the timeline are there, storages are not.

    Raises:
        InputFileError: a field is missing or of the wrong type; names it.
    """
    try:
        values = {
            field.name: document[field.name]
            for field in fields(Run)
            if field.name in document and field.name not in _OWN_READER
        }
        for name in ("step_time_s", "device_busy_s"):
            if values[name] is None:
                values[name] = math.nan
        values["step_time_interval_s"] = tuple(
            math.nan if end is None else end for end in values["step_time_interval_s"]
        )
        values["ranks"] = tuple(values["ranks"])
        values["assumptions"] = tuple(values["assumptions"])
        return Run(
            **values,
            timeline=_read_timeline(document["timeline"]),
            analysis=_read(Analysis, document["analysis"]),
            measurement=_read(Measurement | None, document.get("measurement")),
            rank_results=_read(tuple[RankResult, ...], document.get("rank_results", ())),
            place=_read(JobPlace | None, document.get("place")),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        missing = f"The field {error} is missing." if isinstance(error, KeyError) else str(error)
        raise InputFileError(
            f"{path} is not a whole gpuscope run.", missing, "Save the run again."
        ) from error


def _parse(path: Path) -> object:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputFileError(
            f"{path} is cut off or damaged.", str(error), "Save or copy it again."
        ) from error
    except FileNotFoundError as error:
        raise InputFileError(f"There is no file {path}.", "", "Check the path.") from error
    except IsADirectoryError as error:
        raise InputFileError(f"{path} is a folder.", "", "Name a file in it.") from error
    except UnicodeDecodeError as error:
        raise InputFileError(f"{path} is not text.", "A run is saved as JSON in UTF-8.") from error
    except OSError as error:
        raise InputFileError(f"{path} cannot be read.", str(error.strerror)) from error
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        if not text.strip():
            raise InputFileError(f"{path} is empty.", "", "Save the run again.") from error
        if text.lstrip().startswith("{") and _at_the_end(error, text):
            raise InputFileError(
                f"{path} is cut off.", f"It ends in the middle, after {len(text)} characters.",
                "Save or copy it again.",
            ) from error  # fmt: skip
        where = f"line {error.lineno}, column {error.colno}"
        raise InputFileError(f"{path} is not JSON.", f"{error.msg} at {where}.", _WANTED) from error
    except (ValueError, RecursionError) as error:
        raise InputFileError(f"{path} is not strict JSON.", str(error), _WANTED) from error


def _at_the_end(error: json.JSONDecodeError, text: str) -> bool:
    """Whether JSON is wrong only in that it ends: also in a number ("1e-"), a word, a string."""
    longest_word = len("false")
    return error.msg.startswith("Unterminated string") or error.pos >= len(text) - longest_word


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON knows.")


def _runs_of(document: Json, path: str | Path) -> list[Json]:
    try:
        if document["schema"] == "gpuscope.run":
            return [document]
        if document["schema"] == "gpuscope.runs":
            return list(document["runs"])
        return [point["run"] for point in document["points"]]
    except (KeyError, TypeError) as error:
        raise InputFileError(
            f"{path} is not a whole {document['schema']} document.", f"Missing: {error}."
        ) from error


def _check_run(run: object, path: str | Path, number: int) -> None:
    # Younger than the first documents.
    optional = ("program", "measurement", "world_size", "rank_results", "place")
    required = [f.name for f in fields(Run) if f.name not in optional]
    missing = [name for name in required if not isinstance(run, dict) or name not in run]
    if missing:
        raise InputFileError(
            f"{path} is not a whole gpuscope run.",
            f"Run {number + 1} lacks: {', '.join(missing)}.",
            "Save the run again.",
        )


def _read_timeline(data: Json | None) -> Timeline:
    if data is None:
        return _NO_DATA
    columns = [np.array(data["events"][name], np.int64) for name in EVENT_COLUMNS]
    if len({len(column) for column in columns}) != 1:
        raise ValueError("The columns of its events are not equally long.")
    notes = [*data["notes"], data["truncation"]] if data["truncation"] else data["notes"]
    return Timeline(
        names=tuple(data["names"]),
        lanes=tuple(Lane(**lane) for lane in data["lanes"]),
        events=Events(*columns),
        counters=tuple(
            Counter(c["name"], c["unit"], np.array(c["time_ns"], np.int64),
                    np.array(c["value"], np.float64))
            for c in data["counters"]
        ),
        steps=tuple(Step(**step) for step in data["steps"]),
        kernels=tuple(_read(Kernel, {**kernel, "op": -1}) for kernel in data["kernels"]),
        ops=_read_ops(data["ops"]),
        origin=data["origin"],
        notes=tuple(notes),
        recorded=_read_recorded(data.get("recorded"), len(columns[0])),
        collectives=tuple(_read(Collective, each) for each in data.get("collectives", ())),
        sources=tuple(_read(Source, each) for each in data.get("sources", ())),
        messages=_read_messages(data.get("messages"), len(columns[0])),
        stands_for={int(rank): tuple(own) for rank, own in data.get("stands_for", {}).items()},
    )  # fmt: skip


def _read_messages(data: Json | None, events: int) -> Messages | None:
    if data is None:
        return None
    columns = [np.array(data[field.name], np.int64) for field in fields(Messages)]
    if len({len(column) for column in columns}) != 1:
        raise ValueError("The columns of its messages are not equally long.")
    if len(columns[0]) and (columns[0].max() >= events or columns[0].min() < 0):
        raise ValueError("Its messages point outside of its events.")
    return Messages(*columns)


def _read_recorded(data: Json | None, events: int) -> Recorded | None:
    if data is None:
        return None
    columns: dict[str, Any] = {}
    for field in fields(Recorded):
        numbers = data[field.name]
        if field.name == "occupancy":
            numbers = [math.nan if n is None else n for n in numbers]
        kind = np.float64 if field.name == "occupancy" else np.int64
        columns[field.name] = np.array(numbers, kind)
        if field.name in ("grid", "block"):
            columns[field.name] = columns[field.name].reshape(-1, 3)
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("The columns of its recording are not equally long.")
    for name in ("event", "launch", "operator"):
        column = columns[name]
        if len(column) and (column.max() >= events or column.min() < -1):
            raise ValueError(f"The column {name} of its recording points outside of its events.")
    return Recorded(**columns)


def _read_ops(data: Json) -> tuple[Op, ...]:
    signatures = [
        tuple(tuple(_read(TensorSpec, spec) for spec in s[side]) for side in ("inputs", "outputs"))
        for s in data["signatures"]
    ]
    columns = data["columns"]
    rows = zip(*(columns[name] for name in columns), strict=True)
    ops = []
    for index, values in enumerate(rows):
        row = dict(zip(columns, values, strict=True))
        inputs, outputs = signatures[row.pop("signature")]
        row["name"], row["module"] = data["names"][row["name"]], data["modules"][row["module"]]
        ops.append(Op(index=index, inputs=inputs, outputs=outputs, **row))
    return tuple(ops)


def _read(kind: Any, value: Any) -> Any:
    """Build a value of a type from plain data: dataclasses, tuples, mappings, optional values."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _read(next(a for a in get_args(kind) if a is not type(None)), value)
    if is_dataclass(kind):
        hints = _hints(kind)
        known = {f.name for f in fields(kind)} & set(value)
        return kind(**{name: _read(hints[name], value[name]) for name in known})  # type: ignore[operator]
    if origin is tuple:
        args = get_args(kind)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_read(args[0], item) for item in value)
        return tuple(_read(arg, item) for arg, item in zip(args, value, strict=True))
    if origin is np.ndarray:
        return np.array([math.nan if item is None else item for item in value])
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        convert: Callable[[str], object] = int if get_args(kind)[0] is int else str
        return {convert(key): _read(get_args(kind)[1], item) for key, item in value.items()}
    return value


_HINTS: dict[Any, dict[str, Any]] = {}


def _hints(kind: Any) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]
