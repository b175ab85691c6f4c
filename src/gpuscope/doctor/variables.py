"""Environment variables that change how fast or how right work on devices is.

The tables are `variables_cuda.toml`, `variables_nccl.toml` and `variables_torch.toml`; each row
says when a value is worth a word, and what it does.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.types import Finding, Severity
from gpuscope.document.text import Text, extracted

_OFF = ("0", "false", "off", "no", "n")


def is_on(value: str) -> bool:
    """Whether a switch is on: all but "", "0", "false", "off", "no", "n"."""
    return value.strip().lower() not in ("", *_OFF)


def is_off(value: str) -> bool:
    """Whether a switch is set, and off."""
    return value.strip().lower() in _OFF


@dataclass(frozen=True, slots=True)
class Setting:
    """When a variable is worth a word.

    Attributes:
        name: of the variable.
        when: "on", "off", {"below": a number}, {"is": values} or {"has": a part}.
        severity: of the finding.
        title: what it does, as set.
        why: what it costs or helps.
        keep: it may be meant (debugging); the fix then says so.
    """

    name: str
    when: str | Mapping[str, Any]
    severity: Severity
    title: Text
    why: Text
    keep: bool = False

    def matches(self, value: str) -> bool:
        """Whether a value is worth a word.

        Raises:
            ValueError: the table has no such condition.
        """
        if isinstance(self.when, str):
            return {"on": is_on, "off": is_off}[self.when](value)
        given = value.strip().lower()
        ((how, wanted),) = self.when.items()
        if how == "is":
            return given in [str(each).lower() for each in wanted]
        if how == "has":
            return wanted in given
        if how == "below":
            return bool(re.fullmatch(r"-?\d+(\.\d+)?", given)) and float(given) < wanted
        raise ValueError(f"{self.name}: no condition is called {how}")


@cache
def settings(table: str) -> tuple[Setting, ...]:
    """Return the rows of a table: "cuda", "nccl", "torch"."""
    path = Path(__file__).with_name(f"variables_{table}.toml")
    rows = tomllib.loads(path.read_text("utf-8"))["variable"]
    return tuple(
        Setting(**{**row, "title": extracted(row["title"]), "why": extracted(row["why"])})
        for row in rows
    )


def settings_findings(machine: Machine, check: str, rows: Sequence[Setting]) -> Iterable[Finding]:
    """Return a finding for each variable of a table that is set so that it matters."""
    for setting in rows:
        value = machine.variable(setting.name)
        if value is None or not setting.matches(value):
            continue
        fix = (
            Text("Unset it when you are done with debugging.")
            if setting.keep
            else Text("Unset it, if it was not meant.")
        )
        yield Finding(
            check,
            setting.severity,
            setting.title,
            Text("{said}.", said=f"{setting.name}={value[:120]}"),
            setting.why,
            fix if setting.severity in ("warning", "error") else None,
            (f"unset {setting.name}",),
            "environment",
            None,
            {setting.name: value},
        )
