"""What a plan moves and copies beside its blocks, priced: collectives, casts, sums, messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from gpuscope.cost.engine import cost_program
from gpuscope.cost.types import CostedOp, Kernel
from gpuscope.hardware import Cluster, calibration_for
from gpuscope.planning.types import Candidate, Question
from gpuscope.program.types import Op, ProcessGroup, Program, TensorSpec

__all__ = [
    "ADD",
    "CAST",
    "COPY",
    "GATHER",
    "IN",
    "NARROW",
    "OUT",
    "SCATTER",
    "SUM",
    "Held",
    "copies_s",
    "costed_op",
    "exchange",
    "held_of",
    "kernel_s",
    "members_of",
    "message_s",
    "seconds_of",
]

GATHER, SCATTER, SUM = ("c10d::_allgather_base_", "c10d::_reduce_scatter_base_", "c10d::allreduce_")
"""Parameters gathered, gradients shared out as sums, or summed everywhere."""

OUT, IN = "aten::split_with_sizes_copy", "aten::_chunk_cat"
"""Copies out of what was gathered, and into what is to be summed."""

CAST, COPY, ADD, NARROW = "aten::_to_copy", "aten::copy_", "aten::add_", "aten::add"
"""A cast between float32 and bfloat16, a copy, a bfloat16 gradient added to a float32 sum, and to
one in bfloat16."""

_SEND = "c10d::send"


@dataclass(frozen=True, slots=True)
class Held:
    """Parameters of a rank, before they are sharded: of a block, of its experts among these, and of
    the two ends."""

    block: float
    experts: float
    first: float
    last: float


def held_of(question: Question, candidate: Candidate) -> Held:
    """Parameters of a rank before they are shared, by where they are."""
    size, plan = question.size, candidate.plan
    layer = size.layer_parameters(size.layers - 1) - size.expert_parameters
    ends = size.vocabulary * size.hidden / plan.tp
    experts = size.expert_parameters / (plan.ep * (candidate.asked.etp or 1))
    return Held(layer / plan.tp + experts, experts, ends, 0.0 if size.tied else ends)


def members_of(candidate: Candidate) -> tuple[int, ...]:
    """Ranks that share a rank's parameters: the group of rank 0."""
    plan = candidate.plan
    return tuple(range(0, (plan.shard or plan.dp) * plan.cp * plan.tp, plan.tp))


def exchange(candidate: Candidate, name: str, nbytes: float) -> Kernel | None:
    """The collective's kernel over so many bytes, whole; None where nobody shares."""
    members = members_of(candidate)
    return None if len(members) == 1 else _kernel(candidate.cluster, members, name, int(nbytes))


def _kernel(cluster: Cluster, members: tuple[int, ...], name: str, nbytes: int) -> Kernel:
    return costed_op(cluster, members, name, nbytes).kernels[0]


@lru_cache(maxsize=4096)
def costed_op(cluster: Cluster, members: tuple[int, ...], name: str, nbytes: int) -> CostedOp:
    """An operator on so many bytes of bfloat16, priced.

    Args:
        cluster: what it runs on.
        members: ranks that take part; one for what is done alone.
        name: one of this module's.
        nbytes: of the whole.
    """
    whole, part = _bytes(nbytes), _bytes(nbytes // len(members))
    wide = replace(whole, dtype="float32")
    inputs = {
        GATHER: (whole, part),
        SCATTER: (part, whole),
        CAST: (wide,),
        ADD: (wide, whole),
        NARROW: (whole, whole),
    }
    outputs = {IN: (wide,), ADD: (wide,), _SEND: ()}.get(name, (whole,))
    group = 0 if len(members) > 1 else -1
    op = Op(
        0,
        name,
        inputs=inputs.get(name, (whole,)),
        outputs=outputs,
        group=group,
        stream=0 if group < 0 else 3,
        peer=members[-1] if name == _SEND else -1,
    )
    program = Program(
        "", (op,), world_size=cluster.n_devices, groups=(ProcessGroup("0", "dp", members),)
    )
    costed = cost_program(program, cluster.device, calibration_for(cluster.device), cluster=cluster)
    return costed.ops[0]


def _bytes(nbytes: int) -> TensorSpec:
    return TensorSpec((max(1, nbytes // 2),), (1,), "bfloat16")


def message_s(cluster: Cluster, ranks: tuple[int, int], nbytes: float) -> float:
    """A message between two ranks, seconds."""
    return _kernel(cluster, ranks, _SEND, int(nbytes)).duration_s


def seconds_of(kernel: Kernel | None) -> float:
    """Of a kernel; none where there is none."""
    return 0.0 if kernel is None else kernel.duration_s


def copies_s(candidate: Candidate, parameters: float) -> tuple[float, float]:
    """Parameters copied out of what was gathered; gradients put in order to be summed."""
    return kernel_s(candidate, OUT, parameters), kernel_s(candidate, IN, parameters)


def kernel_s(candidate: Candidate, name: str, parameters: float) -> float:
    """What a rank does alone with so many parameters in bfloat16, seconds."""
    return _kernel(candidate.cluster, (0,), name, int(parameters) * 2).duration_s
