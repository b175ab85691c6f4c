"""Kernels by the device's own symbol; the host's operators where there are no kernels."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from gpuscope.analysis.launches import KernelSequence
from gpuscope.analysis.types import Share
from gpuscope.document import format as units
from gpuscope.run import Run
from gpuscope.views.figures import short_operator
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import left, right, section, table

_SHOWN = 6
"""Kernels of a sequence that are named."""

LEAST_SHARE = 0.001
"""Symbols below this share of all kernels' time are left out."""


def symbols(run: Run, lang: str, top: int) -> RenderableType:
    """The kernels that take most device time, by symbol."""
    step = run.analysis.step_s
    rows = table(
        left(tr("symbol", lang), ratio=1),
        right(tr("time", lang)),
        right(tr("of step", lang)),
        right(tr("launches", lang)),
        right(tr("each", lang)),
    )
    rows.expand = True
    least = LEAST_SHARE * sum(share.time_s for share in run.analysis.symbols)
    shown = [share for share in run.analysis.symbols if share.time_s >= least][:top]
    for share in shown:
        rows.add_row(
            share.label,
            units.time(share.time_s, lang),
            units.share(share.time_s / step if step else 0.0, lang),
            units.count(share.count, lang),
            units.time(_runs_s(share) / share.count, lang) if share.count else "",
        )
    parts: list[RenderableType] = [rows]
    rest = len(run.analysis.symbols) - len(shown)
    if rest > 0:
        parts.append(Text(tr("and {n} more (see --json)", lang, n=rest), style="dim"))
    about = tr(
        "The device's own symbols, shortened. Time: of the step, counted once where kernels run "
        "beside each other. Each: how long one launch runs.",
        lang,
    )
    return section(tr("By kernel", lang), about, *parts)


def _runs_s(share: Share) -> float:
    """How long a symbol's kernels run, also beside others; what is counted of them if unknown."""
    return share.time_s if share.running_s is None else share.running_s


def sequences(found: Sequence[KernelSequence], lang: str, top: int) -> RenderableType:
    """Runs of small kernels that come again and again."""
    rows = table(
        left(tr("kernels", lang), ratio=1),
        right(tr("a step", lang)),
        right(tr("time", lang)),
        right(tr("between them", lang)),
    )
    rows.expand = True
    for sequence in found[:top]:
        rows.add_row(
            _told(sequence.kernels, lang),
            units.count(sequence.count, lang),
            units.time(sequence.kernel_s, lang),
            units.time(sequence.gap_s, lang),
        )
    about = tr(
        "Small kernels one after the other on a stream, with no product, attention or collective "
        "between: what a compiler fuses. Time: of a step, all of its runs.",
        lang,
    )
    return section(tr("Sequences that come again", lang), about, rows)


def _told(kernels: Sequence[str], lang: str) -> str:
    """Kernels in order, equal neighbours as one."""
    parts: list[tuple[str, int]] = []
    for kernel in kernels:
        if parts and parts[-1][0] == kernel:
            parts[-1] = (kernel, parts[-1][1] + 1)
        else:
            parts.append((kernel, 1))
    told = [name if count == 1 else f"{count} × {name}" for name, count in parts[:_SHOWN]]
    if len(parts) > _SHOWN:
        told.append(tr("{n} more", lang, n=len(parts) - _SHOWN))
    return " → ".join(told)


def host(run: Run, lang: str, top: int) -> RenderableType:
    """Where the host's own time went, in a recording without device work."""
    shares = run.analysis.host
    total = sum(share.time_s for share in shares)
    rows = table(
        left(tr("operator", lang), ratio=1),
        right(tr("time", lang)),
        right(tr("share", lang)),
        right(tr("calls", lang)),
    )
    rows.expand = True
    for share in shares[:top]:
        rows.add_row(
            short_operator(share.label),
            units.time(share.time_s, lang),
            units.share(share.time_s / total if total else 0.0, lang),
            units.count(share.count, lang),
        )
    about = tr("Each without what it calls in turn; all host threads together.", lang)
    return section(tr("What the host did", lang), about, rows)
