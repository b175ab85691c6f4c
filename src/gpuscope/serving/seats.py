"""What is at work on one replica, and the blocks that it holds: decoding, growing, going, put off.

Blocks that requests share are counted once (`gpuscope.serving.blocks`).
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from gpuscope.serving.asking import Asking
from gpuscope.serving.batch import DeviceTime
from gpuscope.serving.blocks import Blocks
from gpuscope.serving.engine import Engine
from gpuscope.serving.front import Front
from gpuscope.serving.growth import Growing, Growth
from gpuscope.serving.record import Record
from gpuscope.serving.schedulers import Limits, policy
from gpuscope.serving.work import Work


class Seats:
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

    @property
    def queued(self) -> int:
        """Requests that have not begun."""
        return len(self.waiting) + len(self.late)

    @property
    def working(self) -> bool:
        """Whether anything is at work."""
        return bool(self.partial or self.decoding)

    @property
    def step_tokens(self) -> int:
        """Tokens that each sequence that decodes puts into a step."""
        return 1

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
