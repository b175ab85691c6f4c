"""What the guard says: for a terminal, as Markdown for a pull request, as lines for GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.console import Group, RenderableType
from rich.text import Text as Line

from gpuscope.document.printable import one_line
from gpuscope.document.quantities import Share
from gpuscope.document.text import Text, plural, render
from gpuscope.guarding.judge import FIELDS, Held, Judged, Report, change
from gpuscope.guarding.settings import COUNTS
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.console import WIDTH, Terminal
from gpuscope.views.terminal.layout import left, right, table
from gpuscope.views.words import word

_SIGNS = {"ok": "✓", "worse": "✗", "better": "↓", "off": "–"}
_STYLES = {"ok": "green", "worse": "bold red", "better": "green", "off": "dim"}

UPDATE_COMMAND = "gpuscope guard --update"


def guard_terminal(
    report: Report, lang: str = "en", update: str = UPDATE_COMMAND
) -> RenderableType:
    """Return a table for each workload and device, then what did it, then the verdict."""
    parts: list[RenderableType] = []
    for each in report.judged:
        parts.append(Line(_place(each, lang), style="bold"))
        if not each.held:
            parts += [Line(_unknown(lang, update), style="red"), Line()]
            continue
        rows = table(
            left(),
            left(),
            right(tr("baseline", lang)),
            right(tr("now", lang)),
            right(tr("change", lang)),
            right(tr("allowed", lang)),
        )
        for held in each.held:
            style = _STYLES[held.verdict]
            rows.add_row(
                Line(_SIGNS[held.verdict], style=style),
                *_cells(held, lang),
                style=style if held.verdict == "worse" else "",
            )
        parts.append(rows)
        parts += [Line(f"  {told}", style="red") for told in _causes(each, lang)]
        parts.append(Line())
    parts += [Line(note, style="yellow") for note in _notes(report, lang, update)]
    parts.append(
        Line(render(verdict(report), lang), style="bold red" if report.failed else "bold green")
    )
    return Group(*parts)


def guard_plain(report: Report, lang: str = "en", update: str = UPDATE_COMMAND) -> str:
    """Return the same for a test's failure: plain text.

    Args:
        report: to tell.
        lang: "en" or "zh".
        update: the command that writes this baseline anew.
    """
    console = Terminal(width=WIDTH, file=StringIO(), color_system=None)
    console.print(guard_terminal(report, lang, update))
    assert isinstance(console.file, StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def guard_markdown(report: Report, lang: str = "en") -> str:
    """Return a comment for a pull request."""
    lines = [f"### gpuscope: {_md(render(verdict(report), lang))}", ""]
    for each in report.judged:
        lines += [f"**{_md(_place(each, lang))}**", ""]
        if not each.held:
            lines += [_md(_unknown(lang)), ""]
            continue
        names = [tr("baseline", lang), tr("now", lang), tr("change", lang), tr("allowed", lang)]
        lines += [f"| | | {' | '.join(names)} |", "|---|---|---:|---:|---:|---:|"]
        for held in each.held:
            cells = [_md(cell) for cell in _cells(held, lang)]
            lines.append(f"| {_SIGNS[held.verdict]} | {' | '.join(cells)} |")
        lines += ["", *(f"- {_md(told)}" for told in _causes(each, lang)), ""]
    lines += [f"> {_md(note)}" for note in _notes(report, lang)]
    return "\n".join(lines).rstrip() + "\n"


def guard_annotations(report: Report, lang: str = "en") -> Iterator[str]:
    """Yield GitHub's workflow commands: an error on each line that made something worse."""
    for each in report.judged:
        if not each.held:
            yield f"::error::{_escaped(f'{_place(each, lang)}: {_unknown(lang)}')}"
        for held in each.held:
            if held.verdict != "worse":
                continue
            _, before, now, more, _ = _cells(held, lang)
            head = f"{_place(each, lang)}: {_fact(held, lang)} {before} → {now} ({more})"
            told = [
                (line, f"{head}; {cause.what}: {render(cause.told, lang)}")
                for cause in held.causes
                for line in cause.lines[:1]
            ]
            for line, text in told or [("", head)]:
                yield f"::error{_at(line)}::{_escaped(text)}"
    for note in _notes(report, lang):
        yield f"::warning::{_escaped(note)}"


def verdict(report: Report) -> Text:
    """Return the whole in one sentence."""
    worse = sum(each.failed for each in report.judged)
    if not worse:
        return plural(
            "The guard holds: {count} prediction is within its limits.",
            "The guard holds: {count} predictions are within their limits.",
            len(report.judged),
        )
    return Text(
        "Worse than the baseline, or without one: {count} of {all} predictions.",
        count=worse,
        all=len(report.judged),
    )


def _place(each: Judged, lang: str) -> str:
    return tr("{workload} on {device}", lang, workload=each.workload, device=each.device)


def _unknown(lang: str, update: str = UPDATE_COMMAND) -> str:
    return tr("The baseline does not know it. Type: {command}", lang, command=update)


def _fact(held: Held, lang: str) -> str:
    return render(FIELDS[held.fact][1], lang)


def _cells(held: Held, lang: str) -> tuple[str, str, str, str, str]:
    """Name, before, now, change, allowed."""
    unit = FIELDS[held.fact][2]
    if held.limit is None:
        allowed = tr("not guarded", lang)
    elif held.fact in COUNTS:
        allowed = f"+{held.limit:g}"
    else:
        allowed = f"+{Share(held.limit).shown(lang)}"
    return (
        _fact(held, lang),
        unit(held.before).shown(lang),
        unit(held.now).shown(lang),
        render(change(held), lang),
        allowed,
    )


def _causes(each: Judged, lang: str) -> Iterator[str]:
    for held in each.held:
        for cause in held.causes:
            at = f"  ({', '.join(cause.lines)})" if cause.lines else ""
            yield one_line(
                f"{_fact(held, lang)}: {word(cause.what, lang)}: {render(cause.told, lang)}{at}"
            )


def _notes(report: Report, lang: str, update: str = UPDATE_COMMAND) -> Iterator[str]:
    for name, then, now in report.versions:
        yield tr(
            "The baseline was made with {name} {then}, this with {now}: that may be the cause.",
            lang,
            name=name,
            then=then or "—",
            now=now or "—",
        )
    for workload, device in report.gone:
        yield tr(
            "The baseline has {workload} on {device}, which is guarded no more.",
            lang,
            workload=workload,
            device=device,
        )
    if any(held.verdict == "better" for each in report.judged for held in each.held):
        yield tr("Some figures got better. To hold them, type: {command}", lang, command=update)


def _md(text: str) -> str:
    """Text that Markdown takes as it is."""
    return "".join(f"\\{char}" if char in "\\`*_|<>[]" else char for char in one_line(text))


def _escaped(text: str) -> str:
    """Text as GitHub's workflow commands want it."""
    return one_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _at(line: str) -> str:
    file, colon, number = line.rpartition(":")
    if not colon or not number.isdigit():
        return ""
    file = _escaped(file).replace(":", "%3A").replace(",", "%2C")
    return f" file={file},line={number}"
