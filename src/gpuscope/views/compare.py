"""Runs side by side: one workload on several devices, or two runs and why they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpuscope.analysis.call_tree import CallDifference
from gpuscope.analysis.compare import IDLE, Comparison, Difference, of_one_step
from gpuscope.analysis.symbols import short_symbol
from gpuscope.document import format as units
from gpuscope.document.text import render
from gpuscope.run import Refused, Run
from gpuscope.run.figures import figures
from gpuscope.views.figures import distinct_names, marked, marks_said, short_operator
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import Bar, bars, class_style, left, right, section, table
from gpuscope.views.words import class_label, word

TOP_ROWS = 10
LONG_NAME = 28


def side_by_side(
    runs: Sequence[Run], lang: str = "en", refused: Sequence[Refused] = ()
) -> RenderableType:
    """Return several runs, one row each, with ratios to the first.

    Args:
        runs: at least one.
        lang: of the words.
        refused: devices that cannot run it: a row each, which says why.
    """
    names = [render(name, lang) for name in distinct_names(runs)]
    about = tr("Ratios are to {first}: 2.00× takes half the time.", lang, first=names[0])
    names = [marked(name, run) for name, run in zip(names, runs, strict=True)]
    times = _times(runs, names, lang)
    for each in refused:
        why = Text(render(each.what, lang), style="red")
        times.add_row(each.device_id, "—", "", "", "", "", why)
    parts: list[RenderableType] = [times]
    parts += [Text(render(said, lang), style="dim") for said in marks_said(runs)]
    parts += [Text(), _resources(runs, names, lang)]
    title = runs[0].name if len({run.name for run in runs}) == 1 else tr("Side by side", lang)
    return section(title, about, *parts)


def _times(runs: Sequence[Run], names: Sequence[str], lang: str) -> Table:
    rows = table(
        left(tr("device", lang)),
        right(tr("step", lang)),
        right(tr("80 % interval", lang)),
        right(tr("speed", lang)),
        bars(),
        right(tr("tokens/s", lang)),
        left(tr("mostly", lang)),
    )
    first_s, fastest_s = runs[0].step_time_s, min(run.step_time_s for run in runs)
    alike = len({of_one_step(run) for run in runs}) == 1
    for run, name in zip(runs, names, strict=True):
        shown = figures(run)
        rate = shown.tokens_per_s if shown.tokens_per_s is not None else shown.samples_per_s
        rows.add_row(
            name,
            Text(units.time(run.step_time_s, lang), style="bold"),
            Text(interval(run, lang), style="dim"),
            units.ratio(first_s / run.step_time_s, lang) if alike and run.step_time_s > 0 else "",
            Bar(
                fastest_s / run.step_time_s if alike and run.step_time_s > 0 else 0.0,
                8,
                "bright_black" if run.evidence == "prior" else "blue",
            ),
            units.count(rate, lang),
            Text(class_label(shown.limiter, lang), style=class_style(shown.limiter)),
        )
    if all(run.tokens is None for run in runs):
        rows.columns[5].header = tr("samples/s", lang)
    return rows


def interval(run: Run, lang: str) -> str:
    """Return "11.5 ms – 13.2 ms"."""
    low, high = run.step_time_interval_s
    return f"{units.time(low, lang)} – {units.time(high, lang)}"


def _resources(runs: Sequence[Run], names: Sequence[str], lang: str) -> Table:
    rows = table(
        left(tr("device", lang)),
        right(tr("peak memory", lang)),
        right(tr("capacity", lang)),
        left(tr("fits?", lang)),
        right("MFU"),
        right(tr("energy", lang)),
        right(tr("$/M tokens", lang)),
    )
    for run, name in zip(runs, names, strict=True):
        used, story = run.analysis.utilisation, run.analysis.memory
        rows.add_row(
            name,
            units.size(run.peak_memory_bytes, lang),
            units.size(story.capacity_bytes if story else None, lang),
            _fits(run, lang),
            units.share(used.mfu if used else None, lang),
            units.energy(run.energy_j, lang),
            units.money(figures(run).usd_per_million_tokens, lang),
        )
    return rows


def _fits(run: Run, lang: str) -> Text:
    if run.fits is None:
        return Text(tr("not available", lang), style="dim")
    if run.fits:
        return Text(tr("yes", lang), style="green")
    missing = run.analysis.memory.missing_bytes if run.analysis.memory else 0
    if not missing:
        return Text(tr("no", lang), style="bold red")
    return Text(tr("{size} too much", lang, size=units.size(missing, lang)), style="bold red")


def difference(found: Comparison, lang: str = "en") -> RenderableType:
    """Return where two runs differ, largest difference first; each table adds up to the whole."""
    summary = render(found.summary, lang)
    a, b = render(found.a, lang), render(found.b, lang)
    parts: list[RenderableType] = [
        Text(summary, style="bold"),
        Text.assemble(("a  ", "dim"), a, "\n", ("b  ", "dim"), b),
    ]
    for title, rows, label in (
        (tr("By class", lang), found.classes, _row_label),
        (tr("By phase", lang), found.phases, _row_label),
        (tr("By kernel family", lang), found.kinds, _row_label),
        (tr("By operator", lang), found.operators, _operator_label),
        (tr("By module", lang), found.modules, _module_label),
    ):
        if rows:
            parts.append(section(title, "", _difference_table(rows, label, lang)))
    if found.tree:
        about = tr("A module's time with all that it calls; the parts that differ.", lang)
        parts.append(section(tr("By call tree", lang), about, _tree_table(found.tree, lang)))
    return Group(*parts)


def _tree_table(tree: Sequence[CallDifference], lang: str) -> Table:
    rows = table(left(), right("a"), right("b"), right("b − a"), bars())
    widest = max(abs(node.difference_s) for node in tree)
    for node in tree:
        name = _module_label(node.path, lang) if node.path else tr("the whole model", lang)
        gain = node.difference_s < 0
        rows.add_row(
            "  " * node.depth + name,
            units.time(node.a_s, lang),
            units.time(node.b_s, lang),
            signed_time(node.difference_s, lang),
            Bar(abs(node.difference_s) / widest, 10, "green" if gain else "red"),
        )
    return rows


def _difference_table(
    differences: Sequence[Difference], label: Callable[[str, str], str], lang: str
) -> Table:
    rows = table(left(), right("a"), right("b"), right("b − a"), bars(), left())
    widest = max(abs(row.difference_s) for row in differences) or 1.0
    # Rounding to nanoseconds leaves differences that are none.
    telling = [row for row in differences if abs(row.difference_s) > 1e-3 * widest]
    for row in telling[:TOP_ROWS] or differences[:1]:
        gain = row.difference_s < 0
        rows.add_row(
            label(row.label, lang),
            units.time(row.a_s, lang),
            units.time(row.b_s, lang),
            signed_time(row.difference_s, lang),
            Bar(abs(row.difference_s) / widest, 10, "green" if gain else "red"),
            Text(render(row.reason, lang), style="dim"),
        )
    return rows


def _row_label(label: str, lang: str) -> str:
    """A time class, a phase or a family in words."""
    return class_label(label, lang) if ": " in label else word(label, lang)


def _operator_label(label: str, lang: str) -> str:
    """An operator's name; of a kernel that no operator launched, its symbol, shortened."""
    if label == IDLE:
        return word(label, lang)
    name = short_operator(label)
    return short_symbol(name) if len(name) > LONG_NAME or "<" in name else name


def _module_label(label: str, lang: str) -> str:
    """A module's path; its underscores are its own."""
    if label.startswith("(") and label.endswith(")"):
        return f"({word(label[1:-1], lang)})"
    return word(label, lang) if label == IDLE else label


def signed_time(value_s: float, lang: str = "en") -> str:
    """Return "+1.20 ms" or "−1.20 ms"."""
    if value_s == 0:
        return units.time(0.0, lang)
    return ("+" if value_s > 0 else "−") + units.time(abs(value_s), lang)
