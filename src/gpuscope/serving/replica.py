"""One replica under load, from event to event.

Between two events (a request comes, ends, or a prompt is worked on) every iteration decodes the
same sequences, and only their keys grow: such a stretch is one step here. Its iterations' times are
taken as a straight line between its first and its last one, whose sum follows in closed form.
Blocks that requests share are counted once (`gpuscope.serving.blocks`). All times are seconds from
the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import islice
from math import ceil, inf, sqrt

from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError
from gpuscope.serving.blocks import Blocks, Name
from gpuscope.serving.engine import Engine
from gpuscope.serving.requests import Requests
from gpuscope.serving.schedulers import Limits, Plan, View, policy

DeviceTime = Callable[[int, float, int, int, float], float]
"""(prompt tokens, their query-key pairs, prompts that end, sequences that decode, their keys)"""

_MOST_STEPS = 4096
"""Of a stretch: its end is a straight line away."""


@dataclass(slots=True)
class Record:
    """What became of the requests, and the rows of iterations."""

    count: int
    intended: list[float] = field(default_factory=list)
    started: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    finished: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    behind: list[float] = field(default_factory=list)
    device: list[float] = field(default_factory=list)
    host: list[float] = field(default_factory=list)
    put_off: list[float] = field(default_factory=list)
    preemptions: list[int] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)
    rows: list[tuple[float, int, float, float, int, int, int, int, int]] = field(
        default_factory=list
    )
    busy_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("intended", "started", "first", "finished"):
            setattr(self, name, [float("nan")] * self.count)
        for name in ("prefill", "behind", "device", "host", "put_off"):
            setattr(self, name, [0.0] * self.count)
        self.preemptions, self.cached = [0] * self.count, [0] * self.count


class Replica:
    """The state of one engine.

    Args:
        requests: of this replica.
        engine: its profile.
        limits: of an iteration.
        device_s: what an iteration's sums cost.
    """

    def __init__(
        self, requests: Requests, engine: Engine, limits: Limits, device_s: DeviceTime
    ) -> None:
        self.requests, self.engine, self.limits, self.device_s = requests, engine, limits, device_s
        self.plan = policy(engine.scheduler)
        self.record = Record(len(requests))
        self.arrival: list[float] = requests.arrival_s.tolist()
        self.inputs: list[int] = requests.input_tokens.tolist()
        self.outputs: list[int] = requests.output_tokens.tolist()
        self.now, self.next = 0.0, 0
        self.waiting: deque[int] = deque()
        self.partial: dict[int, None] = {}
        self.decoding: dict[int, None] = {}  # in order of admission
        self.ends: list[tuple[int, int]] = []
        self.step = 0
        self.keys = 0
        self.beginnings = Beginnings(requests, limits.block_tokens, engine.prefix_cache)
        self.blocks = Blocks(limits.kv_blocks, self.beginnings.each)
        self.named: list[list[Name]] = [[] for _ in range(len(requests))]  # of blocks that it has
        self.asked: set[Name] = set()  # by requests that the plan being made admits
        self.asking = -1
        self.barred = False  # who was put off waits for the next iteration
        self.reserved = 0
        self.share = [0] * len(requests)  # blocks set aside for it
        self.coming: deque[tuple[float, float]] = deque()
        self.growth = [0] * limits.block_tokens
        self.done = [0] * len(requests)  # tokens whose keys are there
        self.goal: list[int] = list(self.inputs)  # tokens to work on until decoding begins (again)
        self.made = [0] * len(requests)  # tokens that came out
        self.since = [0] * len(requests)  # step at which it began to decode
        self.entry = [(0.0, 0.0, 0.0)] * len(requests)
        self.left_at = [0.0] * len(requests)
        self.totals = [0.0, 0.0, 0.0]  # decoding so far: device, host, behind prompts
        self.row_preemptions = 0

    def run(self) -> Record:
        """Serve all requests."""
        self._check()
        places = min(self.requests.concurrency, len(self.arrival))
        self.coming.extend([(self.engine.request_s, 0.0)] * places)
        self._arrive()
        while self.waiting or self.partial or self.decoding or self.next < len(self.requests):
            if not (self.waiting or self.partial or self.decoding):
                self.now = max(self.now, self._next_arrival())
                self._arrive()
                continue
            waiting = self.waiting and not self.barred
            chosen = self._planned() if waiting or self.partial else Plan(())
            if chosen.chunks:
                self._iterate(chosen)
            elif self.decoding:
                self._stretch()
            else:
                self._preempt()  # half-done prompts hold all blocks
            self._arrive()
        return self.record

    def _check(self) -> None:
        """Each request must fit alone.

        Raises:
            DoesNotFitError: the longest one never will.
        """
        limits = self.limits
        most = max(i + o for i, o in zip(self.inputs, self.outputs, strict=True))
        if ceil(most / limits.block_tokens) > limits.kv_blocks:
            raise DoesNotFitError(
                Text("The longest request has {tokens} tokens.", tokens=most),
                Text(
                    "Keys and values have room for {room}.",
                    room=limits.kv_blocks * limits.block_tokens,
                ),
                Text(
                    "Take more devices (--tp), weights of fewer bits (--dtype), shorter requests."
                ),
            )

    # -- coming ------------------------------------------------------------------------------

    def _next_arrival(self) -> float:
        """When the next request is in the engine's queue; infinite where none is known to come."""
        if self.next >= len(self.arrival):
            return inf
        if self.requests.concurrency:
            return self.coming[0][0] if self.coming else inf
        return self.arrival[self.next] + self.engine.request_s

    def _arrive(self) -> None:
        while self._next_arrival() <= self.now:
            intended = self.coming.popleft()[1] if self.coming else self.arrival[self.next]
            self._join(self.next, intended)

    def _join(self, each: int, intended: float) -> None:
        self.record.intended[each] = intended
        self.left_at[each] = intended
        self.waiting.append(each)
        self.next = each + 1

    # -- one iteration with prompts ------------------------------------------------------------

    def _planned(self) -> Plan:
        self.asked.clear()
        self.asking = -1
        used = self.blocks.used
        return self.plan(
            View(
                self.limits,
                len(self.decoding),
                self.growth[self.step % self.limits.block_tokens],
                tuple(self.partial),
                () if self.barred else islice(self.waiting, 0, None),
                self._left,
                self._blocks,
                self._whole,
                self.blocks.free,
                max(0, self.reserved - used),
            )
        )

    def _names(self, each: int) -> list[Name]:
        """Of the full blocks of what it has to work on, but for the last token's."""
        if not (self.beginnings.shared or self.record.preemptions[each]):
            return []
        back = self.record.preemptions[each] > 0
        have = self.beginnings.names(each, self.goal[each] if back else 0)
        return have[: (self.goal[each] - 1) // self.beginnings.size]

    def _hits(self, each: int) -> list[Name]:
        """Those that are there."""
        names = self._names(each)
        if not names:
            return names
        count = self.blocks.found(names)
        while count < len(names) and names[count] in self.asked:
            count += 1
        return names[:count]

    def _left(self, each: int) -> int:
        if each in self.partial:
            return self.goal[each] - self.done[each]
        if self.asking not in (-1, each):  # the one before was admitted
            self.asked.update(self._names(self.asking))
            self.asking = -1
        return self.goal[each] - len(self._hits(each)) * self.beginnings.size

    def _blocks(self, each: int, tokens: int) -> int:
        size, have = self.limits.block_tokens, self.done[each]
        if each in self.partial:
            return -(-(have + tokens) // size) - -(-have // size)
        if self.asking not in (-1, each):  # the one before was admitted
            self.asked.update(self._names(self.asking))
        self.asking = each
        hits = self._hits(each)
        held = self.blocks.shared(hits, self.asked) if hits else 0
        return -(-(len(hits) * self.beginnings.size + tokens) // size) - held

    def _whole(self, each: int, share: float) -> int:
        size = self.limits.block_tokens
        return -(-int(self.goal[each] + share * (self.outputs[each] - self.made[each])) // size)

    def _iterate(self, chosen: Plan) -> None:
        """Work on prompts, beside what decodes where the policy says so."""
        decoding = len(self.decoding) if chosen.decode else 0
        if decoding and not self._room(1):
            self._preempt()
            return
        tokens, pairs, ended = 0, 0.0, []
        for each, chunk in chosen.chunks:
            if each not in self.partial:
                self._admit(each)
            have = self.done[each]
            pairs += chunk * have + chunk * (chunk + 1) / 2
            self.blocks.take(self._blocks(each, chunk))
            self.done[each] = have + chunk
            tokens += chunk
            if self.done[each] >= self.goal[each]:
                ended.append(each)
        device = self.device_s(tokens, pairs, len(ended), decoding, float(self.keys + decoding))
        host = self.engine.host_busy_s(decoding + len(chosen.chunks), tokens)
        took = self.engine.step_s(device, decoding + len(chosen.chunks), tokens)
        begun = self.now
        self.now += took
        for each, _ in chosen.chunks:
            self.record.prefill[each] += took
        alone = self.device_s(0, 0.0, 0, decoding, float(self.keys + decoding)) if decoding else 0.0
        rest = took - device
        self.totals[0] += alone
        self.totals[1] += rest if decoding else 0.0
        self.totals[2] += took - alone - rest if decoding else took
        if decoding:
            self._advance(1)
        for each in ended:
            self._begin_decoding(each)
        self.barred = False
        self._finish()
        self._row(begun, 1, device, host, tokens, decoding)

    def _admit(self, each: int) -> None:
        if self.waiting[0] == each:
            self.waiting.popleft()
        else:
            self.waiting.remove(each)
        self.partial[each] = None
        self.share[each] = self._whole(each, self.limits.reserve)
        self.reserved += self.share[each]
        names, record = self._names(each), self.record
        hits = names[: self.blocks.found(names)]
        self.blocks.use(hits)
        self.named[each] = [*hits, *self.blocks.name(names[len(hits) :])]
        self.done[each] = len(hits) * self.beginnings.size
        if not self.made[each]:
            record.cached[each] = self.done[each]
        if record.started[each] != record.started[each]:
            record.started[each] = self.now
        else:
            record.put_off[each] += self.now - self.left_at[each]

    def _begin_decoding(self, each: int) -> None:
        """Its prompt is through, and its next token is out."""
        del self.partial[each]
        self.made[each] += 1
        record = self.record
        if self.made[each] == 1:
            record.first[each] = self.now + self.engine.reply_s
        self.decoding[each] = None
        self.keys += self.done[each]
        self.since[each] = self.step
        self.growth[(self.step - self.done[each]) % self.limits.block_tokens] += 1
        self.entry[each] = (self.totals[0], self.totals[1], self.totals[2])
        heappush(self.ends, (self.step + self.outputs[each] - self.made[each], each))

    # -- a stretch of equal iterations -----------------------------------------------------------

    def _stretch(self) -> None:
        """Decode until something changes."""
        if not self._room(1):
            self._preempt()
            return
        sequences = len(self.decoding)
        steps = 1 if self.barred else min(self.ends[0][0] - self.step, _MOST_STEPS)
        steps = self._roomy(max(steps, 1))
        first = self._decode_s(0)
        slope = (self._decode_s(steps) - first) / steps
        until = self._next_arrival()
        if until < inf and not self.waiting:  # behind one that finds no room, none is admitted
            steps = min(steps, _steps_until(until - self.now, first, slope))
        took = steps * first + slope * steps * (steps - 1) / 2
        device = steps * self.device_s(
            0, 0.0, 0, sequences, self.keys + sequences * (steps + 1) / 2
        )
        begun = self.now
        self.now += took
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

    def _grown(self, steps: int) -> int:
        """Blocks that so many steps take."""
        size, growth = self.limits.block_tokens, self.growth
        whole, rest = divmod(steps, size)
        begin = self.step % size
        beyond = max(0, begin + rest - size)
        taken = whole * len(self.decoding) if whole else 0
        return taken + sum(growth[begin : begin + rest]) + sum(growth[:beyond])

    def _room(self, steps: int) -> bool:
        free = self.blocks.free
        if (steps // self.limits.block_tokens + 1) * len(self.decoding) <= free:
            return True  # one block each, at most, for every block's worth of steps
        return self._grown(steps) <= free

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
        self.blocks.take(self._grown(steps))
        self.keys += steps * len(self.decoding)
        self.step += steps

    # -- going -----------------------------------------------------------------------------------

    def _finish(self) -> None:
        while self.ends and self.ends[0][0] <= self.step:
            end, each = heappop(self.ends)
            if each not in self.decoding or end != self.since[each] + self._to_come(each):
                continue  # it was put off since
            self._leave(each)
            self.record.finished[each] = self.now + self.engine.reply_s
            self._free(each)
            if self.requests.concurrency:
                free = self.record.finished[each]
                self.coming.append((free + self.engine.request_s, free))

    def _to_come(self, each: int) -> int:
        return self.outputs[each] - self.made[each]

    def _free(self, each: int) -> None:
        done, names = self.done[each], self.named[each]
        computed = min(len(names), done // self.beginnings.size)
        count = -(-done // self.limits.block_tokens)
        self.blocks.give_back(count, names, computed)
        self.named[each] = []
        self.reserved -= self.share[each]

    def _leave(self, each: int) -> None:
        """It decodes no more: what it has, and what its time went to."""
        del self.decoding[each]
        steps = self.step - self.since[each]
        self.growth[(self.since[each] - self.done[each]) % self.limits.block_tokens] -= 1
        self.done[each] += steps
        self.keys -= self.done[each]
        record, entry = self.record, self.entry[each]
        record.device[each] += self.totals[0] - entry[0]
        record.host[each] += self.totals[1] - entry[1]
        record.behind[each] += self.totals[2] - entry[2]

    def _preempt(self) -> None:
        """Put off the request that was admitted last; it starts again from its first token."""
        each = next(reversed(self.partial)) if self.partial else next(reversed(self.decoding))
        if each in self.decoding:
            steps = self.step - self.since[each]
            self._leave(each)
            self.made[each] += steps
            self.goal[each] = self.inputs[each] + self.made[each]
            self.since[each] = -1
        else:
            del self.partial[each]
        own = self.beginnings.names(each, self.done[each])
        self.named[each] += self.blocks.name(own[len(self.named[each]) :])
        self._free(each)
        self._reserve_all()
        self.done[each] = 0
        self.left_at[each] = self.now
        self.record.preemptions[each] += 1
        self.row_preemptions += 1
        self.barred = True
        self.waiting.appendleft(each)

    def _reserve_all(self) -> None:
        """Who had to put one off sets room aside for whole answers from then on."""
        if self.limits.reserve >= 1:
            return
        self.limits = replace(self.limits, reserve=1.0)
        for each in (*self.partial, *self.decoding):
            self.reserved -= self.share[each]
            self.share[each] = self._whole(each, 1.0)
            self.reserved += self.share[each]

    def _row(
        self, begun: float, steps: int, device: float, host: float, tokens: int, decoding: int
    ) -> None:
        self.record.busy_s += device
        self.record.rows.append(
            (begun, steps, device, host, tokens, decoding, self.blocks.used, len(self.waiting),
             self.row_preemptions)
        )  # fmt: skip
        self.row_preemptions = 0


def _steps_until(seconds: float, first: float, slope: float) -> int:
    """Iterations until that time has passed: the sum of a straight line."""
    if seconds <= 0:
        return 1
    if slope <= 1e-15:
        return max(1, ceil(seconds / first))
    b = first - slope / 2
    return max(1, ceil((-b + sqrt(b * b + 2 * slope * seconds)) / slope))


class Beginnings:
    """Names of the blocks of prompts that others may have too.

    Args:
        requests: whose.
        block_tokens: of the engine.
        kept: whether the engine keeps them at all.
    """

    def __init__(self, requests: Requests, block_tokens: int, kept: bool) -> None:
        self.requests, self.kept = requests, kept
        self.shared = kept and bool(len(requests.blocks) or len(requests.prefix))
        self.size = requests.block_tokens if len(requests.blocks) else block_tokens
        self.each = max(1, self.size // block_tokens)

    def names(self, each: int, own_tokens: int = 0) -> list[Name]:
        """Names of the full blocks of its shareable beginning.

        Args:
            each: the request.
            own_tokens: of a request that comes back: what it had is there under its own name.
        """
        if not self.kept:
            return []
        asked, found = self.requests, list[Name]()
        if len(asked.blocks):
            low, high = asked.block_start[each], asked.block_start[each + 1]
            found = [(-1, int(name)) for name in asked.blocks[low:high]]
        elif len(asked.prefix) and asked.prefix[each] >= 0:
            count = int(asked.prefix_tokens[each]) // self.size
            found = [(int(asked.prefix[each]), at) for at in range(count)]
        return found + [(-2 - each, at) for at in range(len(found), own_tokens // self.size)]
