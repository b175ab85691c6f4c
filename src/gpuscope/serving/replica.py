"""One replica under load, from event to event.

Between two events (a request comes, ends, or a prompt is worked on) every iteration decodes the
same sequences, and only their keys grow: such a stretch is one step here. Its iterations' times are
taken as a straight line between its first and its last one, whose sum follows in closed form.
Blocks that requests share are counted once (`gpuscope.serving.blocks`). Where the engine overlaps
host and device, the next iteration is planned when one begins: who comes meanwhile is `late`, and
waits for both. Requests come in and tokens go out through one process (`Front`), which may fall
behind. All times are seconds from the start.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf

from gpuscope.serving.asking import Asking
from gpuscope.serving.batch import MOST_STEPS, Batch, DeviceTime, steps_until
from gpuscope.serving.blocks import Blocks
from gpuscope.serving.engine import Engine
from gpuscope.serving.front import Front, Said
from gpuscope.serving.growth import Growing, Growth
from gpuscope.serving.record import Record
from gpuscope.serving.schedulers import Limits, Plan, View, policy
from gpuscope.serving.work import Work


class Replica:
    """The state of one engine.

    Args:
        work: the requests, of which this one gets some (`join`).
        engine: its profile.
        limits: of an iteration.
        device_s: what an iteration's sums cost.
        record: rows of its iterations go there; `work.record` by default.
    """

    def __init__(
        self,
        work: Work,
        engine: Engine,
        limits: Limits,
        device_s: DeviceTime,
        record: Record | None = None,
    ) -> None:
        self.work, self.engine, self.limits, self.device_s = work, engine, limits, device_s
        self.policy = policy(engine.scheduler)
        self.record = work.record
        self.rows = record or work.record
        self.now = 0.0
        self.waiting: deque[int] = deque()
        self.late = Front(engine, self.record)  # who is in it is in no plan yet
        self.planned = 0.0  # when the next iteration was
        self.looks = 0  # a step at which it looked at what had come; it does every so many
        self.partial: dict[int, None] = {}
        self.decoding: dict[int, None] = {}  # in order of admission
        self.ends: list[tuple[int, int]] = []
        self.step_count = 0
        self.keys = 0
        self.to_come = 0  # tokens of those that decode
        self.blocks = Blocks(limits.kv_blocks, work.beginnings.each)
        self.asking = Asking(work, self.partial, self.blocks, limits.block_tokens)
        self.barred = False  # who was put off waits for the next iteration
        self.reserve = limits.reserve
        self.growth: Growing = Growth(limits.block_tokens)
        self.totals = [0.0, 0.0, 0.0]  # decoding so far: device, host, behind prompts
        self.row_preemptions = 0

    @property
    def busy(self) -> bool:
        """Whether anything waits or is at work."""
        return bool(self.waiting or self.late.open or self.partial or self.decoding)

    def join(self, each: int, intended: float, now: float) -> None:
        """A request comes into the queue."""
        if not self.busy:
            self.now = max(self.now, now)
        self.record.intended[each] = intended
        self.work.left_at[each] = intended
        self.late.add(each, now, self.engine.accepted_s(self.work.inputs[each]))

    @property
    def queued(self) -> int:
        """Requests that have not begun."""
        return len(self.waiting) + len(self.late)

    @property
    def working(self) -> bool:
        """Whether anything is at work."""
        return bool(self.partial or self.decoding)

    def step(self, until: float) -> None:
        """One event: an iteration with prompts, or a stretch of decoding that ends by `until`.

        Whoever drives it takes those that ended after each step (`take_ended`).
        """
        if self.told():
            return
        if not self.working and not self.waiting and not self.comes(until):
            return
        self.see(self.working)
        batch = self.begin(until)
        if batch is None:
            return
        if batch.tokens:
            self._iterate(batch)
        else:
            self._stretch(until)

    def begin(self, until: float) -> Batch | None:
        """What the next iteration works on, admitted; None: something was put off, or waits."""
        self.barred = self.barred and self.working
        waiting = self.waiting and not self.barred
        chosen = self._planned() if waiting or self.partial else Plan(())
        decoding = len(self.decoding) if chosen.decode or not chosen.chunks else 0
        if decoding and not self._room(1):
            self._preempt()
        elif chosen.chunks:
            batch = self._taken(chosen, decoding)
            if batch.tokens or decoding:
                return batch
        elif decoding:
            return Batch(decoding)
        elif chosen.wake_s is not None:
            self.now = max(self.now, min(until, chosen.wake_s))
        elif self.partial:
            self._preempt()  # half-done prompts hold all blocks
        return None

    def told(self) -> bool:
        """Whether last tokens went out by now: whose places are free, others may come to."""
        self.late.advance(self.now)
        return bool(self.late.ended)

    def comes(self, until: float) -> bool:
        """Whether, of those on their way to an idle replica, one is there by then; it rests so."""
        ready_s = self.late.next_s(until)
        by_s = min(ready_s, until)
        if by_s < inf:
            self.now = max(self.now, by_s)
        return ready_s <= until and ready_s < inf and not self.late.ended

    def see(self, working: bool) -> None:
        """Who had come when the next iteration was planned can be in it."""
        if working and (self.step_count - self.looks) % self.engine.look_steps:
            return
        planned = self.planned if working and self.engine.overlapped else self.now
        idle = not working and not self.waiting and self.engine.accept_s > 0.0
        self.waiting.extend(self.late.out(planned, 1 if idle else inf))

    def take_ended(self) -> list[int]:
        """Requests that have ended since somebody asked."""
        return self.late.take_ended()

    # -- one iteration with prompts ------------------------------------------------------------

    def _planned(self) -> Plan:
        asking, limits = self.asking, self.limits
        asking.begin()
        return self.policy.plan(
            View(
                limits,
                len(self.decoding),
                len(self.decoding) * self.step_tokens,
                self.growth.taken(self.step_count, 1, 0),
                self._unplanned(),
                () if self.barred else self.waiting,
                asking.left,
                asking.need,
                asking.whole,
                self.blocks.free,
                max(0, self.blocks.promised - self.blocks.used),
                self.reserve * self.to_come,
                self.now,
                self.work,
            )
        )

    def _unplanned(self) -> tuple[int, ...]:
        """Half-done prompts that the next iteration may go on with."""
        return tuple(self.partial)

    def _taken(self, chosen: Plan, decoding: int) -> Batch:
        """The prompts of a plan, admitted, their blocks taken."""
        batch, work, size = Batch(decoding), self.work, self.limits.block_tokens
        growing = self.growth.taken(self.step_count, 1, 0) if decoding else 0
        for each, chunk in chosen.chunks:
            if each not in self.partial:
                self._admit(each)
            have, free = work.done[each], self.blocks.free - growing
            need = self.asking.need(each, chunk)
            if need > free:  # as what the plan found in the cache is gone
                chunk = (-(-have // size) + max(free, 0)) * size - have
                need = free
            if chunk <= 0:
                break
            batch.pairs += chunk * have + chunk * (chunk + 1) / 2
            self.blocks.take(need)
            work.done[each] = have + chunk
            batch.tokens += chunk
            batch.worked.append(each)
            if have + chunk < work.goal[each]:
                break  # cut, or what the plan found in the cache had to make room in the meantime
            batch.ended.append(each)
        return batch

    def _iterate(self, batch: Batch) -> None:
        """Work on prompts, beside what decodes where the policy says so."""
        decoding, ended = batch.decoding, len(batch.ended)
        device = self.iteration_s(batch.tokens, batch.pairs, ended, decoding)
        alone = self.iteration_s(0, 0.0, 0, decoding) if decoding else 0.0
        self.worked(batch, self.engine.step_s(device, batch.sequences, batch.tokens), device, alone)

    def worked(self, batch: Batch, took: float, device: float, alone: float) -> None:
        """An iteration is over.

        Args:
            batch: of it.
            took: it lasted.
            device: of that, the device's work.
            alone: of that, without any prompts.
        """
        decoding, begun = batch.decoding, self.now
        self.now += took
        prefill = self.record.prefill
        for each in batch.worked:
            prefill[each] += took
        rest = took - device
        self.totals[0] += alone if decoding else 0.0
        self.totals[1] += rest if decoding else 0.0
        self.totals[2] += took - alone - rest if decoding else took
        if decoding:
            self._advance(1)
        self.looks = self.step_count
        self.late.say(Said(begun, took, 0.0, 1, decoding + len(batch.ended)))
        self.planned = begun
        for each in batch.ended:
            self._begin_decoding(each)
        self.barred = False
        self._finish()
        host = self.engine.host_busy_s(batch.sequences, batch.tokens)
        self._row(begun, 1, device, host, batch.tokens, decoding)

    @property
    def step_tokens(self) -> int:
        """Tokens that each sequence that decodes puts into a step."""
        return 1

    def iteration_s(self, tokens: int, pairs: float, ended: int, decoding: int) -> float:
        """Device time of the next iteration, of its prompts and of what decodes."""
        return self.device_s(tokens, pairs, ended, decoding, float(self.keys + decoding))

    def _admit(self, each: int) -> None:
        work, record = self.work, self.record
        if self.waiting[0] == each:
            self.waiting.popleft()
        else:
            self.waiting.remove(each)
        self.partial[each] = None
        self.blocks.take(work.beside(each))
        if self.policy.promises:
            work.share[each] = self.asking.whole(each, 1.0)
            self.blocks.promised += work.share[each]
        work.done[each] = 0
        if work.brought is not None and not record.preemptions[each]:
            work.done[each] = work.brought[each]
            self.blocks.take(-(-work.brought[each] // self.limits.block_tokens))
        elif names := work.names(each):
            hits = names[: self.blocks.found(work.wanted(names, each))]
            self.blocks.use(hits)
            work.named[each] = [*hits, *self.blocks.name(names[len(hits) :])]
            work.done[each] = len(hits) * work.beginnings.size
            if not work.made[each]:
                record.cached[each] = work.done[each]
        if record.started[each] != record.started[each]:
            record.started[each] = self.now
        else:
            record.put_off[each] += self.now - work.left_at[each]

    def _begin_decoding(self, each: int) -> None:
        """Its prompt is through, and its next token is out."""
        del self.partial[each]
        work = self.work
        work.made[each] += 1
        if work.made[each] == 1:
            self.late.first(each)
        self.decoding[each] = None
        self.keys += work.done[each]
        work.since[each] = self.step_count
        self.growth.add(self.step_count, work.done[each])
        work.entry[each] = (self.totals[0], self.totals[1], self.totals[2])
        self.to_come += work.to_come(each)
        heappush(self.ends, (self.step_count + work.to_come(each), each))

    # -- a stretch of equal iterations -----------------------------------------------------------

    def _stretch(self, until: float) -> None:
        """Decode until something changes."""
        sequences, steps = len(self.decoding), self.most_steps()
        first = self._decode_s(0)
        slope = (self._decode_s(steps) - first) / steps
        steps = self.steps_by(until, steps, first, slope)
        device = steps * self.device_s(
            0, 0.0, 0, sequences, self.keys + sequences * (steps + 1) / 2
        )
        self.decoded(steps, first, slope, device)

    def most_steps(self) -> int:
        """Of a stretch: until a sequence ends, or blocks run out."""
        once = self.barred or (self.policy.restless and self.waiting)
        steps = 1 if once else min(self.ends[0][0] - self.step_count, MOST_STEPS)
        return self._roomy(max(steps, 1))

    def steps_by(self, until: float, steps: int, first: float, slope: float) -> int:
        """Of a stretch of so many, those before who comes by `until` can be planned.

        Args:
            until: when the next request comes; it is let in `accept_s` later at the earliest.
            steps: at most.
            first: what the first iteration takes.
            slope: by how much longer each takes than the one before.
        """
        if self.late.open:
            if self.late.coming or self.late.to_end:
                return 1
            rest = self.late.queued[0][0] - self.now  # until an iteration begins that has it
            more = steps_until(rest, first, slope) + self.engine.overlapped if rest > 0 else 1
            more += (self.looks - self.step_count - more) % self.engine.look_steps
            steps = min(steps, more)
        if until < inf and not self.waiting:  # behind one that finds no room, none is admitted
            comes = until + self.engine.accept_s - self.now
            steps = min(steps, steps_until(comes, first, slope))
        return steps

    def decoded(self, steps: int, first: float, slope: float, device: float) -> None:
        """A stretch is over; its device time is that of all steps."""
        sequences, begun = len(self.decoding), self.now
        took = steps * first + slope * steps * (steps - 1) / 2
        self.now += took
        self.late.say(Said(begun, first, slope, steps, sequences))
        self.planned = self.now - (first + slope * (steps - 1))
        self.totals[0] += min(device, took)
        self.totals[1] += max(took - device, 0.0)
        self._advance(steps)
        self.barred = False
        self._finish()
        host = steps * self.engine.host_busy_s(sequences, 0)
        self._row(begun, steps, device, host, 0, sequences)

    def _decode_s(self, later: int) -> float:
        sequences = len(self.decoding)
        device = self.device_s(0, 0.0, 0, sequences, float(self.keys + sequences * (later + 1)))
        return self.engine.step_s(device, sequences, 0)

    def _room(self, steps: int) -> bool:
        free, sequences = self.blocks.free, len(self.decoding)
        if (steps // self.limits.block_tokens + 1) * sequences <= free:
            return True  # one block each, at most, for every block's worth of steps
        return self.growth.taken(self.step_count, steps, sequences) <= free

    def _roomy(self, steps: int) -> int:
        """As many of the steps as there are blocks for; one at least."""
        if self._room(steps):
            return steps
        low, high = 1, steps
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._room(middle) else (low, middle)
        return low

    def _advance(self, steps: int) -> None:
        sequences = len(self.decoding)
        self._grow(steps)
        self.keys += steps * sequences
        self.to_come -= steps * sequences
        self.step_count += steps
        self._lower_reserve(steps)

    def _grow(self, steps: int) -> None:
        self.blocks.take(self.growth.taken(self.step_count, steps, len(self.decoding)))

    def _lower_reserve(self, steps: int) -> None:
        """Of the answers, a smaller share is reckoned to come, while nothing is put off."""
        limits = self.limits
        if limits.reserve_steps:
            lower = (limits.reserve - limits.reserve_least) / limits.reserve_steps * steps
            self.reserve = max(limits.reserve_least, self.reserve - lower)

    # -- going -----------------------------------------------------------------------------------

    def _finish(self) -> None:
        work = self.work
        while self.ends and self.ends[0][0] <= self.step_count:
            end, each = heappop(self.ends)
            if each not in self.decoding or end != work.since[each] + work.to_come(each):
                continue  # it was put off since
            self._end(each)

    def _end(self, each: int) -> None:
        self._leave(each)
        self._free(each)
        self.late.end(each)

    def _free(self, each: int) -> None:
        work = self.work
        done, names = work.done[each], work.named[each]
        computed = min(len(names), done // work.beginnings.size)
        count = -(-done // self.limits.block_tokens) + work.beside(each)
        self.blocks.give_back(count, names, computed)
        if names:
            work.named[each] = []
        self.blocks.promised -= work.share[each]

    def _leave(self, each: int) -> None:
        """It decodes no more: what it has, and what its time went to."""
        work, record = self.work, self.record
        del self.decoding[each]
        steps = self.step_count - work.since[each]
        self.growth.add(work.since[each], work.done[each], -1)
        work.done[each] += steps
        self.to_come -= work.to_come(each) - steps
        self.keys -= work.done[each]
        device, host, behind = work.entry[each]
        record.device[each] += self.totals[0] - device
        record.host[each] += self.totals[1] - host
        record.behind[each] += self.totals[2] - behind

    def _victim(self) -> int:
        return self.policy.victim(self)

    def _preempt(self) -> None:
        """Put one off; it starts again from its first token."""
        work = self.work
        each = self._victim()
        if each in self.decoding:
            steps = self.step_count - work.since[each]
            self._leave(each)
            work.made[each] += steps
            work.goal[each] = work.inputs[each] + work.made[each]
            work.since[each] = -1
        else:
            del self.partial[each]
        if self.policy.keeps:
            own = work.beginnings.names(each, work.done[each])
            work.named[each] += self.blocks.name(own[len(work.named[each]) :])
        self._free(each)
        work.done[each] = 0
        work.left_at[each] = self.now
        self.record.preemptions[each] += 1
        self.row_preemptions += 1
        self.barred = True
        self.waiting.appendleft(each)
        if self.limits.reserve_steps and self.decoding:
            out = sum(map(work.outputs.__getitem__, self.decoding))
            made = out - self.to_come + self.limits.reserve_ahead * len(self.decoding)
            self.reserve = min(1.0, made / (out + 1))

    def _row(
        self, begun: float, steps: int, device: float, host: float, tokens: int, decoding: int
    ) -> None:
        self.rows.add(
            (begun, steps, device, host, tokens, decoding, self.blocks.used,
             self.queued, self.row_preemptions)
        )  # fmt: skip
        self.row_preemptions = 0
