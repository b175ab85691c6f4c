"""Forecasts on several processes: a capture takes seconds, and advice needs dozens of them.

Each worker is a fresh process with a forecaster of its own (autograd's threads do not survive a
fork). They take seconds to start, so this process begins at once with the first sets, and workers
take from the end. It is no process of `multiprocessing`, whose children import the caller's script
again, and look for modules in the current folder before all others.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from gpuscope import children
from gpuscope.garbage import rare_collection

__all__ = ["MOST", "Workers", "processes_here"]

MOST = 8
"""More processes do not help: each takes seconds to start, and half a gigabyte."""

FEWEST = 6
"""Fewer sets than this are predicted before a worker has started."""

PATIENCE_S = 60.0
"""How long a worker is waited for at the end; then its set is predicted here."""

_FAREWELL_S = 5.0
"""How long an idle worker may take to end."""

Names = tuple[str, ...]


class Forecasts(Protocol):
    """What a worker asks."""

    def begin_with(self, baseline: Any) -> None:
        """Take the workload as it stands from the process that asks."""

    def answer(self, names: Names) -> Any:
        """What the workload does under these changes."""


Make = Callable[[], Forecasts]


def processes_here() -> int:
    """How many to predict on: one a core that is free for it, but no more than help."""
    import os

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, MOST))


class Workers:
    """Processes that forecast; started when they are first worth it.

    No thread here waits for them: captures replace names of torch and threading for a while.

    Args:
        make: what each makes its forecaster by; it is sent to it.
        processes: how many, this one included.
    """

    def __init__(self, make: Make, processes: int) -> None:
        self._make, self._count = make, processes - 1
        self._started: list[_Worker] = []
        self._told = False

    def start(self, sets: int) -> None:
        """Start them where so many sets are worth it; they import while this process works."""
        if sets >= FEWEST and not self._started:
            self._started = [_Worker.started(self._make) for _ in range(max(0, self._count))]

    def forecast(
        self,
        sets: Sequence[Names],
        here: Callable[[Names], Any],
        take: Callable[[Names, Any], None],
        baseline: Callable[[], Any] = lambda: None,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Have all sets predicted.

        Args:
            sets: of names.
            here: predicts one in this process.
            take: is given what workers answered.
            baseline: makes what they are told first, once.
            over: whether none is to be begun any more; what is at work is waited for.
        """
        self.start(len(sets))
        if self._started and not self._told:
            self._told, about = True, baseline()
            for worker in self._started:
                worker.tell(about)
        left = list(sets)
        for worker in self._started:
            worker.send(left)
        while left and not over():
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
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(_FAREWELL_S)
            worker.process.kill()
            worker.process.wait()
        self._started, self._told = [], False


@dataclass
class _Worker:
    """One process, what it is told through, and what it works on; () where idle or lost."""

    process: Any
    pipe: Connection
    busy: Names = ()
    lost: bool = False

    @classmethod
    def started(cls, make: Make) -> _Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                children.python(__name__, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=children.environment(),
                pass_fds=(theirs.fileno(),),
            )
        worker = cls(process, Connection(ours.detach()))
        try:
            # What the caller's code can import its forecaster's can; "" is the current folder.
            worker.pipe.send(([path for path in sys.path if path], make))
        except OSError:
            worker.lost = True
        return worker

    def tell(self, baseline: Any) -> None:
        """Tell it what all its answers are about."""
        try:
            self.pipe.send(baseline)
        except OSError:
            self.lost = True

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
        self, take: Callable[[Names, Any], None], left: list[Names], wait_s: float = 0.0
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


def main(descriptor: int) -> None:
    """In a worker: predict what comes, until the pipe is closed."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks ends this one
    rare_collection()
    pipe = Connection(descriptor)
    try:
        path, make = pipe.recv()
        sys.path[:] = path
        import torch

        torch.set_num_threads(1)
        _work(make(), pipe)
    except (EOFError, OSError):  # it has gone
        return


def _work(forecaster: Forecasts, pipe: Connection) -> None:
    forecaster.begin_with(pipe.recv())
    while True:
        names = pipe.recv()
        try:
            answer = forecaster.answer(names)
        except Exception:  # it knows less than the process that asked: say that it cannot
            answer = None
        pipe.send(answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
