"""Runs one check and looks at the form of what it finds."""

from __future__ import annotations

from gpuscope.doctor.diagnose import diagnose
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.types import SEVERITIES, Finding
from gpuscope.document.text import render


def findings(check: str, machine: Machine) -> list[Finding]:
    """What a check finds, each in both languages and with its origin."""
    found = [f for f in diagnose(machine, only=[check]).findings if f.check == check]
    for each in found:
        assert each.severity in SEVERITIES
        assert each.title
        assert render(each.title, "zh") != each.title
        assert each.known_by, each.title
        assert each.severity != "unknown" or "failed" not in each.title, each.found
        for words in (each.found, each.why, each.fix):
            assert words is None or (words and render(words, "zh")) or words is each.found
        if each.severity in ("error", "warning"):
            assert each.why is not None, each.title
    return found


def sorts(found: list[Finding]) -> list[str]:
    """Their severities, worst first."""
    return [each.severity for each in found]


def the(found: list[Finding], severity: str) -> Finding:
    """The one finding of a severity."""
    some = [each for each in found if each.severity == severity]
    assert len(some) == 1, [(f.severity, f.title) for f in found]
    return some[0]
