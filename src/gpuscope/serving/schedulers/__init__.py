"""What goes into the next iteration: one file a policy, data in, data out.

A policy is a `Policy`, the `POLICY` of a file here. Its `plan(View) -> Plan` is asked when a prompt
waits or is half worked on; what only decodes needs no plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from gpuscope.serving.work import Work

if TYPE_CHECKING:
    from gpuscope.serving.speculation import Guess


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Blocks of a request that do not grow with it to the end.

    Attributes:
        groups: of layers that look back a window, each with blocks of its own.
        most: blocks that cover the window.
        state: blocks that a state takes.
    """

    groups: int
    most: int
    state: int

    def of(self, tokens: int, block_tokens: int) -> int:
        """Of a request that ends with so many tokens; taken from its beginning on."""
        return self.groups * min(-(-tokens // block_tokens), self.most) + self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of an iteration.

    Attributes:
        max_tokens: worked on in one iteration.
        max_sequences: at work at a time.
        chunked: prompts may be cut.
        reserve: share of the answers still to come that admission sets room aside for, at first.
        reserve_least, reserve_steps: it falls to this share, over so many steps; 0: it stays.
        reserve_ahead: steps of what is at work that it covers after something was put off.
        kv_blocks, block_tokens: room for keys and values.
        beside: what a request takes of it beside its tokens; None for nothing.
        sizes: batches that are sent at once, where the policy knows some.
        delay_s: that a batch waits for more to come.
        guess: how tokens are drafted; None: they are not.
    """

    max_tokens: int
    max_sequences: int
    chunked: bool
    reserve: float
    kv_blocks: int
    block_tokens: int
    beside: Beside | None = None
    reserve_least: float = 0.0
    reserve_steps: int = 0
    reserve_ahead: int = 0
    sizes: tuple[int, ...] = ()
    delay_s: float = 0.0
    guess: Guess | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What a policy sees.

    Attributes:
        limits: of an iteration.
        decoding: sequences that decode.
        taken: tokens of an iteration that these take.
        growing: blocks that their next step takes.
        partial: requests at work whose prompt is not through, oldest first.
        waiting: requests in the queue, in its order.
        left: prompt tokens still to be worked on, of a request (what is cached left out).
        blocks: blocks that so many of its next tokens take.
        whole: blocks that the request takes until it ends, with that share of its answer.
        free: blocks.
        promised: blocks that requests at work will still take, to their ends.
        expected: tokens that what decodes is reckoned to make still, by the share of `reserve`.
        now: seconds from the start.
        work: the requests themselves.
    """

    limits: Limits
    decoding: int
    taken: int
    growing: int
    partial: tuple[int, ...]
    waiting: Collection[int]
    left: Callable[[int], int]
    blocks: Callable[[int, int], int]
    whole: Callable[[int, float], int]
    free: int
    promised: int
    expected: float
    now: float
    work: Work


@dataclass(frozen=True, slots=True)
class Plan:
    """An iteration.

    Attributes:
        chunks: (request, prompt tokens) in order; a waiting one is admitted.
        decode: what decodes takes part.
        wake_s: where nothing is at work: when to ask again, unless something comes first.
    """

    chunks: tuple[tuple[int, int], ...]
    decode: bool = True
    wake_s: float | None = None


class AtWork(Protocol):
    """What a choice of whom to put off sees: requests at work in the order of admission."""

    partial: dict[int, None]
    decoding: dict[int, None]
    step_count: int
    work: Work


def newest(at: AtWork) -> int:
    """The request that was admitted last."""
    return next(reversed(at.partial or at.decoding))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A way to choose.

    Attributes:
        plan: the next iteration.
        victim: who is put off where blocks run out.
        keeps: whether what was put off leaves its blocks in the cache.
        promises: whether room is set aside for whole answers.
        restless: who waits may be admitted at any step, not only after an event.
    """

    plan: Callable[[View], Plan]
    victim: Callable[[AtWork], int] = newest
    keeps: bool = True
    promises: bool = False
    restless: bool = False


def policy(name: str) -> Policy:
    """The policy of the file of that name."""
    found: Policy = import_module(f"gpuscope.serving.schedulers.{name}").POLICY
    return found


def cut(view: View, each: Iterable[int], budget: int) -> list[tuple[int, int]]:
    """Prompt tokens of requests at work, one after the other, to the end of a budget."""
    chunks = []
    for one in each:
        tokens = min(view.left(one), budget)
        if tokens > 0:
            chunks.append((one, tokens))
            budget -= tokens
    return chunks
