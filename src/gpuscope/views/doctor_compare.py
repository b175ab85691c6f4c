"""What differs between two machines, on the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column
from rich.text import Text

from gpuscope.doctor.compare import CheckDifference, Differences, Value, ValueDifference
from gpuscope.doctor.types import Finding
from gpuscope.views.doctor import MARKS, STYLES
from gpuscope.views.i18n import tr
from gpuscope.views.quantities import words
from gpuscope.views.terminal.layout import table


def render_differences(found: Differences, lang: str = "en") -> RenderableType:
    """Return what differs: the machines, checks of another severity, then figures."""
    told = sum(each.severity_differs for each in found.checks)
    if not found.checks and not found.identity:
        same = tr("The two machines agree in all {n} results.", lang, n=found.same)
        return Text(same, style="bold green")
    title = tr(
        "{told} results are better or worse, {other} differ in figures, {same} agree.", lang,
        told=told, other=len(found.checks) - told, same=found.same,
    )  # fmt: skip
    parts: list[RenderableType] = [Text(title, style="bold")]
    if found.identity:
        parts += [Text(), _identity(found, lang)]
    for each in found.checks:
        parts += [Text(), _check(each, lang)]
    return Group(*parts)


def _columns(lang: str, name: str) -> list[Column]:
    return [
        Column(name, overflow="fold", min_width=12),
        Column(tr("this machine", lang), overflow="fold", ratio=1),
        Column(tr("the other", lang), overflow="fold", ratio=1),
    ]


def _identity(found: Differences, lang: str) -> RenderableType:
    rows = table(*_columns(lang, ""))
    rows.expand = True
    for each in found.identity:
        rows.add_row(Text(each.name, style="dim"), _value(each.here), _value(each.there))
    return rows


def _check(each: CheckDifference, lang: str) -> RenderableType:
    name = each.check if each.device is None else f"{each.check}[{each.device}]"
    rows = table(*_columns(lang, name))
    rows.expand = True
    if each.severity_differs:
        rows.add_row("", _told(each.here, lang), _told(each.there, lang))
    for value in each.values:
        rows.add_row(Text(value.name, style="dim"), *_pair(value))
    return Padding(rows, (0, 0, 0, 0))


def _pair(value: ValueDifference) -> tuple[str, str]:
    return _value(value.here), _value(value.there)


def _told(finding: Finding | None, lang: str) -> Text:
    if finding is None:
        return Text("—", style="dim")
    style = STYLES[finding.severity]
    return Text.assemble((f"{MARKS[finding.severity]} ", style), words(finding.title, lang))


def _value(value: Value) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
