"""A diagnosis as an explanation: its page, like that of any other topic."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import cast

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.types import SEVERITY_NAMES, Diagnosis, Finding
from gpuscope.document.blocks import (
    Block,
    Cell,
    Diagram,
    Explanation,
    Fact,
    Facts,
    Paragraph,
    Section,
    Tone,
)
from gpuscope.document.text import Text, plural, sentences, verbatim

LABELS = {
    "host": Text("host"),
    "system": Text("system"),
    "kernel": Text("kernel"),
    "gpus": Text("GPUs"),
    "driver": Text("driver"),
    "python": verbatim("Python"),
    "torch": verbatim("PyTorch"),
    "container": Text("container"),
}
"""What stands before the figures that identify a machine."""


def explain_diagnosis(diagnosis: Diagnosis, machine: Machine) -> Explanation:
    """Return the explanation that shows a diagnosis.

    Args:
        diagnosis: what the checks found.
        machine: asked for its topology only.
    """
    bad = [f for f in diagnosis.findings if f.severity in ("error", "warning")]
    sections = [_machine(diagnosis, machine)]
    sections += [_section(finding) for finding in bad]
    if diagnosis.deep:
        from gpuscope.doctor.deep_figures import deep_section

        figures = deep_section(diagnosis, machine)
        sections += [figures] if figures is not None else []
    for severity, title in (
        ("note", Text("Worth knowing")),
        ("unknown", Text("Could not be read")),
        ("ok", Text("As it should be")),
    ):
        some = [f for f in diagnosis.findings if f.severity == severity]
        if some:
            sections.append(Section(title, (_list(some),)))
    host = diagnosis.machine.get("host", "")
    return Explanation(
        topic="doctor",
        title=Text("Is {host} all right?", host=host)
        if host
        else Text("Is this machine all right?"),
        summary=(_verdict(diagnosis), *(finding.title for finding in bad[:4])),
        sections=tuple(sections),
        commands=tuple(dict.fromkeys(c for finding in bad for c in finding.commands)),
        key="doctor",
    )


def _verdict(diagnosis: Diagnosis) -> Text:
    errors = sum(f.severity == "error" for f in diagnosis.findings)
    warnings = sum(f.severity == "warning" for f in diagnosis.findings)
    checks = len(diagnosis.checks)
    if not errors and not warnings:
        return Text(
            "This machine is all right: {checks} checks found nothing to mend.", checks=checks
        )
    return Text(
        "{errors} and {warnings} in {checks} checks.",
        errors=plural("{count} error", "{count} errors", errors),
        warnings=plural("{count} warning", "{count} warnings", warnings),
        checks=checks,
    )


def _machine(diagnosis: Diagnosis, machine: Machine) -> Section:
    rows = tuple(
        Fact(LABELS.get(name, verbatim(name)), value) for name, value in diagnosis.machine.items()
    )
    blocks: list[Block] = [Facts(rows)] if rows else []
    diagram = _diagram(machine)
    if diagram is not None:
        blocks.append(diagram)
    if not blocks:
        text = Text("The machine does not say what it is.")
        blocks.append(Paragraph(text))
    return Section(Text("The machine"), tuple(blocks))


def _diagram(machine: Machine) -> Diagram | None:
    """The picture of the topology, where there is one to draw."""
    if importlib.util.find_spec("gpuscope.doctor.topology") is None:
        return None
    module = importlib.import_module("gpuscope.doctor.topology")
    draw = cast("Callable[[Machine], Diagram | None]", module.topology_diagram)
    return draw(machine)


def _section(finding: Finding) -> Section:
    tone: Tone = "warning" if finding.severity == "error" else "plain"
    blocks: list[Block] = [Paragraph(finding.found, tone)]
    if finding.why is not None:
        blocks.append(Paragraph(finding.why))
    if finding.fix is not None:
        blocks.append(Paragraph(finding.fix, "key"))
    facts = [
        Fact(verbatim(name), _cell(value), _unit(name))
        for name, value in finding.values.items()
        if value is not None
    ]
    facts += [Fact(Text("what to type"), command) for command in finding.commands]
    if finding.known_by:
        facts.append(Fact(Text("known by"), finding.known_by))
    if facts:
        blocks.append(Facts(tuple(facts)))
    name = SEVERITY_NAMES[finding.severity]
    title = finding.title
    return Section(Text("{name}: {title}", name=name, title=title), tuple(blocks))


def _list(findings: list[Finding]) -> Facts:
    """One row a finding: the check, what it says, and small what it read and where."""
    rows = []
    for finding in findings:
        name = finding.check if finding.device is None else f"{finding.check}[{finding.device}]"
        note = sentences(finding.found, finding.fix)
        if finding.known_by:
            by = Text("({known_by})", known_by=finding.known_by)
            note = Text("{note} {by}", note=note, by=by) if note else by
        rows.append(Fact(verbatim(name), finding.title, note=note or None))
    return Facts(tuple(rows))


_UNITS = {
    "_bytes_per_s": "bytes/s",
    "_bytes": "bytes",
    "_flops_per_s": "flop/s",
    "_hz": "Hz",
    "_share": "share",
    "_w": "W",
    "_s": "s",
}


def _unit(name: str) -> str:
    """The unit that a figure's name ends with."""
    return next((unit for end, unit in _UNITS.items() if f"_{name}".endswith(end)), "")


def _cell(value: float | int | str | bool | None) -> Cell:
    if isinstance(value, bool):
        return Text("yes") if value else Text("no")
    return value
