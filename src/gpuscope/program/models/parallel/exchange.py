"""What Megatron-LM's dispatchers for many devices make of the exchange of experts' tokens.

Two changes of a captured step, each a fact of the software:

- Tokens sent once for each rank (`moe_token_dispatcher_type="flex"` with HybridEP or DeepEP,
  megatron/core/transformer/moe/token_dispatcher.py and fused_a2a.py): a token goes to a rank, and
  over a fabric to a scale-up domain, once however many of its experts are there. It is sent from
  where it lies and spread on arrival; results are added up on both sides of the way back. Its
  weights are multiplied inside of the experts' activation
  (megatron/core/fusions/fused_bias_swiglu.py). So the kernels that spread tokens before, and add
  them up after, are gone.
- The exchange beside the other microbatch's work (`overlap_moe_expert_parallel_comm`,
  megatron/core/pipeline_parallel/combined_1f1b.py): a forward pass is interleaved with another
  microbatch's backward pass, so that one computes while the other exchanges. Here each pass's
  exchange runs beside its own kernels, which stand for the other's; what is left at its end is
  waited for.

What is not told: passes before the first backward pass, and after the last forward pass, have no
partner and wait for their exchange; routers that choose groups of experts first (DeepSeek-V3) reach
fewer domains than experts chosen one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuscope.program.pipeline.blocks import MARK
from gpuscope.program.types import Op

__all__ = ["COPIES", "OVERLAPPED", "exchange_beside", "groups_of_experts", "send_once"]

OVERLAPPED = "overlapped"
"""Argument of a collective that runs beside kernels, on multiprocessors set aside; its waits alone
order it."""

COPIES = "copies"
"""Argument of an all-to-all: of how many experts' copies a token makes do with one a rank."""

_EXCHANGE = "_c10d_functional::all_to_all_single"
_WAIT = "_c10d_functional::wait_tensor"
_ROWS = "aten::index"


def groups_of_experts(ops: Sequence[Op]) -> set[int]:
    """Numbers of the groups over which mixtures of experts exchange tokens.

    Known by the module that exchanges, since a group of the same ranks may have another's label.
    """
    return {
        op.group for op in ops if op.name == _EXCHANGE and op.module.rpartition(".")[2] == "feed"
    }


def send_once(ops: list[Op], groups: set[int]) -> None:
    """Let every token cross once for each rank, in place.

    Args:
        ops: a step whose experts' tokens are put in order by gathers (`Software.fused_steps`).
        groups: numbers of the groups that experts are spread over.
    """
    gone: set[int] = set()
    copies = 0
    for at, op in _exchanges(ops, groups):
        before = _maker(ops, at)
        if before is not None and ops[before].region:
            gone.add(ops[before].region)
        elif before is not None and _spreads(ops[before]):
            copies = ops[before].outputs[0].shape[0] // ops[before].inputs[0].shape[0]
            ops[before] = replace(ops[before], view=True)
        gone.update(_summing(ops, op))
        if copies > 1:
            ops[at] = replace(op, args={**op.args, COPIES: copies})
    for at, op in enumerate(ops):
        if op.region in gone:
            ops[at] = replace(op, view=True, region=0)


def exchange_beside(ops: list[Op], groups: set[int], side: int) -> None:
    """Let the kernels of a pass run on while its tokens are exchanged, in place.

    Args:
        ops: a step; passes of a pipeline's stage end at their marks.
        groups: as `send_once` takes them.
        side: the stream for the exchange.
    """
    moved = {at for at, _ in _exchanges(ops, groups)}
    open_: list[int] = []
    last = -1
    for at, op in enumerate(ops):
        if at in moved:
            waits = op.waits if last < 0 else (*op.waits, last)
            kept = tuple(sorted({*waits} - moved))
            ops[at] = replace(op, stream=side, waits=kept, args={**op.args, OVERLAPPED: True})
            open_.append(at)
            continue
        if moved & {*op.waits}:
            ops[at] = replace(op, waits=tuple(wait for wait in op.waits if wait not in moved))
        if open_ and (op.name == MARK or op.phase == "optimizer"):
            _await(ops, last, open_)
            open_ = []
        if op.stream == 0 and not op.view and op.name != _WAIT and op.name != MARK:
            last = at


def _await(ops: list[Op], at: int, exchanges: Sequence[int]) -> None:
    """The pass's last kernel waits for what was exchanged before it."""
    waits = {*ops[at].waits, *(number for number in exchanges if number < at)}
    ops[at] = replace(ops[at], waits=tuple(sorted(waits)))


def _exchanges(ops: Sequence[Op], groups: set[int]) -> Iterator[tuple[int, Op]]:
    return ((at, op) for at, op in enumerate(ops) if op.name == _EXCHANGE and op.group in groups)


def _maker(ops: Sequence[Op], at: int) -> int | None:
    """What made the tensor that is exchanged."""
    storage = ops[at].inputs[0].storage
    for index in range(at - 1, -1, -1):
        if not ops[index].view and any(s.storage == storage for s in ops[index].outputs):
            return index
    return None


def _spreads(op: Op) -> bool:
    """Whether it copies tokens for each of their experts, and not only puts rows in order."""
    return op.name == _ROWS and op.outputs[0].shape[0] > op.inputs[0].shape[0]


def _summing(ops: Sequence[Op], exchange: Op) -> set[int]:
    """The compiled functions that read what came back, to add it up."""
    storage = exchange.outputs[0].storage
    return {
        op.region
        for op in ops
        if op.region and op.name == _ROWS and op.inputs[0].storage == storage
    }
