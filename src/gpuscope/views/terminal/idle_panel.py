"""Why the device was idle: where, through whom, how much; and the path that sets the pace."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from gpuscope.analysis.critical_path import CriticalPath
from gpuscope.analysis.idle_spots import IdleSpot
from gpuscope.document import format as units
from gpuscope.run import Run
from gpuscope.views.figures import short_operator
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import Bar, bars, left, right, section, table
from gpuscope.views.words import WORDS, word

LEAST_SHARE = 0.001
"""Spots and segments below this share of the step are left out."""

_NOBODY = ("launch gap", "launch latency", "handing over", "waiting by chance")
"""What the machine itself needs, or chance: no call or operator is behind it."""


def idle_spots(run: Run, lang: str, top: int) -> RenderableType | None:
    """The places where most idle time was lost."""
    step = run.analysis.step_s
    large = [spot for spot in run.analysis.idle_spots if spot.time_s >= LEAST_SHARE * step][:top]
    if not large:
        return None
    rows = table(
        left(tr("cause", lang)),
        left(tr("what the host did", lang), ratio=1),
        right(tr("idle", lang)),
        right(tr("of step", lang)),
        right(tr("times", lang)),
        right(tr("longest", lang)),
    )
    rows.expand = True
    for spot in large:
        rows.add_row(
            word(spot.cause, lang),
            culprit(spot, lang),
            units.time(spot.time_s, lang),
            units.share(spot.time_s / step if step else 0.0, lang),
            units.count(spot.count, lang),
            units.time(spot.longest_s, lang),
        )
    about = tr("Each moment without device work, by what the host did meanwhile.", lang)
    return section(tr("Why the device was idle", lang), about, rows)


def culprit(spot: IdleSpot, lang: str) -> Text:
    """What was at fault, with the operator and the place around it."""
    text = Text(_named(spot.what, spot.cause in _NOBODY, lang))
    if spot.within:
        text.append(" " + tr("in {what}", lang, what=short_operator(spot.within)), style="dim")
    if spot.where:
        text.append(" · " + spot.where, style="dim")
    return text


def _named(what: str, nobody: bool, lang: str) -> str:
    """A name in words; "-" where nothing and nobody is at fault."""
    if not what:
        return "-" if nobody else tr("not recorded", lang)
    return word(what, lang) if what in WORDS else short_operator(what)


def critical_path(run: Run, path: CriticalPath, lang: str, top: int) -> RenderableType:
    """What a step's length is made of, and what each part could save at most."""
    step = sum(path.time_s.values())
    rows = table(
        left(),
        bars(),
        right(tr("time", lang)),
        right(tr("of step", lang)),
        right(tr("could save at most", lang)),
    )
    largest = max(path.time_s.values(), default=0.0)
    for kind, time_s in path.time_s.items():
        if time_s < LEAST_SHARE * step:
            continue
        gain = path.gain_s.get(kind)
        rows.add_row(
            word(kind, lang),
            Bar(time_s / largest if largest else 0.0, 28, "blue"),
            units.time(time_s, lang),
            units.share(time_s / step if step else 0.0, lang),
            "" if gain is None else units.time(gain, lang),
        )
    about = tr(
        "The chain of work and waits that sets the step's length: shortening anything else gains "
        "nothing.",
        lang,
    )
    return section(tr("Critical path", lang), about, rows, Text(), _longest(path, step, lang, top))


def _longest(path: CriticalPath, step: float, lang: str, top: int) -> RenderableType:
    rows = table(
        left(tr("longest on the path", lang), ratio=1),
        left(),
        right(tr("time", lang)),
        right(tr("of step", lang)),
        right(tr("times", lang)),
    )
    rows.expand = True
    for share in path.shares[:top]:
        if share.time_s < LEAST_SHARE * step:
            break
        rows.add_row(
            _named(share.name, share.kind in _NOBODY, lang),
            Text(word(share.kind, lang), style="dim"),
            units.time(share.time_s, lang),
            units.share(share.time_s / step if step else 0.0, lang),
            units.count(share.count, lang),
        )
    return rows
