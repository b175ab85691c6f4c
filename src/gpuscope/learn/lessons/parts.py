"""Parts of explanations that lessons show again."""

from __future__ import annotations

from gpuscope.document.blocks import Explanation, Section
from gpuscope.document.text import Text
from gpuscope.learn.effects import machine


def sections(of: Explanation, *titles: str) -> tuple[Section, ...]:
    """Return the sections of an explanation with these English titles (or their beginnings).

    Raises:
        LookupError: it has no such section; a lesson must not lose a part silently.
    """
    found = []
    for title in titles:
        part = next((s for s in of.sections if s.title.startswith(title)), None)
        if part is None:
            raise LookupError(f"{of.title} has no section {title!r}")
        found.append(part)
    return tuple(found)


def measured_source() -> Text:
    """Return what the measured figures of a lesson come from."""
    return Text("Measured: benchmarks/warp_effects.py on an {device}", device=machine().device)
