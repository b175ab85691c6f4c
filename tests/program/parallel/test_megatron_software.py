"""Habits of Megatron-LM: what of a captured step they change, and how much time they save."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from gpuscope.api import capture, capture_job, recost, resolve_target
from gpuscope.cost.engine import cost_program
from gpuscope.hardware import calibration_for
from gpuscope.program.models.networks.fused_steps import Collect, Reorder, Spread, order_back
from gpuscope.program.models.parallel.options import ParallelOptions, Software
from gpuscope.program.models.parallel.size import Experts, TransformerSize
from gpuscope.program.models.parallel.software import OVERLAPPED, as_software
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.pipeline.decoder_stages import cut_layers
from gpuscope.program.types import ADDED_TO, Op, ProcessGroup, Program, TensorSpec
from gpuscope.program.world import RankPrograms

SIZE = TransformerSize(
    layers=1, hidden=1024, heads=8, kv_heads=8, head=128, ffn=4096, vocabulary=512, context=512
)
MEGATRON = {
    "fused_projections": True,
    "tokens_first": True,
    "tp_overlap": True,
    "fused_accumulation": True,
}


def _options(software: Software, **plan: object) -> WorkloadOptions:
    plan = {"microbatch": 1, "world": 4, "tp": 4, **plan}
    return WorkloadOptions(seq=512, parallel=ParallelOptions(software=software, **plan))  # type: ignore[arg-type]


@cache
def _program(software: Software, **plan: object) -> Program:
    return capture(SIZE, options=_options(software, **plan))


def _work(program: Program, name: str) -> list[Op]:
    return [op for op in program.ops if op.name == name and not op.view]


def _spec(storage: int, *shape: int) -> TensorSpec:
    return TensorSpec(
        storage=storage, shape=shape, stride=tuple([1] * len(shape)), dtype="bfloat16"
    )


def test_a_product_and_its_gather_begin_together() -> None:
    """By hand: norm, gather, product, activation, product, copy, scatter, sum."""
    gather = "_c10d_functional::all_gather_into_tensor"
    scatter = "_c10d_functional::reduce_scatter_tensor"
    made = [
        ("aten::norm", (0,), (1,), (), -1),
        (gather, (1,), (2,), (), 0),
        ("aten::mm", (2,), (3,), (1,), -1),
        ("aten::gelu", (3,), (4,), (), -1),
        ("aten::mm", (4,), (5,), (), -1),
        ("aten::cat", (5, 5), (6,), (), -1),
        (scatter, (6,), (7,), (), 0),
        ("aten::add", (7,), (8,), (6,), -1),
    ]
    ops = tuple(
        Op(
            index=i,
            name=name,
            inputs=tuple(_spec(s, 8) for s in ins),
            outputs=tuple(_spec(s, 8) for s in outs),
            waits=waits,
            group=group,
        )
        for i, (name, ins, outs, waits, group) in enumerate(made)
    )
    program = replace(_program(Software()), ops=ops, groups=(ProcessGroup("1", "tp", (0, 1)),))
    after = as_software(program, Software(tokens_first=True, tp_overlap=True)).ops
    assert [op.stream for op in after] == [0, 1, 0, 0, 0, 0, 1, 0]
    assert after[1].waits == (0,), "the ring begins when there is something to send"
    assert after[2].waits == (), "its product does not wait for the whole"
    assert after[3].waits == (1,), "what comes next waits for both"
    assert after[5].view, "tokens first: no copy before the scatter"
    assert after[6].waits == (3,), "pieces are sent while the product runs"
    assert after[7].waits == (6,)
    assert all(after[i].args[OVERLAPPED] for i in (1, 6))


def test_no_habit_changes_nothing() -> None:
    program = _program(Software())
    assert as_software(program, Software()) == program


def test_every_gather_and_scatter_of_a_block_is_hidden() -> None:
    plain = _program(Software(fused_projections=True))
    made = _program(Software(**MEGATRON))
    side = [op for op in made.ops if op.args.get(OVERLAPPED)]
    inside = [op for op in side if op.module.startswith("layers.")]
    assert len(inside) >= 2 * 4 * SIZE.layers, "four gathers and four scatters a block"
    assert {op.stream for op in side} == {max(op.stream for op in plain.ops) + 1}
    assert len(_work(made, "aten::cat")) < len(_work(plain, "aten::cat"))
    assert [op.name for op in made.ops] == [op.name for op in plain.ops]


def test_gradients_are_added_up_inside_of_their_product() -> None:
    plan = {"tp": 1, "dp": 2, "world": 2, "fsdp": "zero1", "global_batch": 4}
    plain, made = (_program(Software(fused_accumulation=on), **plan) for on in (False, True))
    saved = len(_work(plain, "aten::add_")) - len(_work(made, "aten::add_"))
    assert saved >= 7 * SIZE.layers, "one for each matrix of a block, in the second microbatch"
    adding = [op for op in made.ops if op.args.get(ADDED_TO)]
    assert {op.args[ADDED_TO] for op in adding} == {"float32"}
    assert len(adding) == saved
    assert not any(op.args.get(ADDED_TO) for op in plain.ops)


def test_an_expert_s_activation_and_its_cast_are_part_of_the_product_before() -> None:
    mixture = replace(SIZE, experts=Experts(count=8, chosen=2, ffn=512))
    base = Software(matmul="float8", fused_steps=True, fused_projections=True)
    plain, made = (
        capture(mixture, options=_options(s, tp=1, dp=4, ep=4, world=4))
        for s in (base, replace(base, fused_experts=True))
    )
    assert [op.name for op in made.ops] == [op.name for op in plain.ops]
    pairs = zip(plain.ops, made.ops, strict=True)
    gone = [old for old, new in pairs if new.view and not old.view]
    assert {op.name for op in gone} >= {"aten::silu", "aten::silu_backward"}
    assert sum(op.name == "gpuscope::cast_transpose" for op in gone) == 2, "one each way"
    assert all("experts" in op.module for op in gone)
    assert not any("mm" in op.name for op in gone)


def test_a_product_that_adds_reads_and_writes_the_sum() -> None:
    """Accumulators of experts with few tokens each are most of what such a product moves."""
    plan = {"tp": 1, "dp": 1, "world": 1, "fsdp": "none", "global_batch": 2}
    kept = {
        dtype: _program(Software(fused_accumulation=True), reduce_dtype=dtype, **plan)
        for dtype in ("float32", "bfloat16")
    }
    cluster = resolve_target("h100-sxm")
    moved = {}
    for dtype, program in kept.items():
        costed = cost_program(program, cluster.device, calibration_for(cluster.device))
        moved[dtype] = sum(
            kernel.least_bytes
            for item in costed.ops
            if item.op.args.get(ADDED_TO)
            for kernel in item.kernels
        )
    sums = sum(op.outputs[0].numel for op in kept["float32"].ops if op.args.get(ADDED_TO))
    assert moved["float32"] - moved["bfloat16"] == pytest.approx((8 - 4) * sums)


def test_hidden_communication_saves_no_more_than_it_took() -> None:
    cluster, long = resolve_target("4xh100-sxm"), {"microbatch": 512}  # the device sets the pace
    plain, made = (
        recost(SIZE, cluster, options=_options(s, **long), interval=False, memory=False).step_time_s
        for s in (Software(fused_projections=True), Software(**MEGATRON))
    )
    program = capture_job(SIZE, cluster, _options(Software(fused_projections=True), **long))
    alone = program.programs[0] if isinstance(program, RankPrograms) else program
    costed = cost_program(alone, cluster.device, calibration_for(cluster.device), cluster=cluster)
    moved = [k for op in costed.ops for k in op.kernels if k.kind in ("collective", "copy")]
    added = [k for op in costed.ops for k in op.kernels if k.kind == "pointwise"]
    assert plain - made <= sum(k.duration_s for k in (*moved, *added))
    assert made < plain


def test_float8_is_gathered_in_float8() -> None:
    made = _program(Software(matmul="float8", **MEGATRON))
    gathered = {
        op.inputs[0].dtype
        for op in made.ops
        if op.name.endswith("all_gather_into_tensor")
        and op.args.get(OVERLAPPED)
        and op.module.startswith("layers.")
    }
    assert gathered == {"float8_e4m3fn"}


def test_fused_steps_are_compiled_functions_and_nothing_else_is() -> None:
    made = _program(Software(fused_steps=True))
    inside = {op.name for op in made.ops if op.region}
    assert "aten::mul" in inside
    assert not inside & {"aten::mm", "gpuscope::attention", "_c10d_functional::wait_tensor"}


def test_experts_gather_instead_of_adding_row_by_row() -> None:
    mixture = replace(SIZE, experts=Experts(count=8, chosen=2, ffn=512))
    options = _options(Software(fused_steps=True), tp=1, dp=4, ep=4, world=4)
    names = {op.name for op in capture(mixture, options=options).ops}
    assert not names & {"aten::index_add", "aten::index_copy"}


@pytest.mark.parametrize("stance", ["force_eager", pytest.param("default", marks=pytest.mark.slow)])
def test_ordering_by_gathers_is_what_indexing_is(stance: str) -> None:
    """As written; as compiled for this processor, too: 17 s of its C++ compiler."""
    with torch.compiler.set_stance(stance):
        _gathers_against_indexing()


def _gathers_against_indexing() -> None:
    torch.manual_seed(0)
    tokens = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
    order = torch.randperm(12)
    back = order_back(order)
    assert torch.equal(order[back], torch.arange(12))

    def fused(tokens: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        rows = Reorder.apply(Spread.apply(tokens, order, back, 2), back, order)
        return Collect.apply(Reorder.apply(rows, order, back), weights, order, back)

    def plain(tokens: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        rows = tokens[order // 2] * weights.flatten()[order].unsqueeze(-1)
        return torch.zeros_like(tokens).index_add(0, order // 2, rows)

    assert torch.allclose(fused(tokens, weights), plain(tokens, weights))
    ours, theirs = (
        torch.autograd.grad(f(tokens, weights).square().sum(), (tokens, weights))
        for f in (fused, plain)
    )
    assert all(torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


def test_embedding_and_head_may_be_stages_of_their_own() -> None:
    """Llama 3 405B on 16 ranks of 8: 126 stages of one layer between the ends."""
    stages = cut_layers(126, 128)
    assert [len(stage.layers) for stage in stages] == [0, *[1] * 126, 0]
    assert stages[0].first
    assert stages[-1].last


@pytest.mark.parametrize("tp", [1, 2])
def test_a_stage_without_layers_sends_what_the_next_expects(tp: int) -> None:
    options = WorkloadOptions(
        seq=128,
        parallel=ParallelOptions(
            world=2 * tp,
            pp=2,
            tp=tp,
            virtual=2,
            schedule="interleaved",
            microbatch=1,
            global_batch=2,
        ),
    )
    step = recost(SIZE.deep(2), f"{2 * tp}xh100-sxm", options=options, interval=False)
    assert step.step_time_s > 0
