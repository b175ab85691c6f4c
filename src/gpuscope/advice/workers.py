"""Forecasts on several processes: a capture takes seconds, and advice needs dozens of them.

Each worker is a fresh process with a forecaster of its own (autograd's threads do not survive a
fork). They take seconds to start, so this process begins at once with the first sets, and workers
take from the end.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from gpuscope.advice.results import Forecast, Objective

if TYPE_CHECKING:
    from pathlib import Path

    from gpuscope.program.workload import WorkloadOptions

__all__ = ["MOST", "Asked", "Workers", "processes_here"]

MOST = 8
"""More processes do not help: each takes seconds to start, and half a gigabyte."""

FEWEST = 6
"""Fewer sets than this are predicted before a worker has started."""

PATIENCE_S = 60.0
"""How long a worker is waited for at the end; then its set is predicted here."""

_FAREWELL_S = 5.0
"""How long an idle worker may take to end."""

Names = tuple[str, ...]


def processes_here() -> int:
    """How many to predict on: one a core that is free for it, but no more than help."""
    import os

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, MOST))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a worker makes its forecaster of; can be sent to it."""

    workload: str
    on: str
    options: WorkloadOptions | None
    calibration: str | Path | None
    objective: Objective


class Workers:
    """Processes that forecast; started when they are first worth it.

    No thread here waits for them: captures replace names of torch and threading for a while.

    Args:
        asked: the workload.
        processes: how many, this one included.
    """

    def __init__(self, asked: Asked, processes: int) -> None:
        self._asked, self._count = asked, processes - 1
        self._started: list[_Worker] = []

    def forecast(
        self, sets: Sequence[Names], here: Callable[[Names], Any],
        take: Callable[[Names, Forecast], None],
    ) -> None:  # fmt: skip
        """Have all sets predicted.

        Args:
            sets: of names.
            here: predicts one in this process.
            take: is given what workers predicted.
        """
        if len(sets) >= FEWEST and not self._started:
            self._started = [_Worker.started(self._asked) for _ in range(max(0, self._count))]
        left = list(sets)
        for worker in self._started:
            worker.send(left)
        while left:
            here(left.pop(0))
            for worker in self._started:
                worker.collect(take, left)
        for worker in self._started:
            names = worker.busy
            if names and not worker.collect(take, [], PATIENCE_S):
                here(names)

    def close(self) -> None:
        """End the processes: idle ones by themselves, so that they leave nothing behind."""
        for worker in self._started:
            worker.pipe.close()  # for it, the end
        for worker in self._started:
            if not worker.busy and not worker.lost:
                worker.process.join(_FAREWELL_S)
            worker.process.kill()
            worker.process.join()
        self._started = []


@dataclass
class _Worker:
    """One process, what it is told through, and what it works on; () where idle or lost."""

    process: Any
    pipe: Connection
    busy: Names = ()
    lost: bool = False

    @classmethod
    def started(cls, asked: Asked) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(asked, theirs), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def send(self, left: list[Names]) -> None:
        """Give it the last of what is left."""
        if left and not self.busy and not self.lost:
            names = left.pop()
            try:
                self.pipe.send(names)
                self.busy = names
            except OSError:
                self.lost = True
                left.append(names)

    def collect(
        self, take: Callable[[Names, Forecast], None], left: list[Names], wait_s: float = 0.0
    ) -> bool:
        """Take its answer if there is one, and give it more; whether there was one.

        What it cannot do (or a process that died) goes back to those left.
        """
        names = self.busy
        if not names or self.lost:
            return False
        try:
            if not self.pipe.poll(wait_s):
                self.lost = wait_s > 0
                return False
            answer = self.pipe.recv()
        except (OSError, EOFError):
            self.lost, answer = True, None
        self.busy = ()
        if answer is None:
            if wait_s > 0:
                return False
            left.insert(0, names)
        else:
            take(names, answer)
        self.send(left)
        return True


def _work(asked: Asked, pipe: Connection) -> None:
    """In a worker: predict what comes, until the pipe is closed."""
    import os
    import sys

    import torch

    from gpuscope.advice.forecasting import Forecaster

    torch.set_num_threads(1)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    forecaster = Forecaster(
        asked.workload, asked.on, options=asked.options, calibration=asked.calibration,
        objective=asked.objective,
    )  # fmt: skip
    while True:
        try:
            names = pipe.recv()
        except EOFError:
            return
        try:
            answer = forecaster.forecast(names, interval=len(names) == 1)
        except Exception:  # it knows less than the process that asked: say that it cannot
            answer = None
        pipe.send(answer)
