"""A bench on the terminal: the card of a machine, and the list of benches."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from gpuscope.document import format as units
from gpuscope.document.text import render
from gpuscope.measurement.bench.figures import figures
from gpuscope.measurement.bench.registry import Bench
from gpuscope.measurement.bench.types import BenchResult
from gpuscope.views.bench_text import headline, line
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import Bar, bars, left, right, section, table
from gpuscope.views.words import word

MACHINE: tuple[str, ...] = (
    "device",
    "driver",
    "torch",
    "cuda",
    "hip",
    "cudnn",
    "processor",
    "processors",
    "host",
    "host_link",
    "power_limit_w",
)
"""Facts that the card shows, in this order."""


def bench_card(result: BenchResult, lang: str, folder: str = "") -> RenderableType:
    """Return the card: one sentence, the ceilings, how the benches went."""
    found = figures(result)
    device = result.machine.get("device", "")
    parts: list[RenderableType] = []
    sentence = headline(found, device, lang)
    if sentence:
        parts += [Text(sentence, style="bold"), Text()]
    parts.append(_facts(result, lang))
    if found:
        rows = table(
            left(tr("what", lang)),
            right(tr("reached", lang)),
            bars(),
            right(),
            left(),
            left(tr("case", lang)),
        )
        for figure in found:
            each = line(figure, lang)
            share = each.fraction
            rows.add_row(
                each.label,
                Text(each.value, style="bold"),
                Bar(min(1.0, share), 10) if share is not None else "",
                units.share(share, lang) if share is not None else "",
                Text(each.limit, style="dim"),
                Text(each.case, style="dim"),
            )
        about = tr("The bar is the share of what the datasheet states.", lang)
        parts.append(section(tr("What this machine reaches", lang), about, rows))
    parts.append(_runs(result, lang))
    parts += _notes(result, lang, folder)
    return Group(*parts)


def _facts(result: BenchResult, lang: str) -> Text:
    shown = [
        f"{name} {result.machine[name]}"
        if name in ("driver", "torch", "cuda", "hip", "cudnn")
        else f"{result.machine[name]} W"
        if name == "power_limit_w"
        else tr("{count} processors", lang, count=result.machine[name])
        if name == "processors"
        else result.machine[name]
        for name in MACHINE
        if result.machine.get(name)
    ]
    return Text(" · ".join(shown), style="dim")


def _runs(result: BenchResult, lang: str) -> RenderableType:
    rows = table(
        left(tr("bench", lang)),
        right(tr("points", lang)),
        right(tr("time", lang)),
        right(tr("left out", lang)),
        left(),
    )
    for run in result.runs:
        why = render(run.skipped, lang)
        failed = sum(1 for f in result.failures if f.bench == run.name)
        rows.add_row(
            run.name,
            str(run.points),
            units.time(run.seconds, lang) if run.seconds else "",
            str(run.left) if run.left else "",
            Text(
                why or (tr("{count} could not be measured", lang, count=failed) if failed else ""),
                style="dim",
            ),
        )
    about = tr("Left out: what its time did not suffice for.", lang)
    return section(tr("The benches", lang), about, rows)


def _notes(result: BenchResult, lang: str, folder: str) -> list[RenderableType]:
    texts = [render(text, lang) for text in result.warnings]
    if result.interrupted:
        texts.append(
            tr("Interrupted: this is what was measured before. Go on with --resume.", lang)
        )
    slow = sorted(
        {reason for p in result.points for reason in p.throttled or () if "clocks" not in reason}
    )
    if slow:
        texts.append(
            tr(
                "The clock was held down at times: {why}.",
                lang,
                why=tr(", ", lang).join(word(each, lang) for each in slow),
            )
        )
    reasons: dict[str, int] = {}
    for failure in result.failures:
        reasons[failure.reason] = reasons.get(failure.reason, 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1])[:3]:
        texts.append(tr("{count} not measured: {why}", lang, count=count, why=render(reason, lang)))
    if folder:
        texts.append(tr("Saved in {folder}.", lang, folder=folder))
    return [Text(), *(Text(text, style="dim") for text in texts)] if texts else []


def bench_list(benches: Sequence[Bench], lang: str) -> RenderableType:
    """Return the table of all benches."""
    rows = table(
        left(tr("bench", lang)),
        left(tr("what", lang)),
        right("--quick"),
        right(tr("full", lang)),
        left(tr("needs", lang)),
    )
    needs = {"gpu": tr("a GPU", lang), "gpus": tr("two GPUs", lang), "any": ""}
    for bench in benches:
        rows.add_row(
            bench.name,
            render(bench.title, lang),
            units.time(bench.quick_s, lang),
            units.time(bench.full_s, lang),
            needs[bench.needs],
        )
    about = tr("Longest times, on a current data-centre GPU. Choose with --only A,B.", lang)
    return section(tr("The benches", lang), about, rows)
