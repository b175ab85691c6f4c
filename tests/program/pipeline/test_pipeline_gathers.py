"""Parameters gathered and gradients summed beside a pipeline's passes: order, bytes, memory."""

from __future__ import annotations

from collections import Counter

from gpuscope.program.models.parallel.options import Job, Parallelism, Software
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.pipeline.compose import ASIDE
from gpuscope.program.pipeline.gathers import gathers_first, reordered
from gpuscope.program.pipeline.job_programs import rank_programs
from gpuscope.program.types import Op, Program, Storage, TensorSpec

SIZE = TransformerSize(
    layers=4, hidden=64, heads=4, kv_heads=4, head=16, ffn=128, vocabulary=256, context=64
)
GATHER, SUM = "c10d::_allgather_base_", "c10d::_reduce_scatter_base_"


def programs(sharing: str, layers: int = 4, **plan: object) -> tuple[Program, ...]:
    chosen = {"dp": 2, "pp": 2, "microbatches": 4, "fsdp": "zero1", **plan}
    job = Job(
        size=SIZE.deep(layers),
        plan=Parallelism(**chosen),
        tokens=32,  # type: ignore[arg-type]
        software=Software(sharing=sharing),  # type: ignore[arg-type]
    )
    return rank_programs(job).programs


def test_the_same_work_in_another_order() -> None:
    for plan in ({}, {"schedule": "interleaved", "virtual": 2}):
        for turn, beside in zip(
            programs("in_turn", **plan), programs("beside", **plan), strict=True
        ):
            assert _work(turn) == _work(beside)
            assert all(0 <= wait < op.index for op in beside.ops for wait in op.waits)
            named = {s.storage: op.index for op in beside.ops for s in (*op.inputs, *op.outputs)}
            assert all(
                storage.died is None or storage.born <= storage.died > named.get(storage.id, -1)
                for storage in beside.storages
            )


def test_what_is_gathered_comes_first_and_what_is_summed_is_waited_for_at_the_end() -> None:
    plan = {"schedule": "interleaved", "virtual": 2}
    for program in programs("beside", **plan):
        ops = program.ops
        passes = [op.index for op in ops if op.name == "gpuscope::attention"]
        gathers = [op for op in ops if op.name == GATHER]
        assert gathers
        assert all(op.index < passes[0] for op in gathers)
        sums = [op for op in ops if op.name == SUM]
        assert sums
        assert all(op.stream for op in sums)
        update = next(op.index for op in ops if op.name == "aten::_fused_adamw_")
        waited = {wait for op in ops[:update] if op.stream == 0 for wait in op.waits}
        # Nothing of the default stream waits for a sum before the last pass is through.
        until = max(op.index for op in ops if "attention_backward" in op.name)
        early = {wait for op in ops[:until] if op.stream == 0 for wait in op.waits}
        aside = {op.index for op in ops if op.index >= gathers[-1].index and op.stream == ASIDE}
        assert not early & aside
        assert any(wait > sums[-1].index - 5 for wait in waited)


def test_at_the_ends_all_is_summed_after_the_last_pass() -> None:
    for program in programs("at_ends", schedule="interleaved", virtual=2):
        last = max(op.index for op in program.ops if "attention_backward" in op.name)
        assert all(op.index > last for op in program.ops if op.name == SUM)


def test_parameters_gathered_in_every_pass_stay_where_they_are() -> None:
    in_turn, beside = (programs(how, 2, fsdp="full") for how in ("in_turn", "beside"))
    assert [p.ops for p in in_turn] == [p.ops for p in beside]


def test_another_order_keeps_waits_and_lives() -> None:
    spec = TensorSpec((4,), (1,), "float32", storage=0)
    program = Program(
        name="",
        ops=(
            Op(0, "a"),
            Op(1, "b", outputs=(spec,), waits=(0,)),
            Op(2, "c", inputs=(spec,)),
            Op(3, "d", waits=(1, -1, -3)),
        ),
        storages=(Storage(0, 16, "temporary", 1, 3),),
    )
    moved = reordered(program, [1, 0, 2, 3])
    assert [op.name for op in moved.ops] == ["b", "a", "c", "d"]
    # b waited for a, which now follows it; -3 was b, the third from the end, now the fourth.
    assert moved.ops[3].waits == (-4, -1, 0)
    assert (moved.storages[0].born, moved.storages[0].died) == (0, 3)
    assert gathers_first(program) is program


def _work(program: Program) -> Counter[tuple[str, int, int]]:
    return Counter(
        (op.name, sum(s.nbytes for s in op.inputs), sum(s.nbytes for s in op.outputs))
        for op in program.ops
    )
