"""What the blocks share: a heading, a note, and letters that name things on a figure."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from gpuscope.document.text import Text as Said
from gpuscope.views.quantities import words


def titled(title: str, *body: RenderableType, note: Said | None = None, lang: str = "en") -> Group:
    """A figure under its title, with what to see in it below."""
    parts: list[RenderableType] = [Text(title, style="italic"), *body]
    if note is not None:
        parts.append(Text(words(note, lang), style="dim"))
    return Group(*parts)


def clip(text: str, width: int) -> str:
    """A text cut to so many cells; the last is then an ellipsis."""
    shown = Text(text)
    shown.truncate(max(1, width), overflow="ellipsis")
    return shown.plain
