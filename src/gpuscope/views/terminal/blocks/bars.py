"""Horizontal bars on one scale, single or stacked, with a line for a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from gpuscope.document.blocks import Bar, Bars, Role
from gpuscope.views.palette import COLOURS
from gpuscope.views.quantities import cell, words
from gpuscope.views.terminal.blocks.layout import clip, titled
from gpuscope.views.terminal.blocks.roles import FILLS

_MOST = 44
"""Cells of the longest bar."""

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bars(block: Bars, lang: str) -> RenderableType:
    """The bars with their totals; a legend where a bar has parts of different sorts."""
    return titled(words(block.title, lang), _Drawn(block, lang), note=block.note, lang=lang)


def _total(bar: Bar) -> float:
    return sum(max(0.0, part.value) for part in bar.parts)


@dataclass(frozen=True, slots=True)
class _Drawn:
    block: Bars
    lang: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        block, lang = self.block, self.lang
        sorts = self._sorts()
        scale = max((bar.start + _total(bar) for bar in block.bars), default=0.0)
        scale = max(scale, block.limit or 0.0)
        labels = [cell(bar.label, "", lang) for bar in block.bars]
        totals = [cell(_total(bar), block.unit, lang) for bar in block.bars]
        room = options.max_width
        aside = min(max(map(cell_len, labels), default=0), room // 3)
        width = room - aside - max(map(cell_len, totals), default=0) - 4
        width = max(6, min(_MOST, width))
        limit_at = None
        if block.limit is not None and scale > 0:
            limit_at = min(width - 1, round(block.limit / scale * width))
        grid = Table.grid(padding=(0, 2, 0, 0))
        for _ in range(3):
            grid.add_column(no_wrap=True)
        grid.columns[2].justify = "right"
        notes = any(bar.note for bar in block.bars)
        for bar, label, total in zip(block.bars, labels, totals, strict=True):
            drawn = self._bar(bar, scale, width, sorts, limit_at)
            grid.add_row(clip(label, aside), drawn, total)
            if notes and bar.note is not None:
                note = words(bar.note, lang)
                grid.add_row("", Text(clip(note, room - aside - 2), style="dim"))
        yield grid
        if limit_at is not None and block.limit is not None:
            yield self._limit(" " * (aside + 2 + limit_at), block.limit)
        if len(sorts) > 1:
            yield self._legend(sorts)

    def _sorts(self) -> list[tuple[str, Role]]:
        """What the legend names: sorts of parts; none where each bar is one part by itself."""
        if all(len(bar.parts) <= 1 for bar in self.block.bars):
            roles = {part.role for bar in self.block.bars for part in bar.parts}
            names = {words(p.label, self.lang) for bar in self.block.bars for p in bar.parts}
            if len(roles) < 2 or not 1 < len(names) <= len(FILLS):
                return []
            own = {cell(bar.label, "", self.lang) for bar in self.block.bars}
            if names <= own:
                return []
        found: dict[tuple[str, Role], None] = {}
        for bar in self.block.bars:
            for part in bar.parts:
                found[words(part.label, self.lang), part.role] = None
        return list(found)

    def _bar(
        self,
        bar: Bar,
        scale: float,
        width: int,
        sorts: list[tuple[str, Role]],
        limit_at: int | None,
    ) -> Text:
        before = min(width - 1, round(bar.start / scale * width)) if scale > 0 else 0
        cells: list[tuple[str, str]] = [(" ", "")] * before
        reached = bar.start
        for part in bar.parts:
            style = COLOURS[part.role]
            reached += max(0.0, part.value)
            ends = reached / scale * width if scale > 0 else 0.0
            if len(sorts) > 1:
                fill = FILLS[sorts.index((words(part.label, self.lang), part.role)) % len(FILLS)]
                more = round(ends) - len(cells)
                # A part that is there is seen, if only as one cell.
                if more == 0 and part.value > 0 and len(cells) < width:
                    more = 1 if ends - len(cells) > 0.1 or not cells else 0
                cells += [(fill, style)] * max(0, min(more, width - len(cells)))
                continue
            eighths = max(before * 8 + 1, round(ends * 8)) if part.value > 0 else 0
            full, rest = divmod(min(eighths, width * 8), 8)
            cells += [("█", style)] * (full - len(cells))
            cells += [(_EIGHTHS[rest], style)] if rest and len(cells) < width else []
        cells += [(" ", "")] * (width - len(cells))
        if limit_at is not None:
            cells[limit_at] = ("│", "bold red")
        return Text.assemble(*cells)

    def _limit(self, indent: str, limit: float) -> Text:
        name = words(self.block.limit_label, self.lang)
        value = cell(limit, self.block.unit, self.lang)
        text = f"{name} {value}".strip()
        # Right of the line where there is room, else left of it.
        before = len(indent) - cell_len(text) - 1
        line = f"{' ' * before}{text} ╵" if before >= 0 else f"{indent}╵ {text}"
        return Text(line, style="red")

    def _legend(self, sorts: Sequence[tuple[str, Role]]) -> RenderableType:
        entries = []
        single = self.block.bars[0] if len(self.block.bars) == 1 else None
        for number, (name, role) in enumerate(sorts):
            entry = Text(FILLS[number % len(FILLS)] * 2, style=COLOURS[role])
            entry.append(" " + name, style="default")
            if single is not None:
                entry.append(self._amount(single, (name, role)), style="default")
            entries.append(entry)
        return Columns(entries, padding=(0, 3, 0, 0))

    def _amount(self, bar: Bar, sort: tuple[str, Role]) -> str:
        """The value of one sort of parts, with its share of the bar."""
        value = sum(p.value for p in bar.parts if (words(p.label, self.lang), p.role) == sort)
        text = f" {cell(value, self.block.unit, self.lang)}"
        total = _total(bar)
        if total and self.block.unit != "share":
            text += f" ({cell(value / total, 'share', self.lang)})"
        return text
