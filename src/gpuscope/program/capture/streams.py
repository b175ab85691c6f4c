"""Which operator waits for which, as streams, events and `Work` objects order them.

Every operator gets a number on one clock that runs from the start of the capture. A point is what
an event marks: the last operator that its stream had been given, and what the stream had been
told to wait for since. The next operator of a stream that waits carries the points' numbers in
`Op.waits`; numbers before the recorded step become negative, counted back from its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpuscope.program.types import Op

Queue = tuple[str, int]
"""Where an operator runs: ("", stream), or (group's name, peer or -1) for communication."""

Points = dict[Queue, int]
"""By queue, the operator to wait for; those before it on its queue are done by then."""


def stream_queue(stream: int) -> Queue:
    """The queue of a stream."""
    return ("", stream)


@dataclass
class StreamOrder:
    """Numbers operators and keeps what each stream waits for.

    Attributes:
        clock: number of the next operator.
        base: number of the first operator of the recorded step.
    """

    clock: int = 0
    base: int = 0
    _last: dict[int, int] = field(default_factory=dict)
    _pending: dict[int, Points] = field(default_factory=dict)
    _seen: dict[int, Points] = field(default_factory=dict)
    _covered: dict[int, Points] = field(default_factory=dict)
    _before: list[tuple[str, int]] = field(default_factory=list)

    def begin_step(self) -> None:
        """The recorded step begins."""
        self.base = self.clock

    def mark(self, stream: int) -> Points:
        """What an event recorded on `stream` now stands for."""
        points: Points = dict(self._pending.get(stream, {}))
        if stream in self._last:
            points[stream_queue(stream)] = self._last[stream]
        return points

    def wait(self, stream: int, points: Points) -> None:
        """Everything given to `stream` from now on comes after `points`."""
        seen = self._seen.setdefault(stream, {})
        pending = self._pending.setdefault(stream, {})
        own = stream_queue(stream)
        for queue, number in points.items():
            if queue == own or seen.get(queue, -1) >= number:
                continue
            for before, done in self._covered.get(number, {}).items():
                seen[before] = max(done, seen.get(before, -1))
                if pending.get(before, done + 1) <= done:
                    del pending[before]
            pending[queue] = max(number, pending.get(queue, -1))

    def issue(
        self, name: str, stream: int, *, works: bool, queue: Queue | None = None
    ) -> tuple[int, ...]:
        """Number one more operator.

        Args:
            name: the operator's name.
            stream: the stream that it was issued to.
            works: it keeps its queue busy; others leave the stream as it is.
            queue: where it runs, if that is not the stream (communication).

        Returns:
            What it waits for, as `Op.waits` says it.
        """
        number = self.clock
        self.clock += 1
        if not self.base:
            self._before.append((name, stream))
        pending = self._pending.get(stream)
        if queue is None and works:
            self._last[stream] = number
        if not pending or not (works or queue is not None):
            return ()
        waits = self.relative(pending)
        if queue is not None:
            self._covered[number] = dict(pending)
        else:
            self._seen[stream].update(pending)
            pending.clear()
        return waits

    def relative(self, points: Points) -> tuple[int, ...]:
        """Points as indices of the recorded step."""
        return tuple(sorted(number - self.base for number in points.values()))

    def settled(self, ops: Sequence[Op]) -> list[Op]:
        """Operators with waits for the step before that mean the same operator of this step.

        The first step does what later ones do not (optimizer states), so that counting back from
        its end may miss: operators of the same name and stream are counted instead.
        """
        return [self._settle(op, ops) if op.waits and op.waits[0] < 0 else op for op in ops]

    def _settle(self, op: Op, ops: Sequence[Op]) -> Op:
        waits = (self._same(w, ops) if w < 0 else w for w in op.waits)
        return replace(op, waits=tuple(sorted({w for w in waits if w is not None})))

    def _same(self, wait: int, ops: Sequence[Op]) -> int | None:
        """The same operator of this step: as many of its name and stream come after it."""
        number = self.base + wait
        if number < 0:
            return None
        wanted = self._before[number]
        after = sum(1 for other in self._before[number + 1 :] if other == wanted)
        alike = [at for at, op in enumerate(ops) if (op.name, op.stream) == wanted]
        return alike[-1 - after] - len(ops) if after < len(alike) else None
