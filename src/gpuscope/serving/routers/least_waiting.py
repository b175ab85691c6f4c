"""As vLLM shares requests among its data-parallel ranks: four times who waits, and who is at work.

After vllm/v1/engine/core_client.py (`DPLBAsyncMPClient.get_core_engine_for_request`); of equals,
the first. There the counts are up to 100 ms old, and what was sent since counts as waiting: here
they are of this moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.serving.routers import Queue


class Router:
    """Looks at all, and remembers nothing."""

    def choose(self, each: int, replicas: Sequence[Queue]) -> int:
        """The one with the least of both."""
        return min(range(len(replicas)), key=lambda at: _score(replicas[at]))


def _score(replica: Queue) -> int:
    waiting = len(replica.waiting) + len(replica.late)
    return 4 * waiting + len(replica.partial) + len(replica.decoding)
