"""Experts' tokens: what crosses when each goes once to a rank, what the exchange runs beside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.api import capture, resolve_target
from gpuscope.cost.engine import cost_program
from gpuscope.hardware import calibration_for
from gpuscope.program.models.parallel.exchange import COPIES, OVERLAPPED, exchange_beside, send_once
from gpuscope.program.models.parallel.options import ParallelOptions, Software
from gpuscope.program.models.parallel.size import Experts, TransformerSize
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Op, ProcessGroup, Program, TensorSpec

EXCHANGE, WAIT = "_c10d_functional::all_to_all_single", "_c10d_functional::wait_tensor"
SIZE = TransformerSize(
    layers=2,
    hidden=256,
    heads=4,
    kv_heads=4,
    head=64,
    ffn=512,
    vocabulary=512,
    context=128,
    experts=Experts(count=8, chosen=2, ffn=128),
)


def rows(storage: int, count: int) -> TensorSpec:
    return TensorSpec((count, 8), (8, 1), "bfloat16", storage=storage)


def forward() -> list[Op]:
    """Spread 4 tokens to 2 experts each, send, put in order, work, put back, send back, add up."""
    made = [
        ("aten::index", 0, 1, (), 0),
        (EXCHANGE, 1, 2, (), 0),
        (WAIT, 2, 2, (1,), 0),
        ("aten::index", 2, 3, (1,), 0),
        ("aten::_scaled_grouped_mm", 3, 4, (), 0),
        ("aten::index", 4, 5, (), 0),
        (EXCHANGE, 5, 6, (), 0),
        (WAIT, 6, 6, (6,), 7),
        ("aten::index", 6, 7, (6,), 7),
        ("aten::sum", 7, 8, (), 7),
        ("aten::add", 8, 9, (), 0),
    ]
    small = {0, 8, 9}
    return [
        Op(
            at,
            name,
            inputs=(rows(read, 4 if read in small else 8),),
            outputs=(rows(wrote, 4 if wrote in small else 8),),
            waits=waits,
            region=region,
            group=0 if name == EXCHANGE else -1,
        )
        for at, (name, read, wrote, waits, region) in enumerate(made)
    ]


def test_a_token_goes_once_from_where_it_lies_and_is_added_up_on_the_way_back() -> None:
    ops = forward()
    send_once(ops, {0})
    assert [op.args.get(COPIES) for op in ops if op.name == EXCHANGE] == [2, 2]
    gone = [at for at, op in enumerate(ops) if op.view]
    assert gone == [0, 7, 8, 9], "what spreads before, and what adds up after"
    assert not any(op.region for op in ops)
    assert [op.waits for op in ops] == [op.waits for op in forward()]


def test_kernels_run_on_beside_the_exchange_and_the_last_one_waits_for_it() -> None:
    ops = forward()
    ops.append(Op(11, "gpuscope::mark", args={"kind": "backward", "microbatch": 0}, view=True))
    exchange_beside(ops, {0}, 3)
    assert [(op.stream, op.waits) for op in ops if op.name == EXCHANGE] == [(3, (0,)), (3, (5,))]
    assert all(op.args[OVERLAPPED] for op in ops if op.name == EXCHANGE)
    assert ops[3].waits == (), "its tokens are another microbatch's"
    assert ops[10].waits == (1, 6)


def captured(**software: bool) -> Program:
    made = Software(fused_steps=True, fused_projections=True, **software)
    plan = ParallelOptions(world=4, dp=4, ep=4, microbatch=1, fsdp="zero1", software=made)
    return capture(SIZE, options=WorkloadOptions(seq=128, parallel=plan))


def test_of_a_captured_step_less_crosses_and_less_is_copied() -> None:
    plain, once = captured(), captured(send_once=True)
    assert len([op for op in once.ops if op.name == EXCHANGE]) == 2 * 4
    cluster = resolve_target("4xh200")
    sent = []
    copied = []
    for program in (plain, once):
        made = cost_program(
            program, cluster.device, calibration_for(cluster.device), cluster=cluster
        )
        kernels = [(item.op, kernel) for item in made.ops for kernel in item.kernels]
        sent.append(sum(k.read_bytes for op, k in kernels if op.name == EXCHANGE))
        copied.append(sum(k.written_bytes for op, k in kernels if op.name == "aten::index"))
    # Two of four ranks: 4 (1 - (3/4)^2) = 1.75 of 2 copies, in each of eight exchanges.
    assert sent[0] == 8 * 128 * 2 * 256 * 2
    assert sent[1] == pytest.approx(sent[0] * 1.75 / 2)
    # By block and pass: spread on arrival, put back; no more a copy before that.
    assert copied[1] == pytest.approx(2 * 2 * 2 * (256 * 256 * 2), rel=0.01)
    assert copied[0] > copied[1]


def test_over_a_fabric_a_token_goes_once_to_a_domain() -> None:
    """16 ranks on two nodes, 8 copies: 2 (1 - 1/2^8) of 8 cross, whichever ranks they are for."""
    spec = rows(0, 8 * 4096)
    group = ProcessGroup("0", "ep", tuple(range(16)))
    cluster = resolve_target("16xh200")
    seconds = []
    for args in ({}, {COPIES: 8}):
        op = Op(
            0, EXCHANGE, inputs=(spec,), outputs=(replace(spec, storage=1),), group=0, args=args
        )
        program = Program("", (op,), (), groups=(group,), world_size=16)
        made = cost_program(
            program, cluster.device, calibration_for(cluster.device), cluster=cluster
        )
        seconds.append(made.ops[0].kernels[0].read_bytes)
    assert seconds[1] == pytest.approx(seconds[0] * 2 * (1 - 1 / 256) / 8)
