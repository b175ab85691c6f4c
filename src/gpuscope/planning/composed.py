"""A candidate's step, composed of its block's price and of its collectives.

A composition, no simulation: it orders what is simulated. Replicas exchange parameters and
gradients beside the blocks they belong to; a pipeline's passes are walked in their order
(`gpuscope.planning.pipelined`); what is sharded is held once a group (Rajbhandari et al., 2020).
"""

from __future__ import annotations

from gpuscope.cost.overlap import slowdown_of_compute
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import Kernel
from gpuscope.hardware import calibration_for
from gpuscope.planning.blocks import Block
from gpuscope.planning.dimensions.registry import DIMENSIONS
from gpuscope.planning.exchanges import (
    ADD,
    CAST,
    COPY,
    GATHER,
    IN,
    NARROW,
    OUT,
    SCATTER,
    SUM,
    Held,
    copies_s,
    costed_op,
    exchange,
    held_of,
    kernel_s,
    members_of,
    seconds_of,
)
from gpuscope.planning.pipelined import pipeline_s
from gpuscope.planning.score import weighed_of
from gpuscope.planning.types import Candidate, Question

__all__ = ["composed_s"]


def composed_s(question: Question, candidate: Candidate, block: Block) -> float:
    """Step time of a candidate, seconds.

    Args:
        question: what is asked.
        candidate: how it is split.
        block: its block's price.
    """
    plan = candidate.plan
    held = held_of(question, candidate)
    layers = question.size.layers / plan.pp
    ends = held.first + held.last if plan.pp == 1 else held.first
    whole = held.block * layers + ends
    if plan.pp > 1:
        passes_s = pipeline_s(question, candidate, block)
    else:
        device_s = plan.microbatches * _passes_s(candidate, block, held, layers)
        if plan.world_size == 1:
            device_s += _alone_s(candidate, whole)
        elif not plan.sums_each:
            device_s += _unsharded_s(candidate, block, whole, layers)
        issued_s = block.host.both_s + block.again_host[plan.recompute].both_s
        host_s = layers * issued_s
        host_s = (host_s + block.ends_host_s) * plan.microbatches
        passes_s = max(device_s, host_s + _exchanged_host_s(candidate, layers))
    sharing = 1 if plan.fsdp == "none" else len(members_of(candidate))
    update_s = block.optimizer_s * whole / sharing
    for name, value in candidate.more:
        change = DIMENSIONS.get(name).composed
        if change is not None:
            weighed = weighed_of(question, candidate)
            passes_s, update_s = change(weighed, value, whole, passes_s, update_s)
    return passes_s + update_s


def _passes_s(candidate: Candidate, block: Block, held: Held, layers: float) -> float:
    """A micro-batch through all blocks of a rank, with what is exchanged beside them."""
    plan = candidate.plan
    forward, backward = block.forward_s, block.backward_s + block.again_s[plan.recompute]
    ends = block.first.both_s + block.last.both_s
    gather = exchange(candidate, GATHER, held.block * 2)
    scatter = exchange(candidate, SCATTER, held.block * 4)
    if not plan.sums_each or gather is None or scatter is None:
        return layers * (forward + backward) + ends
    copied, summed = copies_s(candidate, held.block)
    lost = [each.duration_s * _lost(candidate, block, each) for each in (gather, scatter)]
    inner = max(forward + copied + lost[0], gather.duration_s)
    if plan.fsdp == "zero2":  # what was gathered is still there
        inner += max(backward + summed + lost[1], scatter.duration_s)
    else:
        moving = gather.duration_s + scatter.duration_s
        inner += max(backward + copied + summed + sum(lost), moving)
    of_ends = [copies_s(candidate, each) for each in (held.first, held.last)]
    again = 1 if plan.fsdp == "zero2" else 2
    copies = sum(copy * again + summing for copy, summing in of_ends)
    copies -= of_ends[1][0] if again > 1 else 0.0
    # Nothing runs yet beside the first gather, nor any more beside the last sum.
    bare = seconds_of(exchange(candidate, GATHER, held.first * 2))
    bare += seconds_of(exchange(candidate, SCATTER, held.first * 4))
    return layers * inner + ends + copies + bare


def _alone_s(candidate: Candidate, whole: float) -> float:
    """Parameters cast for every micro-batch, gradients put in order and added up in float32: what
    FSDP2 does on one device, too."""
    plan = candidate.plan
    spent = kernel_s(candidate, CAST, whole) + kernel_s(candidate, IN, whole)
    added = kernel_s(candidate, NARROW, 2 * whole)  # twice the bytes of bfloat16
    return plan.microbatches * spent + (plan.microbatches - 1) * added


def _unsharded_s(candidate: Candidate, block: Block, whole: float, layers: float) -> float:
    """Gradients added up over micro-batches and summed over replicas, once a step."""
    plan = candidate.plan
    spent = plan.microbatches * kernel_s(candidate, ADD, whole)
    alone = len(members_of(candidate)) == 1
    if plan.fsdp == "none" or alone:
        spent += plan.microbatches * (
            kernel_s(candidate, CAST, whole) + kernel_s(candidate, COPY, whole)
        )
    if alone:
        return spent
    spent += kernel_s(candidate, IN, whole)
    if plan.fsdp == "none":
        exchanged = [exchange(candidate, SUM, whole * 4)]
    else:
        exchanged = [exchange(candidate, n, whole * w) for n, w in ((SCATTER, 4), (GATHER, 2))]
    for each in exchanged:
        assert each is not None
        beside = layers * (block.forward_s if each is exchanged[-1] else block.backward_s)
        if plan.fsdp == "none":
            beside = layers * block.backward_s
        hidden = min(each.duration_s * (1 - 1 / max(2.0, layers)), beside)
        spent += each.duration_s - hidden + hidden * _lost(candidate, block, each)
    return spent


def _exchanged_host_s(candidate: Candidate, layers: float) -> float:
    """Host time of gathering parameters and summing gradients, of all units of a rank."""
    plan, members = candidate.plan, members_of(candidate)
    if not plan.sums_each or len(members) == 1:
        return 0.0
    names: tuple[str, ...] = (GATHER, OUT, IN, SCATTER)
    names += () if plan.fsdp == "zero2" else (GATHER, OUT)
    costed = (costed_op(candidate.cluster, members, name, 1 << 20) for name in names)
    each = sum(item.host.before_s for item in costed)
    return plan.microbatches * (layers + 2) * each


def _lost(candidate: Candidate, block: Block, collective: Kernel) -> float:
    """Share of the block's progress that is lost while the collective runs beside it."""
    device = candidate.cluster.device
    constants = Constants(calibration_for(device))
    left = sum(
        spent / slowdown_of_compute(kind, limiter, collective, device, constants)
        for (kind, limiter), spent in block.sorts.items()
    )
    return 1 - left / sum(block.sorts.values())
