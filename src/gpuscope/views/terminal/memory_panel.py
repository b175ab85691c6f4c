"""Memory: what it holds at the peak, and how it rises and falls over the step."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from gpuscope.analysis.types import MemoryStory
from gpuscope.document import format as units
from gpuscope.document.text import render
from gpuscope.views.figures import resample
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import Bar, area, bars, left, right, section, table
from gpuscope.views.words import word

TOP_HOLDERS = 5
_CURVE_WIDTH, _CURVE_HEIGHT = 72, 4


def memory(story: MemoryStory, step_s: float, lang: str) -> RenderableType:
    """Categories at the peak, the largest holders, and the curve."""
    parts: list[RenderableType] = []
    if story.at_peak:
        parts.append(_categories(story, lang))
    if story.time_s:
        parts += [Text(), _curve(story, step_s, lang)]
    if story.holders:
        parts += [Text(), _holders(story, lang)]
    when = units.time(story.peak_time_s, lang)
    if step_s > 0:
        about = tr("What is allocated at the peak, {time} into the step.", lang, time=when)
    else:
        about = tr("What is allocated at the peak, {time} into the recording.", lang, time=when)
    return section(tr("Memory at the peak", lang), about, *parts)


def _categories(story: MemoryStory, lang: str) -> RenderableType:
    rows = table(left(), bars(), right(), right(), header=False)
    top = max(story.at_peak.values())
    for category, nbytes in story.at_peak.items():
        rows.add_row(
            word(category, lang),
            Bar(nbytes / top if top else 0.0, 36, "green"),
            units.size(nbytes, lang),
            units.share(nbytes / story.peak_bytes if story.peak_bytes else 0.0, lang),
        )
    return rows


def _curve(story: MemoryStory, step_s: float, lang: str) -> Text:
    # Points stand where the curve changes: the last value holds until the step's end.
    times = (*story.time_s, max(step_s, story.time_s[-1]))
    values = (*story.allocated_bytes, story.allocated_bytes[-1])
    curve = resample(times, values, _CURVE_WIDTH)
    text = Text(area(curve, _CURVE_HEIGHT), style="green")
    caption = tr(
        "allocated over the step: lowest {low}, highest {high}",
        lang,
        low=units.size(min(story.allocated_bytes), lang),
        high=units.size(story.peak_bytes, lang),
    )
    text.append(f"\n{caption}", style="dim")
    return text


def _holders(story: MemoryStory, lang: str) -> RenderableType:
    rows = table(left(tr("largest at the peak", lang)), right())
    for label, nbytes in story.holders[:TOP_HOLDERS]:
        rows.add_row(render(label, lang), units.size(nbytes, lang))
    return rows
