"""One rank of a parallel job, captured: its memory, its collectives and their bytes by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from gpuscope.program.models.parallel.options import Job, Parallelism, Software
from gpuscope.program.models.parallel.size import Experts, TransformerSize
from gpuscope.program.types import Op, Program
from gpuscope.program.world import World

pytest.importorskip("torch")

LAYERS, HIDDEN, FFN, VOCABULARY, TOKENS = 2, 256, 512, 1024, 128
SIZE = TransformerSize(
    layers=LAYERS, hidden=HIDDEN, heads=8, kv_heads=8, head=32, ffn=FFN, vocabulary=VOCABULARY
)
BLOCK = 4 * HIDDEN**2 + 3 * HIDDEN * FFN + 2 * HIDDEN
ENDS = 2 * VOCABULARY * HIDDEN + HIDDEN
WHOLE = LAYERS * BLOCK + ENDS
MIXTURE = replace(SIZE, experts=Experts(count=8, chosen=2, ffn=128))

GATHER, SCATTER = "c10d::_allgather_base_", "c10d::_reduce_scatter_base_"
GATHER_TP, SCATTER_TP = (
    "_c10d_functional::all_gather_into_tensor",
    "_c10d_functional::reduce_scatter_tensor",
)
EXCHANGE = "_c10d_functional::all_to_all_single"


@cache
def captured(plan: Parallelism, size: TransformerSize = SIZE, **more: object) -> Program:
    from gpuscope.program.capture import capture
    from gpuscope.program.models.parallel.build import build_rank

    job = Job(size=size, plan=plan, tokens=TOKENS, **{"software": Software(), **more})  # type: ignore[arg-type]
    return capture(lambda: build_rank(job), task="train", world=World(plan.world_size))


def calls(program: Program, name: str, group: str = "") -> list[Op]:
    return [
        op
        for op in program.ops
        if op.name == name and (not group or program.groups[op.group].label == group)
    ]


def largest(op: Op) -> int:
    """Bytes of the larger side of a collective: what all ranks hold together."""
    return max(spec.nbytes for spec in (*op.inputs, *op.outputs))


def resident(program: Program) -> Counter[str]:
    """Bytes that are there before the step, by category."""
    found: Counter[str] = Counter()
    for storage in program.storages:
        if storage.born < 0:
            found[storage.category] += storage.nbytes
    return found


def peak(program: Program) -> int:
    from gpuscope.timeline import simulate_memory

    return simulate_memory(program, capacity_bytes=10**12).peak_allocated_bytes


def test_fully_sharded() -> None:
    program = captured(Parallelism(dp=4))
    assert program.parameters == WHOLE == SIZE.parameters
    held = resident(program)
    assert held["parameter"] == 4 * WHOLE // 4
    assert held["optimizer_state"] == pytest.approx(8 * WHOLE // 4, rel=1e-3)  # and step counts
    # Forward: embedding, blocks, and norm with output. Backward: blocks and embedding again; the
    # output layer is kept, as its backward comes at once.
    gathered = calls(program, GATHER)
    assert len(gathered) == (LAYERS + 2) + (LAYERS + 1)
    assert sum(map(largest, gathered)) == 2 * (WHOLE + LAYERS * BLOCK + VOCABULARY * HIDDEN)
    reduced = calls(program, SCATTER)
    assert len(reduced) == LAYERS + 2
    assert sum(map(largest, reduced)) == 4 * WHOLE  # in float32
    assert {program.groups[op.group].size for op in (*gathered, *reduced)} == {4}


def test_gradients_summed_in_bfloat16_are_half_as_large() -> None:
    program = captured(Parallelism(dp=4, reduce_dtype="bfloat16"))
    assert sum(map(largest, calls(program, SCATTER))) == 2 * WHOLE


def test_zero_2_gathers_once_and_reduces_every_microbatch() -> None:
    program = captured(Parallelism(dp=4, fsdp="zero2", microbatches=2))
    assert sum(map(largest, calls(program, GATHER))) == 2 * 2 * WHOLE
    assert sum(map(largest, calls(program, SCATTER))) == 2 * 4 * WHOLE


def test_zero_1_gathers_and_reduces_once_a_step() -> None:
    program = captured(Parallelism(dp=4, fsdp="zero1", microbatches=2))
    assert sum(map(largest, calls(program, GATHER))) == 2 * WHOLE
    assert sum(map(largest, calls(program, SCATTER))) == 4 * WHOLE
    assert resident(program)["parameter"] == WHOLE  # float32 shards of a quarter


def test_nothing_shared_is_all_reduced() -> None:
    program = captured(Parallelism(dp=4, fsdp="none"))
    assert resident(program)["parameter"] == 4 * WHOLE
    reduced = [op for op in program.ops if "allreduce" in op.name]
    assert sum(map(largest, reduced)) == 4 * WHOLE
    assert not calls(program, SCATTER)


def test_hybrid_shards_in_a_node_and_sums_over_nodes() -> None:
    program = captured(Parallelism(dp=16, fsdp="hybrid", shard=8))
    assert resident(program)["parameter"] == 4 * WHOLE // 8
    by_group = {program.groups[op.group].ranks for op in calls(program, GATHER)}
    assert by_group == {tuple(range(8))}
    across = [op for op in program.ops if "allreduce" in op.name]
    assert {program.groups[op.group].ranks for op in across} == {(0, 8)}
    assert sum(map(largest, across)) == 4 * WHOLE // 8


def test_tensor_parallel_with_shared_tokens() -> None:
    program = captured(Parallelism(tp=4))
    assert resident(program)["parameter"] == pytest.approx(4 * WHOLE / 4, rel=0.01)  # norms whole
    for name in (GATHER_TP, SCATTER_TP):
        found = calls(program, name, "tp")
        # Two a block in the forward pass and two in the backward; the embedding and the output
        # layer have one of one kind forward and one of the other backward.
        assert len(found) == 4 * LAYERS + 2
        assert {largest(op) for op in found} == {2 * TOKENS * HIDDEN}
    norms = [op for op in program.ops if op.name == "_c10d_functional::all_reduce"]
    assert len([op for op in norms if op.phase == "backward"]) == 2 * LAYERS + 1


def test_tensor_parallel_without_shared_tokens() -> None:
    program = captured(Parallelism(tp=4, sequence_parallel=False))
    assert not calls(program, GATHER_TP)
    assert not calls(program, SCATTER_TP)
    reduced = [
        op
        for op in program.ops
        if op.name == "_c10d_functional::all_reduce" and op.inputs[0].numel == TOKENS * HIDDEN
    ]
    assert len(reduced) == 4 * LAYERS + 2


def test_two_dimensions() -> None:
    program = captured(Parallelism(dp=2, tp=4))
    assert [(d.name, d.size) for d in program.mesh] == [("dp", 2), ("tp", 4)]
    ranks = {g.label: g.ranks for g in program.groups}
    assert ranks["tp"] == (0, 1, 2, 3)
    assert ranks["dp"] == (0, 4)
    gathered = sum(map(largest, calls(program, GATHER, "dp")))
    once = 2 * (WHOLE + LAYERS * BLOCK + VOCABULARY * HIDDEN)
    assert gathered == pytest.approx(once / 4, rel=0.01)


def test_experts_are_reached_by_all_to_all() -> None:
    program = captured(Parallelism(dp=8, ep=8), MIXTURE)
    found = calls(program, EXCHANGE)
    # There and back, forward and backward; each token goes to two experts.
    assert len(found) == 4 * LAYERS
    assert {largest(op) for op in found} == {2 * 2 * TOKENS * HIDDEN}
    assert program.parameters == MIXTURE.parameters
    matrices = LAYERS * 8 * 3 * HIDDEN * 128
    assert resident(program)["parameter"] == 4 * (MIXTURE.parameters - matrices + matrices) // 8
    waits = [op for op in program.ops if op.sync == "blocking_copy"]
    assert len(waits) == LAYERS  # the host reads how many tokens go where


def test_experts_without_ep_are_sharded_like_the_rest() -> None:
    program = captured(Parallelism(dp=8), MIXTURE)
    assert not calls(program, EXCHANGE)
    assert resident(program)["parameter"] == 4 * MIXTURE.parameters // 8


@pytest.mark.parametrize("rotation", ["allgather", "alltoall"])
def test_context_parallel(rotation: str) -> None:
    program = captured(Parallelism(cp=4, rotation=rotation))  # type: ignore[arg-type]
    of_tokens = next(op for op in program.ops if op.name == "gpuscope::rms_norm")
    assert of_tokens.inputs[0].shape == (1, TOKENS // 4, HIDDEN)
    name = GATHER_TP if rotation == "allgather" else EXCHANGE
    assert [op for op in calls(program, name, "cp") if op.phase == "forward"]
    assert resident(program)["parameter"] == WHOLE  # sharded over the cp ranks: a quarter


def test_recomputing_more_holds_less() -> None:
    long = [
        captured(Parallelism(dp=4, microbatch=8, recompute=how))  # type: ignore[arg-type]
        for how in ("none", "selective", "full")
    ]
    held = [peak(program) for program in long]
    assert held[0] > held[1] > held[2]
    again = [sum(op.recomputed for op in program.ops) for program in long]
    assert again[0] == 0 < again[1] < again[2]
    products = [sum(op.name == "aten::mm" for op in program.ops) for program in long]
    assert products[0] == products[1] < products[2]


def test_a_loss_in_chunks_never_holds_all_scores() -> None:
    plan = Parallelism(dp=4, microbatch=8)
    whole = peak(captured(plan))
    chunks = peak(captured(plan, software=Software(loss_chunks=8)))
    scores = 4 * 8 * TOKENS * VOCABULARY  # float32
    assert whole - chunks > scores


def test_eager_attention_keeps_its_scores() -> None:
    flash, eager = (
        captured(Parallelism(dp=4, microbatch=4), software=Software(attention=kind))
        for kind in ("flash", "eager")
    )
    assert sum(op.name == "gpuscope::attention" for op in flash.ops) == LAYERS
    assert not [op for op in eager.ops if op.name == "gpuscope::attention"]
    assert peak(eager) > peak(flash)


def test_fused_parts_are_fewer_operators() -> None:
    plan = Parallelism(dp=2)
    count = {
        name: sum(not op.view for op in captured(plan, software=software).ops)
        for name, software in (
            ("plain", Software(fused_norm=False)),
            ("norm", Software()),
            ("both", Software(fused_projections=True)),
        )
    }
    assert count["plain"] > count["norm"] > count["both"]


def test_sixteen_thousand_ranks_are_captured_as_two_are() -> None:
    small, large = captured(Parallelism(dp=2, tp=8)), captured(Parallelism(dp=2048, tp=8))
    assert [op.name for op in small.ops] == [op.name for op in large.ops]
    assert large.world_size == 16384
    assert large.capture_s < 3 * small.capture_s + 5


def test_any_rank_does_the_same() -> None:
    from gpuscope.program.capture import capture
    from gpuscope.program.models.parallel.build import build_rank

    plan = Parallelism(dp=2, tp=2)
    job = Job(size=SIZE, plan=plan, software=Software(), tokens=TOKENS)
    first, other = (capture(lambda: build_rank(job), world=World(4, rank)) for rank in (0, 3))
    assert [(op.name, op.inputs, op.group) for op in first.ops] == [
        (op.name, op.inputs, op.group) for op in other.ops
    ]
    assert {g.label: g.ranks for g in other.groups} == {"tp": (2, 3), "dp": (1, 3)}


@pytest.mark.parametrize(
    "plan", [Parallelism(dp=32), Parallelism(dp=32, ep=4), Parallelism(dp=32, fsdp="zero1")]
)
def test_fewer_experts_than_ranks_are_not_padded(plan: Parallelism) -> None:
    """Shared along their first dimension, 8 experts on 32 ranks would be gathered as 32."""
    program = captured(plan, MIXTURE)
    experts = 3 * 8 // plan.ep * HIDDEN * 128
    gathered = [largest(op) for op in calls(program, GATHER)]
    assert max(gathered) < 1.1 * 2 * (experts + 4 * HIDDEN**2)
    scattered = [largest(op) for op in calls(program, SCATTER)]
    assert max(scattered) < 1.1 * 4 * (experts + 4 * HIDDEN**2)
