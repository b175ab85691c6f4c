"""The cheapest set of points that parts a source from a sink: Dinic's maximum flow.

E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
estimation", 1970. The compiler asks networkx for the same cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

UNBOUNDED = 1 << 60
"""A capacity that no cut goes through."""


def cheapest_cut(
    weights: Sequence[int],
    followers: Mapping[int, Iterable[int]],
    given: Iterable[int],
    wanted: Iterable[int],
) -> tuple[set[int], set[int]]:
    """Points to keep so that each wanted one can be had from kept ones alone.

    Args:
        weights: what keeping each point costs.
        followers: points that are made from each.
        given: points that cannot be made from others: they, or all that follows, must be kept.
        wanted: points that are asked for afterwards.

    Returns:
        The points to keep, and those that are made anew: beyond the cut.
    """
    count = len(weights)
    source, sink = 2 * count, 2 * count + 1
    net = _Net(2 * count + 2)
    for point, weight in enumerate(weights):
        net.edge(2 * point, 2 * point + 1, weight)
    for point, after in followers.items():
        for other in after:
            net.edge(2 * point + 1, 2 * other, UNBOUNDED)
    for point in given:
        net.edge(source, 2 * point, UNBOUNDED)
    for point in wanted:
        net.edge(2 * point + 1, sink, UNBOUNDED)
    net.saturate(source, sink)
    near = net.levels(source)
    kept = {p for p in range(count) if near[2 * p] >= 0 and near[2 * p + 1] < 0}
    return kept, {p for p in range(count) if near[2 * p] < 0}


class _Net:
    """Edges with what they can still carry; an edge and its reverse have neighbouring numbers."""

    def __init__(self, count: int) -> None:
        self.out: list[list[int]] = [[] for _ in range(count)]
        self.to: list[int] = []
        self.left: list[int] = []

    def edge(self, start: int, end: int, capacity: int) -> None:
        for at, other, room in ((start, end, capacity), (end, start, 0)):
            self.out[at].append(len(self.to))
            self.to.append(other)
            self.left.append(room)

    def levels(self, start: int) -> list[int]:
        """Steps from `start` over edges that still have room; -1 where none leads."""
        found = [-1] * len(self.out)
        found[start] = 0
        queue = deque([start])
        while queue:
            at = queue.popleft()
            for edge in self.out[at]:
                other = self.to[edge]
                if self.left[edge] and found[other] < 0:
                    found[other] = found[at] + 1
                    queue.append(other)
        return found

    def saturate(self, start: int, end: int) -> None:
        """Send as much as there is room for."""
        while True:
            levels = self.levels(start)
            if levels[end] < 0:
                return
            tried = [0] * len(self.out)
            while self._send(start, end, levels, tried):
                pass

    def _send(self, start: int, end: int, levels: list[int], tried: list[int]) -> bool:
        """One more way through the levels; False if there is none left."""
        way: list[int] = []
        at = start
        while at != end:
            edges = self.out[at]
            while tried[at] < len(edges):
                edge = edges[tried[at]]
                if self.left[edge] and levels[self.to[edge]] == levels[at] + 1:
                    break
                tried[at] += 1
            if tried[at] < len(edges):
                way.append(edges[tried[at]])
                at = self.to[way[-1]]
            elif not way:
                return False
            else:
                at = self.to[way.pop() ^ 1]
                tried[at] += 1
        room = min(self.left[edge] for edge in way)
        for edge in way:
            self.left[edge] -= room
            self.left[edge ^ 1] += room
        return True
