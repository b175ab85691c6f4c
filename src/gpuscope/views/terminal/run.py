"""A whole run: the panels that its data allows, in reading order."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text as TextLine

from gpuscope.program.types import Printed
from gpuscope.run import Run
from gpuscope.views.terminal import recorded
from gpuscope.views.terminal.finding_panel import assumptions, findings, no_findings, origins
from gpuscope.views.terminal.hardware_panel import roofline, tasks
from gpuscope.views.terminal.headline import headline
from gpuscope.views.terminal.layout import section
from gpuscope.views.terminal.memory_panel import memory
from gpuscope.views.terminal.module_panel import modules
from gpuscope.views.terminal.time_panel import account, classes, families, operators, phases
from gpuscope.views.words import printed_words, whose


def render_headline(run: Run, lang: str = "en") -> RenderableType:
    """Only the headline, for `--quiet`."""
    return headline(run, lang)


def render_run(run: Run, lang: str = "en", top: int = recorded.TOP) -> RenderableType:
    """Everything worth saying about a run; panels without data are left out.

    Args:
        run: predicted or measured.
        lang: "en" or "zh".
        top: rows of each table of a recording.

    The account and the findings stand near the end, where the eye is when the output stops.
    """
    analysis = run.analysis
    parts: list[RenderableType] = [headline(run, lang)]
    if (said := whose(run)) is not None:
        parts.append(TextLine(said.to(lang), style="dim"))
    if run.program is not None and run.program.printed is not None:
        parts.append(_printed(run.program.printed, lang))
    parts += recorded.first(run, lang)
    if analysis.classes and not analysis.host:
        parts.append(classes(run, lang))
    parts += recorded.causes(run, lang, top)
    if analysis.kinds:
        parts.append(families(run, lang))
    if analysis.phases:
        parts.append(phases(run, lang))
    if analysis.operators:
        parts.append(operators(run, lang))
    parts += recorded.details(run, lang, top)
    if any(share.depth > 0 for share in analysis.modules):
        parts.append(modules(run, lang))
    if analysis.roofline is not None and analysis.roofline.points:
        parts.append(roofline(run, analysis.roofline, lang))
    if any(task.waves > 0 for task in analysis.tasks):  # the host's own work has no waves
        parts.append(tasks(run, lang))
    if analysis.memory is not None:
        parts.append(memory(analysis.memory, analysis.step_s, lang))
    waterfall = account(run, lang)
    if waterfall is not None:
        parts.append(waterfall)
    if analysis.findings:
        parts.append(findings(run, lang))
    elif run.origin == "measured" and analysis.time and analysis.step_s > 0:
        parts.append(no_findings(run, lang))
    if run.measurement is not None:
        from gpuscope.views.terminal.measurement_panel import measurement

        parts.append(measurement(run, run.measurement, lang))
    if run.assumptions:
        parts.append(assumptions(run, lang))
    if run.origins:
        parts.append(origins(run, lang))
    return Group(*parts)


def _printed(printed: Printed, lang: str) -> RenderableType:
    """What a whole script said, on the predicted clock."""
    title, note = printed_words(printed.device)
    return section(title.to(lang), note.to(lang), TextLine(printed.text))
