"""A diagnosis as plain text, to paste into a bug report: no colours, no boxes, no wrapping."""

from __future__ import annotations

from gpuscope import __version__
from gpuscope.doctor.explanation import LABELS
from gpuscope.doctor.types import SEVERITY_NAMES, Diagnosis, Finding
from gpuscope.document.text import render
from gpuscope.views.doctor import place, summary
from gpuscope.views.i18n import tr


def diagnosis_text(diagnosis: Diagnosis, lang: str = "en") -> str:
    """Return a diagnosis as text, worst first; the last line has no line end."""
    lines = [f"gpuscope doctor {__version__}: {summary(diagnosis, lang)}"]
    lines += [
        f"{render(LABELS.get(name, name), lang)}: {value}"
        for name, value in diagnosis.machine.items()
    ]
    lines.append("")
    for finding in diagnosis.findings:
        lines += _lines(finding, lang)
    return "\n".join(lines).rstrip()


def _lines(finding: Finding, lang: str) -> list[str]:
    mark = f"[{render(SEVERITY_NAMES[finding.severity], lang)}] {place(finding)}"
    title, found = render(finding.title, lang), render(finding.found, lang)
    if finding.severity in ("ok", "unknown"):
        return [f"{mark}: {render(finding.sentence, lang)}"]
    lines = [f"{mark}: {title}"]
    if found:
        known = f" ({finding.known_by})" if finding.known_by else ""
        lines.append(f"    {found}{known}")
    if finding.fix is not None:
        lines.append(f"    {tr('what to do', lang)}: {render(finding.fix, lang)}")
    lines += [f"    $ {command}" for command in finding.commands]
    return lines
