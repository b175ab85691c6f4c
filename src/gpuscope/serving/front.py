"""The one process that requests come in by: those that it works on at a time come out together.

An event loop takes each request a step further in turn, so that of n that come at once none is in
the engine's queue before n times the work on one is done (measured: docs/serving-accuracy.md,
bursts). Who comes while others are on their way joins them, and keeps them for as long. The first
of them is a moment ahead: an engine that has nothing to do begins with it alone.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf

TOGETHER = 256
"""Requests that come out together at most: 64 were measured."""


@dataclass(slots=True)
class _Group:
    ready_s: float
    members: deque[int] = field(default_factory=deque)


@dataclass(slots=True)
class Front:
    """Requests on their way to the queue of an engine, in the order in which they came.

    Attributes:
        groups: what comes out together, and when.
        count: of requests in them.
    """

    groups: deque[_Group] = field(default_factory=deque)
    count: int = 0

    def __len__(self) -> int:
        return self.count

    def add(self, each: int, at_s: float, work_s: float) -> None:
        """A request comes, and takes so much work."""
        last = self.groups[-1] if self.groups else None
        if last is None or at_s >= last.ready_s or len(last.members) >= TOGETHER:
            begins_s = at_s if last is None else max(at_s, last.ready_s)
            last = _Group(begins_s)
            self.groups.append(last)
        last.ready_s += work_s
        last.members.append(each)
        self.count += 1

    @property
    def next_s(self) -> float:
        """When the next ones are in the queue, if nobody joins them; infinite: there are none."""
        return self.groups[0].ready_s if self.groups else inf

    def out(self, by_s: float, most: float = inf) -> list[int]:
        """Those that are in the queue by then, the first of them where no more are wanted."""
        found: list[int] = []
        while self.groups and self.groups[0].ready_s <= by_s and len(found) < most:
            members = self.groups[0].members
            found.append(members.popleft())
            if not members:
                self.groups.popleft()
        self.count -= len(found)
        return found
