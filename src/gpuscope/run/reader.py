"""Reading saved documents back: validated, with an error that names what is wrong and where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from gpuscope.analysis.critical_path import PATH_KINDS
from gpuscope.analysis.types import Analysis
from gpuscope.document.plain import Json
from gpuscope.document.printable import harmless
from gpuscope.document.saved_text import restored
from gpuscope.document.text import Text, capital
from gpuscope.document.typed import MisfitError, check_figures, check_lengths, check_range, typed
from gpuscope.errors import UPDATE, InputFileError
from gpuscope.run.document import NOT_FIELDS
from gpuscope.run.timeline_reader import read_timeline
from gpuscope.run.types import SCHEMA_VERSION, Run

SCHEMAS = ("gpuscope.run", "gpuscope.runs", "gpuscope.sweep")


_MAY_BE_OBEYED = re.compile(
    r"\\(?:[bfnrt]|u(?:00[0189]|007f|061c|20[0-6]|d[89a-f]))|"
    r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]",
    re.IGNORECASE,
)
"""What JSON must hold where a string in it is not `one_line`: an escape, or the character itself.
Looked for first, because few files have any, and walking through all of a document takes time."""


class _Point(msgspec.Struct):
    value: float
    run: dict[str, Any]


class _Sweep(msgspec.Struct):
    points: list[_Point]


class _Runs(msgspec.Struct):
    runs: list[dict[str, Any]]


def load_document(path: str | Path) -> Json:
    """Read a saved document and check that it is one.

    Returns:
        The document: of a run, of several, or of a sweep.

    Raises:
        InputFileError: the file is missing, cut off, not JSON, of another kind, or written by a
            newer version.
    """
    document = parsed_file(Path(path))
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(document, dict) or schema not in SCHEMAS:
        raise InputFileError(
            Text("{path} is not a gpuscope run.", path=path),
            Text("Its 'schema' is {schema}.", schema=repr(schema))
            if schema
            else Text("It has no 'schema'."),
            Text("Save one with: gpuscope predict ... --json --output FILE"),
        )
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise InputFileError(
            Text("{path} has no valid version.", path=path),
            Text("It says {version}.", version=repr(version)),
        )
    if version > SCHEMA_VERSION:
        raise InputFileError(
            Text("{path} was written by a newer gpuscope.", path=path),
            Text(
                "It has version {version} of the format; this one reads up to {newest}.",
                version=version,
                newest=SCHEMA_VERSION,
            ),
            UPDATE,
        )
    return document


def load_runs(path: str | Path) -> list[Run]:
    """Read the runs of a saved document.

    Raises:
        InputFileError: as `load_document` and `read_run`.
    """
    document = load_document(path)
    try:
        return [_read(run, place) for run, place in _runs_of(document)]
    except MisfitError as error:
        raise _not_whole(path, error) from error


def read_run(document: Mapping[str, Any], path: str | Path = "the document") -> Run:
    """Turn the document of a run back into a `Run`.

    The captured program is not part of a document, so `Run.program` is None; strides, shapes and
    kernels of the timeline are there, storages are not.

    Args:
        document: as `run_document` made it.
        path: where it comes from, for errors.

    Raises:
        InputFileError: something is missing or of the wrong type or value; names the place.
    """
    try:
        return _read(document, "")
    except MisfitError as error:
        raise _not_whole(path, error) from error


def _not_whole(path: str | Path, error: MisfitError) -> InputFileError:
    return InputFileError(
        Text("{path} is not a whole gpuscope run.", path=path),
        Text("{problem}.", problem=error.args[0]),
        Text("Save the run again."),
    )


def _runs_of(document: Json) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Each run of a document, and where it stands in it."""
    if document["schema"] == "gpuscope.run":
        yield document, ""
    elif document["schema"] == "gpuscope.runs":
        for number, run in enumerate(typed(_Runs, document).runs):
            yield run, f"runs[{number}]"
    else:
        for number, point in enumerate(typed(_Sweep, document).points):
            yield point.run, f"points[{number}].run"


def _read(document: Mapping[str, Any], place: str) -> Run:
    inside = f"{place}." if place else ""
    try:
        document = restored(document, document.get("texts", {}))
    except ValueError as error:
        raise MisfitError(f"{inside}texts", error.args[0]) from error
    except RecursionError as error:
        raise MisfitError(place, Text("lists and objects are nested too deep")) from error
    if "timeline" not in document:
        raise MisfitError(f"{inside}timeline", Text("missing"))
    timeline = read_timeline(document["timeline"], f"{inside}timeline")
    saved = typed(_saved_run(), document, place)
    found = {name: getattr(saved, name) for name in saved.__struct_fields__}
    _check_analysis(found["analysis"], f"{inside}analysis")
    _check_step(found["step_time_s"], f"{inside}step_time_s")
    if not found["ranks"]:
        raise MisfitError(f"{inside}ranks", Text("there is none"))
    if not _of_memory_alone(found["analysis"]):
        _check_step(found["analysis"].step_s, f"{inside}analysis.step_s")
    for name, value in (*found.items(), ("timeline", timeline)):
        check_figures(value, f"{inside}{name}")
    return Run(**found, timeline=timeline)


@cache
def _saved_run() -> type[msgspec.Struct]:
    """The fields of a `Run` that are read as they are."""
    types = get_type_hints(Run)
    left_out = {*NOT_FIELDS} - {"analysis"}
    own = [field for field in fields(Run) if field.name not in left_out]
    return msgspec.defstruct("_SavedRun", [(f.name, types[f.name], _default(f)) for f in own])


def _default(own: Field[Any]) -> Any:
    if own.default_factory is not MISSING:
        return msgspec.field(default_factory=own.default_factory)
    return msgspec.NODEFAULT if own.default is MISSING else own.default


def _check_step(step_s: float, place: str) -> None:
    """Shares and rates are of a step that takes some time; of one that is not known there are none.

    Raises:
        MisfitError: it takes none.
    """
    if step_s <= 0:
        raise MisfitError(place, Text("not above zero"))


def _of_memory_alone(found: Analysis) -> bool:
    """Whether there is nothing that took time: a memory snapshot."""
    timed = (found.time, found.classes, found.operators, found.kinds, found.phases, found.modules)
    gains = [each.max_gain_s for each in found.findings if each.max_gain_s is not None]
    stories = (found.roofline, found.critical_path, found.launches, found.account, found.host)
    return not any((*timed, *stories, found.idle_spots, found.copies, found.symbols, gains))


def _check_analysis(found: Analysis, place: str) -> None:
    """Columns are equally long, and what they index is there."""
    if (memory := found.memory) is not None:
        columns = {"time_s": memory.time_s, "allocated_bytes": memory.allocated_bytes}
        if memory.reserved_curve_bytes:
            columns["reserved_curve_bytes"] = memory.reserved_curve_bytes
        check_lengths(columns, f"{place}.memory")
    if (path := found.critical_path) is not None:
        names = ("start_ns", "kind", "name", "lane")
        segments = {f"segment_{name}": getattr(path, f"segment_{name}") for name in names}
        check_lengths(segments, f"{place}.critical_path")
        for name, table in (("kind", PATH_KINDS), ("name", path.names)):
            where = f"{place}.critical_path.segment_{name}"
            check_range(segments[f"segment_{name}"], 0, len(table), where)
    if (calls := found.launches) is not None:
        queue = {"queue_time_s": calls.queue_time_s, "queue_depth": calls.queue_depth}
        check_lengths(queue, f"{place}.launches")
    for number, call in enumerate(found.ranks.calls if found.ranks else ()):
        both = {"ranks": call.ranks, "waits_s": call.waits_s}
        check_lengths(both, f"{place}.ranks.calls[{number}]")


def parsed_file(path: Path) -> object:
    """What a saved JSON document holds; strings that a terminal would obey made harmless.

    Raises:
        InputFileError: the file is missing, cut off, or not JSON.
    """
    from gpuscope.outside.plain import file_bytes

    try:
        text = file_bytes(path).decode("utf-8")
    except MisfitError as error:
        raise InputFileError(
            Text("{path} is cut off or damaged.", path=path),
            Text("{problem}.", problem=capital(error.reason)),
            Text("Save or copy it again."),
        ) from error
    except FileNotFoundError as error:
        raise InputFileError(
            Text("There is no file {path}.", path=path), "", Text("Check the path.")
        ) from error
    except IsADirectoryError as error:
        raise InputFileError(
            Text("{path} is a folder.", path=path), "", Text("Name a file in it.")
        ) from error
    except UnicodeDecodeError as error:
        raise InputFileError(
            Text("{path} is not text.", path=path), Text("A run is saved as JSON in UTF-8.")
        ) from error
    except OSError as error:
        raise InputFileError(
            Text("{path} cannot be read.", path=path), str(error.strerror)
        ) from error
    try:
        document = msgspec.json.decode(text)
        return harmless(document) if _MAY_BE_OBEYED.search(text) else document
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_json(path, text, str(error)) from error


def _not_json(path: Path, text: str, reason: str) -> InputFileError:
    if not text.strip():
        return InputFileError(Text("{path} is empty.", path=path), "", Text("Save the run again."))
    at = re.search(r"\(byte (\d+)\)$", reason)
    ends = at is None or int(at[1]) >= len(text.encode("utf-8"))
    if text.lstrip().startswith("{") and (reason == "Input data was truncated" or (at and ends)):
        return InputFileError(
            Text("{path} is cut off.", path=path),
            Text("It ends in the middle, after {count} characters.", count=len(text)),
            Text("Save or copy it again."),
        )
    return InputFileError(
        Text("{path} is not strict JSON.", path=path),
        reason,
        Text("Name a run that was saved with --output FILE, or a trace."),
    )
