"""Memory of a candidate's fullest rank, composed of what its block's passes keep.

What a rank has all the time goes by FSDP2's way (parameters in float32 and gathered in bfloat16,
gradients in float32, AdamW's moments); what micro-batches in flight keep comes out of the order of
the passes; of a pipeline each micro-batch has a buffer for what it receives, all step long
(`PipelineStage._prepare_forward_infra`).
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.planning.blocks import Block
from gpuscope.planning.exchanges import Held, held_of
from gpuscope.planning.score import ADAM_BYTES
from gpuscope.planning.types import Candidate, Question
from gpuscope.program.pipeline.decoder_stages import StageLayers, cut_layers
from gpuscope.program.pipeline.orders import SPLIT, PipelineShape
from gpuscope.program.pipeline.plain_orders import BACKWARD, FORWARD, Pass, plain_order

__all__ = ["held_bytes", "message_bytes"]

_SCORES = 6.0
"""Bytes a token and word that the last stage keeps until its weights' gradients, where these are
computed apart: logarithms of probabilities in float32, gradients of the scores in bfloat16."""


def held_bytes(question: Question, candidate: Candidate, block: Block) -> float:
    """Bytes of the fullest rank at its peak.

    Args:
        question: what is asked.
        candidate: how it is split.
        block: its block's price, with what it keeps.
    """
    plan, layers = candidate.plan, question.size.layers
    held, kept = held_of(question, candidate), _kept_bytes(question, candidate, block)
    around = block.kept.around + max(0.0, block.kept.block - kept)
    if plan.pp == 1:
        own = held.block * layers + held.first + held.last
        peak = _resident(candidate, own, held.experts * layers) + layers * kept + around
        if plan.fsdp in ("full", "hybrid") and plan.world_size > 1:
            # The unit at work and the one that is gathered ahead, and a unit's gradients.
            peak += 4.0 * max(held.block, held.first) + 2.0 * held.block
        return peak
    stages = cut_layers(layers, plan.stages, candidate.asked.cut)
    shape = PipelineShape(plan.schedule, plan.pp, min(plan.microbatches, 2 * plan.pp), plan.virtual)
    received = message_bytes(question, candidate) * plan.microbatches
    tokens = question.seq / plan.cp * plan.microbatch
    scores = _SCORES * tokens * question.size.vocabulary / plan.tp
    most = 0.0
    for rank, order in enumerate(plain_order(shape)):
        mine = stages[rank :: plan.pp]
        blocks = sum(len(stage.layers) for stage in mine)
        static = _resident(candidate, _parameters(mine, held), held.experts * blocks)
        ways = sum((not stage.first) + (not stage.last) for stage in mine)
        flight = _in_flight(candidate, order, stages, kept, block, (around, scores))
        most = max(most, static + ways * received + flight)
    return most


def message_bytes(question: Question, candidate: Candidate) -> float:
    """What a stage sends to the next of a micro-batch, in bfloat16."""
    plan = candidate.plan
    shared = plan.tp if candidate.asked.sequence_parallel else 1
    tokens = question.seq / plan.cp * plan.microbatch / shared
    return 2.0 * tokens * question.size.hidden


def _kept_bytes(question: Question, candidate: Candidate, block: Block) -> float:
    """Of a block and micro-batch in flight; what is computed again keeps its input."""
    entry = message_bytes(question, candidate)
    ways = {"none": block.kept.block, "selective": block.kept.chosen + entry, "full": entry}
    return ways[candidate.plan.recompute]


def _parameters(stages: tuple[StageLayers, ...], held: Held) -> float:
    blocks = sum(len(stage.layers) for stage in stages)
    ends = sum(stage.first + stage.last for stage in stages)
    return held.block * blocks + held.first * ends


def _resident(candidate: Candidate, parameters: float, experts: float) -> float:
    """Parameters, experts' among them, gradients and moments."""
    plan = candidate.plan
    share = (plan.shard or plan.dp) * plan.cp
    spread = replace(plan, etp=candidate.asked.etp or 1).expert_share
    part = (parameters - experts) / share + experts / spread
    if plan.fsdp in ("full", "hybrid"):
        return part * (4 + 4 + ADAM_BYTES)
    if plan.fsdp == "zero2":
        return parameters * 2 + part * (4 + 4 + ADAM_BYTES)
    if plan.fsdp == "zero1":
        return parameters * (2 + 4) + part * (4 + ADAM_BYTES)
    return parameters * (4 + 2 + 4 + ADAM_BYTES)


def _in_flight(
    candidate: Candidate,
    order: tuple[Pass, ...],
    stages: tuple[StageLayers, ...],
    kept: float,
    block: Block,
    ends: tuple[float, float],
) -> float:
    """The most that a rank's micro-batches keep at a time.

    Args:
        candidate, order, stages, block: the rank's.
        kept: of a block and micro-batch.
        ends: what is there at a time around the blocks, and what stays of the scores.
    """
    around, scores = ends
    split = candidate.plan.schedule in SPLIT
    alive = most = 0.0
    for kind, number, _ in order:
        stage = stages[number]
        layers = len(stage.layers)
        late = 0.0 if stage.first else layers * block.kept.products
        passed = layers * kept + (scores if split and stage.last else 0.0)
        if kind == FORWARD:
            alive += passed
        most = max(most, alive + (around if stage.last else 0.0))
        if kind == BACKWARD:
            alive += late if split else -layers * kept
        elif kind != FORWARD:
            alive -= passed + late
    return most
