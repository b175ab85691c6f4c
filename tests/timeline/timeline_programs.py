"""Small costed programs for the tests of the timeline, built by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from gpuscope.cost.types import CostedOp, CostedProgram, HostCost, Kernel
from gpuscope.program.types import Op, ProcessGroup, Program, TensorSpec

US = 1e-6
LATENCY_S = 4 * US
GAP_S = 1 * US


def tensor(storage: int) -> TensorSpec:
    return TensorSpec(shape=(4,), stride=(1,), dtype="float32", storage=storage)


def kernel(us: float, *, lane: str = "compute", stream: int = 0, **fields: Any) -> Kernel:
    kind = fields.pop("kind", "pointwise")
    return Kernel(
        name=fields.pop("name", f"kernel_{us:g}us"),
        kind=kind,
        op=fields.pop("op", 0),
        duration_s=us * US,
        low_s=fields.pop("low_us", us) * US,
        high_s=fields.pop("high_us", us) * US,
        lane=lane,
        stream=stream,
        **fields,
    )


def call(
    *kernels: Kernel,
    before_us: float = 2.0,
    launch_us: float = 3.0,
    after_us: float = 1.0,
    sync: str = "",
    reads: Sequence[int] = (),
    writes: Sequence[int] = (),
    **op: Any,
) -> CostedOp:
    return CostedOp(
        op=Op(
            index=0,
            name=op.pop("name", "aten::add"),
            inputs=tuple(map(tensor, reads)),
            outputs=tuple(map(tensor, writes)),
            sync=sync,
            **op,
        ),
        kernels=kernels,
        host=HostCost(before_us * US, launch_us * US, after_us * US, sync),
    )


def costed(ops: Iterable[CostedOp], **fields: Any) -> CostedProgram:
    items = tuple(ops)
    fields.setdefault("launch_latency_s", LATENCY_S)
    fields.setdefault("kernel_gap_s", GAP_S)
    return CostedProgram(
        program=Program("test", tuple(item.op for item in items)),
        device_id="test",
        ops=items,
        **fields,
    )


def talk(us: float, name: str = "c10d::allreduce_", *, group: int = 0, **fields: Any) -> CostedOp:
    """A call of a collective, a send or a receive."""
    stream = fields.get("stream", 0)
    short = name.split("::")[-1]
    return call(
        kernel(us, lane="link", kind="collective", name=short, stream=stream),
        name=name,
        group=group,
        reads=fields.pop("reads", (900,)),
        **fields,
    )


def send(us: float, peer: int, *, group: int = 0, **fields: Any) -> CostedOp:
    return talk(us, "c10d::send", group=group, peer=peer, **fields)


def recv(us: float, peer: int, *, group: int = 0, **fields: Any) -> CostedOp:
    return talk(us, "c10d::recv_", group=group, peer=peer, **fields)


def batch(*ops: CostedOp, number: int = 1) -> list[CostedOp]:
    """Sends and receives of one `batch_isend_irecv`."""
    return [
        replace(item, op=replace(item.op, args={**item.op.args, "batch": number})) for item in ops
    ]


def numbered(ops: Iterable[CostedOp]) -> tuple[CostedOp, ...]:
    return tuple(replace(item, op=replace(item.op, index=n)) for n, item in enumerate(ops))


def ranked(
    ops: Iterable[CostedOp], rank: int, groups: Sequence[ProcessGroup], world: int, **fields: Any
) -> CostedProgram:
    """A costed program of one rank of a job."""
    made = costed(numbered(ops), **fields)
    return replace(
        made, program=replace(made.program, rank=rank, world_size=world, groups=tuple(groups))
    )
