"""Claims on the terminal: a table of many, one in depth."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column
from rich.text import Text

from gpuscope.document.text import Text as Said
from gpuscope.document.text import render
from gpuscope.learn.claims.registry import counts
from gpuscope.learn.claims.scales import SCALES, in_unit
from gpuscope.learn.claims.types import JUDGEMENTS, Claim, Judged, Judgement
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import bar, table
from gpuscope.views.words import word

STYLES: dict[Judgement, str] = {
    "wrong": "bold red",
    "imprecise": "yellow",
    "depends": "cyan",
    "right": "green",
    "cannot say": "dim",
}
"""Colour of each verdict."""

_MARKS: dict[Judgement, str] = {
    "wrong": "✗",
    "imprecise": "≈",
    "depends": "?",
    "right": "✓",
    "cannot say": "·",
}


def claim_table(judged: Sequence[Judged], lang: str = "en") -> RenderableType:
    """Return claims as a table: id, verdict, the claim and what is true, in the order given."""
    if not judged:
        return Text(tr("No claim matches.", lang))
    rows = table(
        Column(tr("claim no.", lang), no_wrap=True, style="dim"),
        Column(tr("verdict", lang), no_wrap=True),
        Column(tr("the claim", lang), ratio=5, overflow="fold"),
        Column(tr("what is true", lang), ratio=4, overflow="fold"),
    )
    rows.expand = True
    for each in judged:
        verdict = each.verdict.verdict
        rows.add_row(
            each.claim.id,
            Text(f"{_MARKS[verdict]} {verdict_text(verdict, lang)}", style=STYLES[verdict]),
            render(each.claim.words, lang),
            Text(_truth(each, lang), style="dim" if verdict == "cannot say" else ""),
        )
    about = tr("One in depth: gpuscope claims {id}", lang, id=judged[0].claim.id)
    return Group(rows, Text(), _totals(judged, lang), Text(about, style="dim"))


def claim_overview(judged: Sequence[Judged], lang: str = "en") -> RenderableType:
    """Return how many claims of each topic got which verdict, and what to type to see them."""
    columns = [Column(tr("topic", lang), overflow="fold")]
    for verdict in JUDGEMENTS:
        title = Text(_MARKS[verdict], style=STYLES[verdict])
        columns.append(Column(title, justify="right", no_wrap=True))
    rows = table(*columns)
    topics = {each.claim.topic.key: each.claim.topic for each in judged}
    for key, topic in sorted(topics.items(), key=lambda item: render(item[1].name, lang)):
        found = counts([each for each in judged if each.claim.topic.key == key])
        name = Text.assemble(render(topic.name, lang), (f"  {key}", "dim"))
        rows.add_row(name, *(str(count) if count else "" for count in found.values()))
    computed = sum(each.verdict.method != "none" for each in judged)
    about = tr(
        "{n} claims of articles; the verdicts of {computed} were computed.",
        lang,
        n=len(judged),
        computed=computed,
    )
    typed = tr(
        "Read them: gpuscope claims --verdict wrong, --topic memory, nvlink, C-015, --all", lang
    )
    return Group(Text(about), Text(), rows, Text(), _totals(judged, lang), Text(typed, style="dim"))


def _truth(each: Judged, lang: str) -> str:
    """What is true; of a claim that cannot be judged, why not."""
    return render(each.verdict.truth or each.verdict.evidence, lang)


def _totals(judged: Sequence[Judged], lang: str) -> RenderableType:
    """One bar a verdict."""
    rows = table(Column(no_wrap=True), Column(no_wrap=True), Column(justify="right"), header=False)
    for verdict, count in counts(judged).items():
        if count:
            rows.add_row(
                Text(f"{_MARKS[verdict]} {verdict_text(verdict, lang)}", style=STYLES[verdict]),
                bar(count / len(judged), 24, STYLES[verdict].removeprefix("bold ")),
                str(count),
            )
    return rows


def claim_card(judged: Judged, lang: str = "en") -> RenderableType:
    """Return one claim in depth: what it states, the verdict, the true figure, how we know."""
    claim, verdict = judged.claim, judged.verdict
    style = STYLES[verdict.verdict]
    title = Text.assemble(
        (f"{claim.id}  ", "dim"),
        (render(claim.words, lang), "bold"),
        (f"  {render(claim.topic.name, lang)}", "dim"),
    )
    rows = table(Column(style="dim", no_wrap=True), Column(overflow="fold"), header=False)
    rows.add_row(
        tr("verdict", lang),
        Text(f"{_MARKS[verdict.verdict]} {verdict_text(verdict.verdict, lang)}", style=style),
    )
    if claim.numbers:
        rows.add_row(tr("claimed", lang), claimed_text(claim, lang))
    if verdict.truth is not None:
        rows.add_row(tr("what is true", lang), Text(render(verdict.truth, lang), style="bold"))
    rows.add_row(tr("how we know", lang), render(verdict.evidence, lang))
    rows.add_row(tr("method", lang), method_text(verdict.method, lang))
    parts: list[RenderableType] = [title, Text(), Padding(rows, (0, 0, 0, 2))]
    if verdict.sources:
        parts.append(Text(f"\n{tr('Sources', lang)}", style="bold"))
        parts += [Padding(Text(source), (0, 0, 0, 2)) for source in verdict.sources]
    return Group(*parts)


def claimed_text(claim: Claim, lang: str) -> str:
    """The stated value with its unit, a range as "600 GB/s – 900 GB/s"; "" without a number."""
    size = SCALES[claim.unit].size
    return " – ".join(in_unit(value * size, claim.unit).to(lang) for value in claim.numbers)


def verdict_text(verdict: Judgement, lang: str) -> str:
    """The verdict in a language."""
    return word(verdict, lang)


def method_text(method: str, lang: str) -> str:
    """How a verdict was found, in a language."""
    names = {"none": Said("nothing was computed"), "model": Said("cost model")}
    return render(names[method], lang) if method in names else word(method, lang)
