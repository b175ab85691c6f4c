"""The whole interactive page within a notebook."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuscope.document.blocks import Explanation
    from gpuscope.run import Run


class Inline:
    """A page that shows itself in a notebook; `page` is its HTML."""

    def __init__(self, page: str, height_px: int) -> None:
        self.page, self.height_px = page, height_px

    def __repr__(self) -> str:
        return f"Inline({len(self.page):,} characters)"

    def _repr_html_(self) -> str:
        # Sandboxed: its scripts draw the page, and reach neither the notebook nor its server.
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(self.page)}" '
            f'style="width:100%;height:{self.height_px}px;border:1px solid #8884"></iframe>'
        )


def inline(
    value: Run | Explanation | list[Run], lang: str | None = None, height_px: int = 700
) -> Inline:
    """Return the page that `--report` writes, to be shown where it stands.

    Args:
        value: a run, several side by side, or an explanation (of `explain`, `advise`, ...).
        lang: "en" or "zh"; None: as the environment says. The reader can switch.
        height_px: of the frame; the page scrolls within it.

    Raises:
        InvalidValueError: as `gpuscope.write_report`.
    """
    from gpuscope.document.blocks import Explanation
    from gpuscope.views.html import render_explanation, render_report

    if isinstance(value, Explanation):
        return Inline(render_explanation(value, lang), height_px)
    return Inline(render_report(value, lang), height_px)
