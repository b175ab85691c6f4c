"""What a device task waits for beyond its own queue.

Two sources. Memory: an operator that reads memory last written in another queue waits for that
writer; the program is taken to be correctly synchronised. Orders: `Op.waits`, what the operator's
stream had been told to wait for (events, `wait_stream`, `Work.wait`, `wait_tensor`).

A stream that was told to wait does so before its next task. So an operator that launches nothing
(`wait_tensor`) hands what it waits for to the next one on its stream; a collective that is issued
from the stream in between waits for it, too, and so does a host that waits for the stream.

An operator is complete when its last task is; one without tasks when its stream was, at that point.
What was written, or ordered, in the step before is a negative row: so many rows back from its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuscope.program.types import Op

Rows = tuple[int, ...]

PIECEWISE = "overlapped"
"""Argument of an operator that reads and writes piece by piece beside what makes and reads these
tensors (`gpuscope.program.models.parallel.software.OVERLAPPED`): its waits alone order it."""


def waits_by_row(
    ops: Sequence[Op],
    op_rows: Sequence[tuple[int, int, int]],
    queues: Sequence[int],
    links: frozenset[int],
    firsts: Mapping[int, int] | None = None,
) -> dict[int, Rows]:
    """Rows to wait for, by row (tasks, and waits of the host).

    Args:
        ops: the step's operators.
        op_rows: (index into `ops`, first row, end row) of each call, in order.
        queues: queue of each row; negative for waits of the host.
        links: queues of communicators, whose tasks do not hold their stream up.
        firsts: rows of a queue that run side by side -> the first of them.
    """
    beside = firsts or {}
    first = _Pass(ops, queues, links, beside, {}, {}, {})
    for call in op_rows:
        first.call(*call)
    total = len(queues)
    writer = {storage: row - total for storage, row in first.writer.items()}
    known = {stream: {row - total for row in rows} for stream, rows in first.told.items()}
    done = {position: tuple(row - total for row in rows) for position, rows in first.done.items()}
    second = _Pass(ops, queues, links, beside, writer, known, done)
    for call in op_rows:
        second.call(*call)
    return second.waits


class _Pass:
    """One walk over a step's calls. The first only learns what a step leaves to the next."""

    def __init__(
        self,
        ops: Sequence[Op],
        queues: Sequence[int],
        links: frozenset[int],
        beside: Mapping[int, int],
        writer: dict[int, int],
        facts: dict[int, set[int]],
        before: dict[int, Rows],
    ) -> None:
        self.ops, self.queues, self.links, self.beside = ops, queues, links, beside
        self.writer, self.told, self.before = writer, facts, before
        self.done: dict[int, Rows] = {}
        self.last: dict[int, int] = {}
        self.waits: dict[int, Rows] = {}

    def call(self, position: int, first: int, end: int) -> None:
        """Take the call of one operator, with its rows [first, end)."""
        op, queues = self.ops[position], self.queues
        ordered = self._ordered(op, position)
        sources = self._written(op) | ordered
        tasks = end
        while tasks > first and queues[tasks - 1] < 0:  # the host's wait comes last
            tasks -= 1
        given = self.told.get(op.stream)
        if first == tasks:
            if sources:
                given = self._tell(op.stream, sources)
            own = self.last.get(op.stream)
            self.done[position] = (*(given or ()), *(() if own is None else (own,)))
        else:
            own = tasks - 1
            if given:
                sources = sources | given
            if queues[own] not in self.links:
                self.last[op.stream] = own
                self.told.pop(op.stream, None)
            elif ordered:
                self._tell(op.stream, ordered)
            if sources:
                self._wait(first, sources)
            self.done[position] = (own,)
            for tensor in op.outputs:
                if tensor.storage >= 0 and not op.args.get(PIECEWISE):
                    self.writer[tensor.storage] = own
        if tasks < end:
            self._wait(tasks, (*self.done[position], *self.told.get(op.stream, ())))

    def _tell(self, stream: int, rows: set[int]) -> set[int]:
        """Let the next task of a stream wait for rows; returns all that it waits for."""
        given = self._latest(self.told.get(stream, set()) | rows)
        self.told[stream] = given
        return given

    def _latest(self, rows: set[int]) -> set[int]:
        """The last rows of each queue: those before them are done by then."""
        if len(rows) < 2:
            return rows
        queues, total = self.queues, len(self.queues)
        last: dict[int, int] = {}
        for row in rows:
            queue = queues[row]
            last[queue] = max(row, last.get(queue, row))
        for queue, row in last.items():
            first = self.beside.get(row % total, row % total)
            last[queue] = first + (row - row % total)
        return {row for row in rows if row >= last[queues[row]]}

    def _written(self, op: Op) -> set[int]:
        """Rows that wrote what the operator reads."""
        if op.view and not op.name.endswith("::wait_tensor"):
            return set()
        if op.args.get(PIECEWISE):
            return set()
        writer = self.writer
        return {writer[t.storage] for t in op.inputs if t.storage in writer}

    def _ordered(self, op: Op, position: int) -> set[int]:
        """Rows of the operators that the operator's stream was told to wait for."""
        rows: set[int] = set()
        for wait in op.waits:
            place = wait if wait >= 0 else len(self.ops) + wait
            known = self.done if 0 <= wait < position else self.before
            rows.update(known.get(place, ()))
        return rows

    def _wait(self, row: int, sources: Iterable[int]) -> None:
        """Keep the sources that lie in other queues (those of its own come first anyway)."""
        queue = self.queues[row]
        foreign = tuple(sorted(self._latest({r for r in sources if self.queues[r] != queue})))
        if foreign:
            self.waits[row] = foreign
