"""The baseline: what workloads took when it was last written; TOML, sorted, one fact a line."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuscope.analysis.types import Share
from gpuscope.atomic import write_atomically
from gpuscope.document.text import Text
from gpuscope.errors import UPDATE, InputFileError
from gpuscope.guarding.facts import Facts
from gpuscope.outside.plain import file_bytes
from gpuscope.outside.toml_file import parse_toml, shown

SCHEMA_VERSION = 1
"""Of the file; a newer one is refused."""

_AGAIN = Text("Type: gpuscope guard --update")
_SCALARS = ("step_time_s", "launches", "peak_memory_bytes", "graph_breaks", "communication_bytes")
_BARE = re.compile("[A-Za-z0-9_-]+")
_MARKS = ("<<<<<<< ", ">>>>>>> ", "||||||| ")

Key = tuple[str, str]
"""Names of a workload and of what it runs on."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Figures that hold.

    Attributes:
        versions: of what they were predicted with.
        facts: by workload and device.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[Key, Facts] = field(default_factory=dict)


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Write a baseline, whole or not at all.

    Raises:
        InputFileError: it cannot be written.
    """
    write_atomically(path, baseline_text(baseline))


def baseline_text(baseline: Baseline) -> str:
    """Return a baseline as its file holds it: the same figures are the same text."""
    return "\n".join(_written(baseline)) + "\n"


def _written(baseline: Baseline) -> Iterator[str]:
    yield "# What gpuscope predicts for this project. Written by: gpuscope guard --update"
    yield f"version = {SCHEMA_VERSION}"
    yield ""
    yield "[versions]"
    yield from (f"{name} = {_text(baseline.versions[name])}" for name in sorted(baseline.versions))
    for name, device in sorted(baseline.facts):
        facts = baseline.facts[name, device]
        table = f"runs.{_text(name)}.{_text(device)}"
        yield f"\n[{table}]"
        yield from (f"{fact} = {_number(getattr(facts, fact))}" for fact in sorted(_SCALARS))
        if facts.account:
            yield f"\n[{table}.account]"
            yield from (
                f"{_key(term)} = {_number(facts.account[term])}" for term in sorted(facts.account)
            )
        yield f"\n[{table}.findings]"
        for kind in sorted(facts.findings):
            gain = facts.findings[kind]
            yield f"{_key(kind)} = {'true' if gain is None else _number(gain)}"
        yield f"\n[{table}.memory]"
        yield from (f"{_text(part)} = {facts.memory[part]}" for part in sorted(facts.memory))
        yield f"\n[{table}.operators]"
        for share in sorted(facts.operators, key=lambda share: share.label):
            yield f"{_text(share.label)} = {_row(share)}"


def _row(share: Share) -> str:
    cells = [f"time_s = {_number(share.time_s)}"]
    for name, value in (
        ("launches", share.count),
        ("flops", share.flops),
        ("bytes", share.moved_bytes),
    ):
        if value:
            cells.append(f"{name} = {_number(value)}")
    return f"{{ {', '.join(cells)} }}"


def _text(text: str) -> str:
    """A TOML string; JSON's escapes are TOML's, but for characters beyond 16 bits and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _number(value: float) -> str:
    """Numbers without blanks or signs that TOML does not know; a whole one without a point."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(float(value))


def read_baseline(path: Path, again: Text = _AGAIN) -> Baseline:
    """Read a baseline.

    Args:
        path: the file.
        again: what to type where it has to be written anew.

    Raises:
        InputFileError: there is none, it is broken, of a newer version, or holds the marks of a
            merge.
    """
    if not os.path.exists(path):
        raise InputFileError(Text("There is no baseline {path} yet.", path=path), "", again)
    try:
        text = file_bytes(path).decode("utf-8")
    except (OSError, ValueError) as error:
        why = f"{getattr(error, 'strerror', None) or error}."
        raise InputFileError(Text("{path} cannot be read.", path=path), why, again) from None
    return parse_baseline(text, path, again)


def parse_baseline(text: str, path: Path, again: Text = _AGAIN) -> Baseline:
    """Read the text of a baseline; arguments and errors as `read_baseline`."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(_MARKS):
            raise InputFileError(
                Text(
                    "{path} holds the marks of a merge, in line {number}.", path=path, number=number
                ),
                Text("It is made anew from the merged sources, not merged by hand."),
                again,
            )
    content = parse_toml(text, path, again)
    if content.get("version") != SCHEMA_VERSION:
        raise InputFileError(
            Text("{path} is no baseline of this version of gpuscope.", path=path),
            Text("It says version = {found}.", found=shown(content.get("version"))),
            UPDATE if _newer(content.get("version")) else again,
        )
    try:
        return _baseline(content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputFileError(
            Text("{path} is broken.", path=path),
            Text("Missing or wrong in it: {what}.", what=shown(error)),
            again,
        ) from None


def _newer(found: object) -> bool:
    return isinstance(found, int) and found > SCHEMA_VERSION


def _baseline(content: Mapping[str, Any]) -> Baseline:
    return Baseline(
        {str(name): str(value) for name, value in content["versions"].items()},
        {
            (name, device): _facts(table)
            for name, devices in content.get("runs", {}).items()
            for device, table in devices.items()
        },
    )


def _facts(table: Mapping[str, Any]) -> Facts:
    return Facts(
        step_time_s=_figure(table, "step_time_s"),
        **{name: int(_figure(table, name)) for name in _SCALARS[1:]},
        findings={
            kind: None if gain is True else _figure(table["findings"], kind)
            for kind, gain in table["findings"].items()
        },
        memory={part: int(_figure(table["memory"], part)) for part in table["memory"]},
        operators=tuple(
            Share(
                label,
                _figure(row, "time_s"),
                int(_figure(row, "launches", 0)),
                _figure(row, "flops", 0),
                _figure(row, "bytes", 0),
            )
            for label, row in table["operators"].items()
        ),
        account={term: _figure(table["account"], term) for term in table.get("account", {})},
    )


def _figure(table: Mapping[str, Any], name: str, absent: float | None = None) -> float:
    """A figure that something can be held against: "not a number" is larger than nothing."""
    value = table[name] if absent is None else table.get(name, absent)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} = {shown(value)}")
    return float(value)
