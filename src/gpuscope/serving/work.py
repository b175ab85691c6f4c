"""Requests, and how far each has come, whichever replica has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuscope.serving.beginnings import Beginnings
from gpuscope.serving.blocks import Name
from gpuscope.serving.engine import Engine
from gpuscope.serving.record import Record
from gpuscope.serving.requests import Requests

if TYPE_CHECKING:
    from gpuscope.serving.schedulers import Limits


class Work:
    """State of requests: lists, one entry a request.

    Args:
        requests: all of them.
        engine: profile.
        limits: of an iteration.
        brought: prompt tokens whose keys and values come with it, from the machine that worked on
            the prompt; none by default.
    """

    def __init__(
        self, requests: Requests, engine: Engine, limits: Limits, brought: list[int] | None = None
    ) -> None:
        count = len(requests)
        self.requests = requests
        self.record = Record(count)
        self.inputs: list[int] = requests.input_tokens.tolist()
        self.outputs: list[int] = requests.output_tokens.tolist()
        self.priority: list[int] = requests.priority.tolist()
        self.brought = brought
        self.beginnings = Beginnings(requests, limits.block_tokens, engine.prefix_cache)
        self.named: list[list[Name]] = [[] for _ in range(count)]  # of blocks that it has
        self.share = [0] * count  # blocks set aside for it
        self.done = [0] * count  # tokens whose keys are there
        self.goal: list[int] = list(self.inputs)  # tokens to work on until decoding begins (again)
        self.made = [0] * count  # tokens that came out
        self.since = [0] * count  # step at which it began to decode
        self.entry = [(0.0, 0.0, 0.0)] * count
        self.left_at = [0.0] * count
        self.replica = [0] * count  # that has it
        self.limits = limits

    def beside(self, each: int) -> int:
        """Blocks that it has beside those of its tokens."""
        beside = self.limits.beside
        if beside is None:
            return 0
        return beside.of(self.inputs[each] + self.outputs[each], self.limits.block_tokens)

    def names(self, each: int) -> list[Name]:
        """Of the full blocks of what it has to work on."""
        begin, back = self.beginnings, self.record.preemptions[each]
        if not (begin.shared or back):
            return []
        have = begin.names(each, self.goal[each] if back else 0)
        return have[: self.goal[each] // begin.size]

    def wanted(self, names: list[Name], each: int) -> list[Name]:
        """Of its names those that it may find: the last token is worked on in any case."""
        return names[: (self.goal[each] - 1) // self.beginnings.size]

    def to_come(self, each: int) -> int:
        """Tokens that have still to come out."""
        return self.outputs[each] - self.made[each]

    def whole(self, each: int, share: float) -> int:
        """Blocks that it takes until it ends, with that share of what is to come."""
        tokens = int(self.goal[each] + share * self.to_come(each))
        return -(-tokens // self.limits.block_tokens) + self.beside(each)
