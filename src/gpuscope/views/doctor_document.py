"""A diagnosis as plain data and back: the JSON documents of `gpuscope doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from gpuscope import __version__
from gpuscope.doctor.compare import Differences
from gpuscope.doctor.types import SEVERITIES, Diagnosis, Finding
from gpuscope.document.plain import plain
from gpuscope.document.text import Text
from gpuscope.document.translations import heard, spoken
from gpuscope.document.typed import Int64, typed
from gpuscope.errors import UPDATE, InputFileError
from gpuscope.outside.plain import file_bytes, json_of

DIAGNOSIS_VERSION = 1

Json = dict[str, Any]

_NEXT = Text("Write one: gpuscope doctor --output FILE")


def diagnosis_document(diagnosis: Diagnosis) -> Json:
    """Return a diagnosis as plain values: `gpuscope.diagnosis`."""
    return {
        "schema": "gpuscope.diagnosis",
        "version": DIAGNOSIS_VERSION,
        "gpuscope_version": __version__,
        "worst": diagnosis.worst,
        "counts": {s: sum(f.severity == s for f in diagnosis.findings) for s in SEVERITIES},
        **spoken(plain(diagnosis)),
    }


def differences_document(found: Differences) -> Json:
    """Return what differs between two machines: `gpuscope.machine_differences`."""
    return {
        "schema": "gpuscope.machine_differences",
        "version": DIAGNOSIS_VERSION,
        "gpuscope_version": __version__,
        **spoken(plain(found)),
    }


def is_recording(path: str | Path) -> bool:
    """Whether a file is a recorded machine (`doctor --record`) and not a diagnosis.

    Raises:
        InputFileError: as `load_diagnosis`.
    """
    return bool(_read(path).get("schema") == "gpuscope.machine")


def load_diagnosis(path: str | Path) -> Diagnosis:
    """Read a diagnosis that was saved with `doctor --output FILE`.

    Raises:
        InputFileError: the file is missing, no diagnosis, cut off, or newer than this program.
    """
    data = _read(path)
    if data.get("schema") != "gpuscope.diagnosis":
        raise InputFileError(Text("'{path}' is no diagnosis of a machine.", path=path), "", _NEXT)
    if not isinstance(data.get("version"), int) or data["version"] > DIAGNOSIS_VERSION:
        raise InputFileError(
            Text("'{path}' was written by a newer gpuscope.", path=path), "", UPDATE
        )
    try:
        return Diagnosis(
            machine={str(k): str(v) for k, v in data["machine"].items()},
            findings=tuple(_finding(each) for each in data["findings"]),
            checks={str(k): float(v) for k, v in data["checks"].items()},
            deep=bool(data["deep"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputFileError(Text("'{path}' is damaged.", path=path), why, _NEXT) from None


def _read(path: str | Path) -> Json:
    try:
        data = json_of(file_bytes(path))
    except (OSError, ValueError) as error:
        raise InputFileError(Text("Cannot read '{path}'.", path=path), str(error), _NEXT) from None
    if not isinstance(data, dict):
        raise InputFileError(Text("'{path}' is no diagnosis of a machine.", path=path), "", _NEXT)
    return data


class _Device(msgspec.Struct):
    device: int | None


class _Values(msgspec.Struct):
    values: dict[str, float | Int64 | str | bool | None]


def _finding(data: Mapping[str, Any]) -> Finding:
    if data["severity"] not in SEVERITIES:
        raise ValueError(f"no severity is called {data['severity']}")
    return Finding(
        check=str(data["check"]),
        severity=data["severity"],
        title=heard(data["title"]),
        found=heard(data["found"]),
        why=heard(data["why"]) if data["why"] else None,
        fix=heard(data["fix"]) if data["fix"] else None,
        commands=tuple(map(str, data["commands"])),
        known_by=str(data["known_by"]),
        device=typed(_Device, data, f"findings.{data['check']}").device,
        values=typed(_Values, data, f"findings.{data['check']}").values,
    )
