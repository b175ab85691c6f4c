"""Products: matrices in any order, and what runs apart from a large one."""

from jax_compiled_steps import program

from gpuscope.program.jax.hlo import Array, Instruction, parse
from gpuscope.program.jax.instructions.products import dot_specs
from gpuscope.program.jax.walk import Value, Walk


def _dot(left: Array, right: Array, out: Array, **dims: str) -> tuple:
    dot = Instruction("d", "dot", (out,), ("a", "b"), dims)
    return dot_specs(dot, Value(left, 0), Value(right, 1), Value(out, 2))


def test_a_transposed_operand_keeps_its_steps() -> None:
    a, b, c = _dot(
        Array("bfloat16", (512, 64), (1, 0)),  # [K, M], read as M x K
        Array("bfloat16", (512, 128), (1, 0)),
        Array("bfloat16", (64, 128), (1, 0)),
        lhs_contracting_dims="{0}",
        rhs_contracting_dims="{0}",
    )
    assert (a.shape, a.stride) == ((64, 512), (1, 64))
    assert (b.shape, b.stride) == ((512, 128), (128, 1))
    assert (c.shape, c.stride) == ((64, 128), (128, 1))


def test_batches_and_joined_dimensions() -> None:
    a, b, c = _dot(
        Array("float32", (8, 16, 32, 64), (3, 2, 1, 0)),
        Array("float32", (8, 64, 10), (2, 1, 0)),
        Array("float32", (8, 16, 32, 10), (3, 2, 1, 0)),
        lhs_batch_dims="{0}",
        rhs_batch_dims="{0}",
        lhs_contracting_dims="{3}",
        rhs_contracting_dims="{1}",
    )
    assert (a.shape, b.shape, c.shape) == ((8, 512, 64), (8, 64, 10), (8, 512, 10))
    assert a.stride == (16 * 32 * 64, 64, 1)


FUSION = """\
HloModule jit_f, is_scheduled=true

%gemm (p0: f32[M,4096], p1: bf16[4096,4096]) -> bf16[M,4096] {
  %p0 = f32[M,4096]{1,0} parameter(0)
  %p1 = bf16[4096,4096]{1,0} parameter(1)
  %h = bf16[M,4096]{1,0} convert(%p0)
  ROOT %d = bf16[M,4096]{1,0} dot(%h, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (a: f32[M,4096], b: bf16[4096,4096]) -> bf16[M,4096] {
  %a = f32[M,4096]{1,0} parameter(0)
  %b = bf16[4096,4096]{1,0} parameter(1)
  ROOT %r = bf16[M,4096]{1,0} fusion(%a, %b), kind=kCustom, calls=%gemm
}
"""


def _names(rows: int, columns: int) -> list[str]:
    text = FUSION.replace("[M,4096]{1,0} dot", f"[{rows},{columns}]{{1,0}} dot")
    text = text.replace("4096,4096", f"4096,{columns}").replace("M,", f"{rows},")
    module = parse(text)
    walk, entry = Walk(module), module.computations["main"]
    for each in entry.parameters:
        walk.values[each.name] = (Value(each.array, walk.buffer(each.array.nbytes, "input", "")),)
    walk.run(entry)
    return [op.name for op in walk.ops]


def test_a_conversion_runs_apart_from_a_large_product_alone() -> None:
    # 2 M 4096 N FLOPs for the 6 M 4096 bytes of a conversion: N / 3 a byte, whatever M.
    assert _names(8192, 4096) == ["gpuscope::fused", "aten::mm"]
    assert _names(8192, 1024) == ["aten::mm"]
    assert _names(8, 4096) == ["gpuscope::fused", "aten::mm"]


def test_work_is_that_of_the_code() -> None:
    made = program("sharded")
    products = [op for op in made.ops if op.name in ("aten::mm", "aten::bmm")]
    flops = sum(2 * op.inputs[0].numel * op.inputs[1].shape[-1] for op in products)
    assert flops == 2 * 2 * 2048 * 1024 * 512  # forward and the weight's gradient, half the rows
