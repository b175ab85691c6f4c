"""A pipeline's passes in the order of its schedule, each as long as its stage's blocks take.

Every rank goes through its passes in order; one begins when its rank is free and what it needs
has come from the stage before or after, and ends no sooner than its host, which waits for nothing,
has issued it. In 1F1B a rank waits for what it sends and for what it
receives at once, so a message keeps it as long as its partner; the other schedules send beside the
passes (`gpuscope.program.pipeline.script`). So warm-up, uneven stages, the ends of the model, and
what weights' gradients fill come out of the walk, not out of a formula.

Replicas gather parameters in a stage's first pass, and sum gradients after its last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuscope.planning.blocks import Block
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
    exchange,
    held_of,
    kernel_s,
    members_of,
    message_s,
    seconds_of,
)
from gpuscope.planning.held import message_bytes
from gpuscope.planning.types import Candidate, Question
from gpuscope.program.pipeline.decoder_stages import StageLayers, cut_layers
from gpuscope.program.pipeline.orders import SPLIT, PipelineShape
from gpuscope.program.pipeline.plain_orders import BACKWARD, FORWARD, WEIGHTS, Pass, plain_order

__all__ = ["Stage", "pipeline_s", "walked_s"]


_Times = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Stage:
    """Seconds of a stage's passes, by kind: of the first micro-batch, and of any later one.

    Attributes:
        first, later: forward; backward, of inputs alone where those of weights are apart; weights.
        issued: what the host takes to issue each.
        summed_s: gradients put in order and summed over replicas, once a step.
    """

    first: _Times
    later: _Times
    issued: _Times = (0.0, 0.0, 0.0)
    summed_s: float = 0.0


def pipeline_s(question: Question, candidate: Candidate, block: Block) -> float:
    """A step but for its update: from a rank's first pass until its gradients are summed.

    Steps follow each other, so the rank that takes longest sets the period.

    Args:
        question: what is asked.
        candidate: with stages.
        block: its block's price.
    """
    plan = candidate.plan
    cut = cut_layers(question.size.layers, plan.stages, candidate.asked.cut)
    held = held_of(question, candidate)
    known = {}
    stages = []
    for each in cut:
        key = len(each.layers), each.first, each.last
        if key not in known:
            known[key] = _stage(candidate, block, each, held)
        stages.append(known[key])
    hops = _hops_s(question, candidate)

    def step_s(microbatches: int) -> float:
        shape = PipelineShape(plan.schedule, plan.pp, microbatches, plan.virtual)
        spans = walked_s(plain_order(shape), stages, hops, waits=plan.schedule == "1f1b")
        summed = [sum(s.summed_s for s in stages[rank :: plan.pp]) for rank in range(plan.pp)]
        return max(end - begin + more for (begin, end), more in zip(spans, summed, strict=True))

    # Affine once the ranks are filled, as in `gpuscope.planning.simulate`.
    one, two = 2 * plan.pp, 3 * plan.pp
    if plan.microbatches <= two:
        return step_s(plan.microbatches)
    short = step_s(one)
    return short + (step_s(two) - short) * (plan.microbatches - one) / (two - one)


def walked_s(
    order: Sequence[Sequence[Pass]],
    stages: Sequence[Stage],
    hops_s: Sequence[float],
    *,
    waits: bool,
) -> list[tuple[float, float]]:
    """When each rank begins its first pass and ends its last one, seconds.

    Args:
        order: of the passes of each rank.
        stages: their seconds.
        hops_s: of a message from each rank to the next, and from the last to the first.
        waits: a rank that turns from forward to backward or the reverse waits for its message.
    """
    ranks, last = len(order), len(stages) - 1
    count = 1 + max(number for passes in order for _, _, number in passes)
    forward = [[-1.0] * count for _ in stages]
    backward = [[-1.0] * count for _ in stages]
    at, free, begins, hosts = [0] * ranks, [0.0] * ranks, [-1.0] * ranks, [0.0] * ranks
    left = sum(map(len, order))
    way = [*range(ranks), *range(ranks - 2, 0, -1)]
    while left:
        before = left
        for rank in way:
            passes, place, clock, host = order[rank], at[rank], free[rank], hosts[rank]
            ahead, behind = hops_s[rank], hops_s[rank - 1]
            while place < len(passes):
                kind, stage, number = passes[place]
                come = 0.0
                if kind == FORWARD and stage:
                    come = forward[stage - 1][number]
                elif kind == BACKWARD and stage < last:
                    come = backward[stage + 1][number]
                if come < 0:
                    break
                hop = behind if kind == FORWARD else ahead
                begin = max(clock, host)
                if come:
                    begin = max(begin, come + hop)
                    if waits and place and passes[place - 1][0] != kind:
                        begin = max(begin, clock + hop)
                times = stages[stage].later if number else stages[stage].first
                host += stages[stage].issued[kind]
                clock = max(begin + times[kind], host)
                if kind == FORWARD:
                    forward[stage][number] = clock
                elif kind == BACKWARD:
                    backward[stage][number] = clock
                if begins[rank] < 0:
                    begins[rank] = begin
                place += 1
            left -= place - at[rank]
            at[rank], free[rank], hosts[rank] = place, clock, host
        assert left < before, "an order in which passes wait for each other for ever"
    return list(zip(begins, free, strict=True))


def _hops_s(question: Question, candidate: Candidate) -> list[float]:
    """Seconds of a message from each rank of the pipeline to the next, and around its end."""
    plan, cluster = candidate.plan, candidate.cluster
    nbytes = message_bytes(question, candidate)
    width = plan.world_size // plan.pp
    pairs = [(rank * width, (rank + 1) * width) for rank in range(plan.pp - 1)]
    pairs.append((0, (plan.pp - 1) * width))
    if plan.pp == 1:
        return [0.0]
    node = cluster.devices_per_node
    known: dict[bool, float] = {}
    for pair in pairs:
        far = pair[0] // node != pair[1] // node
        if far not in known:
            known[far] = message_s(cluster, pair, nbytes)
    return [known[a // node != b // node] for a, b in pairs]


def _stage(candidate: Candidate, block: Block, held: StageLayers, each: Held) -> Stage:
    """One stage's passes: its blocks, its ends, and what is done with parameters and gradients."""
    plan, layers = candidate.plan, len(held.layers)
    again = block.again_s[plan.recompute]
    more = block.again_host[plan.recompute]
    ends = [end for end, there in ((block.first, held.first), (block.last, held.last)) if there]
    # Where both ends share their weights, each has a copy of its own.
    parameters = layers * each.block + (held.first + held.last) * each.first
    forward = layers * block.forward_s + sum(end.forward_s for end in ends)
    whole = layers * (block.backward_s + again) + sum(end.backward_s for end in ends)
    issued = [block.host.forward_s + more.forward_s, block.host.backward_s + more.backward_s, 0.0]
    passes, kept, added = [forward, whole, 0.0], CAST, ADD
    if plan.schedule in SPLIT:
        kept, added = "", NARROW
        if held.first:  # of the first stage only weights have gradients
            passes, issued = [forward, 0.0, whole], [issued[0], 0.0, issued[1]]
        else:
            weights = layers * block.weights_s + sum(end.weights_s for end in ends)
            inputs = layers * (block.inputs_s + again)
            inputs += sum(end.backward_s - end.weights_s for end in ends)
            passes = [forward, inputs, weights]
            issued = [issued[0], block.inputs_host_s + more.backward_s, block.weights_host_s]
    adds = BACKWARD if passes[BACKWARD] else WEIGHTS
    gathered_s, summed_s = _shared_s(candidate, block, layers, each, parameters)
    first = passes.copy()
    first[FORWARD] += gathered_s
    first[adds] += kernel_s(candidate, kept, parameters) if kept else 0.0
    passes[adds] += kernel_s(candidate, added, parameters)
    return Stage(_times(first), _times(passes), _times([layers * s for s in issued]), summed_s)


def _times(kinds: list[float]) -> _Times:
    forward, backward, weights = kinds
    return forward, backward, weights


def _shared_s(
    candidate: Candidate, block: Block, layers: int, each: Held, parameters: float
) -> tuple[float, float]:
    """A stage's parameters made ready in its first pass, and its gradients summed after the last.

    A unit is gathered while the one before computes; nothing is left that sums could run beside.
    """
    plan = candidate.plan
    alone = len(members_of(candidate)) == 1
    ready_s = kernel_s(candidate, CAST, parameters) + kernel_s(candidate, COPY, parameters)
    if alone:
        return ready_s, 0.0
    ordered_s = kernel_s(candidate, IN, parameters)
    if plan.fsdp == "none":
        copied_s = kernel_s(candidate, COPY, 2 * parameters)
        return ready_s, ordered_s + copied_s + seconds_of(exchange(candidate, SUM, parameters * 4))
    unit_s = seconds_of(exchange(candidate, GATHER, each.block * 2))
    whole_s = seconds_of(exchange(candidate, GATHER, parameters * 2))
    covered_s = max(0, layers - 1) * min(unit_s, block.forward_s)
    scattered_s = seconds_of(exchange(candidate, SCATTER, parameters * 4))
    out_s = kernel_s(candidate, OUT, parameters)
    return out_s + max(0.0, whole_s - covered_s), ordered_s + scattered_s
