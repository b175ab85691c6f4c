"""Weights in float8: cast once a step, their copies kept, by hand and on a captured step."""

from __future__ import annotations

from gpuscope.api import capture, recost
from gpuscope.program.models.parallel.casts import cast_once, in_four_bits
from gpuscope.program.models.parallel.options import ParallelOptions, Software
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import NVFP4, Op, Program, Storage, TensorSpec

CAST = "gpuscope::cast_transpose"
SIZE = TransformerSize(
    layers=2, hidden=128, heads=2, kv_heads=2, head=64, ffn=256, vocabulary=256, context=64
)


def spec(storage: int, dtype: str = "bfloat16") -> TensorSpec:
    return TensorSpec((4, 4), (4, 1), dtype, storage=storage)


def cast(index: int, read: int, wrote: int, module: str) -> Op:
    small = tuple(spec(number, "float8_e4m3fn") for number in (wrote, wrote + 1))
    return Op(index, CAST, inputs=(spec(read),), outputs=small, module=module)


def test_the_second_cast_of_a_weight_is_the_first_one() -> None:
    """A weight (0) in two microbatches; activations (1, 2) and one that two modules cast (1)."""
    ops = (
        cast(0, 0, 10, "a"),
        cast(1, 1, 12, "a"),
        cast(2, 1, 14, "b"),
        cast(3, 0, 16, "a"),
        cast(4, 2, 18, "a"),
        Op(5, "aten::_scaled_mm", inputs=(spec(17, "float8_e4m3fn"),)),
    )
    storages = tuple(Storage(n, 16, "temporary", (n - 10) // 2, 5) for n in range(10, 20))
    short = tuple(s if s.id > 11 else Storage(s.id, 16, "temporary", 0, 2) for s in storages)
    made = cast_once(Program("", ops, short))
    assert [op.view for op in made.ops] == [False, False, False, True, False, False]
    assert made.ops[5].inputs[0].storage == 11, "the product reads the copy that was kept"
    lives = {s.id: (s.born, s.died) for s in made.storages}
    assert lives[10] == lives[11] == (0, 5)
    assert not {16, 17} & set(lives)


def test_a_captured_step_casts_each_weight_once() -> None:
    """Seven products a block: seven weights, seven inputs and seven gradients each."""
    plain, once = (
        capture(
            SIZE,
            options=WorkloadOptions(
                seq=64,
                parallel=ParallelOptions(
                    world=2,
                    dp=2,
                    microbatch=1,
                    global_batch=6,
                    fsdp="zero1",
                    software=Software(matmul="float8", cast_once=on),
                ),
            ),
        )
        for on in (False, True)
    )
    casts = [sum(op.name == CAST and not op.view for op in p.ops) for p in (plain, once)]
    assert casts[0] == 3 * 2 * 7 * 3
    assert casts[1] == casts[0] - 2 * 2 * 7


def test_a_program_without_casts_stays_itself() -> None:
    program = Program("", (Op(0, "aten::mm"),), ())
    assert cast_once(program) is program


def test_products_of_what_is_cast_are_of_four_bits_and_nothing_else_is() -> None:
    ops = [
        cast(0, 0, 10, "a"),
        Op(1, "aten::_scaled_mm", inputs=(spec(10, "float8_e4m3fn"),), outputs=(spec(12),)),
        Op(2, "aten::add", inputs=(spec(12), spec(20, "float8_e4m3fn"))),
    ]
    in_four_bits(ops)
    assert [s.dtype for s in ops[0].outputs] == [NVFP4, NVFP4]
    assert [s.dtype for s in ops[1].inputs] == [NVFP4]
    assert ops[1].outputs[0].nbytes == 2 * ops[0].inputs[0].numel
    assert [s.dtype for s in ops[2].inputs] == ["bfloat16", "float8_e4m3fn"]


def test_four_bits_are_quicker_than_eight_where_products_are_most_of_a_step() -> None:
    """A GB200 multiplies them twice as fast; casts and all else take as long or longer."""
    wide = TransformerSize(
        layers=1, hidden=8192, heads=64, kv_heads=8, head=128, ffn=28672, vocabulary=256
    )
    times = {}
    for matmul in ("compute", "float8", "float4"):
        software = Software(matmul=matmul, cast_once=True, fused_projections=True)
        plan = ParallelOptions(world=1, microbatch=8, software=software)
        options = WorkloadOptions(seq=2048, parallel=plan)
        found = recost(wide, "gb200", options=options, interval=False, memory=False)
        times[matmul] = found.step_time_s
    assert times["float8"] / 2 < times["float4"] < times["float8"] < times["compute"]
