"""Parses the chunks of a large file on several processes, in the file's order.

The main process cuts, joins, and parses too while the others are busy. What comes out is the same
as with one process: columns are joined in the file's order, and a chunk that does not parse as a
whole, or follows one that ended within an event, is parsed by the main process when it is its turn.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from gpuscope.document.text import Text
from gpuscope.outside import limits
from gpuscope.timeline.kineto.blocks import BLOCK_BYTES
from gpuscope.timeline.kineto.chunks import Chunks
from gpuscope.timeline.kineto.decode import Reader, typed
from gpuscope.timeline.kineto.parts import Part, absorb, part_of, unpacked
from gpuscope.timeline.kineto.table import Table
from gpuscope.timeline.kineto.worker import ANSWER, CLOSER_LOOK, ORDER, READY

START_BYTES = 32 << 20
"""Uncompressed bytes of a file after which other processes are started: they need some 0.2 s of
processor time to begin, in which one process parses about as much."""

MOST_WORKERS = 3
"""Beside the main process, which cuts and joins: it could not feed more."""

_SLOTS = 2
"""Chunks that a worker has at a time: one that it parses, one that waits."""

_SLOT_BYTES = BLOCK_BYTES + (BLOCK_BYTES >> 1)

_START = (
    "import sys; sys.path[:] = {path!r}; from gpuscope.timeline.kineto.worker import main; main()"
)


class _Task:
    """One chunk on its way, with the text before it and what became of it."""

    __slots__ = ("before", "chunk", "done", "part")

    def __init__(self, chunk: bytes, before: bytes) -> None:
        self.chunk, self.before = chunk, before
        self.part: Part | None = None
        self.done = False

    def finish(self, part: Part | None) -> None:
        self.part, self.done = part, True


class _Worker:
    """One process and its shared memory; a process that fails is used no more."""

    def __init__(self) -> None:
        self._tasks: deque[tuple[int, _Task]] = deque()
        self._free = list(range(_SLOTS))
        self._ready = self._gone = False
        descriptor = os.memfd_create("gpuscope")
        try:
            os.ftruncate(descriptor, _SLOTS * _SLOT_BYTES)
            self._memory = mmap.mmap(descriptor, 0)
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-c",
                    _START.format(path=sys.path),
                    str(descriptor),
                    str(_SLOT_BYTES),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                bufsize=0,
            )
        finally:
            os.close(descriptor)
        assert self._process.stdout is not None
        self._answers = select.poll()
        self._answers.register(self._process.stdout, select.POLLIN | select.POLLHUP)

    def take(self, task: _Task, is_own: bool) -> bool:
        """Give it a chunk, if it has room."""
        self.listen(0.0)
        if not self._ready or not self._free or len(task.chunk) > _SLOT_BYTES:
            return False
        slot = self._free.pop()
        begin = slot * _SLOT_BYTES
        self._memory[begin : begin + len(task.chunk)] = task.chunk
        self._tasks.append((slot, task))
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(ORDER.pack(begin, len(task.chunk), is_own))
        except OSError:
            self._give_up()
        return True

    def has(self, task: _Task) -> bool:
        """Whether the chunk is there and not yet done."""
        return any(own is task for _, own in self._tasks)

    def listen(self, timeout_s: float | None) -> None:
        """Take its answers; wait for the first one as long as told (None: until it comes)."""
        stdout = self._process.stdout
        assert stdout is not None
        wait_ms = None if timeout_s is None else timeout_s * 1000
        while not self._gone and self._answers.poll(wait_ms):
            data = stdout.read(ANSWER.size) or b""
            if len(data) != ANSWER.size:
                self._give_up()
                return
            (length,) = ANSWER.unpack(data)
            if length == READY:
                self._ready = True
            else:
                slot, task = self._tasks.popleft()
                task.finish(self._result(slot, length))
                self._free.append(slot)
            wait_ms = 0.0

    def _result(self, slot: int, length: int) -> Part | None:
        if length == CLOSER_LOOK:
            return None
        begin = slot * _SLOT_BYTES
        with memoryview(self._memory) as whole, whole[begin : begin + length] as data:
            return unpacked(data)

    def _give_up(self) -> None:
        """What it has not answered is left to the main process."""
        self._gone, self._ready = True, False
        for _, task in self._tasks:
            task.finish(None)
        self._tasks.clear()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        with suppress(OSError):
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()
        self._memory.close()


def worker_count() -> int:
    """How many processes beside this one are worth starting; 0 where none can be.

    None within a process that `multiprocessing` started (others like it have the processors), with
    one processor, or on systems without anonymous shared files (that is, other than Linux).
    """
    if multiprocessing.parent_process() is not None or not hasattr(os, "memfd_create"):
        return 0
    if not sys.executable or getattr(sys, "frozen", False):
        return 0
    return min(len(os.sched_getaffinity(0)) - 1, MOST_WORKERS)


class Parallel:
    """Takes all events of a file into a table.

    Args:
        chunks: of the file.
        reader: parses those that are not taken by a worker.
        table: is filled.
        workers: processes beside this one; None for as many as are worth it.
        most_events: that the file may hold; None for any number.
    """

    def __init__(
        self,
        chunks: Chunks,
        reader: Reader,
        table: Table,
        workers: int | None = None,
        most_events: int | None = None,
    ) -> None:
        self._most_events = most_events
        self._most = worker_count() if workers is None else workers
        self._chunks, self._reader, self._table = chunks, reader, table
        self._workers: list[_Worker] = []
        self._tasks: deque[_Task] = deque()
        self._seen = 0
        self._may_start = True

    def run(self) -> None:
        """Read to the end of the events; the workers have ended when it returns or raises."""
        with self._ending(), closing(iter(self._chunks)) as chunks:
            for chunk in chunks:
                self._next(chunk)
                self._check()
            while self._tasks:
                self._join()
                self._check()

    def _check(self) -> None:
        most = self._most_events
        if most is not None and self._table.seen > most:
            raise limits.holds_too_many(self._chunks.path, Text("events"), most)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        finally:
            for worker in self._workers:
                worker.close()

    def _next(self, chunk: bytes) -> None:
        table = self._table
        if not table.rows and not table.is_own:
            head = self._chunks.head
            table.is_own = b'"otherData"' in head and b'"origin"' in head
        self._seen += len(chunk)
        if self._may_start and self._seen > START_BYTES:
            self._start()
        task = _Task(chunk, self._chunks.before)
        taken = any(worker.take(task, table.is_own) for worker in self._workers)
        if not taken and not self._tasks:
            table.add(self._reader.parse(chunk))
            return
        self._tasks.append(task)
        if not taken:
            parsed = typed(chunk)
            task.finish(None if parsed is None else part_of(parsed, is_own=table.is_own))
        # All that is done, and more where too much is on its way.
        most = (_SLOTS + 1) * len(self._workers) + 1
        while self._tasks and (self._tasks[0].done or len(self._tasks) > most):
            self._join()

    def _start(self) -> None:
        self._may_start = False
        for _ in range(self._most):
            try:
                self._workers.append(_Worker())
            except OSError:  # no room for another process: go on with those that there are
                return

    def _join(self) -> None:
        """Take in the first chunk on its way; wait for it if need be."""
        task = self._tasks.popleft()
        while not task.done:
            for worker in self._workers:
                if worker.has(task):
                    worker.listen(None)
        if task.part is not None and not self._reader.waiting:
            absorb(self._table, task.part)
            return
        self._table.add(self._reader.parse(task.chunk))
        if self._chunks.ended:  # the others on their way are no events, but what follows them
            for other in self._tasks:
                self._chunks.keep(other.before + other.chunk[1:-1])
            self._tasks.clear()
