"""What goes into the next iteration: one file a policy, data in, data out.

A policy is a function `plan(View) -> Plan`. It is asked when a prompt waits or is half worked on;
what only decodes needs no plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of an iteration.

    Attributes:
        max_tokens: worked on in one iteration.
        max_sequences: at work at a time.
        chunked: prompts may be cut.
        reserve: share of the answers still to come that admission sets room aside for.
        kv_blocks, block_tokens: room for keys and values.
    """

    max_tokens: int
    max_sequences: int
    chunked: bool
    reserve: float
    kv_blocks: int
    block_tokens: int


@dataclass(frozen=True, slots=True)
class View:
    """What a policy sees.

    Attributes:
        limits: of an iteration.
        decoding: sequences that decode.
        growing: blocks that their next step takes.
        partial: requests at work whose prompt is not through, oldest first.
        waiting: requests in the queue, in its order.
        left: prompt tokens still to be worked on, of a request (what is cached left out).
        blocks: blocks that so many of its next tokens take.
        whole: blocks that the request takes until it ends, with that share of its answer.
        free: blocks.
        promised: blocks that requests at work will still take, with the share of `reserve`.
    """

    limits: Limits
    decoding: int
    growing: int
    partial: tuple[int, ...]
    waiting: Iterable[int]
    left: Callable[[int], int]
    blocks: Callable[[int, int], int]
    whole: Callable[[int, float], int]
    free: int
    promised: int


@dataclass(frozen=True, slots=True)
class Plan:
    """An iteration.

    Attributes:
        chunks: (request, prompt tokens) in order; a waiting one is admitted.
        decode: what decodes takes part.
    """

    chunks: tuple[tuple[int, int], ...]
    decode: bool = True


Policy = Callable[[View], Plan]


def policy(name: str) -> Policy:
    """The policy of the file of that name."""
    found: Policy = import_module(f"gpuscope.serving.schedulers.{name}").plan
    return found
