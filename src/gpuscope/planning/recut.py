"""A pipeline's candidate cut anew, by what its blocks cost (`dimensions.stages`)."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.planning.blocks import Block
from gpuscope.planning.dimensions.stages import Ends, least_cut, words_of
from gpuscope.planning.exchanges import held_of
from gpuscope.planning.score import ADAM_BYTES, LOGIT_BYTES, kept_bytes
from gpuscope.planning.types import Candidate, Question
from gpuscope.program.pipeline.decoder_stages import cut_layers

__all__ = ["recut"]


def recut(question: Question, candidate: Candidate, block: Block) -> Candidate | None:
    """The same pipeline with the best cut; None where that is the usual one, or none fits.

    Args:
        question: what is asked.
        candidate: with or without a pipeline.
        block: its block's price.
    """
    plan, size = candidate.plan, question.size
    dense = size.experts.dense_layers if size.experts else 0
    if plan.pp == 1 or dense or plan.stages > size.layers or "stages" in dict(candidate.more):
        return None
    held = held_of(question, candidate)
    share = 1 if plan.fsdp == "none" else (plan.shard or plan.dp) * plan.cp
    a_parameter = 8.0 + ADAM_BYTES / share
    tokens = question.seq / plan.cp * plan.microbatch / plan.tp
    kept = tokens * kept_bytes(size, plan.recompute)
    # A rank has as many micro-batches in flight as ranks come after it, and its own (1F1B).
    flight = [min(plan.pp - rank, plan.microbatches) for rank in range(plan.pp)]
    head = size.vocabulary * size.hidden / plan.tp
    cut = least_cut(
        size.layers,
        plan.pp,
        plan.virtual,
        block.forward_s + block.backward_s + block.again_s[plan.recompute],
        Ends(block.first.both_s, block.last.both_s),
        tuple(held.block * a_parameter + kept * each for each in flight),
        Ends(held.first * a_parameter, head * a_parameter + tokens * size.vocabulary * LOGIT_BYTES),
        float(candidate.cluster.device.memory_usable_bytes),
    )
    usual = tuple(len(stage.layers) for stage in cut_layers(size.layers, plan.stages))
    if cut is None or cut == usual:
        return None
    more = tuple(sorted((*candidate.more, ("stages", words_of(cut)))))
    return replace(candidate, more=more)
