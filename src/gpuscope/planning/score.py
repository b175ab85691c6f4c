"""All candidates at once: bounds that rule some out, and an estimate that orders the rest.

The bounds are arithmetic that no software can beat. The estimate takes a usual share of the peaks
and is only there to choose what is simulated: no figure of an answer comes from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuscope.planning.dimensions.registry import DIMENSIONS, Weighed
from gpuscope.planning.types import Candidate, Question
from gpuscope.program.models.parallel.options import Parallelism, Software
from gpuscope.program.models.parallel.size import TransformerSize

__all__ = ["Scores", "kept_bytes", "score", "weighed_of"]

Column = NDArray[np.float64]

REACHED = 0.65
"""Share of the peak that products of a large model usually reach."""

LINKED = 0.7
"""Share of a link's rate that large collectives usually reach."""

LAUNCH_S = 6e-6
"""Host time of an operator; a block's forward and backward pass has some 200."""

BLOCK_OPS = 200

_WEIGHED = ("peak", "held", "experts", "expert_share")
"""Columns that a dimension weighs."""

ADAM_BYTES = 8.0
"""Two float32 moments a parameter (Rajbhandari et al., ZeRO, 2020, section 3)."""

AGAIN = {"none": 1.0, "selective": 1.06, "full": 4 / 3}
"""Work of a step with what is computed again, as a share of that without."""

ZERO_BUBBLE = 2.0
"""Of what a micro-batch in flight keeps, where the backward pass of weights is put off: what it
reads, and the gradients that it multiplies that by. Three simulated pipelines of 4, 8 and 64 stages
kept 2.0 to 3.2 times as much."""

LOGIT_BYTES = 10.0
"""Bytes a token and word: the scores in bfloat16, in float32, and their gradient."""


@dataclass(frozen=True, slots=True)
class Scores:
    """One figure a candidate, in their order.

    Attributes:
        least_s: no step can be quicker: its arithmetic at the peak.
        estimate_s: what a step usually takes.
        least_bytes: parameters and optimizer states that a rank keeps all the time.
        estimate_bytes: with activations.
    """

    least_s: Column
    estimate_s: Column
    least_bytes: Column
    estimate_bytes: Column


def score(question: Question, candidates: Sequence[Candidate]) -> Scores:
    """Score all candidates.

    Args:
        question: what is asked.
        candidates: plans of its model.
    """
    size, c = question.size, _columns(question.size, candidates)
    layer = size.layer_parameters(size.layers - 1) - size.expert_parameters
    c["experts"] = size.expert_parameters / c["ep"] * size.layers / c["pp"]
    c["held"] = layer / c["tp"] * size.layers / c["pp"] + c["experts"]
    c["held"] += (
        size.vocabulary * size.hidden / c["tp"] * (1 if size.tied else np.where(c["pp"] > 1, 1, 2))
    )
    share = np.where(c["shard"] > 0, c["shard"], c["dp"] * c["cp"])
    c["expert_share"] = np.where(c["ep"] > 1, c["dp"] * c["cp"] * c["tp"] / c["ep"], share)
    _score_beside(question, candidates, c)
    held, experts = c["held"], c["experts"]
    each, none = c["each"] > 0, c["none"] > 0
    # As many parameters on one rank alone would take as much of its memory.
    whole = (held - experts) / np.where(each, share, 1.0)
    whole += experts / np.where(each, c["expert_share"], 1.0)
    states = (held - experts) / np.where(none, 1.0, share)
    states += experts / np.where(none, 1.0, c["expert_share"])
    # float32 parameters and the moments; gradients come and go
    least_bytes = whole * c["weight_bytes"] + states * c["state_bytes"] + held * c["gathered"]
    tokens = question.seq / c["cp"] * c["microbatch"]
    in_flight = np.minimum(c["pp"], c["microbatches"]) * c["waiting"]
    kept = tokens * size.layers / c["pp"] / c["tp"] * c["kept"]
    last = tokens / c["tp"] * np.maximum(size.vocabulary * LOGIT_BYTES, c["again_bytes"])
    # The first stage has most micro-batches in flight, the last has one, and the scores.
    passes = np.where(c["pp"] > 1, np.maximum(kept * in_flight, kept + last), kept + last)
    estimate_bytes = least_bytes + whole * c["gradient_bytes"] + passes + c["copies"]

    all_tokens = question.global_batch * question.seq
    scores_flops = 12 * size.heads * size.head * size.attended(question.seq)
    flops = (6 * size.active_parameters + scores_flops) * all_tokens
    if not size.tied:  # looking a token up is no product
        flops -= 6 * size.vocabulary * size.hidden * all_tokens
    least_s = flops / c["peak"] / c["world"]
    compute_s = least_s * c["again"] / REACHED
    # Four gathers and four scatters of a block's tokens in bfloat16 (Korthikanti et al., 2022).
    moved = 8 * 2 * tokens * size.hidden * size.layers / c["pp"] * (c["tp"] - 1) / c["tp"]
    tensor_s = moved * c["microbatches"] / (c["inner"] * LINKED)
    # Keys and values of all other parts, in either pass, and their gradients' way in float32.
    passed = (2 * 2 + 4) * 2 * size.kv_heads * size.head / c["tp"] * tokens * (c["cp"] - 1)
    ring = np.where(c["tp"] * c["cp"] > c["node"], c["outer"], c["inner"]) * LINKED
    context_s = passed * size.layers / c["pp"] * c["microbatches"] / ring
    around = (share - 1) / share
    link = np.where(c["nodes"] > 1, c["outer"], c["inner"]) * LINKED
    ways = np.where(c["gathered"] > 0, 2 + 4, 2 * 2 + 4)
    gathered_s = held * around * ways / link * np.where(c["each"] > 0, c["microbatches"], 1)
    exposed_s = np.maximum(0.1 * gathered_s, gathered_s - compute_s)
    exposed_s = np.where(c["each"] > 0, exposed_s, gathered_s)
    device_s = (compute_s + tensor_s + context_s) * (
        1 + c["bubble"] / c["microbatches"]
    ) + exposed_s
    blocks = size.layers / c["pp"] * c["microbatches"]
    host_s = blocks * BLOCK_OPS * LAUNCH_S * np.where(c["tp"] > 1, 2.0, 1.0)
    passes_s = np.maximum(np.maximum(device_s, host_s), c["copied_s"])
    return Scores(least_s, passes_s + c["updated_s"], least_bytes, estimate_bytes)


def weighed_of(question: Question, candidate: Candidate) -> Weighed:
    """What a dimension is given to weigh a candidate."""
    size, cluster, plan = question.size, candidate.cluster, candidate.plan
    return Weighed(size=size, cluster=cluster, plan=plan, seq=question.seq)


def kept_bytes(size: TransformerSize, recompute: str) -> float:
    """Bytes a token that a block keeps for its backward pass, counted as the programs keep them.

    Everything is in bfloat16 unless said. Two norms keep input and result (an RMS norm written in
    steps also its input in float32 and the cast). Queries, keys, values and the attention's result
    are kept; of the feed-forward part the first products, what is activated, and its product with
    the other. Experts add a copy of each token for each expert it goes to, on either way. Selective
    recomputation keeps the results of products and of attention, full recomputation the input.

    Args:
        size: the model's.
        recompute: "none", "selective" or "full".
    """
    if recompute == "full":
        return 2.0 * size.hidden
    heads = 2 * size.heads * size.head + 2 * size.kv_heads * size.head
    experts, wide, copies = size.experts, size.ffn, 0
    if experts is not None:
        wide = experts.chosen * experts.ffn + experts.shared_ffn
        copies = 2 * experts.chosen * size.hidden
    if recompute == "selective":
        return 2.0 * (3 * size.hidden + heads + (2 if size.gated else 1) * wide + copies)
    steps = size.norm == "rms" and not Software().fused_norm
    norms = (16 if steps else 8) * size.hidden
    return norms + 2.0 * (heads + (4 if size.gated else 2) * wide + copies)


def _columns(size: TransformerSize, candidates: Sequence[Candidate]) -> dict[str, Column]:
    """Each quantity of the candidates as a column."""
    plans = [each.plan for each in candidates]
    clusters = [each.cluster for each in candidates]
    columns: dict[str, list[float]] = {
        name: [getattr(plan, name) for plan in plans]
        for name in ("dp", "tp", "pp", "cp", "ep", "shard", "microbatch", "microbatches")
    }
    columns["world"] = [plan.world_size for plan in plans]
    columns["each"] = [plan.sums_each for plan in plans]
    # What stays gathered until a micro-batch's end, in bfloat16.
    columns["gathered"] = [2.0 if plan.fsdp == "zero2" else 0.0 for plan in plans]
    columns["none"] = [plan.fsdp == "none" for plan in plans]
    kept = {how: kept_bytes(size, how) for how in AGAIN}
    columns["kept"] = [kept[plan.recompute] for plan in plans]
    columns["again_bytes"] = [kept["none"] - kept[plan.recompute] for plan in plans]
    columns["again"] = [AGAIN[plan.recompute] for plan in plans]
    columns["weight_bytes"] = columns["gradient_bytes"] = [4.0] * len(plans)
    columns["copied_s"] = columns["updated_s"] = [0.0] * len(plans)
    columns["state_bytes"] = [ADAM_BYTES] * len(plans)
    columns["copies"] = [0.0] * len(plans)
    columns["bubble"] = [
        0.3 * (p.pp - 1) if p.schedule == "zb" else (p.pp - 1) / p.virtual for p in plans
    ]
    columns["waiting"] = [_waiting(plan) for plan in plans]
    columns["node"] = [cluster.devices_per_node for cluster in clusters]
    columns["nodes"] = [cluster.nodes for cluster in clusters]
    columns["peak"] = [cluster.device.peak_flops_per_s("bfloat16") for cluster in clusters]
    slow = 32e9  # a host link of PCIe 4.0, where no other is known
    columns["inner"] = [
        (
            c.device.scale_up_bandwidth_bytes_per_s
            or c.device.host_link_bandwidth_bytes_per_s
            or slow
        )
        for c in clusters
    ]
    columns["outer"] = [c.scale_out_bandwidth_bytes_per_s or slow for c in clusters]
    return {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}


def _waiting(plan: Parallelism) -> float:
    """Micro-batches in flight on the first rank, as a share of those of 1F1B.

    Virtual stages warm up with (p - 1) / v more (Narayanan et al., 2021, section 2.2).
    """
    if plan.schedule == "zb":
        return ZERO_BUBBLE
    return 1 + (plan.pp - 1) / (plan.pp * plan.virtual) if plan.virtual > 1 else 1.0


def _score_beside(
    question: Question, candidates: Sequence[Candidate], columns: dict[str, Column]
) -> None:
    """What the candidates choose beside their layout, in the columns that it changes."""
    for n, each in enumerate(candidates):
        for name, value in each.more:
            row = {column: float(columns[column][n]) for column in _WEIGHED}
            weighed = weighed_of(question, each)
            for column, changed in DIMENSIONS.get(name).score(weighed, value, row).items():
                columns[column][n] = changed
