"""Parts of explanations that lessons show again."""

from __future__ import annotations

from gpuscope.explain.types import Explanation, Section


def sections(of: Explanation, *titles: str) -> tuple[Section, ...]:
    """Return the sections of an explanation with these English titles (or their beginnings).

    Raises:
        LookupError: it has no such section; a lesson must not lose a part silently.
    """
    found = []
    for title in titles:
        part = next((s for s in of.sections if s.title.en.startswith(title)), None)
        if part is None:
            raise LookupError(f"{of.title.en} has no section {title!r}")
        found.append(part)
    return tuple(found)
