"""The mesh of a job on its nodes: which ranks share what, over which links."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from gpuscope.analysis.job import place_of
from gpuscope.analysis.job_types import JobStory
from gpuscope.document import format as units
from gpuscope.document.text import Text as Said
from gpuscope.document.text import render, verbatim
from gpuscope.run import JobPlace, Run
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import left, right, section, table

MOST_NODES = 4
"""Nodes that are drawn; more look alike."""

_STYLES = ("blue", "green", "yellow", "magenta", "cyan", "bright_blue", "bright_green", "red")


def mesh_picture(run: Run, found: JobStory, lang: str) -> RenderableType:
    """Each dimension with its ranks and its link, then the first nodes, rank by rank."""
    rows = table(
        left(tr("dimension", lang)),
        right(tr("size", lang)),
        left(tr("a group of it", lang)),
        left(tr("talks over", lang)),
        right(tr("running", lang)),
        right(tr("not hidden", lang)),
    )
    for (name, size), ranks in zip(found.mesh, first_groups(found.mesh), strict=True):
        running, exposed = means_s(found, name)
        rows.add_row(
            Text(name, style="bold"),
            f"{size:,}",
            Text(short(ranks), style="dim"),
            render(link_of(ranks, run.place), lang),
            units.time(running, lang),
            units.time(exposed, lang),
        )
    parts: list[RenderableType] = [rows]
    if run.place is not None:
        parts += [Text(), Grid(found.mesh, found.world_size, run.place.devices_per_node, lang)]
    about = tr(
        "A device's place says which part it holds: pp 1 is the second stage, tp 0 the "
        "first shard of each layer, dp 3 the fourth replica's data.",
        lang,
    )
    return section(tr("The mesh", lang), about, *parts)


def first_groups(mesh: Sequence[tuple[str, int]]) -> list[tuple[int, ...]]:
    """The group of each dimension that rank 0 is in."""
    found, stride = [], math.prod(size for _, size in mesh)
    for _, size in mesh:
        stride //= size
        found.append(tuple(range(0, size * stride, stride)))
    return found


def short(ranks: Sequence[int]) -> str:
    """Ranks in few characters: "0–7", "0, 8, … 56"."""
    if len(ranks) < 3:
        return ", ".join(map(str, ranks))
    if ranks[1] - ranks[0] == 1:
        return f"{ranks[0]}–{ranks[-1]}"
    return f"{ranks[0]}, {ranks[1]}, … {ranks[-1]}"


def link_of(ranks: Sequence[int], place: JobPlace | None) -> Said:
    """The link that a group's ranks meet on; both where the group has neighbours in a domain."""
    if place is None:
        return Said("not available")
    domains = {rank // place.domain_devices for rank in ranks}
    if len(domains) == 1:
        return verbatim(place.within) if place.within else Said("the host")
    if len(domains) == len(ranks) or not place.within:
        return verbatim(place.between) if place.between else Said("not available")
    return verbatim(f"{place.within} + {place.between}")


def means_s(found: JobStory, label: str) -> tuple[float, float]:
    """Running and exposed seconds of a group's communication, the mean over all ranks."""
    running = exposed = 0.0
    for rank in found.ranks:
        for group in rank.groups:
            if group.label == label:
                share = rank.count / found.world_size
                running += group.running_s * share
                exposed += (group.exposed_s + group.waiting_s) * share
    return running, exposed


@dataclass(frozen=True, slots=True)
class Grid:
    """Ranks on their nodes, each with its coordinates; as many beside each other as fit.

    Attributes:
        mesh: names and sizes, outermost first.
        world_size: ranks.
        node: devices of a node.
        lang: language of the words.
    """

    mesh: tuple[tuple[str, int], ...]
    world_size: int
    node: int
    lang: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the first nodes, and say how many more there are."""
        nodes = -(-self.world_size // self.node)
        drawn = min(nodes, MOST_NODES)
        last = min(drawn * self.node, self.world_size) - 1
        width = max(len(self._cell(rank)) for rank in range(last + 1)) + 1
        head = len(tr("node {n}", self.lang, n=drawn - 1)) + 2
        fit = max(1, (options.max_width - head - 1) // width)
        per_line = min(self.node, 2 ** int(math.log2(fit)))
        for node in range(drawn):
            yield from self._node(node, per_line, width, head)
        if nodes > drawn:
            more = tr("… and {n} more nodes, alike", self.lang, n=f"{nodes - drawn:,}")
            yield Text(more, style="dim")

    def _node(self, node: int, per_line: int, width: int, head: int) -> RenderResult:
        first, end = node * self.node, min((node + 1) * self.node, self.world_size)
        for begin in range(first, end, per_line):
            name = tr("node {n}", self.lang, n=node) if begin == first else ""
            line = Text(name.ljust(head), style="dim")
            line.append("│ ", style="dim")
            for rank in range(begin, min(begin + per_line, end)):
                line.append(self._cell(rank).ljust(width), style=self._style(rank))
            yield line

    def _cell(self, rank: int) -> str:
        at = place_of(rank, self.mesh)
        return "·".join(f"{name}{where}" for (name, _), where in zip(self.mesh, at, strict=True))

    def _style(self, rank: int) -> str:
        """One colour a coordinate of the outermost dimension."""
        return _STYLES[place_of(rank, self.mesh)[0] % len(_STYLES)]
