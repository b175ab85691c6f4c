"""While a variant waits for its turn, its data-loader workers stand still too.

Otherwise they would fill their queues meanwhile: the next block of steps would find batches for
nothing, and the other variant would share the processor with them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress

__all__ = ["Pausing"]


class Pausing:
    """Stops and continues the processes that `multiprocessing` started from this one."""

    def __init__(self) -> None:
        self._stopped: list[int] = []

    def pause(self) -> None:
        """Stop them where they are."""
        self._stopped = [p.pid for p in multiprocessing.active_children() if p.pid is not None]
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)
        self._stopped = []

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
