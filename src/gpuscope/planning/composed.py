"""A candidate's step, composed of its block's price and of its collectives.

A composition, no simulation: it orders what is simulated. Replicas exchange parameters and
gradients beside the blocks they belong to; a pipeline idles while it fills and drains (Narayanan
et al., 2021, section 2.2); what is sharded is held once a group (Rajbhandari et al., 2020).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from gpuscope.cost.engine import cost_program
from gpuscope.cost.overlap import slowdown_of_compute
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import CostedOp, Kernel
from gpuscope.hardware import Cluster, calibration_for
from gpuscope.planning.dimensions.registry import DIMENSIONS
from gpuscope.planning.score import weighed_of
from gpuscope.planning.tables import Block
from gpuscope.planning.types import Candidate, Question
from gpuscope.program.models.parallel.options import Parallelism
from gpuscope.program.pipeline.decoder_stages import cut_layers
from gpuscope.program.types import Op, ProcessGroup, Program, TensorSpec

__all__ = ["composed_s", "held_of"]

_GATHER, _SCATTER, _SUM = (
    "c10d::_allgather_base_",
    "c10d::_reduce_scatter_base_",
    "c10d::allreduce_",
)
_OUT, _IN = "aten::split_with_sizes_copy", "aten::_chunk_cat"
_CAST, _COPY, _ADD = "aten::_to_copy", "aten::copy_", "aten::add_"


@dataclass(frozen=True, slots=True)
class _Held:
    """Parameters of a rank, before they are sharded: of a block, and of the two ends."""

    block: float
    first: float
    last: float


def composed_s(question: Question, candidate: Candidate, block: Block) -> float:
    """Step time of a candidate, seconds.

    Args:
        question: what is asked.
        candidate: how it is split.
        block: its block's price.
    """
    plan = candidate.plan
    held = held_of(question, plan)
    layers = question.size.layers / plan.pp
    ends = held.first + held.last if plan.pp == 1 else held.first
    whole = held.block * layers + ends
    if plan.pp > 1:
        device_s = _pipeline_s(candidate, block, question.size.layers)
    else:
        device_s = plan.microbatches * _passes_s(candidate, block, held, layers)
    if plan.fsdp not in ("full", "hybrid"):
        device_s += _unsharded_s(candidate, block, whole, layers)
    host_s = block.host_s * layers * (1 if plan.recompute == "none" else 4 / 3)
    if plan.pp == 1:
        host_s += block.ends_host_s
    host_s = host_s * plan.microbatches + _exchanged_host_s(candidate, layers)
    sharing = 1 if plan.fsdp == "none" else len(_members(candidate))
    passes_s, update_s = max(device_s, host_s), block.optimizer_s * whole / sharing
    for name, value in candidate.more:
        change = DIMENSIONS.get(name).composed
        if change is not None:
            weighed = weighed_of(question, candidate)
            passes_s, update_s = change(weighed, value, whole, passes_s, update_s)
    return passes_s + update_s


def _passes_s(candidate: Candidate, block: Block, held: _Held, layers: float) -> float:
    """A micro-batch through all blocks of a rank, with what is exchanged beside them."""
    plan = candidate.plan
    forward, backward = block.forward_s, block.backward_s + block.again_s[plan.recompute]
    ends = block.first_s + block.last_s
    gather = _exchange(candidate, _GATHER, held.block * 2)
    scatter = _exchange(candidate, _SCATTER, held.block * 4)
    if plan.fsdp not in ("full", "hybrid") or gather is None or scatter is None:
        return layers * (forward + backward) + ends
    copied, summed = _copies_s(candidate, held.block)
    lost = [each.duration_s * _lost(candidate, block, each) for each in (gather, scatter)]
    moving = gather.duration_s + scatter.duration_s
    inner = max(forward + copied + lost[0], gather.duration_s)
    inner += max(backward + copied + summed + sum(lost), moving)
    of_ends = [_copies_s(candidate, each) for each in (held.first, held.last)]
    copies = sum(copy * 2 + summing for copy, summing in of_ends) - of_ends[1][0]
    # Nothing runs yet beside the first gather, nor any more beside the last sum.
    bare = _s(_exchange(candidate, _GATHER, held.first * 2))
    bare += _s(_exchange(candidate, _SCATTER, held.first * 4))
    return layers * inner + ends + copies + bare


def _pipeline_s(candidate: Candidate, block: Block, layers: int) -> float:
    """All micro-batches through the slowest rank, and what it waits while others fill and drain."""
    plan = candidate.plan
    forward, backward = block.forward_s, block.backward_s + block.again_s[plan.recompute]
    stages = cut_layers(layers, plan.stages, candidate.asked.cut)
    ranks = [
        sum(len(stage.layers) for stage in stages[rank :: plan.pp]) * (forward + backward)
        for rank in range(plan.pp)
    ]
    ranks[0] += block.first_s
    ranks[-1] += block.last_s - block.order_s
    slowest, mean = max(ranks), layers / plan.pp
    idle = (sum(ranks) - slowest) / plan.virtual
    if plan.schedule == "zb":
        idle = (plan.pp - 1) * mean * (forward + max(0.0, backward - 2 * forward))
    return plan.microbatches * slowest + idle + block.order_s


def _unsharded_s(candidate: Candidate, block: Block, whole: float, layers: float) -> float:
    """Gradients added up over micro-batches and summed over replicas, once a step."""
    plan = candidate.plan
    spent = plan.microbatches * _kernel_s(candidate, _ADD, whole)
    alone = len(_members(candidate)) == 1
    if plan.fsdp == "none" or alone:
        # A pipeline keeps its bfloat16 parameters over a step's micro-batches.
        often = plan.microbatches if plan.pp == 1 else 1
        spent += often * (_kernel_s(candidate, _CAST, whole) + _kernel_s(candidate, _COPY, whole))
    if alone:
        return spent
    if plan.fsdp == "none":
        exchanged = [_exchange(candidate, _SUM, whole * 4)]
    else:
        exchanged = [_exchange(candidate, n, whole * w) for n, w in ((_SCATTER, 4), (_GATHER, 2))]
    for each in exchanged:
        assert each is not None
        if plan.pp > 1:  # each stage waits for its own
            spent += each.duration_s
            continue
        beside = layers * (block.forward_s if each is exchanged[-1] else block.backward_s)
        if plan.fsdp == "none":
            beside = layers * block.backward_s
        hidden = min(each.duration_s * (1 - 1 / max(2.0, layers)), beside)
        spent += each.duration_s - hidden + hidden * _lost(candidate, block, each)
    return spent


def held_of(question: Question, plan: Parallelism) -> _Held:
    """Parameters of a rank before they are shared, by where they are."""
    size = question.size
    layer = size.layer_parameters(size.layers - 1) - size.expert_parameters
    ends = size.vocabulary * size.hidden / plan.tp
    experts = size.expert_parameters / max(plan.ep, plan.tp)
    return _Held(layer / plan.tp + experts, ends, 0.0 if size.tied else ends)


def _members(candidate: Candidate) -> tuple[int, ...]:
    """Ranks that share a rank's parameters: the group of rank 0."""
    plan = candidate.plan
    return tuple(range(0, (plan.shard or plan.dp) * plan.cp * plan.tp, plan.tp))


def _exchanged_host_s(candidate: Candidate, layers: float) -> float:
    """Host time of gathering parameters and summing gradients, of all units of a rank."""
    plan, members = candidate.plan, _members(candidate)
    if plan.fsdp not in ("full", "hybrid") or len(members) == 1:
        return 0.0
    names = (_GATHER, _OUT, _GATHER, _OUT, _IN, _SCATTER)
    each = sum(_costed(candidate.cluster, members, name, 1 << 20).host.before_s for name in names)
    return plan.microbatches * (layers + 2) * each


def _exchange(candidate: Candidate, name: str, nbytes: float) -> Kernel | None:
    """The collective's kernel over so many bytes, whole; None where nobody shares."""
    members = _members(candidate)
    return None if len(members) == 1 else _kernel(candidate.cluster, members, name, int(nbytes))


def _kernel(cluster: Cluster, members: tuple[int, ...], name: str, nbytes: int) -> Kernel:
    return _costed(cluster, members, name, nbytes).kernels[0]


@lru_cache(maxsize=4096)
def _costed(cluster: Cluster, members: tuple[int, ...], name: str, nbytes: int) -> CostedOp:
    whole, part = _bytes(nbytes), _bytes(nbytes // len(members))
    wide = replace(whole, dtype="float32")
    inputs = {_GATHER: (whole, part), _SCATTER: (part, whole), _CAST: (wide,), _ADD: (wide, whole)}
    outputs = (wide,) if name in (_IN, _ADD) else (whole,)
    group = 0 if len(members) > 1 else -1
    op = Op(
        0,
        name,
        inputs=inputs.get(name, (whole,)),
        outputs=outputs,
        group=group,
        stream=0 if group < 0 else 3,
    )
    program = Program(
        "", (op,), world_size=cluster.n_devices, groups=(ProcessGroup("0", "dp", members),)
    )
    costed = cost_program(program, cluster.device, calibration_for(cluster.device), cluster=cluster)
    return costed.ops[0]


def _bytes(nbytes: int) -> TensorSpec:
    return TensorSpec((max(1, nbytes // 2),), (1,), "bfloat16")


def _lost(candidate: Candidate, block: Block, collective: Kernel) -> float:
    """Share of the block's progress that is lost while the collective runs beside it."""
    device = candidate.cluster.device
    constants = Constants(calibration_for(device))
    left = sum(
        spent / slowdown_of_compute(kind, limiter, collective, device, constants)
        for (kind, limiter), spent in block.sorts.items()
    )
    return 1 - left / sum(block.sorts.values())


def _s(kernel: Kernel | None) -> float:
    return 0.0 if kernel is None else kernel.duration_s


def _copies_s(candidate: Candidate, parameters: float) -> tuple[float, float]:
    """Parameters copied out of what was gathered; gradients put in order to be summed."""
    return _kernel_s(candidate, _OUT, parameters), _kernel_s(candidate, _IN, parameters)


def _kernel_s(candidate: Candidate, name: str, parameters: float) -> float:
    return _kernel(candidate.cluster, (0,), name, int(parameters) * 2).duration_s
