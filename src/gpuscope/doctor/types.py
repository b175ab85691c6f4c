"""What a check finds, and what a diagnosis holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpuscope.document.text import Text, sentences

Severity = Literal["ok", "note", "warning", "error", "unknown"]
"""ok: as it should be. note: worth knowing, nothing to mend. warning: costs speed, or will break
something. error: work on the device fails, or gives wrong results. unknown: could not be read, with
the reason in `found`."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "unknown", "note", "ok")
"""Worst first."""


SEVERITY_NAMES: Mapping[Severity, Text] = {
    "error": Text("error"),
    "warning": Text("warning"),
    "unknown": Text("unknown"),
    "note": Text("note"),
    "ok": Text("ok"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found.

    Attributes:
        check: name of the check.
        severity: see `Severity`.
        title: one short sentence that says what it is ("The driver is too old for this PyTorch").
        found: what was read, with figures.
        why: why it matters; None for what is as it should be.
        fix: what to do; None where there is nothing to do.
        commands: what to type, in order; shell commands.
        known_by: how it was known: the command, file or library call.
        device: index of the device that it is about; None for the machine.
        values: the figures behind it, for --json and for comparing machines: name with unit ->
            number, text or None.
    """

    check: str
    severity: Severity
    title: Text
    found: Text
    why: Text | None = None
    fix: Text | None = None
    commands: tuple[str, ...] = ()
    known_by: str = ""
    device: int | None = None
    values: Mapping[str, float | int | str | bool | None] = field(default_factory=dict)

    @property
    def sentence(self) -> Text:
        """Title and what was found, as one text."""
        if not self.found or self.title.endswith("."):
            return sentences(self.title, self.found)
        return sentences(Text("{title}.", title=self.title), self.found)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings of one machine.

    Attributes:
        machine: what it is, in figures that identify it ("host", "system", "gpus", "driver", ...).
        findings: worst first, then in the order of the checks.
        checks: name -> seconds that the check took.
        deep: the active tests ran.
    """

    machine: Mapping[str, str]
    findings: tuple[Finding, ...]
    checks: Mapping[str, float]
    deep: bool = False

    @property
    def worst(self) -> Severity:
        """The worst severity present."""
        present = {finding.severity for finding in self.findings}
        return next((severity for severity in SEVERITIES if severity in present), "ok")
