"""The replica that has seen most of the prompt's beginning, while the load is even.

After SGLang's router (policies/cache_aware.rs of sgl-router, its defaults): where the most loaded
replica has over 64 requests more, and 1.5 times those, of the least loaded, the shortest queue
wins; else the one that was sent most of the prompt before, if that is over 0.3 of it, and the one
that was sent least in all otherwise. What was sent counts as seen, whether or not it is still in
that replica's cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.serving.blocks import Name
from gpuscope.serving.routers import Queue, requests_of

UNEVEN_BY, UNEVEN_TIMES, SEEN_SHARE = 64, 1.5, 0.3


class Router:
    """Remembers which beginnings it sent where."""

    def __init__(self) -> None:
        self.sent: list[set[Name]] = []

    def choose(self, each: int, replicas: Sequence[Queue]) -> int:
        """By what was seen; by load where that is uneven."""
        if not self.sent:
            self.sent = [set() for _ in replicas]
        work = replicas[0].work
        names = work.beginnings.names(each)
        loads = [requests_of(replica) for replica in replicas]
        least = loads.index(min(loads))
        at = least
        if max(loads) - min(loads) <= UNEVEN_BY or max(loads) <= UNEVEN_TIMES * min(loads):
            seen = [_seen(names, sent) for sent in self.sent]
            best = seen.index(max(seen))
            at = best
            if max(seen) * work.beginnings.size <= SEEN_SHARE * work.inputs[each]:
                at = min(range(len(replicas)), key=lambda one: (len(self.sent[one]), loads[one]))
        self.sent[at].update(names)
        return at


def _seen(names: Sequence[Name], sent: set[Name]) -> int:
    """Blocks from the beginning on that were sent there."""
    count = 0
    for name in names:
        if name not in sent:
            break
        count += 1
    return count
