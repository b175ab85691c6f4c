"""The one process that requests come in by and tokens go out by: an event loop, turn by turn.

In a turn it takes what has come until the turn begins: the tokens of each iteration that the engine
has ended, and each request a step further (vLLM's asyncio loop: reading, JSON, checks, handing over
are steps between which all else has its turn). A request needs so many turns (`front_turns`) until
it is in the engine's queue. So requests that come at once are let in together when all work on them
is done, and one that comes while tokens stream waits for so many turns of them, each as long as the
tokens that came during the one before. What a turn gives is out at its end. Tokens of one sequence
that wait together are sent together: each costs `token_s`, each sequence `send_s` beside it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from math import inf

from gpuscope.serving.engine import Engine
from gpuscope.serving.record import Record

TOGETHER = 256
"""Requests that a turn takes a step further at most: 64 were measured."""


@dataclass(slots=True)
class Spoken:
    """Equal iterations that ended one after the other, not yet told.

    Attributes:
        begun: when the first of them began.
        first, slope: what it took, and by how much longer each took than the one before.
        steps: how many.
        tokens: that each gave, one a sequence.
        firsts, ends: requests whose first, and last, token is of the last one.
        told: of the steps, those that are out.
    """

    begun: float
    first: float
    slope: float
    steps: int
    tokens: int
    firsts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    told: int = 0

    def end_s(self, step: int) -> float:
        """When that step ended, counted from 1."""
        return self.begun + step * self.first + self.slope * step * (step - 1) / 2


class Front:
    """Requests on their way in, and tokens on their way out, in the order in which they came.

    It knows no more than it was told of: `advance` it only as far as all that has come is known.

    Args:
        engine: with its constants.
        record: where first and last tokens are noted.
    """

    def __init__(self, engine: Engine, record: Record) -> None:
        self.token_s, self.send_s, self.reply_s = engine.token_s, engine.send_s, engine.reply_s
        self.turns, self.record = engine.front_turns, record
        self.free_s = 0.0  # when the turn that is under way is over
        self.said: deque[Spoken] = deque()
        self.coming: deque[list[float]] = deque()  # came at, turns left, work a turn, request
        self.queued: deque[tuple[float, int]] = deque()  # in the queue since, request
        self.ended: list[int] = []
        self.to_end = 0  # last tokens that are not yet told

    def __len__(self) -> int:
        return len(self.coming) + len(self.queued)

    @property
    def open(self) -> bool:
        """Whether what comes next hangs on the next iterations: a request, or a place set free."""
        return bool(self.coming or self.queued or self.to_end)

    def add(self, each: int, at_s: float, work_s: float) -> None:
        """A request comes, and takes so much work."""
        self.coming.append([at_s, self.turns, work_s / self.turns, each])

    def say(self, said: Spoken) -> None:
        """Iterations gave tokens."""
        self.said.append(said)

    def first(self, each: int) -> None:
        """The last iteration gave the first token of a request."""
        self.said[-1].firsts.append(each)

    def end(self, each: int) -> None:
        """The last iteration gave the last token of a request."""
        self.said[-1].ends.append(each)
        self.to_end += 1

    def take_ended(self) -> list[int]:
        """Requests whose last token is out since somebody asked."""
        ended, self.ended = self.ended, []
        return ended

    def out(self, by_s: float, most: float = inf) -> list[int]:
        """Those that are in the queue by then, the first of them where no more are wanted."""
        found: list[int] = []
        while self.queued and self.queued[0][0] <= by_s and len(found) < most:
            found.append(self.queued.popleft()[1])
        return found

    def next_s(self, by_s: float) -> float:
        """When the next one is in the queue; infinite where none begins its last turn by then, or
        before that places were set free."""
        while not self.queued and not self.ended:
            begin = self._begin_s()
            if begin > by_s or begin == inf:
                return inf
            self._turn(begin)
        return self.queued[0][0] if self.queued else inf

    def advance(self, by_s: float) -> None:
        """All turns that begin by then, or until places were set free: others may come to them."""
        while not self.ended and (begin := self._begin_s()) <= by_s and begin < inf:
            self._turn(begin)

    def _begin_s(self) -> float:
        """When the next turn begins; infinite where nothing is to be done."""
        comes = self.coming[0][0] if self.coming else inf
        if self.said:
            one = self.said[0]
            comes = min(comes, one.end_s(one.told + 1))
        return max(self.free_s, comes)

    def _turn(self, begin: float) -> None:
        if not self.coming and self._quiet(begin):
            return
        told, tokens, most = [], 0, 0
        while self.said:
            one = self.said[0]
            while one.told < one.steps and one.end_s(one.told + 1) <= begin:
                one.told += 1
                tokens += one.tokens
                most = max(most, one.tokens)
            if one.told < one.steps:
                break
            told.append(self.said.popleft())
        end = begin + (tokens * self.token_s + most * self.send_s)
        for each in islice(self.coming, TOGETHER):
            if each[0] > begin:
                break
            end += each[2]
            each[1] -= 1
        while self.coming and self.coming[0][1] <= 0:
            self.queued.append((end, int(self.coming.popleft()[3])))
        self._told(told, end)

    def _quiet(self, begin: float) -> bool:
        """Whether each of equal iterations is told before the next one ends: all but the last."""
        one = self.said[0]
        left = one.steps - one.told
        if left < 2:
            return False
        shortest = min(one.first + one.slope * one.told, one.first + one.slope * (one.steps - 1))
        if begin > one.end_s(one.told + 1) or one.tokens * (self.token_s + self.send_s) > shortest:
            return False
        one.told = one.steps - 1
        return True

    def _told(self, told: list[Spoken], end: float) -> None:
        """A turn is over."""
        self.free_s = end
        out_s = end + self.reply_s
        for one in told:
            for each in one.firsts:
                self.record.first[each] = out_s
            for each in one.ends:
                self.record.finished[each] = out_s
            self.ended += one.ends
            self.to_end -= len(one.ends)
