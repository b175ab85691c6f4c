"""The orders of passes that a planner walks, without PyTorch: 1F1B, interleaved, and zero bubble.

What `gpuscope.program.pipeline.orders.compute_order` asks PyTorch's own generators for, as their
rules are (`_get_1f1b_rank_ops` of torch/distributed/pipelining/schedules.py): a plan that is asked
again then takes no PyTorch. A test holds both together.
"""

from __future__ import annotations

from functools import lru_cache

from gpuscope.program.pipeline.orders import PipelineShape

__all__ = ["BACKWARD", "FORWARD", "WEIGHTS", "Pass", "plain_order"]

FORWARD, BACKWARD, WEIGHTS = 0, 1, 2
"""Kinds of passes; BACKWARD is that of inputs alone where WEIGHTS follow apart."""

Pass = tuple[int, int, int]
"""Kind, stage, micro-batch."""


@lru_cache(maxsize=16)
def plain_order(shape: PipelineShape) -> tuple[tuple[Pass, ...], ...]:
    """The passes of each rank, in order.

    Args:
        shape: of "1f1b", "interleaved" or "zb".
    """
    made = _in_turn if shape.schedule == "1f1b" else _looped
    return tuple(made(shape, rank) for rank in range(shape.ranks))


def _in_turn(shape: PipelineShape, rank: int) -> tuple[Pass, ...]:
    ahead = min(shape.microbatches, shape.ranks - rank)
    order = [(FORWARD, rank, n) for n in range(ahead)]
    for n in range(shape.microbatches):
        order.append((BACKWARD, rank, n))
        if n + ahead < shape.microbatches:
            order.append((FORWARD, rank, n + ahead))
    return tuple(order)


def _looped(shape: PipelineShape, rank: int) -> tuple[Pass, ...]:
    ranks, virtual, count = shape.ranks, shape.virtual, shape.microbatches
    split = shape.schedule == "zb"
    in_round = count // max(1, count // ranks)
    every = virtual * count
    hops = (1 if split else 2) * (ranks - 1 - rank)
    ahead = min((virtual - 1) * in_round + hops, every)

    def at(turn: int, backwards: bool) -> tuple[int, int]:
        """Stage and micro-batch of the rank's pass of this number."""
        local = turn // in_round % virtual
        stage = (virtual - 1 - local if backwards else local) * ranks + rank
        return stage, turn // (in_round * virtual) * in_round + turn % in_round

    order: list[Pass] = []
    late = 0
    for turn in range(every + ahead):
        if turn < every:
            order.append((FORWARD, *at(turn, backwards=False)))
        if turn >= ahead:
            order.append((BACKWARD, *at(turn - ahead, backwards=True)))
            if split and turn - ahead >= rank:
                order.append((WEIGHTS, *at(late, backwards=True)))
                late += 1
    if split:
        order += [(WEIGHTS, *at(turn, backwards=True)) for turn in range(late, every)]
    return tuple(order)
