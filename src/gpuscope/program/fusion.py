"""What `torch.compile` makes of a captured step: fused kernels, views and temporaries gone.

Follows the rules of Inductor's scheduler (Ansel et al., "PyTorch 2", ASPLOS 2024, section 4;
torch/_inductor/scheduler.py): elementwise operators and reductions over the same iteration
domain are fused when one produces what the other reads or both read the same memory; matrix
multiplies, convolutions, attention and sorts stay calls to libraries and are never fused into;
views cost nothing; a tensor that only one fused kernel sees is never written to memory.

Two operators may only share a kernel if no library call lies between them. That is kept by
*levels*: a library call's result is one level above its inputs, a fusible operator's result is at
the level of its highest input, and only equal levels fuse.

Left out (their effect goes the other way or is small): recomputation chosen by the partitioner,
epilogues fused into Triton matrix multiplies under max-autotune, horizontal fusion of the foreach
optimizer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpuscope.program.types import Op, Program, Storage, TensorSpec

_REDUCTIONS = frozenset(
    """sum mean amax amin max min argmax any all var var_mean native_layer_norm
    native_layer_norm_backward native_group_norm native_group_norm_backward _softmax _log_softmax
    _softmax_backward_data _log_softmax_backward_data native_batch_norm
    native_batch_norm_backward _native_batch_norm_legit _fused_rms_norm
    _fused_rms_norm_backward linalg_vector_norm nll_loss_forward logsumexp""".split()
)

_POINTWISE = frozenset(
    """add sub mul div neg exp log log1p pow sqrt rsqrt sin cos tanh sigmoid silu gelu relu erf
    leaky_relu elu hardtanh threshold_backward gelu_backward silu_backward tanh_backward
    sigmoid_backward hardtanh_backward native_dropout native_dropout_backward where masked_fill
    eq ne gt lt ge le bitwise_and bitwise_or bitwise_not logical_and logical_or logical_not clamp
    reciprocal abs sign addcmul addcdiv lerp maximum minimum isnan isinf _to_copy clone fill zero
    zeros zeros_like ones ones_like full full_like new_zeros new_ones arange scalar_tensor cat
    constant_pad_nd slice_backward select_backward embedding triu tril copy softplus log_sigmoid
    mse_loss mse_loss_backward nll_loss_backward slice_scatter select_scatter remainder floor
    index_select gather pow_backward rsub square cumsum""".split()
)

_MAX_GROUP = 64
"""Inductor's `max_fusion_size`."""


def is_fusible(op: Op) -> bool:
    """Whether Inductor would generate code for the operator (else it calls a library)."""
    if op.view or op.sync or op.phase not in ("forward", "backward"):
        return False
    if any(t.device == "host" and t.shape for t in (*op.inputs, *op.outputs)):
        return False
    base = op.name.rpartition("::")[2]
    return base in _POINTWISE or base.rstrip("_") in _POINTWISE or base in _REDUCTIONS


@dataclass
class _Group:
    """A kernel in the making."""

    level: int
    domain: int
    ops: list[Op] = field(default_factory=list)
    alive: bool = True
    reads: set[int] = field(default_factory=set)


def fuse(program: Program) -> Program:
    """The compiled program: every fused group one `gpuscope::fused` operator.

    The operator's inputs are what the kernel reads from memory, its outputs what it writes
    there; `args` holds the fused operators' names. Storages that no kernel writes disappear.
    """
    groups = _group(program.ops)
    member = {op.index: group for group in groups for op in group.ops}
    outside = _readers(program.ops, member)
    kept_storages = {s.id for s in program.storages if s.died is None}
    ops: list[Op] = []
    new_index: dict[int, int] = {}
    gone: set[int] = set()
    for op in program.ops:
        group = member.get(op.index)
        if op.view and op.phase in ("forward", "backward"):
            new_index[op.index] = len(ops)
            continue
        if group is not None and op is not group.ops[-1]:
            new_index[op.index] = len(ops)
            continue
        new_index[op.index] = len(ops)
        if group is None:
            ops.append(replace(op, index=len(ops)))
            continue
        fused, internal = _fused(group, len(ops), outside, kept_storages)
        gone |= internal
        ops.append(fused)
    return replace(
        program,
        ops=tuple(ops),
        storages=_storages(program.storages, new_index, gone, len(ops)),
    )


def _domain(op: Op) -> int:
    return max((t.numel for t in (*op.inputs, *op.outputs)), default=1)


def _group(ops: Iterable[Op]) -> list[_Group]:
    level: dict[int, int] = {}
    made_by: dict[int, _Group] = {}
    read_by: dict[int, _Group] = {}
    groups: list[_Group] = []
    for op in ops:
        if op.view:
            continue
        inputs = [t.storage for t in op.inputs]
        outputs = [t.storage for t in op.outputs] or inputs[:1]
        own = max((level.get(s, 0) for s in inputs), default=0)
        if not is_fusible(op):
            for s in outputs:
                level[s] = own + 1
                made_by.pop(s, None)
            continue
        group = _join(op, own, inputs, made_by, read_by)
        if group is None:
            group = _Group(own, _domain(op))
            groups.append(group)
        group.ops.append(op)
        for s in inputs:
            read_by[s] = group
        for s in outputs:
            level[s] = own
            made_by[s] = group
    return groups


def _join(
    op: Op, level: int, inputs: list[int], made_by: dict[int, _Group], read_by: dict[int, _Group]
) -> _Group | None:
    """The group that an operator fuses into: a producer's first, else one that reads the same."""
    domain = _domain(op)
    for table in (made_by, read_by):
        for storage in inputs:
            group = table.get(storage)
            if group is None or group.level != level or len(group.ops) >= _MAX_GROUP:
                continue
            if group.ops[0].phase != op.phase:
                continue
            if _compatible(group.domain, domain):
                group.domain = max(group.domain, domain)
                return group
    return None


def _compatible(a: int, b: int) -> bool:
    """Same iteration domain, or one is the row-wise result of the other."""
    return a == b or (min(a, b) > 0 and max(a, b) % min(a, b) == 0 and min(a, b) * 65536 >= max(a, b))


def _readers(ops: Iterable[Op], member: dict[int, _Group]) -> dict[int, list[int]]:
    """For each storage, identities of the readers: group ids (negative) or operator indices."""
    readers: dict[int, list[int]] = {}
    for op in ops:
        if op.view:
            continue
        group = member.get(op.index)
        who = -id(group) if group is not None else op.index
        for t in op.inputs:
            readers.setdefault(t.storage, []).append(who)
    return readers


def _fused(
    group: _Group, index: int, readers: dict[int, list[int]], kept: set[int]
) -> tuple[Op, set[int]]:
    made: dict[int, TensorSpec] = {}
    read: dict[int, TensorSpec] = {}
    for op in group.ops:
        for t in op.inputs:
            if t.storage not in made and t.device == "device":
                held = read.get(t.storage)
                if held is None or t.touched_bytes > held.touched_bytes:
                    read[t.storage] = t
        for t in op.outputs:
            made[t.storage] = t
    me = -id(group)
    internal = {
        s for s in made
        if s not in kept and s not in read and all(who == me for who in readers.get(s, ()))
    }  # fmt: skip
    names = Counter(op.name.rpartition("::")[2] for op in group.ops)
    last = group.ops[-1]
    reduces = any(op.name.rpartition("::")[2] in _REDUCTIONS for op in group.ops)
    modules = Counter(op.module for op in group.ops)
    fused = Op(
        index=index, name="gpuscope::fused", inputs=tuple(read.values()),
        outputs=tuple(t for s, t in made.items() if s not in internal),
        args={"operators": tuple(sorted(names)), "count": len(group.ops), "reduction": reduces},
        module=modules.most_common(1)[0][0], phase=last.phase, stream=last.stream,
        recomputed=all(op.recomputed for op in group.ops),
    )  # fmt: skip
    return fused, internal


def _storages(
    storages: Iterable[Storage], new_index: dict[int, int], gone: set[int], count: int
) -> tuple[Storage, ...]:
    out = []
    for s in storages:
        if s.id in gone:
            continue
        born = s.born if s.born < 0 else new_index.get(s.born, count - 1)
        died = None if s.died is None else new_index.get(s.died, count)
        if died is not None and born >= 0:
            died = max(died, born + 1)
        out.append(replace(s, born=born, died=died))
    return tuple(out)
