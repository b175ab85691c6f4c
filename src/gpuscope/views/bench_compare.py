"""Two benches side by side on the terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from gpuscope.document import format as units
from gpuscope.document.text import Text as Said
from gpuscope.document.text import render
from gpuscope.measurement.bench.compare import NOISE_SHARE, BenchComparison, Group, PointDifference
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import left, right, section, table

TOP = 12
BOUNDS = {
    "compute": Said("arithmetic"),
    "memory": Said("device memory"),
    "cache": Said("L2 cache"),
    "link": Said("links"),
    "host": Said("host"),
}
"""What bounds points, in words."""


def comparison_document(found: BenchComparison) -> dict[str, Any]:
    """Return the comparison as one JSON document."""
    return {
        "schema": "gpuscope.bench_comparison",
        "version": 1,
        "noise_share": NOISE_SHARE,
        "ill": found.ill,
        "same_device": found.same_device,
        "machines": [dict(m) for m in found.machines],
        "different": {k: list(v) for k, v in found.different.items()},
        "families": [asdict(g) | {"by_clock": g.by_clock} for g in found.families],
        "bounds": [asdict(g) | {"by_clock": g.by_clock} for g in found.bounds],
        "outliers": [
            asdict(d) | {"params": dict(d.params), "ratio": d.ratio} for d in found.outliers
        ],
        "only_first": found.only_first,
        "only_second": found.only_second,
    }


def comparison_card(found: BenchComparison, names: tuple[str, str], lang: str) -> RenderableType:
    """Return the verdict, where it shows, and single points that stand out."""
    parts: list[RenderableType] = [Text(verdict(found, names, lang), style="bold"), Text()]
    if found.different:
        parts.append(_facts(found, names, lang))
    about = tr(
        "Times of {second} over {first}; above 1× {second} is slower. Within {noise} is noise.",
        lang,
        first=names[0],
        second=names[1],
        noise=units.share(NOISE_SHARE, lang),
    )
    if found.bounds:
        parts.append(section(tr("By what bounds it", lang), about, _groups(found.bounds, lang)))
    if found.families:
        parts.append(section(tr("By family", lang), "", _groups(found.families, lang)))
    if found.outliers:
        parts.append(
            section(
                tr("Single points that stand out", lang),
                tr("Against the median of their family, beyond their own scatter.", lang),
                _outliers(found.outliers, lang),
            )
        )
    if found.only_first or found.only_second:
        parts += [
            Text(),
            Text(
                tr(
                    "Only one of them has {first} and {second} points: not compared.",
                    lang,
                    first=found.only_first,
                    second=found.only_second,
                ),
                style="dim",
            ),
        ]
    return Lines(*parts)


def verdict(found: BenchComparison, names: tuple[str, str], lang: str) -> str:
    """Return one sentence: which machine is slower, and where."""
    if not found.families:
        return tr("The two have no point in common.", lang)
    if not found.same_device:
        first, second = (m.get("device", "") for m in found.machines)
        return tr(
            "Different devices ({first}, {second}): differences are expected.",
            lang,
            first=first,
            second=second,
        )
    if not found.ill:
        return tr("Neither machine is slower beyond the noise.", lang)
    parts = []
    for which, name in zip(("first", "second"), names, strict=True):
        worst = [g for g in (*found.bounds, *found.families) if g.slower == which]
        if worst:
            shown = tr(", ", lang).join(_brief(g, lang) for g in worst[:3])
            parts.append(tr("{machine} is slower: {where}", lang, machine=name, where=shown))
    return tr("; ", lang).join(parts) + tr(".", lang)


def _brief(group: Group, lang: str) -> str:
    times = group.ratio if group.ratio > 1 else 1 / group.ratio
    text = f"{_name(group, lang)} {units.ratio(times, lang)}"
    return text + (" " + tr("(its clock is lower)", lang) if group.by_clock else "")


def _name(group: Group, lang: str) -> str:
    return render(BOUNDS.get(group.name, group.name), lang) if group.kind == "bound" else group.name


def _facts(found: BenchComparison, names: tuple[str, str], lang: str) -> RenderableType:
    rows = table(left(tr("differs", lang)), left(names[0]), left(names[1]))
    for fact, (first, second) in found.different.items():
        rows.add_row(fact, first or tr("not available", lang), second or tr("not available", lang))
    return rows


def _groups(groups: tuple[Group, ...], lang: str) -> RenderableType:
    rows = table(
        left(),
        right(tr("points", lang)),
        right(tr("time", lang)),
        right(tr("95 % interval", lang)),
        right(tr("clock ratio", lang)),
        left(),
    )
    for group in groups[:TOP]:
        clock = units.ratio(group.clock_ratio, lang) if group.clock_ratio is not None else ""
        rows.add_row(
            _name(group, lang),
            str(group.points),
            Text(units.ratio(group.ratio, lang), style="bold" if group.slower else ""),
            f"{units.ratio(group.low, lang)}–{units.ratio(group.high, lang)}",
            clock,
            Text(tr("(its clock is lower)", lang) if group.by_clock else "", style="dim"),
        )
    return rows


def _outliers(outliers: tuple[PointDifference, ...], lang: str) -> RenderableType:
    rows = table(
        left(tr("what", lang), 1),
        left(tr("state", lang)),
        right(tr("first", lang)),
        right(tr("second", lang)),
        right(tr("time", lang)),
        left(),
    )
    for each in outliers[:TOP]:
        sizes = " ".join(f"{k}={v}" for k, v in each.params.items())
        rows.add_row(
            f"{each.family} {sizes}",
            each.state,
            units.time(each.first_s, lang),
            units.time(each.second_s, lang),
            units.ratio(each.ratio, lang),
            Text(tr("other kernel", lang) if each.other_kernel else "", style="dim"),
        )
    return rows
