"""The step by the model's own parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from gpuscope.analysis import fold_layers
from gpuscope.analysis.types import ModuleShare
from gpuscope.document import format as units
from gpuscope.run import Run
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import left, right, section, table
from gpuscope.views.words import word

LEAST_SHARE = 0.01
"""Modules below this share of the step are left out."""

MOST_ROWS = 24

_FOLDED = re.compile(r"\{(\d+)\.\.(\d+)\}$")


def modules(run: Run, lang: str) -> RenderableType:
    """The module tree, equal layers folded into one row."""
    about = tr("Device time with what is inside; equal layers are one row (×12 = twelve).", lang)
    rows = table(
        left(tr("module", lang)),
        left(),
        right(tr("time", lang)),
        right(tr("of step", lang)),
        right(tr("forward", lang)),
        right(tr("backward", lang)),
        right(tr("parameters", lang)),
    )
    counts: dict[int, int] = {}
    for share in _large(fold_layers(run.analysis.modules), run.analysis.step_s):
        counts[share.depth] = share.count
        rows.add_row(
            _name(share, counts.get(share.depth - 1, 1), lang),
            Text(share.class_name, style="dim"),
            units.time(share.time_s, lang),
            units.share(share.time_s / run.analysis.step_s, lang),
            units.time(share.forward_s, lang) if share.forward_s else "",
            units.time(share.backward_s, lang) if share.backward_s else "",
            units.count(share.parameters, lang) if share.parameters else "",
        )
    return section(tr("By module", lang), about, rows)


def _large(tree: Sequence[ModuleShare], step_s: float) -> Iterator[ModuleShare]:
    """The rows that matter, from the top; a deep tree is cut at the depth that fits."""
    large = [share for share in tree if share.time_s >= LEAST_SHARE * step_s]
    for depth in range(max((share.depth for share in large), default=0), 0, -1):
        if len(large) <= MOST_ROWS:
            break
        large = [share for share in large if share.depth < depth or share.depth <= 1]
    yield from large[:MOST_ROWS]


def _name(share: ModuleShare, parent_count: int, lang: str) -> Text:
    """The last part of the path, indented; "×12" where twelve begin to be one row."""
    folded = _FOLDED.search(share.path)
    if share.path.startswith("("):
        label = f"({word(share.path.strip('()'), lang)})"
    elif folded:
        label = f"{folded[1]}…{folded[2]}"
    else:
        label = share.path.rpartition(".")[2] or tr("model", lang)
    text = Text("  " * share.depth + label)
    if share.count > parent_count:
        text.append(f" ×{share.count}", style="dim")
    return text
