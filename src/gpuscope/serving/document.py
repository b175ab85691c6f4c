"""A `Serving` as a document, and back: hostile until checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from gpuscope import __version__
from gpuscope.atomic import write_document
from gpuscope.document.plain import Json, plain
from gpuscope.document.printable import harmless
from gpuscope.document.saved_text import restored, texts_of
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError, check_figures, check_lengths, check_range, typed
from gpuscope.errors import UPDATE, InputFileError
from gpuscope.program.lengths import MOST_TOKENS
from gpuscope.run.reader import parsed_file
from gpuscope.serving.result import FINISHED, SCHEMA, SCHEMA_VERSION, STATES, Serving


def serving_document(found: Serving) -> Json:
    """Return a serving run as plain values that `json.dumps` takes."""
    document = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "gpuscope_version": __version__,
        **plain(found),
    }
    return {**document, "texts": texts_of(document)}


def save_serving(found: Serving, path: str | Path) -> None:
    """Write it, whole or not at all; compressed where the name ends in ".gz".

    Raises:
        InputFileError: it cannot be written there.
    """
    write_document(serving_document(found), path)


def load_serving(path: str | Path) -> Serving:
    """Read a saved serving run.

    Raises:
        InputFileError: the file is missing, no such document, or of a newer version.
    """
    document = parsed_file(Path(path))
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputFileError(
            Text("{path} is no saved serving run.", path=path),
            "",
            Text("Save one with: gpuscope serve ... --output FILE"),
        )
    return read_serving(document, path)


def read_serving(document: Mapping[str, Any], path: str | Path = "the document") -> Serving:
    """Turn a document back into a `Serving`.

    Raises:
        InputFileError: something is missing, of the wrong type, or cannot be; names the place.
    """
    version = document.get("version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise InputFileError(
            Text("{path} was written by a newer gpuscope.", path=path),
            Text(
                "It has version {version} of the format; this one reads up to {newest}.",
                version=version,
                newest=SCHEMA_VERSION,
            ),
            UPDATE,
        )
    try:
        return _read(document)
    except MisfitError as error:
        raise InputFileError(
            Text("{path} is no whole serving run.", path=path),
            Text("{problem}.", problem=error.args[0]),
            Text("Save it again."),
        ) from error


def _read(document: Mapping[str, Any]) -> Serving:
    try:
        document = restored(harmless(dict(document)), document.get("texts", {}))
    except ValueError as error:
        raise MisfitError("texts", str(error.args[0])) from error
    except RecursionError as error:
        raise MisfitError("", Text("lists and objects are nested too deep")) from error
    found = typed(Serving, document)
    for name in ("served", "iterations"):
        _check_columns(getattr(found, name), name)
    served = found.served
    if not len(served):
        raise MisfitError("served", Text("there is none"))
    check_range(served.status, 0, len(STATES), "served.status")
    check_range(served.reason, -1, len(found.reasons), "served.reason")
    for name in ("input_tokens", "output_tokens"):
        check_range(getattr(served, name), 0, MOST_TOKENS + 1, f"served.{name}")
    _check_times(found)
    for each in fields(found):
        check_figures(getattr(found, each.name), each.name)
    return found


def _check_columns(table: Any, place: str) -> None:
    """Columns are of one axis, and equally long; a column that nobody knows is empty."""
    columns = {each.name: getattr(table, each.name) for each in fields(table)}
    for name, column in columns.items():
        if column.ndim != 1:
            raise MisfitError(f"{place}.{name}", Text("list of numbers expected"))
    first = fields(table)[0].name
    needed = {n: c for n, c in columns.items() if len(c) or n == first or _needed(table, n)}
    check_lengths(needed, place)


def _needed(table: Any, name: str) -> bool:
    from dataclasses import MISSING

    own = next(each for each in fields(table) if each.name == name)
    return own.default_factory is MISSING


def _check_times(found: Serving) -> None:
    """Nothing finishes before it is sent, and what finished has all its times."""
    served = found.served
    done = served.status == FINISHED
    with np.errstate(invalid="ignore"):
        wrong = done & ~(
            (served.intended_s <= served.sent_s)
            & (served.sent_s <= served.first_token_s)
            & (served.first_token_s <= served.finished_s)
            & (served.output_tokens >= 1)
        )
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise MisfitError(f"served.finished_s[{at}]", Text("times of a request out of order"))
