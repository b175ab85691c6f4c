"""What differs between two machines, on the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from gpuscope.doctor.compare import CheckDifference, Differences, Value, ValueDifference
from gpuscope.doctor.types import Finding
from gpuscope.document.text import render
from gpuscope.views.doctor import MARKS, STYLES
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import table


def render_differences(found: Differences, lang: str = "en") -> RenderableType:
    """Return what differs: the machines, checks of another severity, then figures."""
    given = sum(each.severity_differs for each in found.checks)
    if not found.checks and not found.identity:
        same = tr("The two machines agree in all {n} results.", lang, n=found.same)
        return Text(same, style="bold green")
    title = tr(
        "{told} results are better or worse, {other} differ in figures, {same} agree.",
        lang,
        told=given,
        other=len(found.checks) - given,
        same=found.same,
    )
    rows = table(
        Column("", overflow="fold", ratio=3),
        Column(tr("this machine", lang), overflow="fold", ratio=4),
        Column(tr("the other", lang), overflow="fold", ratio=4),
    )
    rows.expand = True
    for value in found.identity:
        rows.add_row(value.name, *_pair(value, lang))
    known = {value.name for value in found.identity}
    for each in found.checks:
        _add(rows, each, known, lang)
    return Group(Text(title, style="bold"), Text(), rows)


def _add(rows: Table, each: CheckDifference, known: set[str], lang: str) -> None:
    """One check: what was found on either machine, then the figures that differ.

    Figures that tell the machines apart stand above already; a check with no others is left out.
    """
    values = [value for value in each.values if value.name not in known]
    if not each.severity_differs and not values:
        return
    rows.add_row()
    name = each.check if each.device is None else f"{each.check}[{each.device}]"
    rows.add_row(Text(name, style="bold"), _told(each.here, lang), _told(each.there, lang))
    for value in values:
        rows.add_row(Text(f"  {value.name}", style="dim"), *_pair(value, lang))


def _pair(value: ValueDifference, lang: str) -> tuple[str, str]:
    return _value(value.name, value.here, lang), _value(value.name, value.there, lang)


def _told(finding: Finding | None, lang: str) -> Text:
    if finding is None:
        return Text("—", style="dim")
    style = STYLES[finding.severity]
    return Text.assemble((f"{MARKS[finding.severity]} ", style), render(finding.title, lang))


def _value(name: str, value: Value, lang: str) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return tr("yes", lang) if value else tr("no", lang)
    if name.endswith("_bytes") and isinstance(value, int | float):
        return f"{value / 2**30:.4g} GiB"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
