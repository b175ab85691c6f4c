"""Matrix products: fusions around a `dot`, and calls of cuBLAS.

XLA makes a fusion of each product with what it can take in (openxla/xla
`xla/service/gpu/transforms/gemm_fusion.cc`) and tries out on the GPU whether its Triton kernel or
cuBLAS, with the rest in kernels of their own, is quicker (`xla/backends/gpu/autotuner`). Here the
product is costed as the library's, and what a large one had taken in as a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from gpuscope.program.jax.hlo import Array, Computation, Instruction
from gpuscope.program.jax.walk import Value, Walk, instruction
from gpuscope.program.types import FUSED, TensorSpec

__all__ = ["dot_specs", "fused_product"]

_APART = {"float32": 300.0}
_APART_HALF = 600.0
"""FLOPs of a product for each byte that kernels of their own would move for what it had taken in,
from which cuBLAS with those kernels is taken to win against a Triton kernel of the whole: that one
is taken to need a quarter longer for the product, at 650 TFLOP/s (TF32: 325) and 4 TB/s. The same
balance holds within a third on other NVIDIA GPUs. A judgement."""

_LIGHT = frozenset(
    (
        "parameter constant bitcast get-tuple-element tuple dot transpose copy reshape broadcast "
        "slice dynamic-slice"
    ).split()
)
"""What a library's product does on its way: it reads a matrix in any order."""


def fused_product(walk: Walk, given: Instruction, body: Computation) -> None:
    """A fusion that holds a product."""
    dot = next(each for each in body.instructions if each.opcode in ("dot", "scaled-dot"))
    operands = dict(
        zip((each.name for each in body.parameters), walk.operands(given), strict=False)
    )
    by_name = body.by_name
    sides = [_source(by_name, name, operands) for name in dot.operands[:2]]
    results = walk.result(given)
    rest = [each for each in body.instructions if _later(body, dot, each)]
    chains = [_chain(by_name, name) for name in dot.operands[:2]]
    apart = _apart(by_name, dot, chains, sides, results if rest else ())
    left, right = (
        _prepared(walk, by_name[name].array, name, chain if apart else [], side)
        for name, chain, side in zip(dot.operands[:2], chains, sides, strict=True)
    )
    split = bool(rest) and apart
    into = walk.buffer(0, "temporary", "dot") if split else results[0].storage
    made = Value(dot.array if split else replace(dot.array, dtype=results[0].array.dtype), into)
    a, b, c = dot_specs(dot, left, right, made)
    walk.emit("aten::bmm" if len(c.shape) == 3 else "aten::mm", (a, b), (c,), _arguments(dot))
    if split:
        others = [v.spec for v in operands.values() if v not in sides]
        _epilogue(walk, given, rest, [made.spec, *others], [each.spec for each in results])


def _apart(
    by_name: Mapping[str, Instruction],
    dot: Instruction,
    chains: Sequence[list[str]],
    sides: Sequence[Value | None],
    results: Sequence[Value],
) -> bool:
    """Whether what a product has taken in is taken to run in kernels of its own."""
    moved = 2.0 * dot.array.nbytes if results else 0.0
    for name, chain, side in zip(dot.operands, chains, sides, strict=False):
        if chain and side is not None:
            moved += side.array.nbytes + by_name[name].array.nbytes
    if not moved:
        return False
    left = by_name[dot.operands[0]].array
    depth = prod(left.shape[d] for d in dot.integers("lhs_contracting_dims"))
    return 2.0 * dot.array.numel * depth > moved * _APART.get(left.dtype, _APART_HALF)


def _chain(by_name: Mapping[str, Instruction], name: str) -> list[str]:
    """What is computed between the fusion's operand and a side of its product."""
    found, at = [], by_name[name]
    while at.operands:
        found.append(at.opcode)
        at = by_name[at.operands[0]]
    return [opcode for opcode in found if opcode not in _LIGHT]


def _source(by_name: dict[str, Instruction], name: str, operands: dict[str, Value]) -> Value | None:
    """The fusion's operand that a side of the product comes from, where it is one."""
    while name not in operands:
        given = by_name.get(name)
        if given is None or not given.operands:
            return None
        name = given.operands[0]
    return operands[name]


def _prepared(walk: Walk, side: Array, name: str, chain: list[str], source: Value | None) -> Value:
    """A side of the product in memory: as it is, or written by a kernel of its own."""
    if not chain or source is None:
        return Value(side, -1 if source is None else source.storage)
    written = Value(side, walk.buffer(0, "temporary", "operand"))
    walk.emit(FUSED, [source.spec], [written.spec], _elementwise(name, chain, side.numel))
    return written


def _later(body: Computation, dot: Instruction, each: Instruction) -> bool:
    """Whether an instruction computes with the product's result."""
    if each.opcode in _LIGHT or each is dot:
        return False
    by_name, seen, names = body.by_name, set[str](), list(each.operands)
    while names:
        name = names.pop()
        if name == dot.name:
            # A result in a narrower format is the product's own.
            return not (each.opcode == "convert" and each.root)
        if name in by_name and name not in seen:
            seen.add(name)
            names += by_name[name].operands
    return False


def _epilogue(
    walk: Walk,
    given: Instruction,
    rest: list[Instruction],
    inputs: list[TensorSpec],
    outputs: list[TensorSpec],
) -> None:
    names = [each.opcode for each in rest]
    rows = max(spec.numel for spec in outputs)
    walk.emit(FUSED, inputs, outputs, _elementwise(given.name, names, rows))


def _elementwise(name: str, operators: list[str], rows: int) -> dict[str, object]:
    return {
        "kernel": name,
        "emitter": "loop",
        "operators": tuple(operators),
        "count": max(1, len(operators)),
        "rows": max(1, rows),
        "columns": 1,
        "reduction": "",
        "splits": 1,
        "finals": 0,
        "passes": 1,
    }


def _arguments(dot: Instruction) -> dict[str, object]:
    precision = dot.attributes.get("operand_precision", "")
    return {"precision": "highest"} if "highest" in precision else {}


def dot_specs(
    dot: Instruction, left: Value, right: Value, made: Value
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    """A product's operands and result as [batch, M, K], [batch, K, N] and [batch, M, N]."""
    batch = (dot.integers("lhs_batch_dims"), dot.integers("rhs_batch_dims"))
    deep = (dot.integers("lhs_contracting_dims"), dot.integers("rhs_contracting_dims"))
    a = _matrix(left, batch[0], deep[0], last=True)
    b = _matrix(right, batch[1], deep[1], last=False)
    many, m, n = prod(left.array.shape[d] for d in batch[0]), a.shape[-2], b.shape[-1]
    shape = (many, m, n) if many > 1 else (m, n)
    column_major = made.array.layout[:1] not in ((), (len(made.array.shape) - 1,))
    stride = (1, m) if column_major and made.array.shape[-1] > 1 else (n, 1)
    c = TensorSpec(
        shape, (m * n, *stride) if many > 1 else stride, made.array.dtype, storage=made.storage
    )
    return a, b, c


def _matrix(
    side: Value, batch: tuple[int, ...], deep: tuple[int, ...], *, last: bool
) -> TensorSpec:
    """One side as a matrix, its summed dimension last or first."""
    array = side.array
    free = [d for d in range(len(array.shape)) if d not in batch and d not in deep]
    stride = array.stride

    def joined(dimensions: tuple[int, ...]) -> tuple[int, int]:
        sizes = [(stride[d], array.shape[d]) for d in dimensions if array.shape[d] > 1]
        return prod(array.shape[d] for d in dimensions), min(sizes)[0] if sizes else 1

    outer, inner = joined(tuple(free)), joined(deep)
    pair = (outer, inner) if last else (inner, outer)
    many, step = joined(batch)
    shape = tuple(each[0] for each in pair)
    steps = tuple(each[1] for each in pair)
    if many > 1:
        shape, steps = (many, *shape), (step, *steps)
    return TensorSpec(shape, steps, array.dtype, storage=side.storage)


@instruction("dot")
def bare(walk: Walk, given: Instruction) -> None:
    """A product by itself: a vector's, which XLA sums in a kernel of its own."""
    left, right = walk.operands(given)[:2]
    (made,) = walk.result(given)[:1]
    a, b, c = dot_specs(given, left, right, made)
    walk.emit("aten::bmm" if len(c.shape) == 3 else "aten::mm", (a, b), (c,), _arguments(given))


@instruction("__cublas$")
def library(walk: Walk, given: Instruction) -> None:
    """A call of cuBLAS or cuBLASLt, with its epilogue (`transforms/gemm_rewriter.cc`)."""
    config = given.config.get("gemm_backend_config", {})
    numbers = config.get("dot_dimension_numbers", {})

    def written(name: str) -> str:
        return "{" + ",".join(map(str, numbers.get(name, ()))) + "}"

    attributes = {
        "lhs_batch_dims": written("lhs_batch_dimensions"),
        "rhs_batch_dims": written("rhs_batch_dimensions"),
        "lhs_contracting_dims": written("lhs_contracting_dimensions"),
        "rhs_contracting_dims": written("rhs_contracting_dimensions"),
    }
    dot = Instruction(given.name, "dot", given.arrays[:1], given.operands[:2], attributes)
    left, right, *others = walk.operands(given)
    made = walk.result(given)
    a, b, c = dot_specs(dot, left, right, made[0])
    walk.emit(
        "aten::bmm" if len(c.shape) == 3 else "aten::mm",
        (a, b, *(each.spec for each in others)),
        (c, *(each.spec for each in made[1:])),
    )
