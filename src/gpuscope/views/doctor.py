"""A diagnosis on the terminal: the verdict, what is wrong with how to mend it, what is fine."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Column
from rich.text import Text

from gpuscope.doctor.explanation import LABELS
from gpuscope.doctor.registry import Check
from gpuscope.doctor.types import Diagnosis, Finding, Severity
from gpuscope.document.text import joined, plural, render, sentences
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import table

MARKS: dict[Severity, str] = {"error": "✗", "warning": "!", "unknown": "?", "note": "·", "ok": "✓"}
STYLES: dict[Severity, str] = {
    "error": "bold red",
    "warning": "bold yellow",
    "unknown": "dim",
    "note": "cyan",
    "ok": "green",
}

_INDENT = (0, 0, 0, 2)


def render_diagnosis(
    diagnosis: Diagnosis, lang: str = "en", *, brief: bool = False
) -> RenderableType:
    """Return a diagnosis, worst first.

    Args:
        diagnosis: of a live or a recorded machine.
        lang: "en" or "zh".
        brief: leave out notes and what is as it should be.
    """
    parts: list[RenderableType] = [_headline(diagnosis, lang)]
    for severity in ("error", "warning"):
        parts += [_finding(f, lang) for f in diagnosis.findings if f.severity == severity]
    if brief:
        return Group(*parts)
    notes = [f for f in diagnosis.findings if f.severity == "note"]
    if notes:
        parts.append(_heading(tr("Worth knowing", lang)))
        parts += [_note(f, lang) for f in notes]
    unknown = [f for f in diagnosis.findings if f.severity == "unknown"]
    if unknown:
        parts.append(_heading(tr("Could not be read", lang)))
        parts.append(Padding(_list(unknown, lang), _INDENT))
    fine = [f for f in diagnosis.findings if f.severity == "ok"]
    if fine:
        parts.append(_heading(tr("As it should be", lang)))
        parts.append(Padding(_list(fine, lang), _INDENT))
    if not diagnosis.deep:
        asked = tr("Also test the devices at work (minutes): gpuscope doctor --deep", lang)
        parts += [Text(), Text(asked, style="dim")]
    return Group(*parts)


def summary(diagnosis: Diagnosis, lang: str) -> str:
    """One sentence: how many errors and warnings."""
    errors = sum(f.severity == "error" for f in diagnosis.findings)
    warnings = sum(f.severity == "warning" for f in diagnosis.findings)
    if not diagnosis.findings:
        return tr("Nothing was checked.", lang)
    if not errors and not warnings:
        return tr("This machine is all right.", lang)
    what = joined(
        (
            plural("{count} error", "{count} errors", errors) if errors else None,
            plural("{count} warning", "{count} warnings", warnings) if warnings else None,
        )
    )
    return tr("{what} to mend.", lang, what=render(what, lang))


def about(diagnosis: Diagnosis, lang: str) -> str:
    """One line: what machine it is."""
    machine = diagnosis.machine
    shown = [machine.get(name, "") for name in ("host", "gpus", "system")]
    for name in ("driver", "torch", "python"):
        if machine.get(name):
            shown.append(f"{render(LABELS[name], lang)} {machine[name]}")
    if machine.get("container"):
        shown.append(tr("in {what}", lang, what=machine["container"]))
    return " · ".join(part for part in shown if part)


def place(finding: Finding) -> str:
    """The check's name, and the device it is about."""
    return finding.check if finding.device is None else f"{finding.check}[{finding.device}]"


def render_checks(checks: Sequence[Check], lang: str = "en") -> RenderableType:
    """Return the checks that there are, by group."""
    rows = table(
        Column(tr("group", lang), no_wrap=True, style="dim"),
        Column(tr("check", lang), no_wrap=True),
        Column(tr("what it looks at", lang), overflow="fold"),
    )
    last = ""
    for each in checks:
        rows.add_row(each.group if each.group != last else "", each.name, render(each.about, lang))
        last = each.group
    text = tr("Only some of them: gpuscope doctor --only health --only driver", lang)
    return Group(rows, Text(), Text(text, style="dim"))


def _headline(diagnosis: Diagnosis, lang: str) -> RenderableType:
    worst = diagnosis.worst
    style = STYLES[worst] if worst in ("error", "warning") else "bold green"
    count, time = len(diagnosis.checks), f"{sum(diagnosis.checks.values()):.1f}"
    took = render(
        plural("{count} check in {time} s.", "{count} checks in {time} s.", count, time=time), lang
    )
    body = Group(
        Text(summary(diagnosis, lang), style=style),
        Text(about(diagnosis, lang)),
        Text(took, style="dim"),
    )
    return Panel(body, box=box.ROUNDED, border_style="bright_black", padding=(0, 1))


def _heading(title: str) -> RenderableType:
    return Group(Text(), Text(title, style="bold"))


def _finding(finding: Finding, lang: str) -> RenderableType:
    style = STYLES[finding.severity]
    title = Text.assemble(
        (f"{MARKS[finding.severity]} ", style),
        (render(finding.title, lang), style),
        (f"  {place(finding)}", "dim"),
    )
    rows = table(Column(style="dim", no_wrap=True), Column(overflow="fold"), header=False)
    found = Text(render(finding.found, lang))
    if finding.known_by:
        found.append(f"  ({finding.known_by})", style="dim")
    rows.add_row(tr("found", lang), found)
    if finding.why is not None:
        rows.add_row(tr("why it matters", lang), render(finding.why, lang))
    if finding.fix is not None:
        rows.add_row(tr("what to do", lang), Text(render(finding.fix, lang)))
    for command in finding.commands:
        rows.add_row("", Text(f"$ {command}", style="cyan"))
    return Group(Text(), title, Padding(rows, _INDENT))


def _note(finding: Finding, lang: str) -> RenderableType:
    text = Text.assemble(
        (f"{MARKS['note']} ", STYLES["note"]),
        render(finding.title, lang),
        (f"  {place(finding)}", "dim"),
    )
    more = render(sentences(finding.found, finding.fix), lang)
    body: list[RenderableType] = [Text(more, style="dim")]
    body += [Text(f"$ {command}", style="cyan") for command in finding.commands]
    return Padding(Group(text, Padding(Group(*body), _INDENT)), _INDENT)


def _list(findings: Sequence[Finding], lang: str) -> RenderableType:
    """One line a finding."""
    rows = table(Column(no_wrap=True), Column(no_wrap=True), Column(overflow="fold"), header=False)
    for finding in findings:
        rows.add_row(
            Text(MARKS[finding.severity], style=STYLES[finding.severity]),
            Text(place(finding), style="dim"),
            _short(finding, lang),
        )
    return rows


def _short(finding: Finding, lang: str) -> Text:
    """What it says, and fainter what was read."""
    text = Text(render(finding.title, lang).rstrip(".。"))
    found = render(finding.found, lang)
    return text.append(f"  {found}", style="dim") if found else text
