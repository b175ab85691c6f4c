"""One figure block as a picture: matplotlib's `Figure`, SVG text, PNG bytes."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpuscope.document.blocks import Bars, Block, Diagram, Explorer, HeatMap, Lines
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, require_package
from gpuscope.views.pictures import bars, diagram, explorer, heat_map, lines
from gpuscope.views.pictures.style import DPI, settings

FIGURES: Mapping[type, Callable[[Any, str], Any]] = {
    Bars: bars.draw,
    Lines: lines.draw,
    HeatMap: heat_map.draw,
    Diagram: diagram.draw,
    Explorer: explorer.draw,
}
"""Sorts of blocks that are figures, and what draws each. Words, facts and tables are none: a paper
sets them itself."""


_ONE_DRAWS = threading.RLock()


def can_draw(block: Block) -> bool:
    """Return whether a block is a figure."""
    return type(block) in FIGURES


def picture(block: Block, lang: str = "en") -> Any:
    """Return a figure block as a `matplotlib.figure.Figure`, to be changed before it is saved.

    Args:
        block: `Bars`, `Lines`, `HeatMap`, `Diagram` or `Explorer` (as it begins).
        lang: "en" or "zh".

    Raises:
        InvalidValueError: the block is no figure.
        MissingPackageError: matplotlib is not installed.
    """
    with _style():
        return _draw(block, lang)


def svg(block: Block, lang: str = "en") -> str:
    """Return a figure block as SVG; equal blocks give equal text. Raises as `picture`."""
    return _saved(block, lang, "svg", {"Date": None, "Creator": "gpuscope"}).decode("utf-8")


def png(block: Block, lang: str = "en") -> bytes:
    """Return a figure block as PNG; equal blocks give equal bytes. Raises as `picture`."""
    return _saved(block, lang, "png", {"Software": None})


def _saved(block: Block, lang: str, kind: str, about: dict[str, str | None]) -> bytes:
    with _style():
        file = io.BytesIO()
        _draw(block, lang).savefig(file, format=kind, dpi=DPI, metadata=about)
        return file.getvalue()


def _draw(block: Block, lang: str) -> Any:
    draw = FIGURES.get(type(block))
    if draw is None:
        raise InvalidValueError(
            Text("A {name} is not a figure.", name=type(block).__name__),
            "",
            Text("Draw one of: {names}.", names=", ".join(sort.__name__ for sort in FIGURES)),
        )
    return draw(block, lang)


@contextmanager
def _style() -> Iterator[None]:
    """Our settings for a moment; the user's own come back. One thread at a time: the library has
    one set of them."""
    require_package("matplotlib", "Writing figures", "figures")
    import logging

    import matplotlib as mpl

    with _ONE_DRAWS:
        # A font without Chinese is said once, by `missing_font`, not once a character.
        quiet = logging.getLogger("matplotlib.font_manager")
        before = quiet.level
        quiet.setLevel(logging.ERROR)
        import warnings

        try:
            with mpl.rc_context(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Glyph .* missing from font")
                mpl.rcdefaults()
                mpl.rcParams.update(settings())
                yield
        finally:
            quiet.setLevel(before)
