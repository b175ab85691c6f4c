"""Pieces of a card: HTML with its styles inline, fit for light and dark notebooks.

Text takes the notebook's colour, quiet text is the same at less strength, lines are half
transparent; only bars have colours of their own, which stand out on white and on black.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from gpuscope.document.blocks import Bar, Bars, Role
from gpuscope.views.pictures.style import colours, part_colours
from gpuscope.views.quantities import cell, words

Tints = Mapping[tuple[str, Role], str]
"""Colours by name and role."""

_LINE = "rgba(128,128,128,.32)"
_FONT = (
    "font:13px/1.5 system-ui,-apple-system,'Segoe UI','PingFang SC','Microsoft YaHei',sans-serif"
)
_DARK_IDLE = "rgba(128,128,128,.28)"
"""Idle time: a light grey on white would blind on black."""


def escape(text: object) -> str:
    """Return text that can stand in HTML."""
    return html.escape(str(text), quote=True)


def frame(title: str, about: str, *body: str) -> str:
    """Return a card: title, one quiet line, and what it holds."""
    inside = "".join(part for part in body if part)
    return (
        f'<div class="gpuscope-card" style="{_FONT};border:1px solid {_LINE};border-radius:8px;'
        'padding:12px 16px;max-width:860px;margin:4px 0">'
        f'<div style="font-weight:600;font-size:15px">{escape(title)}</div>'
        f'<div style="opacity:.68">{escape(about)}</div>{inside}</div>'
    )


def heading(text: str) -> str:
    """Return a small heading inside a card."""
    return f'<div style="font-weight:600;margin:12px 0 4px">{escape(text)}</div>'


def text(said: str, quiet: bool = False) -> str:
    """Return a paragraph."""
    strength = ";opacity:.68" if quiet else ""
    return f'<div style="margin:2px 0{strength}">{escape(said)}</div>'


def tiles(figures: Iterable[tuple[str, str, str]]) -> str:
    """Return headline figures beside each other: name, value, and a quiet line (interval, note)."""
    shown = "".join(
        '<div style="min-width:128px"><div style="opacity:.68;font-size:12px">'
        f'{escape(name)}</div><div style="font-weight:600;font-size:17px">{escape(value)}</div>'
        f'<div style="opacity:.68;font-size:12px">{escape(note)}</div></div>'
        for name, value, note in figures
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px 28px;margin:10px 0 4px">{shown}</div>'


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    marked: Sequence[int] = (),
    left: Sequence[int] = (0,),
) -> str:
    """Return a table; numbers are already text.

    Args:
        head: headings; empty ones for none.
        rows: cells.
        marked: rows that stand out.
        left: columns of words; the others stand right, as figures do.
    """
    begin = "".join(_cell("th", text, i in left, True) for i, text in enumerate(head))
    body = "".join(
        f'<tr style="background:{"rgba(61,154,87,.16)" if number in marked else "transparent"}">'
        + "".join(_cell("td", text, i in left, False) for i, text in enumerate(row))
        + "</tr>"
        for number, row in enumerate(rows)
    )
    top = f"<tr style='background:transparent'>{begin}</tr>" if any(head) else ""
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;margin:4px 0;'
        f'font:inherit;color:inherit;font-variant-numeric:tabular-nums">{top}{body}</table></div>'
    )


def _cell(tag: str, text: str, left: bool, quiet: bool) -> str:
    side = "left" if left else "right"
    strength = "opacity:.68;font-weight:400" if quiet else ""
    return (
        f'<{tag} style="text-align:{side};padding:2px 14px 2px 0;border:0;'
        f'border-bottom:1px solid {_LINE};max-width:420px;{strength}">{escape(text)}</{tag}>'
    )


def bars(block: Bars, lang: str, most: int = 12) -> str:
    """Return bars on one scale, with a legend where they are stacked."""
    tint = part_colours(block, lang)
    shown = {key: _DARK_IDLE if key[1] == "idle" else colour for key, colour in tint.items()}
    top = max([sum(p.value for p in b.parts) for b in block.bars] + [block.limit or 0.0]) or 1.0
    rows = "".join(_bar(bar, block, shown, top, lang) for bar in block.bars[:most])
    more = len(block.bars) - most
    rest = text(f"+ {more}", quiet=True) if more > 0 else ""
    stacked = any(len(bar.parts) > 1 for bar in block.bars)
    return (
        '<div style="display:grid;grid-template-columns:max-content minmax(80px,1fr) max-content;'
        f'gap:3px 12px;align-items:center">{rows}</div>{rest}' + (_legend(shown) if stacked else "")
    )


def _bar(bar: Bar, block: Bars, tint: Tints, top: float, lang: str) -> str:
    total = sum(part.value for part in bar.parts)
    pieces = "".join(
        f'<span title="{escape(words(part.label, lang))}: '
        f'{escape(cell(part.value, block.unit, lang))}" style="display:block;height:12px;'
        f"width:{100 * part.value / top:.3f}%;"
        f'background:{tint[words(part.label, lang), part.role]}"></span>'
        for part in bar.parts
        if part.value > 0
    )
    note = f" {words(bar.note, lang)}" if bar.note is not None else ""
    label = cell(bar.label, "", lang)
    return (
        f'<div style="max-width:300px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap" '
        f'title="{escape(label)}">{escape(label)}</div>'
        f'<div style="display:flex;border-radius:2px;overflow:hidden">{pieces}</div>'
        f'<div style="font-variant-numeric:tabular-nums">{escape(cell(total, block.unit, lang))}'
        f'<span style="opacity:.68">{escape(note)}</span></div>'
    )


def stack(block: Bars, lang: str) -> str:
    """Return bars of one part each as a single stacked bar with its legend: a breakdown."""
    total = sum(p.value for b in block.bars for p in b.parts) or 1.0
    tint = colours((words(p.label, lang), p.role) for b in block.bars for p in b.parts)
    parts = [(words(p.label, lang), p) for b in block.bars for p in b.parts]
    shades = {key: (_DARK_IDLE if key[1] == "idle" else colour) for key, colour in tint.items()}
    pieces = "".join(
        f'<span title="{escape(name)}: {escape(cell(part.value, block.unit, lang))}" '
        f'style="display:block;width:{100 * part.value / total:.3f}%;'
        f'background:{shades[name, part.role]}"></span>'
        for name, part in parts
    )
    known = {
        (f"{name} {cell(part.value, block.unit, lang)}", part.role): shades[name, part.role]
        for name, part in parts[:8]
    }
    return (
        '<div style="display:flex;height:18px;border-radius:3px;overflow:hidden;margin:6px 0">'
        f"{pieces}</div>{_legend(known)}"
    )


def _legend(tint: Tints) -> str:
    entries = "".join(
        '<span style="display:inline-flex;align-items:center;gap:5px">'
        f'<span style="width:10px;height:10px;border-radius:2px;background:{colour}"></span>'
        f"{escape(name)}</span>"
        for (name, _), colour in tint.items()
    )
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:2px 14px;font-size:12px;opacity:.85;'
        f'margin:4px 0">{entries}</div>'
    )


def fold(title: str, body: str, opened: bool = False) -> str:
    """Return a part that opens on a click, without a script."""
    state = " open" if opened else ""
    return (
        f'<details{state} style="margin:8px 0"><summary style="cursor:pointer;font-weight:600">'
        f"{escape(title)}</summary>{body}</details>"
    )
