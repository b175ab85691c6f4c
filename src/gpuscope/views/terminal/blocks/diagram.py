"""A diagram as a list: what flows from where to where, step by step, the narrowest way marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpuscope.document.blocks import Diagram, Link
from gpuscope.views.i18n import tr
from gpuscope.views.quantities import cell, words
from gpuscope.views.terminal.blocks.layout import titled
from gpuscope.views.terminal.layout import Bar

_MOST_ALIKE = 4
"""Ways of one step that carry the same are named up to so many."""

_MOST_STEPS = 8

_WIDE = 80
"""From so many columns on, rates stand beside the ways."""

_ASIDE = 12 + 11 + 19 + 13


def diagram(block: Diagram, lang: str) -> RenderableType:
    """The flows of the diagram, then what is said of its boxes."""
    parts: list[RenderableType] = [_Flows(block, lang)]
    details = [node for node in block.nodes if node.detail is not None]
    if details:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        for node in details:
            grid.add_row(words(node.label, lang), words(node.detail, lang))
        parts.append(grid)
    return titled(words(block.title, lang), *parts, note=block.note, lang=lang)


@dataclass(frozen=True, slots=True)
class _Flows:
    block: Diagram
    lang: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        stepped = bool(self.block.steps) or any(k.step is not None for k in self.block.links)
        room = options.max_width - (2 if stepped else 0)
        spans = self._spans()
        for first, last in spans[:_MOST_STEPS]:
            if stepped:
                yield self._heading(first, last)
            for alike in _alike(self._links(first, last)):
                yield Padding(self._flow(alike, room), (0, 0, 0, 2 if stepped else 0))
        if len(spans) > _MOST_STEPS:
            left_out = self._last() - (spans[_MOST_STEPS][0] or 0)
            yield Text(tr("and {n} more steps", self.lang, n=left_out), style="dim")

    def _last(self) -> int:
        used = [k.step + 1 for k in self.block.links if k.step is not None]
        return max([len(self.block.steps), *used])

    def _spans(self) -> list[tuple[int | None, int | None]]:
        """Steps to show, (first, last): those that follow one another and are alike together."""
        spans: list[tuple[int | None, int | None]] = []
        if any(k.step is None for k in self.block.links):
            spans.append((None, None))
        before: object = None
        for step in range(self._last()):
            here = [k for k in self.block.links if k.step == step]
            kind = frozenset(replace(k, step=None, label=None) for k in here), self._name(step)
            if kind == before:
                spans[-1] = spans[-1][0], step
            else:
                spans.append((step, step))
            before = kind
        return spans

    def _links(self, first: int | None, last: int | None) -> list[Link]:
        """The ways of a span of steps; without labels where these change from step to step."""
        links = [k for k in self.block.links if k.step == first]
        if first is not None and last is not None and last > first:
            later = {(k.a, k.b, k.label) for k in self.block.links if k.step == last}
            if {(k.a, k.b, k.label) for k in links} != later:
                return [replace(k, label=None) for k in links]
        return links

    def _name(self, step: int) -> str:
        return words(self.block.steps[step], self.lang) if step < len(self.block.steps) else ""

    def _heading(self, first: int | None, last: int | None) -> Text:
        if first is None or last is None:
            return Text(tr("throughout", self.lang), style="dim")
        said = tr("step {n}", self.lang, n=first + 1)
        if last > first:
            said = tr("steps {first} to {last}", self.lang, first=first + 1, last=last + 1)
        name = self._name(first)
        return Text(said + (tr(": ", self.lang) + name if name else ""), style="bold")

    def _flow(self, alike: Sequence[Link], room: int) -> RenderableType:
        """The ways that carry the same: their rate beside them, or below where it is narrow."""
        wide = room >= _WIDE
        grid = Table.grid(padding=(0, 2, 0, 0))
        if wide:
            grid.add_column(width=room - _ASIDE)
            grid.add_column(width=10, justify="right", no_wrap=True)
            grid.add_column()
            grid.add_row(self._ways(alike), *self._rates(alike[0], 10))
            return grid
        grid.add_row(*self._rates(alike[0], 0))
        return Group(self._ways(alike), Padding(grid, (0, 0, 0, 2)))

    def _ways(self, alike: Sequence[Link]) -> Text:
        first = alike[0]
        same = all(link.label == first.label for link in alike)
        text = Text(", ".join(self._way(k, labelled=not same) for k in alike[:_MOST_ALIKE]))
        if len(alike) > _MOST_ALIKE:
            rest = tr("and {n} more like these", self.lang, n=len(alike) - _MOST_ALIKE)
            text.append(tr("; ", self.lang) + rest, style="dim")
        if same and first.label is not None:
            text.append(f"  {words(first.label, self.lang)}", style="dim")
        return text

    def _rates(self, link: Link, bar: int) -> tuple[Text, RenderableType]:
        """What flows, and how much of what the way can carry that is."""
        rate, limit = link.bytes_per_s, link.limit_bytes_per_s
        cells: list[RenderableType] = []
        if rate is not None and limit and bar:
            cells.append(Bar(rate / limit, bar, "red" if link.narrowest else "cyan", "░"))
        said = Text()
        if limit is not None:
            value = cell(limit, "bytes/s", self.lang)
            said.append(f"{tr('at most', self.lang)} {value}  ", style="dim")
        if link.narrowest:
            said.append(f"◀ {tr('narrowest', self.lang)}", style="bold red")
        beside = Table.grid(padding=(0, 1, 0, 0))
        beside.add_row(*cells, said)
        return Text("" if rate is None else cell(rate, "bytes/s", self.lang)), beside

    def _way(self, link: Link, labelled: bool) -> str:
        names = {node.key: words(node.label, self.lang) for node in self.block.nodes}
        arrow = "→" if link.directed else "↔"
        label = f" ({words(link.label, self.lang)})" if labelled and link.label else ""
        return f"{names.get(link.a, link.a)} {arrow} {names.get(link.b, link.b)}{label}"


def _alike(links: Sequence[Link]) -> list[list[Link]]:
    """Ways of one step that carry the same at the same rate, together."""
    found: dict[tuple[object, ...], list[Link]] = {}
    for link in links:
        key = (link.bytes_per_s, link.limit_bytes_per_s, link.narrowest)
        found.setdefault(key, []).append(link)
    return list(found.values())
