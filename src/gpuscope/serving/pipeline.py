"""Layers in stages on devices of their own: batches follow each other through them.

As vLLM does it (vllm/v1/engine/core.py, `step_with_batch_queue`): as many batches are under way as
there are stages. The next is planned as soon as one is back, of what is in no batch that is under
way: what decodes stays in its batch (a slot here, SGLang's running_mbs), and the rest of a long
prompt follows its first part in the next batch. Queue and blocks are common.

A stage takes its layers' share of the device's time, the last one the output layer beside it; it
begins when the stage before has handed over, and when it is done with the batch before. The host
works on a batch before its first stage, on one batch at a time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from gpuscope.serving.batch import Batch
from gpuscope.serving.engine import Engine
from gpuscope.serving.front import Front
from gpuscope.serving.iteration import IterationCost, Stages
from gpuscope.serving.record import Record
from gpuscope.serving.replica import Replica
from gpuscope.serving.schedulers import Limits
from gpuscope.serving.work import Work


@dataclass(slots=True)
class _AtWork:
    """Of a slot, what may be put off (`schedulers.AtWork`): nothing of it is under way."""

    partial: dict[int, None]
    decoding: dict[int, None]
    step_count: int
    work: Work


class Slot(Replica):
    """One of the batches that may be under way at a time.

    Args:
        work, engine, limits, cost: of the pipeline.
        rows: of its iterations.
        first: the first slot, whose queue and blocks it shares; None: it is the first.
    """

    def __init__(
        self,
        work: Work,
        engine: Engine,
        limits: Limits,
        cost: IterationCost,
        rows: Record,
        first: Slot | None,
    ) -> None:
        super().__init__(work, engine, limits, cost.device_s, rows)
        self.first = first or self
        self.batch: Batch | None = None  # under way
        self.back_s = 0.0
        if first is None:
            self.through: dict[int, float] = {}  # when the last chunk of a prompt was done
            self.flying: Counter[int] = Counter()  # prompts, and how many batches have them
            return
        self.through, self.flying = first.through, first.flying
        self.waiting, self.late, self.partial = first.waiting, first.late, first.partial
        self.blocks, self.asking = first.blocks, first.asking

    @property
    def queued(self) -> int:
        """Requests that have not begun; the first slot counts them for all."""
        return super().queued if self.first is self else 0

    def begin(self, until: float) -> Batch | None:
        """What goes under way next, with the blocks that it takes on the way."""
        self.batch = super().begin(until)
        if self.batch is not None:
            self.flying.update(self.batch.worked)
            if self.batch.decoding:
                super()._grow(1)
        return self.batch

    def land(self, begun: float, end_s: float, device: float, waits: float) -> None:
        """The batch is back.

        Args:
            begun, end_s: when.
            device: time of it in all stages.
            waits: for stages that others were in, and between stages.
        """
        batch, took = self.batch, end_s - begun
        assert batch is not None
        self.batch, self.now = None, begun
        if self.decoding:  # behind the others' batches
            self.totals[0] += begun - self.back_s
        if batch.decoding:
            self.totals[0] += waits
            self.totals[1] -= waits
        self.flying -= Counter(batch.worked)
        for each in batch.worked:
            self.record.prefill[each] += begun - self.through.get(each, begun)
            self.through[each] = end_s
        if batch.tokens:
            alone = self.iteration_s(0, 0.0, 0, batch.decoding) if batch.decoding else 0.0
            self.worked(batch, took, device, alone)
        else:
            self.decoded(1, took, 0.0, device)
        self.back_s = end_s

    def _grow(self, steps: int) -> None:
        """What a step takes was taken when it went under way."""

    def _unplanned(self) -> tuple[int, ...]:
        work = self.work
        return tuple(each for each in self.partial if work.done[each] < work.goal[each])

    def _preempt(self) -> None:
        if self.decoding or not self.flying:  # else what is under way will make room
            super()._preempt()

    def _victim(self) -> int:
        idle = {each: None for each in self.partial if each not in self.flying}
        return self.policy.victim(_AtWork(idle, self.decoding, self.step_count, self.work))

    def _free(self, each: int) -> None:
        self.through.pop(each, None)
        super()._free(each)


@dataclass(frozen=True, slots=True)
class _Flight:
    end_s: float
    slot: Slot
    begun: float
    device: float
    waits: float


class Pipeline:
    """The stages of one replica.

    Args:
        work, engine, limits: of it; its slots share the sequences that may be at work.
        cost: of an iteration, with the stages.
        stages: of the cost.
        rows: one for each stage, that iterations go to.
    """

    def __init__(
        self,
        work: Work,
        engine: Engine,
        limits: Limits,
        cost: IterationCost,
        stages: Stages,
        rows: Sequence[Record],
    ) -> None:
        count = len(stages.layers)
        each = replace(limits, max_sequences=max(1, limits.max_sequences // count))
        self.slots: list[Slot] = []
        for own in rows:
            first = self.slots[0] if self.slots else None
            self.slots.append(Slot(work, engine, each, cost, own, first))
        self.work, self.record, self.engine, self.cost = work, work.record, engine, cost
        self.stages, self.now = stages, 0.0
        self.shares = [layers / sum(stages.layers) for layers in stages.layers]
        self.done_s = [0.0] * count  # with the last batch, of each stage
        self.flights: deque[_Flight] = deque()
        self.back = deque(self.slots)  # those that may begin, first come first

    @property
    def waiting(self) -> deque[int]:
        """The queue."""
        return self.slots[0].waiting

    @property
    def late(self) -> Front:
        """What is on its way to the queue."""
        return self.slots[0].late

    @property
    def partial(self) -> dict[int, None]:
        """Prompts at work."""
        return self.slots[0].partial

    @property
    def decoding(self) -> list[int]:
        """What decodes, in any batch."""
        return [each for slot in self.slots for each in slot.decoding]

    @property
    def busy(self) -> bool:
        """Whether anything waits or is at work."""
        return any(slot.busy for slot in self.slots)

    @property
    def working(self) -> bool:
        """Whether anything is at work."""
        return any(slot.working for slot in self.slots)

    def join(self, each: int, intended: float, now: float) -> None:
        """A request comes."""
        if not self.busy:
            self.now = max(self.now, now)
        first = self.slots[0]
        first.now = self.now
        first.join(each, intended, now)

    def take_ended(self) -> list[int]:
        """Requests that have ended since somebody asked."""
        return self.late.take_ended()

    def step(self, until: float) -> None:
        """The next batch goes under way, or time passes until one can."""
        self._land()
        if self.slots[0].told():
            return
        for slot in tuple(self.back):
            slot.now = slot.planned = self.now
            slot.see(self.working)
            if self._begun(slot, until):
                return
        if not self.busy:
            return
        by_s = min([until, *(flight.end_s for flight in tuple(self.flights)[:1])])
        comes_s = self.late.next_s(by_s)
        if comes_s <= self.now and self.working and not self.flights:
            return  # something was put off: the rest can begin
        if comes_s > self.now:
            by_s = min(by_s, comes_s)
        if by_s < inf and not self.late.ended:
            self.now = max(self.now, by_s)

    def _begun(self, slot: Slot, until: float) -> bool:
        """Whether a slot has something to do; it is under way then."""
        put_off = -1
        while put_off != slot.row_preemptions:  # the rest may begin
            put_off = slot.row_preemptions
            batch = slot.begin(until)
            if batch is not None:
                self.back.remove(slot)
                self._send(slot, batch)
                return True
        return False

    def _land(self) -> None:
        while self.flights and self.flights[0].end_s <= self.now:
            flight = self.flights.popleft()
            slot = flight.slot
            slot.land(flight.begun, flight.end_s, flight.device, flight.waits)
            self.back.append(slot)

    def _send(self, slot: Slot, batch: Batch) -> None:
        """A batch through all stages."""
        engine, cost, begun = self.engine, self.cost, self.now
        device = slot.iteration_s(batch.tokens, batch.pairs, len(batch.ended), batch.decoding)
        last = cost.scale * cost.head_s(len(batch.ended) + batch.decoding or 1)
        serial = engine.waits_s(batch.sequences, batch.tokens)
        hop = self.stages.hop_s(batch.tokens + batch.decoding)
        at_s = self.now = begun + engine.host_busy_s(batch.sequences, batch.tokens)
        for at, share in enumerate(self.shares):
            own = (device - last) * share + serial / len(self.shares)
            own += last if at == len(self.shares) - 1 else 0.0
            at_s = max(at_s + (hop if at else 0.0), self.done_s[at]) + own
            self.done_s[at] = at_s
        waits = at_s - self.now - device - serial
        self.flights.append(_Flight(at_s, slot, begun, device, waits))
