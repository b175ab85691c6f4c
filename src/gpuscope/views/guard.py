"""What the guard says: for a terminal, as Markdown for a pull request, as lines for GitHub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import StringIO

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text as Line

from gpuscope.analysis.account_types import TERMS
from gpuscope.document.printable import one_line
from gpuscope.document.quantities import Seconds, Share
from gpuscope.document.text import Text, plural, render
from gpuscope.guarding.judge import FIELDS, Cause, Held, Judged, Report, change, changed
from gpuscope.guarding.settings import COUNTS
from gpuscope.guarding.sources import Commit
from gpuscope.views.i18n import tr
from gpuscope.views.run_figures.account import TERM_WORDS, TITLE
from gpuscope.views.terminal.console import WIDTH, Terminal
from gpuscope.views.terminal.layout import left, right, table
from gpuscope.views.words import word

_SIGNS = {"ok": "✓", "worse": "✗", "better": "↓", "off": "–"}
_STYLES = {"ok": "green", "worse": "bold red", "better": "green", "off": "dim"}

_COLUMNS = (Text("baseline"), Text("now"), Text("change"), Text("allowed"))

_ALWAYS = ("step_time", "launches", "peak_memory")
"""Facts that what holds is shown with; the others where there is something to show."""

_TOLD = 0.01
"""Share of the step by which a term of its account changes before it is told."""

_TITLE = 50
"""Characters of a commit's title."""

UPDATE_COMMAND = "gpuscope guard --update"


def guard_terminal(
    report: Report, lang: str = "en", update: str = UPDATE_COMMAND, quiet: bool = False
) -> RenderableType:
    """Return what holds in one table, then what does not and what did it, then the verdict.

    Args:
        report: to tell.
        lang: "en" or "zh".
        update: the command that writes this baseline anew.
        quiet: the verdict alone.
    """
    told = Line(render(verdict(report), lang), style="bold red" if report.failed else "bold green")
    if quiet:
        return told
    parts: list[RenderableType] = []
    holding = [each for each in report.judged if not each.failed]
    if holding:
        parts += [_holding(holding, lang), Line()]
    for each in report.judged:
        if each.failed and each.held:
            parts += [*_worse(each, lang), Line()]
    parts += [Line(_commit(each, lang), style="cyan") for each in _commits(report)]
    parts += [Line(note, style="yellow") for note in _notes(report, lang, update)]
    return Group(*parts, told)


def _holding(holding: Sequence[Judged], lang: str) -> RenderableType:
    facts = _shown_facts(holding)
    rows = table(left(), left(), *(right(render(FIELDS[fact][1], lang)) for fact in facts))
    for each in holding:
        better = any(held.verdict == "better" for held in each.held)
        verdict = "better" if better else "ok"
        cells = _now(each, facts, lang)
        rows.add_row(Line(_SIGNS[verdict], style=_STYLES[verdict]), _place(each, lang), *cells)
    return rows


def _worse(each: Judged, lang: str) -> Iterator[RenderableType]:
    yield Line(f"{_SIGNS['worse']}  {_place(each, lang)}", style="bold red")
    rows = table(left(), left(), *(right(render(name, lang)) for name in _COLUMNS))
    for held in _changed(each):
        style = _STYLES[held.verdict]
        rows.add_row(
            Line(_SIGNS[held.verdict], style=style),
            *_cells(held, lang),
            style=style if held.verdict == "worse" else "",
        )
    yield Padding(rows, (0, 0, 0, 3))
    causes = table(left(), left(), left(), header=False)
    for what, told, cause in _causes(each, lang):
        at = " · ".join(filter(None, _at_fault(cause, lang)))
        causes.add_row(what, told, Line(at, style="cyan"))
    moved = _moved(each, lang)
    if moved:
        causes.add_row(tr("account of the step", lang), moved, style="dim")
    yield Padding(causes, (0, 0, 0, 3))


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
    """Return a comment for a pull request: what got worse and why, what holds, where steps go."""
    lines = [f"### gpuscope: {_md(render(verdict(report), lang))}", ""]
    for each in report.judged:
        if each.failed and each.held:
            rows = [[_SIGNS[held.verdict], *_cells(held, lang)] for held in _changed(each)]
            lines += [f"**{_md(_place(each, lang))}**", ""]
            lines += _md_table(["", "", *(render(name, lang) for name in _COLUMNS)], rows, words=2)
            for what, told, cause in _causes(each, lang):
                at, commits = _at_fault(cause, lang)
                named = f" `{_code(at)}` {commits}".rstrip() if at else ""
                lines.append(f"- **{_md(what)}**: {_md(told)}{named}")
            lines.append("")
    lines += [f"- {each.id} `{_code(each.title[:_TITLE])}`" for each in _commits(report)]
    lines += [""] if _commits(report) else []
    holding = [each for each in report.judged if not each.failed]
    if holding:
        facts = _shown_facts(holding)
        heads = ["", *(render(FIELDS[fact][1], lang) for fact in facts)]
        rows = [[f"✓ {_place(each, lang)}", *_now(each, facts, lang)] for each in holding]
        lines += _md_table(heads, rows)
    lines += _md_account(report, lang)
    lines += [f"> {_md(note)}\n" for note in _notes(report, lang)]
    return "\n".join(lines).rstrip() + "\n"


def _md_account(report: Report, lang: str) -> list[str]:
    """The accounts of the steps, folded: a row each, a column for each term."""
    told = [each for each in report.judged if each.account]
    terms = [term for term in TERMS if any(term in each.account for each in told)]
    if not terms:
        return []
    heads = ["", *(render(TERM_WORDS[term], lang) for term in terms)]
    rows = [
        [_place(each, lang), *(_term(each.account.get(term, (0.0, 0.0)), lang) for term in terms)]
        for each in told
    ]
    summary = f"<summary>{_md(render(TITLE, lang))}</summary>"
    return ["<details>", summary, "", *_md_table(heads, rows), "</details>", ""]


def _md_table(heads: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> list[str]:
    """A table with its blank line; `words`: columns of words, before those of figures."""
    aligned = ["---"] * words + ["---:"] * (len(heads) - words)
    every = [[_md(cell) for cell in heads], aligned, *([_md(c) for c in row] for row in rows)]
    return [*(f"| {' | '.join(row)} |" for row in every), ""]


def guard_annotations(report: Report, lang: str = "en") -> Iterator[str]:
    """Yield GitHub's workflow commands: an error on each line that made something worse."""
    found: dict[str, list[str]] = {}
    for each in report.judged:
        facts = ", ".join(
            f"{name} {before} → {now} ({more})"
            for held in each.held
            if held.verdict == "worse"
            for name, before, now, more, _ in (_cells(held, lang),)
        )
        of_line: dict[str, list[str]] = {}
        for what, told, cause in _causes(each, lang):
            for line in cause.lines[:1]:
                commit = cause.commits.get(line)
                wrote = f" ({_commit(commit, lang)})" if commit else ""
                of_line.setdefault(line, []).append(f"{what}: {told}{wrote}")
        for line, texts in (of_line or ({"": []} if facts else {})).items():
            found.setdefault(line, []).extend((f"{_place(each, lang)}: {facts}", *texts))
    for line, texts in found.items():
        yield f"::error{_at(line)}::{'%0A'.join(map(_escaped, texts))}"
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


def _changed(each: Judged) -> list[Held]:
    return [held for held in each.held if changed(held)]


def _shown_facts(holding: Sequence[Judged]) -> list[str]:
    """What a table of what holds has columns for."""
    some = {held.fact for each in holding for held in each.held if held.now or held.before}
    return [fact for fact in FIELDS if fact in _ALWAYS or fact in some]


def _now(each: Judged, facts: Sequence[str], lang: str) -> list[str]:
    """What the facts are now, and by how much they changed where they did."""
    shown = {held.fact: _cells(held, lang) for held in each.held}
    others = {held.fact for held in _changed(each)}
    return [
        f"{shown[fact][2]} ({shown[fact][3]})" if fact in others else shown[fact][2]
        for fact in facts
    ]


def _causes(each: Judged, lang: str) -> Iterator[tuple[str, str, Cause]]:
    """What did it and how, in words; each once, whatever it made worse."""
    said: set[str] = set()
    for held in each.held:
        for cause in held.causes:
            if cause.what not in said:
                said.add(cause.what)
                finding = held.fact == "findings"
                what = tr("new finding", lang) if finding else _name(cause.what, lang)
                yield what, one_line(render(cause.told, lang)), cause


def _name(what: str, lang: str) -> str:
    return one_line(what if "::" in what else word(what, lang))


def _at_fault(cause: Cause, lang: str) -> tuple[str, str]:
    """Lines, and their commits; where some were written since the baseline, those alone."""
    lines = [line for line in cause.lines if line in cause.commits] or cause.lines
    commits = dict.fromkeys(cause.commits[line] for line in lines if line in cause.commits)
    names = (commit.id or tr("not committed", lang) for commit in commits)
    return one_line(", ".join(lines)), ", ".join(names)


def _commit(commit: Commit, lang: str) -> str:
    told = f"{commit.id} {commit.title[:_TITLE]}" if commit.id else tr("not committed", lang)
    return one_line(told)


def _commits(report: Report) -> list[Commit]:
    """Those that wrote lines at fault."""
    causes = (cause for each in report.judged for held in each.held for cause in held.causes)
    found = {commit for cause in causes for commit in cause.commits.values() if commit.id}
    return sorted(found, key=lambda commit: commit.id)


def _moved(each: Judged, lang: str) -> str:
    """Terms of the step's account that changed; "" where the baseline has none."""
    step_s = sum(now for _, now in each.account.values())
    return ", ".join(
        f"{render(TERM_WORDS[term], lang)} {_term(each.account[term], lang)}"
        for term in TERMS
        if term in each.account
        and each.account[term][0] is not None
        and abs(each.account[term][1] - (each.account[term][0] or 0.0)) > _TOLD * step_s
    )


def _term(term: tuple[float | None, float], lang: str) -> str:
    """A term of the account: what it is, and what it was where that differs."""
    before, now = (None if each is None else Seconds(each).shown(lang) for each in term)
    return f"{before} → {now}" if before not in (None, now) else f"{now}"


def _notes(report: Report, lang: str, update: str = UPDATE_COMMAND) -> Iterator[str]:
    unknown = [_place(each, lang) for each in report.judged if not each.held]
    if unknown:
        yield tr(
            "The baseline does not know {names}. Type: {command}",
            lang,
            names=", ".join(unknown),
            command=update,
        )
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
    verdicts = {held.verdict for each in report.judged for held in each.held}
    if "worse" in verdicts:
        yield tr("If that is meant, type: {command}", lang, command=update)
    elif "better" in verdicts:
        yield tr("Some figures got better. To hold them, type: {command}", lang, command=update)


def _md(text: str) -> str:
    """Text that Markdown takes as it is."""
    return "".join(f"\\{char}" if char in "\\`*_|<>[]" else char for char in one_line(text))


def _code(text: str) -> str:
    """Text for a span of code: no name of a person in it is called."""
    return one_line(text).replace("`", "'")


def _escaped(text: str) -> str:
    """Text as GitHub's workflow commands want it."""
    return one_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _at(line: str) -> str:
    file, colon, number = line.rpartition(":")
    if not colon or not number.isdigit():
        return ""
    file = _escaped(file).replace(":", "%3A").replace(",", "%2C")
    return f" file={file},line={number}"
