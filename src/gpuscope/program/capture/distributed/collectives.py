"""One `Op` a collective, by its schema: group, peer, what it reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.program.capture.calls import Facts, flat, plain_arguments, wants_grad
from gpuscope.program.capture.distributed import symmetric_memory
from gpuscope.program.capture.distributed.checks import check
from gpuscope.program.capture.distributed.groups import group_name
from gpuscope.program.capture.distributed.sites import site
from gpuscope.program.capture.distributed.works import made
from gpuscope.program.capture.streams import Queue

_WRITTEN: dict[str, Callable[[Any], Any]] = {
    "allreduce_": lambda a: a[0],
    "allreduce_coalesced_": lambda a: a[0],
    "broadcast_": lambda a: a[0],
    "allgather_": lambda a: a[0],
    "_allgather_base_": lambda a: a[0],
    "allgather_coalesced_": lambda a: a[0],
    "allgather_into_tensor_coalesced_": lambda a: a[0],
    "reduce_scatter_": lambda a: a[0],
    "_reduce_scatter_base_": lambda a: a[0],
    "reduce_scatter_tensor_coalesced_": lambda a: a[0],
    "reduce_": lambda a: a[0],
    "gather_": lambda a: a[0],
    "scatter_": lambda a: a[0],
    "alltoall_": lambda a: a[0],
    "alltoall_base_": lambda a: a[0],
    "recv_": lambda a: a[0],
    "recv_any_source_": lambda a: a[0],
}
"""What the in-place forms write; `send` and barriers write nothing."""

_GATHERED = (
    "_allgather_base_",
    "allgather_",
    "allgather_into_tensor_coalesced_",
    "allgather_coalesced_",
)
_SCATTERED = ("_reduce_scatter_base_", "reduce_scatter_", "reduce_scatter_tensor_coalesced_")
_PAIRS = ("send", "recv_", "recv_any_source_", "isend", "irecv")


def run(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    """Answer a collective without communicating, and write it down."""
    named = dict(zip(facts.argument_names, args, strict=False)) | kwargs
    if facts.name == "_c10d_functional::wait_tensor":
        return _wait_tensor(recorder, facts, args)
    in_place = facts.name.startswith("c10d::")
    base = facts.name.partition("::")[2]
    if base == "shard_dim_alltoall":
        with recorder:
            return _shard_dim_alltoall(**named)
    group = named.get("process_group", named.get("group_name", named.get("group")))
    if base == "_wrap_tensor_autograd":
        from torch.distributed._functional_collectives import AsyncCollectiveTensor

        return AsyncCollectiveTensor(args[0])
    if group is None:  # bookkeeping without communication
        return func(*args, **kwargs)
    name = group_name(group)
    index = recorder.groups.index(name)
    if in_place:
        check(base, args, len(recorder.groups.ranks(name)), recorder.groups.backend(name))
    peer = _peer(recorder, base, name, named)
    out = None if in_place else symmetric_memory.result(func, facts, named, args, kwargs)
    written = _written(base, args, out, in_place)
    number = _record(recorder, facts, args, kwargs, written, index, peer, name)
    return _result(func, args, number) if in_place else out


def _shard_dim_alltoall(
    input: torch.Tensor, gather_dim: int, shard_dim: int, group_name: Any
) -> torch.Tensor:
    """What DTensor's change of the sharded dimension does (c10d/Functional.cpp)."""
    from torch._C._distributed_c10d import _resolve_process_group

    group = _resolve_process_group(group_name)
    length = input.shape[shard_dim] // group.size()
    given = [input.narrow(shard_dim, i * length, length) for i in range(group.size())]
    inputs = [part.contiguous() for part in given]
    outputs = [torch.empty_like(part) for part in inputs]
    group.alltoall(outputs, inputs).wait()
    return torch.cat(outputs, gather_dim)


def _peer(recorder: Any, base: str, name: str, named: dict[str, Any]) -> int:
    if base not in _PAIRS:
        return -1
    if base == "recv_any_source_":
        return _from_anybody(recorder, name)
    rank = named.get("dst", named.get("src", named.get("peer", -1)))
    return int(recorder.groups.global_rank(name, int(rank)))


def _from_anybody(recorder: Any, name: str) -> int:
    ranks = recorder.groups.ranks(name)
    recorder.works.source = (ranks.index(recorder.groups.rank) - 1) % len(ranks)
    recorder.values.assume(Text("A receive from any rank is taken to come from the rank before."))
    return int(ranks[recorder.works.source])


def _written(base: str, args: Any, out: Any, in_place: bool) -> list[torch.Tensor]:
    found = flat(_WRITTEN[base](args)) if in_place and base in _WRITTEN else flat(out)
    return [t for t in found if isinstance(t, torch.Tensor)]


def _result(func: Any, args: Any, number: int) -> Any:
    """What the schema returns: the first argument, a `Work`, or both."""
    kinds = [str(r.type) for r in func._schema.returns]
    if not kinds:
        return None
    work = made(number).boxed()
    return work if len(kinds) == 1 else (args[0], work)


def _record(
    recorder: Any,
    facts: Facts,
    args: Any,
    kwargs: Any,
    written: list[torch.Tensor],
    index: int,
    peer: int,
    name: str,
) -> int:
    tensors = [t for t in flat((args, tuple(kwargs.values()))) if isinstance(t, torch.Tensor)]
    base = facts.name.partition("::")[2]
    inputs = tuple(recorder.spec(t) for t in tensors)
    outputs = tuple(recorder.spec(t, label=facts.name) for t in written)
    for tensor in written if base in _GATHERED else tensors if base in _SCATTERED else ():
        recorder.storages.mark(tensor, "communication", facts.name)
    for spec in outputs:
        recorder.values.forget(spec.storage)
    plain = _plain(facts, args, kwargs)
    if recorder.batch:
        plain["batch"] = recorder.batch
    queue: Queue = (f"group {name}", peer)
    number: int = recorder.append(
        facts.name,
        facts.overload,
        inputs,
        outputs,
        plain,
        queue=queue,
        group=index,
        peer=peer,
        site=site(),
        autograd=torch.is_grad_enabled() and wants_grad(args),
    )
    recorder.works.issued(number, queue, [s.storage for s in outputs], written)
    return number


def _plain(facts: Facts, args: Any, kwargs: Any) -> dict[str, object]:
    """Arguments that are no tensors."""
    out = plain_arguments(facts, args, kwargs)
    for name, value in zip(facts.argument_names, args, strict=False):
        if any(isinstance(v, torch.Tensor) for v in flat(value)):
            out.pop(name, None)
    return out


def _wait_tensor(recorder: Any, facts: Facts, args: Any) -> Any:
    spec = recorder.spec(args[0])
    number = recorder.works.writer(spec.storage)
    waits: tuple[int, ...] = ()
    if number is not None:
        recorder.works.wait(number)
        waits = (number - recorder.order.base,)
    recorder.append(facts.name, facts.overload, (spec,), (spec,), {}, waits=waits, site=site())
    return args[0]
