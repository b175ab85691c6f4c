"""The replica with the fewest requests in its queue and at work; of equals, the first."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.serving.routers import Queue, requests_of


class Router:
    """Looks at all, and remembers nothing."""

    def choose(self, each: int, replicas: Sequence[Queue]) -> int:
        """The one with the fewest requests."""
        return min(range(len(replicas)), key=lambda at: requests_of(replicas[at]))
