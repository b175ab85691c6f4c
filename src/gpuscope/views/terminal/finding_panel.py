"""What to change first, what was assumed, and where the figures come from."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gpuscope.analysis.types import Finding
from gpuscope.document import format as units
from gpuscope.document.text import Text as Said
from gpuscope.document.text import render
from gpuscope.run import Run
from gpuscope.views.figures import FIELD_LABELS, finding_text, gain_text
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import section
from gpuscope.views.words import word

TOP_FINDINGS = 6
TOP_ASSUMPTIONS = 8


def findings(run: Run, lang: str) -> RenderableType:
    """The findings, largest gain first."""
    parts: list[RenderableType] = []
    for number, finding in enumerate(run.analysis.findings[:TOP_FINDINGS], start=1):
        parts.append(_finding(number, finding, run, lang))
    return section(tr("What to change first", lang), "", *parts)


def no_findings(run: Run, lang: str) -> RenderableType:
    """That nothing stands out, with how much of the time the device works."""
    busy = sum(s.time_s for s in run.analysis.classes if not s.label.startswith("idle"))
    dark = sum(s.time_s for s in run.analysis.classes if s.label == "idle: unknown")
    share = units.share(busy / run.analysis.step_s, lang)
    text = tr("Nothing stands out. The device works {share} of the time.", lang, share=share)
    if dark > run.analysis.step_s / 2:
        text = tr(
            "No cause can be named: the device works {share} of the time, and for {dark} of it the "
            "recording does not tell what it waited for. Record again, with whole steps marked.",
            lang,
            share=share,
            dark=units.share(dark / run.analysis.step_s, lang),
        )
    return section(tr("What to change first", lang), "", Text(text))


def _finding(number: int, finding: Finding, run: Run, lang: str) -> RenderableType:
    title, evidence, hint = finding_text(finding, lang)
    body = Text(title, style="bold")
    body.append("\n")
    body.append(gain_text(finding, run, lang), style="not bold green")
    body.append(evidence, style="not bold dim")
    if hint:
        body.append("\n→ ", style="not bold cyan")
        body.append(hint, style="not bold")
        body.append(_outcome(finding, run, lang), style="not bold green")
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(f"{number}.", style="bold"), body)
    return grid


def _outcome(finding: Finding, run: Run, lang: str) -> str:
    """The step with it done, where that was simulated."""
    if not finding.predicted_step_s:
        return ""
    said = tr(
        "Predicted with it done: {time} a step ({times} as fast).",
        lang,
        time=units.time(finding.predicted_step_s, lang),
        times=units.ratio(run.analysis.step_s / finding.predicted_step_s, lang),
    )
    saved_s = run.analysis.step_s - finding.predicted_step_s
    if finding.max_gain_s is not None and saved_s > finding.max_gain_s:
        said += " " + tr("Part of that is counted with other findings.", lang)
    return " " + said


def assumptions(run: Run, lang: str) -> RenderableType:
    """What had to be assumed; of a measured run, what is worth knowing of it."""
    shown = run.assumptions[:TOP_ASSUMPTIONS]
    lines = Table.grid(padding=(0, 1))
    for note in shown:
        lines.add_row(Text("·", style="dim"), Text(render(note, lang)))
    if len(run.assumptions) > len(shown):
        n = len(run.assumptions) - len(shown)
        lines.add_row("", Text(tr("and {n} more (see --json)", lang, n=n), style="dim"))
    title = tr("Notes", lang) if run.origin == "measured" else tr("Assumptions", lang)
    return section(title, "", lines)


def origins(run: Run, lang: str) -> RenderableType:
    """Where the figures come from, grouped by origin."""
    parts: list[RenderableType] = []
    grouped: dict[str, list[str]] = {}
    for field, origin in run.origins.items():
        grouped.setdefault(origin, []).append(render(FIELD_LABELS.get(field, field), lang))
    for origin, fields in grouped.items():
        joined = tr(", ", lang).join(fields)
        line = Text.assemble((word(origin, lang), "bold"), tr(": ", lang), joined, tr(". ", lang))
        line.append(_about(origin, lang), style="dim")
        parts.append(line)
    # A recording's energy is not shown, so neither is where an estimate of it would come from.
    if run.analysis.energy is not None and (run.energy_j is not None or not run.timeline.sources):
        source = run.analysis.energy.source
        parts.append(
            Text.assemble((tr("energy", lang), "bold"), tr(": ", lang), render(source, lang))
        )
    return section(tr("Where the figures come from", lang), "", *parts)


_ORIGINS: Mapping[str, Said] = {
    "measured": Said("Read on a real device."),
    "calibrated": Said("Computed with constants measured on this kind of device."),
    "datasheet": Said("Computed with the vendor's figures."),
    "secondary source": Said("Computed with figures that others report of it."),
    "estimated": Said("Computed with constants carried over from other devices."),
    "what-if": Said("Computed with figures that you changed."),
}


def _about(origin: str, lang: str) -> str:
    return render(_ORIGINS[origin], lang) if origin in _ORIGINS else ""
