"""The client's own clock: events a few at a time, and how late it was itself.

asyncio looks at its timers only after it has dealt with every socket that was ready. When 1,000
streams bring a token together, that takes tens of milliseconds, and a request whose time has come
is sent so late. `Patient` gives a few sockets at a time, so that timers come in between.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

AT_A_TIME = 32
"""Sockets dealt with between two looks at the timers: about 1 ms of work."""

SHARE_OF_LATENCY = 0.05
LEAST_LATE_S = 0.005
MOST_BUSY = 0.9


class Patient(selectors.DefaultSelector):
    """A selector that gives ready sockets a few at a time.

    Attributes:
        backlogs_s: how long each row of full answers lasted: as late may a token have been stamped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[selectors.SelectorKey, int]] = []
        self._since_s = 0.0
        self.backlogs_s: list[float] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The next few sockets that are ready, of those that were when it last looked."""
        if not self._waiting:
            if self._since_s:
                self.backlogs_s.append(time.perf_counter() - self._since_s)
                self._since_s = 0.0
            self._waiting = super().select(timeout)
            if len(self._waiting) > AT_A_TIME:
                self._since_s = time.perf_counter()
        few, self._waiting = self._waiting[:AT_A_TIME], self._waiting[AT_A_TIME:]
        # One that was closed meanwhile is no longer registered.
        known = self.get_map()
        return [(key, mask) for key, mask in few if known.get(key.fd) is key]


@dataclass(slots=True)
class Own:
    """What the client says of itself.

    Attributes:
        lateness_s: of each request: sent - intended.
        backlogs_s: see `Patient`.
        processor_s, wall_s: of the run.
    """

    lateness_s: list[float] = field(default_factory=list)
    backlogs_s: Sequence[float] = ()
    processor_s: float = 0.0
    wall_s: float = 0.0

    @property
    def lateness_p99_s(self) -> float:
        """Of sending."""
        return float(np.percentile(self.lateness_s, 99)) if self.lateness_s else 0.0

    @property
    def stamp_p99_s(self) -> float:
        """How late tokens were stamped at most, but for a hundredth of the backlogs."""
        return float(np.percentile(self.backlogs_s, 99)) if len(self.backlogs_s) else 0.0

    @property
    def busy(self) -> float:
        """Share of a processor that the client took."""
        return self.processor_s / self.wall_s if self.wall_s else 0.0


def new_loop(selector: Patient) -> asyncio.AbstractEventLoop:
    """An event loop that takes a few sockets at a time."""
    return asyncio.SelectorEventLoop(selector)
