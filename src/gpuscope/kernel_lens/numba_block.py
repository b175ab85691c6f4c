"""Runs one thread block of Numba's simulator, a thread at a time, and groups what it did by warp.

Numba's own block manager starts all threads at once and polls them; here a thread runs until it
meets a barrier or ends, then the next one: the order is always the same, and nothing has to be
locked.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

from gpuscope.kernel_lens.functions import source_function
from gpuscope.kernel_lens.numba_arrays import Home, Running
from gpuscope.kernel_lens.races import ATOMIC, LOAD, STORE, races
from gpuscope.kernel_lens.recorder import Recorder, Requests, Site
from gpuscope.kernel_lens.types import Barrier, Kind
from gpuscope.kernel_lens.visits import Keys, Sources, Walk

Event = tuple[int, int, int, int, int, int]
"""One lane's access: visit, times that it was here in this visit before, thread, address, size,
barriers passed before."""


_SORTS: dict[Kind, int] = {"load": LOAD, "store": STORE, "atomic": ATOMIC}


class Abandoned(BaseException):
    """A thread that is ended because another one failed."""


class Block:
    """What the threads of one block share.

    Args:
        recorder: takes the requests when the block is done.
        sources: whose functions are followed.
        index: (x, y, z) of the block.
    """

    def __init__(self, recorder: Recorder, sources: Sources, index: tuple[int, ...]) -> None:
        self.recorder = recorder
        self.sources = sources
        x, y, z = index
        nx, ny, _ = recorder.launch.grid
        self.number = x + nx * (y + ny * z)
        self.keys = Keys()
        self.events: dict[tuple[Home, Kind], list[Event]] = defaultdict(list)
        self.visits: dict[tuple[int, int], int] = {}

    def walk(self, thread: int) -> Walk:
        """The way of one thread, noted for the block."""
        warp = thread // self.recorder.machine.warp_size
        visits, count = self.visits, self.recorder.count

        def on_visit(key: int) -> None:
            count(1)
            visits[key, warp] = visits.get((key, warp), 0) + 1

        return Walk(self.sources, self.keys, on_visit, self._on_function)

    def _on_function(self, code: CodeType) -> None:
        functions = self.recorder.launch.functions
        key = (code.co_filename, code.co_name, code.co_firstlineno)
        if key not in functions:
            functions[key] = source_function(code)

    def flush(self) -> None:
        """Hand the block's requests and visits to the recorder."""
        self._find_races()
        for (home, kind), events in self.events.items():
            self._flush_array(home, kind, np.array(events, dtype=np.int64))
        nx, ny, nz = self.recorder.launch.block
        size, threads = self.recorder.machine.warp_size, nx * ny * nz
        for (key, warp), lanes in self.visits.items():
            file, line = self.keys.known[self.keys.places[key]]
            self.recorder.add_activity(file, line, lanes, min(size, threads - warp * size))
        self.events.clear()
        self.visits.clear()

    def _find_races(self) -> None:
        """Note warps that meet in a shared array without a barrier in between."""
        size, found = self.recorder.machine.warp_size, self.recorder.launch.races
        for home in dict.fromkeys(home for home, _ in self.events if home.space == "shared"):
            rows = [
                (interval, address, thread // size, _SORTS[kind], self.keys.places[visit])
                for (owner, kind), events in self.events.items()
                if owner is home
                for visit, _, thread, address, _, interval in events
            ]
            for (line, other), words in races(np.array(rows, dtype=np.int64)).items():
                place = (*self.keys.known[line], *self.keys.known[other], home.name)
                found[place] = found.get(place, 0) + words

    def _flush_array(
        self, home: Home, kind: Kind, events: np.ndarray[Any, np.dtype[np.int64]]
    ) -> None:
        """Hand over the accesses to one array, by the line that makes them."""
        places, line = np.unique(
            [self.keys.places[visit] for visit in events[:, 0].tolist()], return_inverse=True
        )
        for number, place in enumerate(places):
            file, at = self.keys.known[place]
            site = Site(file, at, home.space, kind, home.name)
            self._flush_site(site, events[line.reshape(-1) == number])

    def _flush_site(self, site: Site, events: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        lanes = self.recorder.machine.warp_size
        for size in np.unique(events[:, 4]):
            mine = events[events[:, 4] == size]
            warps, lane = mine[:, 2] // lanes, mine[:, 2] % lanes
            names = np.stack([warps, mine[:, 0], mine[:, 1]], axis=1)
            unique, row = np.unique(names, axis=0, return_inverse=True)
            row = row.reshape(-1)
            addresses = np.zeros((len(unique), lanes), dtype=np.int64)
            active = np.zeros((len(unique), lanes), dtype=bool)
            addresses[row, lane] = mine[:, 3]
            active[row, lane] = True
            blocks = np.full(len(unique), self.number, dtype=np.int64)
            self.recorder.add(site, Requests(blocks, unique[:, 0], addresses, active, int(size)))


class LensThread(threading.Thread):
    """A simulated thread; answers what Numba's simulator asks of its own threads.

    Args:
        manager: of the block.
        target: the kernel with its arguments.
        block_index, thread_index: as Numba's `Dim3`.
        number: of the thread in the block, x fastest.
    """

    def __init__(
        self,
        manager: LensBlockManager,
        target: Callable[[], None],
        block_index: Any,
        thread_index: Any,
        number: int,
    ) -> None:
        super().__init__(target=target, daemon=True)
        self.manager = manager
        self.blockIdx = block_index
        self.threadIdx = thread_index
        self.thread_id = number
        self.walk = manager.shared.walk(number)
        self.waiting_at: tuple[str, int, int] | None = None
        self.interval = 0
        self.error: BaseException | None = None
        self.go = threading.Semaphore(0)

    def run(self) -> None:
        """Run the kernel under the trace; what it raises is kept."""
        try:
            sys.settrace(self.walk.enter)
            try:
                super().run()
            finally:
                sys.settrace(None)
        except BaseException as error:  # every end has to be told to the manager
            self.error = error
        self.waiting_at = None
        self.manager.votes.pop(self.thread_id, None)  # who has ended has no vote
        self.manager.turn.release()

    def syncthreads(self) -> None:
        """Wait for the other threads of the block."""
        self.waiting_at = self.walk.here or ("", 0, 0)
        self.manager.turn.release()
        self.go.acquire()
        if self.manager.failed:
            raise Abandoned
        self.interval += 1

    def _vote(self, value: object) -> list[bool]:
        self.manager.votes[self.thread_id] = bool(value)
        self.syncthreads()
        votes = list(self.manager.votes.values())
        self.syncthreads()
        return votes

    def syncthreads_count(self, value: object) -> int:
        """How many threads bring a true value."""
        return sum(self._vote(value))

    def syncthreads_and(self, value: object) -> int:
        """1 if all threads bring a true value, else 0."""
        return int(all(self._vote(value)))

    def syncthreads_or(self, value: object) -> int:
        """1 if any thread brings a true value, else 0."""
        return int(any(self._vote(value)))


class LensBlockManager:
    """Takes the place of the simulator's `BlockManager` for one block.

    Args:
        function: the kernel's Python function.
        block_dim: threads of the block along x, y, z.
        shared: what the block's threads write down.
        dim3: Numba's class for indices.
    """

    def __init__(
        self, function: Callable[..., None], block_dim: tuple[int, ...], shared: Block, dim3: Any
    ) -> None:
        self.function = function
        self.block_dim = block_dim
        self.shared = shared
        self.dim3 = dim3
        self.turn = threading.Semaphore(0)
        self.failed = False
        self.votes: dict[int, bool] = {}

    def run(self, grid_point: tuple[int, ...], *arguments: Any) -> None:
        """Run all threads of the block.

        Raises:
            BaseException: what a thread raised first.
        """
        nx, ny, nz = self.block_dim
        points = [(x, y, z) for z in range(nz) for y in range(ny) for x in range(nx)]
        threads: list[LensThread] = []
        try:
            for number, point in enumerate(points):
                thread = LensThread(
                    self,
                    lambda: self.function(*arguments),
                    self.dim3(*grid_point),
                    self.dim3(*point),
                    number,
                )
                threads.append(thread)
                Running.thread = thread
                thread.start()
                self._wait_for(thread)
            while waiting := [thread for thread in threads if thread.waiting_at is not None]:
                self._note_barriers(waiting, len(threads))
                for thread in waiting:
                    thread.waiting_at = None
                    Running.thread = thread
                    thread.go.release()
                    self._wait_for(thread)
        except BaseException:
            self._abandon(threads)
            raise
        finally:
            Running.thread = None
            self.shared.flush()

    def _wait_for(self, thread: LensThread) -> None:
        self.turn.acquire()
        if thread.error is not None:
            raise thread.error

    def _abandon(self, threads: list[LensThread]) -> None:
        self.failed = True
        for thread in threads:
            if thread.waiting_at is not None:
                thread.go.release()
                thread.join()

    def _note_barriers(self, waiting: list[LensThread], threads: int) -> None:
        if len({thread.waiting_at for thread in waiting}) == 1 and len(waiting) == threads:
            return
        counts: dict[tuple[str, int], int] = {}
        for thread in waiting:
            assert thread.waiting_at is not None
            place = thread.waiting_at[:2]
            counts[place] = counts.get(place, 0) + 1
        found = self.shared.recorder.launch.barriers
        for (file, line), count in counts.items():
            if count < threads:
                found.setdefault((file, line), Barrier(file, line, count, threads - count))
