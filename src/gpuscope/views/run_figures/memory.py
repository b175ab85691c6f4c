"""Memory over the step, and what it holds at the peak."""

from __future__ import annotations

from gpuscope.document import format as units
from gpuscope.document.blocks import Axis, Bar, Bars, Lines, Mark, Part, Series
from gpuscope.document.text import Text, verbatim
from gpuscope.run import Run
from gpuscope.views.palette import memory_role
from gpuscope.views.words import word_text

_NEAR = 2.5
"""The capacity is drawn where the peak comes within this factor of it."""


def curve(run: Run) -> Lines | None:
    """Return allocated and reserved memory over the step, with its peak."""
    story = run.analysis.memory
    if story is None or len(story.time_s) < 2:
        return None
    end_s = max(run.analysis.step_s, story.time_s[-1])
    times = (*story.time_s, end_s)
    # Points stand where the curve changes: the last value holds until the end.
    allocated = (*map(float, story.allocated_bytes), float(story.allocated_bytes[-1]))
    series = [Series(Text("allocated"), times, allocated, "steps", "memory")]
    if len(story.reserved_curve_bytes) == len(story.time_s):
        reserved = (*map(float, story.reserved_curve_bytes), float(story.reserved_curve_bytes[-1]))
        series.append(Series(Text("reserved"), times, reserved, "steps", "other"))
    size = units.size(story.peak_bytes)
    peak = Text("peak {size}", size=size)
    marks = [Mark(peak, story.peak_time_s, float(story.peak_bytes), "bad")]
    if story.capacity_bytes and story.peak_bytes * _NEAR > story.capacity_bytes:
        usable = Text("usable on the device")
        marks.append(Mark(usable, y=float(story.capacity_bytes)))
    return Lines(
        Text("Memory over the step"),
        Axis(Text("time"), "s"),
        Axis(Text("memory"), "bytes"),
        tuple(series),
        tuple(marks),
    )


def at_peak(run: Run) -> Bars | None:
    """Return the bytes by category at the peak; they add up to it."""
    story = run.analysis.memory
    if story is None or not story.at_peak:
        return None
    bars = []
    for category, nbytes in story.at_peak.items():
        if nbytes > 0:
            share = units.share(nbytes / story.peak_bytes)
            name = word_text(category)
            part = Part(name, float(nbytes), memory_role(category))
            bars.append(Bar(name, (part,), verbatim(share)))
    if not bars:
        return None
    return Bars(Text("Memory at the peak"), "bytes", tuple(bars))
