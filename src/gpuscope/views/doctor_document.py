"""A diagnosis as plain data and back: the JSON documents of `gpuscope doctor`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuscope import __version__
from gpuscope.doctor.compare import Differences
from gpuscope.doctor.types import SEVERITIES, Diagnosis, Finding
from gpuscope.errors import InputFileError
from gpuscope.explain.types import Words
from gpuscope.views.document import plain

DIAGNOSIS_VERSION = 1

Json = dict[str, Any]

_NEXT = "Write one: gpuscope doctor --output FILE"


def diagnosis_document(diagnosis: Diagnosis) -> Json:
    """Return a diagnosis as plain values: `gpuscope.diagnosis`."""
    return {
        "schema": "gpuscope.diagnosis",
        "version": DIAGNOSIS_VERSION,
        "gpuscope_version": __version__,
        "worst": diagnosis.worst,
        "counts": {s: sum(f.severity == s for f in diagnosis.findings) for s in SEVERITIES},
        **plain(diagnosis),
    }


def differences_document(found: Differences) -> Json:
    """Return what differs between two machines: `gpuscope.machine_differences`."""
    return {
        "schema": "gpuscope.machine_differences",
        "version": DIAGNOSIS_VERSION,
        "gpuscope_version": __version__,
        **plain(found),
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
        raise InputFileError(f"'{path}' is no diagnosis of a machine.", "", _NEXT)
    if not isinstance(data.get("version"), int) or data["version"] > DIAGNOSIS_VERSION:
        raise InputFileError(
            f"'{path}' was written by a newer gpuscope.", "", "Update: pip install -U gpuscope"
        )
    try:
        return Diagnosis(
            machine={str(k): str(v) for k, v in data["machine"].items()},
            findings=tuple(_finding(each) for each in data["findings"]),
            checks={str(k): float(v) for k, v in data["checks"].items()},
            deep=bool(data["deep"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputFileError(f"'{path}' is damaged.", why, _NEXT) from None


def _read(path: str | Path) -> Json:
    try:
        raw = Path(path).read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        data = json.loads(raw)
    except (OSError, ValueError, EOFError) as error:
        raise InputFileError(f"Cannot read '{path}'.", str(error), _NEXT) from None
    if not isinstance(data, dict):
        raise InputFileError(f"'{path}' is no diagnosis of a machine.", "", _NEXT)
    return data


def _finding(data: Mapping[str, Any]) -> Finding:
    if data["severity"] not in SEVERITIES:
        raise ValueError(f"no severity is called {data['severity']}")
    return Finding(
        check=str(data["check"]),
        severity=data["severity"],
        title=Words(**data["title"]),
        found=Words(**data["found"]),
        why=Words(**data["why"]) if data["why"] else None,
        fix=Words(**data["fix"]) if data["fix"] else None,
        commands=tuple(map(str, data["commands"])),
        known_by=str(data["known_by"]),
        device=data["device"],
        values=dict(data["values"]),
    )
