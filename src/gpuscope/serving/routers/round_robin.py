"""One replica after the other."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.serving.routers import Queue


class Router:
    """Knows who got the last one."""

    def __init__(self) -> None:
        self.next = 0

    def choose(self, each: int, replicas: Sequence[Queue]) -> int:
        """The next one."""
        at = self.next % len(replicas)
        self.next += 1
        return at
